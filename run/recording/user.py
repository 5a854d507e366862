"""The user's own clients, as a file of client properties describes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.cluster.client_config import read_client_config
from harness.cluster.client_settings import CONSUMER, PRODUCER, check_client, is_of_client
from harness.cluster.librdkafka_names import in_java_names
from harness.errors import quoted, some
from harness.kafka.security import PLAINTEXT, ClientSecurity
from run.clients import NO_CLIENTS, UserClients


def user_clients(file: Path | None, say: Callable[[str], None]) -> tuple[ClientSecurity, UserClients]:
    """How the user's clients reach the cluster, and their settings. Raises UsageError.

    ``say`` is told which properties no client has.
    """
    if file is None:
        return PLAINTEXT, NO_CLIENTS
    config = read_client_config(file)
    if ignored := [key for key in config.settings if not is_of_client(key)]:
        names = some([quoted(key, 40) for key in ignored])
        say(f"{file}: ignored {names}, because no client of Kafka has such a property")
    settings = in_java_names(config.settings)
    producer = {key: one for key, one in settings.items() if key in PRODUCER}
    consumer = {key: one for key, one in settings.items() if key in CONSUMER}
    return config.security, UserClients(
        producer=check_client("producer", producer), consumer=check_client("consumer", consumer)
    )

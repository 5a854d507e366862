"""The final dump: every replica's own log, read to its log end offset and written as Parquet.

Memory does not grow with the logs (`harness.observer.copies`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa

from harness.errors import UnfitError, WaitTimeoutError
from harness.history.schema import TABLES
from harness.history.tables import write_table
from harness.kafka.model import PartitionState, TopicPartition
from harness.kafka.wire.admin import describe_configs
from harness.kafka.wire.dialect import MODERN, Dialect
from harness.observer.copies import Copies
from harness.observer.decoder import Decoder, HeaderReader
from harness.observer.replica_log import ReplicaLog, read_broker
from harness.observer.targets import Node
from harness.waiting import wait_until

CATCH_UP_S = 5.0
"""How long followers in the ISR may take to fetch what a leader appends while the logs are being read."""


def final_dump(
    run_dir: Path,
    brokers: Sequence[Node],
    assignment: Mapping[TopicPartition, Collection[int]],
    states: Mapping[TopicPartition, PartitionState],
    *,
    dialect: Dialect = MODERN,
    stopped: Collection[str] = (),
    within_s: float = CATCH_UP_S,
    decoder: Decoder | None = None,
    watched: Mapping[TopicPartition, range] = MappingProxyType({}),
) -> tuple[ReplicaLog, ...]:
    """Read every replica in ``assignment`` and write `copies` and `replicas`; brokers are read in parallel.

    ``states`` are the final states of the partitions; if one is missing there, its leader and ISR are not
    known. If a broker does not answer, its replicas are read from its files, where there are any, and marked
    as incomplete. If it is ``stopped`` (its process has ended), they count as complete.

    A busy broker may append a request whose client has already ended. Partitions whose in-sync replicas end
    at different offsets are therefore read again, for up to ``within_s`` seconds. A replica that still ends
    earlier then is written as it is. Of ``watched`` partitions, which others go on writing, the batches in a
    range of offsets are read once.

    A ``decoder`` that is given is closed by its owner.
    """
    copies = Copies(run_dir, decoder or (HeaderReader() if watched else Decoder()))
    running = {broker.node_id for broker in brokers if broker.name not in stopped}

    def read(broker: Node, partitions: Iterable[TopicPartition]) -> list[ReplicaLog]:
        assigned = sorted(key for key in partitions if broker.node_id in assignment[key])
        ended = broker.name in stopped
        if not assigned:
            return []
        return read_broker(broker, assigned, dialect, copies, stopped=ended, watched=watched)

    def read_all(partitions: Iterable[TopicPartition]) -> dict[tuple[TopicPartition, int], ReplicaLog]:
        logs = chain.from_iterable(pool.map(partial(read, partitions=tuple(partitions)), brokers))
        return {(log.topic_partition, log.broker): log for log in logs}

    def read_again() -> list[TopicPartition]:
        replica_logs.update(read_all(_uneven(replica_logs.values(), states, running)))
        return _uneven(replica_logs.values(), states, running)

    with nullcontext() if decoder else closing(copies), ThreadPoolExecutor(max(1, len(brokers))) as pool:
        replica_logs = read_all(assignment)
        if _uneven(replica_logs.values(), states, running):
            with suppress(WaitTimeoutError):  # what remains is a finding
                wait_until(
                    read_again,
                    accept=lambda uneven: not uneven,
                    within_s=within_s,
                    awaiting="the in-sync replicas to end at the same offset",
                    poll_s=0.2,
                )
    replicas = tuple(replica_logs.values())
    copies.finish()
    cleanup = cleanup_policies(brokers, {key.topic for key in assignment}, dialect)
    rows = [
        replica_row(log, states.get(log.topic_partition), cleanup.get(log.topic_partition.topic))
        for log in replicas
    ]
    write_table(run_dir, "replicas", pa.Table.from_pylist(rows, schema=TABLES["replicas"].arrow()))
    return replicas


def _uneven(
    replicas: Iterable[ReplicaLog],
    states: Mapping[TopicPartition, PartitionState],
    running: Collection[int],
) -> list[TopicPartition]:
    """Partitions whose in-sync replicas on running brokers were read to different ends."""
    ends: dict[TopicPartition, set[int | None]] = {}
    for log in replicas:
        state = states.get(log.topic_partition)
        whole = log.complete and log.watched_from is None
        if state is not None and whole and log.broker in running and log.broker in state.isr:
            ends.setdefault(log.topic_partition, set()).add(log.leo)
    return sorted(key for key, distinct_ends in ends.items() if len(distinct_ends) > 1)


def cleanup_policies(brokers: Sequence[Node], topics: Iterable[str], dialect: Dialect) -> dict[str, str]:
    """The policy of each topic, from the first broker that knows it."""
    policies: dict[str, str] = {}
    unanswered = sorted(topics)
    for broker in brokers:
        for topic in unanswered:
            try:
                config = describe_configs(broker.endpoint, "topic", topic, dialect=dialect)
            except UnfitError:
                return {}
            except LookupError:
                continue
            except OSError:
                break
            policies[topic] = config.get("cleanup.policy") or ""
        unanswered = [topic for topic in unanswered if topic not in policies]
    return policies


def replica_row(log: ReplicaLog, state: PartitionState | None, cleanup: str | None) -> dict[str, object]:
    """A row of `replicas`; ``cleanup`` is the topic's cleanup.policy."""
    epochs = log.epochs
    return {
        **log.topic_partition._asdict(),
        "broker": log.broker,
        "complete": log.complete,
        "ns": log.ns,
        "leo": log.leo,
        "high_watermark": log.high_watermark,
        "last_stable_offset": log.last_stable_offset,
        "log_start": log.log_start,
        "watched_from": log.watched_from,
        "size_bytes": log.size_bytes,
        "leader": None if state is None else state.leader == log.broker,
        "in_sync": None if state is None else log.broker in state.isr,
        "epochs": None if epochs is None else [{"epoch": e, "start_offset": start} for e, start in epochs],
        "aborted": None
        if log.aborted is None
        else [{"producer_id": producer, "first_offset": first} for producer, first in log.aborted],
        "cleanup": cleanup,
        "error": log.error,
    }

"""A container taken off its network by the engine, and put back at the same address."""

from __future__ import annotations

from docker import APIClient
from docker.errors import APIError

from harness.errors import LabError
from harness.lab.docker.engine import explain
from harness.lab.model import Host


def disconnect(api: APIClient, container: str, network: str) -> None:
    """Take the container off the network, if it is on it. Raises LabError with what the engine said."""
    if not _connected(api, container, network):
        return
    try:
        api.disconnect_container_from_network(container, network)
    except APIError as error:
        raise LabError(f"A container could not be taken off {network}: {explain(error)}") from error


def connect(api: APIClient, container: str, network: str, host: Host) -> None:
    """Put the container of ``host`` back on the network, with its address and its name.

    The engine would choose another address if none was named, and would forget the name that Compose gave.
    """
    if _connected(api, container, network):
        return
    try:
        api.connect_container_to_network(container, network, ipv4_address=host.address, aliases=[host.name])
    except APIError as error:
        raise LabError(f"{host.name} could not be put back on {network}: {explain(error)}") from error


def _connected(api: APIClient, container: str, network: str) -> bool:
    return network in api.inspect_container(container)["NetworkSettings"]["Networks"]

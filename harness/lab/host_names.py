"""Names of hosts whose address can change, as behind DNS: a broker advertises its name, not its address.

A host with a name has an address for it, besides the one by which the harness reaches it. All processes of a
run look names up in one hosts file, which hides the machine's own in the run's mount namespace.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.errors import LabError, UnfitError
from harness.lab.model import Lab

HOSTS_FILE = "hosts"
"""In the run's folder: a line with address and name for each host that has a name."""


def give_names(lab: Lab, hosts: Sequence[str]) -> None:
    """Give each of these hosts, once the lab is up, an address that its own name means.

    Raises UnfitError in a lab whose processes do not share this machine's mount namespace.
    """
    if not hosts:
        return
    if not lab.shares_files:
        raise UnfitError(
            f"{hosts[0]} cannot have a name: only the embedded lab can say what names mean, and this is the "
            f"{lab.kind} lab."
        )
    from harness.lab.embedded.namespaces import own_hosts_file

    addresses: dict[str, str] = {}
    for host in hosts:
        addresses[host] = _unused(lab, addresses.values())
        _ip(lab, host, "add", addresses[host])
    _write(lab, addresses)
    own_hosts_file(lab.run_dir / HOSTS_FILE)


def address_of(lab: Lab, host: str) -> str | None:
    """What the name of a host means; None if it has no name."""
    return _read(lab).get(host)


def named(lab: Lab) -> tuple[str, ...]:
    """The hosts that have names."""
    return tuple(_read(lab))


def move(lab: Lab, host: str) -> str:
    """Let the name of a host mean another address of it, and take the old one away; returns the new one."""
    addresses = _read(lab)
    new = _unused(lab, addresses.values())
    _ip(lab, host, "del", addresses[host])
    _ip(lab, host, "add", new)
    _write(lab, {**addresses, host: new})
    return new


def owned(lab: Lab, host: str) -> tuple[str, ...]:
    """The IPv4 addresses that the interface of a host has."""
    words = lab.execute(host, ["ip", "-o", "-4", "addr", "show", "dev", "eth0"]).stdout.split()
    return tuple(
        word.partition("/")[0] for before, word in zip(words, words[1:], strict=False) if before == "inet"
    )


def _path(lab: Lab) -> Path:
    return lab.run_dir / HOSTS_FILE


def _read(lab: Lab) -> dict[str, str]:
    try:
        lines = _path(lab).read_text().splitlines()
    except FileNotFoundError:
        return {}
    pairs = (line.split() for line in lines)
    return {name: address for address, name in pairs if name != "localhost"}


def _write(lab: Lab, addresses: dict[str, str]) -> None:
    """In place, because the file is mounted; lines have a fixed length, so that nobody reads half of one."""
    lines = ["127.0.0.1 localhost", *(f"{address:<15} {name}" for name, address in addresses.items())]
    path = _path(lab)
    with path.open("r+" if path.exists() else "w") as file:
        file.write("\n".join(lines) + "\n")


def _unused(lab: Lab, taken: Iterable[str]) -> str:
    """The highest address of the lab's network that nobody has."""
    topology = lab.topology
    used = {topology.observer_address, *(host.address for host in topology.hosts), *taken}
    network = ipaddress.ip_network(f"{topology.observer_address}/24", strict=False)
    return next(str(one) for one in reversed(list(network.hosts())) if str(one) not in used)


def _ip(lab: Lab, host: str, verb: str, address: str) -> None:
    done = lab.execute(host, ["ip", "addr", verb, f"{address}/24", "dev", "eth0"])
    if done.status:
        raise LabError(
            f"`ip addr {verb} {address}` in {host} ended with status {done.status}: {done.stderr.strip()}."
        )

"""The reachability matrix: which calls to probe, and what the result must be while links are cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from harness.lab.model import SERVICES, Host, Topology
from nemesis.network.links import Link

CLOSED_PORT = 7
"""Probed on hosts without a listener: their kernel refuses the connection, and a refusal is an answer too."""

_CALLED_BY = {
    "kafka": ("broker", "client"),
    "controller": ("broker", "controller"),
    "zookeeper": ("broker", "zookeeper", "client"),
    "zookeeper-peer": ("zookeeper",),
}
FRAGILE_PORTS = SERVICES["zookeeper-peer"]
"""A ZooKeeper node reads from these with blocking calls and logs an error for each silent connection, so they
are probed half-open, and no connection is held there."""

NEW_ALIVE = ("open", "refused")


@dataclass(frozen=True, order=True)
class Call:
    """A connection that ``caller`` opens to a port of ``callee``; the matrix has one row per call."""

    caller: str
    callee: str
    port: int

    def __str__(self) -> str:
        return f"{self.caller} -> {self.callee}:{self.port}"


@dataclass(frozen=True)
class ProbeResult:
    """State of each call that was probed: of new connections, and of held ones where there are any."""

    new: Mapping[Call, str]
    held: Mapping[Call, str]

    def alive(self) -> set[Call]:
        """Calls whose new connection received any answer."""
        return {call for call, state in self.new.items() if state in NEW_ALIVE}


def calls(topology: Topology, named: Iterable[Link] = ()) -> tuple[Call, ...]:
    """Every pair of hosts at least once, every service that one calls on the other, and ``named`` links."""
    calls: set[Call] = set()
    for caller in topology.hosts:
        for callee in topology.hosts:
            if caller.name != callee.name:
                ports = list(_called(caller, callee)) or [CLOSED_PORT]
                calls.update(Call(caller.name, callee.name, port) for port in ports)
    for link in named:
        ports = [link.port] if link.port else [*topology.host(link.destination).ports] or [CLOSED_PORT]
        calls.update(Call(link.source, link.destination, port) for port in ports)
    return tuple(sorted(calls))


def may_hold(call: Call, fragile: tuple[int, ...] = FRAGILE_PORTS) -> bool:
    """Whether a connection of this call may be held open without harm."""
    return call.port not in (*fragile, CLOSED_PORT)


def blocked(links: Iterable[Link], call: Call) -> bool:
    """Whether the call cannot work while ``links`` are cut."""
    return any(link.blocks(call.caller, call.callee, call.port) for link in links)


def still_alive(result: ProbeResult, links: Iterable[Link], *, refused: bool = False) -> dict[str, str]:
    """Calls that ``links`` should have killed but did not; empty if the cut has its effect.

    Maps a phrase for each such call to its link, ``broker1 -> broker2``.

    With ``refused``, links were cut with a reset, so silence is wrong where a reset must come.
    """
    cut = tuple(links)
    tried = {(call.caller, call.callee) for call in result.new}
    problems = {
        f"{link} was never tried": f"{link.source} -> {link.destination}"
        for link in cut
        if (link.source, link.destination) not in tried
    }
    for call, state in sorted(result.new.items()):
        if not blocked(cut, call):
            continue
        link = f"{call.caller} -> {call.callee}"
        direct = any((one.source, one.destination) == (call.caller, call.callee) for one in cut)
        if refused and direct and state == "silent":
            problems[f"{call} times out instead of being refused"] = link
        elif state == "open" or (state == "refused" and not refused):
            problems[f"{call} still answers ({state})"] = link
    for call, state in sorted(result.held.items()):
        if blocked(cut, call) and state == "alive":
            phrase = f"the connection {call} that stood before the cut still carries data"
            problems[phrase] = f"{call.caller} -> {call.callee}"
    return problems


def wrongly_dead(before: set[Call], result: ProbeResult, links: Iterable[Link]) -> list[Call]:
    """Calls that lived before, are cut by none of ``links``, and get no answer now."""
    cut = tuple(links)
    alive = result.alive()
    return sorted(call for call in before & result.new.keys() if call not in alive and not blocked(cut, call))


def _called(caller: Host, callee: Host) -> Iterator[int]:
    """The ports that one host calls on another."""
    for service, ports in callee.services.items():
        if caller.role in _CALLED_BY.get(service, ()):
            yield from ports

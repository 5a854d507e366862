"""The links that a fault cuts: directed, between hosts, optionally limited to the port of a service.

* ``a -> b`` drops every packet that a sends to b. No TCP connection between the two survives, whoever opened
  it, but what b sends still arrives at a.
* ``a -> b:kafka`` (or ``a -> b:9092``) stops a from *calling* that port of b: the packets of such connections
are dropped in both directions, and b can still call a.
* ``a <-> b`` is both directions, also with a service.

Either side is a pattern of `Topology.select`: a host, an AZ, a role's plural, a glob, or `clients@az1`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from harness.errors import UsageError
from harness.lab.model import SERVICES, Host, Topology

_SHAPE = re.compile(r"^\s*(?P<left>\S+)\s*(?P<arrow><->|->|<-)\s*(?P<right>[^\s:]+)(:(?P<service>\S+))?\s*$")


@dataclass(frozen=True, order=True)
class Link:
    """One directed link between two hosts, by name; ``port`` limits it to calls of that TCP port."""

    source: str
    destination: str
    port: int | None = None

    def __str__(self) -> str:
        return f"{self.source} -> {self.destination}" + (f":{self.port}" if self.port else "")

    def blocks(self, caller: str, callee: str, port: int) -> bool:
        """A connection that ``caller`` opens to ``port`` of ``callee`` cannot live while this link is cut."""
        if (self.source, self.destination) == (caller, callee):
            return self.port in (None, port)
        # A lost response kills a connection just as a lost request does.
        return (self.destination, self.source) == (caller, callee) and self.port is None


@dataclass(frozen=True, order=True, kw_only=True)
class Connection:
    """A TCP connection between two hosts, by name."""

    client: str
    """The host that opened it."""
    client_port: int
    """The port that the client's kernel chose."""
    server: str
    """The host that accepted it."""
    server_port: int
    """The port of the service."""

    def __str__(self) -> str:
        return f"{self.client}:{self.client_port} -> {self.server}:{self.server_port}"


Ports = Callable[[Host], Iterable[int | None]]
"""The ports of a destination that links are limited to; None: all of its packets."""


def every_port(_: Host) -> tuple[None]:
    """Links that are not limited to ports."""
    return (None,)


def ports_of(service: str) -> Ports:
    """The ports of hosts at which a service listens, by its name or number.

    Raises UsageError with the known names.
    """
    if service in SERVICES:
        return lambda host: host.services.get(service, ())
    if service.isdigit() and 0 < int(service) < 65536:
        return lambda host: [port for port in host.ports if port == int(service)]
    services = ", ".join(f"{name} ({'/'.join(map(str, ports))})" for name, ports in SERVICES.items())
    raise UsageError(f"{service!r} is neither a service nor a port; services are {services}.")


def parse(topology: Topology, text: str) -> tuple[Link, ...]:
    """The links named by ``text``, for example `az1 <-> az2` or `broker1 -> zookeepers:2181`.

    Several cuts are separated by commas. Raises UsageError when any of them names no link at all.
    """
    links: list[Link] = []
    for part in text.split(","):
        match = _SHAPE.match(part)
        if match is None:
            raise UsageError(
                f"{part.strip()!r} is not a cut; write `source -> destination` or `one <-> other`, "
                f"and to cut one service only, add it after a colon: `broker1 -> zookeepers:2181`."
            )
        left, right = topology.select(match["left"]), topology.select(match["right"])
        arrow, ports = match["arrow"], ports_of(match["service"]) if match["service"] else every_port
        between: tuple[Link, ...] = ()
        if arrow in ("->", "<->"):
            between += _between(left, right, ports)
        if arrow in ("<-", "<->"):
            between += _between(right, left, ports)
        if not between:
            raise UsageError(
                f"The cut {part.strip()!r} names no link of this lab: its ends are the same host, or no "
                f"host at its destination listens on that port."
            )
        links.extend(between)
    return ordered(links)


def ends(*texts: str) -> list[dict[str, object]]:
    """The ends of cuts as `parse` reads them: ``from``, ``to`` (with its service), and whether ``both`` ways.

    They are what a cut was asked for, as data for the history; `parse` makes the links of it.
    """
    cuts: list[dict[str, object]] = []
    for part in ",".join(texts).split(","):
        match = _SHAPE.match(part)
        if match is not None:
            service = f":{match['service']}" if match["service"] else ""
            one, other = match["left"], match["right"] + service
            start, end = (other, one) if match["arrow"] == "<-" else (one, other)
            cuts.append({"from": start, "to": end, "both": match["arrow"] == "<->"})
    return cuts


def ordered(links: Iterable[Link]) -> tuple[Link, ...]:
    """Each link once, in a fixed order."""
    return tuple(sorted(set(links), key=lambda link: (link.source, link.destination, link.port or 0)))


def between(left: Iterable[Host], right: Iterable[Host]) -> tuple[Link, ...]:
    """All links between two groups of hosts, in both directions."""
    one, other = tuple(left), tuple(right)
    return ordered(_between(one, other, every_port) + _between(other, one, every_port))


def isolate(topology: Topology, pattern: str) -> tuple[Link, ...]:
    """All links between the hosts of ``pattern`` (an AZ, a host, `clients@az1`) and all other hosts."""
    inner = topology.select(pattern)
    outer = [host for host in topology.hosts if host not in inner]
    if not outer:
        raise UsageError(f"{pattern!r} means every host of the lab, so there is nothing to isolate it from.")
    return between(inner, outer)


def halves(topology: Topology, *groups: str) -> tuple[Link, ...]:
    """All links between groups of hosts (each group is a comma-separated list of patterns)."""
    sides = [_group(topology, group) for group in groups]
    links: list[Link] = []
    for index, side in enumerate(sides):
        for other in sides[index + 1 :]:
            links.extend(between(side, other))
    if not links:
        raise UsageError(f"{', '.join(groups) or 'nothing'}: name at least two groups that differ.")
    return ordered(links)


def bridge(topology: Topology, over: str, left: str, right: str) -> tuple[Link, ...]:
    """All links between two halves; one host or AZ (``over``) keeps its links to both."""
    spared = topology.select(over)
    sides = [[h for h in _group(topology, side) if h not in spared] for side in (left, right)]
    return between(*sides)


def ring(topology: Topology, *groups: str, calls_only: bool = True) -> tuple[Link, ...]:
    """Each group reaches only its neighbours in the ring.

    With ``calls_only``, a group can call the next one but not the previous one, so a ring needs three groups.
    Without it, neighbours reach each other both ways, and a ring needs four groups to cut anything.
    """
    sides = [_group(topology, group) for group in groups]
    count = len(sides)
    if count < (3 if calls_only else 4):
        raise UsageError(f"A ring of {count} groups cuts nothing; use at least {3 if calls_only else 4}.")
    near = (1,) if calls_only else (1, count - 1)
    links: list[Link] = []
    for index, side in enumerate(sides):
        for step in range(1, count):
            if step in near:
                continue
            other = sides[(index + step) % count]
            if calls_only:
                links.extend(_between(side, other, lambda host: host.ports))
            else:
                links.extend(_between(side, other, every_port))
    return ordered(links)


def zookeeper_of(topology: Topology, pattern: str) -> tuple[Link, ...]:
    """The links from brokers to every ZooKeeper node, including the one in their own AZ."""
    return parse(topology, f"{pattern} -> zookeepers:zookeeper")


def _group(topology: Topology, text: str) -> list[Host]:
    return [host for pattern in text.split(",") for host in topology.select(pattern.strip())]


def _between(sources: Iterable[Host], destinations: Iterable[Host], ports: Ports) -> tuple[Link, ...]:
    targets = tuple(destinations)
    return tuple(
        Link(source.name, target.name, port)
        for source in sources
        for target in targets
        for port in ports(target)
        if source.name != target.name
    )

"""Firewall rules of links, as text: nothing here touches a kernel.

Every fault has its own chain on each host that it affects. The chain comes first in INPUT, so established
connections die too. Several faults compose: healing one removes no rule of another fault, of the container
engine or of anybody else. Packets are dropped where they arrive, as over a dead link. A drop in the sender's
OUTPUT would tell its TCP that the packet never left, and TCP would try again every 0.2 s instead of backing
off.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from harness.errors import UsageError
from harness.lab.model import Host, Topology
from nemesis.network.links import Connection, Link

CHAIN_PREFIX = "ACKED-"
CLOCK_RULE = "-m time --datestart"
"""How the rule of a chain begins from whose time on the kernel leaves the chain at once (xt_time, UTC)."""
_CHAIN_LENGTH_LIMIT = 28
CutAction = Literal["drop", "reject"]
Hook = Literal["INPUT", "OUTPUT"]
CLASS_MINOR = "acd"
"""The minor number of the class that packets are assigned to; with it, acked knows a class as its own."""


@dataclass(frozen=True)
class ChainRule:
    """One line of the chain; with ``link``, it must count the packets of a probe of that link."""

    text: str
    link: Link | None = None


@dataclass(frozen=True)
class Ruleset:
    """The rules of one fault, by host name, in the order of the chain."""

    chain: str
    title: str
    rules: Mapping[str, tuple[ChainRule, ...]]
    at: Hook = "INPUT"
    """The built-in chain that jumps into it: for packets that arrive, or that leave."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts that have rules."""
        return tuple(self.rules)

    def load_text(self, host: str, ends: str = "") -> str:
        """Input of `iptables-restore --noflush` that loads the rules of ``host`` atomically.

        ``ends``: from this time on (`2026-11-28T09:50:00`, UTC) they have no effect.
        """
        hook = self.hook
        lines = [f":{self.chain} - [0:0]", f"-I {self.at} 1 {hook}"]
        lines += [f"-A {self.chain} {CLOCK_RULE} {ends} -j RETURN"] if ends else []
        lines += [f"-A {self.chain} {rule.text}" for rule in self.rules[host]]
        return _restore(lines)

    def heal_text(self) -> str:
        """Input of `iptables-restore --noflush` that removes exactly what `load_text` added."""
        hook = self.hook
        return _restore([f"-D {self.at} {hook}", f"-F {self.chain}", f"-X {self.chain}"])

    def hook_words(self) -> tuple[str, ...]:
        """The jump into the chain, as arguments of `iptables`."""
        return ("-m", "comment", "--comment", self.title, "-j", self.chain)

    def packets(self, listing: str) -> list[int]:
        """Packets counted by each rule, in order, from `iptables-save -c`; empty if the chain is missing."""
        lines = [line for line in listing.splitlines() if f" -A {self.chain} " in line]
        return [_packets(line) for line in lines if CLOCK_RULE not in line]

    def ended_by_clock(self, listing: str) -> bool:
        """Whether the kernel has let packets pass because the chain's time is over."""
        return any(
            f" -A {self.chain} {CLOCK_RULE} " in line and _packets(line) for line in listing.splitlines()
        )

    def counts(self, host: str, listing: str) -> dict[Link, int]:
        """Packets counted per probed link."""
        counts: dict[Link, int] = {}
        for rule, packets in zip(self.rules[host], self.packets(listing), strict=False):
            if rule.link is not None:
                counts[rule.link] = counts.get(rule.link, 0) + packets
        return counts

    @property
    def hook(self) -> str:
        """The jump into the chain, as `iptables-save` prints it."""
        return f'-m comment --comment "{self.title}" -j {self.chain}'


def chain_name(run: str, number: int) -> str:
    """Name of the chain of fault ``number``; ``run`` tells runs apart."""
    name = f"{CHAIN_PREFIX}{run}-{number}"
    if len(name) > _CHAIN_LENGTH_LIMIT or not re.fullmatch(r"[A-Za-z0-9-]+", name):
        raise UsageError(
            f"{name!r} cannot name an iptables chain: at most {_CHAIN_LENGTH_LIMIT} letters, digits and "
            f"dashes; use a shorter run name than {run!r}."
        )
    return name


def cut_rules(topology: Topology, chain: str, links: Iterable[Link], action: CutAction = "drop") -> Ruleset:
    """Rules that cut ``links``, each at the hosts at which its packets arrive."""
    if action not in get_args(CutAction):
        actions = " or ".join(get_args(CutAction))
        raise UsageError(f"A link cannot be cut by {action!r}; use {actions}.")
    rules: dict[str, list[ChainRule]] = {}
    for link in links:
        source, destination = topology.host(link.source), topology.host(link.destination)
        match = _match(source.address, destination.address, link.port, "dport")
        rules.setdefault(link.destination, []).extend(_stop(match, action, link))
        if link.port is not None:  # the answers of the service
            match = _match(destination.address, source.address, link.port, "sport")
            rules.setdefault(link.source, []).extend(_stop(match, action))
    return _ruleset(topology, chain, rules)


def loss_rules(topology: Topology, chain: str, links: Iterable[Link], probability: float) -> Ruleset:
    """Rules that drop a share of the packets of ``links`` where they arrive.

    The first rule of each pair only counts packets.
    """
    rules: dict[str, list[ChainRule]] = {}
    for link in links:
        source, destination = topology.host(link.source), topology.host(link.destination)
        match = _match(source.address, destination.address, link.port, "dport")
        rules.setdefault(link.destination, []).extend(
            (
                ChainRule(match),
                ChainRule(
                    f"{match} -m statistic --mode random --probability {probability:.6f} -j DROP", link
                ),
            )
        )
    return _ruleset(topology, chain, rules)


def connection_rules(topology: Topology, chain: str, connections: Iterable[Connection]) -> Ruleset:
    """Rules that drop the packets of single connections where they arrive: one per connection at each end."""
    rules: dict[str, list[ChainRule]] = {}
    for connection in connections:
        client, server = topology.host(connection.client), topology.host(connection.server)
        to_server = f"--sport {connection.client_port} --dport {connection.server_port}"
        to_client = f"--sport {connection.server_port} --dport {connection.client_port}"
        for source, destination, ports in ((client, server, to_server), (server, client, to_client)):
            match = f"{_match(source.address, destination.address, None, '')} -p tcp -m tcp {ports}"
            rules.setdefault(destination.name, []).append(ChainRule(f"{match} -j DROP"))
    return _ruleset(topology, chain, rules)


def classify_rules(topology: Topology, chain: str, hosts: Iterable[Host], to_class: str) -> Ruleset:
    """Rules that assign what ``hosts`` send to other hosts to a class of their interface (`ac01:acd`)."""
    rules: dict[str, list[ChainRule]] = {}
    for host in hosts:
        for other in topology.hosts:
            if other.name != host.name:
                match = _match(host.address, other.address, None, "")
                text = f"{match} -j CLASSIFY --set-class {to_class}"
                rules.setdefault(host.name, []).append(ChainRule(text, Link(host.name, other.name)))
    return _ruleset(topology, chain, rules, "OUTPUT")


def normalised(listing: str) -> tuple[str, ...]:
    """An `iptables-save` listing without the parts that change by themselves, so that two can be compared.

    Left out are comments, counters, and built-in chains that accept (they appear at their first use).
    """
    lines = []
    for line in listing.splitlines():
        text = re.sub(r"^\[\d+:\d+\] ", "", line.strip())
        text = re.sub(r" \[\d+:\d+\]$", "", text)
        if text.startswith(("#", "*", "COMMIT")) or re.fullmatch(r":[A-Z]+ ACCEPT", text) or not text:
            continue
        lines.append(text)
    return tuple(lines)


def foreign(listing: Sequence[str]) -> tuple[str, ...]:
    """The lines of a normalised listing that no fault has made."""
    return tuple(line for line in listing if CHAIN_PREFIX not in line)


def spared(topology: Topology, host: str, at: Hook = "INPUT") -> tuple[ChainRule, ...]:
    """Rules that let pass what belongs to the connections over which the harness commands hosts.

    They come first. A host may also be the harness's own, or the jump host of another one.
    """
    rules: dict[str, ChainRule] = {}
    for other in topology.hosts:
        control = other.control
        if control is None or ":" in control.client + control.server:  # IPv6, which no rule of a fault names
            continue
        serves = other.name == host
        if not serves and control.client != topology.host(host).address:
            continue
        if serves == (at == "INPUT"):
            match = _match(control.client, control.server, control.port, "dport")
        else:
            match = _match(control.server, control.client, control.port, "sport")
        rules[match] = ChainRule(f"{match} -j RETURN")
    return tuple(rules.values())


def _ruleset(
    topology: Topology, chain: str, rules: Mapping[str, Sequence[ChainRule]], at: Hook = "INPUT"
) -> Ruleset:
    with_spared = {host: (*spared(topology, host, at), *lines) for host, lines in rules.items()}
    return Ruleset(chain, f"acked fault {chain}", with_spared, at)


def _stop(match: str, action: CutAction, link: Link | None = None) -> tuple[ChainRule, ...]:
    """Rules that drop or reject what matches; the rule that counts the packets of a probe has ``link``."""
    if action == "drop":
        return (ChainRule(f"{match} -j DROP", link),)
    tcp = match if " -p tcp " in match else f"{match} -p tcp -m tcp"
    return (
        # The reset with which the other end rejects a packet has to arrive.
        ChainRule(f"{tcp} --tcp-flags RST RST -j RETURN"),
        ChainRule(f"{tcp} -j REJECT --reject-with tcp-reset", link),
        ChainRule(f"{match} -j DROP"),
    )


def _match(source: str, destination: str, port: int | None, side: str) -> str:
    text = f"-s {source}/32 -d {destination}/32"
    return text if port is None else f"{text} -p tcp -m tcp --{side} {port}"


def _packets(line: str) -> int:
    return int(line[1 : line.index(":")])


def _restore(lines: list[str]) -> str:
    return "\n".join(["*filter", *lines, "COMMIT", ""])

"""Hosts that send at a limited rate, or late: a queueing discipline on their interface.

A discipline that the kernel lacks raises UnfitError.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from harness.clock import now_ns
from harness.errors import InvalidRunError, UsageError
from harness.lab.model import Host
from nemesis.fault import Evidence, Fault, Targets
from nemesis.network.disciplines import Discipline
from nemesis.network.rules import CLASS_MINOR, Ruleset, classify_rules
from nemesis.proof.reachability import CLOSED_PORT
from nemesis.registry import FaultRegistry
from nemesis.scheduled import Aim, Placement, ScheduledFault

_BURST_BYTES = 16 * 1024


def token_bucket(rate_kbit: float) -> tuple[str, ...]:
    """The discipline that lets pass so many kilobits a second, and keeps nothing longer than 2 s."""
    return ("tbf", "rate", f"{rate_kbit:g}kbit", "burst", str(_BURST_BYTES), "latency", "2s")


class Queue(ScheduledFault, ABC):
    """Hosts whose outgoing packets pass through a queueing discipline until healed.

    In hosts of others these are only the packets to other hosts that acked knows.
    """

    undoable = True
    takes = "hosts"
    lasts = True

    def __init__(
        self, registry: FaultRegistry, title: str, hosts: Sequence[Host], words: tuple[str, ...]
    ) -> None:
        """``words`` are the discipline's arguments for `tc`, ``title`` is the fault's name."""
        self.name = title
        self._context, self._hosts = registry.context, tuple(hosts)
        self._number = registry.next_number()
        lab = registry.lab
        self._discipline = Discipline(
            lab=lab, title=title, number=self._number, words=words, ttl_s=self._context.chains.ttl_s
        )
        self._rules: Ruleset | None = None
        if lab.of_others:
            to_class = f"{self._discipline.root}{CLASS_MINOR}"
            self._rules = classify_rules(registry.topology, registry.next_chain(), self._hosts, to_class)
        self._vanished: tuple[str, ...] = ()

    def targets(self) -> Targets:
        """The hosts, and the discipline."""
        words = " ".join(self._discipline.words)
        return {"hosts": [host.name for host in self._hosts], "discipline": words}

    def inject(self) -> None:
        """Add the discipline to every host's interface. Raises UnfitError if that is not possible."""
        context = self._context
        with context.lock:
            for host in self._hosts:
                self._discipline.add(host)
            if self._rules is not None:
                context.limited[self._number] = (self._rules, self._discipline)
                context.chains.load(self._rules)

    def verify(self) -> Evidence:
        """Measure the effect on each host."""
        with self._context.lock:
            return {**{host.name: self.measure(host) for host in self._hosts}, **self._assigned()}

    def heal(self) -> None:
        """Remove exactly this discipline, and what assigns packets to it."""
        context = self._context
        with context.lock:
            if self._rules is not None and self._number in context.limited:
                self._vanished = context.chains.remove(self._rules)
                del context.limited[self._number]
            for host in self._hosts:
                self._discipline.remove(host.name)

    def verify_healed(self) -> Evidence:
        """Nothing of it is left in any host."""
        if self._vanished:
            raise InvalidRunError(
                f"The rules of {self.name!r} were gone from {', '.join(self._vanished)} before it was healed."
            )
        with self._context.lock:
            if self._rules is not None:
                self._context.check_gone(self.name, self._rules)
            for left in (self._discipline.left(host.name) for host in self._hosts):
                if left:
                    raise InvalidRunError(f"Healing was not complete: {left}.")
        return {}

    @abstractmethod
    def measure(self, host: Host) -> Evidence:
        """Evidence of the effect on a host. Raises InvalidRunError if there is none."""

    def _assigned(self) -> Evidence:
        """Check that packets to every other host pass through the discipline, where rules assign them."""
        if self._rules is None:
            return {}
        topology = self._context.lab.topology
        links = [rule.link for rules in self._rules.rules.values() for rule in rules if rule.link]
        for link in links:
            flood = _flood(topology.host(link.destination).address, count=1)
            self._context.prober.ask({link.source: flood})
        return {"packets": self._context.check_counters(self.name, self._rules, links)}

    def _statistics(self, host: str) -> tuple[int, int]:
        entry = self._discipline.entry(host)
        if entry is None:
            raise InvalidRunError(f"{self.name!r} is not in force in {host}: its discipline is gone.")
        return int(str(entry["bytes"])), int(str(entry["overlimits"]))

    def _other(self, host: Host) -> Host:
        return next(other for other in self._context.lab.topology.hosts if other.az != host.az)


def _flood(address: str, *, count: int) -> dict[str, object]:
    """A request to a probe agent: send datagrams of 1 KiB to a port where nobody listens."""
    return {"op": "flood", "address": address, "port": CLOSED_PORT, "count": count, "size_bytes": 1024}


class Throttle(Queue):
    """Hosts that send at a limited rate."""

    mechanism = "throttle"
    random_roles = ("broker",)
    values = (128.0, 512.0)
    unit = "kbit/s"
    weight = 2
    placements = (
        # About half of what the load of an assessment needs from a leader. At 128 kbit/s the node can only
        # just send it, and chance decides whether a fetch is answered in time: of 24 times without a write or
        # a read, 9 deviated by more than a quarter from the median of five runs. At 64 kbit/s, none did.
        Placement(
            at="node",
            rank=13,
            says="{} slow ({value:g} kbit/s)",
            subject="Slowing {} to {value:g} kbit/s",
            value=64.0,
        ),
    )

    def __init__(self, registry: FaultRegistry, title: str, hosts: Sequence[Host], rate_kbit: float) -> None:
        """At most ``rate_kbit`` kilobits a second, by a token bucket. Raises UsageError below 8."""
        if rate_kbit < 8:
            raise UsageError(
                f"A rate of {rate_kbit:g} kbit/s is not possible; use 8 or more, or cut the link."
            )
        super().__init__(
            registry, f"throttle {title} to {rate_kbit:g} kbit/s", hosts, token_bucket(rate_kbit)
        )
        self._rate_kbit = rate_kbit

    @classmethod
    def at(cls, registry: FaultRegistry, aim: Aim) -> Fault:
        """Of the hosts; the strength is the rate."""
        return cls(registry, ", ".join(host.name for host in aim.hosts), aim.hosts, aim.value)

    def measure(self, host: Host) -> Evidence:
        """Count the bytes that leave."""
        began_ns = now_ns()
        sent_before, over_before = self._statistics(host.name)
        flood = _flood(self._other(host).address, count=4 * _BURST_BYTES // 1024)
        self._context.prober.ask({host.name: flood})
        sent, over = self._statistics(host.name)
        took_s = (now_ns() - began_ns) / 1e9
        most = _BURST_BYTES + self._rate_kbit * 125 * took_s + 2048
        if sent - sent_before > most or over == over_before:
            raise InvalidRunError(
                f"{self.name!r} had no effect: {sent - sent_before} B left {host.name} in {took_s:.2f} s; "
                f"{over - over_before} packets had to wait."
            )
        return {"bytes": sent - sent_before, "seconds": round(took_s, 3), "waited": over - over_before}


class Delay(Queue):
    """Hosts that send late. Needs the kernel's netem."""

    mechanism = "delay"
    values = (50.0, 200.0, 1000.0)
    unit = "ms"
    needs = "netem"
    placements = (
        Placement(
            at="node",
            rank=15,
            says="{} slow (+{value:g} ms)",
            subject="Delaying {} by {value:g} ms",
            value=200.0,
        ),
    )

    def __init__(
        self,
        registry: FaultRegistry,
        title: str,
        hosts: Sequence[Host],
        delay_ms: float,
        jitter_ms: float = 0.0,
    ) -> None:
        """Every packet leaves ``delay_ms`` later, give or take the jitter.

        Raises UsageError for a delay that is not 1 to 10000.
        """
        if not 1 <= delay_ms <= 10_000:
            raise UsageError(f"A delay of {delay_ms:g} ms is not possible; use 1 to 10000.")
        words = ("netem", "delay", f"{delay_ms:g}ms", *((f"{jitter_ms:g}ms",) if jitter_ms else ()))
        super().__init__(registry, f"delay {title} by {delay_ms:g} ms", hosts, words)
        self._least_ms = delay_ms - jitter_ms

    @classmethod
    def at(cls, registry: FaultRegistry, aim: Aim) -> Fault:
        """Of the hosts; the strength is the delay."""
        return cls(registry, ", ".join(host.name for host in aim.hosts), aim.hosts, aim.value)

    def measure(self, host: Host) -> Evidence:
        """Time how long a connection takes to open."""
        target = self._other(host).address
        ask = {"op": "round_trips", "address": target, "port": CLOSED_PORT, "count": 3}
        taken = self._context.prober.ask({host.name: ask})[host.name]["ms"]
        if min(taken) < self._least_ms * 0.9:
            raise InvalidRunError(
                f"{self.name!r} had no effect: a connection from {host.name} took only {min(taken):.1f} ms."
            )
        return {"round_trips_ms": [round(ms, 1) for ms in taken]}

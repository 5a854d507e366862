"""Queueing disciplines: a rate limit or a delay for everything that a host sends.

They belong to a host's only interface, not to a link. A discipline that the kernel lacks raises UnfitError.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence

from harness.clock import now_ns
from harness.errors import InvalidRunError, LabError, UnfitError, UsageError
from harness.lab import expiry
from harness.lab.model import Host
from nemesis.fault import Evidence, Fault, Targets
from nemesis.proof.reachability import CLOSED_PORT
from nemesis.registry import FaultRegistry
from nemesis.scheduled import Aim, Placement, ScheduledFault

_BURST_BYTES = 16 * 1024


class Queue(ScheduledFault, ABC):
    """Hosts whose outgoing packets pass through a queueing discipline until healed."""

    undoable = True
    takes = "hosts"
    lasts = True

    def __init__(
        self, registry: FaultRegistry, title: str, hosts: Sequence[Host], words: tuple[str, ...]
    ) -> None:
        """``words`` are the discipline's arguments for `tc`, ``title`` is the fault's name."""
        self.name = title
        self._context, self._hosts, self._words = registry.context, tuple(hosts), words
        number = registry.next_number()
        self._handle = f"ac{number:02x}:"
        self._tag = f"acked-queue-{number}"
        self._on: dict[str, tuple[str, str]] = {}

    def targets(self) -> Targets:
        """The hosts, and the discipline."""
        words = " ".join(self._words)
        return {"hosts": [host.name for host in self._hosts], "discipline": words}

    def inject(self) -> None:
        """Add the discipline to every host's interface. Raises UnfitError if the kernel lacks it."""
        with self._context.lock:
            for host in self._hosts:
                self._add(host)

    def verify(self) -> Evidence:
        """Measure the effect on each host."""
        with self._context.lock:
            return {host.name: self.measure(host) for host in self._hosts}

    def heal(self) -> None:
        """Remove exactly this discipline."""
        with self._context.lock:
            for host, (device, pid) in list(self._on.items()):
                script = f"tc qdisc del dev {device} root handle {self._handle}; {expiry.DISARM}"
                self._context.lab.execute(host, ("sh", "-c", script, "heal", self._tag, pid))
                del self._on[host]

    def verify_healed(self) -> Evidence:
        """No host has it any more."""
        for host in self._hosts:
            if any(self._handle == entry["handle"] for entry in self._disciplines(host.name)):
                raise InvalidRunError(f"Healing {self.name!r} left a queueing discipline in {host.name}.")
        return {}

    @abstractmethod
    def measure(self, host: Host) -> Evidence:
        """Evidence of the effect on a host. Raises InvalidRunError if there is none."""

    def _add(self, host: Host) -> None:
        lab = self._context.lab
        device = self._device(host)
        words = " ".join(self._words)
        add = f"tc qdisc add dev {device} root handle {self._handle} {words} || exit 1; {expiry.ARM}"
        undo = f"tc qdisc del dev {device} root handle {self._handle}"
        ttl = f"{self._context.chains.ttl_s:g}"
        result = lab.execute(host.name, ("sh", "-c", add, "add", self._tag, ttl, undo))
        if result.status != 0:
            reason = (result.stderr.strip().splitlines() or ["no reason given"])[0]
            if "unknown" in reason or "No such file" in reason:
                raise UnfitError(
                    f"{self.name!r} needs the kernel's {self._words[0]}, which is missing "
                    f"({reason}): load sch_{self._words[0]} or use another kernel, or leave this "
                    f"fault out."
                )
            raise LabError(f"tc in {host.name} refused {words!r}: {reason}")
        self._on[host.name] = (device, result.stdout.strip())

    def _device(self, host: Host) -> str:
        result = self._context.lab.execute(host.name, ("ip", "-j", "addr"))
        for device in json.loads(result.stdout or "[]"):
            if any(address.get("local") == host.address for address in device.get("addr_info", [])):
                return str(device["ifname"])
        raise LabError(f"No interface of {host.name} has the address {host.address}: {result.stdout[:200]}")

    def _disciplines(self, host: str) -> list[dict[str, object]]:
        result = self._context.lab.execute(host, ("tc", "-s", "-j", "qdisc", "show"))
        disciplines: list[dict[str, object]] = json.loads(result.stdout or "[]")
        return disciplines

    def _statistics(self, host: str) -> tuple[int, int]:
        for entry in self._disciplines(host):
            if entry["handle"] == self._handle:
                return int(str(entry["bytes"])), int(str(entry["overlimits"]))
        raise InvalidRunError(f"{self.name!r} is not in force in {host}: its discipline is gone.")

    def _other(self, host: Host) -> Host:
        return next(other for other in self._context.lab.topology.hosts if other.az != host.az)


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
        words = ("tbf", "rate", f"{rate_kbit:g}kbit", "burst", str(_BURST_BYTES), "latency", "2s")
        super().__init__(registry, f"throttle {title} to {rate_kbit:g} kbit/s", hosts, words)
        self._rate_kbit = rate_kbit

    @classmethod
    def at(cls, registry: FaultRegistry, aim: Aim) -> Fault:
        """Of the hosts; the strength is the rate."""
        return cls(registry, ", ".join(host.name for host in aim.hosts), aim.hosts, aim.value)

    def measure(self, host: Host) -> Evidence:
        """Count the bytes that leave."""
        began_ns = now_ns()
        sent_before, over_before = self._statistics(host.name)
        flood = {
            "op": "flood",
            "address": self._other(host).address,
            "port": CLOSED_PORT,
            "count": 4 * _BURST_BYTES // 1024,
            "size_bytes": 1024,
        }
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

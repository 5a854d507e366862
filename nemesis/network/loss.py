"""Links that lose a share of their packets: a firewall rule per link, at its destination."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.errors import InvalidRunError, UsageError
from nemesis.fault import Evidence, Fault, Targets
from nemesis.network.links import Link
from nemesis.network.rules import loss_rules
from nemesis.proof.reachability import CLOSED_PORT
from nemesis.registry import FaultRegistry
from nemesis.scheduled import Aim, ScheduledFault

_FLOOD_BYTES = 64
_SIGMAS = 5.0


class Loss(ScheduledFault):
    """Links that lose a share of their packets until healed."""

    mechanism = "loss"
    undoable = True
    takes = "links"
    lasts = True
    values = (10.0, 30.0, 60.0)
    unit = "%"
    weight = 2

    def __init__(
        self,
        registry: FaultRegistry,
        title: str,
        links: tuple[Link, ...],
        percent: float,
        ends: Sequence[Targets] = (),
    ) -> None:
        """``percent`` is the share that each link loses; ``ends`` are those of the links that were asked for.

        Raises UsageError for less than 0.1 % or more than 99 %.
        """
        if not 0.1 <= percent <= 99:
            raise UsageError(f"A loss of {percent:g} % is not possible; use 0.1 to 99, or cut the link.")
        if any(link.port is not None for link in links):
            raise UsageError("Loss applies to all packets of a link: name the link without a service.")
        self.name = f"lose {percent:g} % {title}"
        self._context, self._number, self._links = registry.context, registry.next_number(), links
        self._ends = list(ends)
        self._probability = percent / 100
        self._rules = loss_rules(registry.topology, registry.next_chain(), links, self._probability)
        self._vanished: tuple[str, ...] = ()

    @classmethod
    def at(cls, registry: FaultRegistry, aim: Aim) -> Fault:
        """Of the links; the strength is the share that they lose."""
        return cls(registry, aim.title, aim.links, aim.value, aim.ends)

    def targets(self) -> Targets:
        """The links and the percentage."""
        links = [str(link) for link in self._links]
        return {"links": links, "percent": self._probability * 100, "ends": self._ends}

    def inject(self) -> None:
        """Load the rules at the destinations."""
        with self._context.lock:
            self._context.lossy[self._number] = (self._rules, self._links)
            self._context.chains.load(self._rules)

    def verify(self) -> Evidence:
        """Send enough packets over every link to measure the share that is lost."""
        context = self._context
        # Enough to measure the share to a tenth of its value, and at least 200 packets.
        count = min(20_000, max(200, math.ceil(100 * (1 - self._probability) / self._probability)))
        with context.lock:
            for link in self._links:
                target = context.lab.topology.host(link.destination).address
                flood = {
                    "op": "flood",
                    "address": target,
                    "port": CLOSED_PORT,
                    "count": count,
                    "size_bytes": _FLOOD_BYTES,
                }
                context.prober.ask({link.source: flood})
            listings = context.chains.listings(self._rules.hosts)
        shares: dict[str, float] = {}
        for host, rules in self._rules.rules.items():
            packets = self._rules.packets(listings[host])
            for position in range(1, len(packets), 2):
                label, seen, lost = str(rules[position].link), packets[position - 1], packets[position]
                shares[label] = self._judge(label, seen, lost)
        return {"lost_share": shares, "sent_per_link": count}

    def heal(self) -> None:
        """Remove the rules."""
        with self._context.lock:
            if self._number in self._context.lossy:
                self._vanished = self._context.chains.remove(self._rules)
                del self._context.lossy[self._number]

    def verify_healed(self) -> Evidence:
        """No line of the chain is left."""
        if self._vanished:
            raise InvalidRunError(
                f"The rules of {self.name!r} were gone from {', '.join(self._vanished)} before it was healed."
            )
        with self._context.lock:
            self._context.check_gone(self.name, self._rules)
        return {}

    def _judge(self, link: str, seen: int, lost: int) -> float:
        if seen == 0:
            raise InvalidRunError(f"{self.name!r} had no effect: no packet of {link} arrived to be dropped.")
        p = self._probability
        tolerance = _SIGMAS * math.sqrt(p * (1 - p) / seen)
        if abs(lost / seen - p) > tolerance:
            raise InvalidRunError(
                f"{self.name!r} loses {lost} of {seen} packets on {link}, which is not {p:.1%} "
                f"(± {tolerance:.1%})."
            )
        return round(lost / seen, 4)

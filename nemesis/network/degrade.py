"""Degraded links, as a scenario asks for them."""

from __future__ import annotations

from nemesis.fault import Injection
from nemesis.network import links
from nemesis.network.loss import Loss
from nemesis.network.queues import Discipline, Queue, delay, throttle
from nemesis.registry import FaultRegistry


class Degrade:
    """Packet loss on links; rate limit and delay of hosts."""

    def __init__(self, registry: FaultRegistry) -> None:
        """Reached as `Nemesis.degrade`."""
        self._registry = registry

    def lose(self, *texts: str, percent: float) -> Injection:
        """Lose a share of the packets of links, for example `az1 <-> az2`."""
        text, registry = ", ".join(texts), self._registry
        found = links.parse(registry.topology, text)
        name = f"lose {percent:g} % {text}"
        loss = Loss(
            registry.context,
            number=registry.next_number(),
            chain=registry.next_chain(),
            name=name,
            links=found,
            percent=percent,
        )
        return registry.add(loss)

    def throttle(self, pattern: str, *, rate_kbit: float) -> Injection:
        """Limit the rate at which hosts send."""
        return self._queue(f"throttle {pattern} to {rate_kbit:g} kbit/s", pattern, throttle(rate_kbit))

    def delay(self, pattern: str, *, delay_ms: float, jitter_ms: float = 0.0) -> Injection:
        """Delay everything that hosts send. `inject` raises UnfitError if the kernel has no netem."""
        return self._queue(f"delay {pattern} by {delay_ms:g} ms", pattern, delay(delay_ms, jitter_ms))

    def _queue(self, name: str, pattern: str, discipline: Discipline) -> Injection:
        registry = self._registry
        hosts = registry.topology.select(pattern)
        queue = Queue(
            registry.context,
            number=registry.next_number(),
            name=name,
            hosts=hosts,
            discipline=discipline,
        )
        return registry.add(queue)

"""Degraded links, as a scenario asks for them."""

from __future__ import annotations

from nemesis.fault import Injection
from nemesis.network import links
from nemesis.network.loss import Loss
from nemesis.network.queues import Delay, Throttle
from nemesis.registry import FaultRegistry


class Degrade:
    """Packet loss on links; rate limit and delay of hosts."""

    def __init__(self, registry: FaultRegistry) -> None:
        """Reached as `Nemesis.degrade`."""
        self._registry = registry

    def lose(self, *texts: str, percent: float) -> Injection:
        """Lose a share of the packets of links, for example `az1 <-> az2`."""
        text, registry = ", ".join(texts), self._registry
        return registry.add(
            Loss(registry, text, links.parse(registry.topology, text), percent, links.ends(text))
        )

    def throttle(self, pattern: str, *, rate_kbit: float) -> Injection:
        """Limit the rate at which hosts send."""
        registry = self._registry
        return registry.add(Throttle(registry, pattern, registry.topology.select(pattern), rate_kbit))

    def delay(self, pattern: str, *, delay_ms: float, jitter_ms: float = 0.0) -> Injection:
        """Delay everything that hosts send. `inject` raises UnfitError if the kernel has no netem."""
        registry = self._registry
        hosts = registry.topology.select(pattern)
        return registry.add(Delay(registry, pattern, hosts, delay_ms, jitter_ms))

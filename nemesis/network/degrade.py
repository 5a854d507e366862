"""Worse links, as a scenario calls for them."""

from __future__ import annotations

from nemesis.fault import Injection
from nemesis.network import links
from nemesis.network.loss import Loss
from nemesis.network.queues import Discipline, Queue, delay, throttle
from nemesis.roster import Roster


class Degrade:
    """Loss of links; rate limit and delay of hosts."""

    def __init__(self, roster: Roster) -> None:
        """Reached as `Nemesis.degrade`."""
        self._roster = roster

    def lose(self, *texts: str, percent: float) -> Injection:
        """Lose a share of the packets of links, for example `az1 <-> az2`."""
        text, roster = ", ".join(texts), self._roster
        found = links.parse(roster.topology, text)
        name = f"lose {percent:g} % {text}"
        return roster.add(Loss(roster.ground, roster.next(), roster.chain(), name, found, percent))

    def throttle(self, pattern: str, *, rate_kbit: float) -> Injection:
        """Limit the rate of all that some hosts send."""
        return self._queue(f"throttle {pattern} to {rate_kbit:g} kbit/s", pattern, throttle(rate_kbit))

    def delay(self, pattern: str, *, delay_ms: float, jitter_ms: float = 0.0) -> Injection:
        """Delay all that some hosts send; UnfitError on `inject` where the kernel has no netem."""
        return self._queue(f"delay {pattern} by {delay_ms:g} ms", pattern, delay(delay_ms, jitter_ms))

    def _queue(self, name: str, pattern: str, discipline: Discipline) -> Injection:
        roster = self._roster
        hosts = roster.topology.select(pattern)
        return roster.add(Queue(roster.ground, roster.next(), name, hosts, discipline))

"""What all faults of a run share: the lab, the prober, the rules in force, and the checks of their effect."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, field

from harness.errors import InvalidRunError
from harness.lab.model import Lab
from nemesis.network.chains import Chains
from nemesis.network.disciplines import Discipline
from nemesis.network.links import Link
from nemesis.network.rules import Ruleset, normalised
from nemesis.proof.prober import Prober
from nemesis.proof.reachability import Call, ProbeResult, blocked, calls, still_alive, wrongly_dead

PROBE_WITHIN_S = 0.3
"""How long a probe waits on a silent link; a live one answers within a millisecond or two."""
RETRY_WITHIN_S = 3.0
"""How long to repeat the probe of a link that should live but was silent; the machine may be busy."""


@dataclass(kw_only=True)
class FaultContext:
    """Shared by all faults of one run; ``lock`` guards the prober and the rules."""

    lab: Lab
    prober: Prober
    chains: Chains
    _: KW_ONLY
    lock: threading.RLock = field(default_factory=threading.RLock)
    cuts: dict[int, tuple[Ruleset, tuple[Link, ...]]] = field(default_factory=dict)
    """Cuts in force by fault number."""
    lossy: dict[int, tuple[Ruleset, tuple[Link, ...]]] = field(default_factory=dict)
    """Links that lose packets, by fault number: silence proves nothing there."""
    limited: dict[int, tuple[Ruleset, Discipline]] = field(default_factory=dict)
    """Queueing disciplines on hosts of others and what assigns packets to them, by fault number."""
    paused: set[str] = field(default_factory=set)
    """Hosts whose process is stopped by SIGSTOP."""

    def links_in_force(self, *, without: int | None = None) -> tuple[Link, ...]:
        """All links that any fault cuts now, except fault ``without``."""
        return tuple(link for n, (_, links) in self.cuts.items() if n != without for link in links)

    def calls(self, named: Iterable[Link] = ()) -> tuple[Call, ...]:
        """The calls to probe: all but those over lossy links and those to a paused process.

        A paused process takes no connection out of its backlog, so repeated probes would fill it.
        """
        named = tuple(named)
        unsure = tuple(link for _, links in self.lossy.values() for link in links)
        return tuple(
            call
            for call in calls(self.lab.topology, named)
            if not blocked(unsure, call) and (call.callee not in self.paused or blocked(named, call))
        )

    def probe(self, calls: Iterable[Call], **options: object) -> ProbeResult:
        """Probe once, as `Prober.probe` does."""
        return self.prober.probe(calls, within_s=PROBE_WITHIN_S, **options)  # type: ignore[arg-type]

    def check_effect(self, what: str, result: ProbeResult, links: Iterable[Link], refused: bool) -> None:
        """Check that every call that ``links`` kill is dead. Raises InvalidRunError with those that live."""
        cut = tuple(links)
        problems = still_alive(result, cut, refused=refused)
        if problems and refused:  # on a busy machine a reset may come late
            again = self.prober.probe(
                [call for call in result.new if blocked(cut, call)], within_s=RETRY_WITHIN_S
            )
            problems = still_alive(ProbeResult(again.new, result.held), cut, refused=refused)
        if problems:
            raise InvalidRunError(
                f"The fault {what!r} had no effect: {'; '.join([*problems][:5])}"
                + (f"; and {len(problems) - 5} more" if len(problems) > 5 else "")
                + "; are the rules of the hosts intact, and does the link use that address?",
                links=sorted(set(problems.values())),
            )

    def check_unaffected(self, what: str, before: set[Call], result: ProbeResult) -> None:
        """Check that every call that lived before and is cut by no fault still lives."""
        links = self.links_in_force()
        silent = wrongly_dead(before, result, links)
        if silent:
            again = self.prober.probe(silent, within_s=RETRY_WITHIN_S)
            silent = wrongly_dead(before, again, links)
        if silent:
            raise InvalidRunError(
                f"The fault {what!r} affects more than it names: {len(silent)} links answered before and "
                f"are silent now: {', '.join(map(str, silent[:5]))}."
            )

    def check_counters(self, what: str, rules: Ruleset, links: Iterable[Link]) -> int:
        """Check that every link's own rule has dropped packets. Returns how many all of them dropped."""
        counted: dict[Link, int] = dict.fromkeys(links, 0)
        for host, listing in self.chains.listings(rules.hosts).items():
            for link, packets in rules.counts(host, listing).items():
                counted[link] = counted.get(link, 0) + packets
        idle = {
            str(link): f"{link.source} -> {link.destination}"
            for link, packets in counted.items()
            if packets == 0
        }
        if idle:
            raise InvalidRunError(
                f"The fault {what!r} had no effect: no packet was dropped on {', '.join([*idle][:5])} "
                f"({len(idle)} of {len(counted)} links), although one was sent there.",
                links=sorted(set(idle.values())),
            )
        return sum(counted.values())

    def check_gone(self, what: str, rules: Ruleset) -> None:
        """Check that no host holds a line of this fault's chain any more."""
        for host, listing in self.chains.listings(rules.hosts).items():
            left = [line for line in normalised(listing) if rules.chain in line]
            if left:
                raise InvalidRunError(
                    f"Healing {what!r} left rules in {host}: {left[0]!r}; remove the chain {rules.chain}."
                )

    def reapply(self, host: str) -> None:
        """Load the rules of every fault in force into a host that was started again with an empty table."""
        with self.lock:
            concerned = [
                rules
                for held in (self.cuts, self.lossy)
                for rules, _ in list(held.values())
                if host in rules.hosts
            ]
            if not concerned:
                return
            listing = self.chains.listings([host])[host]
            for rules in concerned:
                if f"-A {rules.at} {rules.hook} " not in listing:
                    self.chains.reload(rules, host)

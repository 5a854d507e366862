"""All faults of one run, as a scenario calls them.

    nemesis = Nemesis(lab, journal)
    with nemesis.isolate("az1"):
        ...
    cut = nemesis.cut("broker1 -> zookeepers:2181").inject()
    ...
    cut.heal()
    nemesis.close()

Every method gives an `Injection` that is not in force yet: enter it with `with`, or call `inject`.
"""

from __future__ import annotations

import secrets
from types import TracebackType
from typing import Self

from harness.errors import AckedError, InvalidRunError
from harness.history.journal import Journal
from harness.lab.model import Lab, Topology
from nemesis import links
from nemesis.chains import Chains
from nemesis.cut import Cut, Flapping
from nemesis.fault import Fault, Injection
from nemesis.ground import Ground
from nemesis.links import Link
from nemesis.prober import Prober
from nemesis.rules import Action, chain_name, normalised

DEFAULT_TTL_S = 600.0


class Nemesis:
    """Makes faults, numbers them, and leaves nothing behind."""

    def __init__(self, lab: Lab, journal: Journal, *, run: str = "", ttl_s: float = DEFAULT_TTL_S) -> None:
        """``lab`` must be up. ``run`` is a short name for the rules; ``ttl_s``: how long they outlive us."""
        self._ground = Ground(lab, Prober(lab), Chains(lab, ttl_s))
        self._journal = journal
        self._run = run or secrets.token_hex(2)
        self._injections: list[Injection] = []
        self._listings = self._ground.chains.sweep()
        lab.on_start(self._ground.reapply)

    @property
    def topology(self) -> Topology:
        """Hosts of the lab."""
        return self._ground.lab.topology

    @property
    def injections(self) -> tuple[Injection, ...]:
        """All faults so far, in order of number."""
        return tuple(self._injections)

    def warm_up(self) -> None:
        """Start the probes in all hosts, so that the first fault does not pay for it."""
        self._ground.prober.warm_up()

    def add(self, fault: Fault) -> Injection:
        """Number a fault of the caller's own making."""
        injection = Injection(len(self._injections) + 1, fault, self._journal)
        self._injections.append(injection)
        return injection

    def cut_links(self, name: str, cut: tuple[Link, ...], *, action: Action = "drop") -> Injection:
        """Cut exactly these links."""
        return self.add(self._cut(name, cut, action))

    def cut(self, *texts: str, action: Action = "drop") -> Injection:
        """Cut links given as text, for example `broker1 <-> broker2` or `broker1 -> zookeepers:2181`."""
        text = ", ".join(texts)
        return self.cut_links(f"cut {text}", links.parse(self.topology, text), action=action)

    def isolate(self, pattern: str, *, action: Action = "drop") -> Injection:
        """Cut an AZ, a host or `clients@az1` from everything else."""
        found = links.isolate(self.topology, pattern)
        return self.cut_links(f"isolate {pattern}", found, action=action)

    def halves(self, *groups: str, action: Action = "drop") -> Injection:
        """Groups such as `az1` and `az2, az3` no longer see each other."""
        found = links.halves(self.topology, *groups)
        return self.cut_links(f"halves {' | '.join(groups)}", found, action=action)

    def bridge(self, over: str, left: str, right: str, *, action: Action = "drop") -> Injection:
        """Two halves that only ``over`` sees both of."""
        found = links.bridge(self.topology, over, left, right)
        return self.cut_links(f"bridge {left} | {over} | {right}", found, action=action)

    def ring(self, *groups: str, calls_only: bool = True, action: Action = "drop") -> Injection:
        """Each group reaches only its neighbours; see `nemesis.links.ring`."""
        found = links.ring(self.topology, *groups, calls_only=calls_only)
        return self.cut_links(f"ring {', '.join(groups)}", found, action=action)

    def without_zookeeper(self, pattern: str, *, action: Action = "drop") -> Injection:
        """Cut brokers from every ZooKeeper node, their own AZ's included, and from nothing else."""
        found = links.zookeeper_of(self.topology, pattern)
        return self.cut_links(f"{pattern} without zookeeper", found, action=action)

    def flapping(self, *texts: str, period_s: float, action: Action = "drop") -> Injection:
        """Cut and restore links again and again; ``period_s`` is one cut and one whole half together."""
        text = ", ".join(texts)
        cut = self._cut(text, links.parse(self.topology, text), action)
        return self.add(Flapping(cut, period_s))

    def heal_all(self) -> None:
        """Heal everything, newest first, even if one of them cannot be healed; then raise for that one."""
        failed: AckedError | None = None
        for injection in reversed(self._injections):
            try:
                injection.heal()
            except AckedError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def close(self) -> None:
        """Heal everything, end the probes, and prove that the rules of all hosts are as they were."""
        try:
            self.heal_all()
        finally:
            self._ground.prober.close()
        up = self._ground.hosts_up()
        for host, listing in self._ground.chains.listings(up).items():
            now = normalised(listing)
            if now != self._listings[host]:
                added = sorted(set(now) - set(self._listings[host]))
                removed = sorted(set(self._listings[host]) - set(now))
                raise InvalidRunError(
                    f"The rules of {host} are not as they were before the run: added {added}, "
                    f"removed {removed}."
                )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        try:
            self.close()
        except AckedError as second:
            error.add_note(f"Clearing up the faults failed as well: {second.message}")

    def _cut(self, name: str, cut: tuple[Link, ...], action: Action) -> Cut:
        number = len(self._injections) + 1
        return Cut(self._ground, number, chain_name(self._run, number), name, cut, action)

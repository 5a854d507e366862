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
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from harness.clock import now_ns
from harness.errors import AckedError, InvalidRunError
from harness.history.journal import Journal
from harness.lab.model import Host, Lab, Topology
from harness.waiting import wait_until
from nemesis import links
from nemesis.chains import Chains
from nemesis.cut import Cut, Flapping
from nemesis.fault import Action, Evidence, Fault, Injection
from nemesis.ground import Ground
from nemesis.links import Link
from nemesis.loss import Loss
from nemesis.prober import Prober
from nemesis.processes import Ended, Ending, Paused, Restart, RollingRestart, running
from nemesis.queues import Discipline, Queue, delay, throttle
from nemesis.rules import CutAction, chain_name, normalised

DEFAULT_TTL_S = 600.0


class Nemesis:
    """Makes faults, numbers them, and leaves nothing behind."""

    def __init__(
        self,
        lab: Lab,
        journal: Journal,
        *,
        run: str = "",
        ttl_s: float = DEFAULT_TTL_S,
        expect_end: Callable[[str], None] = lambda host: None,
    ) -> None:
        """``lab`` must be up. ``run`` is a short name for the rules; ``ttl_s``: how long they outlive us.

        ``expect_end`` is told the host before a process is ended on purpose.
        """
        self._ground = Ground(lab, Prober(lab), Chains(lab, ttl_s))
        self._journal = journal
        self._run = run or secrets.token_hex(2)
        self._injections: list[Injection] = []
        self._listings = self._ground.chains.sweep()
        self._expect_end = expect_end
        lab.on_start(self._started)

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

    def cut_links(self, name: str, cut: tuple[Link, ...], *, action: CutAction = "drop") -> Injection:
        """Cut exactly these links."""
        return self.add(self._cut(name, cut, action))

    def cut(self, *texts: str, action: CutAction = "drop") -> Injection:
        """Cut links given as text, for example `broker1 <-> broker2` or `broker1 -> zookeepers:2181`."""
        text = ", ".join(texts)
        return self.cut_links(f"cut {text}", links.parse(self.topology, text), action=action)

    def isolate(self, pattern: str, *, action: CutAction = "drop") -> Injection:
        """Cut an AZ, a host or `clients@az1` from everything else."""
        found = links.isolate(self.topology, pattern)
        return self.cut_links(f"isolate {pattern}", found, action=action)

    def halves(self, *groups: str, action: CutAction = "drop") -> Injection:
        """Groups such as `az1` and `az2, az3` no longer see each other."""
        found = links.halves(self.topology, *groups)
        return self.cut_links(f"halves {' | '.join(groups)}", found, action=action)

    def bridge(self, over: str, left: str, right: str, *, action: CutAction = "drop") -> Injection:
        """Two halves that only ``over`` sees both of."""
        found = links.bridge(self.topology, over, left, right)
        return self.cut_links(f"bridge {left} | {over} | {right}", found, action=action)

    def ring(self, *groups: str, calls_only: bool = True, action: CutAction = "drop") -> Injection:
        """Each group reaches only its neighbours; see `nemesis.links.ring`."""
        found = links.ring(self.topology, *groups, calls_only=calls_only)
        return self.cut_links(f"ring {', '.join(groups)}", found, action=action)

    def without_zookeeper(self, pattern: str, *, action: CutAction = "drop") -> Injection:
        """Cut brokers from every ZooKeeper node, their own AZ's included, and from nothing else."""
        found = links.zookeeper_of(self.topology, pattern)
        return self.cut_links(f"{pattern} without zookeeper", found, action=action)

    def flapping(self, *texts: str, period_s: float, action: CutAction = "drop") -> Injection:
        """Cut and restore links again and again; ``period_s`` is one cut and one whole half together."""
        text = ", ".join(texts)
        cut = self._cut(text, links.parse(self.topology, text), action)
        return self.add(Flapping(cut, period_s))

    def lose(self, *texts: str, percent: float) -> Injection:
        """Lose a share of the packets of links, for example `az1 <-> az2`."""
        text = ", ".join(texts)
        number = self._next()
        chain = chain_name(self._run, number)
        name = f"lose {percent:g} % {text}"
        return self.add(Loss(self._ground, number, chain, name, links.parse(self.topology, text), percent))

    def throttle(self, pattern: str, *, rate_kbit: float) -> Injection:
        """Limit the rate of all that some hosts send."""
        return self._queue(f"throttle {pattern} to {rate_kbit:g} kbit/s", pattern, throttle(rate_kbit))

    def delay(self, pattern: str, *, delay_ms: float, jitter_ms: float = 0.0) -> Injection:
        """Delay all that some hosts send; UnfitError on `inject` where the kernel has no netem."""
        return self._queue(f"delay {pattern} by {delay_ms:g} ms", pattern, delay(delay_ms, jitter_ms))

    def kill(self, *patterns: str, restart: Restart | None = None) -> Injection:
        """SIGKILL, at once. Healed when the processes run again: by ``restart``, or by anybody else."""
        return self._end("kill", patterns, restart).inject()

    def stop(self, *patterns: str, restart: Restart | None = None) -> Injection:
        """SIGTERM, at once, and wait for the orderly end. Healed as `kill` is."""
        return self._end("stop", patterns, restart).inject()

    def pause(self, *patterns: str) -> Injection:
        """SIGSTOP until healed."""
        hosts = running(self._ground.lab, self.topology, patterns)
        return self.add(Paused(self._ground.lab, self._journal, hosts))

    def rolling_restart(self, *patterns: str, restart: Restart, ending: Ending = "stop") -> Injection:
        """Stop and start hosts one after the other, at once; returns when the last is back."""
        hosts = running(self._ground.lab, self.topology, patterns)
        steps = [self._ended([host], ending, restart) for host in hosts]
        return self.add(RollingRestart(steps)).inject()

    def kill_client(self, host: str, kill: Callable[[], None], alive: Callable[[], bool]) -> Injection:
        """Kill one of the harness's own clients, at once: outcomes it was not told stay unknown."""

        def verify() -> Evidence:
            wait_until(lambda: not alive(), within_s=5.0, awaiting=f"the client in {host} to end")
            self._journal.write("processes", ns=now_ns(), host=host, event="killed")
            return {"alive": False}

        name = self.topology.host(host).name
        return self.add(Action(f"kill client {name}", "process", {"hosts": [name]}, kill, verify)).inject()

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
        for host, listing in self._ground.chains.listings().items():
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

    def _cut(self, name: str, cut: tuple[Link, ...], action: CutAction) -> Cut:
        number = self._next()
        return Cut(self._ground, number, chain_name(self._run, number), name, cut, action)

    def _next(self) -> int:
        return len(self._injections) + 1

    def _queue(self, name: str, pattern: str, discipline: Discipline) -> Injection:
        return self.add(Queue(self._ground, self._next(), name, self.topology.select(pattern), discipline))

    def _end(self, ending: Ending, patterns: Sequence[str], restart: Restart | None) -> Injection:
        hosts = running(self._ground.lab, self.topology, patterns)
        return self.add(self._ended(hosts, ending, restart))

    def _ended(self, hosts: Sequence[Host], ending: Ending, restart: Restart | None) -> Ended:
        lab, journal = self._ground.lab, self._journal
        return Ended(lab, journal, hosts, ending, expect_end=self._expect_end, restart=restart)

    def _started(self, host: str) -> None:
        """A host's process was started: cuts in force apply to it, and faults that ended it are over."""
        self._ground.reapply(host)
        for injection in self._injections:
            if isinstance(injection.fault, Ended):
                injection.heal()

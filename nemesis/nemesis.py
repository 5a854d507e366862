"""All faults of one run, as a scenario calls them.

    with Nemesis(lab, journal) as nemesis:
        with nemesis.isolate("az1"):
            ...
        cut = nemesis.cut("broker1 -> zookeepers:2181").inject()
        ...
        cut.heal()

What lasts (cuts, pauses, loss, full disks) comes as an `Injection` that is not in force yet: enter it with
`with`, or call `inject`. What happens at once and is over (kill, stop, power cut, wipe, operator actions) is
done when the method returns.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from types import TracebackType
from typing import Self

from harness.clock import now_ns
from harness.cluster.model import Cluster
from harness.errors import AckedError, InvalidRunError
from harness.history.journal import Journal
from harness.kafka.wire.dialect import MODERN, Dialect
from harness.lab.model import Lab
from harness.waiting import wait_until
from nemesis.fault import Action, Evidence, Fault, Injection
from nemesis.ground import Ground
from nemesis.network import links
from nemesis.network.chains import Chains
from nemesis.network.cut import Cut, Flapping
from nemesis.network.degrade import Degrade
from nemesis.network.disconnect import Disconnected
from nemesis.network.links import Link
from nemesis.network.rules import CutAction, normalised
from nemesis.operator import Operator
from nemesis.processes.killing import Ending, Restart, RollingRestart
from nemesis.processes.pausing import Paused
from nemesis.proof.prober import Prober
from nemesis.roster import Roster
from nemesis.storage.disks import Disks
from nemesis.storage.faults import Storage

DEFAULT_TTL_S = 600.0


class Nemesis:
    """Makes faults, numbers them, and leaves nothing behind.

    Beside the methods below: ``degrade`` (loss, rate, delay), ``storage`` (power cuts, damaged data, full
    disks) and ``operator`` (elections, reassignments, the controller).
    """

    def __init__(
        self,
        lab: Lab,
        journal: Journal,
        *,
        run: str = "",
        ttl_s: float = DEFAULT_TTL_S,
        expect_end: Callable[[str], None] = lambda host: None,
        disks: Disks | None = None,
    ) -> None:
        """``lab`` must be up. ``run`` is a short name for the rules; ``ttl_s``: how long they outlive us.

        ``expect_end`` is told the host before a process is ended on purpose.
        """
        self._ground = Ground(lab, Prober(lab), Chains(lab, ttl_s))
        self._roster = Roster(self._ground, journal, run or secrets.token_hex(2), expect_end)
        self._topology = lab.topology
        self.degrade = Degrade(self._roster)
        self.storage = Storage(self._roster, disks)
        self._listings = self._ground.chains.sweep()
        lab.on_start(self._roster.process_started)

    @property
    def injections(self) -> tuple[Injection, ...]:
        """All faults so far, in order of number."""
        return tuple(self._roster.injections)

    def warm_up(self) -> None:
        """Start the probes in all hosts, so that the first fault does not pay for it."""
        self._ground.prober.warm_up()

    def add(self, fault: Fault) -> Injection:
        """Number a fault of the caller's own making."""
        return self._roster.add(fault)

    def cut_links(self, name: str, cut: tuple[Link, ...], *, action: CutAction = "drop") -> Injection:
        """Cut exactly these links."""
        return self.add(self._cut(name, cut, action))

    def cut(self, *texts: str, action: CutAction = "drop") -> Injection:
        """Cut links given as text, for example `broker1 <-> broker2` or `broker1 -> zookeepers:2181`."""
        text = ", ".join(texts)
        return self.cut_links(f"cut {text}", links.parse(self._topology, text), action=action)

    def isolate(self, pattern: str, *, action: CutAction = "drop") -> Injection:
        """Cut an AZ, a host or `clients@az1` from everything else."""
        found = links.isolate(self._topology, pattern)
        return self.cut_links(f"isolate {pattern}", found, action=action)

    def halves(self, *groups: str, action: CutAction = "drop") -> Injection:
        """Groups such as `az1` and `az2, az3` no longer see each other."""
        found = links.halves(self._topology, *groups)
        return self.cut_links(f"halves {' | '.join(groups)}", found, action=action)

    def bridge(self, over: str, left: str, right: str, *, action: CutAction = "drop") -> Injection:
        """Two halves that only ``over`` sees both of."""
        found = links.bridge(self._topology, over, left, right)
        return self.cut_links(f"bridge {left} | {over} | {right}", found, action=action)

    def ring(self, *groups: str, calls_only: bool = True, action: CutAction = "drop") -> Injection:
        """Each group reaches only its neighbours; see `nemesis.network.links.ring`."""
        found = links.ring(self._topology, *groups, calls_only=calls_only)
        return self.cut_links(f"ring {', '.join(groups)}", found, action=action)

    def without_zookeeper(self, pattern: str, *, action: CutAction = "drop") -> Injection:
        """Cut brokers from every ZooKeeper node, their own AZ's included, and from nothing else."""
        found = links.zookeeper_of(self._topology, pattern)
        return self.cut_links(f"{pattern} without zookeeper", found, action=action)

    def flapping(self, *texts: str, period_s: float, action: CutAction = "drop") -> Injection:
        """Cut and restore links again and again; ``period_s`` is one cut and one whole half together."""
        text = ", ".join(texts)
        return self.add(Flapping(self._cut(text, links.parse(self._topology, text), action), period_s))

    def disconnect(self, *patterns: str) -> Injection:
        """Have the container engine take hosts off their network until healed; no partition, see the docs.

        Raises UnfitError in a lab without containers: `isolate` is what cuts a host off on both.
        """
        roster = self._roster
        hosts = dict.fromkeys(host for pattern in patterns for host in self._topology.select(pattern))
        return self.add(Disconnected(roster.ground, roster.next(), tuple(hosts)))

    def kill(self, *patterns: str, restart: Restart | None = None) -> Injection:
        """SIGKILL, at once. Healed when the processes run again: by ``restart``, or by anybody else."""
        return self._end("kill", patterns, restart)

    def stop(self, *patterns: str, restart: Restart | None = None) -> Injection:
        """SIGTERM, at once, and wait for the orderly end. Healed as `kill` is."""
        return self._end("stop", patterns, restart)

    def pause(self, *patterns: str) -> Injection:
        """SIGSTOP until healed."""
        roster = self._roster
        return self.add(Paused(roster.ground, roster.journal, roster.running(patterns)))

    def rolling_restart(self, *patterns: str, restart: Restart, ending: Ending = "stop") -> Injection:
        """Stop and start hosts one after the other, at once; returns when the last is back."""
        roster = self._roster
        steps = [roster.ended([host], ending, restart) for host in roster.running(patterns)]
        return self.add(RollingRestart(steps)).inject()

    def kill_client(self, host: str, kill: Callable[[], None], alive: Callable[[], bool]) -> Injection:
        """Kill one of the harness's own clients, at once: outcomes it was not told stay unknown."""
        name = self._topology.host(host).name

        def verify() -> Evidence:
            wait_until(lambda: not alive(), within_s=5.0, awaiting=f"the client in {name} to end")
            self._roster.journal.write("processes", ns=now_ns(), host=name, event="killed")
            return {"alive": False}

        fault = Action(
            f"kill client {name}",
            kind="process",
            mechanism="kill",
            targets={"hosts": [name], "signal": "SIGKILL"},
            act=kill,
            verify=verify,
        )
        return self.add(fault).inject()

    def operator(self, cluster: Cluster, dialect: Dialect = MODERN) -> Operator:
        """Elections, reassignments and the like on ``cluster``."""
        return Operator(self._roster, cluster, dialect)

    def heal_all(self) -> None:
        """Heal everything, newest first, even if one of them cannot be healed; then raise for that one."""
        self._roster.heal_all()

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
        roster = self._roster
        return Cut(roster.ground, roster.next(), roster.chain(), name, cut, action)

    def _end(self, ending: Ending, patterns: tuple[str, ...], restart: Restart | None) -> Injection:
        roster = self._roster
        return self.add(roster.ended(roster.running(patterns), ending, restart)).inject()

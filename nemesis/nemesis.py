"""All faults of one run, as a scenario calls them.

    with Nemesis(lab, journal) as nemesis:
        with nemesis.isolate("az1"):
            ...
        cut = nemesis.cut("broker1 -> zookeepers:2181").inject()
        ...
        cut.heal()

A fault that lasts (cut, pause, wrong clock, loss, full disk) is returned as an `Injection` that is not in
force yet: enter it with `with`, or call `inject`. A fault that acts once (kill, stop, power cut, wipe,
operator actions) has acted when the method returns.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Concatenate, ParamSpec, Self

from harness.clock import now_ns
from harness.cluster.model import Cluster
from harness.errors import AckedError, InvalidRunError
from harness.history.journal import Journal
from harness.kafka.wire.dialect import MODERN, Dialect
from harness.lab.model import Host, Lab
from harness.waiting import wait_until
from nemesis.context import FaultContext
from nemesis.fault import Action, Evidence, Fault, Injection, Targets
from nemesis.network import links
from nemesis.network.backlog import wait_delivered
from nemesis.network.chains import Chains
from nemesis.network.cut import Cut, Flapping
from nemesis.network.degrade import Degrade
from nemesis.network.disconnect import Disconnect
from nemesis.network.hold import Hold, connections
from nemesis.network.links import Connection, Link
from nemesis.network.rules import CutAction, normalised
from nemesis.operator import Operator
from nemesis.processes.address import AddressChange
from nemesis.processes.clock import ClockShift
from nemesis.processes.killing import Ending, Kill, Restart, RollingRestart, Stop, running
from nemesis.processes.pausing import ProcessPause
from nemesis.proof.prober import Prober
from nemesis.registry import FaultRegistry
from nemesis.storage.disks import Disks
from nemesis.storage.faults import Storage

P = ParamSpec("P")
DEFAULT_TTL_S = 600.0


class Nemesis:
    """Makes faults, numbers them, and leaves nothing of them behind.

    Further groups of faults: ``degrade`` (loss, rate, delay), ``storage`` (power cuts, damaged data, full
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
        flush_intervals: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """``lab`` must be up. ``run`` is a short name for the chains; ``ttl_s`` is the rules' time-to-live.

        ``expect_end`` is called with the host before a process is ended on purpose. ``flush_intervals`` has
        `flush.messages` of the topics that set it; an emulated power cut takes from it what was flushed.
        """
        self._context = FaultContext(lab=lab, prober=Prober(lab), chains=Chains(lab, ttl_s))
        self._registry = FaultRegistry(
            context=self._context,
            journal=journal,
            run=run or secrets.token_hex(2),
            expect_end=expect_end,
            disks=disks,
            flush_intervals=flush_intervals,
        )
        self._topology = lab.topology
        self.degrade = Degrade(self._registry)
        self.storage = Storage(self._registry)
        self._listings = self._context.chains.sweep()
        self._closed = False
        lab.on_new_network(self._network_lost)
        lab.on_start(self._process_started)

    @property
    def injections(self) -> tuple[Injection, ...]:
        """All faults so far, by number."""
        return tuple(self._registry.injections)

    def vanished(self) -> list[str]:
        """What should be in force and is not, in words: rules that are gone, processes that go on."""
        context = self._context
        with context.lock:
            limited, paused = list(context.limited.values()), sorted(context.paused)
            loaded = [rules for rules, _ in (*context.cuts.values(), *limited)]
        # Without the lock, as a host that does not answer must not keep anybody from healing.
        listings = context.chains.listings(sorted({host for rules in loaded for host in rules.hosts}))
        gone = [
            f"{host} has no rule of it"
            for rules in loaded
            for host in rules.hosts
            if rules.chain not in listings[host]
        ]
        gone += [
            f"the clock of {host} has ended it"
            for rules in loaded
            for host in rules.hosts
            if rules.ended_by_clock(listings[host])
        ]
        gone += [
            f"{host} has no queue of it"
            for rules, discipline in limited
            for host in rules.hosts
            if discipline.entry(host) is None
        ]
        states = ((host, context.lab.process_state(host)) for host in paused)
        return gone + [f"{host} is not paused" for host, state in states if state not in ("T", "t")]

    def warm_up(self) -> None:
        """Start the probe agents in all hosts, so that the first fault need not wait for them."""
        self._context.prober.warm_up()

    def add(self, fault: Fault) -> Injection:
        """Add a fault that the caller has made."""
        return self._registry.add(fault)

    def make(
        self, kind: Callable[Concatenate[FaultRegistry, P], Fault], *args: P.args, **options: P.kwargs
    ) -> Injection:
        """Make and add a fault of acked's own: ``kind`` is its class, or what else makes one (`at`)."""
        return self.add(kind(self._registry, *args, **options))

    def cut_links(
        self,
        name: str,
        cut: tuple[Link, ...],
        *,
        action: CutAction = "drop",
        asked: Targets = MappingProxyType({}),
    ) -> Injection:
        """Cut exactly these links; ``asked`` says for the history what they are, such as their ``ends``."""
        return self.make(Cut, name, cut, action, asked)

    def cut(self, *texts: str, action: CutAction = "drop") -> Injection:
        """Cut links given as text, for example `broker1 <-> broker2` or `broker1 -> zookeepers:2181`."""
        text = ", ".join(texts)
        cut, asked = links.parse(self._topology, text), {"ends": links.ends(text)}
        return self.cut_links(f"cut {text}", cut, action=action, asked=asked)

    def isolate(self, pattern: str, *, action: CutAction = "drop") -> Injection:
        """Cut an AZ, a host or `clients@az1` from everything else."""
        cut = links.isolate(self._topology, pattern)
        return self.cut_links(f"isolate {pattern}", cut, action=action, asked={"isolated": pattern})

    def halves(self, *groups: str, action: CutAction = "drop") -> Injection:
        """Cut groups such as `az1` and `az2, az3` from each other."""
        cut = links.halves(self._topology, *groups)
        asked = {"halves": list(groups)}
        return self.cut_links(f"halves {' | '.join(groups)}", cut, action=action, asked=asked)

    def bridge(self, over: str, left: str, right: str, *, action: CutAction = "drop") -> Injection:
        """Cut two halves from each other; ``over`` reaches both."""
        cut = links.bridge(self._topology, over, left, right)
        asked = {"bridge": [left, over, right]}
        return self.cut_links(f"bridge {left} | {over} | {right}", cut, action=action, asked=asked)

    def ring(self, *groups: str, calls_only: bool = True, action: CutAction = "drop") -> Injection:
        """Let each group reach only its neighbours; see `nemesis.network.links.ring`."""
        cut = links.ring(self._topology, *groups, calls_only=calls_only)
        return self.cut_links(f"ring {', '.join(groups)}", cut, action=action, asked={"ring": list(groups)})

    def without_zookeeper(self, pattern: str, *, action: CutAction = "drop") -> Injection:
        """Cut brokers from every ZooKeeper node, including that of their own AZ, and from nothing else."""
        cut = links.zookeeper_of(self._topology, pattern)
        asked = {"without_zookeeper": pattern}
        return self.cut_links(f"{pattern} without zookeeper", cut, action=action, asked=asked)

    def flapping(self, *texts: str, period_s: float, action: CutAction = "drop") -> Injection:
        """Cut and restore links again and again; each half lasts half of ``period_s``."""
        text = ", ".join(texts)
        asked = {"ends": links.ends(text)}
        cut = Cut(self._registry, text, links.parse(self._topology, text), action, asked)
        return self.add(Flapping(cut, period_s))

    def connections(self, client: str, server: str) -> tuple[Connection, ...]:
        """The TCP connections that are established from a client's host to a server now.

        ``server`` is a host, or a service of it such as `broker2:kafka`; both may be patterns.
        """
        return tuple(self.bytes_written(client, server))

    def bytes_written(self, client: str, server: str) -> Mapping[Connection, int]:
        """The bytes that the client's process has written to each of the `connections` so far.

        They count also while the kernel holds them back, because it awaits an acknowledgement of others.
        """
        return connections(self._context, links.parse(self._topology, f"{client} -> {server}"))

    def hold_connections(
        self, client: str, server: str, *, client_ports: Collection[int] | None = None
    ) -> Injection:
        """Hold the connections that exist at the moment of injection; new ones work.

        ``client`` and ``server`` are as for `connections`; ``client_ports`` limits the fault to the
        connections with these ports at the client's end. When the fault is healed, the kernels deliver what
        they hold, also for connections that their process has closed. `heal` returns when the fate of these
        bytes is known, and the evidence of `healed` says what was delivered and what was dropped.
        """
        held = links.parse(self._topology, f"{client} -> {server}")
        return self.make(Hold, held, client_ports)

    def disconnect(self, *patterns: str) -> Injection:
        """Have the container engine take hosts off their network until healed (see `docs/faults.md`).

        Raises UnfitError in a lab without containers; `isolate` works in both.
        """
        hosts = dict.fromkeys(host for pattern in patterns for host in self._topology.select(pattern))
        return self.make(Disconnect, tuple(hosts))

    def kill(self, *patterns: str, restart: Restart | None = None) -> Injection:
        """SIGKILL now. Healed when the processes run again, started by ``restart`` or by anything else."""
        return self.make(Kill, self._running(patterns), restart).inject()

    def stop(self, *patterns: str, restart: Restart | None = None) -> Injection:
        """SIGTERM now, and wait for the orderly end. Healed as `kill` is."""
        return self.make(Stop, self._running(patterns), restart).inject()

    def pause(self, *patterns: str) -> Injection:
        """SIGSTOP until healed."""
        return self.make(ProcessPause, self._running(patterns))

    def shift_clock(self, host: str, by_s: float) -> Injection:
        """Let the wall clock of a host's process jump by ``by_s`` (back if negative), and back when healed.

        The host must have a clock of its own (`Setup.own_clocks`).
        """
        return self.make(ClockShift, self._topology.host(host), by_s)

    def change_address(self, host: str) -> Injection:
        """Let the name of a host, whose process must have ended, mean another address now, and for good.

        The host must have a name (`Setup.named`).
        """
        return self.make(AddressChange, self._topology.host(host)).inject()

    def rolling_restart(self, *patterns: str, restart: Restart, ending: Ending = "stop") -> Injection:
        """Stop and start hosts one after the other now; returns when the last is back."""
        end = Kill if ending == "kill" else Stop
        steps = [end(self._registry, [host], restart) for host in self._running(patterns)]
        return self.add(RollingRestart(steps)).inject()

    def kill_client(self, host: str, kill: Callable[[], None], alive: Callable[[], bool]) -> Injection:
        """Kill one of the harness's clients now; outcomes without an answer stay unknown."""
        name = self._topology.host(host).name

        def verify() -> Evidence:
            wait_until(lambda: not alive(), within_s=5.0, awaiting=f"the client in {name} to end")
            self._registry.journal.write("processes", ns=now_ns(), host=name, event="killed")
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
        """Elections, reassignments, deletions and the like on ``cluster``."""
        return Operator(self._registry, cluster, dialect)

    @property
    def deleted_topics(self) -> frozenset[str]:
        """Topics that an operator action has deleted, and none has created again."""
        return frozenset(self._registry.deleted_topics)

    def wait_delivered(self) -> tuple[str, ...]:
        """Wait until all that clients sent over links before they were restored has been delivered.

        TCP backs off, so this takes up to as long as the links were cut. Returns the connections that
        still hold something when the kernels' timers have expired, or while other links are cut.
        """
        return wait_delivered(self._context)

    def heal_all(self) -> None:
        """Heal all faults, the newest first, even if some cannot be healed; then raise the first error."""
        self._registry.heal_all()

    def close(self) -> None:
        """Heal everything, end the probe agents, and prove that the rules of all hosts are as before."""
        try:
            self.heal_all()
        finally:
            self._closed = True
            self._context.prober.close()
        for host, listing in self._context.chains.listings().items():
            now = normalised(listing)
            if now != self._listings[host]:
                added = sorted(set(now) - set(self._listings[host]))
                removed = sorted(set(self._listings[host]) - set(now))
                raise InvalidRunError(
                    f"The rules of {host} are not as they were before the run: added {added}, "
                    f"removed {removed}."
                )

    def _network_lost(self, host: str) -> None:
        if not self._closed:
            self._context.reapply(host)

    def _process_started(self, host: str) -> None:
        if not self._closed:
            self._registry.process_started(host)

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

    def _running(self, patterns: Sequence[str]) -> tuple[Host, ...]:
        return running(self._context.lab, self._topology, patterns)

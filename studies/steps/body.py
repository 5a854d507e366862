"""The body of the scenario that carries out steps: a schedule of a search, or a case of an assessment.

In a search, it survives whatever the schedule does: a step that cannot be carried out is skipped, and a
process that ends by itself is recorded and started again. In an assessment, which measures times, either
makes the run prove nothing; what an operator has to do after the fault is done and recorded. At the end every
fault is healed and every process runs, and the cluster must converge.

| mark | text |
|---|---|
| `begin` | all producers and consumers work |
| `step-1`, ... | the step is due, and what it does |
| `skipped-1`, ... | why the step was left out |
| `ended-1`, ... | the step is due to end |
| `late-1`, ... | the event that the step waited for did not come |
| `note` | what else went wrong |
| `injected`, `heal` | all steps have begun; the first is about to end (if times are measured) |
| `operator` | what an operator had to do (if times are measured) |
| `healed`, `recovered`, `drained` | every fault is over; the cluster is whole; the producers have stopped |
| `finding-...` | what must not happen: `no-recovery`, `broker-down`, `client-stuck` |
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import starmap
from typing import Literal, Protocol

from harness.clock import now_ns
from harness.errors import AckedError, InvalidRunError, ProcessDiedError, UnfitError, WaitTimeoutError
from harness.kafka.model import PartitionState, TopicPartition, broker_name
from harness.kafka.wire.metadata import describe_topic_partitions
from harness.lab.model import Host
from harness.waiting import wait_until
from nemesis.catalogue import FAULTS
from nemesis.fault import Injection, Targets
from nemesis.processes.killing import Kill
from nemesis.scheduled import Aim, ScheduledFault
from run.sessions import steered
from run.stage import Stage
from studies.steps.aims import controller_seen, hosts_of, links_of, source_of
from studies.steps.events import ClusterState, happened
from studies.steps.step import OTHERS, Moment, Step, described, link_title
from workloads.protocol.results import StreamCounts

WARM_S = 40.0
POLL_S = 0.2
_WHOLE_POLL_S = 0.1
_START_TRIES = 2


class Clients(Protocol):
    """The clients of a run, and what their study does with them."""

    def warm_up(self) -> None:
        """Start those that work from the beginning. Raises WaitTimeoutError if they do not work."""

    def settle(self) -> None:
        """Wait, after the mark `begin`, for the moment at which the first step counts from."""

    def change(self, step: int) -> None:
        """Start and stop those that do so after a step, by its number."""

    def counts(self) -> Mapping[str, StreamCounts]:
        """Messages of the producers that run, by name."""

    def check(self, healed_ns: int) -> None:
        """Look after them once the cluster has recovered, or has not in time."""

    def drain(self) -> None:
        """Let the consumers read the last messages, and stop all."""

    def abandon(self) -> None:
        """Let them begin nothing more, because the run is over."""


def stand(stage: Stage, since: int, for_s: float, awaiting: str) -> None:
    """Change nothing until so many seconds have passed since a moment (ns)."""
    wait_until(
        lambda: stage.since(since) >= for_s,
        within_s=for_s + 5,
        poll_s=POLL_S,
        awaiting=awaiting,
        abort=stage.cluster.check_alive,
    )


def _trouble(key: TopicPartition, state: PartitionState | None) -> str:
    """What is wrong with a partition without a leader or a full ISR."""
    if state is None:
        return f"nothing is known of {key}"
    return f"{key} has leader {state.leader} and ISR {sorted(state.isr)} of {sorted(state.replicas or ())}"


def _heal(injections: Iterable[Injection]) -> None:
    for injection in injections:
        injection.heal()


@dataclass(kw_only=True)
class _OpenStep:
    """A step that has begun and not ended."""

    number: int
    until: Moment
    since: int
    before: ClusterState
    end: Callable[[], None]


@dataclass(kw_only=True)
class Body:
    """Carries out the steps of one run. `stage.setup.topics` are its topics; steps count their partitions."""

    stage: Stage
    steps: Sequence[Step]
    clients: Clients
    recovery_s: float
    """How long the cluster may take to recover."""
    measured: bool = False
    """Times are measured: the run must do its steps and nothing else, and an operator helps afterwards."""
    lasting: list[_OpenStep] = field(default_factory=list)
    unended: list[_OpenStep] = field(default_factory=list)
    """Steps that could not be ended in time, for instance because a request found no controller."""
    restarts: list[Future[None]] = field(default_factory=list)
    pool: ThreadPoolExecutor = field(init=False)
    locks: dict[str, threading.Lock] = field(init=False)

    def __post_init__(self) -> None:
        topics = self.stage.setup.topics
        self.partitions = [key for topic in topics for key in topic.topic_partitions]
        self.replicas = {
            key: replicas
            for topic in topics
            for key, replicas in zip(topic.topic_partitions, topic.assignment, strict=True)
        }
        self.internal = [key for topic in self.stage.setup.internal_topics for key in topic.topic_partitions]
        hosts = self.stage.lab.topology.hosts
        self.pool = ThreadPoolExecutor(len(hosts), "restart")
        self.locks = {host.name: threading.Lock() for host in hosts}

    def go(self) -> None:
        """Clients, steps, recovery. Raises InvalidRunError if the clients do not work before the steps."""
        try:
            self._place_coordinator()
            self._warm_up()
            with self.stage.lab.run_first() if self.measured else nullcontext():
                self._carry_out_all()
                self._recover()
                self.clients.drain()
        finally:
            self.clients.abandon()
            self.pool.shutdown(wait=True, cancel_futures=True)

    def _carry_out_all(self) -> None:
        since, before = self._now()
        self.stage.mark("begin", "the first step is next")
        self.clients.settle()
        for number, step in enumerate(self.steps, start=1):
            if not self._wait(step.when, since, before):
                self.stage.mark(f"late-{number}", f"{step.when.event} did not come in time")
            since, before = self._now()
            self._begin(number, step, since, before)
            self.clients.change(number)
        if self.measured:
            self.stage.mark("injected", "the fault is in force")
        while self.lasting:
            self._wait(Moment(after_s=POLL_S), *self._now())
        if self.measured and not any(FAULTS[step.fault].lasts for step in self.steps):
            self.stage.mark("heal", "the fault is over by itself")

    def _place_coordinator(self) -> None:
        """Let the same brokers coordinate as on a new cluster: an earlier run may have moved that role.

        Before Kafka 2.4 there is no request for that, and the role stays where it is.
        """
        for topic in self.stage.setup.internal_topics:
            state = self.stage.state(topic.name)
            if state is not None and state.leader != topic.replicas[0]:
                operator = self.stage.operator
                first = broker_name(topic.replicas[0])
                self._quietly(partial(operator.elect, topic.name, leader=first))

    def _warm_up(self) -> None:
        """Start the clients, and wait until all is well. Raises InvalidRunError."""
        try:
            self.clients.warm_up()
            wait_until(
                self._unhealthy,
                accept=lambda trouble: not trouble,
                within_s=WARM_S,
                poll_s=POLL_S,
                awaiting="every partition to have a full ISR before the first step",
                abort=self.stage.cluster.check_alive,
            )
        except WaitTimeoutError as error:
            raise InvalidRunError(
                f"The cluster did not work before the first step: {error.message}"
            ) from error

    # ---- waiting

    def _now(self) -> tuple[int, ClusterState]:
        view = self.stage.observer.views.of(source_of(self.stage))
        states = {key: view.partition(*key) for key in self.partitions}
        stated = {key: state for key, state in states.items() if state is not None}
        seen = ClusterState(
            leaders={key: state.leader for key, state in stated.items()},
            in_sync={key: len(set(state.isr)) for key, state in stated.items()},
            replicas={key: len(members) for key, members in self.replicas.items()},
            controller=controller_seen(self.stage),
            counts=self.clients.counts(),
            markers=self.stage.observer.markers(self.partitions) if self.stage.setup.transaction_log else 0,
        )
        return now_ns(), seen

    def _wait(self, moment: Moment, since: int, before: ClusterState) -> bool:
        """Wait for a moment, and end steps in the meantime. Returns False if its event did not come."""
        wait_until(
            lambda: self._tick() or self._reached(moment, since, before),
            accept=lambda reached: reached != "",
            within_s=moment.after_s + 600,
            poll_s=min(POLL_S, max(0.01, moment.after_s / 4)),
            awaiting=moment.event or f"{moment.after_s:g} s to pass",
        )
        return not moment.event or self._reached(moment, since, before) == "event"

    def _reached(self, moment: Moment, since: int, before: ClusterState) -> Literal["", "event", "time"]:
        if moment.event and happened(moment.event, before, self._now()[1]):
            return "event"
        return "time" if self.stage.since(since) >= moment.after_s else ""

    def _tick(self) -> Literal[""]:
        """Handle processes that have ended by themselves, and end the steps whose end has come."""
        self._note_ends()
        for one in tuple(self.lasting):
            if self._reached(one.until, one.since, one.before):
                self.lasting.remove(one)
                self._end(one)
        return ""

    def _end(self, one: _OpenStep) -> None:
        if self.measured:
            self.stage.mark("heal", "the fault is about to be healed")
        self.stage.mark(f"ended-{one.number}", f"step {one.number} ends")
        if not self._quietly(one.end):
            self.unended.append(one)

    def _note_ends(self) -> None:
        """Record processes that have ended by themselves. Raises ProcessDiedError if times are measured."""
        try:
            self.stage.cluster.check_alive()
        except ProcessDiedError as error:
            if self.measured:
                raise
            self.stage.mark("note", error.message.partition(";")[0])

    def _quietly(self, act: Callable[[], object]) -> bool:
        """Returns whether it worked; if not, the history says why. Raises the error if times are measured."""
        try:
            act()
        except (AckedError, OSError) as error:
            if self.measured:
                raise
            self.stage.mark("note", getattr(error, "message", str(error)))
            return False
        return True

    # ---- steps

    def _begin(self, number: int, step: Step, since: int, before: ClusterState) -> None:
        """Carry out a step, or say why it is skipped."""
        self.stage.mark(f"step-{number}", described(step))
        try:
            end = self._carry_out(step, self.partitions[step.partition])
        except (AckedError, OSError) as error:
            if self.measured:
                raise
            why = f"{step.fault}: {getattr(error, 'message', error)}"
            self.stage.mark(f"skipped-{number}", why, skipped=number)
            return
        if end is not None:
            self.lasting.append(
                _OpenStep(
                    number=number,
                    until=step.until,
                    since=now_ns() if self.measured else since,
                    before=before,
                    end=end,
                )
            )

    def _carry_out(self, step: Step, key: TopicPartition) -> Callable[[], None] | None:
        """Act; returns how the step ends, if it lasts."""
        stage, fault = self.stage, FAULTS[step.fault]
        aim = Aim(
            topic=next(topic for topic in stage.setup.topics if topic.name == key.topic),
            partition=key,
            value=step.value,
            cluster=stage.cluster,
            dialect=stage.dialect,
        )
        if fault.takes == "hosts":
            return self._hit(fault, step, aim)
        if fault.takes == "links":
            isolated = " + ".join(step.targets) if (step.arrow, step.toward) == ("<->", (OTHERS,)) else ""
            one, other = " + ".join(step.targets), " + ".join(step.toward)
            start, end = (other, one) if step.arrow == "<-" else (one, other)
            ends: Targets = {"from": start, "to": end, "both": step.arrow == "<->"}
            links, title = links_of(stage, step, key), link_title(step)
            aim = replace(aim, links=links, title=title, ends=(ends,), isolated=isolated)
        with steered(stage.lab, stage.setup.zookeeper_sessions if fault.takes == "cluster" else {}):
            injection = self._inject(fault, aim, stage.lab.topology.role("broker"))
        if fault.reverses:
            return partial(self._reverse, fault, aim)
        return injection.heal if fault.lasts else None

    def _hit(self, fault: type[ScheduledFault], step: Step, aim: Aim) -> Callable[[], None] | None:
        """Act on hosts; returns how the step ends, if it lasts."""
        hosts = hosts_of(self.stage, step.targets, aim.partition)
        others = tuple(host for host in hosts if fault.others and host.role not in (*fault.roles, "client"))
        hosts = tuple(host for host in hosts if host.role in fault.roles)
        if not hosts:
            raise InvalidRunError(f"{', '.join(step.targets)} names no {' or '.join(fault.roles)}")
        if fault.processes != "any":
            hosts, others = self._running(hosts), self._running(others)
        if not hosts:
            raise InvalidRunError(f"no process runs on {', '.join(step.targets)}")
        if others:
            self._inject(FAULTS[fault.others], replace(aim, hosts=others), others)
        if fault.processes == "ended":
            self._inject(Kill, replace(aim, hosts=hosts), hosts)
        injections: list[Injection] = []
        aims = [
            replace(aim, hosts=each) for each in ([(host,) for host in hosts] if fault.one_host else [hosts])
        ]
        for one in aims:
            inject = partial(self._inject, fault, one, one.hosts)
            if fault.processes == "ended":
                self._quietly(inject)  # the processes have ended already, and must start again
            else:
                try:
                    injections.append(inject())
                except (AckedError, OSError):
                    if fault.reverses:
                        self._reverse(fault, *aims[: len(injections)])
                    raise
        if fault.ends_processes or fault.processes == "ended":
            return partial(self._restart, [host.name for host in (*others, *hosts)])
        if fault.reverses:
            return partial(self._reverse, fault, *aims)
        return partial(_heal, injections) if fault.lasts else None

    def _reverse(self, fault: type[ScheduledFault], *aims: Aim) -> None:
        for aim in aims:
            self.stage.nemesis.make(fault.reverse, aim).inject()

    def _running(self, hosts: Iterable[Host]) -> tuple[Host, ...]:
        return tuple(host for host in hosts if self.stage.lab.alive(host.name))

    def _inject(self, fault: type[ScheduledFault], aim: Aim, hosts: Iterable[Host]) -> Injection:
        """Inject a fault of ``hosts``; one that waits for processes to end may have to kill them."""
        injection = self.stage.nemesis.make(fault.at, aim)
        names = [host.name for host in hosts]
        if not fault.orderly or self.measured:
            injection.inject()
        elif not self._or_kill(injection.inject, names) and not fault.lasts:
            self._restart(names)
        return injection

    def _or_kill(self, stop: Callable[[], object], hosts: list[str]) -> bool:
        """Stop processes in order, and kill those that do not end in time, as service managers do.

        A broker that is cut off from the controllers waits for them before it ends. Left alone, it would end
        after the heal, and nobody would start it again. Returns whether all ended.
        """
        try:
            stop()
        except WaitTimeoutError as error:
            late = [
                host for host in hosts if host in self.stage.processes.ended and self.stage.lab.alive(host)
            ]
            killed = f" Killed: {', '.join(late)}." if late else ""
            self.stage.mark("note", f"{error.message}{killed}")
            if late:
                self._quietly(lambda: self.stage.nemesis.kill(*late))
            return False
        return True

    def _restart(self, hosts: list[str]) -> None:
        """Start ended processes, in the background: a broker that is cut off takes long to register."""
        if self.measured:
            self._start_together(hosts)
        else:
            self.restarts += [self.pool.submit(self._start, host) for host in hosts]

    def _start_together(self, hosts: Iterable[str]) -> None:
        """Start ended processes: nodes of the quorum one after the other, then all brokers at once."""
        topology = self.stage.lab.topology
        brokers = [name for name in hosts if topology.host(name).role == "broker"]
        for name in hosts:
            if name not in brokers:
                self._start(name)
        for started in [self.pool.submit(self._start, name) for name in brokers]:
            started.result()

    def _start(self, host: str) -> None:
        with self.locks[host]:
            for _ in range(_START_TRIES):
                if self.stage.lab.alive(host):
                    return
                if self._quietly(lambda: self.stage.cluster.start(host)):
                    return
                if host in self.stage.processes.ended:
                    return  # by a later step, which also starts it again

    # ---- recovery

    def _recover(self) -> None:
        """Heal everything, start everything, and wait until the cluster is whole again."""
        stage = self.stage
        for restart in self.restarts:
            restart.result()
        if not self._quietly(stage.nemesis.heal_all):
            self._quietly(stage.nemesis.heal_all)
        healed_ns = stage.mark("healed", "every fault is over")
        self._start_dead()
        for step in self.unended:
            self._quietly(step.end)
        if not self._becomes_whole() and self.measured and self._operate():
            self._becomes_whole()
        self.clients.check(healed_ns)

    def _start_dead(self) -> None:
        """Start what does not run, which an operator would do."""
        stage = self.stage
        hosts = [host for host in stage.lab.topology.hosts if host.role != "client"]
        dead = {host.name: host for host in hosts if not stage.lab.alive(host.name)}
        for name in dead if self.measured else ():
            stage.mark("operator", f"start {name}")
        self._start_together(list(dead))
        self._note_ends()
        for name, host in dead.items():
            if not stage.lab.alive(name):
                text = f"{host.role} {name} does not run although it was started"
                stage.mark("finding-broker-down", text, finding="broker-down", host=name)

    def _becomes_whole(self) -> bool:
        """Wait until every partition has a leader and a full ISR; otherwise say what is missing."""
        stage = self.stage
        try:
            wait_until(
                self._missing,
                accept=lambda missing: not missing,
                within_s=self.recovery_s,
                poll_s=max(_WHOLE_POLL_S, stage.cluster.poll_s),
                awaiting="every partition to have a leader and a full ISR, and every replica to answer",
                abort=self._note_ends,
            )
        except WaitTimeoutError as error:
            if self.measured:
                stage.progress.say(error.message)
                return False
            self._mark_no_recovery()
            return False
        stage.mark("recovered", "every partition has a leader and a full ISR")
        return True

    def _mark_no_recovery(self) -> None:
        unhealthy = dict(self.stage.unhealthy((*self.partitions, *self.internal)))
        incomplete = [str(key) for key, state in unhealthy.items() if state and state.leader >= 0]
        without_candidates = self._are_without_candidates(set(unhealthy))
        missing = "; ".join(starmap(_trouble, unhealthy.items())) or self._missing()
        if without_candidates:
            missing += "; no replica may become leader there"
        self.stage.mark(
            "finding-no-recovery",
            f"after {self.recovery_s:g} s: {missing}",
            finding="no-recovery",
            incomplete=incomplete,
            only_incomplete=len(incomplete) == len(unhealthy) > 0 and not without_candidates,
            without_candidates=without_candidates,
        )

    def _operate(self) -> bool:
        """Do what an operator would about partitions that do not recover; False if there is nothing to do."""
        stage = self.stage
        acted = False
        restarted: set[int] = set()
        for key, state in stage.unhealthy(self.partitions):
            if state is None:
                continue
            try:
                if state.leader < 0:
                    stage.mark("operator", f"elect an unclean leader of {key}")
                    stage.operator.elect(*key, kind="unclean")
                elif state.leader not in restarted:
                    leader = broker_name(state.leader)
                    restarted.add(state.leader)
                    stage.mark("operator", f"restart {leader}")
                    stage.nemesis.stop(leader)
                    stage.cluster.start(leader)
            except InvalidRunError as error:
                stage.progress.say(error.message)
            acted = True
        return acted

    def _missing(self) -> str:
        """What keeps the cluster from being whole; empty if nothing does."""
        return self._unhealthy() or next(self.stage.silent_replicas(self.partitions), "")

    def _unhealthy(self) -> str:
        """A partition without a leader or a full ISR; empty if there is none."""
        return next(starmap(_trouble, self.stage.unhealthy((*self.partitions, *self.internal))), "")

    def _are_without_candidates(self, unhealthy: set[TopicPartition]) -> bool:
        """Whether Kafka knows no replica that may lead, in any of the unhealthy partitions (KIP-966)."""
        topics = {key.topic for key in unhealthy}
        for broker in self.stage.lab.topology.role("broker"):
            try:
                seen = describe_topic_partitions(broker.broker_endpoint, topics, timeout_s=2.0)
            except (OSError, UnfitError):
                continue
            nobody = {key for key, one in seen.items() if one.state.leader < 0 and not one.candidates}
            return bool(unhealthy) and unhealthy <= nobody
        return False

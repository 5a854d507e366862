"""The body of the scenario that carries out a schedule.

It survives whatever the schedule does: a step that cannot be carried out is skipped, and a process that ends
by itself is recorded and started again. At the end every fault is healed and every process runs, and the
cluster must converge.

| mark | text |
|---|---|
| `begin` | all producers and consumers work |
| `step-1`, ... | the step is due, and what it does |
| `skipped-1`, ... | why the step was left out |
| `ended-1`, ... | the step is due to end |
| `late-1`, ... | the event that the step waited for did not come |
| `note` | what else went wrong |
| `healed`, `recovered`, `drained` | every fault is over; the cluster is whole; the producers have stopped |
| `finding-...` | what must not happen: `no-recovery`, `broker-down`, `client-stuck` |
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from harness.clock import now_ns
from harness.cluster.zookeeper_mode import ZooKeeperCluster
from harness.errors import AckedError, InvalidRunError, ProcessDiedError, UnfitError, WaitTimeoutError
from harness.kafka.model import TopicPartition, broker_name
from harness.kafka.wire.metadata import describe_topic_partitions
from harness.lab.model import Host
from harness.waiting import wait_until
from nemesis.fault import Injection
from run.stage import Stage
from studies.search.aims import controller_seen, hosts_of, links_of, source_of
from studies.search.crowd import POLL_S, WARM_S, Crowd, number_of
from studies.search.events import Seen, happened, stuck
from studies.search.faults import KINDS
from studies.search.findings import NO_CANDIDATE, incomplete
from studies.search.schedule import Moment, Schedule, Step, described

_START_TRIES = 2
_EFFECT_S = 4.0
"""How long to wait for the effect of an operator's request before the next step."""


def _heal(injections: list[Injection]) -> Callable[[], None]:
    def heal() -> None:
        for one in injections:
            one.heal()

    return heal


def perform(stage: Stage, schedule: Schedule) -> None:
    """Carry out a schedule. ``stage.setup.topics`` are its topics, in their order.

    Raises InvalidRunError if the clients do not work before the first step.
    """
    _Performance(stage=stage, schedule=schedule).go()


@dataclass(kw_only=True)
class _Lasting:
    """A step that has begun and not ended."""

    number: int
    until: Moment
    since: int
    before: Seen
    end: Callable[[], None]


@dataclass(kw_only=True)
class _Performance:
    stage: Stage
    schedule: Schedule
    lasting: list[_Lasting] = field(default_factory=list)
    restarts: list[Future[None]] = field(default_factory=list)
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(8, "restart"))
    locks: dict[str, threading.Lock] = field(default_factory=dict)

    def __post_init__(self) -> None:
        topics = self.stage.setup.topics
        self.partitions = [key for topic in topics for key in topic.topic_partitions]
        self.replicas = {
            key: replicas
            for topic in topics
            for key, replicas in zip(topic.topic_partitions, topic.assignment, strict=True)
        }
        self.internal = [key for topic in self.stage.setup.internal_topics for key in topic.topic_partitions]
        self.crowd = Crowd(
            stage=self.stage,
            plans=self.schedule.producers,
            partitions=self.partitions,
            groups=self.schedule.groups,
        )
        self.locks = {host.name: threading.Lock() for host in self.stage.lab.topology.hosts}

    def go(self) -> None:
        """Clients, steps, recovery."""
        try:
            self._place_coordinator()
            self._warm_up()
            since, before = self._now()
            self.stage.mark("begin", "the first step is next")
            for number, step in enumerate(self.schedule.steps, start=1):
                if not self._wait(step.when, since, before):
                    self.stage.mark(f"late-{number}", f"{step.when.event} did not come in time")
                since, before = self._now()
                self._begin(number, step, since, before)
                self.crowd.change(number)
            while self.lasting:
                self._wait(Moment(after_s=POLL_S), *self._now())
            self._recover()
            self.crowd.drain()
        finally:
            self.crowd.abandon()
            self.pool.shutdown(wait=True, cancel_futures=True)

    def _place_coordinator(self) -> None:
        """Let the same brokers coordinate as on a new cluster: an earlier run may have moved that role.

        Before Kafka 2.4 there is no request for that, and the role stays where it is.
        """
        for topic in self.stage.setup.internal_topics:
            state = self.stage.state(topic.name)
            if state is not None and state.leader != topic.replicas[0]:
                operator = self.stage.nemesis.operator(self.stage.cluster, self.stage.dialect)
                first = broker_name(topic.replicas[0])
                self._quietly(partial(operator.elect, topic.name, leader=first))

    def _warm_up(self) -> None:
        """Start the clients, and wait until all is well. Raises InvalidRunError."""
        try:
            self.crowd.warm_up()
            wait_until(
                self._unhealthy,
                accept=lambda found: not found,
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

    def _now(self) -> tuple[int, Seen]:
        view = self.stage.observer.views.of(source_of(self.stage))
        states = {key: view.partition(*key) for key in self.partitions}
        known = {key: state for key, state in states.items() if state is not None}
        seen = Seen(
            leaders={key: state.leader for key, state in known.items()},
            in_sync={key: len(set(state.isr)) for key, state in known.items()},
            replicas={key: len(members) for key, members in self.replicas.items()},
            controller=controller_seen(self.stage),
            counts=self.crowd.counts(),
            markers=self.stage.observer.markers(self.partitions) if self.schedule.transactional else 0,
        )
        return now_ns(), seen

    def _wait(self, moment: Moment, since: int, before: Seen) -> bool:
        """Wait for a moment, and end steps in the meantime. Returns False if its event did not come."""
        wait_until(
            lambda: self._tick() or self._reached(moment, since, before),
            accept=lambda reached: reached != "",
            within_s=moment.after_s + 600,
            poll_s=min(POLL_S, max(0.01, moment.after_s / 4)),
            awaiting=moment.event or f"{moment.after_s:g} s to pass",
        )
        return not moment.event or self._reached(moment, since, before) == "event"

    def _reached(self, moment: Moment, since: int, before: Seen) -> Literal["", "event", "time"]:
        if moment.event and happened(moment.event, before, self._now()[1]):
            return "event"
        return "time" if self.stage.since(since) >= moment.after_s else ""

    def _tick(self) -> Literal[""]:
        """Handle processes that have ended by themselves, and end the steps whose end has come."""
        self._note_ends()
        for one in tuple(self.lasting):
            if self._reached(one.until, one.since, one.before):
                self.lasting.remove(one)
                self.stage.mark(f"ended-{one.number}", f"step {one.number} ends")
                self._quietly(one.end)
        return ""

    def _note_ends(self) -> None:
        try:
            self.stage.cluster.check_alive()
        except ProcessDiedError as error:
            self.stage.mark("note", error.message.partition(";")[0])

    def _quietly(self, act: Callable[[], object]) -> bool:
        """Returns whether it worked; if not, the history says why."""
        try:
            act()
        except (AckedError, OSError) as error:
            self.stage.mark("note", getattr(error, "message", str(error)))
            return False
        return True

    # ---- steps

    def _begin(self, number: int, step: Step, since: int, before: Seen) -> None:
        """Carry out a step, or say why it is skipped."""
        self.stage.mark(f"step-{number}", described(step))
        key = self.partitions[step.partition]
        try:
            end = self._carry_out(step, key)
        except (AckedError, OSError) as error:
            self.stage.mark(f"skipped-{number}", f"{step.fault}: {getattr(error, 'message', error)}")
            return
        if end is not None:
            self.lasting.append(
                _Lasting(number=number, until=step.until, since=since, before=before, end=end)
            )

    def _carry_out(self, step: Step, key: TopicPartition) -> Callable[[], None] | None:
        """Act; returns how the step ends, if it lasts."""
        kind = KINDS[step.fault]
        if kind.takes == "links":
            return self._linked(step, key).inject().heal
        if kind.takes == "hosts":
            hosts = [host for host in hosts_of(self.stage, step.targets, key) if host.role in kind.roles]
            if not hosts:
                raise InvalidRunError(f"{', '.join(step.targets)} names no {' or '.join(kind.roles)}")
            if kind.ends_processes:
                hosts = [host for host in hosts if self.stage.lab.alive(host.name)]
            if not hosts:
                raise InvalidRunError(f"no process runs on {', '.join(step.targets)}")
            return self._on_hosts(step, hosts, key)
        if step.fault == "raise-min-insync":
            return self._raise_min_insync(key)
        self._operate(step.fault, key)
        return None

    def _linked(self, step: Step, key: TopicPartition) -> Injection:
        nemesis, found = self.stage.nemesis, links_of(self.stage, step, key)
        name = f"{' + '.join(step.targets)} {step.arrow} {' + '.join(step.toward)}"
        if step.fault == "cut":
            return nemesis.cut_links(f"cut {name}", found)
        if step.fault == "flap":
            return nemesis.flapping(*map(str, found), period_s=step.value)
        return nemesis.degrade.lose(*map(str, found), percent=step.value)

    def _on_hosts(self, step: Step, hosts: list[Host], key: TopicPartition) -> Callable[[], None]:
        nemesis, names = self.stage.nemesis, [host.name for host in hosts]
        if step.fault == "throttle":
            return _heal([nemesis.degrade.throttle(name, rate_kbit=step.value).inject() for name in names])
        if step.fault == "pause":
            return nemesis.pause(*names).inject().heal
        if step.fault == "power-cut":
            nemesis.storage.power_cut(*names)
        elif step.fault == "stop":
            self._or_kill(lambda: nemesis.stop(*names), names)
        else:
            nemesis.kill(*names)
        if step.fault == "wipe":
            for name in names:
                self._quietly(lambda name=name: nemesis.storage.wipe(name, key.topic, key.partition))  # type: ignore[misc]
        return lambda: self._restart(names)

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

    def _operate(self, fault: str, key: TopicPartition) -> None:
        stage = self.stage
        operator = stage.nemesis.operator(stage.cluster, stage.dialect)
        if fault == "rolling-restart":
            brokers = [host.name for host in stage.lab.topology.role("broker")]
            if not all(stage.lab.alive(name) for name in brokers):
                raise InvalidRunError("not every broker runs")
            if not self._or_kill(
                lambda: stage.nemesis.rolling_restart(*brokers, restart=stage.cluster.start), brokers
            ):
                self._restart(brokers)
        elif fault == "move-controller":
            assert isinstance(stage.cluster, ZooKeeperCluster)
            operator.delete_controller(stage.cluster.registry)
        elif fault == "reassign":
            state = stage.state(*key)
            if state is None or not state.replicas:
                raise InvalidRunError(f"the replicas of {key} are not known")
            first, *others = state.replicas
            operator.reassign(key.topic, (*others, first), key.partition, within_s=_EFFECT_S)
        else:
            operator.elect(*key, kind="unclean" if fault == "elect-unclean" else "preferred")

    def _raise_min_insync(self, key: TopicPartition) -> Callable[[], None]:
        """Let acks=all need every replica: a topic never promises less than the schedule says."""
        stage, name = self.stage, "min.insync.replicas"
        topic = next(one for one in stage.setup.topics if one.name == key.topic)
        operator = stage.nemesis.operator(stage.cluster, stage.dialect)

        def configure(value: str) -> None:
            operator.configure(topic.name, name, value, partitions=topic.partitions, within_s=_EFFECT_S)

        configure(str(len(self.replicas[key])))
        return lambda: configure(topic.config[name])

    def _restart(self, hosts: list[str]) -> None:
        """Start ended processes in the background: a broker that is cut off takes long to register."""
        self.restarts += [self.pool.submit(self._start, host) for host in hosts]

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
        self._start_dead()
        stage.mark("healed", "every fault is over, and every process was started")
        try:
            wait_until(
                self._missing,
                accept=lambda missing: not missing,
                within_s=stage.timings.converge_s,
                poll_s=max(POLL_S, stage.cluster.poll_s),
                awaiting="every partition to have a leader and a full ISR, and every replica to answer",
                abort=self._note_ends,
            )
        except WaitTimeoutError:
            missing = "; ".join(text for _, text in self._troubles()) or self._missing()
            missing = f"after {stage.timings.converge_s:g} s: {missing}{self._without_candidates()}"
            stage.mark("finding-no-recovery", missing)
        else:
            stage.mark("recovered", "every partition has a leader and a full ISR")
        self._check_producers()
        if self.crowd.transactions and (left := stage.nemesis.wait_delivered()):
            # Requests that clients gave up long ago may still arrive, and decide later transactions.
            stage.mark("note", f"not delivered while the producers ran: {', '.join(left)}")

    def _start_dead(self) -> None:
        """Start what does not run: nodes of the quorum one after the other, then all brokers at once."""
        stage = self.stage
        hosts = [host for host in stage.lab.topology.hosts if host.role != "client"]
        dead = [host for host in hosts if not stage.lab.alive(host.name)]
        for host in dead:
            if host.role != "broker":
                self._start(host.name)
        brokers = [self.pool.submit(self._start, host.name) for host in dead if host.role == "broker"]
        for started in brokers:
            started.result()
        self._note_ends()
        for host in dead:
            if not stage.lab.alive(host.name):
                stage.mark(
                    "finding-broker-down", f"{host.role} {host.name} does not run although it was started"
                )

    def _check_producers(self) -> None:
        """Check that every producer gets another message acknowledged, and that every group reads one."""
        patience_s, before = self.stage.timings.patience_s, self.crowd.counts()
        try:
            self.crowd.wait_through(patience_s)
        except WaitTimeoutError:
            for name in stuck(before, self.crowd.counts()):
                label = self.schedule.producers[number_of(name) - 1].label
                self.stage.mark(
                    "finding-client-stuck",
                    f"{name} ({label}) had nothing acknowledged for {patience_s:g} s",
                )
        for number in self.crowd.wait_groups(patience_s):
            self.stage.mark("finding-client-stuck", f"group {number} read nothing for {patience_s:g} s")

    def _missing(self) -> str:
        """What keeps the cluster from being whole; empty if nothing does."""
        return self._unhealthy() or next(self.stage.silent_replicas(self.partitions), "")

    def _without_candidates(self) -> str:
        """That Kafka knows no replica that may lead, if it says so of every unhealthy partition (KIP-966)."""
        unhealthy = {key for key, _ in self._troubles()}
        topics = {key.topic for key in unhealthy}
        for broker in self.stage.lab.topology.role("broker"):
            try:
                seen = describe_topic_partitions(broker.broker_address, topics, timeout_s=2.0)
            except (OSError, UnfitError):
                continue
            nobody = {key for key, one in seen.items() if one.state.leader < 0 and not one.candidates}
            return f"; {NO_CANDIDATE} there" if unhealthy and unhealthy <= nobody else ""
        return ""

    def _unhealthy(self) -> str:
        """A partition without a leader or a full ISR; empty if there is none."""
        return next((text for _, text in self._troubles()), "")

    def _troubles(self) -> Iterator[tuple[TopicPartition, str]]:
        for key, state in self.stage.unhealthy((*self.partitions, *self.internal)):
            if state is None:
                yield key, f"nothing is known of {key}"
            else:
                yield key, incomplete(key, state.leader, state.isr, state.replicas or ())

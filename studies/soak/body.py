"""The body of a soak: streams in every AZ, and rounds of faults until the time is over.

A round is a case of the battery (`studies.assess.battery`), a whole schedule, or the steps of a schedule that
a seed makes. A quiet stretch comes before each round, and one after the last. When the cluster has recovered
from a round, all windows that are closed are compared again with every replica.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import msgspec

from harness.clock import now_ns
from harness.errors import WaitTimeoutError
from harness.lab.model import Topology
from harness.waiting import wait_until
from run.clients import CALM_FETCHES, ProducerSetting
from run.soak.soak import RollingRun
from run.stage import Stage
from studies.assess.battery import Case
from studies.assess.described import default_times, hold_s, recovery_s
from studies.search.grammar import fresh
from studies.search.schedule import Schedule
from studies.search.space import Space
from studies.steps.body import WARM_S, Body, stand
from studies.steps.step import Step
from workloads.client.client import BackgroundConsumer
from workloads.protocol.results import StreamCounts
from workloads.protocol.spec import StreamLoad

DRAIN_S = 30.0
"""How long producers may take to stop."""
_LEAST_QUIET_S = 5.0
_ABORT_EVERY = 10
"""One of so many transactions is aborted."""
_COMMIT_S = 1.0
"""How often readers commit: each commit is a row of the history."""
_QUEUED_KIB = 4096
"""What a reader fetches in advance, of each partition; librdkafka's default is 64 MiB."""


@dataclass(frozen=True)
class Round:
    """One fault, or several that belong together."""

    says: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, kw_only=True)
class SoakPlan:
    """What a soak does."""

    for_s: float
    rate: float
    """Messages per second of all streams together."""
    every_s: float
    """Seconds from the beginning of one round to that of the next, if its fault has ended by then."""
    readers: bool = False
    """A group in each AZ reads all topics."""
    transaction: int = 0
    """Messages of each transaction of the described producer; 0: it has none."""
    rounds: Callable[[float, int], Iterator[Round]]
    """The rounds, by how long a fault lasts and how many partitions there are; none: no fault."""


def of_cases(cases: Sequence[Case]) -> Callable[[float, int], Iterator[Round]]:
    """The cases in turn, again and again."""
    return lambda lasting_s, _: (
        Round(case.subject, case.lasting(lasting_s)) for case in itertools.cycle(cases)
    )


def of_schedule(schedule: Schedule) -> Callable[[float, int], Iterator[Round]]:
    """A schedule, again and again."""
    return lambda _, partitions: itertools.repeat(
        Round(schedule.made_by or schedule.digest, _within(schedule.steps, partitions))
    )


def of_seed(space: Space, seed: int) -> Callable[[float, int], Iterator[Round]]:
    """The steps of the schedules that a seed makes."""

    def rounds(_: float, partitions: int) -> Iterator[Round]:
        for number in itertools.count(1):
            schedule = fresh(space, seed, number)
            if schedule.steps:
                yield Round(schedule.made_by, _within(schedule.steps, partitions))

    return rounds


def _within(steps: Sequence[Step], partitions: int) -> tuple[Step, ...]:
    """The steps, about partitions that there are."""
    return tuple(msgspec.structs.replace(step, partition=step.partition % partitions) for step in steps)


def distinct(cases: Sequence[Case]) -> tuple[Case, ...]:
    """One case of each fault, of those that need no prepared cluster: roles stay where they are."""
    first: dict[str, Case] = {}
    for case in cases:
        if not case.preparations:
            first.setdefault(case.says, case)
    return tuple(first.values())


def writes(topology: Topology, settings: Sequence[ProducerSetting], topics: int) -> int:
    """How many streams there are."""
    return len({host.az for host in topology.role("client")}) * len(settings) * topics


@dataclass(kw_only=True)
class Soak:
    """The clients of a soak as a body of steps sees them, and the body of the run."""

    plan: SoakPlan
    settings: Sequence[ProducerSetting]
    rolling: RollingRun

    def run(self, stage: Stage) -> None:
        """Carry out the whole soak. Raises WaitTimeoutError if the clients do not work at first."""
        self.stage = stage
        self._start_streams()
        members = self._start_readers() if self.plan.readers else []
        began = now_ns()
        partitions = sum(topic.partitions for topic in stage.setup.topics)
        lasting_s = hold_s(stage.timings)
        for number, one in enumerate(self.plan.rounds(lasting_s, partitions), start=1):
            start_s = max(number * self.plan.every_s, stage.since(began) + _LEAST_QUIET_S)
            if start_s + 2 * lasting_s > self.plan.for_s:
                break
            self._until(began, start_s)
            stage.mark(f"round-{number}", one.says)
            Body(
                stage=stage,
                steps=one.steps,
                clients=Bystanders(),
                recovery_s=recovery_s(stage.timings),
            ).go()
            self.rolling.compare_again()
        self._until(began, self.plan.for_s)
        stage.stop_streams(DRAIN_S)
        stage.mark("drained", "the producers have stopped")
        self._stop_readers(members)

    def _start_streams(self) -> None:
        stage, topics = self.stage, self.stage.setup.topics
        azs = [az for az in stage.lab.topology.azs if az in stage.clients]
        own = default_times(stage.user.producer.given, stage.timings)
        each = self.plan.rate / writes(stage.lab.topology, self.settings, len(topics))
        for az in azs:
            for topic in topics:
                load = StreamLoad(
                    topic=topic.name,
                    partitions=tuple(range(topic.partitions)),
                    rate=each,
                    renewed=True,
                    yields=True,
                )
                for number, setting in enumerate(self.settings):
                    name = f"{az}-{topic.name}-{setting.name}"
                    sent = load if number else self._in_transactions(load)
                    stage.start_stream(az, name, sent, {**own, **setting.fixed})
        wait_until(
            lambda: [stream.counts().ok for stream in stage.streams.values()],
            accept=lambda counts: all(count > 0 for count in counts),
            within_s=WARM_S,
            poll_s=0.2,
            awaiting="every producer to work",
            abort=stage.cluster.check_alive,
        )

    def _in_transactions(self, load: StreamLoad) -> StreamLoad:
        """The load of the described producer."""
        if not self.plan.transaction:
            return load
        return replace(load, transaction=self.plan.transaction, abort_every=_ABORT_EVERY)

    def _start_readers(self) -> list[BackgroundConsumer]:
        """A member of a group of its own in each AZ and for each topic; they commit once a second."""
        stage = self.stage
        members = [
            stage.start_member(
                az,
                f"{az}-{topic.name}",
                topic.name,
                partitions=topic.partitions,
                name=f"{az}-{topic.name}-reader",
                config={**CALM_FETCHES, "queued.max.messages.kbytes": _QUEUED_KIB},
                commit_every_s=_COMMIT_S,
            )
            for az in stage.clients
            for topic in stage.setup.topics
        ]
        wait_until(
            lambda: [member.progress().count for member in members],
            accept=lambda counts: all(count > 0 for count in counts),
            within_s=WARM_S,
            poll_s=0.2,
            awaiting="every reader to receive a message",
            abort=stage.cluster.check_alive,
        )
        return members

    def _stop_readers(self, members: Sequence[BackgroundConsumer]) -> None:
        """Stop the readers when they have received what there is, or do not go on."""
        counts = [-1]

        def received_more() -> bool:
            counts.append(sum(member.progress().count for member in members))
            return counts[-1] > counts[-2]

        with suppress(WaitTimeoutError):  # what they have not received is no finding
            wait_until(
                received_more,
                accept=lambda more: not more,
                within_s=DRAIN_S,
                poll_s=1.0,
                awaiting="the readers to receive what is left",
            )
        for member in members:
            member.stop()

    def _until(self, began: int, seconds: float) -> None:
        """Change nothing until so many seconds have passed since the beginning."""
        stand(self.stage, began, seconds, f"{seconds:g} s of load to pass")


class Bystanders:
    """The clients of a round (`studies.steps.body.Clients`): they work before, during and after it."""

    def warm_up(self) -> None:
        """They work already."""

    def settle(self) -> None:
        """The quiet stretch is over."""

    def change(self, step: int) -> None:
        """Nothing."""

    def counts(self) -> Mapping[str, StreamCounts]:
        """Nothing, because no step of a round waits for a message."""
        return {}

    def check(self, healed_ns: int) -> None:
        """Nothing."""

    def drain(self) -> None:
        """They go on."""

    def abandon(self) -> None:
        """They go on."""

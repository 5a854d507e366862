"""The producers and consumers of a run that carries out a schedule."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from checkers.shares.findings import PATIENCE_NS
from harness.clock import now_ns
from harness.errors import AckedError, WaitTimeoutError
from harness.kafka.model import TopicPartition
from harness.waiting import wait_until
from run.clients import CALM_FETCHES
from run.shares import configure_share_group, wait_until_done
from run.stage import Stage
from studies.assess.described import DRAIN_S
from studies.search.schedule import Group, Producer
from studies.search.transactions import TransactionLoad
from studies.steps.body import POLL_S, WARM_S
from studies.steps.events import stuck
from workloads.client.client import BackgroundConsumer, Stream
from workloads.protocol.results import StreamCounts
from workloads.protocol.spec import StreamLoad

_STEADY_S = 1.0
_READERS = 2
_LETTERS = "abcdefghij"
_SHARES_WARM_S = 80.0
"""With a share group: on a busy machine its first records came 50 s after its members had started."""
_LOCK_S = 5.0
"""Share groups: shorter than many faults, so that locks end while faults last."""
_DONE_S = _LOCK_S + PATIENCE_NS / 1e9 + 5.0
"""Long enough for the checker to say that a record was not delivered."""


_NAME = re.compile(r"producer-(\d+)")


def number_of(name: str) -> int:
    """Number of a producer in its schedule, by the name of one of its writers: `producer-2a` → 2.

    0 for the name of anything else.
    """
    match = _NAME.match(name)
    return int(match[1]) if match else 0


@dataclass(kw_only=True)
class Crowd:
    """The clients: a consumer in each of two AZs, and the producers and groups of the schedule."""

    stage: Stage
    plans: Sequence[Producer]
    partitions: Sequence[TopicPartition]
    rate: float
    """Messages per second of each producer to each partition."""
    groups: Sequence[Group] = ()
    producers: dict[str, Stream | TransactionLoad] = field(default_factory=dict)
    """What runs, by name: a producer has a stream for each topic, or transactions over all of them."""
    readers: list[BackgroundConsumer] = field(default_factory=list)
    members: dict[tuple[int, int], BackgroundConsumer] = field(default_factory=dict)
    """The members of groups that run, by the numbers of the group and of the member."""
    fenced: list[TransactionLoad] = field(default_factory=list)
    """Transactional producers that have a successor. They go on until they learn of it."""

    def warm_up(self) -> None:
        """Start the clients that work from the beginning. Raises WaitTimeoutError if they do not."""
        stage = self.stage
        azs = [az for az in stage.lab.topology.azs if az in stage.clients]
        self.readers = [stage.start_reader(az, self.partitions, CALM_FETCHES) for az in azs[:_READERS]]
        self.change(0)
        enough = 2 * len(self.partitions)
        wait_until(
            lambda: min(
                (
                    *(counts.ok for counts in self.counts().values()),
                    *(reader.progress().count for reader in self.readers),
                    *(self.read_by_groups().values()),
                )
            ),
            accept=lambda count: count >= enough,
            within_s=_SHARES_WARM_S if any(group.answers for group in self.groups) else WARM_S,
            poll_s=POLL_S,
            awaiting="every producer and every consumer to work",
            abort=stage.cluster.check_alive,
        )

    def settle(self) -> None:
        """Nothing: a schedule says when its first step begins."""

    def change(self, step: int) -> None:
        """Start and stop the producers that do so after a step; 0: before the first one."""
        for number, plan in enumerate(self.plans, start=1):
            if plan.stops == step and step:
                for name in [name for name in self.producers if number_of(name) == number]:
                    self.stage.streams.pop(name, None)
                    self.producers.pop(name).stop(_STEADY_S)
            if plan.starts == step:
                self._start(number, plan)
        for number, group in enumerate(self.groups, start=1):
            for place, member in enumerate(group.members, start=1):
                if member.stops == step and step and (number, place) in self.members:
                    self._leave(self.members.pop((number, place)))
                if member.starts == step:
                    self._join(number, place)

    def _join(self, number: int, place: int) -> None:
        stage, group = self.stage, self.groups[number - 1]
        az, topic, identity = group.members[place - 1].az, stage.setup.topics[group.topic], self._id(number)
        name = f"group-{number}-member-{place}"
        if group.answers:
            if place == 1:  # it joins before all others
                configure_share_group(
                    stage,
                    identity,
                    share_auto_offset_reset="earliest",
                    share_record_lock_duration_ms=str(round(_LOCK_S * 1000)),
                )
            self.members[number, place] = stage.start_share_member(
                az, identity, topic.name, partitions=topic.partitions, name=name, answers=group.answers
            )
            return
        self.members[number, place] = stage.start_member(
            az, identity, topic.name, partitions=topic.partitions, name=name, config=CALM_FETCHES
        )

    def _id(self, number: int) -> str:
        """The group.id of a group."""
        return f"{self.stage.setup.topics[self.groups[number - 1].topic].name}-group-{number}"

    def _leave(self, member: BackgroundConsumer) -> None:
        try:
            member.stop()
        except AckedError as error:
            self.stage.mark("note", error.message)

    def read_by_groups(self) -> dict[int, int]:
        """How many messages the running members of each group have read, by the number of the group."""
        counts = dict.fromkeys(range(1, 1 + len(self.groups)), 0)
        for (number, _), member in self.members.items():
            counts[number] += member.progress().count
        return counts

    def _start(self, number: int, plan: Producer) -> None:
        stage = self.stage
        if plan.transactional:
            name = f"producer-{number}"
            before = self.producers.pop(f"producer-{plan.succeeds}", None)
            if isinstance(before, TransactionLoad):
                before.concede()
                self.fenced.append(before)
            self.producers[name] = TransactionLoad(
                stage,
                plan.az,
                name,
                self.partitions,
                plan.in_flight,
                succeeds=f"producer-{plan.succeeds or number}",
            )
            return
        for letter, topic in zip(_LETTERS, stage.setup.topics, strict=False):
            name = f"producer-{number}{letter}"
            load = StreamLoad(
                topic=topic.name,
                partitions=tuple(range(topic.partitions)),
                rate=self.rate * topic.partitions,
            )
            fixed = {"acks": plan.acks, "enable.idempotence": plan.idempotent}
            spec = stage.stream_spec(name, load.rate, fixed)
            config = {**spec.config, "max.in.flight.requests.per.connection": plan.in_flight}
            stream = stage.clients[plan.az].start_stream(
                replace(spec, config=config), stage.user.shaped(load)
            )
            stage.streams[name] = self.producers[name] = stream

    def counts(self) -> dict[str, StreamCounts]:
        """Messages of the producers that run, by name."""
        return {name: stream.counts() for name, stream in self.producers.items()}

    def wait_through(self, within_s: float) -> None:
        """Wait until every producer has had another message acknowledged. Raises WaitTimeoutError."""
        before = self.counts()
        wait_until(
            lambda: stuck(before, self.counts()),
            accept=lambda names: not names,
            within_s=within_s,
            poll_s=POLL_S,
            awaiting="every producer to have a message acknowledged",
        )

    @property
    def transactions(self) -> list[TransactionLoad]:
        """The transactional producers that run."""
        return [one for one in self.producers.values() if isinstance(one, TransactionLoad)]

    def wait_groups(self, within_s: float) -> list[int]:
        """Wait until every group has read another message; returns the groups that have not by then."""
        before = self.read_by_groups()

        def still() -> list[int]:
            return [number for number, count in self.read_by_groups().items() if count <= before[number]]

        try:
            return wait_until(
                still,
                accept=lambda numbers: not numbers,
                within_s=within_s,
                poll_s=POLL_S,
                awaiting="every group to read a message",
            )
        except WaitTimeoutError:
            return still()

    def check(self, healed_ns: int) -> None:
        """Mark the producers that get no other message acknowledged, and the groups that read none."""
        patience_s, before = self.stage.timings.patience_s, self.counts()
        try:
            self.wait_through(patience_s)
        except WaitTimeoutError:
            for name in stuck(before, self.counts()):
                label = self.plans[number_of(name) - 1].label
                self.stage.mark(
                    "finding-client-stuck",
                    f"{name} ({label}) had nothing acknowledged for {patience_s:g} s",
                    finding="client-stuck",
                    producer=name,
                    settings=label,
                )
        for number in self.wait_groups(patience_s):
            shares = bool(self.groups[number - 1].answers)
            text = f"{'share ' * shares}group {number} read nothing for {patience_s:g} s"
            settings = {"settings": "share group"} if shares else {}
            self.stage.mark("finding-client-stuck", text, finding="client-stuck", group=number, **settings)
        if self.transactions and (left := self.stage.nemesis.wait_delivered()):
            # Requests that clients gave up long ago may still arrive, and decide later transactions.
            self.stage.mark("note", f"not delivered while the producers ran: {', '.join(left)}")

    def finish_share_groups(self) -> None:
        """Wait until the share groups are done with all records; the checker judges what is left."""
        for number, group in enumerate(self.groups, start=1):
            if group.answers:
                topic = self.stage.setup.topics[group.topic].name
                try:
                    wait_until_done(self.stage, self._id(number), topic, within_s=_DONE_S)
                except (AckedError, OSError) as error:
                    self.stage.mark("note", getattr(error, "message", str(error)))

    def abandon(self) -> None:
        """Let the transactional producers begin nothing more, because the run is over."""
        for one in (*self.transactions, *self.fenced):
            one.abandon()

    def drain(self) -> None:
        """Let the consumers read the last messages, and stop all clients."""
        stage, since = self.stage, now_ns()
        self.abandon()
        for one in (*self.transactions, *self.fenced):
            one.stop(DRAIN_S)
        wait_until(
            lambda: stage.since(since) >= _STEADY_S,
            within_s=_STEADY_S + 5,
            poll_s=POLL_S,
            awaiting="the consumers to read the last messages",
        )
        stage.stop_streams(DRAIN_S)
        stage.mark("drained", "the producers have stopped")
        self.finish_share_groups()
        for reader in (*self.readers, *self.members.values()):
            self._leave(reader)

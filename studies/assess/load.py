"""The clients of every run of an assessment, and when its fault begins.

In every AZ, a producer of each setting writes to all partitions of each topic at a steady rate, and a
consumer reads them, from before the fault until after the recovery. A consumer group per topic, with a member
in every AZ, shares the topic's partitions among its members. Besides the marks of the body
(`studies.steps.body`), these say what is measured later:

| mark | text |
|---|---|
| `led-inside`, `led-outside` | a partition and its topic's described name, `orders-2/0/orders`, by where its
first leader is |
| `reader-az1` | the number of the AZ's consumer |
| `member-az1` | the number of the AZ's member of a topic's group |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from harness.clock import now_ns
from harness.kafka.config import BASE_ZOOKEEPER
from harness.waiting import wait_until
from run.clients import CALM_FETCHES, ProducerSetting
from run.sessions import after_heartbeat
from run.stage import Stage
from studies.assess.battery import Case
from studies.assess.described import (
    DRAIN_S,
    default_times,
    group_of,
    hold_s,
    led_inside,
    recovery_s,
)
from studies.steps.body import WARM_S, Body, stand
from workloads.client.client import BackgroundConsumer
from workloads.protocol.results import StreamCounts
from workloads.protocol.spec import StreamLoad

_STEADY_S = 2.0
_HEARD_S = 5.0
"""How much longer than its session a broker may take to send a ping."""
_RELAYED_S = 0.05 + float(BASE_ZOOKEEPER["tickTime"]) / 2000
"""A node of ZooKeeper tells its leader about pings when the leader pings it, which is every half tick."""


def run_case(
    stage: Stage, case: Case, producers: Sequence[ProducerSetting], names: Sequence[str], rate: float
) -> None:
    """Run one case. ``names`` are the described names of the set-up's topics, in the same order.

    ``rate``: messages per second of each producer to each partition.

    Raises InvalidRunError if it proves nothing.
    """
    Body(
        stage=stage,
        steps=case.lasting(hold_s(stage.timings)),
        clients=Load(stage=stage, case=case, settings=producers, names=names, rate=rate),
        recovery_s=recovery_s(stage.timings),
        measured=True,
    ).go()


@dataclass(kw_only=True)
class Load:
    """Producers and consumers in every AZ."""

    stage: Stage
    case: Case
    settings: Sequence[ProducerSetting]
    names: Sequence[str]
    rate: float
    """Messages per second of each producer to each partition."""
    readers: list[BackgroundConsumer] = field(default_factory=list)
    """Consumers, and members of groups."""

    def warm_up(self) -> None:
        """Start all, and wait until all work. Raises WaitTimeoutError."""
        stage, topics = self.stage, self.stage.setup.topics
        for topic, name in zip(topics, self.names, strict=True):
            for key, replicas in zip(topic.topic_partitions, topic.assignment, strict=True):
                led = "inside" if led_inside(self.case, replicas[0]) else "outside"
                facts = {"led": led, "topic": key.topic, "partition": key.partition, "described": name}
                stage.journal.mark(f"led-{led}", f"{key}/{name}", **facts)
        partitions = [key for topic in topics for key in topic.topic_partitions]
        own = default_times(stage.user.producer.given, stage.timings)
        due: list[tuple[Callable[[], int], int]] = []
        for az in (az for az in stage.lab.topology.azs if az in stage.clients):
            for topic in topics:
                load = StreamLoad(
                    topic=topic.name,
                    partitions=tuple(range(topic.partitions)),
                    rate=self.rate * topic.partitions,
                )
                for setting in self.settings:
                    name = f"{az}-{topic.name}-{setting.name}"
                    stream = stage.start_stream(az, name, load, {**own, **setting.fixed})
                    due.append((lambda stream=stream: stream.counts().ok, 2 * topic.partitions))  # type: ignore[misc]
            reader = stage.start_reader(az, partitions, CALM_FETCHES)
            self.readers.append(reader)
            number = reader.consumer.reader
            stage.journal.mark(f"reader-{az}", str(number), reader=number, az=az)
            due.append((lambda reader=reader: reader.progress().count, 2 * len(partitions)))  # type: ignore[misc]
        due += self._join_groups()
        wait_until(
            lambda: [count() for count, _ in due],
            accept=lambda counts: all(
                count >= enough for count, (_, enough) in zip(counts, due, strict=True)
            ),
            within_s=WARM_S,
            poll_s=0.2,
            awaiting="every producer and every consumer to work",
            abort=stage.cluster.check_alive,
        )

    def _join_groups(self) -> Iterator[tuple[Callable[[], int], int]]:
        """Start a group per topic; how many messages each has received, and how many are enough."""
        stage = self.stage
        for topic in stage.setup.topics:
            members = []
            for az in (az for az in stage.lab.topology.azs if az in stage.clients):
                name = f"{az}-{topic.name}-member"
                member = stage.start_member(
                    az, group_of(topic), topic.name, partitions=topic.partitions, name=name
                )
                number = member.consumer.reader
                stage.journal.mark(f"member-{az}", str(number), member=number, az=az)
                members.append(member)
            self.readers += members
            yield (
                lambda members=members: sum(member.progress().count for member in members),  # type: ignore[misc]
                2 * topic.partitions,
            )

    def settle(self) -> None:
        """Change nothing for a while. If the fault may end a ZooKeeper session, wait until it was prolonged.

        The session lasts between two thirds of its time-out and the whole of it after the fault, and for as
        long nobody notices that its broker is gone. So a fault that began at any moment would cost a time of
        its own.
        """
        hit, since = self.case.session_hit, now_ns()
        if not hit:
            self._stand(since, _STEADY_S)
            return
        self._stand(since, _STEADY_S / 2)
        after_heartbeat(
            self.stage.lab.topology,
            hit,
            self.case.sessions[hit],
            within_s=self.stage.timings.session_s + _HEARD_S,
            abort=self.stage.cluster.check_alive,
        )
        self._stand(now_ns(), _RELAYED_S)

    def change(self, step: int) -> None:
        """Nothing: all work from beginning to end."""

    def counts(self) -> Mapping[str, StreamCounts]:
        """Nothing, because no step of a case waits for a message."""
        return {}

    def check(self, healed_ns: int) -> None:
        """Let them work for a while after the heal."""
        self._stand(healed_ns, _STEADY_S)

    def drain(self) -> None:
        """Stop all."""
        self.stage.stop_streams(DRAIN_S)
        self.stage.mark("drained", "the producers have stopped")
        for reader in self.readers:
            reader.stop()

    def abandon(self) -> None:
        """Nothing: the run stops them."""

    def _stand(self, since: int, for_s: float) -> None:
        """Change nothing until ``for_s`` seconds have passed since a moment."""
        stand(self.stage, since, for_s, f"{for_s:g} s to pass since the last step")

"""The producers and consumers of a run that carries out a schedule."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from harness.assess.described import CALM_FETCHES, DRAIN_S, RATE_PER_PARTITION
from harness.clock import now_ns
from harness.errors import AckedError
from harness.kafka.model import TopicPartition
from harness.run.stage import Stage
from harness.search.events import stuck
from harness.search.schedule import Producer
from harness.search.transactions import TransactionLoad
from harness.waiting import wait_until
from workloads.client.client import BackgroundConsumer, Stream
from workloads.protocol.results import StreamCounts
from workloads.protocol.spec import StreamLoad

WARM_S = 40.0
POLL_S = 0.2
_STEADY_S = 1.0
_READERS = 2
_LETTERS = "abcdefghij"


_NAME = re.compile(r"producer-(\d+)")


def number_of(name: str) -> int:
    """Number of a producer in its schedule, by the name of one of its writers: `producer-2a` → 2.

    0 for the name of anything else.
    """
    found = _NAME.match(name)
    return int(found[1]) if found else 0


@dataclass(kw_only=True)
class Crowd:
    """The clients: a consumer in each of two AZs, and the producers of the schedule."""

    stage: Stage
    plans: Sequence[Producer]
    partitions: Sequence[TopicPartition]
    producers: dict[str, Stream | TransactionLoad] = field(default_factory=dict)
    """What runs, by name: a producer has a stream for each topic, or transactions over all of them."""
    readers: list[BackgroundConsumer] = field(default_factory=list)

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
                )
            ),
            accept=lambda count: count >= enough,
            within_s=WARM_S,
            poll_s=POLL_S,
            awaiting="every producer and every consumer to work",
            abort=stage.cluster.check_alive,
        )

    def change(self, step: int) -> None:
        """Start and stop the producers that do so after a step; 0: before the first one."""
        for number, plan in enumerate(self.plans, start=1):
            if plan.stops == step and step:
                for name in [name for name in self.producers if number_of(name) == number]:
                    self.stage.streams.pop(name, None)
                    self.producers.pop(name).stop(_STEADY_S)
            if plan.starts == step:
                self._start(number, plan)

    def _start(self, number: int, plan: Producer) -> None:
        stage = self.stage
        if plan.transactional:
            name = f"producer-{number}"
            self.producers[name] = TransactionLoad(stage, plan.az, name, self.partitions, plan.in_flight)
            return
        for letter, topic in zip(_LETTERS, stage.setup.topics, strict=False):
            name = f"producer-{number}{letter}"
            load = StreamLoad(
                topic=topic.name,
                partitions=tuple(range(topic.partitions)),
                rate=RATE_PER_PARTITION * topic.partitions,
            )
            fixed = {"acks": plan.acks, "enable.idempotence": plan.idempotent}
            spec = stage.stream_spec(name, load.rate, fixed)
            config = {**spec.config, "max.in.flight.requests.per.connection": plan.in_flight}
            stream = stage.clients[plan.az].start_stream(replace(spec, config=config), load)
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

    def abandon(self) -> None:
        """Let the transactional producers begin nothing more, because the run is over."""
        for one in self.transactions:
            one.abandon()

    def drain(self) -> None:
        """Let the consumers read the last messages, and stop all clients."""
        stage, since = self.stage, now_ns()
        self.abandon()
        for one in self.transactions:
            one.stop(DRAIN_S)
        wait_until(
            lambda: stage.since(since) >= _STEADY_S,
            within_s=_STEADY_S + 5,
            poll_s=POLL_S,
            awaiting="the consumers to read the last messages",
        )
        stage.stop_streams(DRAIN_S)
        stage.mark("drained", "the producers have stopped")
        for reader in self.readers:
            try:
                reader.stop()
            except AckedError as error:
                stage.mark("note", error.message)

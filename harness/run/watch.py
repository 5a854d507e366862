"""The observer of a run, and the final dump of every replica's own log."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from harness.cluster.model import Cluster, told
from harness.history.journal import Journal
from harness.kafka.wire.dialect import Dialect
from harness.kafka.wire.metadata import PartitionView
from harness.lab.model import Lab
from harness.observer.dump import final_dump
from harness.observer.observer import Observer
from harness.observer.targets import Targets
from harness.scenario import Topic


class Watch:
    """Observes from the harness's own address, which no fault names, until the final logs are read."""

    def __init__(
        self,
        lab: Lab,
        cluster: Cluster,
        brokers: tuple[int, ...],
        topics: tuple[Topic, ...],
        journal: Journal,
        dialect: Dialect,
    ) -> None:
        self._lab = lab
        self._cluster = cluster
        self._brokers = brokers
        self._topics = topics
        self._dialect = dialect
        self._targets = Targets.of(lab.topology, brokers, lambda host: lab.data_dir(host) / "data")
        self.observer = Observer(self._targets, journal, [topic.name for topic in topics], dialect=dialect)

    def start(self) -> None:
        """Begin to observe."""
        self.observer.start()

    def stop(self) -> None:
        """Stop observing; safe to call twice."""
        self.observer.stop()

    def dump(self, run_dir: Path) -> None:
        """Read every replica's own log to its end."""
        stopped = [node.name for node in self._targets.brokers if not self._lab.alive(node.name)]
        final_dump(
            run_dir,
            self._targets.brokers,
            {topic.name: range(topic.partitions) for topic in self._topics},
            dialect=self._dialect,
            truth=self._truth(),
            stopped=stopped,
        )

    def _truth(self) -> dict[tuple[str, int], PartitionView]:
        found = {}
        answers = True
        for topic in self._topics:
            for number, replicas in enumerate(topic.assignment):
                ask = partial(self._cluster.partition, topic.name, number)
                state = told(ask, f"{topic.name}/{number}") if answers else ask()
                answers = state is not None
                if state is not None:
                    found[(topic.name, number)] = PartitionView(
                        topic.name, number, state.leader, state.epoch, state.isr, replicas
                    )
        return found

"""The observer of a run, and the final dump of every replica's log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

from harness.cluster.model import Cluster, first_answer
from harness.history.journal import Journal
from harness.kafka.model import PartitionState, Topic, TopicPartition
from harness.kafka.wire.dialect import Dialect
from harness.observer.dump import final_dump
from harness.observer.observer import Observer
from harness.observer.replica_log import ReplicaLog
from harness.observer.tail import WatchedLogs
from harness.observer.targets import Targets


class Watch:
    """Observes the cluster from the harness's own address, which no fault affects, until the final dump."""

    def __init__(
        self,
        targets: Targets,
        cluster: Cluster,
        topics: tuple[Topic, ...],
        journal: Journal,
        dialect: Dialect,
        *,
        runs: Callable[[str], bool] = lambda _host: True,
        transactions: bool = False,
        transactional_id: str = "",
        watched: WatchedLogs | None = None,
    ) -> None:
        """``runs`` says whether the process of a host runs, where that is known.

        ``transactions``: also ask leaders and coordinators what they know of transactions, and coordinators
        of one ``transactional_id`` alone, if it is given.
        """
        self._runs = runs
        self._journal = journal
        self._cluster = cluster
        self._topics = topics
        self._dialect = dialect
        self._targets = targets
        self.observer = Observer(
            self._targets,
            journal,
            [topic.name for topic in topics],
            dialect=dialect,
            transactions=transactions,
            transactional_id=transactional_id,
            watched=watched,
        )

    def start(self) -> None:
        """Start to observe."""
        self.observer.start()

    def stop(self) -> None:
        """Stop observing; safe to call twice."""
        self.observer.stop()

    def dump(
        self,
        run_dir: Path,
        *,
        without: Collection[str] = (),
        leaders_only: bool = False,
        watched: Mapping[TopicPartition, range] = MappingProxyType({}),
    ) -> int:
        """Read the log of every replica to its end; topics ``without`` do not exist any more.

        Of ``watched`` partitions, a range of offsets is read.
        Returns how many records of the final logs the observer has not seen. They are rows of `unobserved`.

        With ``leaders_only`` other replicas are left out, because they do not show their logs.
        """
        stopped = [node.name for node in self._targets.brokers if not self._runs(node.name)]
        states = self._states(without)
        assignment = self._assignment(states, without)
        if leaders_only:
            assignment = {key: (state.leader,) for key, state in states.items() if state.leader >= 0}
        logs = final_dump(
            run_dir,
            self._targets.brokers,
            assignment,
            states,
            dialect=self._dialect,
            stopped=stopped,
            decoder=self.observer.decoder,
            watched=watched,
        )
        unobserved = list(self._unobserved(logs))
        if unobserved:
            self._journal.write_many("unobserved", [row for row, _ in unobserved])
        return sum(count for _, count in unobserved)

    def _unobserved(self, logs: Iterable[ReplicaLog]) -> Iterator[tuple[dict[str, object], int]]:
        """Rows of `unobserved`, with their numbers of offsets: where the observer lags behind the logs."""
        for log in logs:
            seen = self.observer.recorded_end(log.broker, log.topic_partition)
            if log.watched_from is not None:
                continue  # others go on writing, and what comes now is not compared
            if seen is not None and log.leo is not None and seen < log.leo:
                row: dict[str, object] = {
                    "ns": log.ns,
                    "source": "tail",
                    **log.topic_partition._asdict(),
                    "broker": log.broker,
                    "since_ns": self.observer.reached_ns(log.broker, log.topic_partition),
                    "from_offset": seen,
                    "to_offset": log.leo,
                }
                yield row, log.leo - seen

    def _created(self, without: Collection[str]) -> Iterator[tuple[TopicPartition, tuple[int, ...]]]:
        """Each partition with the replicas that it was created with."""
        for topic in self._topics:
            if topic.internal or topic.name in without:
                continue  # no client sent the records in internal topics
            yield from zip(topic.topic_partitions, topic.assignment, strict=True)

    def _assignment(
        self, states: Mapping[TopicPartition, PartitionState], without: Collection[str]
    ) -> dict[TopicPartition, tuple[int, ...]]:
        """Current replicas of each partition; those that it was created with if the store states none."""
        return {
            key: (key in states and states[key].replicas) or replicas
            for key, replicas in self._created(without)
        }

    def _states(self, without: Collection[str] = ()) -> dict[TopicPartition, PartitionState]:
        """States of the partitions in the metadata store, as far as it answers."""
        states = {}
        answers = True
        for key, _ in self._created(without):
            ask = partial(self._cluster.partition, *key)
            state = first_answer(ask, f"the leader of {key}") if answers else ask()
            answers = state is not None
            if state is not None:
                states[key] = state
        return states

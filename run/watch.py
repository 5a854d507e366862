"""The observer of a run, and the final dump of every replica's log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from harness.clock import now_ns
from harness.cluster.model import Cluster, known_states
from harness.errors import WaitTimeoutError
from harness.history.journal import Journal
from harness.kafka.model import PartitionState, Topic, TopicPartition
from harness.kafka.wire.dialect import Dialect
from harness.observer.dump import final_dump
from harness.observer.observer import Observer
from harness.observer.replica_log import ReplicaLog
from harness.observer.tail import LATE_NS, WatchedLogs
from harness.observer.targets import Targets
from harness.waiting import wait_until

_CATCH_UP_S = 3.0
"""How long the observer may take to see what the final logs hold."""


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
        share_groups: bool = False,
        watched: WatchedLogs | None = None,
        tail_logs: bool = True,
    ) -> None:
        """``runs`` says whether the process of a host runs, where that is known.

        ``transactions``: also ask leaders and coordinators what they know of transactions, and coordinators
        of one ``transactional_id`` alone, if it is given. Without ``tail_logs`` nobody follows the logs.
        """
        self._runs = runs
        self._journal = journal
        self._cluster = cluster
        self._topics = topics
        self._dialect = dialect
        self._targets = targets
        self._stopped_ns = 0
        self.observer = Observer(
            self._targets,
            journal,
            [topic.name for topic in topics],
            dialect=dialect,
            transactions=transactions,
            transactional_id=transactional_id,
            share_groups=share_groups,
            watched=watched,
            tail_logs=tail_logs,
        )

    def start(self) -> None:
        """Start to observe."""
        self.observer.start()

    def stop(self) -> None:
        """Stop observing; safe to call twice."""
        self.observer.stop()
        self._stopped_ns = self._stopped_ns or now_ns()

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
        states = self.states(without)
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
        running = {node.node_id for node in self._targets.brokers if node.name not in stopped}
        with suppress(WaitTimeoutError):  # what it has not seen then is a fact
            wait_until(
                lambda: [log for log in logs if log.broker in running and self._missed(log, watched)],
                accept=lambda behind: not behind,
                within_s=_CATCH_UP_S,
                awaiting="the observer to reach the ends of the final logs",
            )
        missed = [(log, range_of) for log in logs if (range_of := self._missed(log, watched))]
        if missed:
            self._journal.write_many("unobserved", [self._row(log, *range_of) for log, range_of in missed])
        return sum(end - seen for _, (seen, end) in missed)

    def _missed(self, log: ReplicaLog, watched: Mapping[TopicPartition, range]) -> tuple[int, int] | None:
        """The offsets of a final log that the observer has not seen; None: it has seen all, or follows none.

        Others go on writing to ``watched`` partitions, of which only a range of offsets is compared. What
        they wrote after the last look of an observer that kept up does not count.
        """
        seen = self.observer.recorded_end(log.broker, log.topic_partition)
        if seen is None or log.leo is None:
            return None
        reached_ns = self.observer.reached_ns(log.broker, log.topic_partition)
        kept_up = reached_ns is not None and 0 < self._stopped_ns < reached_ns + LATE_NS
        if kept_up and log.topic_partition in watched:
            return None
        end = min(log.leo, watched[log.topic_partition].stop) if log.topic_partition in watched else log.leo
        return (seen, end) if seen < end else None

    def _row(self, log: ReplicaLog, seen: int, end: int) -> dict[str, object]:
        return {
            "ns": log.ns,
            "source": "tail",
            **log.topic_partition._asdict(),
            "broker": log.broker,
            "since_ns": self.observer.reached_ns(log.broker, log.topic_partition),
            "from_offset": seen,
            "to_offset": end,
        }

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

    def states(self, without: Collection[str] = ()) -> dict[TopicPartition, PartitionState]:
        """States of the partitions in the metadata store, as far as it answers."""
        return known_states(self._cluster, [key for key, _ in self._created(without)])

"""Watching a topic that others write: its replicas are compared, and nothing is written to the cluster.

Needs READ and DESCRIBE on the topic; with DESCRIBE_CONFIGS it is known whether the topic is compacted, and
with DESCRIBE on groups where they have committed. Of a batch only its header is read: offset, leader epoch,
CRC, size and times. Keys and values are neither decoded nor stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from harness.clock import now_ns
from harness.cluster.attached import AttachedCluster
from harness.console import Progress
from harness.errors import InvalidRunError, UnfitError, UsageError, WaitTimeoutError, quoted
from harness.history.journal import Journal
from harness.kafka.model import Endpoint, Topic, TopicPartition
from harness.kafka.wire.admin import describe_configs
from harness.kafka.wire.group_offsets import fetch_offsets, list_groups
from harness.kafka.wire.metadata import metadata, topic_ids
from harness.kafka.wire.offsets import CONSUMER, EARLIEST, end_offsets
from harness.lab.here import Here
from harness.observer.tail import WatchedLogs
from harness.observer.targets import Targets
from harness.waiting import wait_until
from run.folder import RunFolder
from run.live import LiveState
from run.metrics import openmetrics
from run.metrics import standing as known
from run.recording.marks import Marks, listening
from run.recording.preflight import shows_its_log
from run.recording.seen import Incarnations, Seen
from run.recording.stages import (
    began,
    carried_out,
    ids_by_broker,
    note_configs,
    signals_end,
    standing,
)
from run.recording.stored import note
from run.runner import RunResult
from run.watch import Watch

MOST_PARTITIONS = 200
"""Partitions of a topic that are watched at most."""
_REMEMBERED = 200_000
"""Batches of all replicas together that are remembered, at least; some 80 MB of memory."""
_MOST_GROUPS = 1000
_STATED_S = 15.0
_TO_THE_END = 1 << 62
_OBSERVER = 0
"""The reader in rows of `groups`: the observer, which is no member."""


@dataclass(frozen=True, kw_only=True)
class WatchPlan:
    """What will be read."""

    topic: Topic
    for_s: float
    last: int
    """How many offsets before its high watermark each partition is read from."""
    first: Mapping[TopicPartition, int]
    """The offset from which on each partition is read."""
    topic_id: UUID | None
    """None before Kafka 2.8."""
    cleanup: str | None
    """Its `cleanup.policy`; None: the user may not know it."""
    refusal: str = ""
    """Why a broker does not show a follower's log; empty: each does."""

    @property
    def compared(self) -> bool:
        """Replicas can be compared: each shows its log, and none compacts it by itself."""
        return not self.refusal and self.cleanup is not None and "compact" not in self.cleanup

    def as_json(self) -> dict[str, Any]:
        """For the manifest."""
        return {
            "topic": self.topic.name,
            "topic_id": None if self.topic_id is None else str(self.topic_id),
            "for_s": self.for_s,
            "first": {str(key.partition): offset for key, offset in self.first.items()},
            "cleanup": self.cleanup,
            "refusal": self.refusal,
        }


def plan_watch(cluster: AttachedCluster, topic: str, *, for_s: float, last: int) -> WatchPlan:
    """What can be read of a topic. Raises UsageError if it does not exist or cannot be watched."""
    if topic.startswith("__"):
        raise UsageError(
            f"--watch {quoted(topic, 60)}: brokers keep and compact this topic by themselves; name a topic "
            "of your applications."
        )
    stated = metadata(cluster.any_endpoint(), [topic], dialect=cluster.dialect).partitions
    if not stated:
        raise UsageError(
            f"--watch {quoted(topic, 60)}: the cluster has no such topic, or you may not describe it; check "
            "the name, or grant DESCRIBE on it."
        )
    if len(stated) > MOST_PARTITIONS:
        raise UsageError(
            f"--watch {quoted(topic, 60)}: it has {len(stated)} partitions, and acked watches topics of up "
            f"to {MOST_PARTITIONS}; name another topic."
        )
    placed = tuple(stated[TopicPartition(topic, number)].replicas or () for number in range(len(stated)))
    watched = Topic(topic, placed[0], partitions=len(placed), placed=placed)
    first = {}
    for key, state in sorted(stated.items()):
        leader = _endpoint_of(cluster, state.leader)
        start, end = (-1, -1) if leader is None else _bounds(cluster, leader, key)
        if end < 0:
            raise UsageError(
                f"--watch {quoted(topic, 60)}: the leader of {key} does not show you its log; grant READ on "
                "the topic, or wait until the partition has a leader."
            )
        first[key] = max(start, end - last)
    return WatchPlan(
        topic=watched,
        for_s=for_s,
        last=last,
        first=first,
        topic_id=topic_ids(cluster.any_endpoint(), [topic]).get(topic),
        cleanup=_cleanup(cluster, topic),
        refusal=_refusal(cluster, watched),
    )


def _endpoint_of(cluster: AttachedCluster, broker: int) -> Endpoint | None:
    ids = {host.node_id: host.broker_endpoint for host in cluster.brokers}
    return ids.get(broker)


def _bounds(cluster: AttachedCluster, leader: Endpoint, key: TopicPartition) -> tuple[int, int]:
    """Log start and high watermark of a partition; -1 if the broker does not state them."""
    try:
        start, end = (
            end_offsets(leader, [key], **at, replica_id=CONSUMER, dialect=cluster.dialect)[key]
            for at in ({"at": EARLIEST}, {})
        )
    except OSError:
        return -1, -1
    return (-1, -1) if start.error or end.error else (start.offset, end.offset)


def _cleanup(cluster: AttachedCluster, topic: str) -> str | None:
    try:
        config = describe_configs(cluster.any_endpoint(), "topic", topic, dialect=cluster.dialect)
    except (LookupError, UnfitError):
        return None
    return config.get("cleanup.policy")


def _refusal(cluster: AttachedCluster, topic: Topic) -> str:
    """Why a follower does not show its log; empty if each does, or none can be asked."""
    if not cluster.dialect.own_log_by_fetch:
        return "the brokers are older than Kafka 1.1"
    for key, replicas in zip(topic.topic_partitions, topic.assignment, strict=True):
        for broker in replicas[1:]:
            endpoint = _endpoint_of(cluster, broker)
            presence, why = ("not tried", "") if endpoint is None else shows_its_log(cluster, endpoint, key)
            if presence == "no":
                return why
    return ""


@dataclass(kw_only=True)
class Watching:
    """One process's work on a topic of others."""

    cluster: AttachedCluster
    folder: RunFolder
    progress: Progress
    listen: tuple[str, int] = ("127.0.0.1", 0)
    """Where marks are taken; port 0: any that is free."""

    def begin(self, plan: WatchPlan, bootstrap: str) -> RunResult:
        """Watch until the time is over or the user ends it. The folder can be judged."""
        began(self.folder, self.cluster, "A topic that others write")
        note(
            self.folder,
            watched=plan.as_json(),
            bootstrap=bootstrap,
            cluster_id=self.cluster.cluster_id,
        )
        return carried_out(self.folder, self.progress, lambda: self._go(plan))

    def _go(self, plan: WatchPlan) -> None:
        cluster, topics, keys = self.cluster, (plan.topic,), plan.topic.topic_partitions
        replicas = sum(map(len, plan.topic.assignment))
        logs = WatchedLogs(
            first=plan.first, last=plan.last, remembered=max(10, _REMEMBERED // max(1, replicas))
        )
        dialect = replace(
            cluster.dialect, own_log_by_fetch=plan.compared and cluster.dialect.own_log_by_fetch
        )
        with ExitStack() as stack:
            here = Here(cluster.topology, self.folder.path)
            stack.callback(here.down)
            end_requests = stack.enter_context(signals_end())
            journal = stack.enter_context(Journal(self.folder.journal("harness")))
            targets = Targets.of(cluster.topology)
            watch = Watch(targets, cluster, topics, journal, dialect, watched=logs)
            stack.callback(watch.stop)
            watch.start()
            note_configs(cluster, topics, journal, self.progress)
            views = watch.observer.views
            brokers = sorted({broker for assigned in plan.topic.assignment for broker in assigned})
            ids = set() if plan.topic_id is None else {plan.topic_id}
            seen = Seen(
                views=views,
                journal=journal,
                brokers=brokers,
                partitions=keys,
                incarnations=Incarnations(topic=plan.topic.name, ids=ids),
                ask_ids=ids_by_broker(stack, cluster, plan.topic.name),
                watermarks=watch.observer.watermarks,
            )
            marks = Marks(journal, [host.name for host in cluster.brokers], self.progress.say)
            stack.enter_context(
                listening(
                    self.folder.path,
                    marks,
                    self.listen,
                    lambda: openmetrics({"": known({}, views, keys, cluster.topology)}),
                )
            )
            try:
                live = LiveState(cluster.topology, topics, views, here.files)
                with self.progress.phase("scenario", "watching", live.lines):
                    standing(
                        watch, seen.look, end_requests, now_ns() + round(plan.for_s * 1e9), self.progress
                    )
                with self.progress.phase("final logs", "reading the end of every replica's log"):
                    journal.write_many("groups", self._committed(keys))
                    watch.stop()  # what is committed from now on is not compared
                    self._require_same_topic(plan)
                    watch.dump(
                        self.folder.path,
                        leaders_only=not dialect.own_log_by_fetch,
                        watched=self._ranges(plan),
                    )
            finally:
                note(self.folder, seen=seen.as_json())

    def _require_same_topic(self, plan: WatchPlan) -> None:
        """Raise InvalidRunError if the topic was deleted: then its batches are gone on purpose."""
        name = plan.topic.name
        there = topic_ids(self.cluster.any_endpoint(), [name])
        if name not in there or there[name] != plan.topic_id:
            raise InvalidRunError(f"Somebody has deleted the topic {name} meanwhile; watch it anew.")

    def _high_watermark(self, key: TopicPartition) -> int:
        """That of the leader, -1 without one; a new leader needs a moment until it knows."""

        def stated() -> int:
            state = self.cluster.partition(*key)
            leader = None if state is None else _endpoint_of(self.cluster, state.leader)
            return -1 if leader is None else _bounds(self.cluster, leader, key)[1]

        try:
            return wait_until(
                stated,
                accept=lambda end: end >= 0,
                within_s=_STATED_S,
                awaiting=f"the leader of {key} to state its high watermark",
            )
        except WaitTimeoutError as error:
            self.progress.say(error.message)
            return -1

    def _ranges(self, plan: WatchPlan) -> dict[TopicPartition, range]:
        """What is compared: what was committed before any replica is read, and so is on each in-sync one."""
        ranges = {}
        for key, first in plan.first.items():
            end = self._high_watermark(key)
            if not plan.compared:
                first = max(0, end)
            ranges[key] = range(min(first, end), end) if end >= 0 else range(first, _TO_THE_END)
        return ranges

    def _committed(self, keys: Sequence[TopicPartition]) -> list[dict[str, object]]:
        """Rows of `groups`: the committed offsets of the groups that the user may describe."""
        rows: list[dict[str, object]] = []
        asked = 0
        for host in self.cluster.brokers:
            with suppress(OSError):
                _, groups = list_groups(host.broker_endpoint)
                for group in groups:
                    asked += 1
                    if asked > _MOST_GROUPS:
                        self.progress.say(f"only the first {_MOST_GROUPS} groups are asked for their offsets")
                        return rows
                    asked_ns = now_ns()
                    answers = fetch_offsets(host.broker_endpoint, group, keys)
                    rows += [
                        {
                            "ns": now_ns(),
                            "asked_ns": asked_ns,
                            "group": group,
                            "reader": _OBSERVER,
                            "event": "fetched",
                            **key._asdict(),
                            "offset": answer.offset,
                            "broker": host.node_id,
                        }
                        for key, answer in answers.items()
                        if answer.offset is not None
                    ]
        return rows

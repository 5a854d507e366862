"""Reading every replica of one broker to its log end offset, over the wire or from its files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from types import MappingProxyType

from harness.clock import now_ns
from harness.host_files import HostFiles
from harness.kafka.batches import offset_after, positions
from harness.kafka.model import OFFSET_OUT_OF_RANGE, TopicPartition
from harness.kafka.segments import first_offset, high_watermarks, leader_epochs, raw_log, segments
from harness.kafka.wire.connection import Connection
from harness.kafka.wire.dialect import Dialect
from harness.kafka.wire.logs import FetchResult, fetch_as_consumer, fetch_own_log
from harness.kafka.wire.offsets import CONSUMER, DEBUGGER, EARLIEST, LATEST, Offset, end_offsets
from harness.observer.copies import Copies
from harness.observer.targets import Node

FETCH_BYTES = 8 << 20


@dataclass(kw_only=True)
class ReplicaLog:
    """One replica's log as read; ``broker`` is a node id."""

    topic_partition: TopicPartition
    broker: int
    _: KW_ONLY
    complete: bool = False
    """Read to its log end offset."""
    ns: int = 0
    leo: int | None = None
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    """None if the log was read from files."""
    log_start: int | None = None
    watched_from: int | None = None
    """The offset from which on batches were read, without their records; None: the log was read whole."""
    size_bytes: int | None = None
    """Size of the batches that were read."""
    epochs: list[tuple[int, int]] | None = None
    """Leader epoch cache: (epoch, start offset) pairs."""
    aborted: tuple[tuple[int, int], ...] | None = None
    """Producer id and first offset of aborted transactions below its last stable offset; None: unknown."""
    error: str | None = None
    """Why it was not read to its end, or which batches are damaged."""


def read_broker(
    broker: Node,
    partitions: Iterable[TopicPartition],
    dialect: Dialect,
    copies: Copies,
    *,
    stopped: bool = False,
    watched: Mapping[TopicPartition, range] = MappingProxyType({}),
) -> list[ReplicaLog]:
    """Read every replica of a broker, one after the other; their records go to ``copies``.

    Of ``watched`` partitions only batches in a range of offsets are read, over the wire.

    The files of a ``stopped`` broker count as complete. If a running broker does not answer, its files are
    read too, but the logs are marked as incomplete.
    """
    logs = [ReplicaLog(topic_partition=key, broker=broker.node_id) for key in partitions]
    starts: Mapping[TopicPartition, Offset] = {}
    silent: str | None = None
    with Connection(broker.endpoint, timeout_s=5.0) as connection:
        for log in logs:
            data, key = broker.data, log.topic_partition
            copies.begin(key, log.broker)
            try:
                if silent is not None:
                    _give_up(log, data, silent, copies)
                elif data is not None and (stopped or not dialect.own_log_by_fetch):
                    _read_files(data, log, copies)
                else:
                    keys = [one.topic_partition for one in logs]
                    starts = starts or _offsets(connection, keys, EARLIEST, dialect)
                    _read_by_fetch(connection, log, starts[key], dialect, copies, watched.get(key))
            except OSError as error:
                silent = str(error)  # the next replica would only time out as well
                _give_up(log, data, silent, copies)
            log.ns = now_ns()
            if data is not None:
                log.epochs = leader_epochs(data.below(key.folder))
    return logs


def _give_up(log: ReplicaLog, data: HostFiles | None, why: str, copies: Copies) -> None:
    copies.begin(log.topic_partition, log.broker)
    if data is not None and data.below(log.topic_partition.folder).names():
        _read_files(data, log, copies)
    log.complete = False
    log.error = why


def _offsets(
    connection: Connection, keys: Sequence[TopicPartition], at: int, dialect: Dialect
) -> dict[TopicPartition, Offset]:
    """Where logs start or end: the replica's own, or what the leader says to consumers."""
    asking = DEBUGGER if dialect.own_log_by_fetch else CONSUMER
    return end_offsets(connection, keys, at=at, replica_id=asking, dialect=dialect)


def _read_by_fetch(
    connection: Connection,
    log: ReplicaLog,
    start: Offset,
    dialect: Dialect,
    copies: Copies,
    watched: range | None,
) -> None:
    """Read the replica's own log; where brokers do not show it, what the leader shows to consumers."""
    key = log.topic_partition
    fetch = fetch_own_log if dialect.own_log_by_fetch else fetch_as_consumer
    if start.error:
        log.error = f"Kafka error {start.error} for the offset of the log's start"
        return
    position, size, damaged, transactional = start.offset, FETCH_BYTES, list[str](), False
    if watched is not None:
        position, log.watched_from = max(position, watched.start), watched.start
    size_bytes, asked_again = 0, False
    while watched is None or position < watched.stop:
        got = fetch(connection, *key, position, size, dialect=dialect)
        if got.error == OFFSET_OUT_OF_RANGE and not size_bytes and not asked_again:
            asked_again = True  # retention may have removed the start since it was asked for
            position = max(position, _offsets(connection, [key], EARLIEST, dialect)[key].offset)
            continue
        if got.error:
            log.error = f"Kafka error {got.error} at offset {position}"
            return
        log.high_watermark, log.log_start = got.high_watermark, got.log_start
        log.last_stable_offset = got.last_stable_offset
        added = copies.add(key, log.broker, got.raw if watched is None else _before(got, watched), position)
        transactional |= added.transactional
        damaged += added.problems
        size_bytes += added.size_bytes
        following = got.next_offset
        if following is not None and following > position:
            position, size = following, FETCH_BYTES
            if got.to_end:
                break
        elif got.size_bytes >= size:
            size *= 2  # one batch is larger than what was requested
        else:
            break
    end = _offsets(connection, [key], LATEST, dialect)[key]
    if end.error:
        log.error = f"Kafka error {end.error} for the offset of the log's end"
        return
    log.leo = end.offset
    log.size_bytes = size_bytes if watched is None else None
    last = end.offset if watched is None else min(watched.stop, end.offset)
    log.complete = position >= last
    cut = f"the read ended at offset {position}, before the log's end {last}"
    log.error = _together([*damaged, *([] if log.complete else [cut])])
    if watched is None:
        log.aborted = _aborted(connection, log, dialect) if transactional else ()
    elif log.log_start is None:  # nothing had to be read
        log.log_start = start.offset


def _before(fetched: FetchResult, watched: range) -> bytes:
    """The batches that end in a range."""
    bounds = positions(fetched.raw)
    inside = [start for start in bounds[:-1] if offset_after(fetched.raw, start) <= watched.stop]
    return fetched.raw[: bounds[len(inside)]]


def _aborted(connection: Connection, log: ReplicaLog, dialect: Dialect) -> tuple[tuple[int, int], ...] | None:
    """What the replica tells readers of committed records to leave out.

    It follows from the markers in its log, but the replica answers from an index of its own.
    """
    if log.last_stable_offset is None or log.log_start is None:
        return None
    aborted: set[tuple[int, int]] = set()
    position, size = log.log_start, FETCH_BYTES
    while position < log.last_stable_offset:
        got = fetch_as_consumer(
            connection, *log.topic_partition, position, size, dialect=dialect, committed=True
        )
        if got.error:
            return None  # before Kafka 2.4 a follower refuses consumers
        aborted.update(got.aborted)
        following = got.next_offset
        if following is not None and following > position:
            position, size = following, FETCH_BYTES
        elif got.size_bytes >= size:
            size *= 2
        else:
            break
    return tuple(sorted(aborted, key=lambda pair: (pair[1], pair[0])))


def _read_files(data: HostFiles, log: ReplicaLog, copies: Copies) -> None:
    replica = data.below(log.topic_partition.folder)
    names = segments(replica)
    if not names:
        log.error = f"there is no log in {replica}"
        return
    damaged, log.size_bytes, log.leo = list[str](), 0, first_offset(names[-1])
    for raw in raw_log(replica):
        added = copies.add(log.topic_partition, log.broker, raw)
        damaged += added.problems
        log.size_bytes += added.size_bytes
        log.leo = offset_after(raw, positions(raw)[-2])
    log.log_start = first_offset(names[0])
    log.complete = True
    log.error = _together(damaged)
    log.high_watermark = high_watermarks(data).get(log.topic_partition)


def _together(problems: Sequence[str]) -> str | None:
    """The first and the last of several sentences, and how many lie between them."""
    if len(problems) <= 2:
        return "; ".join(problems) or None
    return f"{problems[0]}; {len(problems) - 2} more; {problems[-1]}"

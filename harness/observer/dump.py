"""The final dump: every replica's own log, read to its end, and written as Parquet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.clock import now_ns
from harness.history.identity import decode
from harness.history.schema import TABLES
from harness.history.tables import clear, history_dir, write_table
from harness.kafka.batches import Record, high_watermarks, leader_epochs, read_folder, segments
from harness.kafka.wire.connection import Connection
from harness.kafka.wire.dialect import MODERN, Dialect
from harness.kafka.wire.logs import EARLIEST, LATEST, end_offsets, fetch_own_log
from harness.kafka.wire.metadata import BrokerView, PartitionView, metadata
from harness.observer.targets import Node

FETCH_BYTES = 8 << 20

TopicPartition = tuple[str, int]


@dataclass
class ReplicaLog:
    """One replica's log as read."""

    topic: str
    partition: int
    broker: int
    records: list[Record] = field(default_factory=list)
    complete: bool = False
    ns: int = 0
    leo: int | None = None
    high_watermark: int | None = None
    log_start: int | None = None
    epochs: list[tuple[int, int]] | None = None
    error: str | None = None


@dataclass(frozen=True)
class Dump:
    """What the final dump found: replicas read whole, and those that were not, with the reason."""

    replicas: tuple[ReplicaLog, ...]

    @property
    def incomplete(self) -> tuple[ReplicaLog, ...]:
        """Replicas whose log was not read to its end."""
        return tuple(replica for replica in self.replicas if not replica.complete)


def final_dump(
    run_dir: Path,
    brokers: Sequence[Node],
    topics: Iterable[str] | Mapping[str, Sequence[int]],
    *,
    dialect: Dialect = MODERN,
    truth: Mapping[TopicPartition, PartitionView] | None = None,
    cleanup: Mapping[str, str] | None = None,
    stopped: Collection[str] = (),
) -> Dump:
    """Read every replica of ``topics`` and write `copies` and `replicas`; brokers are read in parallel.

    ``truth`` is the final view of each partition (default: the first broker's Metadata that answers, which
    names every partition and replica). A broker that does not answer gives replicas that are not complete,
    read from its files where they can be; one that is ``stopped`` for certain is read whole from there.
    """
    wanted = set(topics)
    known = truth if truth is not None else _ask_anyone(brokers, sorted(wanted), dialect)
    partitions = {key: view for key, view in known.items() if key[0] in wanted}
    with ThreadPoolExecutor(max(1, len(brokers))) as pool:
        read = list(
            pool.map(
                lambda broker: _dump_broker(broker, partitions, dialect, broker.name in stopped), brokers
            )
        )
    replicas = tuple(chain.from_iterable(read))
    _write(run_dir, replicas, partitions, cleanup or {})
    return Dump(replicas)


def _ask_anyone(
    brokers: Sequence[Node], topics: list[str], dialect: Dialect
) -> Mapping[TopicPartition, PartitionView]:
    best: BrokerView | None = None
    for broker in brokers:
        try:
            seen = metadata(broker.address, topics, dialect=dialect)
        except OSError:
            continue
        if best is None or _freshness(seen) > _freshness(best):
            best = seen
    return best.partitions if best is not None else {}


def _freshness(view: BrokerView) -> tuple[int, int]:
    return len(view.partitions), sum(p.epoch or 0 for p in view.partitions.values())


def _dump_broker(
    broker: Node, partitions: Mapping[TopicPartition, PartitionView], dialect: Dialect, stopped: bool
) -> list[ReplicaLog]:
    mine = sorted(key for key, view in partitions.items() if broker.node_id in view.replicas)
    logs = [ReplicaLog(topic, partition, broker.node_id) for topic, partition in mine]
    with Connection(broker.address, timeout_s=5.0) as connection:
        for log in logs:
            folder = broker.data_dir / f"{log.topic}-{log.partition}" if broker.data_dir else None
            try:
                if dialect.own_log_by_fetch and not stopped:
                    _read_by_fetch(connection, log, dialect)
                elif folder is not None:
                    _read_files(folder, log, broker.data_dir)
                else:
                    log.error = "this Kafka version shows no replica's own log, and no data folder was given"
            except OSError as error:
                _give_up(log, folder, broker.data_dir, str(error))
            log.ns = now_ns()
            if folder is not None:
                log.epochs = leader_epochs(folder)
    return logs


def _give_up(log: ReplicaLog, folder: Path | None, data_dir: Path | None, why: str) -> None:
    log.records.clear()
    if folder is not None and folder.exists():
        _read_files(folder, log, data_dir)
    log.complete = False
    log.error = why


def _read_by_fetch(connection: Connection, log: ReplicaLog, dialect: Dialect) -> None:
    key = (log.topic, log.partition)
    start = end_offsets(connection, [key], at=EARLIEST, dialect=dialect)[key]
    end = end_offsets(connection, [key], at=LATEST, dialect=dialect)[key]
    if start.error or end.error:
        log.error = f"Kafka error {start.error or end.error} when asked for the log's bounds"
        return
    position, size = start.offset, FETCH_BYTES
    while True:
        got = fetch_own_log(connection, log.topic, log.partition, position, size, dialect=dialect)
        if got.error:
            log.error = f"Kafka error {got.error} at offset {position}"
            return
        log.high_watermark, log.log_start = got.high_watermark, got.log_start
        log.records.extend(got.records)
        following = got.parsed.next_offset
        if following is not None and following > position:
            position, size = following, FETCH_BYTES
        elif got.size_bytes >= size:
            size *= 2  # one batch larger than what was asked for
        else:
            break
    end = end_offsets(connection, [key], at=LATEST, dialect=dialect)[key]
    log.leo = end.offset
    log.complete = position >= end.offset
    if not log.complete:
        log.error = f"the read ended at offset {position}, before the log's end {end.offset}"


def _read_files(folder: Path, log: ReplicaLog, data_dir: Path | None) -> None:
    files = segments(folder)
    if not files:
        log.error = f"there is no log in {folder}"
        return
    parsed = read_folder(folder)
    log.records.extend(parsed.records)
    log.log_start = int(files[0].stem)
    following = parsed.next_offset
    log.leo = following if following is not None else int(files[-1].stem)
    log.complete = True
    if data_dir is not None:
        log.high_watermark = high_watermarks(data_dir).get((log.topic, log.partition))


def _write(
    run_dir: Path,
    replicas: tuple[ReplicaLog, ...],
    partitions: Mapping[TopicPartition, PartitionView],
    cleanup: Mapping[str, str],
) -> None:
    target = history_dir(run_dir) / "copies.parquet"
    target.parent.mkdir(parents=True, exist_ok=True)
    clear(target)
    by_partition: dict[TopicPartition, list[ReplicaLog]] = {}
    for replica in replicas:
        if replica.records:
            by_partition.setdefault((replica.topic, replica.partition), []).append(replica)
    if by_partition:
        target.mkdir()
    else:
        write_table(run_dir, "copies", TABLES["copies"].arrow().empty_table())
    for (topic, partition), logs in by_partition.items():
        logs.sort(key=lambda log: log.broker)
        parts = [copies_of(log) for log in logs]
        pq.write_table(pa.concat_tables(parts), target / f"{topic}-{partition}.parquet")
    rows = [_replica_row(replica, partitions, cleanup) for replica in replicas]
    write_table(run_dir, "replicas", pa.Table.from_pylist(rows, schema=TABLES["replicas"].arrow()))


def copies_of(log: ReplicaLog) -> pa.Table:
    """A replica's records as rows of `copies`."""
    schema = TABLES["copies"].arrow()
    count = len(log.records)
    identities = [decode(record.value) for record in log.records]
    columns: dict[str, Any] = {
        "topic": pa.repeat(log.topic, count),
        "partition": pa.repeat(pa.scalar(log.partition, pa.int32()), count),
        "broker": pa.repeat(pa.scalar(log.broker, pa.int32()), count),
        "writer": [i.writer if i else None for i in identities],
        "seq": [i.seq if i else None for i in identities],
        "intact": [
            r.crc_ok and i.intact if i else (None if r.crc_ok else False)
            for r, i in zip(log.records, identities, strict=True)
        ],
        "home": [i.home if i else None for i in identities],
        "offset": [r.offset for r in log.records],
        "epoch": [r.epoch for r in log.records],
        "batch_offset": [r.batch_offset for r in log.records],
        "crc": [r.crc for r in log.records],
        "timestamp_ms": [r.timestamp_ms for r in log.records],
        "producer_id": [r.producer_id for r in log.records],
        "producer_epoch": [r.producer_epoch for r in log.records],
        "sequence": [r.sequence for r in log.records],
        "control": [r.control for r in log.records],
        "transactional": [r.transactional for r in log.records],
    }
    return pa.table(
        [
            pa.array(columns[f.name], f.type) if isinstance(columns[f.name], list) else columns[f.name]
            for f in schema
        ],
        schema=schema,
    )


def _replica_row(
    log: ReplicaLog, partitions: Mapping[TopicPartition, PartitionView], cleanup: Mapping[str, str]
) -> dict[str, object]:
    view = partitions[(log.topic, log.partition)]
    return {
        "topic": log.topic,
        "partition": log.partition,
        "broker": log.broker,
        "complete": log.complete,
        "ns": log.ns,
        "leo": log.leo,
        "high_watermark": log.high_watermark,
        "log_start": log.log_start,
        "leader": view.leader == log.broker,
        "in_sync": log.broker in view.isr,
        "epochs": None
        if log.epochs is None
        else [{"epoch": epoch, "start_offset": start} for epoch, start in log.epochs],
        "cleanup": cleanup.get(log.topic),
        "error": log.error,
    }

"""The final dump: every replica's own log, read to its end, and written as Parquet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import UnfitError
from harness.history.identity import decode
from harness.history.schema import TABLES
from harness.history.tables import clear, history_dir, write_table
from harness.kafka.wire.admin import describe_configs
from harness.kafka.wire.dialect import MODERN, Dialect
from harness.kafka.wire.metadata import BrokerView, PartitionView, metadata
from harness.observer.replica_log import ReplicaLog, TopicPartition, read_broker
from harness.observer.targets import Node


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

    def read(broker: Node) -> list[ReplicaLog]:
        mine = sorted(key for key, view in partitions.items() if broker.node_id in view.replicas)
        return read_broker(broker, mine, dialect, stopped=broker.name in stopped)

    with ThreadPoolExecutor(max(1, len(brokers))) as pool:
        replicas = tuple(chain.from_iterable(pool.map(read, brokers)))
    _write(run_dir, replicas, partitions, _cleanup_policies(brokers, wanted, dialect))
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


def _cleanup_policies(brokers: Sequence[Node], topics: Iterable[str], dialect: Dialect) -> dict[str, str]:
    for broker in brokers:
        try:
            told = {
                topic: describe_configs(broker.address, "topic", topic, dialect=dialect) for topic in topics
            }
        except UnfitError:
            return {}
        except (OSError, LookupError):
            continue
        return {topic: config.get("cleanup.policy") or "" for topic, config in told.items()}
    return {}


def _freshness(view: BrokerView) -> tuple[int, int]:
    return len(view.partitions), sum(p.epoch or 0 for p in view.partitions.values())


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

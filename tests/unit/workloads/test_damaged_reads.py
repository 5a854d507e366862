"""What a consumer does with batches that hold no records for it: damaged ones, and transaction markers."""

from __future__ import annotations

import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c
from confluent_kafka import KafkaError
from fake_broker import FakeBroker

from harness.history.journal import Journal
from harness.kafka.model import Endpoint, TopicPartition
from harness.waiting import wait_until
from workloads.agent.consumers.assigned import BoundedConsumer
from workloads.client.client import Client
from workloads.protocol.spec import ConsumerSpec

sys.path.insert(0, str(Path(__file__).parents[1] / "wire"))
from record_bytes import batch  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_process_left")
CODECS = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def broken(codec: int) -> bytes:
    """A batch of one record whose checksum is right and whose frame is not."""
    raw = bytearray(batch(0, b"a" * 90, compression=codec))
    raw[61:] = bytes(len(raw) - 61)
    struct.pack_into(">I", raw, 17, calc_crc32c(bytes(raw[21:])))
    return bytes(raw)


def consumer(broker: FakeBroker) -> ConsumerSpec:
    partitions = (TopicPartition("t", 0),)
    return ConsumerSpec(reader=9, name="consumer9", brokers=(broker.endpoint,), partitions=partitions)


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_cannot_be_decompressed_is_an_error_of_the_read(
    client: Client, broker: FakeBroker, codec: str
) -> None:
    broker.batches, broker.values = [broken(CODECS[codec])], [b"a"]
    read = client.read(consumer(broker), 5)
    assert [part.complete for part in read.partitions] == [False]
    ((code, text),) = read.errors
    assert code == KafkaError._BAD_COMPRESSION
    assert "decompress" in text.lower()


def test_a_background_consumer_stops_at_it_and_can_be_stopped(client: Client, broker: FakeBroker) -> None:
    """As a Java consumer does: it returns nothing more until it is told to seek past the batch."""
    broker.batches, broker.values = [broken(3)], [b"a"]
    reading = client.start_consumer(consumer(broker))
    wait_until(lambda: reading.progress().errors, within_s=30, awaiting="the error to be noted")
    read = reading.stop()
    assert (read.count, [code for code, _ in read.errors]) == (0, [KafkaError._BAD_COMPRESSION])


def marker(offset: int) -> bytes:
    """The batch that commits the transaction of producer 1."""
    builder = DefaultRecordBatchBuilder(2, 0, 1, 1, 0, -1, 1 << 10)
    builder.append(0, timestamp=1000, key=bytes((0, 0, 0, 1)), value=bytes(6), headers=[])
    raw = bytearray(builder.build())
    raw[22] |= 0x20  # a control batch
    struct.pack_into(">q", raw, 0, offset)
    struct.pack_into(">I", raw, 17, calc_crc32c(bytes(raw[21:])))
    return bytes(raw)


def test_a_marker_at_the_end_is_read_past(client: Client, broker: FakeBroker) -> None:
    """It moves the position, although the consumer does not receive it."""
    committed = batch(0, b"a", producer_id=1, producer_epoch=0, sequence=0, transactional=True)
    broker.batches, broker.values = [committed, marker(1)], [b"a", b"marker"]
    read = client.read(consumer(broker), 20)
    (part,) = read.partitions
    assert (part.start, part.end, part.position, part.count, part.complete) == (0, 2, 2, 1, True)
    assert read.errors == ()


@dataclass(frozen=True)
class Polled:
    """A record, or the end of a partition, as a poll returns it."""

    at: int
    kind: KafkaError | None = None

    def error(self) -> KafkaError | None:
        return self.kind

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.at

    def leader_epoch(self) -> int:
        return 0

    def value(self) -> bytes:
        return b"a"


def test_the_end_that_one_poll_returns_with_the_last_record_counts(tmp_path: Path) -> None:
    """A poll returns both if other partitions have more to read; the end is told once."""
    key = TopicPartition("t", 0)
    spec = ConsumerSpec(reader=9, name="consumer9", brokers=(Endpoint("127.0.0.1", 1),), partitions=(key,))
    reading = BoundedConsumer(Journal(tmp_path / "journal.jsonl"), spec)
    progress = reading._progress.partitions[key]
    progress.start, progress.end = 0, 2
    end_of_partition = KafkaError(KafkaError._PARTITION_EOF, "end")
    reading._received(cast(list[Any], [Polled(0), Polled(2, end_of_partition)]))
    reading._close()
    assert (progress.position, progress.count, progress.complete) == (2, 1, True)

"""A consumer that receives a batch which it cannot decompress reports it."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest
from aiokafka.record.util import calc_crc32c
from confluent_kafka import KafkaError
from fake_broker import FakeBroker

from harness.kafka.model import TopicPartition
from harness.waiting import wait_until
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
    return ConsumerSpec(reader=9, name="consumer9", brokers=(broker.address,), partitions=partitions)


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

"""One ProduceRequest with one record: one attempt is one request, and nothing retries it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from harness.kafka.model import ProducerIdentity
from harness.kafka.wire.connection import NoAnswerError, NotSentError, Target, connected
from harness.kafka.wire.dialect import MODERN, Dialect


@dataclass(frozen=True)
class ProduceResult:
    """Result of a produce request, as far as the client can tell.

    ``status`` is `answered` (see ``error``), `silent` (sent, but no response came: unknown), `unsent` (it was
    never sent) or `unasked` (acks=0: the broker sends no response). Some errors come with an ``offset`` too.
    """

    status: Literal["answered", "silent", "unsent", "unasked"]
    error: int | None = None
    offset: int | None = None
    detail: str = ""

    @property
    def ok(self) -> bool:
        """The broker acknowledged it."""
        return self.status == "answered" and self.error == 0


@dataclass(frozen=True)
class BatchSequence:
    """The identity of a batch's idempotent producer, and the batch's place in that producer's order."""

    identity: ProducerIdentity
    sequence: int
    transactional: bool = False
    """Whether it belongs to the producer's open transaction."""


_OF_NOBODY = BatchSequence(ProducerIdentity(-1, -1), -1)


def one_record_batch(
    value: bytes, magic: int = 2, timestamp_ms: int | None = None, *, of: BatchSequence | None = None
) -> bytes:
    """A record batch (format 2) or message (formats 0 and 1) with this one record, not compressed.

    ``of`` names the idempotent producer of a batch in format 2.
    """
    at = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
    if magic == 2:
        of = of or _OF_NOBODY
        builder = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=0,
            is_transactional=int(of.transactional),
            producer_id=of.identity.producer_id,
            producer_epoch=of.identity.epoch,
            base_sequence=of.sequence,
            batch_size=1 << 30,
        )
        builder.append(0, timestamp=at, key=None, value=value, headers=[])
        return bytes(builder.build())
    legacy = LegacyRecordBatchBuilder(magic=magic, compression_type=0, batch_size=1 << 30)
    legacy.append(0, timestamp=at, key=None, value=value)
    return bytes(legacy.build())


def produce_once(
    target: Target,
    topic: str,
    partition: int,
    value: bytes,
    *,
    acks: int = -1,
    timeout_ms: int = 2000,
    dialect: Dialect = MODERN,
    answer_within_s: float | None = None,
    connect_within_s: float = 2.0,
    of: BatchSequence | None = None,
    timestamp_ms: int | None = None,
) -> ProduceResult:
    """Send one record to exactly this broker, once; an endpoint gets a connection for this request alone.

    ``timeout_ms`` is the broker's own time-out (error 7); ``answer_within_s`` bounds the wait for the
    response and defaults to that time-out plus 3 s; ``of`` names the idempotent producer, if there is one;
    ``timestamp_ms`` is the record's timestamp, by default the present time.
    """
    data = ProduceRequest.TopicProduceData.PartitionProduceData(
        index=partition, records=one_record_batch(value, dialect.magic, timestamp_ms, of=of)
    )
    request = ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[data])],
    )
    wait_s = timeout_ms / 1000 + 3 if answer_within_s is None else answer_within_s
    with connected(target, connect_within_s) as connection:
        try:
            if acks == 0:
                connection.send_only(request, dialect.produce)
                return ProduceResult("unasked")
            answer = connection.call_once(request, ProduceResponse, dialect.produce, wait_s)
        except NotSentError as error:
            return ProduceResult("unsent", detail=str(error))
        except NoAnswerError as error:
            return ProduceResult("silent", detail=str(error))
    result = answer.responses[0].partition_responses[0]
    return ProduceResult(
        "answered", result.error_code, result.base_offset if result.base_offset >= 0 else None
    )

"""The raw client: one ProduceRequest per message to one named broker, no metadata, no retry.

Where a claim counts exact copies, every attempt must be an operation of its own with its own answer.
"""

from __future__ import annotations

from dataclasses import replace

from harness.clock import now_ns
from harness.history.identity import encode
from harness.kafka.wire.dialect import MODERN
from harness.kafka.wire.produce import Produced, produce_once
from workloads.agent.outcomes import NO_ANSWER, NOT_CONNECTED, TIMED_OUT, classify
from workloads.agent.recorder import Recorder
from workloads.protocol.results import SendResult
from workloads.protocol.spec import Writer

_GRACE_S = 1.0


def raw_send(
    recorder: Recorder, writer: Writer, topic: str, partition: int, label: str, sent: tuple[int, int]
) -> SendResult:
    """Make the one attempt for a message that is already recorded as ``sent`` (seq, time), record its end.

    The broker gets the writer's request time-out, its answer one second more. Never raises for what the
    network or the broker does: the result says it.
    """
    seq, sent_ns = sent
    address, _, port = writer.brokers[0].rpartition(":")
    produced = produce_once(
        (address, int(port)),
        topic,
        partition,
        encode(writer.number, seq, topic, partition, label),
        acks=writer.acks,
        timeout_ms=int(writer.request_timeout_s * 1000),
        dialect=replace(
            MODERN, produce=writer.produce_version, magic=2 if writer.produce_version >= 3 else 1
        ),
        answer_within_s=writer.request_timeout_s + _GRACE_S,
        connect_within_s=writer.connect_timeout_s,
    )
    done_ns = now_ns()
    error = error_code(produced)
    left = produced.status != "unsent"
    attempts = 1 if left else 0
    broker = writer.node if left else None
    outcome = classify(error, acks=writer.acks, attempts=attempts)
    recorder.done(
        writer.number,
        seq,
        done_ns,
        outcome,
        error,
        offset=produced.offset,
        attempts=attempts,
        broker=broker,
    )
    return SendResult(
        writer.number,
        seq,
        topic,
        partition,
        label,
        outcome,
        error,
        produced.offset,
        attempts,
        broker,
        sent_ns,
        done_ns,
    )


def error_code(produced: Produced) -> int:
    """Kafka's error code, or librdkafka's (negative) for what befell the connection."""
    if produced.status == "unsent":
        return NOT_CONNECTED
    if produced.status == "silent":
        return TIMED_OUT if "timed out" in produced.detail else NO_ANSWER
    return produced.error or 0

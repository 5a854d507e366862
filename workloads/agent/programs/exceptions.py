"""What an exception of the Java client proves about a message: a table by class, with its sources.

A class stands for an error code, and `workloads.agent.producers.outcomes` says what that code proves. An
exception that a broker's answer caused has the broker's code. An exception that the client itself raises has
librdkafka's code for the same cause, which is negative. The Java client uses the same class for both: its
TimeoutException is the broker's REQUEST_TIMED_OUT, or a batch that expired in the client's own queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from workloads.agent.producers.outcomes import QUEUE_FULL, classify
from workloads.agent.producers.outcomes import RULES as OUTCOME_RULES
from workloads.protocol.codec import Json
from workloads.protocol.lines import Failure
from workloads.protocol.results import Outcome

MSG_TIMED_OUT, TRANSPORT, PURGED, FENCED = -192, -195, -151, -144
BROKERS_TIME_OUT = "The request timed out."
"""Message of the broker's REQUEST_TIMED_OUT (`Errors`); any other TimeoutException is the client's own."""
_NO_CODE = 1 << 15
"""A number that is no error code."""


@dataclass(frozen=True, kw_only=True)
class JavaRule:
    """One class of exception. ``code`` is the error code that it stands for."""

    exception: str
    code: int
    reason: str
    source: str


def _rules(source: str, rules: Mapping[str, tuple[int, str]]) -> tuple[JavaRule, ...]:
    return tuple(
        JavaRule(exception=name, code=code, reason=reason, source=source)
        for name, (code, reason) in rules.items()
    )


_RULES = (
    *_rules(
        "Errors (protocol), Sender.completeBatch: the exception of the broker's error code",
        {
            "CorruptRecordException": (2, "The broker checks the batch before it appends."),
            "UnknownTopicOrPartitionException": (3, "The broker has no such log to append to."),
            "LeaderNotAvailableException": (5, "The partition had no leader."),
            "NotLeaderOrFollowerException": (6, "Rejected before the append; with acks=all perhaps after."),
            "NotLeaderForPartitionException": (6, "The name of NotLeaderOrFollowerException before 2.6."),
            "InvalidTopicException": (17, "There can be no topic of that name."),
            "RecordBatchTooLargeException": (18, "Rejected before the append."),
            "NotEnoughReplicasException": (19, "The broker checks the size of the ISR before the append."),
            "NotEnoughReplicasAfterAppendException": (20, "Appended; then the ISR was too small."),
            "InvalidRequiredAcksException": (21, "Rejected before the append."),
            "TopicAuthorizationException": (29, "Rejected before the append."),
            "InvalidTimestampException": (32, "The broker checks the batch before it appends."),
            "UnsupportedVersionException": (35, "The broker could not read the request."),
            "KafkaStorageException": (56, "The disk failed at an unknown point of the append."),
            "InvalidRecordException": (87, "The broker checks the batch before it appends."),
            "UnknownServerException": (-1, "The broker does not report how far the append got."),
        },
    ),
    *_rules(
        "KafkaProducer.ensureValidRecordSize, and Errors for MESSAGE_TOO_LARGE",
        {"RecordTooLargeException": (10, "Rejected by the client itself, or before the append.")},
    ),
    *_rules(
        "Sender.failBatch and TransactionManager.handleFailedBatch (KIP-98, KIP-360)",
        {
            "OutOfOrderSequenceException": (45, "An earlier attempt may have been written."),
            "InvalidProducerEpochException": (47, "An earlier attempt may have been written."),
            "UnknownProducerIdException": (59, "An earlier attempt may have been written."),
            "ProducerFencedException": (FENCED, "An earlier attempt may have been written."),
        },
    ),
    *_rules(
        "ProducerBatch.hasReachedDeliveryTimeout, Sender (KIP-91), KafkaProducer.waitOnMetadata",
        {"TimeoutException": (MSG_TIMED_OUT, "It expired in the client; it may have been sent before.")},
    ),
    *_rules(
        "Sender.handleProduceResponse: the connection broke, or no answer came within request.timeout.ms",
        {
            "NetworkException": (TRANSPORT, "The request may have arrived."),
            "DisconnectException": (TRANSPORT, "The request may have arrived."),
        },
    ),
    *_rules(
        "BufferPool.allocate (KIP-572)",
        {"BufferExhaustedException": (QUEUE_FULL, "The client had no memory left to queue it.")},
    ),
    *_rules(
        "RecordAccumulator.abortIncompleteBatches and abortUndrainedBatches, TransactionManager.beginAbort",
        {
            "TransactionAbortedException": (PURGED, "Discarded from the queue; perhaps sent before."),
            "KafkaException": (PURGED, "Discarded when the producer was closed; perhaps sent before."),
        },
    ),
    *_rules(
        "KafkaProducer.doSend and throwIfProducerClosed",
        {"IllegalStateException": (PURGED, "The producer was closed, or had no open transaction.")},
    ),
)

RULES: Mapping[str, JavaRule] = MappingProxyType({rule.exception: rule for rule in _RULES})


def error_code(failure: Failure) -> int:
    """The error code of a failure: from the table, else as the program states it, else -1."""
    if failure.exception == "TimeoutException" and failure.text == BROKERS_TIME_OUT:
        return 7
    rule = RULES.get(failure.exception)
    if rule is not None:
        return rule.code
    return -1 if failure.code is None else failure.code


def java_outcome(failure: Failure, *, acks: int, attempts: int | None, retries: int) -> Outcome:
    """The outcome of a message that failed with an exception of the Java client.

    With ``retries`` above 0 the client reports the last error alone, so a refusal proves something only if
    the message was certainly sent only once.
    """
    return classify(error_code(failure), acks=acks, attempts=attempts, retries=retries)


def stream_rules(*, acks: int, retries: int) -> Json:
    """The rules of `error_code` and `java_outcome` as data, for a program that runs streams itself.

    `exceptions` has the error code for which a class of exception stands, `brokers_time_out` the text of the
    TimeoutException that is the broker's (7), `outcomes` what a code proves after no attempt, one, several,
    and an unknown number of them, and `others` the same for all other codes.
    """

    def proven(code: int) -> list[Json]:
        return [classify(code, acks=acks, attempts=attempts, retries=retries) for attempts in (0, 1, 2, None)]

    codes = sorted({*OUTCOME_RULES, *(rule.code for rule in RULES.values())})
    return {
        "exceptions": {rule.exception: rule.code for rule in RULES.values()},
        "brokers_time_out": BROKERS_TIME_OUT,
        "outcomes": {str(code): proven(code) for code in codes},
        "others": proven(_NO_CODE),
    }

"""What an error proves about a message: `ok`, `fail` (definitely not written) or `info` (unknown).

This is the only place that maps errors to outcomes. The mapping errs on one side: `fail` only if no broker
can hold the message, else `info`. A wrong `fail` would show up as a message that nobody wrote; a wrong `info`
only hides a detail. Each rule names the function of Kafka (2.7) or librdkafka (2.x) from which it was
derived.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from harness.kafka.wire.connection import NoAnswerError, NotSentError
from workloads.protocol.results import Outcome

When = Literal["always", "unless-acks-all", "if-never-sent"]

NO_ANSWER = -195
"""Error of a raw attempt whose request left and whose connection then broke."""
NOT_CONNECTED = -187
"""Error of a raw attempt without a connection: nothing left the client."""
TIMED_OUT = -185
"""Error of a raw attempt that got no answer in time."""
QUEUE_FULL = -184
"""librdkafka's error for a message that the client has no memory to queue."""


def unanswered(why: str) -> int:
    """The error of a raw attempt whose request left and got no answer; ``why`` is the connection's reason."""
    return TIMED_OUT if "timed out" in why else NO_ANSWER


def connection_error(error: NotSentError | NoAnswerError) -> int:
    """The error of a raw attempt whose connection failed."""
    return NOT_CONNECTED if isinstance(error, NotSentError) else unanswered(str(error))


@dataclass(frozen=True, kw_only=True)
class ErrorRule:
    """One error code. ``when`` restricts a `fail`: in any other case the outcome is `info`."""

    code: int
    name: str
    outcome: Outcome
    reason: str
    source: str
    when: When = "always"


def _rules(
    source: str, outcome: Outcome, errors: Mapping[int, tuple[str, str]], when: When = "always"
) -> tuple[ErrorRule, ...]:
    return tuple(
        ErrorRule(code=code, name=name, outcome=outcome, reason=reason, source=source, when=when)
        for code, (name, reason) in errors.items()
    )


_RULES = (
    *_rules(
        "ReplicaManager.appendRecords",
        "ok",
        {0: ("NO_ERROR", "The broker acknowledged it; with acks=0, the request left.")},
    ),
    *_rules(
        "ProducerAppendInfo (Kafka), rd_kafka_handle_Produce_error (librdkafka)",
        "ok",
        {46: ("DUPLICATE_SEQUENCE_NUMBER", "An earlier attempt was written; its offset is not reported.")},
    ),
    *_rules(
        "KafkaApis.handleProduceRequest",
        "fail",
        {
            3: ("UNKNOWN_TOPIC_OR_PARTITION", "The broker has no such log to append to."),
            29: ("TOPIC_AUTHORIZATION_FAILED", "Rejected before the append."),
            35: ("UNSUPPORTED_VERSION", "The broker could not read the request."),
        },
    ),
    *_rules(
        "ReplicaManager.appendRecords and appendToLocalLog",
        "fail",
        {
            5: ("LEADER_NOT_AVAILABLE", "The partition had no leader, so nobody appended."),
            17: ("INVALID_TOPIC_EXCEPTION", "The broker has no such log to append to."),
            21: ("INVALID_REQUIRED_ACKS", "Rejected before the append."),
        },
    ),
    *_rules(
        "Partition.appendRecordsToLeader",
        "fail",
        {19: ("NOT_ENOUGH_REPLICAS", "The broker checks the size of the ISR before the append.")},
    ),
    *_rules(
        "Partition.appendRecordsToLeader, and checkEnoughReplicasReachOffset with acks=all",
        "fail",
        {
            6: (
                "NOT_LEADER_OR_FOLLOWER",
                "Rejected before the append. With acks=all a broker also answers this if it loses its "
                "leadership after the append, while it waits for the followers.",
            )
        },
        when="unless-acks-all",
    ),
    *_rules(
        "Log.append, LogValidator",
        "fail",
        {
            2: ("CORRUPT_MESSAGE", "The broker checks the batch before it appends."),
            10: ("MESSAGE_TOO_LARGE", "Rejected before the append, or by the client itself."),
            18: ("RECORD_LIST_TOO_LARGE", "Rejected before the append."),
            32: ("INVALID_TIMESTAMP", "The broker checks the batch before it appends."),
            87: ("INVALID_RECORD", "The broker checks the batch before it appends."),
        },
    ),
    *_rules(
        "DelayedProduce",
        "info",
        {7: ("REQUEST_TIMED_OUT", "The leader appended it; the followers did not fetch it in time.")},
    ),
    *_rules(
        "Partition.checkEnoughReplicasReachOffset",
        "info",
        {20: ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", "The leader appended it; then the ISR was too small.")},
    ),
    *_rules(
        "ReplicaManager.appendToLocalLog",
        "info",
        {
            56: ("KAFKA_STORAGE_ERROR", "The disk failed at an unknown point of the append."),
            -1: ("UNKNOWN_SERVER_ERROR", "The broker does not report how far the append got."),
        },
    ),
    *_rules(
        "ProducerAppendInfo",
        "info",
        {
            45: ("OUT_OF_ORDER_SEQUENCE_NUMBER", "An earlier attempt may have been written."),
            47: ("INVALID_PRODUCER_EPOCH", "An earlier attempt may have been written."),
            59: ("UNKNOWN_PRODUCER_ID", "An earlier attempt may have been written."),
        },
    ),
    *_rules(
        "ReplicaManager.appendRecords after verification by the coordinator (KIP-890)",
        "fail",
        {
            48: ("INVALID_TXN_STATE", "The transaction does not hold the partition; rejected before."),
            51: ("CONCURRENT_TRANSACTIONS", "The last transaction is not complete; rejected before."),
        },
    ),
    *_rules(
        "rd_kafka_msg_new and rd_kafka_msg_partitioner",
        "fail",
        {
            QUEUE_FULL: ("_QUEUE_FULL", "The client rejected it before it was sent."),
            -188: ("_UNKNOWN_TOPIC", "The client rejected it before it was sent."),
            -190: ("_UNKNOWN_PARTITION", "The client rejected it before it was sent."),
        },
        when="if-never-sent",
    ),
    *_rules(
        "rd_kafka_handle_Produce_error and rd_kafka_broker_toppar_msgq_scan",
        "fail",
        {
            -185: ("_TIMED_OUT", "No answer came; the request may have arrived."),
            -187: ("_ALL_BROKERS_DOWN", "There was no connection, so nothing left."),
            -192: ("_MSG_TIMED_OUT", "It timed out; it may have been sent before."),
            -195: ("_TRANSPORT", "The connection broke; the request may have arrived."),
        },
        when="if-never-sent",
    ),
    *_rules(
        "rd_kafka_purge",
        "fail",
        {-152: ("_PURGE_QUEUE", "Discarded from the send queue; it may have been sent before.")},
        when="if-never-sent",
    ),
    *_rules(
        "rd_kafka_purge",
        "info",
        {-151: ("_PURGE_INFLIGHT", "Discarded between its request and the answer.")},
    ),
    *_rules(
        "rd_kafka_handle_Produce_error",
        "info",
        {-144: ("_FENCED", "An earlier attempt may have been written.")},
    ),
)

RULES: Mapping[int, ErrorRule] = MappingProxyType({rule.code: rule for rule in _RULES})


def refuses(code: int, acks: int) -> bool:
    """Whether a broker's answer ``code`` to one attempt proves that this attempt wrote nothing."""
    rule = RULES.get(code)
    if rule is None or rule.code <= 0 or rule.outcome != "fail":
        return False
    return rule.when == "always" or (rule.when == "unless-acks-all" and acks != -1)


def stated_offset(offset: int | None) -> int | None:
    """The offset that a client reports; negative: the broker stated none."""
    return offset if offset is not None and offset >= 0 else None


def classify(
    code: int, *, acks: int, attempts: int | None, retries: int = 0, all_refused: bool = False
) -> Outcome:
    """The outcome of a message whose last error was ``code``.

    ``attempts`` is the number of requests that carried the message, None if the client cannot know it. The
    last error is about the last attempt alone, and an earlier attempt may have been written. So if there was
    more than one attempt, or an unknown number of them, the outcome is `info`, whatever the last error was.
    The exception is ``all_refused``: the answers to all attempts are known, and none of them wrote anything.
    """
    rule = RULES.get(code)
    if rule is not None and rule.outcome == "ok":
        return "ok"
    if all_refused or attempts == 0:
        return "fail"
    if rule is None or rule.outcome == "info":
        return "info"
    if rule.when == "if-never-sent":
        # Without retries librdkafka sends a message again only after a definite refusal, except that with
        # acks=all the refusal may have come after the append.
        still_queued = code == -152 and attempts is None and retries == 0 and acks != -1
        return "fail" if still_queued else "info"
    if not refuses(code, acks):
        return "info"
    if attempts is None:
        return "fail" if retries == 0 and acks != -1 else "info"
    return "fail" if attempts == 1 else "info"

"""What a client may conclude from what it was told: `ok`, `fail` (definitely not written) or `info`.

The rule is one-sided: `fail` only where no broker can hold the message, else `info`. A wrong `fail` would
show up as a phantom; a wrong `info` only hides a detail.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Outcome = Literal["ok", "fail", "info"]
When = Literal["always", "unless-all", "never-left"]

NO_ANSWER = -195
"""Error of a raw attempt that ended without an answer after the request had left (a transport error)."""
NOT_CONNECTED = -187
"""Error of a raw attempt whose connection never stood, so nothing left the client."""
TIMED_OUT = -185
"""Error of a raw attempt that waited in vain for the answer."""


@dataclass(frozen=True)
class Rule:
    """One error code; ``when`` says in which case it proves that nothing was written."""

    code: int
    name: str
    outcome: Outcome
    reason: str
    when: When = "always"


_RULES = (
    Rule(0, "NO_ERROR", "ok", "The broker acknowledged; with acks=0, the request left."),
    Rule(46, "DUPLICATE_SEQUENCE_NUMBER", "ok", "An earlier attempt was written; its offset is not told."),
    Rule(2, "CORRUPT_MESSAGE", "fail", "The broker checks the batch before it appends."),
    Rule(3, "UNKNOWN_TOPIC_OR_PARTITION", "fail", "The broker has no such log to append to."),
    Rule(5, "LEADER_NOT_AVAILABLE", "fail", "Nobody led the partition, so nobody appended."),
    Rule(
        6,
        "NOT_LEADER_OR_FOLLOWER",
        "fail",
        "Refused before the append; but with acks=all also told when leadership is lost while waiting, after "
        "the append.",
        "unless-all",
    ),
    Rule(10, "MESSAGE_TOO_LARGE", "fail", "Refused before the append, or by the client itself."),
    Rule(17, "INVALID_TOPIC_EXCEPTION", "fail", "The broker has no such log to append to."),
    Rule(18, "RECORD_LIST_TOO_LARGE", "fail", "Refused before the append."),
    Rule(19, "NOT_ENOUGH_REPLICAS", "fail", "The ISR is counted before the append."),
    Rule(21, "INVALID_REQUIRED_ACKS", "fail", "Refused before the append."),
    Rule(29, "TOPIC_AUTHORIZATION_FAILED", "fail", "Refused before the append."),
    Rule(35, "UNSUPPORTED_VERSION", "fail", "The request was never understood."),
    Rule(87, "INVALID_RECORD", "fail", "The broker checks the batch before it appends."),
    Rule(7, "REQUEST_TIMED_OUT", "info", "Appended by the leader; replication was not seen in time."),
    Rule(20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "info", "Appended; then the ISR was too small."),
    Rule(56, "KAFKA_STORAGE_ERROR", "info", "The disk failed at an unknown point of the append."),
    Rule(45, "OUT_OF_ORDER_SEQUENCE_NUMBER", "info", "An earlier attempt may have been written."),
    Rule(47, "INVALID_PRODUCER_EPOCH", "info", "An earlier attempt may have been written."),
    Rule(59, "UNKNOWN_PRODUCER_ID", "info", "An earlier attempt may have been written."),
    Rule(-1, "UNKNOWN_SERVER_ERROR", "info", "The broker does not say how far it came."),
    Rule(-184, "_QUEUE_FULL", "fail", "The client refused it before it left.", "never-left"),
    Rule(-187, "_ALL_BROKERS_DOWN", "fail", "No connection stood, so nothing left.", "never-left"),
    Rule(-190, "_UNKNOWN_PARTITION", "fail", "The client refused it before it left.", "never-left"),
    Rule(-188, "_UNKNOWN_TOPIC", "fail", "The client refused it before it left.", "never-left"),
    Rule(-192, "_MSG_TIMED_OUT", "fail", "It timed out; it may have left before.", "never-left"),
    Rule(-195, "_TRANSPORT", "fail", "The connection broke; the request may have arrived.", "never-left"),
    Rule(-185, "_TIMED_OUT", "fail", "No answer came; the request may have arrived.", "never-left"),
    Rule(-152, "_PURGE_QUEUE", "fail", "Thrown away while it waited; it may have left before.", "never-left"),
    Rule(-151, "_PURGE_INFLIGHT", "info", "Thrown away while its answer was awaited."),
    Rule(-144, "_FENCED", "info", "An earlier attempt may have been written."),
)

RULES: Mapping[int, Rule] = MappingProxyType({rule.code: rule for rule in _RULES})


def refuses(code: int, acks: int) -> bool:
    """A broker's answer ``code`` to one attempt proves that this attempt wrote nothing."""
    rule = RULES.get(code)
    if rule is None or rule.code <= 0 or rule.outcome != "fail":
        return False
    return rule.when == "always" or (rule.when == "unless-all" and acks != -1)


def classify(
    code: int, *, acks: int, attempts: int | None, retries: int = 0, all_refused: bool = False
) -> Outcome:
    """The outcome of a message whose last word was error ``code``.

    ``attempts`` is the number of requests that carried it, None when the client cannot know. The last error
    speaks for the last attempt alone: an earlier one may have been written, so more than one attempt, or an
    unknown number where an earlier one could have been, is `info` whatever the last error says, unless
    ``all_refused``: the answer to each attempt is known, and each wrote nothing.
    """
    rule = RULES.get(code)
    if rule is not None and rule.outcome == "ok":
        return "ok"
    if all_refused or attempts == 0:
        return "fail"
    if rule is None or rule.outcome == "info":
        return "info"
    if rule.when == "never-left":
        # Without retries only a definite refusal makes librdkafka send again, unless acks=all muddles it.
        waited_unsent = code == -152 and attempts is None and retries == 0 and acks != -1
        return "fail" if waited_unsent else "info"
    if not refuses(code, acks):
        return "info"
    if attempts is None:
        return "fail" if retries == 0 and acks != -1 else "info"
    return "fail" if attempts == 1 else "info"

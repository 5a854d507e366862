"""What each error code proves about a message, with a reason per line."""

from __future__ import annotations

import pytest

from workloads.agent.producers.outcomes import RULES, classify

ONE_ATTEMPT = [
    (0, -1, "ok", "all in-sync replicas have it"),
    (0, 1, "ok", "the leader has it"),
    (0, 0, "ok", "with acks=0 there is no answer; the request left"),
    (46, -1, "ok", "a duplicate sequence number means that the first attempt was written"),
    (2, -1, "fail", "a corrupt batch is rejected before the append"),
    (3, 1, "fail", "the broker has no such partition"),
    (5, 1, "fail", "the partition had no leader"),
    (6, 1, "fail", "with acks=1 leadership is checked before the append only"),
    (6, 0, "fail", "the same with acks=0, although such a request has no answer"),
    (6, -1, "info", "with acks=all leadership may be lost after the append, while waiting"),
    (7, -1, "info", "appended by the leader, perhaps not replicated"),
    (10, -1, "fail", "a batch that is too large is rejected before the append"),
    (17, -1, "fail", "there can be no topic of that name"),
    (18, -1, "fail", "a batch that is too large is rejected before the append"),
    (19, -1, "fail", "the size of the ISR is checked before the append"),
    (20, -1, "info", "the ISR shrank after the append"),
    (21, -1, "fail", "an invalid acks is rejected before the append"),
    (29, -1, "fail", "authorization is checked before the append"),
    (35, -1, "fail", "a request that cannot be read appends nothing"),
    (45, -1, "info", "a gap in the sequence numbers proves nothing about earlier attempts"),
    (47, -1, "info", "being fenced proves nothing about earlier attempts"),
    (56, -1, "info", "the disk may have failed before or after the append"),
    (59, -1, "info", "an expired producer id proves nothing about earlier attempts"),
    (87, -1, "fail", "an invalid record is rejected before the append"),
    (32, -1, "fail", "a timestamp that is too far off is rejected before the append"),
    (-1, -1, "info", "the broker does not report how far the append got"),
    (48, -1, "fail", "the coordinator says that the partition is in no open transaction"),
    (51, -1, "fail", "the coordinator is still ending the last transaction"),
    (-144, -1, "info", "being fenced proves nothing about earlier attempts"),
    (-151, -1, "info", "discarded between its request and the answer"),
    (-152, -1, "info", "in the queue to be sent again, after one attempt"),
    (-184, -1, "info", "unlikely, but one attempt was sent"),
    (-185, -1, "info", "it was sent, and no answer came"),
    (-187, -1, "info", "all brokers down, after one attempt"),
    (-188, -1, "info", "the topic was deleted after one attempt"),
    (-190, -1, "info", "the partition was deleted after one attempt"),
    (-192, -1, "info", "timed out, after one attempt"),
    (-195, -1, "info", "the connection broke after it was sent"),
    (12345, -1, "info", "an unknown error proves nothing"),
]


@pytest.mark.parametrize(("code", "acks", "outcome", "why"), ONE_ATTEMPT)
def test_one_attempt(code: int, acks: int, outcome: str, why: str) -> None:
    assert classify(code, acks=acks, attempts=1) == outcome, why


def test_every_rule_has_a_line_a_reason_and_a_source() -> None:
    assert {line[0] for line in ONE_ATTEMPT} >= set(RULES)
    assert all(rule.reason.endswith(".") and rule.source for rule in RULES.values())


@pytest.mark.parametrize("code", [-192, -187, -184, -152, -195, 10, -1, 4711])
def test_a_message_that_was_never_sent_was_not_written(code: int) -> None:
    assert classify(code, acks=-1, attempts=0) == "fail"


@pytest.mark.parametrize("code", [3, 19, 6, 2])
def test_a_refusal_after_an_unknown_attempt_proves_nothing(code: int) -> None:
    # The first attempt may have been appended and timed out (7); only the last error is reported.
    assert classify(code, acks=1, attempts=2) == "info"


def test_a_message_whose_every_attempt_was_refused_was_not_written() -> None:
    assert classify(19, acks=-1, attempts=3, all_refused=True) == "fail"
    assert classify(-192, acks=1, attempts=None, all_refused=True) == "fail"


def test_an_acknowledged_message_is_ok_whatever_went_before() -> None:
    assert classify(0, acks=-1, attempts=5) == "ok"
    assert classify(0, acks=-1, attempts=None, all_refused=False) == "ok"


@pytest.mark.parametrize(
    ("code", "acks", "retries", "outcome"),
    [
        (19, 1, 0, "fail"),  # there was one request, and it was refused
        (19, 1, 3, "info"),  # an earlier request may have been written
        (19, -1, 0, "info"),  # librdkafka retries 6 without counting it, and 6 can follow an append
        (-152, 1, 0, "fail"),  # still in the queue, and never put back without retries
        (-152, 1, 3, "info"),
        (-152, -1, 0, "info"),
        (-192, 1, 0, "info"),
    ],
)
def test_unknown_number_of_attempts(code: int, acks: int, retries: int, outcome: str) -> None:
    assert classify(code, acks=acks, attempts=None, retries=retries) == outcome

"""Each error code and what a client may conclude from it, one line per reason."""

from __future__ import annotations

import pytest

from workloads.agent.outcomes import RULES, classify

ONE_ATTEMPT = [
    (0, -1, "ok", "all replicas in sync have it"),
    (0, 1, "ok", "the leader has it"),
    (0, 0, "ok", "acks=0 asks for nothing more than that it left"),
    (46, -1, "ok", "a duplicate sequence means that the first copy stands"),
    (2, -1, "fail", "a corrupt batch is refused before the append"),
    (3, 1, "fail", "no such partition on that broker"),
    (5, 1, "fail", "nobody led"),
    (6, 1, "fail", "with acks=1 the leadership is asked for before the append only"),
    (6, 0, "fail", "the same for acks=0, if one ever heard of it"),
    (6, -1, "info", "with acks=all leadership may be lost after the append, while waiting"),
    (7, -1, "info", "appended by the leader, replicated or not"),
    (10, -1, "fail", "too large is refused before the append"),
    (17, -1, "fail", "no topic of such a name can exist"),
    (18, -1, "fail", "too large is refused before the append"),
    (19, -1, "fail", "the ISR is counted before the append"),
    (20, -1, "info", "the ISR shrank after the append"),
    (21, -1, "fail", "a wrong acks is refused before the append"),
    (29, -1, "fail", "permission is asked for before the append"),
    (35, -1, "fail", "a request that is not understood appends nothing"),
    (45, -1, "info", "a gap in the sequence says nothing about earlier attempts"),
    (47, -1, "info", "being fenced says nothing about earlier attempts"),
    (56, -1, "info", "the disk may have failed before or after"),
    (59, -1, "info", "a forgotten producer may have written"),
    (87, -1, "fail", "an invalid record is refused before the append"),
    (-1, -1, "info", "the broker does not know itself"),
    (-144, -1, "info", "being fenced says nothing about earlier attempts"),
    (-151, -1, "info", "thrown away while the answer was awaited"),
    (-152, -1, "info", "waiting to be sent again, after one attempt"),
    (-184, -1, "info", "unlikely, but one attempt did leave"),
    (-185, -1, "info", "it left, no answer came"),
    (-187, -1, "info", "all brokers down, after one attempt"),
    (-188, -1, "info", "topic gone, after one attempt"),
    (-190, -1, "info", "partition gone, after one attempt"),
    (-192, -1, "info", "timed out, after one attempt"),
    (-195, -1, "info", "the connection broke after it left"),
    (12345, -1, "info", "an error that nobody has thought of proves nothing"),
]


@pytest.mark.parametrize(("code", "acks", "outcome", "why"), ONE_ATTEMPT)
def test_one_attempt(code: int, acks: int, outcome: str, why: str) -> None:
    assert classify(code, acks=acks, attempts=1) == outcome, why


def test_every_rule_has_a_line_and_a_reason() -> None:
    assert {line[0] for line in ONE_ATTEMPT} >= set(RULES)
    assert all(rule.reason.endswith(".") for rule in RULES.values())


@pytest.mark.parametrize("code", [-192, -187, -184, -152, -195, 10, -1, 4711])
def test_what_never_left_was_not_written(code: int) -> None:
    assert classify(code, acks=-1, attempts=0) == "fail"


@pytest.mark.parametrize("code", [3, 19, 6, 2])
def test_a_refusal_after_an_unknown_attempt_proves_nothing(code: int) -> None:
    # The first attempt may have been appended and only timed out (7); the last one is what is told.
    assert classify(code, acks=1, attempts=2) == "info"


def test_refusals_throughout_prove_that_nothing_was_written() -> None:
    assert classify(19, acks=-1, attempts=3, all_refused=True) == "fail"
    assert classify(-192, acks=1, attempts=None, all_refused=True) == "fail"


def test_a_success_stays_one_whatever_went_before() -> None:
    assert classify(0, acks=-1, attempts=5) == "ok"
    assert classify(0, acks=-1, attempts=None, all_refused=False) == "ok"


@pytest.mark.parametrize(
    ("code", "acks", "retries", "outcome"),
    [
        (19, 1, 0, "fail"),  # one request, and that one was refused
        (19, 1, 3, "info"),  # an earlier request may have been written
        (19, -1, 0, "info"),  # librdkafka repeats 6 without counting it, and 6 can come after the append
        (-152, 1, 0, "fail"),  # still queued, and without retries it cannot have been queued again
        (-152, 1, 3, "info"),
        (-152, -1, 0, "info"),
        (-192, 1, 0, "info"),
    ],
)
def test_unknown_number_of_attempts(code: int, acks: int, retries: int, outcome: str) -> None:
    assert classify(code, acks=acks, attempts=None, retries=retries) == outcome

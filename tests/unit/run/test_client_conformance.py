"""The complaints of `acked client check`, by the rows of a history."""

from __future__ import annotations

from typing import Any

import pytest

from run.conformance import SENTENCES, ProgramCheck, objections

NAMES = {1: "plain", 2: "refused", 3: "unanswered", 4: "transactions", 5: "timestamps"}
HOUR_MS = 3_600_000
NOW_MS = 500_000 * HOUR_MS


def history() -> dict[str, list[dict[str, Any]]]:
    """A run in which nothing is wrong: three messages, a refused one, an unanswered one, two transactions."""

    def send(writer: int, seq: int, outcome: str | None, offset: int | None, **more: Any) -> dict[str, Any]:
        return {"writer": writer, "seq": seq, "outcome": outcome, "offset": offset, "txn": None, **more}

    def copy(offset: int, writer: int, seq: int) -> dict[str, Any]:
        place = {"topic": "check", "partition": 0, "offset": offset, "home": "check/0", "intact": True}
        at_ms = NOW_MS + 20 * offset - (HOUR_MS if writer == 5 else 0)
        return {**place, "writer": writer, "seq": seq, "control": False, "timestamp_ms": at_ms}

    def read(reader: int, offset: int, writer: int, seq: int) -> dict[str, Any]:
        place = {"topic": "check", "partition": 0, "offset": offset}
        return {**place, "reader": reader, "writer": writer, "seq": seq}

    records = [(0, 1, 0), (1, 1, 1), (2, 1, 2), (3, 3, 0), (4, 4, 0)]
    return {
        "writers": [{"writer": number, "name": name} for number, name in NAMES.items()],
        "sends": [
            *(send(1, seq, "ok", seq) for seq in range(3)),
            send(2, 0, "fail", None),
            send(3, 0, "info", None),
            send(4, 0, "ok", 4, txn=0),
            send(4, 1, "ok", 6, txn=1),
            send(5, 0, "ok", 8),
        ],
        "copies": [
            *(copy(*one) for one in records),
            *(copy(*one) for one in records),
            copy(6, 4, 1),
            copy(8, 5, 0),
        ],
        "reads": [
            *(read(1000, *one) for one in records[:3]),
            *(read(7, *one) for one in records),
        ],
        "transactions": [
            {"writer": 4, "txn": 0, "event": "begin"},
            {"writer": 4, "txn": 0, "event": "committed"},
            {"writer": 4, "txn": 1, "event": "begin"},
            {"writer": 4, "txn": 1, "event": "aborted"},
        ],
    }


def check() -> ProgramCheck:
    return ProgramCheck(done=list(SENTENCES), readers={1000: "assigned"})


def test_nothing_is_wrong() -> None:
    assert list(objections(history(), check())) == []


LIES: list[tuple[str, int, dict[str, Any], str, str]] = [
    ("sends", 3, {"outcome": "ok"}, "refused", "2/0: acknowledged, but in no log"),
    ("sends", 4, {"outcome": "fail"}, "unanswered", "3/0: reported as definitely not written"),
    ("sends", 1, {"offset": 2}, "plain", "1/1: acknowledged with an offset at which"),
    ("sends", 1, {"outcome": None}, "plain", "1/1: sent, but the program never reported"),
    ("sends", 1, {"outcome": "info"}, "plain", "1/1: not acknowledged (`info`)"),
    ("copies", 0, {"intact": False}, "plain", "1/0: in the log with another value"),
    (
        "copies",
        0,
        {"home": "check/1"},
        "plain",
        "1/0: in the log with another value, or in another partition",
    ),
    ("copies", 3, {"writer": 1, "seq": 1}, "plain", "1/1: in the log more than once"),
    ("reads", 1, {"seq": 2}, "assigned", "check/0@1: read that the log does not hold there"),
    ("reads", 1, {"offset": 0}, "assigned", "check/0@1: in the log, and not returned"),
    ("reads", 7, {"seq": 9}, "transactions", "4/0: of a committed transaction, but not visible"),
    ("reads", 7, {"seq": 1}, "transactions", "4/1: of an aborted transaction, but visible"),
    ("copies", 11, {"timestamp_ms": NOW_MS}, "timestamps", "the record at offset 8 has the timestamp"),
]


@pytest.mark.parametrize(("table", "row", "changes", "operation", "sentence"), LIES)
def test_a_lie_is_caught(
    table: str, row: int, changes: dict[str, Any], operation: str, sentence: str
) -> None:
    rows = history()
    rows[table][row] |= changes
    caught = list(objections(rows, check()))
    assert any(one.operation == operation and sentence in one.sentence for one in caught), caught


def test_an_operation_that_could_not_be_carried_out() -> None:
    failed = ProgramCheck(problems={"group": "the consumer read nothing"}, done=list(SENTENCES))
    (one,) = objections(history(), failed)
    assert (one.operation, one.sentence) == ("group", "the consumer read nothing")


def test_a_program_without_transactions_is_not_asked_for_any() -> None:
    assert ProgramCheck(features=("idempotence",)).skipped == (
        *("group", "transactions", "offsets", "member", "timestamps"),
    )


def test_a_program_that_cannot_assign_partitions_is_not_asked_to() -> None:
    assert ProgramCheck(lacks=("assign",)).skipped == ("assigned",)

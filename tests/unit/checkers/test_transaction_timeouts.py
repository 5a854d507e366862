"""Transactions that their coordinator aborted after transaction.timeout.ms, and others that were aborted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from report.words.causes import cause_of
from tests.histories import History
from tests.unit.checkers.test_causes import lives

S = 1_000_000_000


def run(*events: tuple[str, int], timeout_ms: int = 5000, marker: str = "abort") -> History:
    """Message 0 of transaction 0, which began at 1 s; ``events`` are by second."""
    history = History().send(0, offset=0, sent_ns=2 * S, done_ns=2 * S + 1, txn=0)
    config = f'{{"transaction.timeout.ms": {timeout_ms}}}'
    history.add("writers", writer=1, name="one", transactional_id="id", config=config)
    for event, second in (("begin", 1), *events):
        history.add("transactions", ns=second * S, writer=1, txn=0, event=event)
    producer: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    end = {"offset": 1, "writer": None, "seq": None, "control": True, "marker": marker}
    history.log(1, [{"offset": 0, "seq": 0} | producer, end | producer])
    return history.replica(1, leader=True, in_sync=True, ns=90 * S, leo=2, log_start=0, high_watermark=2)


TIMED_OUT = "transaction timed out: transaction.timeout.ms=5000"
CASES = {
    "committed too late": (run(("committing", 15), ("unknown", 16)), "aborted", TIMED_OUT),
    "never ended": (run(), "aborted", TIMED_OUT),
    "aborted on request": (run(("aborting", 3), ("aborted", 4)), "aborted", None),
    "asked for its commit in time, yet aborted": (run(("committing", 3), ("unknown", 9)), "aborted", None),
    "its time-out is longer": (run(("committing", 15), ("unknown", 16), timeout_ms=60_000), "aborted", None),
    "committed late, but before the coordinator acted": (
        run(("committing", 15), ("committed", 16), marker="commit"),
        "readable",
        None,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_time_out_is_the_cause_of_an_abort(tmp_path: Path, name: str) -> None:
    history, state, cause = CASES[name]
    (row,) = lives(history, tmp_path)
    assert (row["fate"], row["state"], cause_of(row) or None) == ("kept", state, cause)

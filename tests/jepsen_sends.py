"""The sends of the unit tests of Jepsen's Kafka workload, as histories after their descriptions.

The histories say more than those tests do: they have the final log of each partition, with markers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.histories import History
from tests.jepsen_polls import X, Y

Send = tuple[int, int, int, str, int | None]
"""writer, seq, partition, outcome, offset in the answer"""
Record = tuple[int, int, int]
"""offset, writer, seq"""


def written(
    sends: Sequence[Send],
    logs: Mapping[int, Sequence[Record]],
    ends: Mapping[int, tuple[str, str]] | None = None,
) -> History:
    """Messages and final logs.

    ``ends`` are the report and the markers of a writer's only transaction.
    """
    history, ends = History(), ends or {}
    for writer, (reported, _) in ends.items():
        for ns, event in ((1, "begin"), (9000, "committing"), (9500, reported)):
            history.add("transactions", ns=ns, writer=writer, txn=1, event=event)
    for number, (writer, seq, partition, outcome, offset) in enumerate(sends):
        sent = {"sent_ns": 1000 + 100 * number, "done_ns": 1050 + 100 * number}
        txn = 1 if writer in ends else None
        history.send(seq, outcome, offset, writer, partition=partition, txn=txn, **sent)
    for partition, records in logs.items():
        log = [
            {"offset": offset, "writer": writer, "seq": seq, "control": False} | _producer(writer, ends)
            for offset, writer, seq in records
        ]
        for writer in sorted({send[0] for send in sends if send[2] == partition} & ends.keys()):
            end = {"offset": log[-1]["offset"] + 1, "writer": None, "seq": None, "control": True}
            log.append(end | _producer(writer, ends) | {"marker": ends[writer][1]})
        history.logs(log, partition=partition)
    return history


def _producer(writer: int, ends: Mapping[int, Any]) -> dict[str, Any]:
    inside = writer in ends
    return {
        "producer_id": writer if inside else -1,
        "producer_epoch": 0 if inside else -1,
        "transactional": inside,
    }


def handed(history: History, reader: int, partition: int, *records: Record) -> History:
    """A reader receives records in one poll."""
    for place, (offset, writer, seq) in enumerate(records):
        at = {"reader": reader, "partition": partition, "writer": writer, "isolation": "read_committed"}
        history.read(offset, seq, 10_000 + 1000 * reader + place, poll=1, **at)
    return history


def aborting(a: str, b: str, offset: int | None, *, read: bool, marker: str = "commit") -> History:
    """A transaction of unknown end writes a to X, and b to Y, where it is missing below c, which was read."""
    sends = [(1, 0, X, a, None), (1, 1, Y, b, offset), (2, 0, Y, "info", None)]
    history = written(sends, {X: [(0, 1, 0)], Y: [(1, 2, 0)]}, {1: ("unknown", marker)})
    return handed(handed(history, 1, X, (0, 1, 0)) if read else history, 2, Y, (1, 2, 0))


def conflicting(outcome: str, *, read: bool) -> History:
    """A transaction of unknown end writes to X at an offset that another message has, and to Y."""
    sends = [(1, 0, X, outcome, 0), (1, 1, Y, "info", None), (2, 0, X, "ok", 0)]
    logs = {X: [(0, 2, 0)], Y: [(5, 1, 1)]} if read else {X: [(0, 2, 0)]}
    history = written(sends, logs, {1: ("unknown", "commit" if read else "abort")})
    return handed(history, 1, Y, (5, 1, 1)) if read else history


def same_offsets(count: int, stands: int) -> History:
    """``count`` messages, all acknowledged at offset 0 and read at offset 1; ``stands`` is at both."""
    history = written([(1, seq, X, "ok", 0) for seq in range(count)], {X: [(0, 1, stands), (1, 1, stands)]})
    for seq in range(count):
        handed(history, seq + 1, X, (1, 1, seq))
    return history


SENDS: dict[str, tuple[str, History, dict[str, int]]] = {
    "int-send-skip": (
        "not found: other producers may write between the messages of a transaction",
        handed(
            written(
                [(1, 0, X, "ok", 1), (1, 1, X, "ok", None), (2, 0, X, "info", None)],
                {X: [(1, 1, 0), (2, 2, 0), (3, 1, 1)]},
                {1: ("committed", "commit")},
            ),
            1, X, (2, 2, 0), (3, 1, 1),
        ),
        {},
    ),
    "int-nonmonotonic-send": (
        "found: the second message of a transaction was acknowledged before its first one in the log",
        written(
            [(1, 0, X, "ok", 3), (1, 1, X, "ok", 1)],
            {X: [(1, 1, 1), (3, 1, 0)]},
            {1: ("committed", "commit")},
        ),
        {"out_of_order": 1},
    ),
    "lost-write-inconsistent": (
        "found: a and b were acknowledged at one offset, b and c were read there and behind it",
        handed(
            written(
                [(1, 0, X, "ok", 0), (1, 1, X, "ok", 0), (1, 2, X, "ok", 2)],
                {X: [(0, 1, 1), (2, 1, 2)]},
            ),
            1, X, (0, 1, 1), (2, 1, 2),
        ),
        {"lost": 1},
    ),
    "lost-write-atomic": (
        "found: b was acknowledged, and is missing",
        aborting("info", "ok", 0, read=True),
        {"lost": 1},
    ),
    "lost-write-atomic-unproven": (
        "found: nobody needs to read a; that b was acknowledged suffices",
        aborting("info", "ok", 0, read=False),
        {"lost": 1},
    ),
    "lost-write-atomic-unknown": (
        "not found: who sent it may not have waited for its answer, although the transaction was committed",
        aborting("info", "info", None, read=True),
        {},
    ),
    "inconsistent-offsets-info": (
        "not found: it is not known whether the first message was written",
        conflicting("info", read=False),
        {},
    ),
    "inconsistent-offsets-info-read": (
        "not found, for the same reason, although another message of its transaction was committed and read",
        conflicting("info", read=True),
        {},
    ),
    "inconsistent-offsets-unknown-end": (
        "found: the first message was acknowledged, and is gone, whatever became of its transaction",
        conflicting("ok", read=False),
        {"lost": 1},
    ),
    "inconsistent-offsets-unknown-end-read": (
        "found, as without the read",
        conflicting("ok", read=True),
        {"lost": 1},
    ),
    "unseen": (
        "not found: whether readers have caught up is a scenario's claim",
        handed(
            written(
                [(1, 0, X, "ok", 0), (1, 1, X, "ok", 1)],
                {X: [(0, 1, 0), (1, 1, 1)]},
                {1: ("committed", "commit")},
            ),
            1, X, (0, 1, 0),
        ),
        {},
    ),
    "duplicates-at-two-offsets": (
        "found: the one that is at both offsets; the others were acknowledged and read, and are gone",
        same_offsets(10, stands=3),
        {"duplicated": 1, "lost_after_read": 9},
    ),
}  # fmt: skip
"""Cases of several producers, partitions or transactions."""

"""The polls of the unit tests of Jepsen's Kafka workload, as histories after their descriptions.

The histories say more than those tests do: they have the final log of each partition. Where Jepsen infers an
order from what was polled, the log here has that order.
"""

from __future__ import annotations

from tests.histories import History

X, Y = 0, 1
"""Partitions."""


def kept(*offsets: int) -> History:
    history = History()
    for offset in offsets:
        history.send(offset, offset=offset)
    return history.logs([(offset, offset) for offset in offsets])


def polled(history: History, *polls: tuple[int, ...], reader: int = 1, start: int = 10_000) -> History:
    """A reader's polls, each with the offsets that it returned."""
    for number, offsets in enumerate(polls):
        for place, offset in enumerate(offsets):
            history.read(offset, offset, start + 1000 * number + place, reader=reader, poll=number)
    return history


def in_transactions(history: History, *polls: tuple[str, tuple[int, ...]]) -> History:
    """One reader's polls, each in a transaction of writer 7 that ended in this way."""
    for number, (end, offsets) in enumerate(polls):
        start = 10_000 + 1000 * number
        place = {"writer": 7, "txn": number}
        history.add("transactions", ns=start, event="begin", **place)
        for at, offset in enumerate(offsets):
            history.read(offset, offset, start + 1 + at, reader=1, txn_writer=7, txn=number)
        if end != "unknown":
            history.add("transactions", ns=start + 500, event=end, **place)
    return history


POLLS: dict[str, tuple[str, History, dict[str, int]]] = {
    "poll-skip": (
        "polls skip what others saw; 5 is a gap",
        polled(kept(1, 2, 3, 4, 6, 7), (1, 2), (4,), (7,)),
        {"skip": 2},
    ),
    "int-poll-skip": ("one poll skips", polled(kept(1, 2, 4), (1, 4)), {"skip": 1}),
    "int-poll-skip-second": (
        "the second poll of a transaction skips",
        in_transactions(kept(1, 2, 4), ("committed", (1, 4))),
        {"skip": 1},
    ),
    "nonmonotonic-poll": (
        "it goes back", polled(kept(1, 2, 3, 4), (1, 2, 3), (2, 3, 4)), {"non_monotonic": 1}
    ),
    "int-nonmonotonic-poll": ("one poll goes back", polled(kept(1, 2, 3), (3, 1)), {"non_monotonic": 1}),
    "int-nonmonotonic-poll-same": ("and repeats", polled(kept(2, 3), (2, 3), (3,)), {"non_monotonic": 1}),
    "with-seek": (
        "between its polls it sought",
        polled(kept(1, 2, 3, 4), (1, 2, 3), (2, 3, 4)).add(
            "groups", ns=10_500, group="", reader=1, event="sought", topic="t", partition=0, offset=2
        ),
        {},
    ),
    "nonmonotonic-send": (
        "the later messages of one producer stand before its earlier ones",
        History().send(0, offset=3).send(1, offset=4).send(2, offset=1).send(3, offset=2)
        .logs([(1, 2), (2, 3), (3, 0), (4, 1)]),
        {"out_of_order": 2},
    ),
    "duplicate": (
        "one value at two offsets",
        History().send(1, offset=1).send(2, "info").logs([(1, 1), (2, 2), (3, 1)]),
        {"duplicated": 1},
    ),
    "inconsistent-offsets": (
        "two values were acknowledged at one offset: one of them is lost",
        History().send(1, offset=0).send(2, offset=0).logs([(0, 2)]),
        {"lost": 1},
    ),
    "lost-write": (
        "a and b were acknowledged below what was read",
        polled(History().send(0, offset=0).send(1, offset=1).send(2, "info").logs([(2, 2)]), (2,)),
        {"lost": 2},
    ),
}  # fmt: skip


REWINDS: dict[str, tuple[str, History, dict[str, int]]] = {
    "abort-rewinds": (
        "not found: the reader went back after each transaction that was not committed",
        in_transactions(
            kept(0, 1, 2), ("committed", (0,)), ("aborted", (1, 2)), ("unknown", (1, 2)),
            ("committed", (1, 2)),
        ),
        {},
    ),
    "two-aborts-rewind": (
        "not found: it went back to where the first of two transactions without a commit had begun",
        in_transactions(
            kept(0, 1, 2, 3), ("committed", (0,)), ("aborted", (1, 2)), ("unknown", (3,)),
            ("committed", (1, 2, 3)),
        ),
        {},
    ),
    "abort-rewinds-too-far": (
        "found: it went back behind the transaction that was aborted",
        in_transactions(kept(0, 1, 2), ("committed", (0,)), ("aborted", (1, 2)), ("committed", (0, 1, 2))),
        {"non_monotonic": 1},
    ),
    "commit-rewinds": (
        "found: it went back behind a transaction that was committed",
        in_transactions(
            kept(0, 1, 2), ("aborted", (0,)), ("committed", (1,)), ("aborted", (2,)), ("committed", (1, 2))
        ),
        {"non_monotonic": 1},
    ),
    "rewinds-within-an-aborted-transaction": (
        "found: it went back before it gave the transaction up",
        in_transactions(kept(0, 1, 2), ("committed", (0,)), ("aborted", (1, 2, 1))),
        {"non_monotonic": 1},
    ),
    "abort-rewinds-by-seek": (
        "not found: the application sought before it read again",
        in_transactions(
            kept(0, 1, 2), ("committed", (0,)), ("aborted", (1, 2)), ("committed", (1, 2))
        ).add("groups", ns=11_900, group="", reader=1, event="sought", topic="t", partition=0, offset=1),
        {},
    ),
    "abort-does-not-rewind": (
        "not found: a Kafka consumer keeps its position when a producer aborts",
        in_transactions(
            kept(0, 1, 2, 3, 4, 5),
            ("committed", (0,)), ("aborted", (1, 2)), ("aborted", (3, 4)), ("committed", (5,)),
        ),
        {},
    ),
    "unknown-after-abort": (
        "not found, for the same reason",
        in_transactions(
            kept(0, 1, 2, 3, 4), ("committed", (0,)), ("aborted", (1, 2)), ("unknown", (3, 4))
        ),
        {},
    ),
    "int-nonmonotonic-send-info": (
        "not found: nobody told the producer in which order its messages were written",
        polled(
            History().send(0, "info").send(1, "info").send(2, "info", writer=2)
            .logs([(2, 1), {"offset": 3, "writer": 2, "seq": 2}, (4, 0)]),
        ),
        {},
    ),
    "duplicate-of-aborted": (
        "found, at the read in an aborted transaction: the log has one copy, and the reader was handed it at "
        "another offset; the message that failed is an aborted read, and no duplicate",
        in_transactions(History().send(0, offset=1).send(1, "fail").logs([(1, 0)]), ("aborted", ()))
        .read(11, 0, 10_001, txn_writer=7, txn=0)
        .read(12, 1, 10_002, txn_writer=7, txn=0),
        {"offset_conflict": 1, "aborted_read": 1},
    ),
}  # fmt: skip
"""The other cases of those tests; the sentence says why each is found here or not."""


# ---- assignments between the polls


def assigned_between(history: History, *events: tuple[str, int], group: str | None = None) -> History:
    """Before each poll but the first, these events of partitions happen to the reader."""
    for row in history.rows["reads"]:
        row["group"] = group
    for start in sorted({row["ns"] // 1000 for row in history.rows["reads"]})[1:]:
        for place, (event, partition) in enumerate(events):
            at = {"ns": 1000 * start - 100 + place, "topic": "t", "partition": partition}
            history.add("groups", group=group or "", reader=1, event=event, **at)
    return history


def skipping() -> History:
    """The polls of `poll-skip`."""
    return polled(kept(1, 2, 3, 4, 6, 7), (1, 2), (4,), (7,))


def going_back() -> History:
    """The polls of `nonmonotonic-poll`."""
    return polled(kept(1, 2, 3, 4), (1, 2, 3), (2, 3, 4))


def committing(history: History, offset: int) -> History:
    """The group commits an offset after its first poll."""
    return history.add(
        "groups", ns=10_500, group="g", reader=1, event="committed", topic="t", partition=X, offset=offset
    )


AWAY = (("revoked", X), ("assigned", Y), ("assigned", X))
"""The reader loses the partition to another one, and gets it back."""
BESIDES = (("assigned", Y),)
"""The reader is assigned another partition besides."""
REASSIGNED: dict[str, tuple[str, History, dict[str, int]]] = {
    "poll-skip-assign-away": (
        "not found: a reader that was assigned the partition again may start anywhere",
        assigned_between(skipping(), *AWAY),
        {},
    ),
    "poll-skip-assign-besides": (
        "found: the partition stayed assigned",
        assigned_between(skipping(), *BESIDES),
        {"skip": 2},
    ),
    "poll-skip-subscribe-away": (
        "not found: a group that never committed may start anywhere",
        assigned_between(skipping(), *AWAY, group="g"),
        {},
    ),
    "poll-skip-subscribe-away-committed": (
        "found: a member starts at what its group had committed, which lies before what it skipped",
        committing(assigned_between(skipping(), *AWAY, group="g"), 3),
        {"skip": 2},
    ),
    "poll-skip-subscribe-besides": (
        "found: the member kept the partition",
        assigned_between(skipping(), *BESIDES, group="g"),
        {"skip": 2},
    ),
    "nonmonotonic-poll-assign-away": (
        "not found: a reader that was assigned the partition again may start anywhere",
        assigned_between(going_back(), *AWAY),
        {},
    ),
    "nonmonotonic-poll-assign-besides": (
        "found: the partition stayed assigned",
        assigned_between(going_back(), *BESIDES),
        {"non_monotonic": 1},
    ),
    "nonmonotonic-poll-subscribe-away": (
        "not found: a group may receive again what it has not committed",
        assigned_between(going_back(), *AWAY, group="g"),
        {},
    ),
    "nonmonotonic-poll-subscribe-besides": (
        "not found, for the same reason: of a group the checker judges what it committed",
        assigned_between(going_back(), *BESIDES, group="g"),
        {},
    ),
    "nonmonotonic-poll-subscribe-committed": (
        "found: the group had committed what it received again",
        committing(assigned_between(going_back(), *AWAY, group="g"), 4),
        {"replay": 1},
    ),
    **{
        f"nonmonotonic-send-{name}": (
            "found: what a process consumes does not change the order of what it produces",
            assigned_between(
                polled(
                    History().send(0, offset=3).send(1, offset=4).send(2, offset=1).send(3, offset=2)
                    .logs([(1, 2), (2, 3), (3, 0), (4, 1)]),
                ).read(3, 0, 500).read(4, 1, 2100),
                *events,
            ),
            {"out_of_order": 2},
        )
        for name, events in (("assign-away", AWAY), ("assign-besides", BESIDES))
    },
}  # fmt: skip
"""Cases in which the reader subscribes or is assigned partitions in between."""

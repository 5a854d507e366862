"""Hand-written histories of readers, each with the one thing that is wrong with it, and why."""

from __future__ import annotations

from typing import Any

from tests.anomalies.messages import FOUR, Findings, kept
from tests.histories import History

PLACE: dict[str, Any] = {"topic": "t", "partition": 0}


def group_event(history: History, ns: int, event: str, reader: int = 1, offset: int | None = None) -> History:
    """Something that consumer group `g` did with the partition."""
    return history.add("groups", ns=ns, group="g", reader=reader, event=event, offset=offset, **PLACE)


def transaction(history: History, txn: int, event: str) -> History:
    """The end of a transaction of writer 1."""
    return history.add("transactions", ns=8000, writer=1, txn=txn, event=event)


def committed_past(
    *moved: tuple[int, str, int], committer: int = 1, assigned: bool = True, base: History | None = None
) -> History:
    """Reader 1 received the record at 0, and 3 was committed; reader 2 continued at 3.

    ``moved`` are further events: time, event, reader.
    """
    history = (kept() if base is None else base).logs(FOUR)
    if assigned:
        history = group_event(history, 8900, "assigned")
    history = group_event(history.read(0, 0, 9000, group="g"), 9002, "committed", committer, offset=3)
    for ns, event, reader in moved:
        history = group_event(history, ns, event, reader, offset=1 if event == "sought" else None)
    return group_event(history, 9003, "assigned", 2).read(3, 3, 9004, reader=2, group="g")


def read_in_transactions(*reads: tuple[int, int | None], committed: tuple[int, ...] = ()) -> History:
    """A reader receives records (offset, number of the transaction in which it polled, of writer 7)."""
    history = kept().logs(FOUR)
    for number in sorted({txn for _, txn in reads if txn is not None}):
        history.add("transactions", ns=8000 + number, writer=7, txn=number, event="begin")
        end = "committed" if number in committed else "aborted"
        history.add("transactions", ns=8900 + number, writer=7, txn=number, event=end)
    for place, (offset, txn) in enumerate(reads):
        history.read(offset, offset, 9000 + place, txn_writer=None if txn is None else 7, txn=txn)
    return history


READERS: dict[str, tuple[str, History, Findings]] = {
    "committed-past": (
        "a member committed what nobody had received, and the next one went on from there",
        committed_past(),
        {("skip", 1, 1)},
    ),
    "committed-past-by-itself": (
        "a member committed what nobody had received, and was assigned the partition again",
        group_event(
            group_event(
                group_event(kept().logs(FOUR), 8900, "assigned").read(0, 0, 9000, group="g"),
                9002,
                "committed",
                offset=3,
            ),
            9003,
            "assigned",
        ).read(3, 3, 9004, group="g"),
        {("skip", 1, 1)},
    ),
    "committed-past-by-a-stranger": (
        "who committed is no member of which the history has what it received",
        committed_past(committer=7),
        set(),
    ),
    "committed-past-unassigned": (
        "the history does not say that the committer was a member",
        committed_past(assigned=False),
        set(),
    ),
    "committed-past-after-a-seek": (
        "the committer was set to another position before it committed",
        committed_past((9001, "sought", 1)),
        set(),
    ),
    "committed-past-after-a-rebalance": (
        "the committer had lost the partition, and may have received it anew",
        committed_past((9001, "lost", 1)),
        set(),
    ),
    "committed-past-and-handed-later": (
        "what was committed unread was handed to a member afterwards",
        committed_past().read(1, 1, 9005, reader=2, group="g").read(2, 2, 9006, reader=2, group="g"),
        {("replay", 1, 1)},
    ),
    "committed-past-what-was-aborted": (
        "what nobody received was aborted, or sent after the commit",
        committed_past(
            base=transaction(
                kept(1)
                .send(1, offset=1, txn=5)
                .send(2, offset=2, sent_ns=9500, done_ns=9600)
                .send(3, offset=3),
                5,
                "aborted",
            )
        ),
        set(),
    ),
    "skip": (
        "a reader jumped over a record that is in the log",
        kept().logs(FOUR).read(0, 0, 9000).read(3, 3, 9001),
        {("skip", 1, 1)},
    ),
    "step-back": (
        "a reader assigned by hand went back without having asked to",
        kept().logs(FOUR).read(0, 0, 9000).read(1, 1, 9001).read(0, 0, 9002).read(1, 1, 9003),
        {("non_monotonic", 0, 0)},
    ),
    "step-back-after-an-abort": (
        "a reader may go back to where two aborted transactions began",
        read_in_transactions((0, None), (1, 1), (2, 2), (1, 3), (2, 3), (3, 3), committed=(3,)),
        set(),
    ),
    "step-back-too-far-after-an-abort": (
        "a reader went back to before the aborted transaction",
        read_in_transactions((0, None), (1, 1), (2, 1), (0, 2), (1, 2), (2, 2), (3, 2), committed=(2,)),
        {("non_monotonic", 0, 0)},
    ),
    "step-back-over-a-commit": (
        "a reader went back over what it had read in a committed transaction",
        read_in_transactions((0, 1), (1, 2), (2, 3), (1, 4), (2, 4), (3, 4), committed=(2, 4)),
        {("non_monotonic", 1, 1)},
    ),
    "step-back-within-a-transaction": (
        "a reader went back before it gave up the transaction",
        read_in_transactions((0, None), (1, 1), (2, 1), (1, 1), (2, 1), (3, None)),
        {("non_monotonic", 1, 1)},
    ),
    "sought": (
        "a reader that asked to go back may",
        kept()
        .logs(FOUR)
        .read(0, 0, 9000)
        .read(1, 1, 9001)
        .read(0, 0, 9003)
        .add("groups", ns=9002, group="g", reader=1, event="sought", topic="t", partition=0, offset=0),
        set(),
    ),
    "group-rewind": (
        "a group that was handed again what it had committed",
        kept()
        .logs(FOUR)
        .read(0, 0, 9000, group="g")
        .read(1, 1, 9001, group="g")
        .read(0, 0, 9003, reader=2, group="g")
        .add("groups", ns=9002, group="g", reader=1, event="committed", topic="t", partition=0, offset=2),
        {("replay", 0, 0)},
    ),
    "group-at-least-once": (
        "what a group had not committed it may be handed again",
        kept()
        .logs(FOUR)
        .read(0, 0, 9000, group="g")
        .read(1, 1, 9001, group="g")
        .read(1, 1, 9003, reader=2, group="g")
        .add("groups", ns=9002, group="g", reader=1, event="committed", topic="t", partition=0, offset=1),
        set(),
    ),
    "offset-conflict": (
        "two readers were handed different messages at one offset, and both messages are kept",
        kept().logs(FOUR).read(1, 1, 9000).read(1, 2, 9000, reader=2),
        {("offset_conflict", 1, 2)},
    ),
    "aborted-read": (
        "a reader was handed a message that definitely failed and is not in the log",
        kept().send(4, "fail").logs(FOUR).read(4, 4, 9000),
        {("aborted_read", 4, 4)},
    ),
    "aborted-transaction-read": (
        "a reader of committed records was handed one of an aborted transaction",
        kept(3)
        .send(3, offset=3, txn=5)
        .logs(FOUR)
        .read(3, 3, 9000, isolation="read_committed")
        .add("transactions", ns=8000, writer=1, txn=5, event="aborted"),
        {("aborted_read", 3, 3)},
    ),
    "read-of-the-dropped": (
        "a reader was handed a message of unknown outcome that never became part of the log",
        kept().send(4, "info").logs(FOUR).read(4, 4, 9000),
        {("aborted_read", 4, 4)},
    ),
    "aborted-transaction-read-uncommitted": (
        "a reader of everything may be handed a record of an aborted transaction",
        transaction(kept(3).send(3, offset=3, txn=5).logs(FOUR), 5, "aborted").read(3, 3, 9000),
        set(),
    ),
    "never-sent": (
        "a reader was handed a record that nobody sent and that is not in the log",
        kept().logs(FOUR).read(4, 77, 9000),
        {("aborted_read", 4, 77)},
    ),
    "never-sent-at-a-message": (
        "the same, at the offset of a message",
        kept().logs(FOUR).read(2, 77, 9000),
        {("aborted_read", 2, 77)},
    ),
    "never-sent-in-the-log": (
        "a record that nobody sent is in the log: that it was read is no second finding",
        kept().logs([*FOUR, (4, 77)]).read(4, 77, 9000),
        {("foreign", 4, 77)},
    ),
    "nameless": (
        "two readers were handed a record without a name that no replica holds: once",
        kept().logs(FOUR).read(4, None, 9000).read(4, None, 9001, reader=2),
        {("aborted_read", 4, None)},
    ),
    "nameless-in-the-log": (
        "a record without a name that is in the log",
        kept().logs([*FOUR, (4, None)]).read(4, None, 9000),
        {("foreign", 4, None)},
    ),
    "inversion": (
        "a poll that returned two records in the wrong order is one finding",
        kept().logs(FOUR).read(0, 0, 9000).read(2, 2, 9001).read(1, 1, 9002).read(3, 3, 9003),
        {("non_monotonic", 1, 1)},
    ),
    "skip-and-back-by-seeking": (
        "what a reader jumped over it was not handed, even if it asked for it afterwards",
        group_event(kept().logs(FOUR).read(0, 0, 9000).read(2, 2, 9001), 9002, "sought", offset=1)
        .read(1, 1, 9003)
        .read(2, 2, 9004)
        .read(3, 3, 9005),
        {("skip", 1, 1)},
    ),
    "assigned-again": (
        "a reader that was assigned the partition anew may go back",
        group_event(kept().logs(FOUR).read(0, 0, 9000).read(1, 1, 9001), 9002, "assigned").read(0, 0, 9003),
        set(),
    ),
    "never-committed": (
        "a group that never committed may be handed everything again",
        kept()
        .logs(FOUR)
        .read(0, 0, 9000, group="g")
        .read(1, 1, 9001, group="g")
        .read(0, 0, 9003, reader=2, group="g"),
        set(),
    ),
    "newest-commit": (
        "a group that committed a lower offset later may be handed what lies above it",
        group_event(
            group_event(
                kept()
                .logs(FOUR)
                .read(0, 0, 9000, group="g")
                .read(1, 1, 9001, group="g")
                .read(2, 2, 9002, group="g"),
                9003,
                "committed",
                offset=3,
            ),
            9004,
            "committed",
            offset=1,
        ).read(1, 1, 9005, reader=2, group="g"),
        set(),
    ),
    "sought-then-moved": (
        "a member sought back, and the next one went on where the group had committed",
        group_event(
            group_event(
                kept()
                .logs(FOUR)
                .read(0, 0, 9000, group="g")
                .read(1, 1, 9001, group="g")
                .read(2, 2, 9002, group="g"),
                9003,
                "committed",
                offset=3,
            ),
            9004,
            "sought",
            offset=0,
        )
        .read(0, 0, 9005, group="g")
        .read(3, 3, 9006, reader=2, group="g"),
        set(),
    ),
    "beyond-the-commit": (
        "the next member of a group went on beyond what was committed and handed over",
        group_event(kept().logs(FOUR).read(0, 0, 9000, group="g"), 9001, "committed", offset=1).read(
            3, 3, 9002, reader=2, group="g"
        ),
        {("skip", 1, 1)},
    ),
    "its-own-commit": (
        "a member jumped ahead from where it was assigned, and committed that: it began with the old commit",
        group_event(
            group_event(
                group_event(kept().logs(FOUR).read(0, 0, 9000, group="g"), 9001, "committed", offset=1),
                9002,
                "assigned",
                reader=2,
            ),
            9003,
            "committed",
            reader=2,
            offset=3,
        ).read(3, 3, 9004, reader=2, group="g"),
        {("skip", 1, 1)},
    ),
    "isolation-not-known": (
        "where it is not known what a reader asked for, it may not be to see what is not committed",
        kept(1).send(1, offset=1, txn=5).send(2, offset=2).logs(FOUR[:3]).read(0, 0, 9000).read(2, 2, 9001),
        set(),
    ),
    "isolation-uncommitted": (
        "a reader of everything is to see what is not committed",
        kept(1)
        .send(1, offset=1, txn=5)
        .send(2, offset=2)
        .logs(FOUR[:3])
        .read(0, 0, 9000, isolation="read_uncommitted")
        .read(2, 2, 9001, isolation="read_uncommitted"),
        {("skip", 1, 1)},
    ),
    "sent-after-the-read": (
        "what stands where a reader went on was sent only after that",
        History()
        .send(0, offset=0)
        .send(3, offset=3)
        .send(4, offset=1, sent_ns=20_000, done_ns=20_500, writer=2)
        .logs([(0, 0), {"offset": 1, "seq": 4, "writer": 2}, (3, 3)])
        .read(0, 0, 9000)
        .read(3, 3, 9001),
        set(),
    ),
    "skip-beside-an-abort": (
        "a reader of committed records jumped over one, while another transaction was aborted",
        transaction(
            transaction(kept(2).send(2, offset=2, txn=5).send(3, offset=3, txn=6), 5, "aborted"),
            6,
            "committed",
        )
        .logs(FOUR)
        .read(0, 0, 9000, isolation="read_committed")
        .read(3, 3, 9001, isolation="read_committed"),
        {("skip", 1, 1)},
    ),
    "over-the-aborted": (
        "a reader of committed records is not to see what was aborted",
        transaction(kept(1).send(1, offset=1, txn=5).send(2, offset=2).send(3, offset=3), 5, "aborted")
        .logs(FOUR)
        .read(0, 0, 9000, isolation="read_committed")
        .read(2, 2, 9001, isolation="read_committed")
        .read(3, 3, 9002, isolation="read_committed"),
        set(),
    ),
    "over-the-undecided": (
        "nor what belongs to a transaction of which no end is known",
        kept(1)
        .send(1, offset=1, txn=5)
        .send(2, offset=2)
        .logs(FOUR[:3])
        .read(0, 0, 9000, isolation="read_committed")
        .read(2, 2, 9001, isolation="read_committed"),
        set(),
    ),
    "over-the-committed": (
        "but what was committed",
        transaction(kept(1).send(1, offset=1, txn=5).send(2, offset=2), 5, "committed")
        .logs(FOUR[:3])
        .read(0, 0, 9000, isolation="read_committed")
        .read(2, 2, 9001, isolation="read_committed"),
        {("skip", 1, 1)},
    ),
    "where-nothing-stands": (
        "a reader was handed a message at an offset that is empty now, while the message stands elsewhere",
        History().send(0, offset=0).send(1, "info").logs([(0, 0), (5, 1)]).read(3, 1, 9000),
        {("offset_conflict", 3, 1)},
    ),
}

"""Hand-written histories of transactions: observed behaviour of Kafka, forbidden behaviour, and controls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.histories import History

Findings = set[tuple[str, int, int | None, int | None]]
"""class, partition, offset, seq"""

PID = 7


class Story:
    """A history, event by event: transactions of producers, and what each log holds in the end."""

    def __init__(self, **config: Any) -> None:
        self.history = History()
        self.logs: dict[int, list[dict[str, Any]]] = {}
        self.now = 1000
        self.seqs: dict[int, int] = {}
        settings = {"name": "p", "transactional_id": "x", "client": "raw"} | config
        self.history.add("writers", writer=1, **settings)

    def tick(self) -> int:
        self.now += 1000
        return self.now

    def event(self, txn: int, event: str, writer: int = 1) -> Story:
        """An event of `transactions`."""
        self.history.add("transactions", ns=self.tick(), writer=writer, txn=txn, event=event)
        return self

    def initialised(self, writer: int, *, asked_ns: int | None = None, error: int = 0) -> Story:
        """The answer to the InitProducerId of a producer."""
        asked = self.tick() if asked_ns is None else asked_ns
        self.history.add("producer_ids", ns=self.tick(), asked_ns=asked, writer=writer, error=error)
        return self

    def write(
        self,
        txn: int | None,
        partition: int = 0,
        *,
        epoch: int = 0,
        outcome: str = "ok",
        logged: bool = True,
        writer: int = 1,
        producer: int = PID,
        **more: Any,
    ) -> Story:
        """A message that is sent, and appended unless ``logged`` says no."""
        seq = self.seqs[writer] = self.seqs.get(writer, -1) + 1
        log = self.logs.setdefault(partition, [])
        sent = self.tick()
        self.history.send(
            seq,
            outcome,
            len(log) if outcome == "ok" and logged else None,
            writer=writer,
            partition=partition,
            txn=txn,
            sent_ns=sent,
            done_ns=self.tick(),
        )
        if logged:
            record = {"writer": writer, "seq": seq, "producer_id": producer, "producer_epoch": epoch}
            self.append(partition, record | {"transactional": txn is not None, "control": False} | more)
        return self

    def marker(
        self, kind: str, *partitions: int, epoch: int = 0, coordinator: int = 3, producer: int = PID
    ) -> Story:
        """A transaction marker in some partitions (0 if none is named)."""
        for partition in partitions or (0,):
            record = {"writer": None, "seq": None, "producer_id": producer, "producer_epoch": epoch}
            record |= {
                "control": True,
                "transactional": True,
                "marker": kind,
                "coordinator_epoch": coordinator,
            }
            self.append(partition, record)
        return self

    def append(self, partition: int, record: dict[str, Any]) -> None:
        log = self.logs.setdefault(partition, [])
        log.append({"offset": len(log), **record})

    def plain(self, partition: int = 0) -> Story:
        """A message outside transactions, of a separate producer."""
        return self.write(None, partition, writer=9, producer=-1, epoch=-1)

    def read(
        self, partition: int, *offsets: int, isolation: str = "read_committed", at: int | None = None
    ) -> Story:
        """A reader receives the records at some offsets."""
        for offset in offsets:
            record = self.logs[partition][offset]
            row = {"partition": partition, "writer": record["writer"], "isolation": isolation}
            self.history.read(offset, record["seq"], self.tick() if at is None else at, reader=5, **row)
        return self

    def done(self, **more: Any) -> History:
        """The history; ``more`` applies to every replica."""
        for partition, log in self.logs.items():
            self.history.logs([{**record} for record in log], partition=partition)
            end = len(log)
            state = {"leo": end, "high_watermark": end, "ns": self.now + 1, "in_sync": True} | more
            for broker in (1, 2, 3):
                self.history.replica(broker, partition=partition, leader=broker == 1, **state)
        return self.history


def ended(story: Story, txn: int, end: str, reported: str | None = None) -> Story:
    """The application asks for an end and gets a report (by default, that it took place)."""
    story.event(txn, {"commit": "committing", "abort": "aborting"}[end])
    return story.event(txn, reported or {"commit": "committed", "abort": "aborted"}[end])


def plain_commit() -> Story:
    story = Story().event(1, "begin").write(1).write(1, 1).marker("commit", 0, 1)
    return ended(story, 1, "commit")


def late_abort(version: int) -> History:
    """A1: a delayed abort of the first transaction arrives in the middle of the second, which commits."""
    story = Story().event(1, "begin").write(1)
    ended(story.marker("abort", epoch=version), 1, "abort")
    story.event(2, "begin").write(2, epoch=version)
    if version == 0:
        story.marker("abort")  # late
    story.write(2, 1, epoch=version)
    story.marker("commit", *((1,) if version == 0 else (0, 1)), epoch=2 * version)
    return ended(story, 2, "commit").done()


def late_commit(version: int) -> History:
    """A2: a delayed commit arrives in the middle of a transaction that aborts."""
    story = Story().event(1, "begin").write(1)
    ended(story.marker("commit", epoch=version), 1, "commit")
    story.event(2, "begin").write(2, epoch=version)
    if version == 0:
        story.marker("commit")  # late
    story.write(2, 1, epoch=version)
    story.marker("abort", *((1,) if version == 0 else (0, 1)), epoch=2 * version)
    return ended(story, 2, "abort").done()


def late_commit_then_write() -> History:
    """A3: after the late commit the second transaction continues to write, and its commit does nothing."""
    story = Story().event(1, "begin").write(1)
    ended(story.marker("commit"), 1, "commit")
    story.event(2, "begin").write(2).marker("commit").write(2)
    ended(story, 2, "commit")
    return story.plain().done(last_stable_offset=4)


def late_commit_alone() -> History:
    """A4: the late commit comes last; the abort is refused, and the record can be read all the same."""
    story = Story().event(1, "begin").write(1)
    ended(story.marker("commit"), 1, "commit")
    story.event(2, "begin").write(2).marker("commit")
    return ended(story, 2, "abort", "unknown").done()


def late_produce(then: str | None) -> History:
    """T5: a write that arrives after the abort; ``then`` is how the next transaction of the producer ends."""
    story = Story().event(1, "begin").write(1).marker("abort")
    story.event(1, "aborting").event(1, "aborted").write(1)
    if then is not None:
        story.event(2, "begin").write(2).marker(then)
        ended(story, 2, then)
    return story.done(**({"last_stable_offset": 2} if then is None else {}))


def lost_marker(way_out: str) -> History:
    """T2: an unclean election removed the commit marker; then nobody acts, or somebody does."""
    story = Story().event(1, "begin").write(1)
    ended(story, 1, "commit")
    story.plain()
    if way_out == "operator":
        story.marker("abort", coordinator=-1)
    elif way_out != "nothing":
        story.event(2, "begin").write(2, epoch=0).marker(way_out)
        ended(story, 2, way_out)
    place = {"subject": "partition", "topic": "t", "partition": 0}
    story.history.add("views", ns=1, source="broker1", leader=1, epoch=0, isr=[1], **place)
    story.history.add("views", ns=6500, source="broker2", leader=2, epoch=1, isr=[2], **place)
    return story.done(**({"last_stable_offset": 0} if way_out == "nothing" else {}))


def zombie(*, committed: bool) -> History:
    """T4: a zombie writes after its successor began; its writes are aborted, or (wrongly) committed."""
    story = Story()
    story.history.add("writers", writer=2, name="q", transactional_id="x", client="raw")
    story.event(1, "begin").write(1).marker("abort", epoch=1)
    story.event(1, "begin", writer=2).write(1)  # the zombie, at a leader that knows nothing of epoch 1
    story.marker("commit" if committed else "abort", epoch=1)
    story.write(1, writer=2, epoch=2).marker("commit", epoch=2)
    return ended_by(story, 1, 2).done()


def fenced_before_its_first_write(*, asked_early: bool = False, answered: bool = True) -> History:
    """The successor is given the id, and has begun nothing yet: the zombie's next write is committed.

    With ``asked_early`` the history does not say which of the two was given the id last.
    """
    story = Story()
    story.history.add("writers", writer=2, name="q", transactional_id="x", client="raw")
    asked = story.tick()
    story.initialised(1).event(1, "begin").write(1)
    story.initialised(2, asked_ns=asked if asked_early else None, error=0 if answered else 51)
    story.event(1, "committing").write(1)
    return story.marker("commit").event(1, "committed").done()


def initialised_again() -> History:
    """The first producer is given its id again, and works on: it is the second one that is fenced."""
    story = Story()
    story.history.add("writers", writer=2, name="q", transactional_id="x", client="raw")
    story.initialised(1).initialised(2).initialised(1)
    return ended(story.event(1, "begin").write(1).marker("commit"), 1, "commit").done()


def works_on_after_its_successor() -> History:
    """Without recorded answers: the first producer is told of a commit after its successor has begun."""
    story = Story().event(1, "begin").write(1).marker("commit")
    story.history.add("writers", writer=2, name="q", transactional_id="x", client="raw")
    ended(story, 1, "commit").event(1, "begin", writer=2)
    return ended(story.event(2, "begin").write(2).marker("commit"), 2, "commit").done()


def ended_by(story: Story, txn: int, writer: int) -> Story:
    return story.event(txn, "committing", writer).event(txn, "committed", writer)


def timed_out(reported: str) -> History:
    """The coordinator aborts a transaction because of its time-out; the application asked to commit."""
    story = Story().event(1, "begin").write(1).write(1, 1).marker("abort", 0, 1, epoch=1)
    return ended(story, 1, "commit", reported).done()


def still_open(*, waited_s: int, config: str | None = None) -> History:
    """Nobody ended it, and the log was read some seconds later."""
    story = Story(**({} if config is None else {"config": config})).event(1, "begin").write(1).plain()
    return story.done(ns=story.now + waited_s * 10**9, last_stable_offset=0)


def halfway(reported: str | None, cut: Sequence[int] = ()) -> History:
    """One partition has its commit marker, the other does not."""
    story = Story().event(1, "begin").write(1).write(1, 1).marker("commit", 0)
    story.event(1, "committing")
    if reported:
        story.event(1, reported)
    return story.done(complete=False) if cut else story.done()


def unanswered(
    client: str | None, outcome: str = "info", reported: str = "committed", **more: Any
) -> History:
    """One message of a committed transaction is in its log, and one without an answer is in none."""
    story = Story(client=client).event(1, "begin").write(1).write(1, 1, outcome=outcome, logged=False)
    ended(story.plain(1).marker("commit"), 1, "commit", reported)
    return story.done(**more)


def owed(state: str | None, *, waited_s: int = 0, places: str = "t/1", then: str | None = None) -> History:
    """Half of a transaction has its marker; its coordinator says in the end what it still has to do."""
    story = Story().event(1, "begin").write(1).write(1, 1).marker("commit", 0)
    ended(story, 1, "commit")
    stated = [("Ongoing", "t/0,t/1"), (state, places), (then, "")]
    for one, still in stated:
        if one is not None:
            row = {"broker": 3, "transactional_id": "x", "producer_id": PID, "partitions": still}
            story.history.add("transaction_states", ns=story.tick(), state=one, **row)
    return story.done(ns=story.now + 1 + waited_s * 10**9)


def committed_twice(*, asked_first: bool = False, elsewhere: bool = False, first: str = "commit") -> History:
    """A late marker ends the second transaction in its middle, and its own commit ends the rest.

    With ``asked_first`` the rest is written after its application asked for the commit, and with
    ``elsewhere`` it is in another partition.
    """
    story = Story().event(1, "begin").write(1)
    ended(story.marker(first), 1, first).event(2, "begin").write(2)
    if asked_first:
        story.event(2, "committing")
    story.marker("commit").write(2, int(elsewhere)).marker("commit", int(elsewhere))
    return ended(story, 2, "commit").done()


def unread(history: History) -> History:
    """The same, but the final reads did not reach the end."""
    for row in history.rows["replicas"]:
        row["complete"] = False
    return history


TRANSACTIONS: dict[str, tuple[str, History, Findings]] = {
    "committed": ("committed everywhere", plain_commit().done(), set()),
    "aborted": (
        "aborted everywhere",
        ended(Story().event(1, "begin").write(1).write(1, 1).marker("abort", 0, 1), 1, "abort").done(),
        set(),
    ),
    "aborted-read-uncommitted": (
        "a reader of uncommitted records may be handed what was aborted",
        ended(Story().event(1, "begin").write(1).marker("abort"), 1, "abort")
        .read(0, 0, isolation="read_uncommitted")
        .done(),
        set(),
    ),
    "aborted-read": (
        "a reader of committed records was handed what a marker aborted: the reader's finding",
        ended(Story().event(1, "begin").write(1).marker("abort"), 1, "abort").read(0, 0).done(),
        {("aborted_read", 0, 0, 0)},
    ),
    "unknown-committed": (
        "an unknown end may be a commit",
        ended(Story().event(1, "begin").write(1).marker("commit"), 1, "commit", "unknown").done(),
        set(),
    ),
    "unknown-aborted": (
        "an unknown end may be an abort",
        ended(Story().event(1, "begin").write(1).marker("abort", epoch=1), 1, "commit", "unknown").done(),
        set(),
    ),
    "unknown-aborted-read": (
        "what became an abort must not have been handed over",
        ended(Story().event(1, "begin").write(1).marker("abort", epoch=1), 1, "commit", "unknown")
        .read(0, 0)
        .done(),
        {("aborted_read", 0, 0, 0)},
    ),
    "unknown-torn": (
        "an unknown end is one end",
        ended(
            Story().event(1, "begin").write(1).write(1, 1).marker("commit", 0).marker("abort", 1, epoch=1),
            1,
            "commit",
            "unknown",
        ).done(),
        {("torn_transaction", 1, 0, 1)},
    ),
    "two-markers": (
        "a marker may be written twice: decisions count, not markers",
        ended(Story().event(1, "begin").write(1).marker("commit").marker("commit"), 1, "commit").done(),
        set(),
    ),
    "late-abort": (
        "A1: a delayed abort takes one partition of a committed transaction",
        late_abort(0),
        {("torn_transaction", 0, 2, 1)},
    ),
    "late-abort-v2": (
        "the same with an epoch for each transaction: the late request is refused",
        late_abort(1),
        set(),
    ),
    "late-commit": (
        "A2: a delayed commit makes one partition of an aborted transaction readable",
        late_commit(0),
        {("torn_transaction", 0, 2, 1)},
    ),
    "late-commit-v2": ("the same with an epoch for each transaction", late_commit(1), set()),
    "late-commit-then-write": (
        "A3: what the transaction wrote behind the late marker hangs, although it was reported as committed",
        late_commit_then_write(),
        {("hanging_transaction", 0, 4, 2)},
    ),
    "late-commit-alone": (
        "A4: asked to abort and refused, yet all of it can be read",
        late_commit_alone(),
        {("aborted_read", 0, 2, 1)},
    ),
    "late-produce": (
        "T5: a write after the abort hangs",
        late_produce(None),
        {("hanging_transaction", 0, 2, 1)},
    ),
    "late-produce-committed": (
        "T5: the next transaction's commit marker commits the aborted transaction's late write",
        late_produce("commit"),
        {("torn_transaction", 0, 2, 1)},
    ),
    "late-produce-aborted": (
        "the next one aborts: nothing is wrong in the end",
        late_produce("abort"),
        set(),
    ),
    "lost-marker": (
        "T2: the commit marker is gone and nobody acts",
        lost_marker("nothing"),
        {("hanging_transaction", 0, 0, 0)},
    ),
    "lost-marker-committed": ("T2: the next commit brings the lost one back", lost_marker("commit"), set()),
    "lost-marker-aborted": (
        "T2: the next abort takes the acknowledged commit away",
        lost_marker("abort"),
        {("lost_transaction", 0, 0, 0)},
    ),
    "lost-marker-operator": (
        "T2: the operator's abort takes it away",
        lost_marker("operator"),
        {("lost_transaction", 0, 0, 0)},
    ),
    "halfway-reported": (
        "T3: reported as committed, and at the end one partition still has no marker",
        halfway("committed"),
        {("hanging_transaction", 1, 0, 1)},
    ),
    "halfway-unknown": (
        "the same, but nobody was reported: the coordinator may still write it",
        halfway("unknown"),
        set(),
    ),
    "halfway-unread": (
        "the same, but the end of the log was not read",
        unread(halfway("committed")),
        {("undetermined", 0, None, None), ("undetermined", 1, None, None)},
    ),
    "zombie": ("T4: what a fenced producer wrote is aborted", zombie(committed=False), set()),
    "zombie-read": (
        "what a fenced producer wrote is committed",
        zombie(committed=True),
        {("fenced_write_read", 0, 2, 1)},
    ),
    "zombie-before-successor-begins": (
        "what it wrote after its successor was given the id is committed; that one has begun nothing yet",
        fenced_before_its_first_write(),
        {("fenced_write_read", 0, 1, 1)},
    ),
    "zombie-or-successor": (
        "the history does not say which producer was given the id last",
        fenced_before_its_first_write(asked_early=True),
        set(),
    ),
    "successor-refused": (
        "the successor was refused the id",
        fenced_before_its_first_write(answered=False),
        set(),
    ),
    "initialised-again": (
        "a producer that was given its id again after its successor is not fenced",
        initialised_again(),
        set(),
    ),
    "works-on-after-its-successor": (
        "a producer that is told of a commit after its successor began must have been given its id again",
        works_on_after_its_successor(),
        set(),
    ),
    "timed-out": ("aborted by its time-out, and the application does not know", timed_out("unknown"), set()),
    "timed-out-reported": (
        "aborted by its time-out, and the application was reported as committed",
        timed_out("committed"),
        {("lost_transaction", 0, 0, 0)},
    ),
    "open": (
        "an application that goes away leaves its transaction open for a while",
        still_open(waited_s=60),
        set(),
    ),
    "open-overdue": (
        "the coordinator's time-out should have ended it",
        still_open(waited_s=71),
        {("hanging_transaction", 0, 0, 0)},
    ),
    "open-overdue-own-time-out": (
        "its own time-out is shorter",
        still_open(waited_s=16, config='{"transaction.timeout.ms": 5000}'),
        {("hanging_transaction", 0, 0, 0)},
    ),
    "blocked": (
        "an open transaction blocks the readers of another one: nobody's finding",
        ended_by(
            Story()
            .event(1, "begin")
            .write(1)
            .event(1, "begin", 2)
            .write(1, writer=2, producer=8)
            .marker("commit", producer=8),
            1,
            2,
        ).done(last_stable_offset=0),
        set(),
    ),
    "committed-and-lost": (
        "one of its messages is gone: the message's finding alone",
        ended(
            Story().event(1, "begin").write(1, logged=False).write(1, 1).marker("commit", 1), 1, "commit"
        ).done(),
        {("lost", 0, None, 0)},
    ),
    "skipped-aborted": (
        "a reader jumps over what was aborted although it was reported as committed: one finding",
        ended(Story().event(1, "begin").plain().write(1).marker("abort", epoch=1).plain(), 1, "commit")
        .read(0, 0, 3)
        .done(),
        {("lost_transaction", 0, 1, 0)},
    ),
    "skipped-committed": (
        "a reader jumps over what was committed although its application was not reported",
        ended(Story().event(1, "begin").plain().write(1).marker("commit").plain(), 1, "commit", "unknown")
        .read(0, 0, 3)
        .done(),
        {("skip", 0, 1, 0)},
    ),
    "missing-of-librdkafka": (
        "told of the commit, although a message without an answer is in no log",
        unanswered("librdkafka"),
        {("torn_transaction", 1, None, 1)},
    ),
    "missing-of-java": (
        "the same with a Java producer that nobody told: a part of the transaction can be read",
        unanswered("java", reported="unknown"),
        {("torn_transaction", 1, None, 1)},
    ),
    "missing-of-raw": (
        "a client that asks for the commit without an answer for each message is not promised the message",
        unanswered("raw"),
        set(),
    ),
    "missing-of-anybody": ("the same with a client that is not known", unanswered(None), set()),
    "refused-of-librdkafka": (
        "a message that the client refused was never part of the transaction",
        unanswered("librdkafka", "fail"),
        set(),
    ),
    "retired-of-librdkafka": (
        "the log begins later: retention may have removed the message",
        unanswered("librdkafka", log_start=1),
        set(),
    ),
    "compacted-of-librdkafka": (
        "compaction may have removed it",
        unanswered("librdkafka", cleanup="compact"),
        set(),
    ),
    "owed": (
        "its coordinator still has to write the marker, and has time until the time-out",
        owed("PrepareCommit", waited_s=60),
        set(),
    ),
    "owed-overdue": (
        "its coordinator still has to write the marker after the time-out",
        owed("PrepareCommit", waited_s=71),
        {("hanging_transaction", 1, 0, 1)},
    ),
    "owed-elsewhere": (
        "its coordinator still has to write the marker of another partition",
        owed("PrepareCommit", places="t/11,tt/1"),
        {("hanging_transaction", 1, 0, 1)},
    ),
    "owed-no-more": (
        "its coordinator has finished, and the marker is not there",
        owed("PrepareCommit", then="CompleteCommit"),
        {("hanging_transaction", 1, 0, 1)},
    ),
    "owed-another-end": (
        "its coordinator is going to abort what it reported as committed",
        owed("PrepareAbort"),
        {("hanging_transaction", 1, 0, 1)},
    ),
    "late-commit-then-commit": (
        "a late commit makes the beginning of a transaction readable before its application asks for that",
        committed_twice(),
        {("torn_transaction", 0, 2, 1)},
    ),
    "commit-then-late-write": (
        "a message that was written after the application asked does not show that the marker was early",
        committed_twice(asked_first=True),
        set(),
    ),
    "late-commit-then-commit-elsewhere": (
        "not found: the rest is in another partition, and logs do not say which marker came first",
        committed_twice(elsewhere=True),
        set(),
    ),
    "no-markers": (
        "a history without producer ids and markers says nothing about transactions",
        ended(Story().event(1, "begin").write(1, producer=-1, transactional=None), 1, "commit").done(),
        set(),
    ),
}
"""By name: a sentence, the history, and its findings."""

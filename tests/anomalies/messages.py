"""Hand-written histories of a few operations, each with the one thing that is wrong with it, and why.

Those in `CASES` do not record how far a replica was read; those in `LISTED` do.
"""

from __future__ import annotations

from tests.histories import History

Findings = set[tuple[str, int | None, int | None]]


def kept(count: int = 4) -> History:
    """``count`` messages, acknowledged at offsets 0, 1, 2, ..."""
    history = History()
    for seq in range(count):
        history.send(seq, offset=seq)
    return history


FOUR = [(0, 0), (1, 1), (2, 2), (3, 3)]

CASES: dict[str, tuple[str, History, Findings]] = {
    "fine": ("every message is where it was said to be", kept().logs(FOUR), set()),
    "lost-tail-read": (
        "acknowledged and read, then truncated from the tail: a reader knows what the log does not",
        kept().logs(FOUR[:3]).read(3, 3, 9000),
        {("lost_after_read", 3, 3)},
    ),
    "lost-offset-reused": (
        "the same, with its offset given to another message: still one loss, not a conflict besides",
        kept().send(4, offset=3).logs([*FOUR[:3], (3, 4)]).read(3, 3, 9000),
        {("lost_after_read", 3, 3)},
    ),
    "hole": ("a hole in the middle of every log", kept().logs([FOUR[0], *FOUR[2:]]), {("lost", 1, 1)}),
    "hole-read-over": (
        "a reader that went over the hole skipped nothing: there was nothing",
        kept().logs([FOUR[0], *FOUR[2:]]).read(0, 0, 9000).read(2, 2, 9001).read(3, 3, 9002),
        {("lost", 1, 1)},
    ),
    "tail-nobody-read": (
        "an acknowledged tail that nobody read is as lost as any other",
        kept().logs(FOUR[:2]),
        {("lost", 2, 2), ("lost", 3, 3)},
    ),
    "unknown-absent": ("an unknown outcome may be absent", kept().send(4, "info").logs(FOUR), set()),
    "unknown-present": (
        "an unknown outcome may be present",
        kept().send(4, "info").logs([*FOUR, (4, 4)]),
        set(),
    ),
    "unknown-twice": (
        "an unknown outcome present twice was retried",
        kept().send(4, "info").logs([*FOUR, (4, 4), (5, 4)]),
        {("duplicated", 4, 4)},
    ),
    "batch-twice": (
        "a duplicated batch is one finding per message, however often the batch is there",
        kept().logs([*FOUR, (4, 2), (5, 3), (6, 2), (7, 3)]),
        {("duplicated", 2, 2), ("duplicated", 3, 3)},
    ),
    "phantom": (
        "a definite failure must not be in the log",
        kept().send(4, "fail").logs([*FOUR, (4, 4)]),
        {("phantom", 4, 4)},
    ),
    "failed": ("a definite failure that is absent is fine", kept().send(4, "fail").logs(FOUR), set()),
    "moved": (
        "acknowledged at one offset, found at another",
        kept().logs([*FOUR[:3], (7, 3)]),
        {("moved", 3, 3)},
    ),
    "swapped": (
        "two messages in each other's place are two moves; their order is no third finding",
        kept().logs([(0, 0), (1, 2), (2, 1), (3, 3)]),
        {("moved", 1, 1), ("moved", 2, 2)},
    ),
    "foreign": ("a record nobody sent", kept().logs([*FOUR, (4, None)]), {("foreign", 4, None)}),
    "foreign-identity": (
        "a record that names a message nobody sent",
        kept().logs([*FOUR, (4, 77)]),
        {("foreign", 4, 77)},
    ),
    "away-from-home": (
        "a record that names another partition as its home, where it was sent to and is missing: one finding",
        kept(3)
        .send(3, offset=0, partition=1)
        .logs([{"offset": n, "seq": n, "home": "t/0"} for n in range(3)])
        .logs([{"offset": 3, "seq": 3, "home": "t/1"}]),
        {("misrouted", 3, 3)},
    ),
    "away-and-over": (
        "a message in another partition, at the offset of one that is gone there: one is lost, one is astray",
        kept(2)
        .send(5, offset=0, partition=1)
        .send(6, offset=1, partition=1)
        .logs([(1, 1)])
        .logs([(0, 5), (1, 0)], partition=1),
        {("lost", 1, 6), ("misrouted", 1, 0)},
    ),
    "overwritten": (
        "a record nobody sent stands at the offset of an acknowledged message that is gone: one finding",
        kept().logs([*FOUR[:3], (3, None)]),
        {("overwritten", 3, 3)},
    ),
    "corrupt": (
        "damaged bytes are one finding, not a loss besides",
        kept().logs([*FOUR[:3], {"offset": 3, "seq": 3, "intact": False}]),
        {("corrupt", 3, 3)},
    ),
    "corrupt-follower": (
        "damaged on one follower only: the message is kept, the damage is found once",
        kept().log(1, FOUR).log(2, FOUR).log(3, [*FOUR[:3], {"offset": 3, "seq": 3, "intact": False}]),
        {("corrupt", 3, 3)},
    ),
    "no-completion": (
        "a send that never completed has an unknown outcome",
        kept().send(4, None).logs(FOUR),
        set(),
    ),
    "acks-0": (
        "an acknowledgement without offset (acks=0) may lie anywhere",
        History().send(0).send(1).logs([(5, 0), (9, 1)]),
        set(),
    ),
    "acks-0-lost": (
        "an acknowledgement without offset may be lost too",
        History().send(0).send(1).logs([(5, 0)]),
        {("lost", None, 1)},
    ),
    "whole-topic-lost": (
        "nothing is left of a topic",
        kept(2),
        {("lost", 0, 0), ("lost", 1, 1)},
    ),
    "begins-at-a-milliard": (
        "a log that starts at offset 10^9 has lost nothing before it",
        History().send(0, offset=10**9).send(1, offset=10**9 + 1).logs([(10**9, 0), (10**9 + 1, 1)]),
        set(),
    ),
    "gap-of-markers": (
        "transaction markers take offsets and are no messages",
        History()
        .send(0, offset=0)
        .send(1, offset=2)
        .logs([(0, 0), {"offset": 1, "seq": None, "writer": None, "control": True}, (2, 1)]),
        set(),
    ),
    "gap-nobody-missed": (
        "a gap at which nothing was acknowledged is no loss",
        History().send(0, offset=0).send(1, offset=5).logs([(0, 0), (5, 1)]),
        set(),
    ),
    "differ-in-the-middle": (
        "replicas that differ at one offset",
        kept().send(4, "info").log(1, FOUR).log(2, FOUR).log(3, [(0, 0), (1, 4), (2, 2), (3, 3)]),
        {("diverged", 1, 4)},
    ),
    "differ-in-the-writer": (
        "replicas that differ at one offset in nothing but who wrote the message",
        kept()
        .send(1, "info", writer=2)
        .log(1, FOUR)
        .log(2, FOUR)
        .log(3, [(0, 0), {"offset": 1, "seq": 1, "writer": 2}, (2, 2), (3, 3)]),
        {("diverged", 1, 1)},
    ),
    "differ-in-epoch": (
        "the same record in different epochs was written twice",
        kept().log(1, FOUR).log(2, FOUR).log(3, [*FOUR[:3], {"offset": 3, "seq": 3, "epoch": 1}]),
        {("diverged", 3, 3)},
    ),
    "differ-in-length": (
        "a replica that ends early is one finding, where it ends",
        kept().log(1, FOUR).log(2, FOUR).log(3, FOUR[:2]),
        {("diverged", 2, 2)},
    ),
    "two-leaders": (
        "two leaders accepted at the same offsets; what the older epoch took is lost, the rest is kept",
        kept(2)
        .send(2, offset=2)
        .send(3, offset=3)
        .send(4, offset=2)
        .logs([*FOUR[:2], {"offset": 2, "seq": 4, "epoch": 1}]),
        {("lost", 2, 2), ("lost", 3, 3)},
    ),
    "late": (
        "acknowledged messages of one writer in another order than they were sent",
        History().send(0, offset=2).send(1, offset=0).send(2, offset=1).logs([(0, 1), (1, 2), (2, 0)]),
        {("out_of_order", 2, 0)},
    ),
    "usurped": (
        "a replica that led on, in an epoch of its own: its log has a hole, and ends before the others' do",
        kept(6)
        .log(1, [*FOUR, (4, 4), (5, 5)])
        .log(2, [*FOUR, (4, 4)])
        .log(3, [FOUR[0], {"offset": 2, "seq": 2, "epoch": 1}]),
        {("diverged", 1, 1), ("diverged", 2, 2), ("diverged", 3, 3)},
    ),
    "order-of-two-writers": (
        "between writers there is no order",
        History()
        .send(0, offset=1)
        .send(0, offset=0, writer=2)
        .logs([{"offset": 0, "seq": 0, "writer": 2}, (1, 0)]),
        set(),
    ),
    "lost-beside-damage": (
        "a lost message whose offset another message has, damaged on one follower: the damage is not its own",
        kept()
        .send(4, offset=3)
        .log(1, [*FOUR[:3], (3, 4)])
        .log(2, [*FOUR[:3], (3, 4)])
        .log(3, [*FOUR[:3], {"offset": 3, "seq": 4, "intact": False}]),
        {("lost", 3, 3), ("corrupt", 3, 4)},
    ),
    "unreadable": (
        "a record damaged beyond recognition, where a message was acknowledged: one finding",
        kept().logs([*FOUR[:3], {"offset": 3, "seq": None, "writer": None, "intact": False}]),
        {("corrupt", 3, 3)},
    ),
    "unreadable-for-two": (
        "the same, where two messages were acknowledged: it is taken for the newer one",
        kept().send(4, offset=3).logs([*FOUR[:3], {"offset": 3, "seq": 99, "intact": False}]),
        {("lost", 3, 3), ("corrupt", 3, 4)},
    ),
    "unreadable-on-leader": (
        "damaged beyond recognition on one replica: the others say what it was, and it is not gone",
        kept()
        .log(1, [*FOUR[:3], {"offset": 3, "seq": None, "writer": None, "intact": False}])
        .log(2, FOUR)
        .log(3, FOUR),
        {("corrupt", 3, None)},
    ),
    "corrupt-acks-0": (
        "damaged everywhere, and acknowledged without offset: it names itself",
        kept(3).send(3).logs([*FOUR[:3], {"offset": 3, "seq": 3, "intact": False}]),
        {("corrupt", 3, 3)},
    ),
    "corrupt-unknown-read": (
        "damaged everywhere, of unknown outcome, and read: it was part of the log",
        kept().send(4, "info").logs([*FOUR, {"offset": 4, "seq": 4, "intact": False}]).read(4, 4, 9000),
        {("corrupt", 4, 4)},
    ),
    "corrupt-on-leader": (
        "damaged on the replica that counts, with good copies elsewhere: the message is not gone",
        kept().log(1, [*FOUR[:3], {"offset": 3, "seq": 3, "intact": False}]).log(2, FOUR).log(3, FOUR),
        {("corrupt", 3, 3)},
    ),
    "exchanged": (
        "two messages in each other's partition: nothing is lost or overwritten",
        kept(2)
        .send(5, offset=0, partition=1)
        .send(6, offset=1, partition=1)
        .logs([(0, 0), (1, 6)])
        .logs([(0, 5), (1, 1)], partition=1),
        {("misrouted", 1, 6), ("misrouted", 1, 1)},
    ),
    "aborted-and-gone": (
        "an acknowledged record of an aborted transaction may be gone",
        kept()
        .send(4, offset=4, txn=5)
        .add("transactions", ns=8000, writer=1, txn=5, event="aborted")
        .logs(FOUR),
        set(),
    ),
    "aborted-and-failed": (
        "a record that was reported as failed may be in the log when its transaction was aborted",
        kept()
        .send(4, "fail", txn=5)
        .add("transactions", ns=8000, writer=1, txn=5, event="aborted")
        .logs([*FOUR, (4, 4)]),
        set(),
    ),
    "committed-and-gone": (
        "an acknowledged record of a committed transaction must not be gone",
        kept()
        .send(4, offset=4, txn=5)
        .add("transactions", ns=8000, writer=1, txn=5, event="committed")
        .logs(FOUR),
        {("lost", 4, 4)},
    ),
    "great-numbers": (
        "sequence numbers may be as large as they come",
        kept(2)
        .send(2**62, offset=2, sent_ns=5000, done_ns=5500)
        .send(2**62 + 1, offset=3, sent_ns=6000, done_ns=6500)
        .send(2**63 - 1, offset=4, sent_ns=7000, done_ns=7500)
        .logs([*FOUR[:2], (2, 2**62), (4, 2**63 - 1)]),
        {("lost", 3, 2**62 + 1)},
    ),
    "end-and-hole": (
        "a replica that ends early, where another one has a hole: one finding an offset",
        kept().log(1, FOUR).log(2, [*FOUR[:2], FOUR[3]]).log(3, FOUR[:2]),
        {("diverged", 2, 2)},
    ),
}

FULL = {"leo": 4, "log_start": 0, "in_sync": True}

LISTED: dict[str, tuple[str, History, Findings]] = {
    "incomplete": (
        "the final read stopped before the end: what it did not reach is undetermined, never lost",
        kept().logs(FOUR[:2]).replica(1, False, leader=True).replica(2, False).replica(3, False),
        {("undetermined", None, None)},
    ),
    "never-read": (
        "no replica of the partition was read at all",
        kept(),
        {("undetermined", None, None)},
    ),
    "dead-follower": (
        "a follower that could not be read takes nothing away from a leader that was",
        kept()
        .log(1, FOUR)
        .log(2, FOUR)
        .replica(1, leader=True, **FULL)
        .replica(2, **FULL)
        .replica(3, False, in_sync=False),
        set(),
    ),
    "retention": (
        "what lies before the log's start was removed by retention",
        kept()
        .logs(FOUR[2:])
        .replica(1, leader=True, leo=4, log_start=2)
        .replica(2, leo=4, log_start=2)
        .replica(3, leo=4, log_start=2),
        set(),
    ),
    "compaction": (
        "compaction leaves holes below the log's end",
        kept()
        .logs([FOUR[0], FOUR[3]])
        .replica(1, leader=True, cleanup="compact", **FULL)
        .replica(2, cleanup="compact", **FULL)
        .replica(3, cleanup="compact", **FULL),
        set(),
    ),
    "compacted-tail": (
        "compaction never takes the tail",
        kept()
        .logs(FOUR[:3])
        .replica(1, leader=True, cleanup="compact", leo=3, log_start=0)
        .replica(2, cleanup="compact", leo=3, log_start=0)
        .replica(3, cleanup="compact", leo=3, log_start=0),
        {("lost", 3, 3)},
    ),
    "follower-only": (
        "an acknowledged message on an in-sync follower only is in no final log, but not on no replica",
        kept()
        .log(1, FOUR[:3])
        .log(2, FOUR[:3])
        .log(3, FOUR)
        .replica(1, leader=True, **FULL | {"leo": 3})
        .replica(2, **FULL | {"leo": 3})
        .replica(3, **FULL),
        {("diverged", 3, 3)},
    ),
    "lagging": (
        "a follower out of sync lags behind: that it has not converged is all there is to say",
        kept()
        .log(1, FOUR)
        .log(2, FOUR)
        .log(3, FOUR[:2])
        .replica(1, leader=True, **FULL)
        .replica(2, **FULL)
        .replica(3, leo=2, log_start=0, in_sync=False),
        {("not_converged", None, None)},
    ),
    "zombie-follower": (
        "what only a replica out of sync holds is named once per acknowledged message",
        kept()
        .log(1, FOUR[:2])
        .log(2, FOUR[:2])
        .log(3, FOUR)
        .replica(1, leader=True, leo=2, log_start=0, in_sync=True)
        .replica(2, leo=2, log_start=0, in_sync=True)
        .replica(3, leo=4, log_start=0, in_sync=False),
        {("diverged", 2, 2), ("diverged", 3, 3), ("not_converged", None, None)},
    ),
    "acks-0-outside": (
        "acknowledged without offset, and only on a replica out of sync: one finding, where it stands",
        kept(3)
        .send(3)
        .log(1, FOUR[:3])
        .log(2, FOUR[:3])
        .log(3, [*FOUR[:3], (5, 3)])
        .replica(1, leader=True, leo=3, log_start=0, in_sync=True)
        .replica(2, leo=3, log_start=0, in_sync=True)
        .replica(3, leo=6, log_start=0, in_sync=False),
        {("diverged", 5, 3), ("not_converged", None, None)},
    ),
    "empty-replica": (
        "an in-sync replica with an empty log is one finding",
        kept()
        .log(1, FOUR)
        .log(2, FOUR)
        .replica(1, leader=True, **FULL)
        .replica(2, **FULL)
        .replica(3, leo=0, log_start=0, in_sync=True),
        {("diverged", 0, 0)},
    ),
    "empty-leader": (
        "the leader's log is empty and the followers' are not: one log that ends early",
        kept()
        .log(2, FOUR)
        .log(3, FOUR)
        .replica(1, leader=True, leo=0, log_start=0, in_sync=True)
        .replica(2, **FULL)
        .replica(3, **FULL),
        {("diverged", 0, 0)},
    ),
    "empty-leader-compacted": (
        "the same in a compacted topic: compaction never takes the end of a log",
        kept()
        .log(2, FOUR)
        .log(3, FOUR)
        .replica(1, leader=True, leo=0, log_start=0, cleanup="compact")
        .replica(2, leo=4, log_start=0, cleanup="compact")
        .replica(3, leo=4, log_start=0, cleanup="compact"),
        {("diverged", 0, 0)},
    ),
    "empty-replica-inside": (
        "an in-sync replica with an empty log that starts inside the leader's",
        kept()
        .log(1, FOUR)
        .log(2, FOUR)
        .replica(1, leader=True, **FULL)
        .replica(2, **FULL)
        .replica(3, leo=2, log_start=2, in_sync=True),
        {("diverged", 2, 2)},
    ),
    "empty-replica-at-the-end": (
        "an in-sync replica whose log starts where the leader's ends has lost nothing",
        kept()
        .log(1, FOUR)
        .log(2, FOUR)
        .replica(1, leader=True, **FULL)
        .replica(2, **FULL)
        .replica(3, leo=4, log_start=4, in_sync=True),
        set(),
    ),
    "acks-0-retention": (
        "an acknowledgement without offset proves no loss where retention has taken something",
        kept(3)
        .send(3)
        .logs(FOUR[2:3])
        .replica(1, leader=True, leo=3, log_start=2)
        .replica(2, leo=3, log_start=2)
        .replica(3, leo=3, log_start=2),
        set(),
    ),
    "acks-0-compaction": (
        "nor in a compacted topic",
        kept(3)
        .send(3)
        .logs(FOUR[:3])
        .replica(1, leader=True, leo=3, log_start=0, cleanup="compact")
        .replica(2, leo=3, log_start=0, cleanup="compact")
        .replica(3, leo=3, log_start=0, cleanup="compact"),
        set(),
    ),
    "acks-0-read": (
        "but where a reader was handed it, there it stood",
        kept(3)
        .send(3)
        .logs(FOUR[2:3])
        .read(3, 3, 9000)
        .replica(1, leader=True, leo=3, log_start=2)
        .replica(2, leo=3, log_start=2)
        .replica(3, leo=3, log_start=2),
        {("lost_after_read", None, 3)},
    ),
    "unknown-read-retired": (
        "a message of unknown outcome that was read where retention has been since was part of the log",
        kept(3)
        .send(3, "info")
        .logs(FOUR[2:3])
        .read(1, 3, 9000)
        .replica(1, leader=True, leo=3, log_start=2)
        .replica(2, leo=3, log_start=2)
        .replica(3, leo=3, log_start=2),
        set(),
    ),
    "unknown-read-compacted": (
        "or compaction",
        kept()
        .send(4, "info")
        .logs([FOUR[0], FOUR[3]])
        .read(1, 4, 9000)
        .replica(1, leader=True, cleanup="compact", **FULL)
        .replica(2, cleanup="compact", **FULL)
        .replica(3, cleanup="compact", **FULL),
        set(),
    ),
    "retired-from-the-leader": (
        "what retention took from the leader a replica out of sync may still have",
        kept()
        .log(1, FOUR[2:])
        .log(2, FOUR[2:])
        .log(3, FOUR)
        .replica(1, leader=True, leo=4, log_start=2, in_sync=True)
        .replica(2, leo=4, log_start=2, in_sync=True)
        .replica(3, leo=4, log_start=0, in_sync=False),
        {("not_converged", None, None)},
    ),
    "damaged-in-sync": (
        "damaged on every in-sync replica, with a good copy out of the ISR: one finding about the message",
        kept()
        .log(1, [*FOUR[:3], {"offset": 3, "seq": 3, "intact": False}])
        .log(2, [*FOUR[:3], {"offset": 3, "seq": 3, "intact": False}])
        .log(3, FOUR)
        .replica(1, leader=True, **FULL)
        .replica(2, **FULL)
        .replica(3, leo=4, log_start=0, in_sync=False),
        {("corrupt", 3, 3), ("not_converged", None, None)},
    ),
    "phantom-on-leader": (
        "a definite failure that only the leader has: that no follower has it is no second finding",
        kept()
        .send(4, "fail")
        .log(1, [*FOUR, (4, 4)])
        .log(2, FOUR)
        .log(3, FOUR)
        .replica(1, leader=True, leo=5, log_start=0, in_sync=True)
        .replica(2, **FULL)
        .replica(3, **FULL),
        {("phantom", 4, 4)},
    ),
    "phantom-on-follower": (
        "a definite failure that only an in-sync follower has: one finding, where it stands",
        kept()
        .send(4, "fail")
        .log(1, FOUR)
        .log(2, FOUR)
        .log(3, [*FOUR, (4, 4)])
        .replica(1, leader=True, **FULL)
        .replica(2, **FULL)
        .replica(3, leo=5, log_start=0, in_sync=True),
        {("phantom", 4, 4)},
    ),
    "misrouted-and-retired": (
        "found in another partition, while retention took its own place: what is found counts",
        kept(3)
        .send(3, offset=1, partition=1)
        .logs([*FOUR[:3], (3, 3)])
        .replica(1, leader=True, **FULL)
        .replica(2, **FULL)
        .replica(3, **FULL)
        .add("replicas", topic="t", partition=1, broker=1, complete=True, leader=True, leo=5, log_start=5),
        {("misrouted", 3, 3)},
    ),
    "unknown-on-follower-read": (
        "an unknown outcome that only an in-sync follower has, and that was read: the replicas disagree",
        kept()
        .send(4, "info")
        .log(1, FOUR)
        .log(2, FOUR)
        .log(3, [*FOUR, (4, 4)])
        .read(4, 4, 9000)
        .replica(1, leader=True, **FULL)
        .replica(2, **FULL)
        .replica(3, leo=5, log_start=0, in_sync=True),
        {("diverged", 4, 4)},
    ),
    "unknown-outside-read": (
        "the same on a replica out of sync: only the reader tells of it",
        kept()
        .send(4, "info")
        .log(1, FOUR)
        .log(2, FOUR)
        .log(3, [*FOUR, (4, 4)])
        .read(4, 4, 9000)
        .replica(1, leader=True, **FULL)
        .replica(2, **FULL)
        .replica(3, leo=5, log_start=0, in_sync=False),
        {("aborted_read", 4, 4), ("not_converged", None, None)},
    ),
    "incomplete-and-nothing-missing": (
        "the final read stopped before the end, and no message is missing: what follows is not known",
        kept().logs(FOUR).replica(1, False, leader=True).replica(2, False).replica(3, False),
        {("undetermined", None, None)},
    ),
    "too-many-at-the-start": (
        "one in-sync replica begins with a record too many, while one out of sync lags",
        kept()
        .log(1, FOUR[1:])
        .log(2, FOUR)
        .log(3, FOUR[1:2])
        .replica(1, leader=True, **FULL)
        .replica(2, **FULL)
        .replica(3, leo=2, log_start=0, in_sync=False),
        {("diverged", 0, 0), ("not_converged", None, None)},
    ),
    "another-epoch-at-the-start": (
        "one in-sync replica has its first record in another epoch, while one out of sync lags",
        kept()
        .log(1, FOUR)
        .log(2, [{"offset": 0, "seq": 0, "epoch": 1}, *FOUR[1:]])
        .log(3, FOUR[:1])
        .replica(1, leader=True, **FULL)
        .replica(2, **FULL)
        .replica(3, leo=1, log_start=0, in_sync=False),
        {("diverged", 0, 0), ("not_converged", None, None)},
    ),
}

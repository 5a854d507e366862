"""Hand-written histories of a few rows: each says in one sentence why the truth is what it is. No Spark.

A log is written as a string, one word an offset: a number is the message of that seq, `-` a gap, `x` a
record that nobody sent, `|` a transaction marker, `3!` a damaged record that still names message 3, `!`
one that names nothing, `3@7` message 3 in epoch 7. Messages are sent in the order of their seq, at
times 0, 100, 200, …
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tests.independent.model import Finding
from tests.independent.truth import Truth, truths_of

T, W = "t", 7


def sent(outcomes: str, **more: Any) -> list[dict[str, Any]]:
    """Sends of writer 7: `ok0` acknowledged at offset 0, `ok` without offset, `info`, `info3`, `fail`."""
    rows = []
    for seq, word in enumerate(outcomes.split()):
        outcome = word.rstrip("0123456789")
        offset = int(word[len(outcome) :]) if word != outcome else None
        row = {
            "topic": T,
            "partition": 0,
            "writer": W,
            "seq": seq,
            "sent_ns": seq * 100,
            "done_ns": seq * 100 + 50,
        }
        rows.append(row | {"outcome": outcome, "offset": offset} | more)
    return rows


def log(text: str, broker: int = 1, start: int = 0, partition: int = 0, **more: Any) -> list[dict[str, Any]]:
    """The records of one replica."""
    rows = []
    for offset, word in enumerate(text.split(), start):
        if word == "-":
            continue
        row: dict[str, Any] = {
            "topic": T,
            "partition": partition,
            "broker": broker,
            "offset": offset,
            "epoch": 0,
        }
        word, _, epoch = word.partition("@")
        if epoch:
            row["epoch"] = int(epoch)
        if word == "|":
            row["control"] = True
        if word.endswith("!"):
            row["intact"] = False
            word = word[:-1]
        if word.isdigit():
            row |= {"writer": W, "seq": int(word)}
        rows.append(row | more)
    return rows


def replica(broker: int, leo: int, complete: bool = True, **more: Any) -> dict[str, Any]:
    """A row of `replicas`; broker 1 leads, and all are in sync, unless told otherwise."""
    row = {"topic": T, "partition": 0, "broker": broker, "complete": complete, "leo": leo, "log_start": 0}
    return row | {"leader": broker == 1, "in_sync": True} | more


def read(offsets: str, reader: int = 1, start: int = 1000, **more: Any) -> list[dict[str, Any]]:
    """Deliveries: `3` is message 3 at offset 3, `3:5` message 3 at offset 5, `x:5` an unknown record
    there.
    """
    rows = []
    for number, word in enumerate(offsets.split()):
        seq, _, offset = word.partition(":")
        row = {
            "topic": T,
            "partition": 0,
            "reader": reader,
            "ns": start + number * 10,
            "offset": int(offset or seq),
        }
        rows.append(row | ({"writer": W, "seq": int(seq)} if seq != "x" else {}) | more)
    return rows


def event(name: str, ns: int, offset: int | None = None, reader: int = 1, group: str = "g") -> dict[str, Any]:
    return {
        "ns": ns,
        "group": group,
        "reader": reader,
        "event": name,
        "topic": T,
        "partition": 0,
        "offset": offset,
    }


def judged(**tables: list[dict[str, Any]]) -> Truth:
    truths = list(truths_of(tables))
    assert len(truths) == 1, "these histories leave no choice of the reference"
    return truths[0]


def fates(truth: Truth) -> str:
    return " ".join(fate for _, fate in sorted(truth.fates.items()))


def names(truth: Truth) -> str:
    return " ".join(sorted(finding.name for finding in truth.findings.elements()))


def check(truth: Truth, expected_fates: str, expected_findings: str = "") -> None:
    assert (fates(truth), names(truth)) == (expected_fates, expected_findings)


# ---- fates


def test_kept() -> None:
    """Both acknowledged messages stand where they were said to stand."""
    check(judged(sends=sent("ok0 ok1"), copies=log("0 1")), "kept kept")


def test_kept_without_offset() -> None:
    """An acknowledgement without an offset (acks=0) is kept wherever the message stands."""
    check(judged(sends=sent("ok ok1"), copies=log("0 1")), "kept kept")


def test_lost_and_moved_of_the_document() -> None:
    """`docs/history.md`'s own example: 1 is on no replica, 2 stands at 1's offset instead of its own."""
    truth = judged(sends=sent("ok0 ok1 ok2 info"), copies=log("0 2") + log("0 2", broker=2))
    check(truth, "kept lost moved unknown_dropped", "lost moved")
    assert Finding("lost", T, 0, 1, W, 1) in truth.findings
    assert Finding("moved", T, 0, 2, W, 2) in truth.findings


def test_lost_whose_offset_was_given_to_another() -> None:
    """One loss and nothing else: `no cascades`, though another message stands at its offset."""
    check(judged(sends=sent("ok0 ok1 ok1"), copies=log("0 2")), "kept lost kept", "lost")


def test_lost_after_read() -> None:
    """A reader had been handed the lost message, and another at its offset later: one finding."""
    truth = judged(sends=sent("ok0 ok1 ok1"), copies=log("0 2"), reads=read("0 1") + read("0 2:1", reader=2))
    check(truth, "kept lost_after_read kept", "lost_after_read")


def test_lost_without_any_copies() -> None:
    """With no table of replicas, no copies at all is an empty log."""
    check(judged(sends=sent("ok0"), copies=[]), "lost", "lost")


def test_duplicated() -> None:
    """A retry put the message at two offsets; whether acknowledged or unknown does not matter."""
    check(
        judged(sends=sent("ok0 info"), copies=log("0 0 1 1")),
        "duplicated duplicated",
        "duplicated duplicated",
    )


def test_a_second_copy_on_a_follower_is_no_duplicate() -> None:
    """The same offset on two replicas is one copy of a replicated log."""
    check(judged(sends=sent("ok0"), copies=log("0") + log("0", broker=2)), "kept")


def test_overwritten() -> None:
    """It was acknowledged at 1, is gone, and a record that nobody sent stands there: no `foreign` besides."""
    check(judged(sends=sent("ok0 ok1"), copies=log("0 x")), "kept overwritten", "overwritten")


def test_a_marker_overwrites_nothing() -> None:
    """A transaction marker at the lost message's offset is Kafka's own record, not a stranger's."""
    check(judged(sends=sent("ok0 ok1"), copies=log("0 |")), "kept lost", "lost")


def test_another_partitions_message_overwrites_nothing() -> None:
    """What stands at the lost message's offset was sent, though elsewhere: lost, and misrouted."""
    sends = sent("ok0 ok1") + [sent("ok0")[0] | {"partition": 1, "seq": 9}]
    truth = judged(sends=sends, copies=log("0 9"))
    check(truth, "kept lost misrouted", "lost misrouted")


def test_diverged_on_an_in_sync_follower() -> None:
    """The leader has a hole where a follower holds the message: one disagreement, and no loss."""
    truth = judged(
        sends=sent("ok0 ok1 ok2"),
        copies=log("0 - 2") + log("0 1 2", broker=2),
        replicas=[replica(1, 3), replica(2, 3)],
    )
    check(truth, "kept diverged kept", "diverged")
    assert Finding("diverged", T, 0, 1) in truth.findings


NAMES_1 = {"aborted": [{"producer_id": 5, "first_offset": 1}]}
NAMES_0_1 = {"aborted": [*NAMES_1["aborted"], {"producer_id": 6, "first_offset": 0}]}


@pytest.mark.parametrize(
    "leader, follower, other, offsets",
    [
        pytest.param(NAMES_1, NAMES_0_1, NAMES_1, [0], id="one names more"),
        pytest.param(NAMES_1, NAMES_0_1, {"aborted": []}, [0, 1], id="each is a finding"),
        pytest.param(NAMES_1, {"aborted": NAMES_1["aborted"] * 2}, {}, [], id="the same, twice"),
        pytest.param(NAMES_1, {"aborted": None}, {}, [], id="not known"),
        pytest.param({}, NAMES_0_1, NAMES_1, [0], id="the leader's are not known"),
        pytest.param(NAMES_1, NAMES_0_1 | {"log_start": 1}, {}, [], id="before a log start"),
        pytest.param(NAMES_1, {"aborted": [], "last_stable_offset": 1}, {}, [], id="not below an LSO"),
        pytest.param(NAMES_1, {"aborted": [], "complete": False}, {}, [], id="not read to its end"),
    ],
)
def test_replicas_that_name_other_aborted_transactions(
    leader: dict[str, Any], follower: dict[str, Any], other: dict[str, Any], offsets: list[int]
) -> None:
    """All logs are the same, but readers of committed records would get other records."""
    truth = judged(
        sends=sent("ok0 ok1"),
        copies=log("0 1") + log("0 1", 2) + log("0 1", 3),
        replicas=[replica(1, 2, **leader), replica(2, 2, **follower), replica(3, 2, **other)],
    )
    assert sorted(finding for finding in truth.findings.elements()) == [
        Finding("diverged", T, 0, offset) for offset in offsets
    ]


def test_out_of_sync_replicas_may_name_other_aborted_transactions() -> None:
    truth = judged(
        sends=sent("ok0 ok1"),
        copies=log("0 1") + log("0 1", 2),
        replicas=[replica(1, 2, **NAMES_1), replica(2, 2, in_sync=False, **NAMES_0_1)],
    )
    check(truth, "kept kept", "not_converged")


def test_diverged_outside_the_isr() -> None:
    """A message that only a replica outside the ISR holds is not lost, and still a finding."""
    truth = judged(
        sends=sent("ok0 ok1 ok1"),
        copies=log("0 2") + log("0 1", broker=2),
        replicas=[replica(1, 2), replica(2, 2, in_sync=False, complete=True)],
    )
    check(truth, "kept diverged kept", "diverged not_converged")


def test_an_empty_leader() -> None:
    """The leader's log ends at 0, where two in-sync followers go on: one finding, where it ends."""
    truth = judged(
        sends=sent("ok0 ok1"),
        copies=log("0 1", broker=2) + log("0 1", broker=3),
        replicas=[replica(1, 0), replica(2, 2), replica(3, 2)],
    )
    check(truth, "diverged diverged", "diverged")
    assert Finding("diverged", T, 0, 0) in truth.findings


def test_an_empty_leader_and_followers_of_unknown_state() -> None:
    """Nothing says that the followers are in sync; the acknowledged messages are not where they should be."""
    truth = judged(
        sends=sent("ok0 ok1"),
        copies=log("0 1", broker=2),
        replicas=[replica(1, 0, in_sync=None), replica(2, 2, in_sync=None)],
    )
    check(truth, "diverged diverged", "diverged")


def test_corrupt() -> None:
    """The only record of message 1 is damaged on every replica: one finding at its offset, no loss
    besides.
    """
    truth = judged(sends=sent("ok0 ok1"), copies=log("0 1!") + log("0 1!", broker=2))
    check(truth, "kept corrupt", "corrupt")


def test_corrupt_beyond_recognition() -> None:
    """The record at the acknowledged offset names nobody, and its checksum does not hold: it was message
    1.
    """
    check(judged(sends=sent("ok0 ok1"), copies=log("0 !")), "kept corrupt", "corrupt")


def test_corrupt_with_a_good_copy_left() -> None:
    """A good copy is left outside the ISR: the record is a finding, the message is not gone, nothing
    diverged.
    """
    truth = judged(
        sends=sent("ok0 ok1"),
        copies=log("0 1!") + log("0 1", broker=2),
        replicas=[replica(1, 2), replica(2, 2, in_sync=False, complete=False)],
    )
    check(truth, "kept kept", "corrupt")


def test_corrupt_and_acknowledged_without_offset() -> None:
    """The damaged record belongs to no message, since none was acknowledged at its offset."""
    check(judged(sends=sent("ok0 ok"), copies=log("0 !")), "kept lost", "corrupt lost")


def test_corrupt_of_unknown_outcome_and_read() -> None:
    """A reader was handed message 1 at the offset where only damage stands now: it was part of the log."""
    truth = judged(sends=sent("ok0 info"), copies=log("0 !"), reads=read("0 1"))
    check(truth, "kept corrupt", "corrupt")


def test_the_new_owner_of_a_lost_messages_offset_is_damaged() -> None:
    """Message 1 is lost; the damage on the follower is message 2's, which the leader still holds."""
    truth = judged(
        sends=sent("ok0 ok1 ok1"),
        copies=log("0 2") + log("0 !", broker=2),
        replicas=[replica(1, 2), replica(2, 2)],
    )
    check(truth, "kept lost kept", "corrupt lost")


def test_misrouted() -> None:
    """It was sent to partition 0 and stands in partition 1: its absence at home is no loss besides."""
    truth = judged(sends=sent("ok0 ok1"), copies=log("0") + log("1", partition=1))
    check(truth, "kept misrouted", "misrouted")


def test_two_messages_that_swapped_partitions() -> None:
    """Somebody sent both, so neither is overwritten: each is misrouted once."""
    sends = [sent("ok0")[0], sent("ok0")[0] | {"partition": 1, "seq": 1}]
    check(
        judged(sends=sends, copies=log("1") + log("0", partition=1)),
        "misrouted misrouted",
        "misrouted misrouted",
    )


def test_misrouted_and_at_home() -> None:
    """A second copy in another partition: the message is kept, the stray record is a finding."""
    check(judged(sends=sent("ok0"), copies=log("0") + log("0", partition=1)), "kept", "misrouted")


def test_misrouted_though_retention_took_its_place() -> None:
    """The stray record is there whatever became of the message's own place."""
    truth = judged(
        sends=sent("ok0 ok1"),
        copies=log("1", start=1) + log("0", partition=1),
        replicas=[replica(1, 2, log_start=1), replica(1, 1, partition=1)],
    )
    check(truth, "misrouted kept", "misrouted")


def test_phantom() -> None:
    """The client was told that it was definitely not written, and the log holds it."""
    check(judged(sends=sent("fail ok1"), copies=log("0 1")), "phantom kept", "phantom")


def test_phantom_on_a_follower_only() -> None:
    """One root cause: a phantom, and no disagreement of the replicas besides."""
    truth = judged(
        sends=sent("ok0 fail"),
        copies=log("0") + log("0 1", broker=2),
        replicas=[replica(1, 1), replica(2, 2)],
    )
    check(truth, "kept phantom", "phantom")


def test_failed() -> None:
    """It definitely failed and is absent, as the client was told."""
    check(judged(sends=sent("ok0 fail"), copies=log("0")), "kept failed")


def test_unknown() -> None:
    """No outcome, or none that says anything: in the log or not, both are fine."""
    sends = sent("info info5 info") + [sent("ok")[0] | {"seq": 3, "outcome": None}]
    truth = judged(sends=sends, copies=log("0 3"))
    check(truth, "unknown_kept unknown_dropped unknown_dropped unknown_kept")


def test_retired_by_retention() -> None:
    """Message 0 was acknowledged below the log's start."""
    truth = judged(sends=sent("ok0 ok1"), copies=log("1", start=1), replicas=[replica(1, 2, log_start=1)])
    check(truth, "retired kept")


def configured(retention_ms: str, retention_bytes: str = "-1") -> list[dict[str, Any]]:
    values = {"cleanup.policy": "delete", "retention.ms": retention_ms, "retention.bytes": retention_bytes}
    values["message.timestamp.type"] = "LogAppendTime"
    return [{"scope": "topic", "name": T, "key": key, "value": value} for key, value in values.items()]


def deletion(mechanism: str, **targets: Any) -> list[dict[str, Any]]:
    row = {"fault": 1, "name": mechanism, "kind": "operator", "moment": "injected", "ns": 10**9}
    return [row | {"mechanism": mechanism, "targets": json.dumps({"partitions": [f"{T}/0"]} | targets)}]


@pytest.mark.parametrize(
    ("more", "fate"),
    [
        ({"configs": configured("3000")}, "retired"),
        ({"configs": configured("60000")}, "lost"),
        ({"configs": configured("-1", "100")}, "retired"),
        ({"configs": configured("-1", "1000")}, "lost"),
        ({"configs": configured("-1"), "faults": deletion("delete_records", before_offset=1)}, "retired"),
        ({"configs": configured("-1"), "faults": deletion("delete_records", before_offset=0)}, "lost"),
    ],
)
def test_retention_as_configured(more: dict[str, list[dict[str, Any]]], fate: str) -> None:
    """Message 0 was 20 s old when its log, which has 500 bytes, was read."""
    end = replica(1, 2, log_start=1, ns=20 * 10**9, size_bytes=500)
    truth = judged(sends=sent("ok0 ok1"), copies=log("1", start=1), replicas=[end], **more)
    check(truth, f"{fate} kept", *(["lost"] if fate == "lost" else []))


def test_a_deleted_topic_takes_what_was_sent_before() -> None:
    sends = sent("ok0 ok0")
    sends[1]["sent_ns"] = 2 * 10**9
    truth = judged(sends=sends, copies=log("1"), replicas=[replica(1, 1)], faults=deletion("delete_topic"))
    check(truth, "retired kept")


def test_retired_though_a_follower_still_holds_it() -> None:
    """Replicas delete old segments at their own pace: no disagreement."""
    truth = judged(
        sends=sent("ok0 ok1"),
        copies=log("1", start=1) + log("0 1", broker=2),
        replicas=[replica(1, 2, log_start=1), replica(2, 2)],
    )
    check(truth, "retired kept")


def test_lost_above_the_start_of_the_log() -> None:
    """Retention takes the beginning only; message 1 was above it."""
    truth = judged(sends=sent("ok0 ok1 ok2"), copies=log("2", start=2), replicas=[replica(1, 3, log_start=1)])
    check(truth, "retired lost kept", "lost")


def test_retired_by_compaction() -> None:
    """A gap inside a compacted log; beyond its end compaction takes nothing."""
    truth = judged(
        sends=sent("ok0 ok1 ok2"), copies=log("- 1"), replicas=[replica(1, 2, cleanup="compact,delete")]
    )
    check(truth, "retired kept lost", "lost")


def test_compaction_gives_no_offset_away() -> None:
    """Another message stands at the offset of message 0: it was not compacted, it was truncated."""
    truth = judged(sends=sent("ok0 ok0"), copies=log("1"), replicas=[replica(1, 1, cleanup="compact")])
    check(truth, "lost kept", "lost")


@pytest.mark.parametrize("more", [{"log_start": 1}, {"cleanup": "compact"}])
def test_acknowledged_without_offset_below_the_start(more: dict[str, Any]) -> None:
    """acks=0 says no offset: the message may have stood where retention or compaction took it."""
    truth = judged(sends=sent("ok ok1"), copies=log("1", start=1), replicas=[replica(1, 2, **more)])
    check(truth, "retired kept")


def test_undetermined() -> None:
    """The final read stopped before the log's end: absence proves nothing; one finding for the partition."""
    truth = judged(sends=sent("ok0 ok1 ok2 info"), copies=log("0"), replicas=[replica(1, 3, complete=False)])
    check(truth, "kept undetermined undetermined undetermined", "undetermined")


def test_an_incomplete_read_that_misses_nothing() -> None:
    """Every message was found before the read stopped; the rest may hold what should not be there."""
    truth = judged(sends=sent("ok0"), copies=log("0"), replicas=[replica(1, 3, complete=False)])
    check(truth, "kept", "undetermined")


def test_failed_and_not_read() -> None:
    """That the message is absent is not known."""
    truth = judged(sends=sent("fail"), copies=[], replicas=[replica(1, 3, complete=False)])
    check(truth, "undetermined", "undetermined")


def test_only_a_follower_was_read() -> None:
    """The leader was not read to its end: what a follower holds is kept."""
    truth = judged(
        sends=sent("ok0 ok1"),
        copies=log("0") + log("0 1", broker=2),
        replicas=[replica(1, 3, complete=False), replica(2, 2, in_sync=False)],
    )
    check(truth, "kept kept", "undetermined")


def test_nobody_leads_and_one_replica_was_not_read() -> None:
    """The unread log may be the one that counts."""
    rows = [replica(1, 1, leader=None), replica(2, 3, leader=None, complete=False)]
    truth = judged(sends=sent("ok0 ok1"), copies=log("0"), replicas=rows)
    check(truth, "kept undetermined", "undetermined")
    truth = judged(sends=sent("ok0"), copies=log("0"), replicas=rows[:1])
    check(truth, "kept")


def test_a_partition_without_any_message_that_was_not_read() -> None:
    """Nobody sent anything to it, so anything in it would be foreign."""
    truth = judged(sends=[], copies=[], replicas=[replica(1, 0, complete=False)])
    check(truth, "", "undetermined")


def test_absent_messages_of_an_aborted_transaction() -> None:
    """Nobody is to see them, so that they are absent is right, whatever was read and whatever was told."""
    ends = [{"ns": 50, "writer": W, "txn": 4, "event": "aborted"}]
    sends = sent("ok0 ok1 info fail", txn=4)
    for rows, finding in (([replica(1, 1)], ""), ([replica(1, 1, complete=False)], "undetermined")):
        truth = judged(sends=sends, copies=log("0"), replicas=rows, transactions=ends)
        check(truth, "kept failed unknown_dropped failed", finding)
    present = judged(sends=sends, copies=log("0 1 2 3"), transactions=ends)
    check(present, "kept kept unknown_kept failed")


def test_a_partition_that_was_not_read() -> None:
    """The table of replicas knows other partitions, not this one: nobody read its log."""
    truth = judged(sends=sent("ok0"), copies=[], replicas=[replica(1, 0, partition=1)])
    check(truth, "undetermined", "undetermined")


# ---- the reference


def test_the_reference_without_a_leader() -> None:
    """Nobody is known to lead: the log of the highest last epoch counts, though another is longer."""
    truth = judged(
        sends=sent("ok0 ok1 info info"),
        copies=log("0 1@2", broker=1) + log("0 2 3", broker=2),
        replicas=[replica(1, 2, leader=None), replica(2, 3, in_sync=False)],
    )
    check(truth, "kept kept unknown_dropped unknown_dropped", "not_converged")


def test_replicas_of_unknown_state_are_compared() -> None:
    """Nothing says who was in sync: two messages at one offset, and a log that ends early, are findings."""
    copies = log("0 1@2", broker=1) + log("0 2 3", broker=2)
    truth = judged(sends=sent("ok0 ok1 info info"), copies=copies)
    check(truth, "kept kept unknown_dropped unknown_dropped", "diverged diverged")


def test_two_replicas_on_a_par() -> None:
    """Same last epoch and offset, other content: the document allows either as the reference."""
    tables = {"sends": sent("ok0 ok0 ok1"), "copies": log("0 2") + log("1 2", broker=2)}
    assert [fates(truth) for truth in truths_of(tables)] == ["kept diverged kept", "diverged kept kept"]


def test_the_leader_was_not_read_whole() -> None:
    """What neither the follower nor the part of the leader that was read holds may stand in the rest of
    it.
    """
    truth = judged(
        sends=sent("ok0 ok1"),
        copies=log("0") + log("0", broker=2),
        replicas=[replica(1, 2, complete=False), replica(2, 1)],
    )
    check(truth, "kept undetermined", "undetermined")


def test_the_reference_is_in_sync_if_it_can_be() -> None:
    """Nobody is known to lead; a replica out of sync is longer and of a newer epoch, and does not count."""
    truth = judged(
        sends=sent("ok0 info info"),
        copies=log("0") + log("0 1@3 2@3", broker=2),
        replicas=[replica(1, 1, leader=None), replica(2, 3, in_sync=False)],
    )
    check(truth, "kept unknown_dropped unknown_dropped", "not_converged")


# ---- disagreements of replicas


def two(leader: str, follower: str, sends: str, **more: Any) -> Truth:
    """A leader and a follower in sync, both read whole."""
    copies, count = log(leader) + log(follower, broker=2), [len(leader.split()), len(follower.split())]
    return judged(
        sends=sent(sends),
        copies=copies,
        replicas=[replica(1, count[0], **more), replica(2, count[1], **more)],
    )


def test_diverged_in_content() -> None:
    """Two messages at one offset; message 2 is of unknown outcome, so no fate tells of it."""
    truth = two("0 1", "0 2", "ok0 ok1 info")
    check(truth, "kept kept unknown_dropped", "diverged")
    assert Finding("diverged", T, 0, 1) in truth.findings


def test_diverged_in_epoch() -> None:
    """The same message, of another leader's epoch."""
    check(two("0 1@1", "0 1@2", "ok0 ok1"), "kept kept", "diverged")


def test_a_record_missing_on_a_follower() -> None:
    """A hole below the end of the follower's log."""
    check(two("0 1 2", "0 - 2", "ok0 ok1 ok2"), "kept kept kept", "diverged")


def test_a_log_that_ends_early() -> None:
    """Two records are missing at the end: one finding, at the follower's end."""
    truth = two("0 1 2", "0", "ok0 ok1 ok2")
    check(truth, "kept kept kept", "diverged")
    assert Finding("diverged", T, 0, 1) in truth.findings


def test_an_empty_in_sync_follower() -> None:
    """Its log begins and ends inside the leader's."""
    truth = judged(
        sends=sent("ok0 ok1 ok2"), copies=log("0 1 2"), replicas=[replica(1, 3), replica(2, 1, log_start=1)]
    )
    check(truth, "kept kept kept", "diverged")
    assert Finding("diverged", T, 0, 1) in truth.findings


def test_replicas_compact_at_their_own_pace() -> None:
    """Other gaps in another replica's compacted log are no disagreement."""
    check(two("- 1 2", "0 - 2", "ok0 ok1 ok2", cleanup="compact"), "retired kept kept")


def test_a_lagging_follower_outside_the_isr() -> None:
    """It is out of sync, which is a finding of its own; that it lacks records is not."""
    truth = judged(
        sends=sent("ok0 ok1"),
        copies=log("0 1") + log("0", broker=2),
        replicas=[replica(1, 2), replica(2, 1, in_sync=False)],
    )
    check(truth, "kept kept", "not_converged")


def test_a_follower_that_was_not_read_whole() -> None:
    """Nothing is known of the rest of its log."""
    truth = judged(
        sends=sent("ok0 ok1"),
        copies=log("0 1") + log("0", broker=2),
        replicas=[replica(1, 2), replica(2, 2, complete=False)],
    )
    check(truth, "kept kept")


# ---- single records


def test_foreign() -> None:
    """One record that names nobody and one of a writer that sent no such message."""
    check(judged(sends=sent("ok0"), copies=log("0 x 55")), "kept", "foreign foreign")


def test_foreign_on_one_follower_only() -> None:
    """The record that nobody sent is the root cause; that the replicas differ follows from it."""
    check(two("0 1", "0 x", "ok0 ok1"), "kept kept", "foreign")


def test_markers_and_gaps_are_no_finding() -> None:
    """Transactions leave both."""
    check(judged(sends=sent("ok0 ok2"), copies=log("0 | 1 - |")), "kept kept")


def test_out_of_order() -> None:
    """Message 0 was acknowledged at 1, behind message 1, as the client was told: one stands behind a later
    one.
    """
    truth = judged(sends=sent("ok1 ok0 ok2"), copies=log("1 0 2"))
    check(truth, "kept kept kept", "out_of_order")
    assert Finding("out_of_order", T, 0, None, W, 0) in truth.findings


def test_moved_ones_are_not_counted_again() -> None:
    """Message 0 stands behind 1, and was acknowledged elsewhere: moved, and nothing else."""
    check(judged(sends=sent("ok0 ok0"), copies=log("1 0")), "moved kept", "moved")


# ---- deliveries


def test_aborted_read_of_a_failed_message() -> None:
    """A reader was handed what the client was told had failed, and the log does not hold it."""
    check(judged(sends=sent("ok0 fail"), copies=log("0"), reads=read("0 1")), "kept failed", "aborted_read")


def test_a_phantom_that_was_read() -> None:
    """The phantom is the root cause."""
    check(judged(sends=sent("fail"), copies=log("0"), reads=read("0")), "phantom", "phantom")


def test_aborted_read_of_what_never_became_part_of_the_log() -> None:
    """Its outcome is unknown, it was read, and the whole log lacks it."""
    check(
        judged(sends=sent("ok0 info"), copies=log("0"), reads=read("0 1")),
        "kept unknown_dropped",
        "aborted_read",
    )


def test_unknown_read_and_then_retired() -> None:
    """It was part of the log, and retention took it: nothing was aborted."""
    truth = judged(
        sends=sent("info ok1"),
        copies=log("1", start=1),
        replicas=[replica(1, 2, log_start=1)],
        reads=read("0 1"),
    )
    check(truth, "unknown_dropped kept")


@pytest.mark.parametrize(
    ("isolation", "findings"), [("read_committed", "aborted_read"), ("read_uncommitted", ""), (None, "")]
)
def test_aborted_read_of_an_aborted_message(isolation: str | None, findings: str) -> None:
    """Only a reader that asked for committed messages is wronged by an aborted one."""
    truth = judged(
        sends=sent("ok0", txn=4),
        copies=log("0 |"),
        reads=read("0", isolation=isolation),
        transactions=[{"ns": 50, "writer": W, "txn": 4, "event": "aborted"}],
    )
    check(truth, "kept", findings)


def test_a_delivery_that_nobody_sent() -> None:
    """No log holds it, nobody sent it, a reader was handed it."""
    check(judged(sends=sent("ok0"), copies=log("0"), reads=read("0 x:1")), "kept", "aborted_read")


def test_a_foreign_record_that_was_read() -> None:
    """It is in the log, as one foreign record; that it was read follows."""
    check(judged(sends=sent("ok0"), copies=log("0 x"), reads=read("0 x:1")), "kept", "foreign")


def test_offset_conflict() -> None:
    """Reader 2 was handed message 0 where message 1 stands, and both are in the log."""
    truth = judged(sends=sent("ok0 ok1"), copies=log("0 1"), reads=read("0 1") + read("0:1", reader=2))
    check(truth, "kept kept", "offset_conflict")
    assert Finding("offset_conflict", T, 0, 1, W, 0) in truth.findings


def test_an_offset_where_nothing_stands() -> None:
    """It does not matter that nothing is at offset 5."""
    check(judged(sends=sent("ok0"), copies=log("0"), reads=read("0:5")), "kept", "offset_conflict")


def test_skip() -> None:
    """From 0 to 3, over two messages that the log holds: one jump."""
    check(
        judged(sends=sent("ok0 ok1 ok2 ok3"), copies=log("0 1 2 3"), reads=read("0 3")),
        "kept kept kept kept",
        "skip",
    )


def test_what_explains_a_jump() -> None:
    """A marker, a gap, a seek, another member of the group, an aborted message, one that was sent later."""
    sends = sent("ok0 ok1 ok2")
    assert names(judged(sends=sent("ok0 ok3"), copies=log("0 | - 1"), reads=read("0 1:3"))) == ""
    sought = [event("sought", 1005, 2)]
    assert names(judged(sends=sends, copies=log("0 1 2"), reads=read("0 2"), groups=sought)) == ""
    shared = read("0 2", group="g") + read("1", reader=2, group="g")
    assert names(judged(sends=sends, copies=log("0 1 2"), reads=shared)) == ""
    assert names(judged(sends=sends, copies=log("0 1 2"), reads=read("0 2", start=50))) == ""
    sends[1]["txn"] = 4
    ends = [{"ns": 500, "writer": W, "txn": 4, "event": "aborted"}]
    for isolation, skipped in (("read_committed", ""), ("read_uncommitted", "skip")):
        reads = read("0 2", isolation=isolation)
        assert names(judged(sends=sends, copies=log("0 1 2"), reads=reads, transactions=ends)) == skipped


def test_skip_beside_an_aborted_transaction() -> None:
    """That another writer's transaction aborted explains no jump over a committed message."""
    ends = [{"ns": 500, "writer": 99, "txn": 4, "event": "aborted"}]
    reads = read("0 2", isolation="read_committed")
    truth = judged(sends=sent("ok0 ok1 ok2"), copies=log("0 1 2"), reads=reads, transactions=ends)
    check(truth, "kept kept kept", "skip")


def test_non_monotonic() -> None:
    """A reader assigned by hand went back from 2 to 1, and 2 still stands."""
    check(
        judged(sends=sent("ok0 ok1 ok2"), copies=log("0 1 2"), reads=read("0 1 2 1 2")),
        "kept kept kept",
        "non_monotonic",
    )


def test_one_inversion_is_one_finding() -> None:
    """0 2 1 3: it went back once, and was handed everything."""
    sends = sent("ok0 ok1 ok2 ok3")
    assert names(judged(sends=sends, copies=log("0 1 2 3"), reads=read("0 2 1 3"))) == "non_monotonic"


def test_what_explains_going_back() -> None:
    """A seek, or that what it had read was truncated (which is a loss), or that it is a group's member."""
    sends, copies = sent("ok0 ok1 ok2"), log("0 1 2")
    sought = [event("sought", 1025, 1)]
    assert names(judged(sends=sends, copies=copies, reads=read("0 1 2 1 2"), groups=sought)) == ""
    truncated = read("0 1 2 3:2")
    assert (
        names(judged(sends=sent("ok0 ok1 ok2 ok2"), copies=log("0 1 3"), reads=truncated))
        == "lost_after_read"
    )
    assert names(judged(sends=sends, copies=copies, reads=read("0 1 2 1 2", group="g"))) == ""


def test_replay() -> None:
    """The group committed 3 (all of 0 to 2) and its new member was handed 1 and 2 again: one replay."""
    reads = read("0 1 2", group="g") + read("1 2", reader=2, start=2000, group="g")
    commit = [event("committed", 1500, 3)]
    truth = judged(sends=sent("ok0 ok1 ok2"), copies=log("0 1 2"), reads=reads, groups=commit)
    check(truth, "kept kept kept", "replay")


def test_what_explains_a_replay() -> None:
    """Nothing was committed, or not that far, or the newest commit went back, or the member sought."""
    tables = {"sends": sent("ok0 ok1 ok2"), "copies": log("0 1 2")}
    reads = read("0 1 2", group="g") + read("1 2", reader=2, start=2000, group="g")
    assert names(judged(**tables, reads=reads)) == ""
    assert names(judged(**tables, reads=reads, groups=[event("assigned", 1500, reader=2)])) == ""
    assert names(judged(**tables, reads=reads, groups=[event("committed", 1500, 1)])) == ""
    back = [event("committed", 1500, 3), event("committed", 1600, 1)]
    assert names(judged(**tables, reads=reads, groups=back)) == ""
    sought = [event("committed", 1500, 3), event("sought", 1600, 1, reader=2)]
    assert names(judged(**tables, reads=reads, groups=sought)) == ""


# ---- the run


def test_whole_run() -> None:
    """A process that exited, two complaints of one wording and one of another, a configuration that did
    not take.
    """
    truth = judged(
        sends=sent("ok0"),
        copies=log("0"),
        processes=[
            {"ns": 1, "host": "broker1", "event": event} for event in ("started", "stopped", "exited")
        ],
        log_events=[
            {"ns": n, "host": "broker1", "kind": "error", "text": text}
            for n, text in enumerate(("a", "a", "b"))
        ],
        configs=[
            {"scope": "topic", "name": T, "key": key, "value": "1", "asked": asked}
            for key, asked in (("a", "1"), ("b", "2"), ("c", None), ("d", "1"))
        ],
    )
    assert Counter(names(truth).split()) == {"process_exit": 1, "server_error": 2, "config_mismatch": 1}


# ---- what does not change the truth, and what does


def test_misrouted_of_unknown_outcome() -> None:
    """Nobody was told that it was written: at home it was dropped, and the stray record is the finding."""
    truth = judged(sends=sent("info"), copies=log("0", partition=1))
    check(truth, "unknown_dropped", "misrouted")


def test_misrouted_and_on_a_follower_at_home() -> None:
    """A follower holds it where it belongs: it diverged, and a stray copy stands elsewhere."""
    truth = judged(
        sends=sent("ok0"),
        copies=log("0", broker=2) + log("0", partition=1),
        replicas=[replica(1, 0), replica(2, 1), replica(1, 1, partition=1)],
    )
    check(truth, "diverged", "diverged misrouted")


def test_lost_without_offset() -> None:
    """Acknowledged without an offset, on no replica of a log that begins at 0: nothing else explains it."""
    check(judged(sends=sent("ok0 ok"), copies=log("0"), replicas=[replica(1, 1)]), "kept lost", "lost")


def test_damage_elsewhere_explains_no_loss() -> None:
    """The damaged record stands at another offset than the lost message was acknowledged at."""
    truth = judged(sends=sent("ok0 ok1 info2"), copies=log("0 - !"))
    check(truth, "kept lost corrupt", "corrupt lost")


def test_an_unknown_writer_half_named() -> None:
    """A record that names a writer and no seq was sent by nobody we know, and overwrites."""
    copies = log("0 x")
    copies[1]["writer"] = W
    check(judged(sends=sent("ok0 ok1"), copies=copies), "kept overwritten", "overwritten")


def test_a_disagreement_outside_the_isr() -> None:
    """A replica that is known to be outside the ISR may hold anything that nobody was told of."""
    truth = judged(
        sends=sent("ok0 ok1 info"),
        copies=log("0 1") + log("0 2", broker=2),
        replicas=[replica(1, 2), replica(2, 2, in_sync=False, complete=False)],
    )
    check(truth, "kept kept unknown_dropped")


def test_a_follower_lacks_a_damaged_record() -> None:
    """The finding of the damaged message explains that a follower ends before it."""
    check(two("0 1!", "0", "ok0 ok1"), "kept corrupt", "corrupt")
    check(two("0 1! 2", "0", "ok0 ok1 ok2"), "kept corrupt kept", "corrupt diverged")


def test_a_log_that_begins_late() -> None:
    """Its log start offset says that it should hold messages 1 and 2: one finding, at the first."""
    truth = judged(
        sends=sent("ok0 ok1 ok2 ok3"),
        copies=log("0 1 2 3") + log("3", broker=2, start=3),
        replicas=[replica(1, 4), replica(2, 4, log_start=1)],
    )
    check(truth, "kept kept kept kept", "diverged")
    assert Finding("diverged", T, 0, 1) in truth.findings


def test_what_lies_before_a_log_start_offset_is_not_compared() -> None:
    """The leader's log starts at 1; what a follower still holds before, nobody can read."""
    truth = judged(
        sends=sent("ok0 ok1 info"),
        copies=log("1", start=1) + log("0 1", broker=2) + log("2 1", broker=3),
        replicas=[replica(1, 2, log_start=1), replica(2, 2), replica(3, 2)],
    )
    check(truth, "retired kept unknown_dropped")


def test_two_findings_at_one_offset() -> None:
    """A damaged record on the leader and a foreign one on a follower: the leader's counts."""
    check(two("0 !", "0 x", "ok0 info"), "kept unknown_dropped", "corrupt")
    check(two("0 x", "0 !", "ok0 info"), "kept unknown_dropped", "foreign")


def test_a_foreign_record_at_the_end_of_one_log() -> None:
    """The follower's log is longer by what nobody sent: the foreign record is the one finding."""
    check(two("0", "0 x", "ok0"), "kept", "foreign")


def test_diverged_beyond_the_end_outside_the_isr() -> None:
    """The leader's log ends at 1; two acknowledged messages stand on a replica outside the ISR: one
    finding each.
    """
    truth = judged(
        sends=sent("ok0 ok1 ok2"),
        copies=log("0") + log("0 1 2", broker=2),
        replicas=[replica(1, 1), replica(2, 3, in_sync=False, complete=False)],
    )
    check(truth, "kept diverged diverged", "diverged diverged")
    assert Finding("diverged", T, 0, None, W, 2) in truth.findings


def test_order_is_per_writer_and_of_acknowledged_messages() -> None:
    """Another writer's message, or one of unknown outcome, stands before a smaller seq: nobody promised
    more.
    """
    sends = sent("ok1 ok0")
    sends[1]["writer"] = 8
    copies = log("1 0")
    copies[0]["writer"] = 8
    check(judged(sends=sends, copies=copies), "kept kept")
    check(judged(sends=sent("ok1 info"), copies=log("1 0")), "kept unknown_kept")
    check(judged(sends=sent("info ok0"), copies=log("1 0")), "unknown_kept kept")


def test_seeks_that_explain_nothing() -> None:
    """Of another reader, of another partition, before what was read last, or another event."""
    tables = {"sends": sent("ok0 ok1 ok2"), "copies": log("0 1 2"), "reads": read("0 2")}
    for groups in (
        [event("sought", 1005, 2, reader=9)],
        [event("sought", 1005, 2) | {"partition": 1}],
        [event("sought", 1005, 2) | {"topic": "other"}],
        [event("sought", 995, 2)],
        [event("sought", 1015, 2)],
        [event("committed", 1005, 2)],
    ):
        check(judged(**tables, groups=groups), "kept kept kept", "skip")
    check(
        judged(**tables, groups=[event("sought", 1005) | {"topic": None, "partition": None}]),
        "kept kept kept",
    )


def test_another_member_of_the_group_sought() -> None:
    """A seek moves the member that sought; reader 1 did not."""
    reads = read("0", group="g") + read("2", start=2000, group="g")
    tables = {"sends": sent("ok0 ok1 ok2"), "copies": log("0 1 2"), "reads": reads}
    check(judged(**tables, groups=[event("sought", 1500, 2, reader=2)]), "kept kept kept", "skip")
    check(judged(**tables, groups=[event("sought", 1500, 2)]), "kept kept kept")


def test_a_member_starts_at_the_commit() -> None:
    """Reader 2 takes over from reader 1, which committed offset 2: message 1 is not skipped, message 2 is."""
    tables = {"sends": sent("ok0 ok1 ok2 ok3"), "copies": log("0 1 2 3")}
    reads = read("0", group="g") + read("3", reader=2, start=2000, group="g")
    check(judged(**tables, reads=reads), "kept kept kept kept")
    for offset, finding in ((2, "skip"), (3, "")):
        for more in ([], [event("assigned", 1600, reader=2)]):
            groups = [event("committed", 1500, offset), *more]
            check(judged(**tables, reads=reads, groups=groups), "kept kept kept kept", finding)
    late = [event("committed", 1500, 2), event("assigned", 1600, reader=2), event("committed", 1700, 3)]
    check(judged(**tables, reads=reads, groups=late), "kept kept kept kept", "skip")
    own = [event("committed", 1500, 2), event("committed", 1700, 3, reader=2)]
    check(judged(**tables, reads=reads, groups=own), "kept kept kept kept", "skip")


def test_assigned_again() -> None:
    """A reader without a group may start anywhere."""
    tables = {"sends": sent("ok0 ok1 ok2"), "copies": log("0 1 2")}
    for reads in ("0 2", "0 1 2 0"):
        groups = [event("assigned", 1000 + 10 * len(reads.split()) - 15)]
        check(judged(**tables, reads=read(reads), groups=groups), "kept kept kept")
        check(
            judged(**tables, reads=read(reads)),
            "kept kept kept",
            "skip" if reads == "0 2" else "non_monotonic",
        )


def test_another_groups_reader_has_nothing_to_do_with_a_jump() -> None:
    """Reader 2 of another group (or of none) was handed what reader 1 jumped over."""
    sends, copies = sent("ok0 ok1 ok2"), log("0 1 2")
    for own, other in (("g", "h"), ("g", None), (None, None)):
        reads = read("0 2", group=own) + read("1", reader=2, group=other)
        check(judged(sends=sends, copies=copies, reads=reads), "kept kept kept", "skip")


def test_a_transaction_is_of_its_writer() -> None:
    """Writer 9's transaction 4 aborted, and writer 7's transaction 5; message 0 is of writer 7's 4."""
    ends = [
        {"ns": 50, "writer": 9, "txn": 4, "event": "aborted"},
        {"ns": 50, "writer": W, "txn": 5, "event": "aborted"},
        {"ns": 50, "writer": W, "txn": 4, "event": "committed"},
    ]
    reads = read("0", isolation="read_committed")
    check(judged(sends=sent("ok0", txn=4), copies=log("0"), reads=reads, transactions=ends), "kept")


@pytest.mark.parametrize(("in_sync", "findings"), [(True, "diverged"), (False, "aborted_read not_converged")])
def test_read_and_on_a_follower_only(in_sync: bool, findings: str) -> None:
    """An in-sync follower's extra record is the one finding; outside the ISR the delivery is."""
    truth = judged(
        sends=sent("ok0 info"),
        copies=log("0") + log("0 1", broker=2),
        replicas=[replica(1, 1), replica(2, 2, in_sync=in_sync)],
        reads=read("0 1"),
    )
    check(truth, "kept unknown_dropped", findings)


def test_deliveries_to_several_readers_are_one_anomaly() -> None:
    """The root cause is the message, whoever was handed it."""
    reads = read("1") + read("1", reader=2) + read("x:5", reader=3) + read("x:5", reader=4)
    reads += read("0:2", reader=5) + read("0:2", reader=6)
    truth = judged(sends=sent("ok0 fail ok2"), copies=log("0 - 2"), reads=reads)
    check(truth, "kept failed kept", "aborted_read aborted_read offset_conflict")


def test_what_conflicts() -> None:
    """A message of the final log that was read elsewhere, unless where it was acknowledged or retired."""
    reads = read("0:1")
    check(judged(sends=sent("ok0"), copies=log("0 x"), reads=reads), "kept", "foreign offset_conflict")
    check(
        judged(sends=sent("ok5 ok1"), copies=log("0 1"), reads=reads), "moved kept", "moved offset_conflict"
    )
    check(judged(sends=sent("ok1 ok"), copies=log("0 1"), reads=reads), "moved kept", "moved")
    check(
        judged(sends=sent("fail ok1"), copies=log("0 1"), reads=reads),
        "phantom kept",
        "offset_conflict phantom",
    )
    check(
        judged(sends=sent("ok0 fail"), copies=log("0 1"), reads=reads),
        "kept phantom",
        "offset_conflict phantom",
    )
    check(
        judged(sends=sent("ok0"), copies=log("0 - 0"), reads=reads),
        "duplicated",
        "duplicated offset_conflict",
    )
    check(judged(sends=sent("ok0"), copies=log("0 0"), reads=reads), "duplicated", "duplicated")
    truth = judged(
        sends=sent("info"),
        copies=log("0", start=2),
        replicas=[replica(1, 3, log_start=2)],
        reads=reads,
    )
    check(truth, "unknown_kept")


def test_handed_the_same_offset_twice() -> None:
    """The same record twice in a row is going back by one."""
    check(judged(sends=sent("ok0"), copies=log("0"), reads=read("0 0")), "kept", "non_monotonic")


def test_replays_are_counted_by_rewind() -> None:
    """Two members in turn are handed again what was committed: twice the group went back."""
    reads = read("0 1", group="g") + read("0 1", reader=2, start=2000, group="g")
    reads += read("0 1", start=3000, group="g")
    tables = {"sends": sent("ok0 ok1"), "copies": log("0 1"), "reads": reads}
    check(judged(**tables, groups=[event("committed", 1500, 2)]), "kept kept", "replay replay")
    check(judged(**tables, groups=[event("committed", 2500, 2)]), "kept kept", "replay")
    check(judged(**tables, groups=[event("committed", 3500, 2)]), "kept kept")
    check(judged(**tables, groups=[event("committed", 1500, 2, group="h")]), "kept kept")
    check(judged(**tables, groups=[event("committed", 1500)]), "kept kept")


def test_what_is_no_replay() -> None:
    """Another message stands there since, or another group read it."""
    commit = [event("committed", 1500, 3)]
    other = read("0 1 2", reader=5, group="h") + read("1 2", start=2000, group="g")
    check(
        judged(sends=sent("ok0 ok1 ok2"), copies=log("0 1 2"), reads=other, groups=commit), "kept kept kept"
    )
    new = read("0 1", group="g") + read("2:1", start=2000, group="g")
    truth = judged(sends=sent("ok0 ok1 ok1"), copies=log("0 2"), reads=new, groups=commit)
    check(truth, "kept lost_after_read kept", "lost_after_read")


def test_a_seek_before_the_first_delivery() -> None:
    """The new member sought before it was handed anything; a later seek explains nothing."""
    reads = read("0 1", group="g") + read("0 1", reader=2, start=2000, group="g")
    tables = {"sends": sent("ok0 ok1"), "copies": log("0 1"), "reads": reads}
    commit = event("committed", 1500, 2)
    check(judged(**tables, groups=[commit, event("sought", 1600, 0, reader=2)]), "kept kept")
    check(judged(**tables, groups=[commit, event("sought", 2005, 0, reader=2)]), "kept kept", "replay")
    check(
        judged(**tables, groups=[commit, event("sought", 1600, 0, reader=9, group="h")]),
        "kept kept",
        "replay",
    )


def test_what_a_compacted_log_that_was_not_read_whole_tells() -> None:
    """Message 0's offset was read and is empty, which compaction explains; message 2's was not read."""
    truth = judged(
        sends=sent("ok0 ok1 ok2"),
        copies=log("- 1"),
        replicas=[replica(1, 3, complete=False, cleanup="compact")],
    )
    check(truth, "retired kept undetermined", "undetermined")


def test_not_converged_only_where_all_was_read() -> None:
    """A replica that was not read may be outside the ISR for the reason that it was not read for."""
    rows = [replica(1, 1), replica(2, 1, complete=False, in_sync=False)]
    check(judged(sends=sent("ok0"), copies=log("0"), replicas=rows), "kept")

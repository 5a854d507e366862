"""Exports for Jepsen's checker, read by a model of it: it finds what is wrong, and nothing else."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from checkers.ask.jepsen.export import Export, export
from harness.errors import BadDataError, UsageError
from harness.history.imports.edn import forms_of
from harness.history.imports.jepsen import WRITER_STEP
from tests.histories import History
from tests.jepsen import Op, analyse
from tests.property.test_checker import findings_of
from tests.sampling import every

ExportedOps = tuple[Export, list[Op]]


def exported(history: History, folder: Path, **options: Any) -> ExportedOps:
    """What is written for a history."""
    if not (folder / "sends.parquet").exists():
        history.write(folder)
    target = folder / "out.json"
    return export(folder, target, **options), json.loads(target.read_text())


def value(seq: int, writer: int = 1) -> int:
    return writer * WRITER_STEP + seq


def kept(count: int) -> History:
    """Messages 0 to ``count`` - 1 at the offsets of these numbers, on three replicas."""
    history = History()
    for seq in range(count):
        history.send(seq, offset=seq)
    return history.logs([(seq, seq) for seq in range(count)])


def polls(ops: list[Op]) -> list[Op]:
    return [op for op in ops if op["f"] == "poll" and op["type"] == "ok"]


def test_a_sound_history_has_no_anomaly(tmp_path: Path) -> None:
    history = kept(5)
    for seq in range(5):
        history.read(seq, seq, 9000 + seq, poll=seq // 2)
    done, ops = exported(history, tmp_path)
    assert analyse(ops) == {}
    assert (done.sends, done.polls, done.foreign, done.misrouted, done.aborted) == (5, 4, 0, 0, 0)
    assert done.operations == len(ops) and done.keys == {"t/0": 0}
    sent = [op for op in ops if op["f"] == "send" and op["type"] == "ok"]
    assert [op["value"] for op in sent] == [[["send", 0, [seq, value(seq)]]] for seq in range(5)]


def test_a_large_poll_is_one_operation_in_order(tmp_path: Path) -> None:
    """Pieces of it, all of one moment, could stand in any order."""
    history = kept(2500)
    for seq in range(2500):
        history.read(seq, seq, 9_000_000, poll=1)
    _, ops = exported(history, tmp_path, final_log=False)
    assert analyse(ops) == {}
    (poll,) = polls(ops)
    assert [pair[0] for pair in poll["value"][0][1]["0"]] == list(range(2500))


def test_the_final_log_is_polled_in_order(tmp_path: Path) -> None:
    _, ops = exported(kept(3500), tmp_path)
    assert analyse(ops) == {}
    assert [len(op["value"][0][1]["0"]) for op in polls(ops)] == [1000, 1000, 1000, 500]


def test_the_ends_of_logs_that_were_read_to_their_end(tmp_path: Path) -> None:
    """A log that was not has no end; Jepsen's checker looks at no such field."""
    history = kept(3).add("sends", **{**kept(1).rows["sends"][0], "partition": 1, "seq": 7})
    for broker in (1, 2, 3):
        history.replica(broker, leader=broker == 1, leo=5)
        history.replica(broker, partition=1, complete=False, leo=9)
    _, ops = exported(history, tmp_path)
    (assigned,) = [op for op in ops if op["f"] == "assign" and op["type"] == "ok"]
    assert (assigned["value"], assigned["log-ends"]) == ([0, 1], {"0": 5})


def test_the_log_of_a_leader_that_holds_nothing_is_empty(tmp_path: Path) -> None:
    history = History().send(0, offset=0).log(2, [(0, 0)]).log(3, [(0, 0)])
    history.replica(1, leader=True, leo=0).replica(2, leo=1).replica(3, leo=1)
    _, ops = exported(history, tmp_path)
    assert analyse(ops) == {"unseen": [(0, value(0))]}


def test_without_a_leader_the_final_log_is_the_one_by_which_the_checker_judges(tmp_path: Path) -> None:
    """The replica with the most records is out of sync, and its last epoch is older."""
    history = History().send(0, offset=0).send(1, offset=1).send(2, offset=2).send(3, offset=1)
    history.log(1, [(0, 0), (1, 1), (2, 2)])
    for broker in (2, 3):
        history.log(broker, [(0, 0), {"offset": 1, "seq": 3, "epoch": 1}]).replica(broker, leo=2)
    _, ops = exported(history.replica(1, in_sync=False, leo=3), tmp_path)
    assert analyse(ops) == {
        "inconsistent-offsets": [(0, 1)],
        "lost-write": [(0, value(1))],
        "unseen": [(0, value(1)), (0, value(2))],
    }


def test_polls_of_one_moment_keep_their_order(tmp_path: Path) -> None:
    history = kept(40)
    for seq in range(40):
        history.read(seq, seq, 90_000, poll=39 if seq == 39 else seq)
    _, ops = exported(history, tmp_path)
    assert analyse(ops) == {}


def test_two_exports_of_one_history_are_equal(tmp_path: Path) -> None:
    history = History()
    for number in range(3000):  # everything happens at once
        place: dict[str, Any] = {"writer": number % 7, "partition": number % 5, "sent_ns": 1, "done_ns": 2}
        history.send(number, offset=number, **place)
        copy = {"offset": number, "seq": number, "writer": number % 7, "partition": number % 5}
        history.log(1, [copy])
        who = {"writer": number % 7, "partition": number % 5, "reader": number % 2}
        history.add("reads", topic="t", ns=3, offset=number, seq=number, poll=0, **who)
    history.write(tmp_path)
    first, second = (exported(history, tmp_path) and (tmp_path / "out.json").read_bytes() for _ in range(2))
    assert first == second
    export(tmp_path, tmp_path / "one.edn")
    export(tmp_path, tmp_path / "two.edn")
    assert (tmp_path / "one.edn").read_bytes() == (tmp_path / "two.edn").read_bytes()


def test_records_of_a_poll_keep_the_order_of_delivery(tmp_path: Path) -> None:
    history = kept(4)
    for seq in (0, 2, 1, 3):
        history.read(seq, seq, 9000, poll=1)
    _, ops = exported(history, tmp_path)
    assert analyse(ops) == {
        "int-poll-skip": [(0, value(0), value(2)), (0, value(1), value(3))],
        "int-nonmonotonic-poll": [(0, value(2), value(1))],
    }


def rewound(*events: str, partition: int | None = 0) -> History:
    """Reader 1 has read two partitions to their end, and reads the first again after ``events``."""
    history = kept(3)
    for seq in range(3, 6):
        history.send(seq, offset=seq - 3, partition=1)
    history.logs([{"offset": seq - 3, "seq": seq, "partition": 1} for seq in range(3, 6)])
    for seq in range(3):
        history.read(seq, seq, 9000, poll=1)
    for seq in range(3, 6):
        history.read(seq - 3, seq, 9000, poll=1, partition=1)
    for number, event in enumerate(events):
        topic = None if partition is None else "t"
        row = {"group": "g", "reader": 1, "event": event, "topic": topic, "partition": partition}
        history.add("groups", ns=9100 + number, offset=0, **row)
    return history.read(0, 0, 9200, poll=2)


@pytest.mark.parametrize(
    "events", [("sought",), ("revoked", "assigned"), ("committed", "sought", "committed")]
)
def test_a_rewind_that_was_asked_for_is_no_anomaly(tmp_path: Path, events: tuple[str, ...]) -> None:
    _, ops = exported(rewound(*events), tmp_path)
    assert analyse(ops) == {}


@pytest.mark.parametrize("events", [("sought",), ("revoked", "assigned"), ("lost", "assigned")])
def test_an_event_that_names_no_partition_concerns_all_that_the_reader_reads(
    tmp_path: Path, events: tuple[str, ...]
) -> None:
    history = rewound(*events, partition=None).read(0, 3, 9201, poll=3, partition=1)
    _, ops = exported(history, tmp_path)
    assert analyse(ops) == {}


@pytest.mark.parametrize("events", [(), ("committed",), ("revoked",), ("lost",)])
def test_a_rewind_that_nobody_asked_for_is_one(tmp_path: Path, events: tuple[str, ...]) -> None:
    _, ops = exported(rewound(*events), tmp_path)
    assert analyse(ops) == {"nonmonotonic-poll": [(0, value(2), value(0))]}


EVENTS = ("assigned", "revoked", "lost", "sought", "committed")


@pytest.mark.parametrize("partition", [0, 1, None])
@pytest.mark.parametrize("events", every(4, [e for n in (0, 1, 2) for e in permutations(EVENTS, n)]), ids=str)
def test_a_reader_without_a_group_may_start_anywhere_where_the_checker_says_so(
    tmp_path: Path, events: tuple[str, ...], partition: int | None
) -> None:
    """It may when it was assigned the partition again, or sought; not when it gave the partition up."""
    history = rewound(*events, partition=partition)
    history.write(tmp_path)
    classes = {name for name, *_ in findings_of(tmp_path)}
    moved = partition != 1 and not {"assigned", "sought"}.isdisjoint(events)
    assert classes == (set() if moved else {"non_monotonic"})
    _, ops = exported(history, tmp_path)
    assert set(analyse(ops)) == (set() if moved else {"nonmonotonic-poll"})


@pytest.mark.parametrize(
    ("events", "anomalies"),
    [(("assigned",), {"nonmonotonic-poll"}), (("revoked",), set()), (("lost",), set())],
)
def test_a_member_of_a_group_keeps_its_place_while_it_keeps_the_partition(
    tmp_path: Path, events: tuple[str, ...], anomalies: set[str]
) -> None:
    history = rewound(*events)
    for row in history.rows["reads"]:
        row["group"] = "g"
    _, ops = exported(history, tmp_path)
    assert set(analyse(ops)) == anomalies


def test_a_seek_in_one_partition_does_not_excuse_another(tmp_path: Path) -> None:
    history = rewound("sought").read(0, 3, 9201, poll=3, partition=1)
    _, ops = exported(history, tmp_path)
    assert analyse(ops) == {"nonmonotonic-poll": [(1, value(5), value(3))]}


def transaction(event: str | None, isolation: str = "read_committed", *, read: bool = False) -> History:
    """Messages 0 and 1 of transaction 4, which ended with ``event``, and message 2 behind its marker."""
    history = History().send(0, offset=0, txn=4).send(1, offset=1, txn=4).send(2, offset=3)
    history.logs([(0, 0), (1, 1), {"offset": 2, "seq": None, "writer": None, "control": True}, (3, 2)])
    history.add("transactions", ns=0, writer=1, txn=4, event="begin")
    if event is not None:
        history.add("transactions", ns=1900, writer=1, txn=4, event=event)
    for offset, seq in ((0, 0), (1, 1), (3, 2)) if read else ((3, 2),):
        history.read(offset, seq, 9000, poll=1, isolation=isolation)
    return history


@pytest.mark.parametrize(
    ("event", "kind", "first"),
    [
        ("committed", "ok", ["send", 0, [0, value(0)]]),
        ("aborted", "fail", ["send", 0, value(0)]),
        ("unknown", "info", ["send", 0, [0, value(0)]]),
        (None, "info", ["send", 0, [0, value(0)]]),
    ],
)
def test_the_messages_of_a_transaction_are_one_operation(
    tmp_path: Path, event: str | None, kind: str, first: list[Any]
) -> None:
    _, ops = exported(transaction(event), tmp_path)
    (done,) = [op for op in ops if op["f"] == "send" and op["type"] != "invoke" and len(op["value"]) == 2]
    assert (done["type"], done["value"][0]) == (kind, first)
    assert analyse(ops) == {}


def test_an_aborted_record_is_an_anomaly_only_for_a_reader_of_committed_ones(tmp_path: Path) -> None:
    done, ops = exported(transaction("aborted", read=True), tmp_path / "committed")
    assert analyse(ops) == {"G1a": [(0, value(0)), (0, value(1))]}
    assert done.aborted == 2, "in the final log, where a reader of committed records does not see them"
    done, ops = exported(transaction("aborted", "read_uncommitted", read=True), tmp_path / "uncommitted")
    assert analyse(ops) == {}
    assert done.aborted == 4


def test_a_failed_message_is_no_part_of_a_committed_transaction(tmp_path: Path) -> None:
    history = transaction("committed").send(3, "fail", txn=4).send(4, None, txn=4)
    _, ops = exported(history, tmp_path)
    ends = {str(op["value"]): op["type"] for op in ops if op["f"] == "send" and op["type"] != "invoke"}
    assert ends[f"[['send', 0, {value(3)}]]"] == "fail"
    assert ends[f"[['send', 0, [None, {value(4)}]]]"] == "info"
    assert analyse(ops) == {}


def test_records_without_a_writer_are_left_out_and_counted(tmp_path: Path) -> None:
    """A damaged record may name any writer and number, also one that has no value."""
    history = kept(3).send(7, offset=0, partition=1).log(1, [(3, None), (4, 99), (5, 7)])
    history.log(1, [{"offset": 6, "writer": 2**31 - 1, "seq": 2**62}, {"offset": 7, "seq": -5}])
    history.log(2, [(3, None), (4, 99), (5, 7)]).log(3, [(3, None), (4, 99), (5, 7)])
    for offset, seq in ((0, 0), (3, None), (4, 99), (5, 7)):
        history.read(offset, seq, 9000 + offset, poll=1)
    done, ops = exported(history, tmp_path)
    assert (done.foreign, done.misrouted) == (6, 2), "the reader's, and those of the final log"
    assert analyse(ops) == {"unseen": [(1, value(7))]}


def test_what_jepsen_finds_in_losses_duplicates_and_failed_messages_that_are_there(tmp_path: Path) -> None:
    history = History()
    for seq in range(4):
        history.send(seq, "fail" if seq == 2 else "ok", offset=None if seq == 2 else seq)
    history.logs([(0, 0), (2, 2), (3, 3), (4, 0)])
    _, ops = exported(history, tmp_path)
    anomalies = analyse(ops)
    assert anomalies["lost-write"] == [(0, value(1))] and anomalies["duplicate"] == [(0, value(0))]
    assert anomalies["G1a"] == [(0, value(2))]


def test_unknown_outcomes_end_their_process_at_the_end(tmp_path: Path) -> None:
    history = kept(1).send(1, None).send(2, "info", offset=-1).send(3, "ok").send(4, "fail", error=7)
    _, ops = exported(history, tmp_path)
    ends = {op["value"][0][2][1]: op for op in ops if op["f"] == "send" and op["type"] in ("ok", "info")}
    assert [ends[value(seq)]["type"] for seq in (1, 2, 3)] == ["info", "info", "ok"]
    assert [ends[value(seq)]["value"][0][2][0] for seq in (1, 2, 3)] == [None] * 3
    assert ends[value(1)]["time"] == max(op["time"] for op in ops)
    assert [op["error"] for op in ops if "error" in op] == [7]
    analyse(ops)


def test_edn_says_the_same_as_json(tmp_path: Path) -> None:
    history = rewound("sought").send(9, None).send(10, "fail", error=7)
    _, ops = exported(history, tmp_path)
    export(tmp_path, tmp_path / "out.edn")
    forms = [form for _, form in forms_of(tmp_path / "out.edn")]
    assert json.loads(json.dumps(forms)) == ops


def test_an_empty_history(tmp_path: Path) -> None:
    done, ops = exported(History(), tmp_path)
    assert (done.operations, ops) == (0, [])
    assert export(tmp_path, tmp_path / "out.edn").operations == 0
    assert (tmp_path / "out.edn").read_text() == ""


def test_what_cannot_be_exported(tmp_path: Path) -> None:
    folder = kept(1).send(0, writer=9_300_000, offset=1).write(tmp_path)
    with pytest.raises(BadDataError, match="9300000/0 cannot be exported"):
        export(folder, folder / "out.edn")
    with pytest.raises(UsageError, match=r"\.edn or \.json"):
        export(folder, folder / "out.csv")
    with pytest.raises(UsageError, match="cannot be written"):
        export(kept(1).write(tmp_path / "other"), tmp_path / "nowhere" / "out.edn")

"""Jepsen's histories: what operations mean, what final polls prove, and the way back from an export."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from checkers.ask.jepsen.export import export
from harness.errors import BadDataError, UsageError
from harness.history.imports.format import GivenFile
from harness.history.imports.jepsen import Jepsen
from tests.runs.store import STORED
from tests.runs.stored import derive, read_stored, write_tables
from tests.sampling import every
from tests.unit.imports.judging import Judged, judged


class Ops:
    """A history in EDN, operation by operation."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._time = 0

    def op(self, process: int | str, kind: str, function: str, value: str, more: str = "") -> Ops:
        self._time += 1000
        self.lines.append(
            f"{{:index {len(self.lines)}, :time {self._time}, :type :{kind}, :process {process}, "
            f":f :{function}, :value {value}{more}}}"
        )
        return self

    def send(self, process: int, key: int, value: int, offset: int | None, kind: str = "ok") -> Ops:
        self.op(process, "invoke", "send", f"[[:send {key} {value}]]")
        at = "nil" if offset is None else offset
        done = f"[[:send {key} [{at} {value}]]]" if kind == "ok" else f"[[:send {key} {value}]]"
        return self.op(process, kind, "send", done)

    def poll(self, process: int, **by_key: Sequence[tuple[int, int]]) -> Ops:
        records = " ".join(
            f"{key[1:]} [{' '.join(f'[{offset} {value}]' for offset, value in pairs)}]"
            for key, pairs in by_key.items()
        )
        self.op(process, "invoke", "poll", "[[:poll]]")
        return self.op(process, "ok", "poll", f"[[:poll {{{records}}}]]")

    def from_the_beginning(self, process: int, keys: str = "[0]") -> Ops:
        self.op(process, "invoke", "assign", keys, ", :seek-to-beginning? true")
        return self.op(process, "ok", "assign", keys, ", :seek-to-beginning? true")

    def judged(self, folder: Path) -> Judged:
        file = folder / "history.edn"
        file.write_text("\n".join(self.lines))
        return judged("jepsen", [file], folder / "imported")


def five() -> Ops:
    ops = Ops()
    for value in range(5):
        ops.send(value % 2, 0, value, value)
    return ops


def labels(result: Judged, fate: str) -> list[str]:
    return sorted(row["label"] for row in result.life if row["fate"] == fate)


def test_a_write_below_what_was_polled_is_lost(tmp_path: Path) -> None:
    polled = [(0, 0), (1, 1), (3, 3), (4, 4)]
    result = five().from_the_beginning(9).poll(9, k0=polled).judged(tmp_path)
    assert labels(result, "lost") == ["2"]
    assert result.fates == {"kept": 4, "lost": 1}
    (finding,) = result.findings
    assert (finding["topic"], finding["partition"], finding["offset"]) == ("key", 0, 2)


def test_duplicates_and_moved_messages(tmp_path: Path) -> None:
    polled = [(0, 0), (1, 1), (2, 2), (3, 1), (4, 4), (5, 3)]
    result = five().from_the_beginning(9).poll(9, k0=polled).judged(tmp_path)
    assert (labels(result, "duplicated"), labels(result, "moved")) == (["1"], ["3"])


def test_a_failed_write_that_was_polled(tmp_path: Path) -> None:
    """Jepsen's G1a."""
    ops = five().send(0, 0, 7, None, "fail").from_the_beginning(9)
    result = ops.poll(9, k0=[*((n, n) for n in range(5)), (5, 7)]).judged(tmp_path)
    assert result.fates == {"kept": 5, "phantom": 1}


def test_what_final_polls_did_not_reach_is_not_known(tmp_path: Path) -> None:
    """Neither kept nor lost: the last message, and whatever is missing below it."""
    result = five().from_the_beginning(9).poll(9, k0=[(0, 0), (1, 1), (3, 3)]).judged(tmp_path)
    assert labels(result, "undetermined") == ["2", "4"]
    assert "lost" not in result.fates
    assert any("1 of 1 keys" in note for note in result.recording.notes)


def test_an_acknowledged_write_without_offset_that_is_nowhere_is_not_known(tmp_path: Path) -> None:
    ops = five().send(0, 0, 7, None).from_the_beginning(9)
    result = ops.poll(9, k0=[(n, n) for n in range(5)]).judged(tmp_path)
    assert labels(result, "undetermined") == ["7"]


def test_without_final_polls_nothing_is_kept(tmp_path: Path) -> None:
    """Polls while messages are sent prove nothing about the log at the end."""
    ops = five().op(3, "ok", "assign", "[0]").poll(3, k0=[(n, n) for n in range(5)])
    result = ops.send(0, 0, 9, 5).judged(tmp_path)
    assert result.fates == {"undetermined": 6}
    assert result.recording.notes == [
        "No process polled from the beginning after the last send, so no log is known"
    ]
    assert len(result.recording.tables["reads"]) == 5


def test_a_poll_from_the_beginning_before_the_last_send_is_no_final_poll(tmp_path: Path) -> None:
    ops = five().from_the_beginning(3).poll(3, k0=[(n, n) for n in range(5)]).send(0, 0, 9, 5)
    assert ops.judged(tmp_path).fates == {"undetermined": 6}


def test_outcomes(tmp_path: Path) -> None:
    ops = Ops().send(0, 0, 1, 0).send(1, 0, 2, None, "info").send(2, 0, 3, None, "fail")
    ops.op(4, "invoke", "send", "[[:send 0 4]]").op("nemesis", "info", "start-partition", ":majority")
    file = tmp_path / "history.edn"
    file.write_text("\n".join(ops.lines))
    recording = Jepsen().read([GivenFile(file)])
    rows = recording.tables["sends"].to_pylist()
    assert [(row["label"], row["outcome"], row["done_ns"] is None) for row in rows] == [
        ("1", "ok", False),
        ("2", "info", False),
        ("3", "fail", False),
        ("4", None, True),
    ]
    assert recording.tables["marks"].to_pylist()[0]["name"] == "start-partition"


def test_transactions_are_sends_of_their_own_outcome(tmp_path: Path) -> None:
    ops = Ops().op(0, "invoke", "txn", "[[:send 0 1] [:poll] [:send 1 1]]")
    ops.op(0, "ok", "txn", "[[:send 0 [0 1]] [:poll {0 [[0 1]]}] [:send 1 [4 1]]]")
    ops.from_the_beginning(9, "[0 1]").poll(9, k0=[(0, 1)], k1=[(4, 1)])
    result = ops.judged(tmp_path)
    rows = sorted((row["partition"], row["seq"], row["fate"]) for row in result.life)
    assert rows == [(0, 0, "kept"), (1, 1, "kept")]


def test_a_reader_that_skips_and_one_that_was_assigned_anew(tmp_path: Path) -> None:
    def polls(between: str) -> Ops:
        ops = five().op(3, "ok", "assign", "[0]").poll(3, k0=[(0, 0)])
        if between:
            ops.op(3, "ok", "assign", "[]").op(3, "ok", "assign", between)
        ops.poll(3, k0=[(3, 3)])
        return ops.from_the_beginning(9).poll(9, k0=[(n, n) for n in range(5)])

    skip, other = tmp_path / "skip", tmp_path / "other"
    skip.mkdir()
    other.mkdir()
    assert [row["class"] for row in polls("").judged(skip).findings] == ["skip"]
    assert polls("[0]").judged(other).findings == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("12", "12 is no operation"),
        ("{:type :ok}", "is no operation"),
        ("{:type :ok, :f :send, :process 0, :value 5}", ":value 5 is no list of sends and polls"),
        ("{:type :ok, :f :send, :process 0, :value [[:append 1 2]]}", "is no list of sends and polls"),
        ("{:type :ok, :f :append, :process 0}", "operation 'append' is none of the Kafka workload"),
        ("{:type :maybe, :f :send, :process 0}", ":type 'maybe' is none of"),
        ("{:type :ok, :f :send, :process -4}", ":process is -4"),
        ("{:type :ok, :f :send, :process 4294967296}", ":process is 4294967296"),
        ("{:type :ok, :f :send, :process 0, :value [[:send 0 [-1 5]]]}", "an offset is -1"),
        ("{:type :ok, :f :send, :process 0, :value [[:send 0 [1 2 3]]]}", "[offset value]"),
        ("{:type :ok, :f :send, :process 0, :value [[:send [] 1]]}", "neither a number nor a name"),
        ("{:type :ok, :f :send, :process 0, :value [[:send 9999999999 1]]}", "a key is 9999999999"),
        ("{:type :ok, :f :poll, :process 0, :value [[:poll {0 5}]]}", "is no list of [offset value]"),
        ("{:type :ok, :f :poll, :process 0, :value [[:poll {0 [[1]]}]]}", "is not [offset value]"),
        ("{:type :ok, :f :poll, :process 0, :value [[:poll [0]]]}", "is not what"),
        ("{:type :ok, :f :assign, :process 0, :value 5}", ":value 5 is no list of keys"),
        ("{:type :ok, :f :send, :process 0, :time :now}", ":time is 'now'"),
        (
            "{:type :ok :f :send :process 0 :value [[:send 0 1]]}" * 2,
            "value 1 is sent twice to key 0",
        ),
    ],
    ids=ascii,
)
def test_what_is_no_history(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "history.edn"
    file.write_text(text)
    with pytest.raises(BadDataError) as refusal:
        judged("jepsen", [file], tmp_path / "imported")
    assert says in refusal.value.message
    assert len(refusal.value.message) < 300 + len(str(file))
    assert not (tmp_path / "imported").exists()


def test_it_takes_one_file(tmp_path: Path) -> None:
    for files in ([], [GivenFile(tmp_path), GivenFile(tmp_path)], [GivenFile(tmp_path, "1")]):
        with pytest.raises(UsageError):
            Jepsen().read(files)


# ---- from an export back

_AS_LOST = ("lost", "overwritten", "diverged", "misrouted", "retired")
"""Fates that the form cannot tell from a loss: it has one log, and only messages that were sent to a key."""
_ONLY_HERE = (
    *("double_ownership", "commit_lost", "stale_offset", "hung_transaction", "hanging_transaction"),
    *("server_error", "corrupt", "diverged", "isr_incomplete", "foreign"),
    *("accept_lost", "not_delivered", "over_delivered", "held_twice", "lock_outlived", "archived"),
)
"""Findings about what the form does not carry: (share) groups, transactions, replicas, logs of brokers."""


@pytest.mark.parametrize("form", ["edn", "json"])
@pytest.mark.parametrize("name", every(12, [file.stem for file in sorted(STORED.glob("*.zip"))]))
def test_an_export_comes_back_with_the_same_findings(tmp_path: Path, name: str, form: str) -> None:
    """Transactions are left out: the form has one outcome for all messages of one, and no markers."""
    stored = read_stored(name)
    history = write_tables(stored.tables, tmp_path / "history")
    file = tmp_path / f"export.{form}"
    places = {key: place for place, key in export(history, file).keys.items()}
    again, before = judged("jepsen", [file], tmp_path / "imported"), derive(history)

    def fate(row: Any) -> str:
        return "lost" if row["fate"] in _AS_LOST else str(row["fate"])

    rows = before.life.to_pylist()
    transactional = {(row["writer"], row["seq"]) for row in rows if row["txn"] is not None}
    expected = {
        (f"{row['topic']}/{row['partition']}", row["writer"], row["seq"]): fate(row)
        for row in rows
        if row["txn"] is None
    }
    imported = {
        (places[row["partition"]], row["writer"], row["seq"]): fate(row)
        for row in again.life
        if (row["writer"], row["seq"]) not in transactional
    }
    assert imported.keys() == expected.keys()
    differences = {
        key: (expected[key], imported[key])
        for key in expected
        if expected[key].replace("lost_after_read", "lost")
        != imported[key].replace("lost_after_read", "lost")
    }
    assert differences == {}
    if transactional or any(row["group"] for row in stored.tables["reads"].to_pylist()):
        return

    def classes(findings: Sequence[Any]) -> Counter[tuple[str, int]]:
        return Counter(
            ("lost" if row["class"] in (*_AS_LOST, "lost_after_read") else row["class"], row["count"])
            for row in findings
            if row["class"] not in _ONLY_HERE or row["class"] in _AS_LOST
        )

    removed = sum(row["fate"] == "retired" for row in rows)  # by retention, which the form does not carry
    expected_findings = classes(before.findings.to_pylist()) + Counter({("lost", 1): removed})
    assert classes(again.findings) == expected_findings

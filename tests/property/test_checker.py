"""True histories, damaged in known ways: the checker must find exactly that, in every way it can look."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import checkers.kernel
import checkers.piece
from checkers.columns import FINDING
from checkers.evidence import gather
from checkers.piece import Job, judge_piece
from checkers.pieces import crossings, cut, settle_pieces
from checkers.source import open_source, partitions
from checkers.strays import settle_rows
from tests.histories import History
from tests.oracles import duckdb_findings, model_findings

DAMAGES = (
    "drop", "drop_one", "duplicate", "move", "swap", "corrupt", "corrupt_one", "truncate", "divert",
    "foreign", "epoch", "replace",
)  # fmt: skip

Plain = set[tuple[Any, ...]]


class Damaged:
    """A true history of two partitions and three replicas, and what was then done to it."""

    def __init__(self, draw: Any) -> None:
        self.sends: list[dict[str, Any]] = []
        self.logs: dict[tuple[int, int], list[dict[str, Any]]] = {}
        self.draw = draw
        seqs = Counter[int]()
        for partition in (0, 1):
            start = draw(st.sampled_from((0, 7, 10**9)))
            log = []
            for _ in range(draw(st.integers(0, 8))):
                writer = draw(st.integers(1, 2))
                outcome = draw(st.sampled_from(("ok", "ok", "ok", "info", "fail", "acks0", None)))
                seq = seqs[writer]
                seqs[writer] += 1
                there = outcome in ("ok", "acks0") or (outcome != "fail" and draw(st.booleans()))
                row = {"partition": partition, "writer": writer, "seq": seq, "offset": None}
                row["outcome"] = "ok" if outcome == "acks0" else outcome
                if there:
                    record = {"offset": start + len(log), "epoch": 0, "writer": writer, "seq": seq}
                    log.append(record | {"intact": True})
                    row["offset"] = record["offset"] if outcome == "ok" else None
                self.sends.append(row)
            for broker in (1, 2, 3):
                self.logs[partition, broker] = [dict(record) for record in log]
        for damage in draw(st.lists(st.sampled_from(DAMAGES), max_size=4)):
            self.damage(damage)

    def damage(self, kind: str) -> None:
        """One known damage, at a place that is drawn; none where there is nothing to damage."""
        partition = self.draw(st.integers(0, 1))
        logs = {b: log for (p, b), log in self.logs.items() if p == partition}
        offsets = sorted({record["offset"] for log in logs.values() for record in log})
        end = offsets[-1] + 1 if offsets else 0
        if kind == "foreign":
            self.append(partition, end, 9, self.draw(st.sampled_from((0, 77))))
            return
        if not offsets:
            return
        at = self.draw(st.sampled_from(offsets))
        one = {"drop_one", "corrupt_one", "epoch", "replace"}
        brokers = [self.draw(st.integers(1, 3))] if kind in one else [1, 2, 3]
        if kind == "divert":
            other = [r["offset"] for (p, _), log in self.logs.items() if p != partition for r in log]
            record = next(r for log in logs.values() for r in log if r["offset"] == at)
            self.append(1 - partition, max(other, default=-1) + 1, record["writer"], record["seq"])
            kind = "drop"
        elif kind in ("duplicate", "move"):
            record = next(r for log in logs.values() for r in log if r["offset"] == at)
            self.append(partition, end, record["writer"], record["seq"])
            kind = "drop" if kind == "move" else ""
        if kind == "swap":
            self.swap(partition, at, self.draw(st.sampled_from(offsets)))
        for broker in brokers:
            log = self.logs[partition, broker]
            if kind in ("drop", "drop_one"):
                log[:] = [r for r in log if r["offset"] != at]
            elif kind == "truncate":
                log[:] = [r for r in log if r["offset"] < at]
            for record in log:
                if record["offset"] == at and kind in ("corrupt", "corrupt_one"):
                    record["intact"] = False
                elif record["offset"] == at and kind == "epoch":
                    record["epoch"] = 1
                elif record["offset"] == at and kind == "replace":
                    record |= {"writer": 9, "seq": 5}

    def append(self, partition: int, offset: int, writer: int, seq: int) -> None:
        for broker in (1, 2, 3):
            self.logs[partition, broker].append(
                {"offset": offset, "epoch": 0, "writer": writer, "seq": seq, "intact": True}
            )

    def swap(self, partition: int, one: int, other: int) -> None:
        for broker in (1, 2, 3):
            log = self.logs[partition, broker]
            for record in log:
                if record["offset"] in (one, other):
                    record["offset"] = other if record["offset"] == one else one
            log.sort(key=lambda record: int(record["offset"]))

    def write(self, folder: Path) -> Path:
        history = History()
        for row in self.sends:
            more = {key: row[key] for key in ("partition", "writer")}
            history.send(row["seq"], row["outcome"], row["offset"], **more)
        for (partition, broker), log in self.logs.items():
            history.log(broker, log, partition=partition)
        return history.write(folder)


@st.composite
def damaged(draw: Any) -> Damaged:
    return Damaged(draw)


def fast_findings(folder: Path, piece_messages: int = 1_000_000) -> Counter[tuple[Any, ...]]:
    """The fast path without Spark around it: the same pieces, one after the other."""
    out = folder / "out"
    out.mkdir()
    source = open_source(folder)
    job = Job(source, gather(source), None, str(out))
    pieces = []
    for holds, (sends, _) in partitions(source).items():
        pieces += cut(job, holds, sends, piece_messages)
    tallies = [table for piece in pieces for table in judge_piece(job, piece)]
    if piece_messages < 1_000_000 and tallies:
        for piece in crossings(pieces, pa.concat_tables(tallies)):
            list(judge_piece(job, piece))
        for holds in {piece.holds for piece in pieces}:
            settle_pieces(out, holds)
    parts = [pq.read_table(path) for path in sorted(out.glob("*.parquet"))]
    found = pa.concat_tables(parts) if parts else FINDING.empty_table()
    sends = pq.read_table(folder / "sends.parquet", columns=["writer", "seq", "topic", "partition"])
    settled = settle_rows(found, sends)
    columns = ["class", "topic", "partition", "offset", "writer", "seq"]
    return Counter(tuple(row.values()) for row in settled.select(columns).to_pylist())


def check(history: Damaged) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = history.write(Path(scratch) / "history")
        model = Counter((c, "t", p, o, w, q) for c, p, o, w, q in model_findings(history.sends, history.logs))
        assert fast_findings(folder) == model, "the fast path differs from the model"
        assert Counter(duckdb_findings(folder)) == model, "the general plan differs from the model"


SETTINGS = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], derandomize=True
)


@settings(SETTINGS, max_examples=60)
@given(damaged())
def test_finds_exactly_the_damage(history: Damaged) -> None:
    check(history)


@pytest.mark.long
@settings(SETTINGS, max_examples=10_000)
@given(damaged())
@pytest.mark.timeout(7200)
def test_finds_exactly_the_damage_ten_thousand_times(history: Damaged) -> None:
    check(history)


@settings(SETTINGS, max_examples=60)
@given(damaged())
def test_pieces_find_what_the_whole_finds(history: Damaged) -> None:
    """A partition cut into pieces of two messages comes to the same."""
    with tempfile.TemporaryDirectory() as scratch:
        whole = fast_findings(history.write(Path(scratch) / "whole"))
        assert fast_findings(history.write(Path(scratch) / "cut"), piece_messages=2) == whole


MUTANTS = {
    "moved is kept": ("moved", "kept"),
    "duplicates are kept": ("duplicated", "kept"),
    "losses are dropped unknowns": ("lost", "unknown_dropped"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_notices_a_mutated_kernel(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The comparison can fail: a kernel that mistakes one fate for another is caught."""
    was, becomes = MUTANTS[name]
    decide = checkers.kernel.decide

    def mutant(*given_: Any) -> Any:
        fates = decide(*given_)
        fates.fate[fates.fate == checkers.kernel.FATE[was]] = checkers.kernel.FATE[becomes]
        return fates

    monkeypatch.setattr(checkers.piece, "decide", mutant)

    @settings(SETTINGS, max_examples=400, database=None, phases=[Phase.generate])
    @given(damaged())
    def hunt(history: Damaged) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            model = Counter(
                (c, "t", p, o, w, q) for c, p, o, w, q in model_findings(history.sends, history.logs)
            )
            assert fast_findings(history.write(Path(scratch) / "history")) == model

    with pytest.raises(AssertionError):
        hunt()

"""Correct histories, damaged in known ways: the checker must find exactly the damage."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from checkers.evidence import gather
from checkers.judging.plan import judge_all
from checkers.judging.run import run_here
from checkers.judging.tasks import JudgingContext
from checkers.tables.output import FINDING
from checkers.tables.source import open_source
from tests.blocks import blocks_of_rows
from tests.histories import History
from tests.oracles import model_findings

DAMAGES = (
    "drop", "drop_one", "duplicate", "move", "swap", "corrupt", "corrupt_one", "truncate", "truncate_one",
    "divert", "foreign", "epoch", "replace", "usurp",
)  # fmt: skip

MORE = (
    "nameless", "blank", "blank_one", "retire", "retire_one", "compact", "empty_one", "sent_again",
)  # fmt: skip
"""Damages that only histories with readers and replicas have: the model knows nothing of them."""


class DamagedHistory:
    """A true history of two partitions and three replicas, and what was then done to it."""

    def __init__(self, draw: Any, walks: bool = False) -> None:
        self.sends: list[dict[str, Any]] = []
        self.logs: dict[tuple[int, int], list[dict[str, Any]]] = {}
        self.reads: list[dict[str, Any]] = []
        self.commits: list[tuple[int, int, int]] = []
        self.draw = draw
        self.walks = walks
        seqs = Counter[int]()
        for partition in (0, 1):
            start = draw(st.sampled_from((0, 7, 10**9)))
            log = []
            for _ in range(draw(st.integers(0, 8))):
                writer = draw(st.integers(1, 2))
                outcome = draw(st.sampled_from(("ok", "ok", "ok", "info", "fail", "acks0", "phantom", None)))
                seq = seqs[writer]
                seqs[writer] += 1
                there = outcome in ("ok", "acks0", "phantom") or (outcome != "fail" and draw(st.booleans()))
                row = {"partition": partition, "writer": writer, "seq": seq, "offset": None}
                row["outcome"] = {"acks0": "ok", "phantom": "fail"}.get(outcome, outcome)
                if there:
                    record = {"offset": start + len(log), "epoch": 0, "writer": writer, "seq": seq}
                    log.append(record | {"intact": True})
                    if draw(st.integers(0, 3)) == 3:
                        self.reads.append(record | {"partition": partition})
                    row["offset"] = record["offset"] if outcome == "ok" else None
                self.sends.append(row)
            for broker in (1, 2, 3):
                self.logs[partition, broker] = [dict(record) for record in log]
            if walks and log:
                self.walk(partition, log)
        self.starts: dict[tuple[int, int], int] = {}
        self.compacted: set[int] = set()
        for damage in draw(st.lists(st.sampled_from((*DAMAGES, *MORE) if walks else DAMAGES), max_size=4)):
            self.damage(damage)
        self.told = History()
        if walks:
            self.tell(self.told)

    def walk(self, partition: int, log: list[dict[str, Any]]) -> None:
        """Readers, some of a group, that go on, jump, turn back, and commit."""
        for _ in range(self.draw(st.integers(1, 3))):
            reader = 100 + self.draw(st.integers(0, 3))
            group = "g" if reader > 101 else None
            for _ in range(self.draw(st.integers(1, 6))):
                record = dict(self.draw(st.sampled_from(log)))
                other = self.draw(st.integers(0, 11))
                if other == 0:
                    record |= {"writer": None, "seq": None}
                elif other == 1:
                    record |= {"writer": 9, "seq": self.draw(st.sampled_from((5, record["seq"])))}
                elif other == 2:
                    record["offset"] += self.draw(st.sampled_from((-1, 1, 3)))
                isolation = self.draw(st.sampled_from((None, "read_committed", "read_uncommitted")))
                more = {"partition": partition, "reader": reader, "group": group, "isolation": isolation}
                self.reads.append(record | more | {"offset": max(0, record["offset"])})
                if group is not None and self.draw(st.booleans()):
                    self.commits.append((len(self.reads), partition, record["offset"] + 1))

    def damage(self, kind: str) -> None:
        """One known damage, at a place that is drawn; none where there is nothing to damage."""
        partition = self.draw(st.integers(0, 1))
        logs = {b: log for (p, b), log in self.logs.items() if p == partition}
        offsets = sorted({record["offset"] for log in logs.values() for record in log})
        end = offsets[-1] + 1 if offsets else 0
        if kind == "foreign":
            self.append(partition, end, 9, self.draw(st.sampled_from((0, 77))))
            return
        if kind == "nameless":
            self.append(partition, end, None, None)
            return
        if not offsets:
            return
        at = self.draw(st.sampled_from(offsets))
        one = {"drop_one", "corrupt_one", "truncate_one", "epoch", "replace", "usurp"}
        one |= {"blank_one", "retire_one", "empty_one"}
        brokers = [self.draw(st.integers(1, 3))] if kind in one else [1, 2, 3]
        if kind == "divert":
            other = [r["offset"] for (p, _), log in self.logs.items() if p != partition for r in log]
            record = next(r for log in logs.values() for r in log if r["offset"] == at)
            self.append(1 - partition, max(other, default=-1) + 1, record["writer"], record["seq"])
            kind = "drop"
        elif kind == "sent_again":  # the offset is given to another message, sent later
            seq = max((row["seq"] for row in self.sends if row["writer"] == 2), default=-1) + 1
            self.sends.append(
                {"partition": partition, "writer": 2, "seq": seq, "offset": at, "outcome": "ok"}
            )
        elif kind in ("duplicate", "move"):
            record = next(r for log in logs.values() for r in log if r["offset"] == at)
            self.append(partition, end, record["writer"], record["seq"])
            kind = "drop" if kind == "move" else ""
        if kind == "swap":
            self.swap(partition, at, self.draw(st.sampled_from(offsets)))
        for broker in brokers:
            log = self.logs[partition, broker]
            if kind in ("retire", "retire_one"):
                log[:] = [r for r in log if r["offset"] >= at]
                self.starts[partition, broker] = max(at, self.starts.get((partition, broker), 0))
            elif kind == "empty_one":
                log.clear()
            elif kind == "compact":
                self.compacted.add(partition)
                log[:] = [r for r in log if r["offset"] != at]
            if kind in ("drop", "drop_one"):
                log[:] = [r for r in log if r["offset"] != at]
            elif kind in ("truncate", "truncate_one", "usurp"):
                log[:] = [r for r in log if r["offset"] < at]
            if kind == "usurp" and log:  # it leads on from here, in an epoch of its own
                log[-1]["epoch"] = 1
            for record in log:
                if record["offset"] == at and kind in ("corrupt", "corrupt_one"):
                    record["intact"] = False
                elif record["offset"] == at and kind in ("blank", "blank_one"):
                    record |= {"intact": False, "writer": None, "seq": None}
                elif record["offset"] == at and kind == "sent_again":
                    record |= {"writer": 2, "seq": self.sends[-1]["seq"]}
                elif record["offset"] == at and kind == "epoch":
                    record["epoch"] = 1
                elif record["offset"] == at and kind == "replace":
                    record |= {"writer": 9, "seq": self.draw(st.sampled_from((5, record["seq"])))}

    def tell(self, history: History) -> None:
        """What else a run records: who led, what was at fault, who logged what, who was seen where, when."""
        draw, end = self.draw, 10_000
        times = st.integers(0, end)
        brokers = st.integers(1, 3)
        place = {"topic": "t", "partition": 0}
        for epoch in range(draw(st.integers(0, 3))):
            isr = draw(st.sampled_from(([1, 2, 3], [1], [2, 3])))
            said = {"source": f"broker{draw(brokers)}", "subject": "partition", "leader": draw(brokers)}
            history.add("views", ns=draw(times), epoch=epoch, isr=isr, **said, **place)
        for number in range(draw(st.integers(0, 2))):
            kind = draw(st.sampled_from(("link", "storage", "process")))
            row = {
                "fault": number,
                "name": f"power of broker{number}",
                "kind": kind,
                "targets": '["broker1"]',
            }
            low, high = sorted((draw(times), draw(times)))
            history.add("faults", ns=low, moment="injected", **row)
            history.add("faults", ns=high, moment="healed", **row)
        for _ in range(draw(st.integers(0, 2))):
            kind = draw(st.sampled_from(("truncated", "truncated_to_hw")))
            row = {"host": f"broker{draw(brokers)}", "kind": kind, "offset": draw(st.integers(0, 8))}
            history.add("log_events", ns=draw(times), **row, **place)
        history.add("writers", writer=1, name="one", az="az1", acks=1, idempotent=draw(st.booleans()))
        for txn in (1, 2, 3):
            event = draw(st.sampled_from(("committed", "aborted", "unknown")))
            history.add("transactions", ns=9000, writer=1, txn=txn, event=event)
        for _ in range(draw(st.integers(0, 2))):
            event = draw(st.sampled_from(("sought", "assigned")))
            row = {"group": "g", "reader": draw(st.sampled_from((100, 101, 102, 103))), "event": event}
            where = draw(st.sampled_from((place, place | {"partition": 1}, {})))
            history.add("groups", ns=10 * draw(st.integers(0, 20)) - 4, **row, **where)
        if draw(st.booleans()):
            self.tell_replicas(history)
        for number, row in enumerate(self.sends):
            if draw(st.booleans()):
                gone = draw(st.sampled_from((None, end + number)))
                where = {key: row[key] for key in ("partition", "writer", "seq")} | {"topic": "t"}
                seen = {"broker": draw(brokers), "offset": number, "epoch": 0, "seen_ns": 10 * number}
                history.add("sightings", gone_ns=gone, **seen, **where)
                history.add("sightings", **seen | {"seen_ns": 10 * number + 5, "broker": 3}, **where)

    def tell_replicas(self, history: History) -> None:
        """What is known of each replica at the end."""
        draw = self.draw
        for partition in (0, 1):
            leader = draw(st.sampled_from((None, 1, 2, 3)))
            for broker in (1, 2, 3):
                log = self.logs[partition, broker]
                start = self.starts.get((partition, broker), 0)
                end = max(start, log[-1]["offset"] + 1 if log else 0)
                history.replica(
                    broker,
                    draw(st.sampled_from((True, True, True, False))),
                    partition=partition,
                    leader=broker == leader,
                    in_sync=draw(st.sampled_from((True, True, False, None))),
                    leo=draw(st.sampled_from((end, end, None))),
                    log_start=draw(st.sampled_from((start, start, None))),
                    cleanup="compact" if partition in self.compacted else "delete",
                )

    def append(self, partition: int, offset: int, writer: int | None, seq: int | None) -> None:
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
            if self.walks:
                more |= {"attempts": 1 + row["seq"] % 2, "broker": (None, 1, 2)[row["seq"] % 3]}
                more |= {"txn": (None, 1, 2, 3)[row["seq"] % 4]}
            history.send(row["seq"], row["outcome"], row["offset"], **more)
        for (partition, broker), log in self.logs.items():
            history.log(broker, log, partition=partition)
        for number, row in enumerate(self.reads):
            more = {key: row.get(key) for key in ("partition", "writer", "group", "isolation")}
            history.read(
                row["offset"], row["seq"], 10 * number, reader=row.get("reader", 1000 + number), **more
            )
        for after, partition, offset in self.commits:
            row = {"ns": 10 * after - 5, "group": "g", "reader": 102, "event": "committed", "topic": "t"}
            history.add("groups", **row, partition=partition, offset=offset)
        if self.walks:
            for name, rows in self.told.rows.items():
                history.rows.setdefault(name, []).extend(rows)
        return history.write(folder)

    def model(self) -> Counter[tuple[Any, ...]]:
        """What there is to find, by brute force."""
        findings = model_findings(self.sends, self.logs, self.reads)
        return Counter((c, "t", p, o, w, q) for c, p, o, w, q in findings)


@st.composite
def damaged(draw: Any) -> DamagedHistory:
    return DamagedHistory(draw)


def findings_of(folder: Path, *, split_rows: int = 1_000_000) -> Counter[tuple[Any, ...]]:
    """Judged without Spark: the same tasks, one after the other."""
    out = folder / "out"
    for place in (out, folder / "life"):
        place.mkdir()
    source = open_source(folder)
    job = JudgingContext(source=source, evidence=gather(source), life=str(folder / "life"), findings=str(out))
    counts = judge_all(run_here, job, split_rows=split_rows)
    parts = [pq.read_table(path) for path in sorted(out.glob("*.parquet"))]
    findings = pa.concat_tables([FINDING.empty_table(), *parts])
    by_class = {row["name"]: 0 for row in counts.to_pylist() if row["kind"] == "finding"}
    for row in counts.to_pylist():
        if row["kind"] == "finding":
            by_class[row["name"]] += row["count"]
    assert by_class == Counter(findings["class"].to_pylist()), "findings are counted as they are written"
    columns = ["class", "topic", "partition", "offset", "writer", "seq"]
    return Counter(tuple(row.values()) for row in findings.select(columns).to_pylist())


@st.composite
def walked(draw: Any) -> DamagedHistory:
    return DamagedHistory(draw, walks=True)


def life_of(folder: Path) -> list[dict[str, Any]]:
    """What `findings_of` laid down about each message, before strays are settled."""
    parts = [pq.read_table(path) for path in sorted((folder / "life").glob("*.parquet"))]
    return [row for part in parts for row in part.to_pylist()]


def fates_of(folder: Path) -> Counter[tuple[Any, ...]]:
    """The columns of `life_of` that tell what became of a message."""
    columns = ("topic", "partition", "writer", "seq", "outcome", "offset", "copies", "found_offset", "fate")
    return Counter(tuple(row[column] for column in columns) for row in life_of(folder))


def check(history: DamagedHistory) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = history.write(Path(scratch) / "history")
        model = history.model()
        assert findings_of(folder) == model


SETTINGS = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], derandomize=True
)


@settings(SETTINGS, max_examples=8)
@given(damaged())
def test_finds_exactly_the_damage(history: DamagedHistory) -> None:
    check(history)


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
@pytest.mark.timeout(3600)
def test_finds_exactly_the_damage_ten_thousand_times(part: int) -> None:
    """A thousand histories in each part; parts run side by side, or one alone (`-k "times[3]"`)."""

    @seed(part)
    @settings(SETTINGS, max_examples=1000, derandomize=False, database=None)
    @given(damaged())
    def find(history: DamagedHistory) -> None:
        check(history)

    find()


@settings(SETTINGS, max_examples=7)
@given(walked())
def test_blocks_and_split_files_find_the_same(history: DamagedHistory) -> None:
    """Two rows at a time, from files that were split by partition."""
    with tempfile.TemporaryDirectory() as scratch:
        together, in_blocks = (history.write(Path(scratch) / name) for name in ("together", "blocks"))
        expected = findings_of(together)
        with blocks_of_rows(2):
            assert findings_of(in_blocks, split_rows=5) == expected
        assert fates_of(in_blocks) == fates_of(together)

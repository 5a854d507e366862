"""Merging is a pure function: the order of the pieces, and where they were cut, change nothing."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.evidence import SMALL, evidence_of
from checkers.fast.merge import jumps, later_lows, log_ends, merge, taken_offsets
from checkers.fast.tasks import (
    CLAIMS,
    CLASSES,
    FATES,
    OFFSET_SPANS,
    PASSED,
    RECORDS,
    STEPS,
    UNSENT,
    KeyResult,
    OffsetResult,
    PassedResult,
    ReadOrderResult,
    decode,
    encode,
)
from checkers.partition.fate import FATES as ALL_FATES
from checkers.partition.fates import Fates, out_of_order
from checkers.partition.logs import PartitionReplicas
from checkers.partition.messages import Sends
from checkers.partition.replicas import BEGIN, LENGTH
from harness.history.schema import TABLES

PARTITION = PartitionReplicas(topic="t", number=0, conclusive=False)
NOTHING = evidence_of({name: TABLES[name].arrow().empty_table() for name in SMALL})
NUMBERS = st.integers(0, 6)


def rows_of(schema: pa.Schema, **columns: Any) -> Any:
    """Rows of a result's table."""
    return st.lists(st.fixed_dictionaries(columns), max_size=12).map(
        lambda rows: pa.Table.from_pylist(rows, schema=schema)
    )


fate_rows = rows_of(
    FATES,
    writer=NUMBERS,
    outcome=st.sampled_from(("ok", "info")),
    fate=st.sampled_from([fate.name for fate in ALL_FATES]),
    count=st.integers(1, 9),
)
class_rows = rows_of(CLASSES, **{"class": st.sampled_from(("lost", "moved")), "count": st.integers(1, 9)})
end_rows = rows_of(
    RECORDS,
    kind=st.sampled_from((LENGTH, BEGIN)),
    broker=st.integers(1, 3),
    offset=NUMBERS,
    epoch=st.just(0),
    writer=NUMBERS,
    seq=NUMBERS,
    count=st.integers(1, 9),
)
step_rows = rows_of(
    STEPS,
    reader=NUMBERS,
    group=st.sampled_from((None, "g")),
    offset=NUMBERS,
    writer=NUMBERS,
    seq=NUMBERS,
    ns=st.integers(0, 99),
    uncommitted=st.booleans(),
    back=st.booleans(),
    low=NUMBERS,
    since_ns=st.just(0),
    until_ns=st.just(99),
)
unsent_rows = rows_of(
    UNSENT,
    offset=NUMBERS,
    ns=st.integers(0, 99),
    writer=st.sampled_from((-1, 3)),
    seq=st.sampled_from((-1, 3)),
    reader=st.sampled_from(("reader 1", "group g")),
)


def pieces(table: pa.Table, at: list[int]) -> list[pa.Table]:
    """A table cut at some rows, in any order."""
    bounds = [0, *sorted(min(cut, table.num_rows) for cut in at), table.num_rows]
    return [table.slice(low, high - low) for low, high in zip(bounds, bounds[1:], strict=False)]


def content(table: pa.Table) -> Counter[str]:
    return Counter(str(row) for row in table.to_pylist())


@settings(deadline=None, derandomize=True)
@given(
    fates=fate_rows,
    classes=class_rows,
    steps=step_rows,
    unsent=unsent_rows,
    at=st.lists(st.integers(0, 12), max_size=4),
    order=st.randoms(use_true_random=False),
    data=st.data(),
)
def test_cut_anywhere_and_in_any_order(
    fates: pa.Table,
    classes: pa.Table,
    steps: pa.Table,
    unsent: pa.Table,
    at: list[int],
    order: random.Random,
    data: Any,
) -> None:
    count = len(jumps([ReadOrderResult(steps=steps)]))
    numbers = st.integers(0, max(0, count - 1))
    passed = data.draw(
        rows_of(PASSED, jump=numbers, count=st.integers(1, 9), offset=NUMBERS, writer=NUMBERS, seq=NUMBERS)
    ).slice(0, 12 if count else 0)
    whole = merge(
        PARTITION,
        NOTHING,
        keys=[KeyResult(fates=fates, findings=classes)],
        offsets=[],
        windows=[ReadOrderResult(steps=steps, unsent=unsent)],
        passed=[PassedResult(passed=passed)],
    )
    keys = [KeyResult(fates=table) for table in pieces(fates, at)]
    offsets = [OffsetResult(findings=table) for table in pieces(classes, at)]
    windows = [ReadOrderResult(steps=table) for table in pieces(steps, at)]
    windows += [ReadOrderResult(unsent=table) for table in pieces(unsent, at)]
    answers = [PassedResult(passed=table) for table in pieces(passed, at)]
    for results in (keys, offsets, windows, answers):
        order.shuffle(results)  # type: ignore[arg-type]
    merged = merge(PARTITION, NOTHING, keys=keys, offsets=offsets, windows=windows, passed=answers)
    assert content(merged.fates) == content(whole.fates)
    assert content(merged.classes()) == content(whole.classes())
    firsts = ["class", "topic", "partition", "offset", "count"]
    assert content(merged.findings.select(firsts)) == content(whole.findings.select(firsts))
    assert sum(merged.fates["count"].to_pylist()) == sum(fates["count"].to_pylist())


@settings(deadline=None, derandomize=True)
@given(ends=end_rows, at=st.lists(st.integers(0, 12), max_size=4), order=st.randoms(use_true_random=False))
def test_the_end_of_a_log_is_one_record(ends: pa.Table, at: list[int], order: random.Random) -> None:
    parts = pieces(ends, at)
    order.shuffle(parts)
    found = log_ends(parts)
    rows = ends.to_pylist()
    expected = {
        (kind, broker): (min(offsets), sum(counts))
        for kind, broker in {(row["kind"], row["broker"]) for row in rows}
        if (mine := [row for row in rows if (row["kind"], row["broker"]) == (kind, broker)])
        and (offsets := [row["offset"] for row in mine])
        and (counts := [row["count"] for row in mine])
    }
    told = zip(found.kind, found.broker, found.offset, found.count, strict=True)
    assert {(int(k), int(b)): (int(o), int(c)) for k, b, o, c in told} == expected


@settings(deadline=None, derandomize=True)
@given(
    offsets=st.lists(st.integers(0, 99), unique=True, max_size=12),
    writers=st.lists(st.integers(1, 2), min_size=12, max_size=12),
    at=st.lists(st.integers(0, 12), max_size=5),
)
def test_order_across_ranges_is_order_in_the_whole(
    offsets: list[int], writers: list[int], at: list[int]
) -> None:
    """Messages 0, 1, 2, ... at ``offsets``: each range learns what it must of the later ones."""
    count = len(offsets)
    late, _ = out_of_order(*arrays(range(count), offsets, writers), {})
    bounds = [0, *sorted(min(cut, count) for cut in at), count]
    ranges = [range(low, high) for low, high in zip(bounds, bounds[1:], strict=False)]
    judged = [arrays(mine, [offsets[n] for n in mine], [writers[n] for n in mine]) for mine in ranges]
    spans = [
        pa.Table.from_pylist([vars(span) for span in out_of_order(*one, {})[1]], schema=OFFSET_SPANS)
        for one in judged
    ]
    found = [
        mine[row]
        for mine, one, later in zip(ranges, judged, later_lows(spans), strict=True)
        for row in out_of_order(*one, later)[0].tolist()
    ]
    assert sorted(found) == sorted(late.tolist())


def arrays(seqs: Any, offsets: list[int], writers: list[int]) -> tuple[Sends, Fates]:
    """Kept messages at some offsets."""
    count = len(offsets)
    numbers, nothing = np.array(offsets, dtype=np.int64), np.zeros(count, dtype=np.int64)
    sends = Sends(
        writer=np.array(writers[:count], dtype=np.int64),
        seq=np.array(list(seqs), dtype=np.int64),
        outcome=nothing,
        offset=numbers,
        sent_ns=nothing,
        aborted=nothing.astype(bool),
        visible=nothing.astype(bool),
        withheld=nothing.astype(bool),
        transaction=nothing - 1,
    )
    fates = Fates(
        fate=nothing,
        copies=nothing + 1,
        found_offset=numbers,
        found_epoch=nothing,
        extra_offset=nothing - 1,
        holders=nothing + 1,
        overwriter=nothing - 1,
        removal=nothing - 1,
        reads=nothing,
    )
    return sends, fates


def test_an_unreadable_record_belongs_to_the_newest_message_of_all_ranges() -> None:
    def claims(*rows: tuple[int, int]) -> pa.Table:
        listed = [{"offset": o, "sent_ns": ns, "writer": 1, "seq": ns} for o, ns in rows]
        return pa.Table.from_pylist(listed, schema=CLAIMS)

    taken = taken_offsets([claims((3, 10), (4, 40)), claims((3, 20)), claims((3, 15), (4, 30), (5, 1))])
    assert [offsets.tolist() for offsets in taken] == [[3], [], [3, 4]]


@settings(deadline=None, derandomize=True)
@given(fates=fate_rows, classes=class_rows)
def test_results_travel_as_they_are(fates: pa.Table, classes: pa.Table) -> None:
    sent = {
        0: KeyResult(fates=fates, findings=classes),
        7: ReadOrderResult(),
        3: OffsetResult(findings=classes),
    }
    read = decode(pa.Table.from_batches([encode(task, result) for task, result in sent.items()]))
    assert read == sent

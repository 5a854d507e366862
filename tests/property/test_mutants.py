"""The tests can fail: a checker that is wrong in one place is caught by histories that are known.

Each mutant is one edit in the source of one function. It is shown the hand-written histories and damaged ones
that hypothesis makes, and must be caught by those that are named with it.
"""

from __future__ import annotations
import __future__

import inspect
import tempfile
import textwrap
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from hypothesis import Phase, given, settings

from checkers.fast import cut as pieces
from checkers.fast import rows, strays
from checkers.health import CLASSES
from checkers.partition import consumers as reading
from checkers.partition import fates as kernel
from checkers.partition import replicas as compare
from checkers.partition.keys import KeyIndex
from checkers.tables import arrays
from harness.errors import BadDataError
from tests.histories import together
from tests.property.test_checker import SETTINGS, Damaged, damaged, fast_findings
from tests.spark.anomalies import CASES, LISTED


@dataclass(frozen=True)
class Mutant:
    """An edit of a function's source, and the histories that must notice it."""

    function: Callable[..., Any]
    was: str
    becomes: str
    by: tuple[str, ...]
    """`written`: hand-written, `damaged`: made by hypothesis, `cut`: the same in pieces of two messages."""


MUTANTS = {
    "a read loss is a plain loss": Mutant(
        kernel.decide, "fate[absent & (read > 0)]", "fate[absent & (read > 9)]", ("written", "damaged")
    ),
    "two copies are no duplicate": Mutant(
        kernel.decide, "fate[(outcome != FAIL) & (copies > 1)]", "fate[(outcome != FAIL) & (copies > 2)]",
        ("written", "damaged"),
    ),
    "an unknown outcome is never a duplicate": Mutant(
        kernel.decide, "(outcome != FAIL) & (copies > 1)", "(outcome == OK) & (copies > 1)",
        ("written", "damaged"),
    ),
    "a phantom counts as failed": Mutant(
        kernel.decide, '(outcome == FAIL) & present] = FATE["phantom"]',
        '(outcome == FAIL) & present] = FATE["failed"]', ("written", "damaged"),
    ),
    "only what moved forward has moved": Mutant(
        kernel.decide, "(found_offset != offset)", "(found_offset > offset)", ("written", "damaged")
    ),
    "what the leader lacks is lost": Mutant(
        kernel.decide, "present = holders != 0", "present = copies != 0", ("written", "damaged")
    ),
    "a longer log beats a newer epoch": Mutant(
        kernel._most_advanced, "(*ends[broker], -broker)", "(ends[broker][1], -broker)", ("damaged",)
    ),
    "the final read is always whole": Mutant(
        kernel.choose_reference, "conclusive = not leaders and", "conclusive = True or", ("written",)
    ),
    "unknown messages are taken for known ones": Mutant(
        KeyIndex.find, "return np.where(known, found, np.int32(-1))", "return found", ("written", "damaged")
    ),
    "replicas may differ in the writer": Mutant(
        compare._against, "log.writer[mine] != reference.writer[theirs]", "log.writer[mine] < 0", ("written",)
    ),
    "replicas may differ in the sequence": Mutant(
        compare._against, "log.seq[mine] != reference.seq[theirs]", "log.seq[mine] < 0", ("written",)
    ),
    "replicas may differ in epoch": Mutant(
        compare._against, "EPOCH, log, renewed)", "EPOCH, log, renewed[:0])", ("written", "damaged")
    ),
    "a short replica is reported record by record": Mutant(
        compare._missing, "LENGTH, reference, tail[:1]", "LENGTH, reference, tail", ("written", "damaged")
    ),
    "order is checked towards earlier messages": Mutant(
        compare.out_of_order, "np.minimum.accumulate", "np.maximum.accumulate", ("written", "damaged")
    ),
    "retention explains any loss": Mutant(
        kernel._explain_absence, "sends.offset[where] < start", "sends.offset[where] < start + 99",
        ("written", "damaged"),
    ),
    "readers may skip": Mutant(
        reading.sequence_rows, "np.flatnonzero(same & (step > 1))", "np.flatnonzero(same & (step > 9))",
        ("written",),
    ),
    "readers may be handed what was dropped": Mutant(
        reading.content_rows, 'FATE["unknown_dropped"], FATE["failed"]', 'FATE["failed"]',
        ("written", "damaged"),
    ),
    "any stray is foreign": Mutant(
        strays._settle, 'pc.if_else(elsewhere, "misrouted", "foreign")', '"foreign"', ("damaged",)
    ),
    "a stray is told beside the message it replaced": Mutant(
        rows.stray_rows, "fresh = ~np.isin(distinct, sends.offset[told])", "fresh = distinct >= 0",
        ("written", "damaged"),
    ),
    "damage at another partition's name goes unseen": Mutant(
        arrays.at_home, "np.append(pc.equal(", "np.append(pc.not_equal(", ("written",)
    ),
    "order is not looked at across pieces": Mutant(
        pieces.crossings, "if any(high > later.get(writer, high)", "if any(high > (1 << 62)", ("cut",)
    ),
    "a short replica is reported by every piece": Mutant(
        pieces._end_once, "keep.append(not end or", "keep.append(True or", ("cut",)
    ),
}  # fmt: skip


def mutated(mutant: Mutant) -> FunctionType:
    """The function with its edit; its globals are those of the original."""
    source = textwrap.dedent(inspect.getsource(mutant.function))
    assert source.count(mutant.was) == 1, f"{mutant.was!r} must stand once in {mutant.function.__name__}"
    made: dict[str, Any] = {}
    edited = source.replace(mutant.was, mutant.becomes)
    code = compile(edited, "<mutant>", "exec", flags=__future__.annotations.compiler_flag)
    exec(code, mutant.function.__globals__, made)
    function = made[mutant.function.__name__]
    assert isinstance(function, FunctionType)
    return function


def notices_written() -> bool:
    """Whether a hand-written history is judged in another way than its sentence says."""
    for cases in (CASES, LISTED):
        with tempfile.TemporaryDirectory() as scratch:
            histories = {name: history for name, (_, history, _) in cases.items()}
            try:
                found = fast_findings(together(histories, Path(scratch) / "history"))
            except BadDataError:
                return True
        expected = Counter(
            (c, name, o)
            for name, (_, _, all_) in cases.items()
            for c, o, _ in all_
            if c not in CLASSES  # these are of the run, and no kernel's
        )
        if Counter((row[0], row[1], row[3]) for row in found) != expected:
            return True
    return False


def notices_damaged(piece_messages: int) -> bool:
    """Whether any of 400 damaged histories is judged in another way than by brute force."""

    @settings(SETTINGS, max_examples=400, database=None, phases=[Phase.generate])
    @given(damaged())
    def hunt(history: Damaged) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            folder = history.write(Path(scratch) / "history")
            assert fast_findings(folder, piece_messages=piece_messages) == history.model()

    try:
        hunt()
    except (AssertionError, BadDataError, IndexError):
        return True
    return False


LOOKS: dict[str, Callable[[], bool]] = {
    "written": notices_written,
    "damaged": lambda: notices_damaged(1_000_000),
    "cut": lambda: notices_damaged(2),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    mutant = MUTANTS[name]
    monkeypatch.setattr(mutant.function, "__code__", mutated(mutant).__code__)
    missed = [by for by in mutant.by if not LOOKS[by]()]
    assert not missed, f"not noticed by histories that are {missed}"


def test_nothing_is_caught_where_nothing_is_wrong() -> None:
    assert not notices_written()

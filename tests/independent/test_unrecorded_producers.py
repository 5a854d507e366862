"""Histories whose producers nobody recorded: replicas are compared, and nothing is foreign."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

from tests.independent.compare import Case, compare, in_words, judge
from tests.independent.generate import generate
from tests.independent.layout import plain
from tests.independent.model import History
from tests.independent.truth import truth_of

SEED = 7
HISTORIES = range(2000, 2060)


def _without_producers(number: int) -> History:
    """A damaged history without its producers. Records that name no message have the CRC of their batches."""
    random = Random(f"{SEED}/{number}/batches")
    history, _ = generate(SEED, number)
    for name in ("sends", "writers", "transactions"):
        history[name] = []
    for row in history["copies"]:
        if row.get("writer") is not None and random.random() < 0.3:
            row["writer"] = row["seq"] = None
        if random.random() < 0.9:
            row["crc"] = row["offset"] % 2**31 + (random.random() < 0.1)
    return history


def test_replicas_are_compared_and_nothing_is_foreign(tmp_path: Path) -> None:
    lies = plain(0)
    found: Counter[str] = Counter()
    for number in HISTORIES:
        case = Case(number, 0, lies.strip(_without_producers(number)), [])
        judge(None, [case], lies, tmp_path / "history")
        mismatches = compare(case)
        assert not mismatches, (number, in_words(mismatches), mismatches)
        found.update(finding.name for finding in truth_of(case.history).findings)
    assert {"diverged", "corrupt"} <= found.keys()
    assert not {"foreign", "misrouted", "aborted_read"} & found.keys(), found

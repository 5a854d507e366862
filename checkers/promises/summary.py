"""Counts of findings by the row of the promise table that decided them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from checkers.promises.judging import PROMISE_COLUMNS
from checkers.promises.table import BY_NAME

ORDER = ("broken", "unknown", "not promised")
"""What a promise may be, worst first."""


COUNTED_DDL = (
    ", ".join(f"`{name}` string" for name in ("class", *PROMISE_COLUMNS))
    + ", `expected` boolean, count bigint"
)
"""The columns of `counted` as Spark DDL."""


def counted(findings: pa.Table) -> pa.Table:
    """Judged findings by class, the columns about promises, and `expected`, with a column `count`."""
    keys = ["class", *PROMISE_COLUMNS, "expected"]
    counts = findings.group_by(keys, use_threads=False).aggregate([([], "count_all")])
    return pa.table({name: counts[name] for name in keys} | {"count": counts["count_all"]})


def described(counts: pa.Table) -> tuple[Mapping[str, Any], ...]:
    """Rows of promise, row, class, known_bug, why and count, broken promises first, then the most frequent.

    ``why`` is the row of the table in half a sentence, or what is missing if the promise is unknown.
    """
    count_by_key: Counter[tuple[str, str | None, str, str | None, str]] = Counter()
    for entry in counts.to_pylist():
        promise, row = entry["promise"], entry["promise_row"]
        decided = promise != "unknown" and row in BY_NAME
        why = BY_NAME[row].brief if decided else entry["promise_reason"]
        count_by_key[promise, row, entry["class"], entry["known_bug"], why] += entry["count"]
    names = ("promise", "row", "class", "known_bug", "why")
    rows = [dict(zip(names, key, strict=True)) | {"count": count} for key, count in count_by_key.items()]
    return tuple(sorted(rows, key=lambda row: (ORDER.index(row["promise"]), -row["count"], str(row["row"]))))


def expected_by_class(counts: pa.Table) -> dict[str, int]:
    """How many findings of each class are expected."""
    count_by_class: Counter[str] = Counter()
    for entry in counts.filter(counts["expected"]).to_pylist():
        count_by_class[entry["class"]] += entry["count"]
    return dict(count_by_class)

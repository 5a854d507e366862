"""What tasks tell the driver arrives as it was sent."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.judging.tasks import CLASS_COUNTS, FATE_COUNTS, TaskResult, decode, encode
from checkers.partition.fate import FATES

NUMBERS = st.integers(0, 6)


def rows_of(schema: pa.Schema, **columns: Any) -> Any:
    """Rows of a result's table."""
    return st.lists(st.fixed_dictionaries(columns), max_size=12).map(
        lambda rows: pa.Table.from_pylist(rows, schema=schema)
    )


fate_rows = rows_of(
    FATE_COUNTS,
    writer=NUMBERS,
    outcome=st.sampled_from(("ok", "info")),
    fate=st.sampled_from([fate.name for fate in FATES]),
    count=st.integers(1, 9),
)
class_rows = rows_of(
    CLASS_COUNTS, **{"class": st.sampled_from(("lost", "moved")), "count": st.integers(1, 9)}
)


@settings(deadline=None, derandomize=True)
@given(fates=fate_rows, classes=class_rows)
def test_results_travel_as_they_are(fates: pa.Table, classes: pa.Table) -> None:
    sent = {0: TaskResult(fates=fates, findings=classes), 7: TaskResult(), 3: TaskResult(findings=classes)}
    read = decode(pa.Table.from_batches([encode(task, result) for task, result in sent.items()]))
    assert read == sent

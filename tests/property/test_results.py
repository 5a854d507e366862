"""What tasks tell the driver arrives as it was sent."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.judging.tasks import CLASSES, FATES, Result, decode, encode
from checkers.partition.fate import FATES as ALL_FATES

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


@settings(deadline=None, derandomize=True)
@given(fates=fate_rows, classes=class_rows)
def test_results_travel_as_they_are(fates: pa.Table, classes: pa.Table) -> None:
    sent = {0: Result(fates=fates, findings=classes), 7: Result(), 3: Result(findings=classes)}
    read = decode(pa.Table.from_batches([encode(task, result) for task, result in sent.items()]))
    assert read == sent

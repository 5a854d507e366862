"""The mechanisms of faults are a fixed list; the column that holds them is optional."""

from __future__ import annotations

from harness.history.document import document
from harness.history.mechanisms import MECHANISMS
from harness.history.schema import TABLES


def test_every_mechanism_is_documented_once() -> None:
    page = document()
    for name, mechanism in MECHANISMS.items():
        assert page.count(f"| `{name}` | {mechanism.says} |") == 1


def test_histories_without_the_column_stay_readable() -> None:
    (column,) = (c for c in TABLES["faults"].columns if c.name == "mechanism")
    assert column.kind == "text"
    assert not column.required

"""Each row of the promise table decides a hand-written run, and a change of the table is seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from checkers.promises.bugs import KNOWN
from checkers.promises.conditions import CONDITIONS, Answer, Condition
from checkers.promises.document import document
from checkers.promises.facts import Message, RunFacts
from checkers.promises.judging import PROMISE_COLUMNS, PromiseJudgement, judge, with_promises
from checkers.promises.table import BY_NAME, ROWS, STATEMENTS, PromiseRow
from checkers.tables.output import FINDING, FINDINGS
from tests.unit.promises.cases import BUGS, CASES
from tests.unit.promises.runs import S, finding

PAGE = Path(__file__).resolve().parents[3] / "docs" / "promises.md"
EVERY = CASES | BUGS


@pytest.mark.parametrize("name", EVERY)
def test_a_finding_is_judged_by_its_row(name: str) -> None:
    expected = EVERY[name]()
    judged = expected.run.judge(expected.finding, **expected.more)
    assert (judged.promise, judged.row, judged.known_bug) == (expected.promise, expected.row, expected.bug), (
        judged
    )
    assert judged.reason


def test_every_row_decides_a_run_and_every_class_has_rows() -> None:
    decided = {case().row for case in CASES.values() if case().promise != "unknown"}
    assert decided == set(BY_NAME)
    assert len(BY_NAME) == len(ROWS)
    assert {name for row in ROWS for name in row.classes} == set(FINDINGS) - {"undetermined"}


def test_rows_bugs_and_conditions_name_each_other() -> None:
    asked = [*(name for row in ROWS for name in row.when), *(name for bug in KNOWN for name in bug.when)]
    assert {name.removeprefix("not ") for name in asked} == set(CONDITIONS)
    assert all(row.sources and row.says and row.brief for row in ROWS)
    assert not set(BY_NAME) & {statement.name for statement in STATEMENTS}
    assert {case().bug for case in BUGS.values()} - {None} == {bug.name for bug in KNOWN}


@cache
def _findings() -> list[tuple[Mapping[str, Any], RunFacts]]:
    cases = [case() for case in EVERY.values()]
    return [(finding(case.finding, **case.more), case.run.facts()) for case in cases]


def _judged(rows: tuple[PromiseRow, ...]) -> list[PromiseJudgement]:
    return [judge(row, facts, rows) for row, facts in _findings()]


def _outcomes(rows: tuple[PromiseRow, ...]) -> list[tuple[str, str | None]]:
    return [judged[:2] for judged in _judged(rows)]


def _mutants() -> list[tuple[str, tuple[PromiseRow, ...]]]:
    """The table with a row missing, with the opposite verdict, or without one of its conditions."""
    mutants = []
    for place, row in enumerate(ROWS):
        before, after = ROWS[:place], ROWS[place + 1 :]
        mutants.append((f"without {row.name}", (*before, *after)))
        mutants.append((f"opposite {row.name}", (*before, replace(row, promised=not row.promised), *after)))
        for name in row.when:
            when = tuple(other for other in row.when if other != name)
            mutants.append((f"{row.name} without `{name}`", (*before, replace(row, when=when), *after)))
    return mutants


@pytest.fixture(scope="module")
def right() -> list[tuple[str, str | None]]:
    return _outcomes(ROWS)


@pytest.mark.parametrize(("rows",), [(rows,) for _, rows in _mutants()], ids=[name for name, _ in _mutants()])
def test_a_changed_table_is_seen(rows: tuple[PromiseRow, ...], right: list[tuple[str, str | None]]) -> None:
    assert _outcomes(rows) != right


@pytest.mark.parametrize("name", CONDITIONS)
@pytest.mark.parametrize("holds", [True, False, None])
def test_a_changed_condition_is_seen(
    name: str, holds: bool | None, right: list[tuple[str, str | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A condition that always gives the same answer: some run is judged differently."""
    fixed = replace(CONDITIONS[name], asked=lambda case: Answer(holds, "fixed"))
    monkeypatch.setitem(cast("dict[str, Condition]", CONDITIONS), name, fixed)
    bugs = [row[3] for row in _judged(ROWS)]
    assert _outcomes(ROWS) != right or bugs != [case().bug for case in EVERY.values()]


def test_the_page_is_current() -> None:
    remedy = "run `python -m checkers.promises.document > docs/promises.md`"
    assert PAGE.read_text(encoding="utf-8") == document(), remedy


def _variations(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Findings that differ from one in a column that may matter."""
    changes: list[dict[str, Any]] = [
        {},
        {"acked_ns": None},
        {"acked_by": 2},
        {"acked_by": None},
        {"writer": 2},
    ]
    changes += [{"seq": 1}, {"offset": 7}, {"offset": None}, {"brokers": [2]}, {"brokers": [1, 2]}]
    changes += [
        {"cause": "isr_change_unanswered"},
        {"detail": '{"difference": "log_ends_earlier"}'},
        {"topic": "u"},
    ]
    changes += [{"acked_ns": seconds * S} for seconds in (4, 11, 14, 17, 33, 50)]
    return [dict(row) | change for change in changes]


@pytest.mark.parametrize("name", EVERY)
def test_findings_are_judged_together_as_they_are_one_by_one(name: str) -> None:
    case = EVERY[name]()
    facts = replace(
        case.run.facts(), messages={**case.run.messages, (1, 1): Message(outcome="fail", sessions=2)}
    )
    rows = [row for row in _variations(finding(case.finding, **case.more)) for _ in range(2)]
    together = (
        with_promises(pa.Table.from_pylist(rows, schema=FINDING), facts).select(PROMISE_COLUMNS).to_pylist()
    )
    assert [tuple(row.values()) for row in together] == [tuple(judge(row, facts)) for row in rows]

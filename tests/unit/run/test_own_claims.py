"""The SQL of own scenarios is checked before anything starts: what Spark refuses is named with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from run import claims
from run.catalogue import find
from run.claims import require_sql
from tests.unit.run.own import CLAIM, write

GIVEN = CLAIM.replace("holds=", "given='SELECT 1', holds=")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, cache_folder: Path) -> list[Any]:
    """What Spark is asked; it refuses the queries that `refusing` names."""
    calls: list[Any] = []
    refusing: dict[str, str] = {}

    def ask(declared: list[dict[str, Any]]) -> list[dict[str, str]]:
        calls.append(declared)
        return [refusing for _ in declared]

    monkeypatch.setattr(claims, "_ask", ask)
    calls.append(refusing)
    return calls


def test_the_catalogue_is_not_asked_about(asked: list[Any]) -> None:
    require_sql([find("no-fault")])
    assert asked[1:] == []


def test_what_was_understood_is_not_asked_again(asked: list[Any], tmp_path: Path) -> None:
    """Until the SQL changes."""
    scenario = find(str(write(tmp_path)))
    require_sql([scenario])
    require_sql([scenario])
    assert len(asked[1:]) == 1
    require_sql([find(str(write(tmp_path, claims=GIVEN)))])
    assert len(asked[1:]) == 2


def test_claims_for_one_client_are_asked_about_too(asked: list[Any], tmp_path: Path) -> None:
    of_java = CLAIM.replace("holds=", "client='java', holds=")
    require_sql([find(str(write(tmp_path, claims=of_java)))])
    assert [[claim["name"] for claim in one["claims"]] for one in asked[1]] == [[], ["true"]]


@pytest.mark.parametrize(
    ("query", "line", "what"),
    [
        ("true", 10, "claim 'true'"),
        ("true (given)", 10, r"claim 'true' \(given\)"),
        ("expected 1", 11, "the expected finding 'lost'"),
    ],
)
def test_sql_that_is_refused_is_named_each_time(
    asked: list[Any], tmp_path: Path, query: str, line: int, what: str
) -> None:
    asked[0][query] = "There is no column fatal."
    expected = "expected=(Expected(finding='lost', where='fatal', because=''),),"
    scenario = find(str(write(tmp_path, claims=GIVEN, more=expected)))
    for _ in range(2):
        with pytest.raises(
            UsageError,
            match=rf"my_case.py:{line}: the SQL of {what} .*: There is no column fatal; correct it\.$",
        ):
            require_sql([scenario])

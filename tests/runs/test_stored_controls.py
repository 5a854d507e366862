"""Every claim of the catalogue on a stored run: as declared, but never without the events that it describes.

The controls of `acked check --control` are applied to one stored run of each scenario, with the claims that
the scenario has today.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from checkers.control import first_injection_ns, held_claims, write_deaf, write_silence
from checkers.tables.source import open_source
from harness.run.catalogue import all_scenarios
from tests.runs.store import COMMAND, STORED
from tests.runs.stored import (
    StoredRun,
    all_stored,
    judge_here,
    other_versions,
    read_stored,
    stored_names,
    write_tables,
    written,
)

MEGABYTE = 1_000_000


def _variants_long(names: Iterable[str]) -> list[Any]:
    """Scenarios as parameters of a test; what varies another of them belongs to `make test-all`."""
    known = set(names)
    return [
        pytest.param(name, marks=pytest.mark.long) if _varies(name, known) else name for name in sorted(known)
    ]


def _varies(name: str, known: set[str]) -> bool:
    return name.removeprefix("kraft-") in known - {name} or any(name.startswith(f"{one}-") for one in known)


OTHER_VERSIONS = [pytest.param(name, marks=pytest.mark.long) for name in other_versions()]


@pytest.fixture(scope="module", params=[*_variants_long(all_scenarios()), *OTHER_VERSIONS])
def run(request: pytest.FixtureRequest) -> StoredRun:
    if request.param not in all_stored():
        pytest.fail(f"no run of {request.param} is stored; run it and store it: {COMMAND}")
    return read_stored(request.param)


@pytest.fixture(scope="module")
def history(run: StoredRun) -> Iterator[Path]:
    with written(run.tables) as folder:
        yield folder


def held(run: StoredRun, history: Path) -> list[str]:
    """Claims that are confirmed, or whose erratum holds, but are no preconditions."""
    judged = [claim for claim in judge_here(history, run.declared) if claim.name in run.claims]
    assert len(judged) == len(run.claims)
    return [f"{claim.name}, by {claim.by}: {claim.observed}" for claim in held_claims(judged)]


def test_a_stored_run_is_as_declared(run: StoredRun, history: Path) -> None:
    wrong = [claim for claim in judge_here(history, run.declared) if not claim.as_declared]
    shown = [f"{claim.name} is {claim.status}: {claim.observed}" for claim in wrong]
    assert not shown, f"mend the claim, or store a newer run: {COMMAND}"


def test_every_claim_is_unknown_in_silence(run: StoredRun, history: Path, tmp_path: Path) -> None:
    """Nor is it refuted: what nobody observed is unknown."""
    write_silence(open_source(history), tmp_path)
    assert held(run, tmp_path) == []
    judged = [claim for claim in judge_here(tmp_path, run.declared) if claim.name in run.claims]
    decided = [
        f"{claim.name} is {claim.status}: {claim.observed}"
        for claim in judged
        if claim.status != "unknown" or (claim.erratum or {}).get("holds") is not None
    ]
    assert decided == []


def test_no_claim_holds_without_what_followed_the_fault(
    run: StoredRun, history: Path, tmp_path: Path
) -> None:
    source = open_source(history)
    since = first_injection_ns(source)
    if since is None:
        assert not all_scenarios()[run.name].faults
        return
    write_deaf(source, since, tmp_path)
    assert held(run, tmp_path) == []


def test_no_claim_about_the_store_holds_without_its_answers(
    run: StoredRun, history: Path, tmp_path: Path
) -> None:
    """What brokers state does not replace ZooKeeper's answers, once the observer has lost ZooKeeper."""
    views, since = run.tables["views"], first_injection_ns(open_source(history))
    sources = {str(name) for name in views["source"].to_pylist()}
    if run.mode != "zookeeper" or since is None or any(name.startswith("controller") for name in sources):
        return
    lost = pc.and_(pc.starts_with(views["source"], "zookeeper"), pc.greater(views["ns"], since))
    folder = write_tables({**run.tables, "views": views.filter(pc.invert(lost))}, tmp_path / "history")
    needed = {
        claim["name"]
        for claim in run.declared["claims"]
        if claim["name"] in run.claims and "{heard:store}" in claim["holds"]
    }
    judged = [claim for claim in judge_here(folder, run.declared) if claim.name in needed]
    wrong = [f"{claim.name}: {claim.observed}" for claim in judged if claim.status == "confirmed"]
    assert not wrong


def test_a_claim_about_nothing_holds_under_both_controls(tmp_path: Path) -> None:
    """What the tests above look for: a claim that does not depend on what was sent or observed."""
    run = read_stored("leader-killed")
    claim = {**run.declared["claims"][0], "given": "", "erratum": None, "either": None}
    nothing = "SELECT count(*) = 0 AS holds, 'none' AS observed FROM views WHERE source = 'nobody'"
    hollow = replace(run, declared={**run.declared, "claims": [{**claim, "holds": nothing}]})
    with written(run.tables) as folder:
        source = open_source(folder)
        for control in ("silence", "deaf"):
            reduced = tmp_path / control
            reduced.mkdir()
            if control == "silence":
                write_silence(source, reduced)
            else:
                write_deaf(source, first_injection_ns(source) or 0, reduced)
            judged = judge_here(reduced, hollow.declared)
            assert [one.by for one in held_claims(judged)] == ["confirmed"]


def test_only_scenarios_are_stored_and_they_are_small() -> None:
    assert set(stored_names()) <= set(all_scenarios()), "a stored run of a scenario that is gone"
    sizes = [file.stat().st_size for file in STORED.rglob("*.zip")]
    assert max(sizes) < MEGABYTE / 10 and sum(sizes) < 6 * MEGABYTE

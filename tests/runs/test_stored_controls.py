"""Every claim of the catalogue on a stored run: as declared, but never without the events that it describes.

The controls of `acked check --control` are applied to one stored run of each scenario, with the claims that
the scenario has today.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc
import pytest

from checkers.claims.evaluate import ClaimResult
from checkers.control import first_injection_ns, held_claims, write_deaf, write_silence
from checkers.tables.source import open_source
from run.catalogue import find
from scenarios.catalogue import all_scenarios
from tests.runs.store import COMMAND, STORED
from tests.runs.stored import (
    Judging,
    StoredRun,
    all_stored,
    other_versions,
    read_stored,
    stored_names,
    written,
)
from tests.sampling import every

MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Stored:
    """A stored run as a history folder, and its claims, for which all controls share one database."""

    run: StoredRun
    history: Path
    judging: Judging
    judged: Sequence[ClaimResult]
    """Its claims as they are without a control."""

    def controlled(self, folder: Path) -> list[ClaimResult]:
        """The claims, without preconditions, on the history that a control left in a folder."""
        judged = [one for one in self.judging.judge_folder(folder) if one.name in self.run.claims]
        assert len(judged) == len(self.run.claims)
        return judged


OTHER_VERSIONS = [pytest.param(name, marks=pytest.mark.long) for name in other_versions()]
SCENARIOS = sorted(all_scenarios())
as_it_is = pytest.mark.parametrize("stored", [*SCENARIOS, *OTHER_VERSIONS], indirect=True, scope="module")
controlled = pytest.mark.parametrize(
    "stored", [*every(3, SCENARIOS), *OTHER_VERSIONS], indirect=True, scope="module"
)
"""A control asks all claims once more, which takes most of the time."""


@pytest.fixture(scope="module")
def stored(request: pytest.FixtureRequest) -> Iterator[Stored]:
    if request.param not in all_stored():
        pytest.fail(f"no run of {request.param} is stored; run it and store it: {COMMAND}")
    run = read_stored(request.param)
    judging = Judging(run.declared)
    with written(run.tables) as folder:
        yield Stored(run, folder, judging, judging.judge(run.tables, folder))
    judging.close()


def held(claims: Sequence[ClaimResult]) -> list[str]:
    """Claims that are confirmed, or whose erratum holds."""
    return [f"{claim.name}, by {claim.by}: {claim.observed}" for claim in held_claims(claims)]


@as_it_is
def test_a_stored_run_is_as_declared(stored: Stored) -> None:
    wrong = [claim for claim in stored.judged if not claim.as_declared]
    shown = [f"{claim.name} is {claim.status}: {claim.observed}" for claim in wrong]
    assert not shown, f"mend the claim, or store a newer run: {COMMAND}"


@controlled
def test_every_claim_is_unknown_in_silence(stored: Stored, tmp_path: Path) -> None:
    """Nor is it refuted: what nobody observed is unknown."""
    write_silence(open_source(stored.history), tmp_path)
    judged = stored.controlled(tmp_path)
    assert held(judged) == []
    decided = [
        f"{claim.name} is {claim.status}: {claim.observed}"
        for claim in judged
        if claim.status != "unknown" or (claim.erratum or {}).get("holds") is not None
    ]
    assert decided == []


@controlled
def test_no_claim_holds_without_what_followed_the_fault(stored: Stored, tmp_path: Path) -> None:
    source = open_source(stored.history)
    since = first_injection_ns(source)
    if since is None:
        assert not find(Path(stored.run.name).name.partition("@")[0]).faults
        return
    write_deaf(source, since, tmp_path)
    assert held(stored.controlled(tmp_path)) == []


@controlled
def test_no_claim_about_the_store_holds_without_its_answers(stored: Stored) -> None:
    """What brokers state does not replace ZooKeeper's answers, once the observer has lost ZooKeeper."""
    run = stored.run
    views, since = run.tables["views"], first_injection_ns(open_source(stored.history))
    sources = {str(name) for name in views["source"].unique().to_pylist()}
    needed = {
        claim["name"]
        for claim in run.declared["claims"]
        if claim["name"] in run.claims and "{heard:store}" in claim["holds"]
    }
    zookeeper = run.mode == "zookeeper" and not any(name.startswith("controller") for name in sources)
    if since is None or not zookeeper or not needed:
        return
    lost = pc.and_(pc.starts_with(views["source"], "zookeeper"), pc.greater(views["ns"], since))
    judged = stored.judging.judge({**run.tables, "views": views.filter(pc.invert(lost))}, only=needed)
    assert {one.name for one in judged} == needed
    assert not [f"{one.name}: {one.observed}" for one in judged if one.status == "confirmed"]


def test_a_claim_about_nothing_holds_under_both_controls(tmp_path: Path) -> None:
    """What the tests above look for: a claim that does not depend on what was sent or observed."""
    run = read_stored("leader-killed")
    claim = {**run.declared["claims"][0], "given": "", "erratum": None, "either": None}
    nothing = "SELECT count(*) = 0 AS holds, 'none' AS observed FROM views WHERE source = 'nobody'"
    judging = Judging({**run.declared, "claims": [{**claim, "holds": nothing}]})
    with written(run.tables) as folder:
        source = open_source(folder)
        for control in ("silence", "deaf"):
            reduced = tmp_path / control
            reduced.mkdir()
            if control == "silence":
                write_silence(source, reduced)
            else:
                write_deaf(source, first_injection_ns(source) or 0, reduced)
            assert [one.by for one in held_claims(judging.judge_folder(reduced))] == ["confirmed"]
    judging.close()


def test_only_scenarios_are_stored_and_they_are_small() -> None:
    assert set(stored_names()) <= set(all_scenarios()), "a stored run of a scenario that is gone"
    sizes = [file.stat().st_size for file in STORED.rglob("*.zip")]
    assert max(sizes) < MEGABYTE / 5 and sum(sizes) < 8 * MEGABYTE

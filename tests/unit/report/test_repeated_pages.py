"""Pages of a replay and of a shrinking: how often a finding came back, and which steps it does not need."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.cluster.timings import BASE
from harness.errors import BadDataError
from harness.lab.layout import THREE_AZS
from report.model.shapes import ReplayShape, ShrinkShape, shaped
from report.page.repeated import replay_page, shrink_page
from studies.search.findings import RunFinding
from studies.search.grammar import fresh
from studies.search.minimise import without_steps
from studies.search.repeat import Tally
from studies.search.schedule import Schedule
from studies.search.score import score, score_before
from studies.search.shrinking import Shrinking, ShrinkPlan, document
from studies.search.shrinking import Test as TriedTest
from studies.search.space import space_of
from tests.axe import barriers, out_of_reach
from tests.browser import chromium, problem
from tests.page_layout import layout_faults

TOPOLOGY = THREE_AZS.topology("kraft")
SPACE = space_of(kafka="3.6.2", mode="kraft", topology=TOPOLOGY, timings=BASE)
FINDING = RunFinding(name="lost", weight="new", count=4, settings="acks=1", promise="broken")


def original() -> Schedule:
    """The first schedule with five steps."""
    made = (fresh(SPACE, 1, number) for number in range(1000))
    return next(one for one in made if len(one.steps) >= 5)


@pytest.fixture
def shrunk(tmp_path: Path) -> Any:
    before = original()
    smallest = without_steps(before, 1, len(before.steps) - 1)
    plan = ShrinkPlan(finding=FINDING, version="3.6.2", mode="kraft", settings={})
    work = Shrinking(tmp_path, plan, before)
    for schedule, hits in ((before, 6), (smallest, 2)):
        work.tests[schedule.digest] = TriedTest(
            digest=schedule.digest,
            passes=True,
            hits=hits,
            runs=8,
            steps=len(schedule.steps),
            size=100 * len(schedule.steps),
            folder="runs/schedule/1",
        )
    return json.loads(json.dumps(document(work, smallest, tmp_path / "lost_1.py")))


@pytest.fixture
def replayed() -> Any:
    tally = Tally(hits=9, runs=10, decision="comes back")
    tally.findings[FINDING.signature] = FINDING
    tally.counts[FINDING.signature] = 9
    told = tally.document(FINDING.kind) | {"score": score(original()), "run": "runs/schedule/1"}
    return json.loads(json.dumps(told))


def test_steps_that_were_removed_are_struck_out(shrunk: Any) -> None:
    steps = len(original().steps)
    removed = [step["removed"] for step in shrunk["score_before"]]
    assert removed.count(True) == steps - 2 and not removed[0]
    page = shrink_page(shrunk, lambda run: f"{run}/report.html")
    assert f"2 steps of {steps} are enough to show it; {steps - 2} were not needed." in page
    assert page.count('<li class="removed">') == steps - 2
    assert "showed it in 2 of 8 runs" in page
    assert '<a href="runs/schedule/1/report.html">The page of a run that shows it</a>' in page
    assert f"acked run {shrunk['scenario']}" in page


def test_a_schedule_of_which_all_is_needed_has_nothing_removed() -> None:
    schedule = original()
    assert not any(step["removed"] for step in score_before(schedule, schedule))


def test_a_replay_begins_with_its_rate(replayed: Any) -> None:
    page = replay_page(replayed)
    assert "It came back in 9 of 10 runs: it does so regularly." in page
    assert "The rate is 60% to 98% with 95 % confidence." in page
    assert "<h1>reproduced</h1>" in page
    assert page.count('<span class="lane">') == len(original().steps)


@pytest.mark.parametrize("change", [{"score": [{"says": 1}]}, {"finding": None}, {"runs": -1}])
def test_damaged_documents_are_refused(replayed: Any, shrunk: Any, tmp_path: Path, change: Any) -> None:
    file = tmp_path / "document.json"
    for told, shape in ((replayed, ReplayShape), (shrunk, ShrinkShape)):
        file.write_text(json.dumps(told))
        assert shaped(file, shape) == told
        file.write_text(json.dumps(told | change))
        with pytest.raises(BadDataError, match="is malformed"):
            shaped(file, shape)


@pytest.mark.browser
@pytest.mark.skipif(bool(problem()), reason=problem())
def test_nothing_is_cut_off(replayed: Any, shrunk: Any, tmp_path: Path) -> None:
    with chromium() as browser:
        page = browser.new_page()
        for name, text in (("replay", replay_page(replayed)), ("shrink", shrink_page(shrunk))):
            file = tmp_path / f"{name}.html"
            file.write_text(text)
            page.goto(file.as_uri())
            for width in (390, 1280):
                page.set_viewport_size({"width": width, "height": 900})
                assert page.evaluate("document.documentElement.scrollWidth") <= width
                assert layout_faults(page) == [], (name, width)
            assert barriers(page) == [], name
            assert out_of_reach(page) == [], name

"""Two assessments: the conclusion comes first, and only cells that differ by more than runs do are listed."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import typer.testing

from cli.commands import app
from harness.errors import UsageError
from report.model.compare import Difference
from report.model.compare_assessments import AssessmentComparison, compare_assessments
from report.page.comparison import assessments_page
from tests.browser import chromium, problem
from tests.page_layout import layout_faults

STORED = Path(__file__).parents[1] / "cli" / "assessment.json"


@pytest.fixture
def before() -> Any:
    document = json.loads(STORED.read_text())
    for line in document["lines"]:
        line["rates"] = {"from_s": -2, "by_az": {"az1": [5, 5, *[0] * 15, 40, 5], "az2": [5] * 19}}
    return document


@pytest.fixture
def after(before: Any) -> Any:
    return copy.deepcopy(before)


def compared(before: Any, after: Any) -> AssessmentComparison:
    return compare_assessments(before, after, ("a", "b"))


def lines(document: Any, says: str) -> list[Any]:
    return [line for line in document["lines"] if line["says"] == says]


def lose(document: Any, says: str, **values: Any) -> None:
    lines(document, says)[0]["settings"]["acks=all"] |= {"lost": 40, "outcome": "lost", **values}


def test_an_assessment_and_itself_are_alike(before: Any, after: Any) -> None:
    comparison = compared(before, after)
    assert (comparison.opening.word, comparison.opening.tone, comparison.faults) == ("alike", "kept", ())
    assert set(comparison.equal) == {"az1 isolated", "az1 killed"}
    assert comparison.opening.answer == (
        "Neither loses an acknowledged message in any of 2 faults. No cell of the table differs by more than "
        "runs do."
    )


def test_times_and_losses_that_vary_from_run_to_run_are_equal(before: Any, after: Any) -> None:
    for line in after["lines"]:
        line["recovery_s"] += 1.9
        line["settings"]["acks=all"]["writes"]["az2"]["seconds"] += 1.9
    lose(before, "az1 killed")
    lose(after, "az1 killed", lost=70)
    assert compared(before, after).faults == ()
    lose(after, "az1 killed", lost=90)
    (fault,) = compared(before, after).faults
    assert fault.cells == (Difference("lost messages", "40 (acks=all)", "90 (acks=all)"),)
    assert (fault.size, fault.worse) == (0, True)


def test_a_loss_that_ends_is_the_conclusion(before: Any, after: Any) -> None:
    lose(before, "az1 killed")
    for line in lines(after, "az1 isolated"):
        line["recovery_s"] += 30
    comparison = compared(before, after)
    assert comparison.opening.answer == (
        "B loses no acknowledged message where A does: az1 killed. B costs more time: az1 isolated."
    )
    assert (comparison.opening.word, comparison.opening.tone) == ("better", "kept")
    assert [fault.says for fault in comparison.faults] == ["az1 killed", "az1 isolated"]
    turned = compared(after, before)
    assert turned.opening.answer.startswith("B loses acknowledged messages where A does not: az1 killed.")
    assert (turned.opening.word, turned.opening.tone) == ("worse", "cost")


def test_a_broken_promise_is_worse_than_anything(before: Any, after: Any) -> None:
    lose(before, "az1 killed")
    lose(after, "az1 isolated", promise="broken")
    comparison = compared(before, after)
    assert comparison.faults[0].size == 3 and comparison.faults[0].says == "az1 isolated"
    assert (comparison.opening.word, comparison.opening.tone) == ("mixed", "undecided")


def test_what_only_one_of_them_measured_is_no_change(before: Any, after: Any) -> None:
    after["lines"] = lines(after, "az1 killed")
    after["header"]["settings"] = "producer.acks=all"
    comparison = compared(before, after)
    assert comparison.alone == (Difference("az1 isolated", "measured", ""),)
    assert comparison.settings == (
        Difference("settings", "those of docs/configuration.md", "producer.acks=all"),
    )
    assert comparison.faults == ()


def test_in_the_terminal_as_json_and_as_a_page(before: Any, after: Any, tmp_path: Path) -> None:
    lose(before, "az1 killed")
    folders = []
    for name, document in (("one", before), ("other", after)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "assessment.json").write_text(json.dumps(document))
        (folder / "index.html").write_text("its page")
        folders.append(str(folder))
    target = tmp_path / "compare.html"
    run = typer.testing.CliRunner().invoke
    said = run(app, ["compare", *folders, "--html", str(target)]).stdout
    assert "B loses no acknowledged message where A does: az1 killed." in said.splitlines()[1]
    assert "Equal in both: az1 isolated." in said
    told = json.loads(run(app, ["compare", *folders, "--json"]).stdout)
    assert told["opening"]["word"] == "better"
    page = target.read_text()
    assert '<a href="one/index.html">' in page and '<a href="other/index.html">' in page
    assert page.count('class="picture outage"') == 2
    refused = run(app, ["compare", folders[0], str(tmp_path)])
    assert isinstance(refused.exception, UsageError) and "is an assessment" in refused.exception.message


@pytest.mark.browser
@pytest.mark.skipif(bool(problem()), reason=problem())
def test_nothing_is_cut_off(before: Any, after: Any, tmp_path: Path) -> None:
    lose(after, "az1 killed", promise="broken")
    for line in after["lines"]:
        line["operator"] = ["restart broker1, whose partitions had no full ISR"]
    file = tmp_path / "compare.html"
    file.write_text(assessments_page(compared(before, after), before, after))
    with chromium() as browser:
        page = browser.new_page()
        page.goto(file.as_uri())
        for width in (390, 768, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert layout_faults(page) == [], width

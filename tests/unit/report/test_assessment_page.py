"""The page of an assessment shows the worst of each fault, all placements below, and cuts nothing off."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from harness.errors import BadDataError
from report.assessment import read_assessment
from report.page.assessment import assessment_page
from tests.browser import chromium, problem
from tests.page_layout import layout_faults

STORED = Path(__file__).parents[1] / "cli" / "assessment.json"


@pytest.fixture
def document() -> Any:
    stored = copy.deepcopy(json.loads(STORED.read_text()))
    for line in stored["lines"]:
        line["rates"] = {"from_s": -2, "by_az": {"az1": [5, 5, *[0] * 15, 40, 5], "az2": [5] * 19}}
    return stored


def headline(document: Any) -> str:
    (text,) = re.findall(r'<p class="headline">(.*?)</p>', assessment_page(document))
    return str(text)


def rows(document: Any) -> list[tuple[str, str]]:
    """Tone and name of each fault, in the order of the matrix."""
    matrix = re.search(r'<table class="costs".*?</table>', assessment_page(document), re.DOTALL)
    assert matrix
    return re.findall(r'<tr class="c-(\w+)">.*?<a href="#fault-\d+">(.*?)</a>', matrix[0], re.DOTALL)


def test_a_loss_of_the_producer_for_comparison_is_no_cost(document: Any) -> None:
    assert headline(document).startswith(
        "Kafka behaved as documented. With acks=all (your setting), none of 2 faults loses acknowledged "
        "messages."
    )
    assert "(az1 isolated), until the fault was healed" in headline(document)
    assert rows(document) == [("kept", "az1 isolated"), ("kept", "az1 killed")]


def test_a_fault_that_costs_is_first_and_a_broken_promise_before_it(document: Any) -> None:
    killed = next(line for line in document["lines"] if line["says"] == "az1 killed")
    killed["settings"]["acks=all"] |= {"lost": 12_345, "outcome": "lost", "promise": "not promised"}
    assert rows(document)[0] == ("cost", "az1 killed")
    assert (
        "With acks=all (your setting), 1 of 2 faults loses acknowledged messages, up to 12,345 (az1 killed)."
        in headline(document)
    )
    assert "<strong>12,345</strong>" in assessment_page(document)
    isolated = document["lines"][0]
    isolated["settings"]["acks=all"] |= {"lost": 1, "outcome": "lost", "promise": "broken"}
    assert rows(document) == [("broken", "az1 isolated"), ("cost", "az1 killed")]
    assert headline(document).startswith("Kafka broke a promise.")


def test_one_fault_is_named(document: Any) -> None:
    document["lines"] = [line for line in document["lines"] if line["says"] == "az1 killed"]
    assert "(your setting), az1 killed loses no acknowledged messages." in headline(document)


def test_what_is_not_as_declared_is_never_green(document: Any) -> None:
    """Nor does the verdict stand there twice."""
    document |= {"verdict": "unknown"}
    assert headline(document).startswith("The runs do not decide whether Kafka kept all its promises.")
    page = assessment_page(document)
    assert '<header class="verdict t-undecided"' in page and page.count(">unknown</strong>") == 1
    document["lines"][0]["settings"]["acks=1"]["promise"] = "broken"
    assert '<header class="verdict t-broken"' in assessment_page(document)


def test_what_was_not_measured_says_why(document: Any) -> None:
    for line in document["lines"]:
        line |= {"status": "crashed", "reason": "no <processor> was free"}
    assert headline(document) == "No fault was measured, so nothing is known."
    page = assessment_page(document)
    assert "crashed: no &lt;processor&gt; was free" in page and "<processor>" not in page


def test_runs_lead_to_their_pages(document: Any) -> None:
    run = document["lines"][0]["runs"][0]
    page = assessment_page(document, lambda folder: "../page.html" if folder.endswith(run) else "")
    assert f'<a href="../page.html">{run}</a>' in page
    assert f"<code>acked report {document['runs']}/{document['lines'][2]['runs'][0]}</code>" in page


def test_an_outage_is_drawn_with_its_fault(document: Any) -> None:
    """Seconds without a write have no bar; what is written at once afterwards is cut off at the top."""
    page = assessment_page(document)
    spark = page[page.index('<svg width="100%" height="18" class="spark"') :].partition("</svg>")[0]
    assert spark.count('class="write"') == 3 and spark.count('class="write more"') == 1
    assert '<rect x="10.53%" y="0" width="63.68%" height="100%" class="fault"/>' in spark
    for line in document["lines"]:
        del line["rates"]
    assert "spark" not in assessment_page(document).partition("</style>")[2]


def test_a_page_that_grows_says_how_far_it_is(document: Any) -> None:
    left = document["lines"][-1] | {"case": "pause-broker1", "says": "broker1 paused", "status": "not run"}
    document |= {"ended": 2, "planned": 3, "lines": [*document["lines"], left]}
    page = assessment_page(document)
    assert "2 of 3 runs have ended." in page and "Not run yet: broker1 paused." in page
    assert ("kept", "broker1 paused") not in rows(document)
    assert "Not run: broker1 paused." in assessment_page(document | {"ended": 3})


@pytest.mark.browser
@pytest.mark.skipif(bool(problem()), reason=problem())
def test_a_whole_battery_prints_on_two_pages(document: Any, tmp_path: Path) -> None:
    """25 faults in two placements of two AZs each, with a sentence for each fault."""
    document["lines"] = [
        line | {"says": f"{line['says']}, as often as {number}", "case": f"{line['case']}-{number}"}
        for number in range(13)
        for line in document["lines"]
    ]
    document["consequences"] = document["consequences"][:1] * 26
    file = tmp_path / "index.html"
    file.write_text(assessment_page(document))
    with chromium() as browser:
        page = browser.new_page()
        page.goto(file.as_uri())
        printed = page.pdf(format="A4", prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 2


def test_a_damaged_document_is_one_sentence(document: Any, tmp_path: Path) -> None:
    file = tmp_path / "assessment.json"
    document["lines"][0]["settings"]["acks=all"]["lost"] = "many"
    file.write_text(json.dumps(document))
    with pytest.raises(BadDataError, match="is malformed"):
        read_assessment(file)
    assert read_assessment(STORED)


@pytest.mark.browser
@pytest.mark.skipif(bool(problem()), reason=problem())
def test_in_a_browser(document: Any, tmp_path: Path) -> None:
    """On a phone and a wide screen no text is cut off; headings sort; a fault's name opens its placements."""
    file = tmp_path / "index.html"
    document["lines"][-1]["settings"]["acks=1"]["lost"] = 9
    file.write_text(assessment_page(document))
    with chromium() as browser:
        for width in (390, 1280):
            page = browser.new_page(viewport={"width": width, "height": 900})
            complaints: list[str] = []
            page.on("console", lambda message, to=complaints: to.append(message.text))
            page.goto(file.as_uri())
            assert layout_faults(page) == [], width
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert complaints == []
        names = "#matrix tbody th a"
        first = page.locator(names).all_inner_texts()
        page.locator("#matrix thead button", has_text="fault").click()
        page.locator("#matrix thead button", has_text="fault").click()
        assert page.locator(names).all_inner_texts() == sorted(first, reverse=True)
        assert page.locator("details[open]").count() == 0
        page.locator(names).first.click()
        page.wait_for_selector("details[open]", timeout=10_000)

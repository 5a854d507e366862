"""The index of a series: a cell for each scenario, version and mode; disagreements always show."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from report.model.night import night_of
from report.page.index import index_page as page_of
from studies.series.job import Job
from studies.series.summary import RunSummary, flaky
from tests.unit.report.test_page import Elements


def run(scenario: str = "a", verdict: str = "as declared", **values: Any) -> dict[str, Any]:
    defaults = {
        "version": "2.7.1",
        "mode": "zookeeper",
        "lost": 0,
        "seconds": 20.0,
        "folder": f"runs/{scenario}/1",
    }
    return {
        **defaults,
        "ended": "2026-01-05T01:00:00+00:00",
        **values,
        "scenario": scenario,
        "verdict": verdict,
    }


def index_page(
    runs: list[dict[str, Any]],
    *,
    time: str = "1",
    earlier: list[dict[str, Any]] | None = None,
    missing: int = 0,
    link: Callable[[str], str] = lambda folder: "",
) -> str:
    summaries, before = ([RunSummary(**one) for one in some or []] for some in (runs, earlier))
    planned = [Job(scenario="planned", version="2.7.1", mode="zookeeper")] * missing
    night = night_of(summaries, flaky(summaries), not_run=planned, earlier=before, time=time)
    return page_of(night, summaries, link=link)


def cells(html: str) -> list[str]:
    return re.findall(r"<td.*?</td>", html, re.DOTALL)


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def test_worst_scenario_comes_first_and_names_the_page() -> None:
    html = index_page([run("a"), run("b", "violated", lost=3), run("c", "unknown")])
    assert re.findall(r'<th scope="row">(\w+)</th>', html) == ["b", "c", "a"]
    assert "<h1>violated</h1>" in html
    assert "✗ 1 violated" in words(html)
    assert "✓ 1 as declared" in words(html)


def test_reasons_stand_above_the_table() -> None:
    """Runs with the same reason together, with links to their pages, the worst first."""
    why = ["claim 'x' is refuted"]
    html = index_page(
        [
            run("a", "unknown", reasons=["y"]),
            run("b", "violated", reasons=why),
            run("b", "violated", version="3.9.1", reasons=why, folder="none"),
            run("c"),
        ],
        link=lambda folder: "" if folder == "none" else f"../{folder}",
    )
    section = html[html.index("<h2>Not as declared") : html.index("<h2>All runs")]
    assert [words(one) for one in re.findall(r"<li>.*?</li>", section, re.DOTALL)] == [
        "✗ violated b on 2.7.1 zookeeper , b on 3.9.1 zookeeper : claim &#39;x&#39; is refuted "
        "(20 s, its pictures )",
        "? unknown a on 2.7.1 zookeeper : y (20 s, its pictures )",
    ]
    assert section.count("<a ") == 2 * 2
    assert "Not as declared" not in index_page([run("a")])


def test_what_does_not_fit_comes_last_and_claims_no_numbers() -> None:
    why = ["b needs a further AZ"]
    html = index_page([run("b", "unfit", reasons=why), run("c"), run("a", "unknown")])
    assert re.findall(r'<th scope="row">(\w+)</th>', html) == ["a", "c", "b"]
    assert "– 1 unfit" in words(html)
    assert "– unfit b on 2.7.1 zookeeper : needs a further AZ" in words(html)
    assert cells(html)[-1].count("lost") == 0
    assert "<h1>unfit</h1>" in index_page([run("b", "unfit", reasons=why)])


def test_the_strip_is_explained_where_there_is_one() -> None:
    assert "The strip" not in index_page([run()])
    before = [run(ended="2026-01-04T01:00:00+00:00")]
    assert "The strip" in index_page([run()], earlier=before)


def test_cell_whose_runs_disagree_shows_both() -> None:
    html = index_page([run(lost=2, seconds=18), run(lost=9, seconds=31), run(verdict="violated", lost=4)])
    (cell,) = cells(html)
    assert 'class="flicker"' in cell
    assert words(cell).startswith("✗ violated ×1 ✓ as declared ×2")
    assert "2–9 lost · 18–31 s" in words(cell)
    assert 'class="flicker"' not in index_page([run(), run()])


def test_cell_whose_runs_answer_a_claim_differently_shows_both_answers() -> None:
    answers = ("confirmed", "refuted", "confirmed")
    html = index_page([run(claims={"x": answer, "y": "refuted"}) for answer in answers])
    (cell,) = cells(html)
    assert 'class="flicker"' in cell
    assert "claim x: 2 confirmed, 1 refuted" in words(cell)
    assert "claim y" not in cell


def test_runs_that_were_not_judged_say_nothing_about_losses() -> None:
    html = index_page([run(lost=3), run(verdict="crashed"), run("b", "invalid")])
    assert [re.findall(r"[^ ]+ lost", words(cell)) for cell in cells(html)] == [["3 lost"], []]


def test_clients_have_columns_of_their_own() -> None:
    html = index_page([run(lost=1), run(verdict="violated", client="java", reasons=["y"])], time="matrix 1")
    assert re.findall(r"<th>2.7.1<br>(.*?)</th>", html) == ["zookeeper", "zookeeper, java"]
    assert "flicker" not in "".join(cells(html))
    assert "a on 2.7.1 zookeeper with java : y" in words(html)


def test_the_strip_shows_runs_of_earlier_series_alone() -> None:
    """Not those of later ones, when the page of an old series is written again, nor runs of another case."""
    own = run(ended="2026-01-05T01:00:00+00:00")
    others = [
        run(verdict="violated", ended="2026-01-04T01:00:00+00:00"),
        run("b", ended="2026-01-04T01:00:00+00:00"),
        run(verdict="unknown", client="java", ended="2026-01-04T01:00:00+00:00"),
        {**own, "folder": "moved"},
        run(verdict="crashed", ended="2026-01-06T01:00:00+00:00"),
    ]
    html = index_page([own], earlier=others)
    assert re.findall(r'title="([^"]*)">.</span>', html) == ["2026-01-04: violated"]


def test_columns_are_versions_in_their_order_and_empty_cells_stay_empty() -> None:
    runs = [run(version="3.10.0"), run("b", version="3.9.1"), run("b")]
    html = index_page(runs, time="matrix 1")
    head = re.findall(r"<th>(\d[\d.]*)<br>", html)
    assert head == ["2.7.1", "3.9.1", "3.10.0"]
    assert sum('class="none"' in cell for cell in cells(html)) == 3


def test_series_in_which_each_scenario_has_its_own_version_has_no_empty_cells() -> None:
    runs = [run("a"), run("b", version="3.9.1"), run("c", version="3.6.2", mode="kraft")]
    html = index_page(runs)
    assert [words(cell).split(" ✓")[0] for cell in cells(html)] == [
        "2.7.1 zookeeper",
        "3.9.1 zookeeper",
        "3.6.2 kraft",
    ]


def test_only_runs_with_a_page_have_a_link() -> None:
    links = {"runs/a/1": "../../a/1/report.html"}
    html = index_page([run("a"), run("b")], link=lambda folder: links.get(folder, ""))
    hrefs = [at["href"] for tag, at in Elements(html).found if tag == "a"]
    assert hrefs == ["#runs", "runs.jsonl", "../../a/1/report.html"]


def test_strip_shows_earlier_nights_alone() -> None:
    now = run()
    earlier = [
        run(verdict="violated", ended="2026-01-03T01:00:00+00:00"),
        run(ended="2026-01-04T01:00:00+00:00"),
        run("b", "crashed", ended="2026-01-04T02:00:00+00:00"),
        now,
    ]
    html = index_page([now], earlier=earlier)
    strip = re.findall(r'title="([\d-]+: [a-z ]+)">', html)
    assert strip == ["2026-01-03: violated", "2026-01-04: as declared"]


def test_index_is_whole_escaped_and_refers_to_nothing() -> None:
    evil = '<script>"x"</script>'
    html = index_page([run(evil, evil, version=evil, mode=evil)], time=evil, missing=2)
    elements = Elements(html)
    assert (elements.open, elements.wrong) == ([], [])
    assert "<script" not in html
    assert "2 planned and not run" in html
    assert "default-src 'none'" in html


def test_a_cell_counts_findings_about_transactions_and_groups() -> None:
    """By class, as a range where runs differ; runs that were not judged do not count."""
    torn = run(lost=2, findings={"torn_transaction": 1, "replay": 2})
    html = index_page([torn, run(lost=2, findings={"replay": 2}), run(verdict="crashed", lost=2)])
    assert "2 lost · 2 replay · 0–1 torn transaction · 20 s" in words(cells(html)[0])
    assert "0 lost · 20 s" in words(cells(index_page([run()]))[0])

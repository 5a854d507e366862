"""What CI systems read of a series: JUnit XML and a summary in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from report import junit as xml
from report import night as markdown
from report.model.night import Night, night_of
from studies.series.job import Job
from studies.series.summary import RunSummary, flaky

KRAFT = Job(scenario="b", version="4.3.1", mode="kraft")


def run(scenario: str, verdict: str = "as declared", **values: object) -> RunSummary:
    """A run on 2.7.1."""
    facts = {"scenario": scenario, "version": "2.7.1", "mode": "zookeeper", "verdict": verdict}
    return RunSummary(**{**facts, **values})  # type: ignore[arg-type]


def summary_markdown(runs: Sequence[RunSummary], how: Any, *, limit: int = 1 << 20, **others: Any) -> str:
    link = others.pop("link", lambda folder: "")
    return markdown.summary_markdown(night_of(runs, how, **others), link=link, limit=limit)


def junit(runs: Sequence[RunSummary], not_run: Sequence[Job] = (), **others: Any) -> str:
    return xml.junit(night_of(runs, {}, not_run=not_run), **others)


def night(runs: Sequence[RunSummary], earlier: Sequence[RunSummary]) -> Night:
    return night_of(runs, flaky(runs), earlier=earlier, time="2026")


def at(day: int, verdict: str = "as declared", scenario: str = "a", **values: object) -> RunSummary:
    return run(scenario, verdict, ended=f"2026-01-{day:02}T01:00:00+00:00", **values)


def test_what_is_new_is_the_first_sentence() -> None:
    said = night([at(9, "violated"), at(9, scenario="b")], [at(8), at(8, scenario="b")]).opening
    assert said.answer == (
        "One case fails that was as declared before: a on 2.7.1 zookeeper. One other case is as declared."
    )
    assert (said.kind, said.tone, said.word) == ("night", "broken", "violated")
    said = night([at(9, "unknown")], [at(8, "unknown")]).opening
    assert said.answer == "One case is not decided, as before: a on 2.7.1 zookeeper. Nothing is new."
    several = night([at(9, "crashed"), at(9, "violated", "b")], [at(8), at(8, "violated", "b")]).opening
    assert several.answer == (
        "One case has no result that was as declared before: a on 2.7.1 zookeeper. One case fails, as "
        "before: b on 2.7.1 zookeeper."
    )
    assert night([at(9)], [at(8, "crashed")]).opening.answer.startswith(
        "Nothing is new. One case is as declared again: a on 2.7.1 zookeeper."
    )
    alone = night([at(9, "violated")], [])
    assert alone.opening.answer == "One case fails: a on 2.7.1 zookeeper."
    assert "no earlier series" in alone.opening.sure


def test_a_case_is_flaky_if_it_failed_now_and_then() -> None:
    before = [at(day, "violated" if day in (3, 6) else "as declared") for day in range(1, 9)]
    always = [at(day, "violated", "b") for day in range(1, 9)]
    text = summary_markdown([at(9), at(9, "violated", "b")], {}, earlier=[*before, *always])
    assert "### Flaky over the last series\n\n- a on 2.7.1 zookeeper: 2 of its last 9 runs failed\n" in text
    (one,) = night([at(9), at(9, "violated", "b")], [*before, *always]).unsteady
    assert (one.name, one.failed, one.of) == ("a on 2.7.1 zookeeper", 2, 9)


def test_a_case_is_slower_than_it_usually_is() -> None:
    before = [at(day, seconds=seconds) for day, seconds in enumerate((40.0, 41.0, 90.0), start=1)]
    assert night([at(9, seconds=51.0)], before).slower == ()
    (one,) = night([at(9, seconds=80.0)], before).slower
    assert (one.seconds, one.usual_s) == (80.0, 41.0)
    text = summary_markdown([at(9, seconds=80.0)], {}, earlier=before)
    assert "### Slower\n\n- a on 2.7.1 zookeeper: 80 s, usually 41 s\n" in text


def test_later_series_and_its_own_runs_are_not_before_it() -> None:
    own = at(9, "violated")
    said = night([own], [at(8), own, at(10, "violated")])
    assert (said.compared, len(said.new)) == (1, 1)


def test_junit_has_a_test_case_for_each_run() -> None:
    """Violated is a failure, unknown and invalid an error, unfit and what was not run skipped."""
    verdicts = ("as declared", "violated", "unknown", "invalid", "crashed", "unfit")
    runs = [run("a", verdict, seconds=2.0, reasons=("7 < 8 & \x00",)) for verdict in verdicts]
    suite = ElementTree.fromstring(junit(runs, [KRAFT]))[0]
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped", "time")} == {
        "tests": "7",
        "failures": "1",
        "errors": "3",
        "skipped": "2",
        "time": "12.0",
    }
    children = [[(one.tag, one.get("message")) for one in case] for case in suite]
    assert children[0] == []
    assert children[1] == [("failure", "7 < 8 & ?")]
    assert [child[0][0] for child in children[2:]] == ["error", "error", "error", "skipped", "skipped"]
    assert suite[6].get("name") == "b on 4.3.1 kraft"


def test_the_summary_names_what_needs_a_person() -> None:
    runs = [
        run("a", lost=3, seconds=20.4),
        run("a", "violated", lost=5, reasons=("2 lost that nothing declared",), folder="runs/a/1"),
        run("c", "unfit"),
    ]
    text = summary_markdown(
        runs, flaky(runs), not_run=[KRAFT, KRAFT], earlier=[run("a"), run("a", "crashed")]
    )
    assert text.startswith("## acked: 3 runs: 1 as declared, 1 violated, 1 unfit; 2 not run; 1 flaky\n")
    assert "### Not as declared, as in the last night\n\n- **a on 2.7.1 zookeeper: violated**." in text
    assert "violated**. 2 lost that nothing declared (0 s, `runs/a/1`)\n" in text
    assert "- a on 2.7.1 zookeeper: 1 as declared, 1 violated" in text
    assert "- b on 4.3.1 kraft (2 runs)" in text
    assert "| a on 2.7.1 zookeeper | ✓!✓✗ | 3–5 | 0 | 0–20 |" in text
    assert "| c on 2.7.1 zookeeper | – | – | – | 0 |" in text


REFUTED = run(
    "a",
    "violated",
    seconds=84.4,
    reasons=("claim 'kept' is refuted",),
    claims={"kept": "refuted", "epoch": "confirmed", "silent": "unknown", "good": "confirmed"},
    observed={"kept": "3 of 447 lost", "epoch": "2", "good": "all"},
    says={"kept": "Nothing is lost.", "epoch": "The epoch rises by 2", "silent": "Nobody speaks."},
    expected={"kept": ["Nothing is lost.", "One is lost."], "epoch": ["It rises by 1."], "silent": []},
    folder="runs/a/at (1)",
    commit="0a1b2c3d4e5f",
)
SENTENCES = (
    "Nothing is lost. Observed: 3 of 447 lost (refuted). Expected: confirmed, or: One is lost.",
    "The epoch rises by 2. Observed: 2 (confirmed). Expected instead: It rises by 1.",
    "Nobody speaks. Result: unknown.",
)


def test_a_failure_names_each_claim_what_was_observed_and_expected_and_its_page() -> None:
    """The page by a relative path; a run without a page has its folder instead."""
    text = summary_markdown([REFUTED], {}, link=lambda folder: f"../{folder}/report.html")
    facts = "(84 s, commit 0a1b2c3d4e5f, [page](../runs/a/at%20%281%29/report.html))"
    first = f"### Not as declared\n\n- **a on 2.7.1 zookeeper: violated**. claim 'kept' is refuted {facts}\n"
    assert first + "".join(f"  - {sentence}\n" for sentence in SENTENCES) in text
    assert "(84 s, commit 0a1b2c3d4e5f, `runs/a/at (1)`)" in summary_markdown([REFUTED], {})
    (failure,) = ElementTree.fromstring(junit([REFUTED], link=lambda folder: f"../{folder}/report.html"))[0][
        0
    ]
    assert failure.get("message") == f"claim 'kept' is refuted. {' '.join(SENTENCES)}"
    assert (failure.text or "").splitlines() == [
        "claim 'kept' is refuted",
        *SENTENCES,
        "duration: 84.4 s",
        "commit: 0a1b2c3d4e5f",
        "run folder: runs/a/at (1)",
        "page: ../runs/a/at (1)/report.html",
    ]


def test_what_is_new_since_the_last_night_comes_first() -> None:
    """A case that failed in its last run before is not new, one that has never run is."""
    before = [run("a", "violated"), run("b"), run("c"), run("d", "violated"), run("d"), run("e", "unknown")]
    runs = [run(name, "violated") for name in "abdf"] + [run("c"), run("e")]
    text = summary_markdown(runs, {}, earlier=before)
    assert text.startswith("## acked: 6 runs: 2 as declared, 4 violated; 3 new; 1 as declared again\n")
    new, rest = text.split("### Not as declared, as in the last night")
    old, again = rest.split("### As declared again\n\n- e on")
    assert "### Not as declared: new since the last night\n\n- **b on" in new
    assert [name for name in "abcdef" if f"**{name} on" in new] == ["b", "d", "f"]
    assert [name for name in "abcdef" if f"**{name} on" in old] == ["a"]
    assert "- c on" not in again
    assert "new" not in summary_markdown(runs, {}).partition("### Cases")[0]


def test_a_flaky_claim_is_named_with_both_answers() -> None:
    runs = [run("a", claims={"x": status}) for status in ("confirmed", "refuted", "confirmed")]
    text = summary_markdown(runs, flaky(runs))
    assert "- a on 2.7.1 zookeeper: 3 as declared; claim x: 2 confirmed, 1 refuted\n" in text
    runs[1] = run("a", claims={"x": "refuted"}, says={"x": "X holds."})
    text = summary_markdown(runs, flaky(runs))
    assert "claim x: 2 confirmed, 1 refuted (X holds.)\n" in text


def test_the_summary_of_nothing() -> None:
    assert summary_markdown([], {}).startswith("## acked: 0 runs; nothing was run\n")


def test_the_summary_stays_below_its_limit() -> None:
    """CI systems show no larger one; the cut is at the end of a line, and is named."""
    runs = [run(f"case-{number}", "violated", reasons=("ä" * 100,)) for number in range(50)]
    text = summary_markdown(runs, {}, limit=2000)
    assert len(text.encode()) <= 2000
    assert text.endswith("the series' folder has all.)\n")


def test_reasons_cannot_change_the_page() -> None:
    text = summary_markdown([run("a", "violated", reasons=("<script>\n# x | y",))], {})
    assert "\\<script\\> \\# x \\| y" in text

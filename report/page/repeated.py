"""The page of one schedule that was repeated, or made smaller: its steps as a score, and what came of it."""

from __future__ import annotations

from collections.abc import Callable

from report.model.model import counted
from report.model.repeated import RepeatedDocument, replay_opening, shrink_opening
from report.page.frame import framed
from report.page.score import lanes
from report.search import command_line
from report.words.found import finding_in_words

Link = Callable[[str], str]
"""From a run folder to the address of its page; empty if it has none."""


def replay_page(document: RepeatedDocument, link: Link = lambda run: "") -> str:
    """The page of a replay as one self-contained HTML file. ``document`` is `replay.json`."""
    findings = [
        (
            finding_in_words(one["example"]),
            one["example"]["settings"],
            one["weight"],
            one["runs"],
            one["interval"],
        )
        for one in document["findings"]
    ]
    run = document["run"]
    return framed(
        "repeated.html.j2",
        replay_opening(document),
        scores=[("The schedule", "", lanes(document.get("score") or ()))],
        findings=findings,
        runs=document["runs"],
        tests=(),
        href=link(run) if run else "",
        commands=[command_line(one, run) for one in ("report", "shrink")] if run else [],
    )


def shrink_page(document: RepeatedDocument, link: Link = lambda run: "") -> str:
    """The page of a shrinking as one self-contained HTML file. ``document`` is `shrink.json`."""
    removed = sum(step.get("removed", False) for step in document["score_before"])
    run = document.get("run", "")
    return framed(
        "repeated.html.j2",
        shrink_opening(document),
        scores=[
            ("What is left", "", lanes(document["score"])),
            (
                "The schedule before",
                f"Struck out: {counted(removed, 'step')} removed.",
                lanes(document["score_before"]),
            ),
        ],
        findings=(),
        runs=document["runs"],
        tests=document["tests"],
        href=link(run) if run else "",
        commands=[f"acked run {document['scenario']}"] if document["scenario"] else [],
    )

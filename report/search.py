"""The outcome of `acked search`, `acked replay` and `acked shrink` on the terminal.

Works on the documents that these commands write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from checkers.verdict import NOT_JUDGED
from harness.console import Console
from report.console import table_console

SearchDocument = Mapping[str, Any]
_STYLES = {"new": "bold red", "unknown": "yellow", "known": "", "not promised": "dim"}
_WIDE = 200
_MOST = 12
_RARE = 2


def console() -> Console:
    """A console on stdout; if that is not a terminal, it is wide enough for the table."""
    return table_console(_WIDE)


def findings(document: SearchDocument) -> Table:
    """A row for each group of findings: its weight, its rate, its first schedule, its signature."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("", "runs", "rate (95 %)", "findings", "first", "signature"):
        shown.add_column(heading, no_wrap=heading not in ("signature",))
    for group in document["groups"]:
        finding = group["finding"]
        shown.add_row(
            finding["weight"],
            f"{group['runs']} of {group['of']}",
            _interval(group["low"], group["high"]),
            str(finding["count"]),
            str(group["first"]),
            escape(group["signature"]),
            style=_STYLES[finding["weight"]],
        )
    return shown


def compared(document: SearchDocument) -> Table:
    """A row for each group of findings, with its runs and its rate on each side; `≠`: the rates differ."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("", "", *document["sides"], "signature"):
        shown.add_column(heading, no_wrap=heading != "signature")
    for group in document["groups"]:
        rates = [
            f"{rate['runs']} of {rate['of']} ({_interval(rate['low'], rate['high'])})"
            for rate in group["sides"]
        ]
        sign = "≠" if group["apart"] else ""
        style = _STYLES[group["weight"]]
        shown.add_row(sign, group["weight"], *rates, escape(group["signature"]), style=style)
    return shown


def differences(document: SearchDocument) -> Iterator[str]:
    """The schedules whose results differ between the sides, in sentences."""
    apart = document["differences"]
    yield (
        f"{' and '.join(document['sides'])}: {document['schedules']} schedules on all sides, "
        f"{document['judged']} of them judged on all; {len(apart)} differ in their findings"
    )
    for one in apart[:_MOST]:
        parts = [
            f"{side['side']}: {'; '.join(side['alone'])}"
            if side["alone"]
            else f"{side['side']}: {'nothing else' if side['verdict'] not in NOT_JUDGED else side['verdict']}"
            for side in one["sides"]
        ]
        yield f"schedule {one['number']}: {' | '.join(parts)}"
    if len(apart) > _MOST:
        yield f"and {len(apart) - _MOST} more; compare.json has all"


def _skipped(steps: int) -> str:
    return f"{steps} step was skipped" if steps == 1 else f"{steps} steps were skipped"


def _interval(low: float, high: float) -> str:
    return f"{low:.0%} to {high:.0%}"


def summary(document: SearchDocument) -> Iterator[str]:
    """The states that were reached and the promises that were tested, in sentences."""
    plan = document["plan"]
    left = "".join(f", {count} {verdict}" for verdict, count in document["not_judged"].items())
    pace = f", {document['per_hour']} an hour" if document["per_hour"] else ""
    yield (
        f"Kafka {plan['version']}, {plan['mode']}, seed {plan['seed']}: {document['schedules']} schedules"
        f"{pace}; {document['judged']} judged{left}; {_skipped(document['skipped_steps'])}"
    )
    for group in document["groups"]:
        if group["finding"]["weight"] in ("new", "unknown"):
            what = f"schedule {group['first']} ({group['finding']['name']})"
            yield f"to repeat {what}: acked replay {group['folder']}"
    reached = document["reached"]
    rare = [name for name, count in reached.items() if count <= _RARE]
    yield (
        f"{len(reached)} states and events reached, {len(rare)} of them by at most {_RARE} schedules: "
        f"{_some(rare)}"
    )
    hits = [
        f"{name.removeprefix('fault ')} ({count})"
        for name, count in reached.items()
        if name.startswith("fault ")
    ]
    yield f"faults: {_some(hits, len(hits))}"
    tested = [f"{name} ({count})" for name, count in document["promises"].items()]
    yield f"promises put to the test (runs): {_some(tested, len(tested))}"
    untested = document["not_exercised"]
    yield f"promises that no run put to the test: {_some(untested, len(untested))}"


def _some(names: Sequence[str], most: int = _MOST) -> str:
    if not names:
        return "none"
    more = f", and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def replayed(document: SearchDocument) -> Iterator[str]:
    """How often the finding came back, and which other findings the runs had."""
    low, high = document["interval"]
    unjudged = f"; {document['not_judged']} more were not judged" if document["not_judged"] else ""
    if document["finding"]:
        yield (
            f"came back in {document['hits']} of {document['runs']} runs ({_interval(low, high)} with 95 % "
            f"confidence{unjudged}): {document['decision']}"
        )
        yield f"finding: {document['finding']}"
    else:
        yield f"{document['runs']} runs{unjudged}"
    for one in document["findings"]:
        low, high = one["interval"]
        share = f"{one['runs']} of {document['runs']} ({_interval(low, high)})"
        yield f"{one['weight']}, {share}: {one['signature']}"

"""The table of an assessment, on the terminal and as Markdown.

Works on the document that `assessment.json` holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from harness.console import Console
from report.console import table_console

AssessmentDocument = Mapping[str, Any]
_STYLES = {"broken": "bold red", "lost": "red", "at risk": "yellow", "unknown": "yellow"}
HEADINGS = (
    *("fault", "controller", "leader", "topic", "lost", "promise", "twice", "order", "no write", "no read"),
    *("failover", "full ISR", "operator"),
)
"""Left out if only one topic is assessed."""
_WIDE = 240
_NOT_RUN = "not run"
"""Status of a line for whose fault there was no time."""


def console() -> Console:
    """A console on stdout; if that is not a terminal, it is wide enough for the table."""
    return table_console(_WIDE)


def header(document: AssessmentDocument) -> list[tuple[str, str]]:
    """What was assessed: a label and a text for each line."""
    return list(document["header"].items())


def legend(document: AssessmentDocument) -> str:
    """What the table's cells mean."""
    producers, azs = document["producers"], " / ".join(_azs(document).values())
    return (
        f"controller, leader: whether the fault hits them. lost to order: {' / '.join(producers)}. "
        f"no write, no read: seconds in {azs} with {producers[0]}, from the shortest to "
        "the longest if runs were repeated; * until the fault was healed, ~ varies from run to run. "
        "failover, full ISR: seconds. –: none. promise: kept where Kafka made one and it held; not promised "
        "where it made none. at risk: nothing was lost, but Kafka does not promise that."
        + (
            " topic all: the messages of all topics, the longest time and the worst judgement; each topic "
            "follows where they fared differently."
            if _has_topics(document)
            else ""
        )
        + _not_run(document)
    )


_MEANINGS = {
    "as declared": "Kafka kept what it promises in every run",
    "violated": "a promise of Kafka was broken, or something happened that no fault explains",
    "unknown": "the runs do not decide whether Kafka kept all its promises",
}


def verdict(document: AssessmentDocument) -> list[str]:
    """The verdict in a sentence, and one for each run that is not as declared."""
    if "verdict" not in document:
        return []
    says = {line["case"]: line["says"] for line in document["lines"]}
    word = document["verdict"]
    runs = [
        (run["verdict"], says.get(run["case"], run["case"]), "; ".join(run["reasons"]), run["run"])
        for run in document["not_as_declared"]
    ]
    return [
        f"verdict: {word}: {_MEANINGS[word]}.",
        *(f"{verdict}: {case}: {reasons} ({folder})" for verdict, case, reasons, folder in runs),
    ]


def _not_run(document: AssessmentDocument) -> str:
    """A sentence about the faults for which there was no time; they have no row."""
    cases = {line["case"]: line["status"] for line in document["lines"]}
    left = sum(status == _NOT_RUN for status in cases.values())
    return f" {left} of {len(cases)} faults were not run." if left else ""


def table(document: AssessmentDocument) -> Table:
    """A row for each line; only the first row of a fault names it."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for heading in _headings(document):
        shown.add_column(heading, no_wrap=heading not in ("fault", "operator"))
    before: tuple[str, ...] = ()
    for row, style in _rows(document):
        shown.add_row(*(("", "") if row[:2] == before else row[:2]), *row[2:], style=style)
        before = row[:2]
    return shown


def markdown(document: AssessmentDocument) -> str:
    """What was assessed, the table, its legend, and the consequences."""
    headings = _headings(document)
    what = [f"* {label}: {text}" for label, text in header(document)]
    head, *body = (f"| {' | '.join(line)} |" for line in (headings, *(row for row, _ in _rows(document))))
    words = "\n".join(f"* {sentence}" for sentence in (*document["consequences"], *verdict(document)))
    return (
        "\n".join((*what, "", head, "|" + "---|" * len(headings), *body, "", legend(document), "", words))
        + "\n"
    )


def _azs(document: AssessmentDocument) -> Mapping[str, str]:
    """Names of the AZs that have clients."""
    return {az: name for az, name in document["azs"].items() if az in document["clients"]}


def _has_topics(document: AssessmentDocument) -> bool:
    return any(line.get("topics") for line in document["lines"])


def _headings(document: AssessmentDocument) -> tuple[str, ...]:
    return tuple(heading for heading in HEADINGS if heading != "topic" or _has_topics(document))


def _rows(document: AssessmentDocument) -> Iterator[tuple[tuple[str, ...], str]]:
    """A row for each line whose fault was run, and if its topics differ, one for each topic."""
    shown = _Shown(document["producers"], tuple(_azs(document)), _has_topics(document))
    for line in document["lines"]:
        if line["status"] == _NOT_RUN:
            continue
        yield shown.row(line)
        if line.get("topics_differ"):
            yield from map(shown.row, line["topics"])


@dataclass(frozen=True)
class _Shown:
    """What a row shows."""

    producers: Sequence[str]
    azs: Sequence[str]
    topics: bool

    def row(self, line: Mapping[str, Any]) -> tuple[tuple[str, ...], str]:
        """The cells, and the style."""
        start = (line["says"], line["roles"].replace("quorum leader", "quorum"))
        topic = ((line.get("topic") or "all"),) if self.topics else ()
        if line["status"] != "measured":
            return (*start, "", *([""] * len(topic)), line["status"], *[""] * 7, line["reason"]), "yellow"
        producers, azs, settings = self.producers, self.azs, line["settings"]
        described, of_run = settings[producers[0]], not line.get("topic")
        cells = (
            *(*start, line["led"], *topic),
            " / ".join(_lost(settings.get(name)) for name in producers),
            " / ".join("–" if name not in settings else _promise(settings[name]) for name in producers),
            " / ".join(_count(settings.get(name), "duplicated") for name in producers),
            " / ".join(_count(settings.get(name), "out_of_order") for name in producers),
            *(
                " / ".join(_gap(gaps.get(az), varies=bool(line.get("varies"))) for az in azs)
                for gaps in (described["writes"], line["reads"])
            ),
            "–" if line["failover_s"] is None else f"{line['failover_s']:.1f}",
            *((_recovered(line), "; ".join(line["operator"]) or "–") if of_run else ("", "")),
        )
        styled = "broken" if described["promise"] == "broken" else described["outcome"]
        return cells, _STYLES.get(styled, "")


def _recovered(line: Mapping[str, Any]) -> str:
    return "never" if line["recovery_s"] is None else f"{line['recovery_s']:.1f}"


def _lost(setting: Mapping[str, Any] | None) -> str:
    if setting is None:
        return "–"
    if setting["outcome"] == "unknown":
        return "?"
    if setting["outcome"] == "at risk":
        return "0 (at risk)"
    read = f" ({setting['lost_after_read']} read)" if setting["lost_after_read"] else ""
    return f"{setting['lost']}{read}"


def _promise(setting: Mapping[str, Any]) -> str:
    return f"{setting['promise']}{' (known bug)' if setting['known_bugs'] else ''}"


def _count(setting: Mapping[str, Any] | None, name: str) -> str:
    return "–" if setting is None else str(setting[name])


def _gap(gap: Mapping[str, Any] | None, *, varies: bool) -> str:
    if gap is None:
        return "–"
    least, most = (_seconds(gap.get(key, gap["seconds"])) for key in ("least_s", "seconds"))
    if least == most == "<1":
        return most
    until_heal = "*" if gap["until_heal"] else ""
    return ("~" if varies else "") + (most if least == most else f"{least}–{most}") + until_heal


def _seconds(seconds: float) -> str:
    return "<1" if seconds < 1 else f"{seconds:.0f}"

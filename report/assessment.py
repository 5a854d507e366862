"""The table of an assessment, on the terminal and for its other forms.

Works on the document that `assessment.json` holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.text import Text

from harness.console import Console
from report.console import NONE, Cell, Column, RowTable
from report.model.assessed import NOT_RUN, AssessmentDocument, azs_of
from report.model.shapes import AssessmentShape, shaped

_STYLES = {"broken": "bold red", "lost": "red", "at risk": "yellow", "unknown": "yellow"}
_GROUP = "group: no read (s)"
_RARE = ("duplicates", "out of order")
"""Columns that are left out where they would say nothing but 0."""


def read_assessment(file: Path) -> AssessmentDocument:
    """A stored `assessment.json`. Raises BadDataError if it is damaged."""
    return shaped(file, AssessmentShape)


def show(document: AssessmentDocument, console: Console) -> None:
    """Print what was assessed, the table with its legend, and what follows from it."""
    show_header(document["header"], console)
    console.print()
    table(document).show(console)
    console.print()
    for line in legend(document):
        console.paragraph(escape(line), lead="  ", style="dim")
    console.print()
    for sentence in document["consequences"]:
        console.paragraph(escape(sentence), lead="• ")
    console.print()
    for sentence in verdict(document):
        console.paragraph(escape(sentence))


def show_header(header: Mapping[str, str], console: Console) -> None:
    """Print what is assessed: a label and a text for each line."""
    label = max(map(len, header))
    for name, text in header.items():
        console.paragraph(escape(text), lead=f"[dim]{escape(f'{name:{label}}')}[/dim]  ")


def legend(document: AssessmentDocument) -> list[str]:
    """What the table's cells mean, a line for each column or two, and what the table leaves out."""
    described = document["producers"][0]
    lines = [
        "controller: inside or outside of what the fault hits, and its host; leader: the same for leaders of "
        "partitions",
        "lost: acknowledged messages that are on no replica at the end; (n read): a consumer had read n of "
        "them",
        "promise: kept: Kafka promised to keep what it acknowledged before the fault, and did; not promised: "
        "it made no promise, whether or not something was lost",
        f"no write, no read: the longest time in which clients in the AZ could not write to (with "
        f"{described}) or read from a partition; *: until the fault was healed; ~: it varies from run to "
        f"run; a–b: in the best and in the worst of several runs",
        *(
            [
                "group: the longest time in which the consumer group of a topic, with a member in each AZ, "
                "received nothing of a partition"
            ]
            if _has_groups(document)
            else []
        ),
        "failover: from the fault until partitions that lost their leader had another; full ISR: from the "
        "heal until every replica was in sync",
    ]
    if any("sessions of" in line["roles"] for line in document["lines"]):
        lines.append("sessions kept, lost: whether the ZooKeeper sessions of the brokers in that AZ last")
    if _has_topics(document):
        lines.append(
            "topic: all has the messages of all topics, the longest time and the worst judgement; topics "
            "that fared differently follow"
        )
    blank = [name for name in _RARE if name not in _shown_headings(document)]
    if blank:
        absent = {"duplicates": "no message is there twice", "out of order": "none is out of order"}
        lines.append(f"left out: {' and '.join(blank)}, since {' and '.join(absent[one] for one in blank)}")
    cases = {line["case"]: line["status"] for line in document["lines"]}
    left = sum(status == NOT_RUN for status in cases.values())
    if left:
        lines.append(f"{left} of {len(cases)} faults were not run")
    return lines


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


def table(document: AssessmentDocument, *, whole: bool = False) -> RowTable:
    """A row for each placement of a fault; the rows of a fault are adjacent.

    ``whole``: with the columns that say nothing but 0.
    """
    columns, rows = _columns(document), list(_rows(document))
    shown = [
        at
        for at, column in enumerate(columns)
        if whole or column.heading not in _RARE or any(_says_something(row[at]) for row in rows)
    ]
    return RowTable(
        columns=[columns[at] for at in shown],
        rows=[[row[at] for at in shown] for row in rows],
        named_by=4 if _has_topics(document) else 3,
        grouped_by=1,
    )


def _columns(document: AssessmentDocument) -> list[Column]:
    producers, azs = tuple(document["producers"]), tuple(azs_of(document).values())
    return [
        *(Column(heading="fault", prose=True), Column(heading="controller", prose=True)),
        Column(heading="leader"),
        *([Column(heading="topic")] if _has_topics(document) else []),
        Column(heading="lost (messages)", parts=producers, right=True),
        Column(heading="promise", parts=producers),
        *(Column(heading=heading, parts=producers, right=True) for heading in _RARE),
        *(Column(heading=heading, parts=azs, right=True) for heading in ("no write (s)", "no read (s)")),
        *([Column(heading=_GROUP, right=True)] if _has_groups(document) else []),
        Column(heading="time (s)", parts=("failover", "full ISR"), right=True),
        Column(heading="note", prose=True),
    ]


def _says_something(cell: Cell) -> bool:
    values = cell if isinstance(cell, tuple) else (cell,)
    return any(str(value) not in ("", "0", NONE) for value in values)


def _shown_headings(document: AssessmentDocument) -> set[str]:
    return {column.heading for column in table(document).columns}


def _has_groups(document: AssessmentDocument) -> bool:
    """Whether the runs had consumer groups: those on clusters of others have none."""
    return any(line.get("group") for line in document["lines"])


def _has_topics(document: AssessmentDocument) -> bool:
    return any(line.get("topics") for line in document["lines"])


def _rows(document: AssessmentDocument) -> Iterator[tuple[Cell, ...]]:
    """A row for each line whose fault was run, and if its topics differ, one for each topic."""
    shown = _Shown(
        hosts=document.get("hosts", {}),
        producers=document["producers"],
        azs=tuple(azs_of(document)),
        topics=_has_topics(document),
        groups=_has_groups(document),
    )
    by_fault: dict[str, list[Mapping[str, Any]]] = {}
    for line in document["lines"]:
        if line["status"] != NOT_RUN:
            by_fault.setdefault(line["says"], []).append(line)
    for lines in by_fault.values():
        for line in lines:
            yield shown.row(line)
            if line.get("topics_differ"):
                yield from map(shown.row, line["topics"])


@dataclass(frozen=True, kw_only=True)
class _Shown:
    """What a row shows."""

    hosts: Mapping[str, str]
    """The AZ of each host."""
    producers: Sequence[str]
    azs: Sequence[str]
    topics: bool
    groups: bool

    def row(self, line: Mapping[str, Any]) -> tuple[Cell, ...]:
        """The cells."""
        names = (line["says"], self._roles(line), line["led"] or NONE)
        topic = ((line.get("topic") or "all"),) if self.topics else ()
        producers, azs, settings = self.producers, self.azs, line["settings"]
        if line["status"] != "measured":
            each, az = (NONE,) * len(producers), (NONE,) * len(azs)
            note = Text(f"{line['status']}: {line['reason']}", "yellow")
            group = (NONE,) if self.groups else ()
            return (*names, *topic, each, each, each, each, az, az, *group, (NONE, NONE), note)
        described, of_run = settings[producers[0]], not line.get("topic")
        varies = bool(line.get("varies"))
        return (
            *(*names, *topic),
            tuple(_styled(_lost(settings.get(name)), settings.get(name)) for name in producers),
            tuple(_styled(_promise(settings.get(name)), settings.get(name)) for name in producers),
            tuple(_count(settings.get(name), "duplicated") for name in producers),
            tuple(_count(settings.get(name), "out_of_order") for name in producers),
            tuple(_gap(described["writes"].get(az), varies=varies) for az in azs),
            tuple(_gap(line["reads"].get(az), varies=varies) for az in azs),
            *([_gap(line.get("group"), varies=varies)] if self.groups else []),
            (
                NONE if line["failover_s"] is None else f"{line['failover_s']:.1f}",
                _recovered(line) if of_run else NONE,
            ),
            f"an operator had to {' and '.join(line['operator'])}" if of_run and line["operator"] else NONE,
        )

    def _roles(self, line: Mapping[str, Any]) -> str:
        """Where the roles are, each with its host, so that rows of different placements differ."""
        controller, *others = line["roles"].split(", ")
        hosts = [line.get("controller", ""), *(line.get("quorum_leader", "") for _ in others)]
        return ", ".join(
            f"{role} ({host}, {self.hosts[host]})"
            if host in self.hosts and not role.startswith("sessions")
            else role
            for role, host in zip((controller, *others), hosts, strict=True)
        )


def _styled(text: str, setting: Mapping[str, Any] | None) -> Text:
    if setting is None:
        return Text(text)
    styled = "broken" if setting["promise"] == "broken" else setting["outcome"]
    return Text(text, _STYLES.get(styled, ""))


def _recovered(line: Mapping[str, Any]) -> str:
    return "never" if line["recovery_s"] is None else f"{line['recovery_s']:.1f}"


def _lost(setting: Mapping[str, Any] | None) -> str:
    if setting is None:
        return NONE
    if setting["outcome"] == "unknown":
        return "?"
    read = f" ({setting['lost_after_read']} read)" if setting["lost_after_read"] else ""
    return f"{setting['lost']}{read}"


def _promise(setting: Mapping[str, Any] | None) -> str:
    if setting is None:
        return NONE
    return f"{setting['promise']}{' (known bug)' if setting['known_bugs'] else ''}"


def _count(setting: Mapping[str, Any] | None, name: str) -> str:
    return NONE if setting is None else str(setting[name])


def _gap(gap: Mapping[str, Any] | None, *, varies: bool) -> str:
    if gap is None:
        return NONE
    least, most = (_seconds(gap.get(key, gap["seconds"])) for key in ("least_s", "seconds"))
    if least == most == "<1":
        return most
    until_heal = "*" if gap["until_heal"] else ""
    return ("~" if varies else "") + (most if least == most else f"{least}–{most}") + until_heal


def _seconds(seconds: float) -> str:
    return "<1" if seconds < 1 else f"{seconds:.0f}"

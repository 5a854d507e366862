"""The verdict of one run in the terminal: claims, fates, findings, and where the run folder is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harness.errors import AckedError

_STATUS_STYLE = {
    "confirmed": "green",
    "refuted": "magenta",
    "not reproduced": "yellow",
    "unknown": "yellow",
}
_VERDICT_STYLE = {
    "as declared": "bold green",
    "unknown": "bold yellow",
    "violated": "bold red",
    "invalid": "bold red",
    "crashed": "bold red",
    "unfit": "bold yellow",
}
SHOWN_GROUPS = 8


def show(judgement: Mapping[str, Any], console: Console | None = None) -> None:
    """Print a judgement (`judgement.json`) for a person."""
    out = console or Console(highlight=False)
    _claims(judgement.get("claims", ()), out)
    _fates(judgement, out)
    _findings(judgement, out)
    _promises(judgement.get("promises") or (), out)
    verdict = str(judgement["verdict"])
    style = _VERDICT_STYLE.get(verdict, "bold")
    out.print(f"\nVerdict: [{style}]{verdict}[/]", end="")
    reasons = judgement.get("reasons") or ()
    out.print(f" ({escape('; '.join(reasons))})" if reasons else "", soft_wrap=True)
    if judgement.get("run"):
        out.print(f"Run folder: {escape(_short(str(judgement['run'])))}", soft_wrap=True)


def _short(path: str) -> str:
    """The path relative to the current folder, if it is inside it."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


def show_error(error: AckedError, console: Console | None = None) -> None:
    """Print an error to stderr: its sentence, with the detail below."""
    out = console or Console(stderr=True, highlight=False)
    out.print(f"[bold red]acked:[/] {escape(error.message)}", soft_wrap=True)
    if error.detail:
        out.print(escape(error.detail), style="dim", soft_wrap=True)


def show_durations(durations: Mapping[str, float], console: Console | None = None) -> None:
    """Print how long each phase of the run took, in seconds."""
    out = console or Console(highlight=False)
    parts = [f"{name} {seconds:.1f} s" for name, seconds in durations.items()]
    out.print(f"Phases: {' · '.join(parts)}", style="dim", soft_wrap=True)


def _claims(claims: Sequence[Mapping[str, Any]], out: Console) -> None:
    if not claims:
        return
    out.print("\n[bold]Claims[/]")
    for claim in claims:
        status = str(claim["status"])
        mark = "[green]✓[/]" if claim["as_declared"] else "[bold red]✗[/]"
        style = _STATUS_STYLE.get(status, "")
        kind = "precondition" if claim.get("precondition") else ""
        section = ", ".join(part for part in (claim["section"], kind) if part)
        place = f" [dim]({escape(section)})[/]" if section else ""
        out.print(f" {mark} [{style}]{status:<14}[/] {escape(claim['says'])}{place}", soft_wrap=True)
        out.print(f"     [dim]observed:[/] {escape(str(claim['observed']))}", soft_wrap=True)
        either = claim.get("either")
        instead = claim.get("erratum") or (
            either if either and claim.get("occurred") == either["says"] else None
        )
        if instead:
            out.print(
                f"     [dim]instead:[/]  {escape(instead['says'].rstrip('.'))}, "
                f"[dim]because {escape(instead['because'])}[/]",
                soft_wrap=True,
            )


def _fates(judgement: Mapping[str, Any], out: Console) -> None:
    rows = judgement.get("fates_by_writer") or ()
    if not rows:
        return
    out.print("\n[bold]What became of every message[/]")
    fates = sorted({row["fate"] for row in rows})
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("writer", "az", "acks"):
        table.add_column(heading)
    for fate in fates:
        table.add_column(fate.replace("_", " "), justify="right")
    writers: dict[tuple[str, str, str], dict[str, int]] = {}
    for row in rows:
        acks = {-1: "all", None: ""}.get(row.get("acks"), str(row.get("acks")))
        key = (str(row.get("writer_name") or ""), str(row.get("az") or ""), acks)
        counts = writers.setdefault(key, {})
        counts[row["fate"]] = counts.get(row["fate"], 0) + int(row["count"])
    for key, counts in sorted(writers.items()):
        table.add_row(*(escape(part) for part in key), *(str(counts.get(fate, "")) for fate in fates))
    out.print(table)


@dataclass(kw_only=True)
class _Group:
    """Findings with the same class and cause, either all expected or none."""

    name: str
    cause: str
    expected: bool
    example: Mapping[str, Any]
    count: int = 0


def _grouped(findings: Sequence[Mapping[str, Any]]) -> list[_Group]:
    """Groups of findings, unexpected ones first, then the largest."""
    groups: dict[tuple[str, str, bool], _Group] = {}
    for finding in findings:
        name, cause = str(finding.get("class")), str(finding.get("cause") or "")
        expected = bool(finding.get("expected"))
        group = groups.setdefault(
            (name, cause, expected), _Group(name=name, cause=cause, expected=expected, example=finding)
        )
        group.count += 1
    return sorted(groups.values(), key=lambda group: (group.expected, -group.count))


def _findings(judgement: Mapping[str, Any], out: Console) -> None:
    totals: Mapping[str, int] = judgement.get("findings_by_class") or {}
    if not totals:
        out.print("\nFindings: none")
        return
    out.print(
        f"\n[bold]Findings[/]: {escape(', '.join(_count(n, name) for name, n in sorted(totals.items())))}"
    )
    sample: Sequence[Mapping[str, Any]] = judgement.get("findings") or ()
    groups = _grouped(sample)
    complete = len(sample) == sum(totals.values())
    for group in groups[:SHOWN_GROUPS]:
        mark = "[dim]expected[/]  " if group.expected else "[bold red]UNEXPECTED[/]"
        number = _count(group.count, group.name)
        if not complete:  # the judgement holds only a sample
            number = f"at least {number}"
        cause = f": {group.cause}" if group.cause else ""
        out.print(f" {mark} {escape(number + cause)}", soft_wrap=True)
        introduction = "for example " if group.count > 1 or not complete else ""
        out.print(f"            {introduction}{escape(describe(group.example))}", soft_wrap=True)
    if len(groups) > SHOWN_GROUPS:
        left = sum(group.count for group in groups[SHOWN_GROUPS:])
        out.print(f" [dim]... and {left} more, of other classes or causes[/]")
    if not complete or len(groups) > SHOWN_GROUPS:
        out.print(" [dim]findings.parquet in the run folder holds them all[/]")


_PROMISES = {
    "broken": ("[bold red]BROKEN[/]      ", "breaks a promise", "break a promise"),
    "unknown": ("[yellow]not known[/]   ", "of unknown promise", "of unknown promise"),
    "not promised": ("[dim]not promised[/]", "not promised", "not promised"),
}
"""By judgement of a promise: its mark, and the words for one finding and for several."""
SHOWN_PROMISES = 4


def _promises(rows: Sequence[Mapping[str, Any]], out: Console) -> None:
    """Which findings break what Kafka promises, by row of the promise table."""
    if not rows:
        return
    totals: dict[str, int] = {}
    reasons: dict[tuple[str, str, str, str], int] = {}
    for row in rows:
        promise, count = str(row["promise"]), int(row["count"])
        totals[promise] = totals.get(promise, 0) + count
        key = (promise, str(row.get("row") or ""), str(row.get("known_bug") or ""), str(row["why"]))
        reasons[key] = reasons.get(key, 0) + count
    parts = [f"{count} {_PROMISES[promise][1 if count == 1 else 2]}" for promise, count in totals.items()]
    out.print(f"[bold]Promises of Kafka[/]: {', '.join(parts)}")
    shown = list(reasons.items())
    for (promise, name, bug, why), count in shown[:SHOWN_PROMISES]:
        place = "; ".join(
            part for part in (f"row {name}" if name else "", f"known bug {bug}" if bug else "") if part
        )
        text = f"{count}: {why}" + (f" ({place})" if place else "")
        out.print(f" {_PROMISES[promise][0]} {escape(text)}", soft_wrap=True)
    if len(shown) > SHOWN_PROMISES:
        left = sum(count for _, count in shown[SHOWN_PROMISES:])
        out.print(f" [dim]... and {left} more, of other rows[/]")


def _count(number: int, name: str) -> str:
    return f"{number} {name.replace('_', ' ')}"


def describe(finding: Mapping[str, Any]) -> str:
    """The record of a finding, and what is known about it."""
    what = "record"
    if finding.get("writer") is not None:
        label = f"{finding['label']} " if finding.get("label") else ""
        what = f"message {label}({finding['writer']}/{finding['seq']})"
    text = f"{what} in {finding.get('topic')}/{finding.get('partition')}"
    if finding.get("offset") is not None:
        text += f" at offset {finding['offset']}"
    if finding.get("epoch") is not None:
        text += f" in epoch {finding['epoch']}"
    if finding.get("acked_by") is not None or finding.get("acked_s") is not None:
        text += ", acknowledged"
    if finding.get("acked_by") is not None:
        text += f" by broker{finding['acked_by']}"
    if finding.get("acked_s") is not None:
        text += f" at {finding['acked_s']:.2f} s"
    if finding.get("fault"):
        text += f" during `{finding['fault']}`"
    if finding.get("last_broker") is not None:
        text += f", last seen on broker{finding['last_broker']}"
    return text

"""The verdict of one run in the terminal: claims, fates, findings, and where the run folder is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.markup import escape

from harness.console import Console
from harness.errors import AckedError, sentence
from harness.history.time_zero import in_seconds
from report.console import NONE, Column, RowTable
from report.model.model import (
    BlockedReaders,
    Claim,
    Finding,
    Promise,
    ReportModel,
    Tone,
    WriterFates,
    acks_in_words,
)
from report.model.recorded import RecordedAvailability
from report.words.times import counted_from

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
_TONE_STYLE: Mapping[Tone, str] = {
    "kept": "bold green",
    "cost": "bold yellow",
    "broken": "bold red",
    "undecided": "bold yellow",
    "void": "bold red",
}
SHOWN_GROUPS = 8


def show(
    model: ReportModel, console: Console | None = None, *, blocked: Sequence[BlockedReaders] = ()
) -> None:
    """Print what a run's judgement says, for a person.

    A model that was made from a judgement alone does not have the ``blocked`` readers.
    """
    out = console or Console(highlight=False)
    _claims(model.claims, out)
    _fates(model.writers, out)
    _findings(model, out)
    blocked = blocked or model.blocked
    _blocked(blocked, out)
    if blocked or any(group.shown[0].acked_s is not None for group in model.groups[:SHOWN_GROUPS]):
        text = counted_from(model.zero.fault, model.zero.utc)
        out.paragraph(text, style="dim")
    _promises(model.promises, out)
    if model.verdict.seen:
        out.print(escape(model.verdict.seen), soft_wrap=True)
    verdict = model.verdict.verdict
    out.print()
    if model.verdict.headline:
        out.paragraph(escape(model.verdict.headline), style=_TONE_STYLE[model.verdict.tone])
    reasons = f" ({escape('; '.join(model.verdict.reasons))})" if model.verdict.reasons else ""
    out.paragraph(f"Verdict: [{_VERDICT_STYLE.get(verdict, 'bold')}]{verdict}[/]{reasons}")
    if model.run.folder:
        out.paragraph(escape(short_path(model.run.folder)), lead="Run folder: ")


def short_path(path: str) -> str:
    """The path relative to the current folder, if it is inside it."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


def show_error(error: AckedError, console: Console | None = None) -> None:
    """Print an error to stderr: its sentence, which is one line and not long, with the detail below."""
    out = console or Console(stderr=True, highlight=False)
    out.paragraph(escape(sentence(error.message)), lead="[bold red]acked:[/] ")
    for line in error.detail.splitlines():
        out.paragraph(escape(line), style="dim")


def show_durations(durations: Mapping[str, float], console: Console | None = None) -> None:
    """Print how long each phase of the run took, in seconds."""
    out = console or Console(highlight=False)
    parts = [f"{name} {seconds:.1f} s" for name, seconds in durations.items()]
    out.paragraph(" · ".join(parts), lead="Phases: ", style="dim")


def show_availability(available: RecordedAvailability, console: Console | None = None) -> None:
    """Print what producers achieved while a cluster was recorded, and how long recoveries took."""
    out = console or Console(highlight=False)
    out.print("\n[bold]Availability[/], by the AZ of the first leader")
    headings = ("acknowledged", "per s", "longest gap, s", "p50, ms", "p99, ms", "max, ms")
    columns = [
        *(Column(heading=heading) for heading in ("az", "producer")),
        *(Column(heading=heading, right=True) for heading in headings),
    ]
    rows = [
        (
            one.az,
            one.setting,
            *map(
                str,
                (one.acknowledged, one.per_s, one.longest_gap_s, one.p50_ms, one.p99_ms, one.max_ms),
            ),
        )
        for one in available.by_az
    ]
    RowTable(columns=columns, rows=rows, named_by=2).show(out)
    for what, times in (
        ("from a leader's silence to a new leader", available.failover_s),
        ("until an ISR was complete again", available.full_isr_s),
    ):
        if times:
            shown = ", ".join(f"{seconds:g}" for seconds in times[:SHOWN_GROUPS])
            out.print(f"{what}: {shown} s{' ...' if len(times) > SHOWN_GROUPS else ''}")


def _claims(claims: Sequence[Claim], out: Console) -> None:
    if not claims:
        return
    out.print("\n[bold]Claims[/]")
    for claim in claims:
        mark = "[green]✓[/]" if claim.as_declared else "[bold red]✗[/]"
        style = _STATUS_STYLE.get(claim.status, "")
        kind = "precondition" if claim.precondition else ""
        section = ", ".join(part for part in (claim.section, kind) if part)
        place = f" [dim]({escape(section)})[/]" if section else ""
        status = f"[{style}]{claim.status:<14}[/]" if style else f"{claim.status:<14}"
        out.paragraph(f"{escape(claim.says)}{place}", lead=f" {mark} {status} ")
        out.paragraph(escape(claim.observed), lead="     [dim]observed:[/] ")
        if claim.instead:
            out.paragraph(
                f"{escape(claim.instead.rstrip('.'))}, [dim]because {escape(claim.because)}[/]",
                lead="     [dim]instead:[/]  ",
            )


def _fates(writers: Sequence[WriterFates], out: Console) -> None:
    if not writers:
        return
    out.print("\n[bold]What became of every message[/]")
    fates = sorted({fate for writer in writers for fate in writer.fates})
    columns = (
        *(Column(heading=heading) for heading in ("writer", "AZ", "acks")),
        *(Column(heading=fate.replace("_", " "), right=True) for fate in fates),
    )
    rows = [
        (
            *(one.writer, one.az or NONE, acks_in_words(one.acks)),
            *(str(one.fates.get(fate, NONE)) for fate in fates),
        )
        for one in writers
    ]
    RowTable(columns=columns, rows=rows).show(out)


def _findings(model: ReportModel, out: Console) -> None:
    if not model.findings:
        out.print("\nFindings: none")
        return
    totals = ", ".join(_count(count, name) for name, count in sorted(model.findings.items()))
    out.print()
    out.paragraph(escape(totals), lead="[bold]Findings[/]: ")
    groups = model.groups
    for group in groups[:SHOWN_GROUPS]:
        mark = "[dim]expected[/]  " if group.expected else "[bold red]UNEXPECTED[/]"
        number = _count(group.count, group.name)
        if group.sampled:
            number = f"at least {number}"
        cause = f": {group.cause}" if group.cause else ""
        out.paragraph(escape(number + cause), lead=f" {mark} ")
        introduction = "for example " if group.count > 1 or group.sampled else ""
        out.paragraph(f"{introduction}{escape(describe(group.shown[0]))}", lead=" " * 12)
    if len(groups) > SHOWN_GROUPS:
        left = sum(group.count for group in groups[SHOWN_GROUPS:])
        out.print(f" [dim]and {left} more, of other classes or causes[/]")
    if len(groups) > SHOWN_GROUPS or any(group.sampled for group in groups):
        out.print(" [dim]findings.parquet in the run folder holds them all[/]")


SHOWN_BLOCKS = 4


def _blocked(blocked: Sequence[BlockedReaders], out: Console) -> None:
    """Where readers of committed records waited, and for which transaction."""
    if not blocked:
        return
    out.print("[bold]Readers of committed records were blocked[/]")
    for one in blocked[:SHOWN_BLOCKS]:
        out.paragraph(escape(block_in_words(one)), lead=" ")
    if len(blocked) > SHOWN_BLOCKS:
        out.print(f" [dim]and {len(blocked) - SHOWN_BLOCKS} more times, for a shorter time[/]")


def block_in_words(one: BlockedReaders) -> str:
    """When readers were blocked, where, and by which transaction, in a sentence."""
    brokers = " and ".join(f"broker{number}" for number in one.brokers)
    until = "until the run ended" if one.to_s is None else f"until {in_seconds(one.to_s)}"
    records = "1 record" if one.behind == 1 else f"{one.behind} records"
    who = "a record of no known transaction"
    if one.transaction:
        of = f" of {one.producer}" if one.producer else ""
        who = f"transaction {one.transaction}{of}, reported as {one.reported or 'unknown'}"
    return (
        f"{one.place} at offset {one.offset} on {brokers}: blocked for {one.seconds:.1f} s, from "
        f"{in_seconds(one.from_s)} {until}, by {who}; it held back up to {records}"
    )


_PROMISES = {
    "broken": ("[bold red]BROKEN[/]      ", "breaks a promise", "break a promise"),
    "unknown": ("[yellow]not known[/]   ", "of unknown promise", "of unknown promise"),
    "not promised": ("[dim]not promised[/]", "not promised", "not promised"),
}
"""By judgement of a promise: its mark, and the words for one finding and for several."""
SHOWN_PROMISES = 4


def _promises(promises: Sequence[Promise], out: Console) -> None:
    """Which findings break what Kafka promises, by row of the promise table."""
    if not promises:
        return
    totals: dict[str, int] = {}
    for one in promises:
        totals[one.promise] = totals.get(one.promise, 0) + one.count
    parts = [f"{count} {_PROMISES[promise][1 if count == 1 else 2]}" for promise, count in totals.items()]
    out.paragraph(", ".join(parts), lead="[bold]Promises of Kafka[/]: ")
    for one in promises[:SHOWN_PROMISES]:
        place = "; ".join(
            part
            for part in (
                f"row {one.row}" if one.row else "",
                f"known bug {one.known_bug}" if one.known_bug else "",
            )
            if part
        )
        text = f"{one.count}: {one.why}" + (f" ({place})" if place else "")
        out.paragraph(escape(text), lead=f" {_PROMISES[one.promise][0]} ")
    if len(promises) > SHOWN_PROMISES:
        left = sum(one.count for one in promises[SHOWN_PROMISES:])
        out.print(f" [dim]and {left} more, of other rows[/]")


def _count(number: int, name: str) -> str:
    return f"{number} {name.replace('_', ' ')}"


def describe(finding: Finding) -> str:
    """The record of a finding, and what is known about it."""
    what = "record"
    if finding.message:
        kind = "transaction" if finding.message.startswith("txn:") else "message"
        label = f"{finding.label} " if finding.label else ""
        what = f"{kind} {label}({finding.message})"
    text = f"{what} in {finding.place}" if finding.place else what
    if finding.offset is not None:
        text += f" at offset {finding.offset}"
    if finding.epoch is not None:
        text += f" in epoch {finding.epoch}"
    if finding.acked_by is not None or finding.acked_s is not None:
        text += ", taken as acknowledged (acks=0)" if finding.acks == 0 else ", acknowledged"
    if finding.acked_by is not None and finding.acks != 0:
        text += f" by broker{finding.acked_by}"
    if finding.acked_s is not None:
        text += f" at {in_seconds(finding.acked_s, 2)}"
    if finding.during:
        text += f" during `{finding.during}`"
    if finding.last_broker is not None:
        text += f", last seen on broker{finding.last_broker}"
    return text

"""The report of one run as Markdown, for an issue, a pull request or the page of a CI job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from report.model.model import Claim, FindingGroup, ReportModel, WriterFates, acks_in_words, counted
from report.words.times import counted_from

_SHOWN_GROUPS = 20
_SIGNS = "\\`*_<>|[]#"


def run_markdown(model: ReportModel) -> str:
    """What happened, why the verdict is what it is, the claims, and every cause with an example."""
    return "\n\n".join(_parts(model)) + "\n"


def _parts(model: ReportModel) -> Iterator[str]:
    run, verdict = model.run, model.verdict
    yield f"## {'Import ' if run.imported else ''}{plain(run.scenario)}: {verdict.verdict}"
    facts = (
        f"Kafka {run.kafka}" if run.kafka else "",
        run.mode,
        f"lab {run.lab}" if run.lab else "",
        counted(verdict.messages, "message"),
        f"{run.duration_s:g} s" if run.duration_s else "",
        run.started,
    )
    yield plain(", ".join(fact for fact in facts if fact))
    yield from (plain(one) for one in (verdict.headline, run.problem, verdict.meaning) if one)
    if verdict.reasons:
        yield _list(verdict.reasons)
    sentences = (*verdict.sentences, *verdict.why, *verdict.also)
    if sentences:
        yield "### What happened\n\n" + _list(sentences)
        yield plain(counted_from(model.zero.fault, model.zero.utc))
    if model.claims:
        rows = [(_result(claim), _statement(claim), claim.section, claim.observed) for claim in model.claims]
        yield "### Claims\n\n" + _table(("result", "claim", "section", "observed"), rows)
    if model.groups:
        yield "### Findings\n\n" + _findings(model.groups)
    if model.writers:
        yield "### What became of every message\n\n" + _fates(model.writers)
    if run.command:
        yield f"{'Judge it again' if run.imported else 'Repeat it'} with `{run.command}`."


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {plain(line)}" for line in lines)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *([plain(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _result(claim: Claim) -> str:
    sign = "✓" if claim.as_declared else "✗"
    return f"{sign} {claim.status}{', a precondition' if claim.precondition else ''}"


def _statement(claim: Claim) -> str:
    return f"{claim.says} Instead: {claim.instead}" if claim.instead else claim.says


def _findings(groups: Sequence[FindingGroup]) -> str:
    rows = []
    for group in groups[:_SHOWN_GROUPS]:
        example = group.shown[0] if group.shown else None
        named = (example.label, example.message, example.place) if example else ()
        what = " ".join(part for part in named if part)
        number = f"{'at least ' if group.sampled else ''}{group.count}"
        expected = "yes" if group.expected else "no"
        rows.append((number, group.name.replace("_", " "), expected, group.cause, what))
    text = _table(("number", "finding", "expected", "cause", "for example"), rows)
    left = len(groups) - _SHOWN_GROUPS
    return (
        f"{text}\n\n{counted(left, 'further group')} of findings: see the run folder." if left > 0 else text
    )


def _fates(writers: Sequence[WriterFates]) -> str:
    fates = sorted({fate for writer in writers for fate in writer.fates})
    rows = [
        (
            writer.writer,
            writer.az,
            acks_in_words(writer.acks),
            *(str(writer.fates.get(fate, "")) for fate in fates),
        )
        for writer in writers
    ]
    return _table(("writer", "az", "acks", *(fate.replace("_", " ") for fate in fates)), rows)


def plain(text: str) -> str:
    """Text that Markdown shows as it is, in one line."""
    line = " ".join(text.split())
    for sign in _SIGNS:
        line = line.replace(sign, "\\" + sign)
    return line

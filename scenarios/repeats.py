"""Writes the tables of `docs/repeats.md` and `docs/repeats-kraft.md` from rows of runs.

`python -m scenarios.repeats FILE…`, where the files are the `runs.jsonl` that `acked run --all --repeat N`
and `acked matrix --repeat N` leave (`runs/all/*/runs.jsonl runs/matrix/*/runs.jsonl`). Rows of several files
add up; a run that is in two of them counts once. A line of the table stays if no file has a run of its
scenario, version and mode. So does the text around the tables.

`--add FILE…` adds the runs to those that the lines already count, for files that are gone. It replaces a line whose
runs had another number of claims, because the scenario has changed since.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import EXIT_USAGE, AckedError, BadDataError
from harness.kafka.versions import version_key
from report.series import claims, span, verdicts
from scenarios.catalogue import all_scenarios
from studies.series.job import Job
from studies.series.summary import (
    RunSummary,
    add_up,
    by_job,
    outcome_counts,
    read_summaries,
    same_at_the_end,
    same_claims,
)

DOCS = Path(__file__).parent.parent / "docs"
CATALOGUE, VERSIONS = DOCS / "repeats.md", DOCS / "repeats-kraft.md"
BEGIN = "<!-- begin: python -m scenarios.repeats FILE… -->"
END = "<!-- end -->"
LineKey = tuple[str, str, str]
"""Scenario, version and mode."""
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_VERDICT = re.compile(r"(?:(\d+)/\d+ )?(.+)")
_HEADINGS = (
    "scenario",
    "Kafka",
    "mode",
    "runs",
    "verdicts",
    "last alike",
    "same claims",
    "confirmed / refuted",
    "lost",
    "duplicated",
    "moved",
    "s",
)


def document_of(row: RunSummary) -> Path:
    """Runs of ZooKeeper clusters on the scenario's own version make one document; all others make the other."""
    scenario = all_scenarios().get(row.scenario)
    own = scenario is None or (row.version, row.mode) == (scenario.kafka, scenario.mode)
    return CATALOGUE if own and row.mode == "zookeeper" else VERSIONS


@dataclass(frozen=True)
class KeptTable:
    """What a document already says."""

    lines: Mapping[LineKey, str] = field(default_factory=dict)
    days: Sequence[str] = ()
    replaced: Mapping[LineKey, str] = field(default_factory=dict)
    """Lines whose key the new runs take."""

    @property
    def runs(self) -> int:
        """How many runs the lines stand for."""
        return sum(int(_cells(line)[3]) for line in self.lines.values())

    @property
    def declared(self) -> int:
        """How many of them were as declared."""
        return sum(_verdict_counts(_cells(line))["as declared"] for line in self.lines.values())


def kept(text: str, rows: Sequence[RunSummary]) -> KeptTable:
    """The lines of a document's table that ``rows`` do not replace, and the days of its runs."""
    inside = text.partition(BEGIN)[2].partition(END)[0]
    new = {_key(job) for job in by_job(rows)}
    lines: dict[LineKey, str] = {}
    replaced: dict[LineKey, str] = {}
    for line in inside.splitlines():
        cells = _cells(line)
        if len(cells) == len(_HEADINGS) and cells[3].isdigit():
            key = (cells[0], cells[1], cells[2])
            (replaced if key in new else lines)[key] = line
    return KeptTable(lines, _DAY.findall(inside.partition(";")[0]), replaced)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _key(job: Job) -> LineKey:
    return job.scenario, job.version, job.mode


def table(rows: Sequence[RunSummary], old: KeptTable | None = None, *, add: bool = False) -> str:
    """The sums of the rows: one line for each scenario, version and mode; and the lines of ``old``.

    With ``add``, the counts of the lines that are replaced are added.
    """
    old = old or KeptTable()
    new = {_key(job): _line(job, runs) for job, runs in by_job(rows).items()}
    if add:
        new = {
            key: added(line, old.replaced[key]) if key in old.replaced else line for key, line in new.items()
        }
    everything = KeptTable({**old.lines, **new})
    order = {name: number for number, name in enumerate(all_scenarios())}

    def place_in_table(entry: tuple[LineKey, str]) -> tuple[object, ...]:
        scenario, version, mode = entry[0]
        return order.get(scenario, len(order)), mode, version_key(version), version

    before = old.days if old.lines or add else ()
    days = sorted({*before, *(row.ended[:10] for row in rows if row.ended)})
    when = f", {days[0]} to {days[-1]}" if len(days) > 1 else f", {days[0]}" if days else ""
    return "\n".join(
        (
            f"{everything.runs} runs{when}; {everything.declared} of them as declared.\n",
            f"| {' | '.join(_HEADINGS)} |",
            "|" + "---|" * len(_HEADINGS),
            *(line for _, line in sorted(everything.lines.items(), key=place_in_table)),
        )
    )


def _line(job: Job, rows: Sequence[RunSummary]) -> str:
    totals = add_up(rows)
    figures = ["–"] * 6
    if totals.claims:
        judged = [row for row in rows if row.judged]
        figures = [
            "; ".join((_sameness(judged), *_outcome_texts(outcome_counts(judged)))),
            claims(totals),
            *(span(pair) for pair in (totals.lost, totals.duplicated, totals.moved, totals.seconds)),
        ]
    first = (
        job.scenario,
        job.version,
        job.mode,
        str(len(rows)),
        verdicts(totals),
        str(same_at_the_end(rows)),
    )
    return f"| {' | '.join((*first, *figures))} |"


def added(line: str, old: str) -> str:
    """``line``, which `_line` made, with the counts of ``old`` added.

    A line does not say which run had which outcome. If the lines differ, or if their runs were not all alike, the
    number of last runs alike is that of ``line``, followed by `+` if all of its runs were alike.

    Runs that had another number of claims are left out: the scenario has changed since.
    """
    new, before = _cells(line), _cells(old)
    now, then = _numbers_of_claims(new), _numbers_of_claims(before)
    if now and then and now.isdisjoint(then):
        return line
    runs = int(new[3]) + int(before[3])
    counts = _verdict_counts(before) + _verdict_counts(new)
    alike = new[5] == new[3]
    one_outcome = len(counts) == 1 and alike and before[5] == before[3] and new[7] == before[7]
    verdicts = ", ".join(f"{count}/{runs} {verdict}" for verdict, count in counts.items())
    last = str(runs) if one_outcome else new[5] + "+" * alike
    claims = _distinct(before[7].split("; "), new[7].split("; "))
    spans = (_joined(one, other) for one, other in zip(new[8:], before[8:], strict=True))
    first = (*new[:3], str(runs), verdicts, last, _sameness_of(before, new))
    return f"| {' | '.join((*first, '; '.join(claims) or '–', *spans))} |"


def _verdict_counts(cells: Sequence[str]) -> Counter[str]:
    """How many runs of a line had each verdict: `violated`, or `1/3 violated, 2/3 as declared`."""
    matches = (_VERDICT.fullmatch(text) for text in cells[4].split(", "))
    return Counter({match[2]: int(match[1] or 1) for match in matches if match})


def _numbers_of_claims(cells: Sequence[str]) -> set[int]:
    """How many claims the runs of a line had: {12} for `10 / 2; 11 / 1`; empty if no run was judged."""
    judged = (re.findall(r"\d+", text) for text in cells[7].split("; "))
    return {sum(map(int, counts)) for counts in judged if counts}


def _distinct(*lists: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(text for texts in lists for text in texts if text != "–"))


def _sameness_of(before: Sequence[str], new: Sequence[str]) -> str:
    """The column *same claims* of two lines together."""
    (said_before, *outcomes_before), (said, *outcomes) = before[6].split("; "), new[6].split("; ")
    differing = _distinct(
        *(text.removeprefix("no: ").split(", ") for text in (said_before, said) if text[:2] == "no")
    )
    judged = _distinct((said_before, said))
    if not differing and len(judged) == 1 and new[7] != before[7] and "–" not in (new[7], before[7]):
        sameness = "no: not known which"
    else:
        sameness = f"no: {', '.join(differing)}" if differing else "; ".join(judged) or "–"
    counts: dict[str, Counter[str]] = {}
    for text in (*outcomes_before, *outcomes):
        name, _, rest = text.partition(" ")
        for part in rest.split(", "):
            outcome, _, count = part.rpartition(" ")
            counts.setdefault(name, Counter())[outcome] += int(count)
    return "; ".join((sameness, *_outcome_texts(counts)))


def _joined(one: str, other: str) -> str:
    """The range that includes two others: `2–5`, or one number."""
    ends = [int(number) for text in (one, other) for number in text.split("–") if number]
    return span((min(ends), max(ends))) if ends else "–"


def _sameness(rows: Sequence[RunSummary]) -> str:
    return "yes" if same_claims(rows) else f"no: {', '.join(_flickering(rows))}"


def _outcome_texts(counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """How often each of two allowed outcomes of a claim occurred."""
    return [
        f"{name} {', '.join(f'{outcome} {count}' for outcome, count in outcome_counts.items())}"
        for name, outcome_counts in counts.items()
    ]


def _flickering(rows: Sequence[RunSummary]) -> list[str]:
    """Claims that were not the same in all runs."""
    names = sorted({name for row in rows for name in row.claims})
    return [name for name in names if len({row.claims.get(name) for row in rows}) > 1]


def with_table(text: str, new: str, document: str) -> str:
    """A document with the table between its two marks replaced. Raises BadDataError where they are missing."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise BadDataError(f"{document} lacks the lines {BEGIN!r} and {END!r}, between which the table goes.")
    return f"{before}{BEGIN}\n\n{new}\n\n{END}{after}"


def main(argv: Sequence[str]) -> int:
    """Write each document for which there are rows."""
    add = list(argv[:1]) == ["--add"]
    argv = argv[add:]
    if not argv or argv[0].startswith("-"):
        sys.stderr.write(f"{__doc__}")
        return EXIT_USAGE
    try:
        rows = read_summaries(map(Path, argv))
        for file in (CATALOGUE, VERSIONS):
            document_rows = [row for row in rows if document_of(row) == file]
            if document_rows:
                text = file.read_text()
                file.write_text(
                    with_table(text, table(document_rows, kept(text, document_rows), add=add), str(file))
                )
                sys.stdout.write(f"{file}: {len(document_rows)} runs\n")
    except AckedError as error:
        sys.stderr.write(f"{error.message}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""From a stored history to a verdict: life, findings, claims, and what follows from them."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from checkers.claims.evaluate import ClaimResult, judge_claims, queries_of
from checkers.claims.expected import mark_expected, sample_findings
from checkers.evidence import Evidence, gather
from checkers.fast import plan as fast
from checkers.fast.tasks import Job
from checkers.general.run import choose_plan, judge_generally
from checkers.health import check_health
from checkers.spark.session import asked_of_little, failing_in_words
from checkers.spark.views import LITTLE, output_frame, register
from checkers.tables.output import FATES, FINDING, LIFE
from checkers.tables.paths import exists, inside, is_folder, is_uri, read_json, write_text
from checkers.tables.source import open_source
from checkers.verdict import VERDICTS
from harness.errors import EXIT_UNKNOWN, BadDataError

SAMPLE = 200


@dataclass(frozen=True)
class Judgement:
    """What a run came to; every value can be written as JSON."""

    verdict: str
    exit_code: int
    reasons: tuple[str, ...] = ()
    scenario: str | None = None
    messages: int = 0
    claims: tuple[ClaimResult, ...] = ()
    fates: Mapping[str, int] = field(default_factory=dict)
    fates_by_writer: tuple[Mapping[str, Any], ...] = ()
    """Rows of writer, writer_name, az, acks, outcome, fate, count."""
    findings_by_class: Mapping[str, int] = field(default_factory=dict)
    expected_by_class: Mapping[str, int] = field(default_factory=dict)
    """How many of them the scenario expects."""
    findings: tuple[Mapping[str, Any], ...] = ()
    """At most 200 of them, unexpected ones first; all are in `findings.parquet`."""
    phases_s: Mapping[str, float] = field(default_factory=dict)
    run: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The judgement as plain values, ready to be written as JSON."""
        return asdict(self)


def judge(session: Any, run_dir: Path | str, write: bool = True, plan: str = "auto") -> Judgement:
    """Judge a stored run folder; with ``write`` its life, findings and judgement are laid down in it.

    ``run_dir`` is a path, or a URI of any Hadoop file system. Raises BadDataError when the folder is damaged
    or half-written.
    """
    folder = str(run_dir)
    manifest = read_json(inside(folder, "run.json"))
    claims = inside(folder, "claims.json")
    declared = read_json(claims) if exists(claims) else {}
    history = inside(folder, "history")
    status = manifest.get("status")
    if status not in ("running", "complete", "crashed", "invalid"):
        raise BadDataError(f"{inside(folder, 'run.json')} has status {status!r}; no such status is known.")
    if status != "complete" and not is_folder(history):
        if status == "running":
            raise BadDataError(f"{folder} is half-written: its run never ended, and it has no history.")
        return _finish(folder, _without_history(manifest, str(status)), write)
    try:
        source = open_source(history)
        if status in ("crashed", "invalid") and not source.rows("copies") + source.rows("replicas"):
            unread = "its final logs were never read, so what became of its messages is not known"
            return _finish(folder, _without_history(manifest, str(status), unread), write)
        with failing_in_words(f"judging {folder}"):
            found = judge_history(session, history, folder if write else None, declared, plan)
    except BadDataError as error:
        if status in ("crashed", "invalid"):
            problem = f"its history cannot be judged: {error.message}"
            return _finish(folder, _without_history(manifest, str(status), problem), write)
        raise
    return _finish(folder, _with_status(found, manifest, str(status)), write)


def judge_import(session: Any, folder: Path | str, write: bool = True, plan: str = "auto") -> Judgement:
    """Judge a folder of tables that another program laid down: `sends` and `copies`, others optional."""
    base = str(folder)
    if not is_folder(base):
        raise BadDataError(
            f"{base} is not a folder; give the one that holds sends.parquet and copies.parquet."
        )
    out = base if write else None
    with failing_in_words(f"judging {base}"):
        found = judge_history(session, base, out, {}, plan)
    return _finish(base, found, write)


def judge_history(
    session: Any,
    history: Path | str,
    out: Path | str | None,
    declared: Mapping[str, Any],
    plan: str = "auto",
) -> Judgement:
    """Judge the tables of one folder; life and findings go to ``out`` (None: nowhere that lasts).

    ``plan`` is `fast`, `general`, or `auto`: the fast one wherever it serves (docs/analysis.md).
    """
    clock = _Clock()
    source = open_source(history)
    evidence = gather(source)
    clock.lap("read")
    if choose_plan(source, evidence, plan) == "general":
        found = judge_generally(session, source, evidence, None if out is None else str(out), declared, clock)
        return _sum_up(evidence, *found, clock.laps)
    assert not is_uri(source.folder)
    little = source.rows("sends") + source.rows("copies") <= LITTLE
    with (
        tempfile.TemporaryDirectory(prefix="acked-judge-") as scratch,
        asked_of_little(session, little),
    ):
        life, findings = Path(scratch) / "life.parquet", Path(scratch) / "findings.parquet"
        life.mkdir()
        findings.mkdir()
        job = Job(source=source, evidence=evidence, life=str(life), findings=str(findings))
        tallies = fast.run(session, job)
        clock.lap("fates")
        tallies = check_health(evidence, findings, tallies)
        claims, expected = declared.get("claims", []), declared.get("expected", [])
        queries = [*queries_of(claims).values(), *(entry["where"] for entry in expected)]
        register(session, source, queries, little=little)
        lives = output_frame(session, "life", _parts(life), little=little)
        marked = mark_expected(session, lives, findings, expected, little=little)
        clock.lap("findings")
        lives.createOrReplaceTempView("life")
        output_frame(session, "findings", _parts(findings), little=little).createOrReplaceTempView("findings")
        results = judge_claims(session, claims)
        clock.lap("claims")
        sample = sample_findings(findings, SAMPLE, evidence.start_ns)
        if out is not None:
            for place, schema in ((life, LIFE), (findings, FINDING)):
                _keep(place, Path(out) / place.name, schema)
        clock.lap("write")
    return _sum_up(evidence, tallies, marked, results, sample, clock.laps)


def _sum_up(
    evidence: Evidence,
    tallies: Any,
    marked: Mapping[str, int],
    claims: Sequence[ClaimResult],
    sample: Sequence[Mapping[str, Any]],
    phases_s: Mapping[str, float],
) -> Judgement:
    fates: dict[str, int] = {}
    groups: dict[tuple[int, str, str], int] = {}
    findings: dict[str, int] = {}
    for row in tallies.to_pylist():
        if row["kind"] == "fate":
            fates[row["name"]] = fates.get(row["name"], 0) + row["count"]
            key = (row["writer"], row["outcome"], row["name"])
            groups[key] = groups.get(key, 0) + row["count"]
        elif row["kind"] == "finding":
            findings[row["name"]] = findings.get(row["name"], 0) + row["count"]
    groups = {key: count for key, count in groups.items() if count}
    fates = {name: count for name, count in fates.items() if count}
    findings = {name: count for name, count in findings.items() if count}
    by_writer = []
    for (writer, outcome, fate), count in sorted(groups.items()):
        known = evidence.writers.get(writer, {})
        by_writer.append(
            {
                "writer": writer,
                "writer_name": known.get("name"),
                "az": known.get("az"),
                "acks": known.get("acks"),
                "outcome": outcome,
                "fate": fate,
                "count": count,
            }
        )
    messages = sum(fates.values())
    verdict, reasons = _verdict(messages, findings, marked, claims)
    return Judgement(
        verdict,
        VERDICTS[verdict],
        tuple(reasons),
        None,
        messages,
        tuple(claims),
        {name: fates[name] for name in FATES if name in fates},
        tuple(by_writer),
        dict(sorted(findings.items())),
        dict(marked),
        tuple(sample),
        phases_s,
    )


def _verdict(
    messages: int, findings: Mapping[str, int], marked: Mapping[str, int], claims: Sequence[ClaimResult]
) -> tuple[str, list[str]]:
    surplus = {name: count - marked.get(name, 0) for name, count in findings.items()}
    open_ends = surplus.pop("undetermined", 0)
    violated = [f"{count} {name} that nothing declared" for name, count in surplus.items() if count > 0]
    violated += [
        f"claim {c.name!r} is refuted" for c in claims if c.status == "refuted" and not c.as_declared
    ]
    unknown = [f"claim {c.name!r} is {c.status}" for c in claims if c.status in ("unknown", "not reproduced")]
    if messages == 0:
        unknown.append("the history holds no send, so nothing was proven")
    if open_ends > 0:
        unknown.append(f"the final read of {open_ends} partition(s) did not reach the end")
    if violated:
        return "violated", violated + unknown
    return ("unknown", unknown) if unknown else ("as declared", [])


def _with_status(found: Judgement, manifest: Mapping[str, Any], status: str) -> Judgement:
    values: dict[str, Any] = {"scenario": manifest.get("scenario")}
    problem = str(manifest.get("problem") or f"the run's status is {status}")
    if status in ("crashed", "invalid"):
        values |= {"verdict": status, "exit_code": VERDICTS[status], "reasons": (problem, *found.reasons)}
    elif status == "running" and found.verdict == "as declared":
        reason = "the run never ended, as far as run.json tells"
        values |= {"verdict": "unknown", "exit_code": EXIT_UNKNOWN, "reasons": (reason,)}
    return replace(found, **values)


def _without_history(manifest: Mapping[str, Any], status: str, problem: str = "") -> Judgement:
    reasons = [str(manifest.get("problem") or f"the run's status is {status}")]
    if problem:
        reasons.append(problem)
    return Judgement(status, VERDICTS[status], tuple(reasons), manifest.get("scenario"))


def _finish(folder: str, found: Judgement, write: bool) -> Judgement:
    named = replace(found, run=folder)
    if write:
        write_text(inside(folder, "judgement.json"), json.dumps(named.as_json(), indent=1) + "\n")
    return named


def _parts(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.glob("*.parquet"))


def _keep(place: Path, target: Path, schema: Any) -> None:
    if target.is_dir():
        shutil.rmtree(target)
    elif target.exists():
        target.unlink()
    parts = _parts(place)
    if len(parts) == 1:
        shutil.copyfile(parts[0], target)
    elif parts:
        shutil.copytree(place, target)
    else:
        pq.write_table(schema.empty_table(), target)


class _Clock:
    """Durations of phases, in seconds."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.monotonic()

    def lap(self, name: str) -> None:
        now = time.monotonic()
        self.laps[name] = round(now - self._last, 3)
        self._last = now

"""From a stored history to a verdict: fates, findings, claims, and what follows from them.

`judge` takes a run folder, `judge_import` the tables of another program, `judge_history` tables alone.
`checkers.judging` finds fates and findings, a task for each topic partition.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from checkers.claims.evaluate import judge_claims, texts_of
from checkers.claims.moments import read_moments
from checkers.evidence import Evidence, gather
from checkers.judging.run import Results, judge_partitions
from checkers.promises.facts import facts_of
from checkers.promises.summary import counted, described, expected_by_class
from checkers.run_folder import (
    NOTHING_DECLARED,
    Declaration,
    Manifest,
    Settled,
    read_declared,
    read_manifest,
)
from checkers.spark.errors import spark_errors_as_sentences
from checkers.spark.messages import messages_of
from checkers.spark.reader_views import READER_VIEWS
from checkers.spark.session import settings_for_small_data
from checkers.spark.views import SMALL_ROWS, forget, names_in, register
from checkers.tables.files import inside, is_folder, write_bytes
from checkers.tables.output import FATE_MEANINGS, FINDING
from checkers.tables.source import Source, open_source
from checkers.verdict import NOT_JUDGED, VERDICTS, Judgement, decide
from harness.errors import BadDataError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLE = 200
"""At most this many findings, and ranges that were not observed, are listed in a judgement."""


def judge(
    session: SparkSession,
    run_dir: Path | str,
    write: bool = True,
    *,
    by: Declaration | None = None,
) -> Judgement:
    """Judge a stored run folder; ``write`` puts life, findings and judgement into it.

    ``run_dir`` is a path or a URI (`checkers.tables.files.SCHEMES`). ``by`` replaces the claims and expected
    findings that the folder declares. Raises BadDataError when the folder is damaged or half-written.
    """
    folder = str(run_dir)
    manifest = require_run(folder)
    declared = read_declared(folder) if by is None else by
    history = inside(folder, "history")
    if (nothing := _without_logs(folder, manifest)) is not None:
        return _finish(folder, nothing, write)
    try:
        with spark_errors_as_sentences(f"judging {folder}"):
            out = folder if write else None
            judgement = judge_history(session, history, out, declared, manifest=manifest)
    except BadDataError as error:
        if manifest.status in NOT_JUDGED:
            return _finish(folder, _damaged(manifest, error), write)
        raise
    return _finish(folder, _with_status(judgement, manifest), write)


def judge_without_logs(run_dir: Path | str) -> Judgement | None:
    """The judgement of a run that failed before its final logs were read, which needs no Spark; else None.

    Raises BadDataError like `judge`.
    """
    folder = str(run_dir)
    judgement = _without_logs(folder, require_run(folder))
    return None if judgement is None else _finish(folder, judgement, write=True)


def _without_logs(folder: str, manifest: Manifest) -> Judgement | None:
    history = inside(folder, "history")
    if manifest.status not in NOT_JUDGED:
        return None
    if not is_folder(history):
        return _without_history(manifest)
    try:
        source = open_source(history)
        if source.rows("copies") + source.rows("replicas"):
            return None
    except BadDataError as error:
        return _damaged(manifest, error)
    unread = "its final logs were never read, so what became of its messages is not known"
    return _without_history(manifest, unread)


def require_run(folder: str) -> Manifest:
    """The manifest of a run folder. Raises BadDataError when it is damaged, or the run is half-written."""
    manifest = read_manifest(folder)
    if manifest.status not in ("complete", *NOT_JUDGED) and not is_folder(inside(folder, "history")):
        raise BadDataError(f"{folder} is half-written: its run did not end, and it has no history.")
    return manifest


def judge_import(session: SparkSession, folder: Path | str, write: bool = True) -> Judgement:
    """Judge a folder of tables that another program wrote: `sends` and `copies`, others optional."""
    base = str(folder)
    if not is_folder(base):
        raise BadDataError(
            f"{base} is not a folder; give the one that holds sends.parquet and copies.parquet."
        )
    with spark_errors_as_sentences(f"judging {base}"):
        judgement = judge_history(session, base, base if write else None)
    return _finish(base, judgement, write)


def judge_history(
    session: SparkSession,
    history: Path | str,
    out: Path | str | None,
    declared: Declaration = NOTHING_DECLARED,
    *,
    manifest: Manifest | None = None,
) -> Judgement:
    """Judge the tables of one folder; life and findings go to ``out`` (None: they are discarded).

    ``manifest`` names Kafka's version, on which some promises depend.
    """
    clock = _Clock()
    by_promises = declared["judged_by"] == "promises"
    source = open_source(history)
    evidence = gather(source, manifest.kafka if manifest else None)
    forget(session)
    clock.lap("read")
    small = source.rows("sends") + source.rows("copies") <= SMALL_ROWS
    target = None if out is None else str(out)
    with (
        settings_for_small_data(session) if small else nullcontext(),
        judge_partitions(session, source, evidence, target, small=small) as results,
    ):
        clock.lap("fates")
        texts = texts_of(declared)
        moments = read_moments(source, texts)
        register(session, source, texts, small=small)
        named = names_in(texts)
        for name, frame in results.transactions(named).items():
            frame.createOrReplaceTempView(name)
        for name in named & READER_VIEWS.keys():
            session.sql(READER_VIEWS[name]("")).createOrReplaceTempView(name)
        results.mark_expected(declared["expected"], moments)
        clock.lap("findings")
        results.life.createOrReplaceTempView("life")
        promise_counts = _judge_promises(session, source, evidence, results, manifest, decisive=by_promises)
        if "findings" in named:
            results.findings().createOrReplaceTempView("findings")
        unobserved = evidence.rows("unobserved")
        claims = judge_claims(session, declared["claims"], moments, unobserved)
        clock.lap("claims")
        counts, by_writer = _counts(results.counts, evidence, manifest.settled if manifest else ())
        sample = results.sample(SAMPLE)
        if target is not None:
            results.keep(target)
        clock.lap("write")
    messages = sum(counts["fate"].values())
    findings = dict(sorted(counts["finding"].items()))
    promises, expected = described(promise_counts), expected_by_class(promise_counts)
    verdict, reasons = decide(
        messages=messages,
        findings=findings,
        expected=expected,
        claims=claims,
        promises=promises if by_promises else None,
        compared=_compared(evidence),
        unobserved=unobserved,
    )
    return Judgement(
        verdict=verdict,
        exit_code=VERDICTS[verdict],
        judged_by=declared["judged_by"],
        described=declared["described"],
        reasons=reasons,
        messages=messages,
        claims=tuple(claims),
        fates={name: counts["fate"][name] for name in FATE_MEANINGS if counts["fate"][name]},
        fates_by_writer=by_writer,
        findings_by_class=findings,
        expected_by_class=expected,
        promises=promises,
        unobserved=tuple(unobserved[:SAMPLE]),
        findings=tuple(sample),
        first_fault=evidence.zero.fault,
        phases_s=clock.laps,
    )


def _compared(evidence: Evidence) -> int | None:
    """Partitions of watched topics of which at least two replicas were compared; None: none was watched."""
    rows = [row for row in evidence.rows("replicas") if row["watched_from"] is not None]
    if not rows:
        return None
    counts = Counter(
        (row["topic"], row["partition"])
        for row in rows
        if row["complete"] and row["in_sync"] and "compact" not in (row["cleanup"] or "compact")
    )
    return sum(count > 1 for count in counts.values())


def _judge_promises(
    session: SparkSession,
    source: Source,
    evidence: Evidence,
    results: Results,
    manifest: Manifest | None,
    *,
    decisive: bool,
) -> pa.Table:
    """Judge the findings by the promise table; returns the counts by row of the table."""
    classes = {row["name"] for row in results.counts.to_pylist() if row["kind"] == "finding" and row["count"]}
    if not classes:
        return counted(FINDING.empty_table())
    facts = facts_of(
        evidence,
        kafka=manifest.kafka if manifest else None,
        mode=manifest.mode if manifest else None,
        attached=manifest is not None and manifest.seen is not None,
        messages=messages_of(
            session,
            source,
            evidence,
            results.findings_of,
            classes,
            results.life,
        ),
    )
    return results.judge_promises(facts, decisive=decisive)


def _counts(
    tallies: pa.Table, evidence: Evidence, settled: Iterable[Settled] = ()
) -> tuple[dict[str, Counter[str]], tuple[Mapping[str, Any], ...]]:
    """Fates and findings by name, and the rows of `fates_by_writer`."""
    counts: dict[str, Counter[str]] = {"fate": Counter(), "finding": Counter()}
    groups: Counter[tuple[int, str, str]] = Counter()
    for row in tallies.to_pylist():
        if row["kind"] in counts:
            counts[row["kind"]][row["name"]] += row["count"]
        if row["kind"] == "fate":
            groups[row["writer"], row["outcome"], row["name"]] += row["count"]
    for one in settled:
        counts["fate"][one.fate] += one.count
        groups[one.writer, one.outcome, one.fate] += one.count
    rows = []
    for (writer, outcome, fate), count in sorted(groups.items()):
        if count:
            client = evidence.writers.get(writer, {})
            rows.append(
                {
                    "writer": writer,
                    "writer_name": client.get("name"),
                    "az": client.get("az"),
                    "acks": client.get("acks"),
                    "outcome": outcome,
                    "fate": fate,
                    "count": count,
                }
            )
    return {kind: +counted for kind, counted in counts.items()}, tuple(rows)


def _with_status(judgement: Judgement, manifest: Manifest) -> Judgement:
    """A judgement of a history as that of its run, which may have crashed or not ended."""
    judgement = replace(judgement, scenario=manifest.scenario, seen=manifest.seen)
    if manifest.status in NOT_JUDGED:
        reasons = (_problem(manifest), *judgement.reasons)
        return _as_verdict(judgement, manifest.status, reasons)
    if manifest.status == "running" and judgement.verdict == "as declared":
        return _as_verdict(judgement, "unknown", ("run.json does not say that the run ended",))
    return judgement


def _as_verdict(judgement: Judgement, verdict: str, reasons: tuple[str, ...]) -> Judgement:
    return replace(judgement, verdict=verdict, exit_code=VERDICTS[verdict], reasons=reasons)


def _without_history(manifest: Manifest, problem: str = "") -> Judgement:
    reasons = (_problem(manifest), problem) if problem else (_problem(manifest),)
    return Judgement(
        verdict=manifest.status,
        exit_code=VERDICTS[manifest.status],
        reasons=reasons,
        scenario=manifest.scenario,
    )


def _damaged(manifest: Manifest, error: BadDataError) -> Judgement:
    return _without_history(manifest, f"its history cannot be judged: {error.message}")


def _problem(manifest: Manifest) -> str:
    return manifest.problem or f"the run's status is {manifest.status}"


def _finish(folder: str, judgement: Judgement, write: bool) -> Judgement:
    named = replace(judgement, run=folder)
    if write:
        write_bytes(inside(folder, "judgement.json"), (json.dumps(named.as_json(), indent=1) + "\n").encode())
    return named


class _Clock:
    """Durations of phases, in seconds."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.monotonic()

    def lap(self, name: str) -> None:
        now = time.monotonic()
        self.laps[name] = round(now - self._last, 3)
        self._last = now

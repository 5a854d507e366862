"""From a stored history to a verdict: fates, findings, claims, and what follows from them.

`judge` takes a run folder, `judge_import` the tables of another program, `judge_history` tables alone. A plan
(`checkers.fast`, `checkers.general`) finds fates and findings; all later steps are the same for both.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from checkers.claims.evaluate import judge_claims, texts_of
from checkers.claims.moments import Moments, read_moments
from checkers.evidence import Evidence, gather
from checkers.fast.run import judge_fast
from checkers.promises.facts import Facts, facts_of
from checkers.promises.summary import described
from checkers.run_folder import NOTHING_DECLARED, Declared, Manifest, read_declared, read_manifest, write_text
from checkers.spark.errors import spark_errors_as_sentences
from checkers.spark.messages import messages_of
from checkers.spark.reader_views import READER_VIEWS
from checkers.spark.session import settings_for_small_data
from checkers.spark.views import SMALL_ROWS, forget, names_in, register
from checkers.tables.output import FATES
from checkers.tables.source import Source, inside, is_folder, is_uri, open_source
from checkers.verdict import NOT_JUDGED, VERDICTS, Judgement, decide
from harness.errors import BadDataError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLANS = ("auto", "fast", "general")
SAMPLE = 200
"""At most this many findings are listed in a judgement."""


class Results(Protocol):
    """Life and findings as a plan left them in a scratch folder."""

    @property
    def life(self) -> DataFrame:
        """One row per message."""

    def transactions(self, names: Collection[str]) -> Mapping[str, DataFrame]:
        """Those of the tables about transactions (`TRANSACTION_TABLES`) that are among ``names``."""

    def mark_expected(self, expected: Sequence[Mapping[str, Any]], moments: Moments) -> Mapping[str, int]:
        """Fill the findings' column `expected`; returns the expected findings by class. Called first."""

    def findings_of(self, classes: Sequence[str]) -> pa.Table:
        """The findings of some classes."""

    def judge_promises(self, facts: Facts) -> pa.Table:
        """Fill the columns about promises (`checkers.promises`); returns their counts."""

    def findings(self) -> DataFrame:
        """All findings."""

    def tallies(self) -> pa.Table:
        """Fates and findings, counted (`checkers.tables.output.TALLY`)."""

    def sample(self, limit: int) -> list[dict[str, Any]]:
        """Up to ``limit`` findings for people, unexpected ones first."""

    def keep(self, out: str) -> None:
        """Put life and findings into a folder or URI. Called last."""


def judge(
    session: SparkSession,
    run_dir: Path | str,
    write: bool = True,
    plan: str = "auto",
    *,
    by: Declared | None = None,
) -> Judgement:
    """Judge a stored run folder; ``write`` puts life, findings and judgement into it.

    ``run_dir`` is a path, or a URI of any Hadoop file system. ``by`` replaces the claims and expected
    findings that the folder declares. Raises BadDataError when the folder is damaged or half-written.
    """
    folder = str(run_dir)
    manifest = require_run(folder)
    declared = read_declared(folder) if by is None else by
    history = inside(folder, "history")
    unjudged = manifest.status in NOT_JUDGED
    if unjudged and not is_folder(history):
        return _finish(folder, _without_history(manifest), write)
    try:
        source = open_source(history)
        if unjudged and not source.rows("copies") + source.rows("replicas"):
            unread = "its final logs were never read, so what became of its messages is not known"
            return _finish(folder, _without_history(manifest, unread), write)
        with spark_errors_as_sentences(f"judging {folder}"):
            out = folder if write else None
            found = judge_history(session, history, out, declared, plan, manifest=manifest)
    except BadDataError as error:
        if unjudged:
            problem = f"its history cannot be judged: {error.message}"
            return _finish(folder, _without_history(manifest, problem), write)
        raise
    return _finish(folder, _with_status(found, manifest), write)


def require_run(folder: str) -> Manifest:
    """The manifest of a run folder. Raises BadDataError when it is damaged, or the run is half-written."""
    manifest = read_manifest(folder)
    if manifest.status not in ("complete", *NOT_JUDGED) and not is_folder(inside(folder, "history")):
        raise BadDataError(f"{folder} is half-written: its run did not end, and it has no history.")
    return manifest


def judge_import(
    session: SparkSession, folder: Path | str, write: bool = True, plan: str = "auto"
) -> Judgement:
    """Judge a folder of tables that another program wrote: `sends` and `copies`, others optional."""
    base = str(folder)
    if not is_folder(base):
        raise BadDataError(
            f"{base} is not a folder; give the one that holds sends.parquet and copies.parquet."
        )
    with spark_errors_as_sentences(f"judging {base}"):
        found = judge_history(session, base, base if write else None, plan=plan)
    return _finish(base, found, write)


def judge_history(
    session: SparkSession,
    history: Path | str,
    out: Path | str | None,
    declared: Declared = NOTHING_DECLARED,
    plan: str = "auto",
    *,
    manifest: Manifest | None = None,
) -> Judgement:
    """Judge the tables of one folder; life and findings go to ``out`` (None: they are discarded).

    ``plan`` is `fast`, `general`, or `auto`: the fast one wherever it works (docs/analysis.md). ``manifest``
    names Kafka's version, on which some promises depend.
    """
    clock = _Clock()
    source = open_source(history)
    evidence = gather(source, manifest.kafka if manifest else None)
    forget(session)
    clock.lap("read")
    general = _needs_general(source, plan)
    small = not general and source.rows("sends") + source.rows("copies") <= SMALL_ROWS
    target = None if out is None else str(out)
    judging: AbstractContextManager[Results]
    if general:
        from checkers.general.run import judge_generally

        judging = judge_generally(session, source, evidence, target)
    else:
        judging = judge_fast(session, source, evidence, small=small)
    with settings_for_small_data(session) if small else nullcontext(), judging as results:
        clock.lap("fates")
        texts = texts_of(declared)
        moments = read_moments(source, texts)
        register(session, source, texts, small=small)
        named = names_in(texts)
        for name, frame in results.transactions(named).items():
            frame.createOrReplaceTempView(name)
        for name in named & READER_VIEWS.keys():
            session.sql(READER_VIEWS[name]("")).createOrReplaceTempView(name)
        expected = results.mark_expected(declared["expected"], moments)
        clock.lap("findings")
        results.life.createOrReplaceTempView("life")
        tallies = results.tallies()
        promises = _judge_promises(session, source, evidence, results, tallies, manifest)
        if "findings" in named:
            results.findings().createOrReplaceTempView("findings")
        claims = judge_claims(session, declared["claims"], moments)
        clock.lap("claims")
        counts, by_writer = _counts(tallies, evidence)
        sample = results.sample(SAMPLE)
        if target is not None:
            results.keep(target)
        clock.lap("write")
    messages = sum(counts["fate"].values())
    findings = dict(sorted(counts["finding"].items()))
    verdict, reasons = decide(messages=messages, findings=findings, expected=expected, claims=claims)
    return Judgement(
        verdict=verdict,
        exit_code=VERDICTS[verdict],
        reasons=reasons,
        messages=messages,
        claims=tuple(claims),
        fates={name: counts["fate"][name] for name in FATES if counts["fate"][name]},
        fates_by_writer=by_writer,
        findings_by_class=findings,
        expected_by_class=dict(expected),
        promises=promises,
        findings=tuple(sample),
        phases_s=clock.laps,
    )


def _judge_promises(
    session: SparkSession,
    source: Source,
    evidence: Evidence,
    results: Results,
    tallies: pa.Table,
    manifest: Manifest | None,
) -> tuple[Mapping[str, Any], ...]:
    """Judge the findings by the promise table; returns the counts by row of the table."""
    classes = {row["name"] for row in tallies.to_pylist() if row["kind"] == "finding" and row["count"]}
    if not classes:
        return ()
    facts = facts_of(
        evidence,
        kafka=manifest.kafka if manifest else None,
        mode=manifest.mode if manifest else None,
        messages=messages_of(
            session,
            source,
            evidence,
            results.findings_of,
            classes,
            results.life,
            lambda: results.transactions(("transaction_records",))["transaction_records"],
        ),
    )
    return described(results.judge_promises(facts))


def _counts(
    tallies: pa.Table, evidence: Evidence
) -> tuple[dict[str, Counter[str]], tuple[Mapping[str, Any], ...]]:
    """Fates and findings by name, and the rows of `fates_by_writer`."""
    counts: dict[str, Counter[str]] = {"fate": Counter(), "finding": Counter()}
    groups: Counter[tuple[int, str, str]] = Counter()
    for row in tallies.to_pylist():
        if row["kind"] in counts:
            counts[row["kind"]][row["name"]] += row["count"]
        if row["kind"] == "fate":
            groups[row["writer"], row["outcome"], row["name"]] += row["count"]
    rows = []
    for (writer, outcome, fate), count in sorted(groups.items()):
        if count:
            known = evidence.writers.get(writer, {})
            rows.append(
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
    return {kind: +counted for kind, counted in counts.items()}, tuple(rows)


def _with_status(found: Judgement, manifest: Manifest) -> Judgement:
    """A judgement of a history as that of its run, which may have crashed or not ended."""
    found = replace(found, scenario=manifest.scenario)
    if manifest.status in NOT_JUDGED:
        reasons = (_problem(manifest), *found.reasons)
        return _as_verdict(found, manifest.status, reasons)
    if manifest.status == "running" and found.verdict == "as declared":
        return _as_verdict(found, "unknown", ("run.json does not say that the run ended",))
    return found


def _as_verdict(found: Judgement, verdict: str, reasons: tuple[str, ...]) -> Judgement:
    return replace(found, verdict=verdict, exit_code=VERDICTS[verdict], reasons=reasons)


def _without_history(manifest: Manifest, problem: str = "") -> Judgement:
    reasons = (_problem(manifest), problem) if problem else (_problem(manifest),)
    return Judgement(
        verdict=manifest.status,
        exit_code=VERDICTS[manifest.status],
        reasons=reasons,
        scenario=manifest.scenario,
    )


def _problem(manifest: Manifest) -> str:
    return manifest.problem or f"the run's status is {manifest.status}"


def _finish(folder: str, found: Judgement, write: bool) -> Judgement:
    named = replace(found, run=folder)
    if write:
        write_text(inside(folder, "judgement.json"), json.dumps(named.as_json(), indent=1) + "\n")
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


def _needs_general(source: Source, wanted: str) -> bool:
    """Whether to use the general plan: it was asked for, or workers cannot open the files."""
    if wanted not in PLANS:
        raise UsageError(f"There is no plan {wanted!r}; it is one of {', '.join(PLANS)}.")
    remote = is_uri(source.folder)
    if remote and wanted == "fast":
        raise UsageError(
            f"The fast plan reads paths, not {source.folder}; leave --plan out, or mount the folder."
        )
    return remote or wanted == "general"

"""A stored run as a judged run folder, made without Spark; pages are made from it."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.claims.citations import cite, subject_of_claim
from checkers.claims.evaluate import texts_of
from checkers.claims.expected import described
from checkers.claims.moments import read_moments
from checkers.evidence import gather
from checkers.judge import SAMPLE
from checkers.spark.views import DERIVED
from checkers.tables.output import FATE_MEANINGS
from checkers.tables.source import open_source
from checkers.verdict import VERDICTS, Judgement
from harness.history.schema import TABLES
from harness.history.tables import write_into
from tests.runs.store import STORED
from tests.runs.stored import derive, judge_tables, read_stored

ZERO_NS = """
    SELECT min(coalesce(
        (SELECT min(ended.ns) FROM processes ended
         WHERE ended.event = 'killed' AND ended.ns BETWEEN begun.ns AND took.ns
           AND contains(took.targets, '"' || ended.host || '"')
           AND took.mechanism IN ('kill', 'power_cut')),
        took.ns))
    FROM faults took LEFT JOIN faults begun ON begun.fault = took.fault AND begun.moment = 'injecting'
    WHERE took.moment = 'injected' AND took.kind <> 'operator'
"""
"""Selects the time from which the first fault was in force; null without one."""

RUNS = (
    "leader-az-isolated",
    *(
        pytest.param(name, marks=pytest.mark.long)
        for name in ("no-fault", "kraft-zombie-controller", "hw-truncation-diverges", "power-cut")
    ),
)
"""Scenarios whose stored runs the tests of the model and of the page show."""

RESULT = "part-0.parquet"
"""The file of each table of results."""


def judged_run(name: str, folder: Path, *, verdict: str = "as declared", **manifest: object) -> Path:
    """Write the stored run of a scenario as a run folder; its findings count as expected."""
    stored = read_stored(name)
    history = folder / "history"
    for table, schema in TABLES.items():
        write_into(history, table, stored.tables.get(table, schema.arrow().empty_table()))
    derived = derive(history, transactions=True)
    findings = derived.findings.set_column(
        derived.findings.column_names.index("expected"),
        "expected",
        pa.array([True] * derived.findings.num_rows, pa.bool_()),
    )
    results = {name: schema.empty_table() for name, schema in DERIVED.items()}
    _write_results(folder, {**results, "life": derived.life, "findings": findings, **derived.transactions})
    with zipfile.ZipFile(STORED / f"{name}.zip") as file:
        stored_manifest = json.loads(file.read("run.json"))
    (folder / "run.json").write_text(json.dumps({**stored_manifest, **manifest}))
    (folder / "claims.json").write_text(json.dumps(stored.declared))
    claims = judge_tables(stored.tables, stored.declared)
    moments = read_moments(open_source(history), texts_of(stored.declared))
    declared: Mapping[str, Mapping[str, Any]] = {one["name"]: one for one in stored.declared["claims"]}
    cited = tuple(
        replace(one, evidence=cite(subject_of_claim(declared[one.name]), moments)) for one in claims
    )
    fates = Counter(derived.life["fate"].to_pylist())
    evidence = gather(open_source(history))
    judgement = Judgement(
        verdict=verdict,
        exit_code=VERDICTS[verdict],
        scenario=name,
        messages=derived.life.num_rows,
        claims=cited,
        fates={fate: fates[fate] for fate in FATE_MEANINGS if fates[fate]},
        fates_by_writer=_fates_by_writer(derived.life),
        findings_by_class=dict(Counter(findings["class"].to_pylist())),
        findings=tuple(described(findings.slice(0, SAMPLE).to_pylist(), evidence.zero.ns, evidence.acks)),
        run=str(folder),
    )
    (folder / "judgement.json").write_text(json.dumps(judgement.as_json()))
    return folder


def judged_import(folder: Path) -> Path:
    """Judge the tables that a folder holds itself, as `acked check --import` does."""
    derived = derive(folder)
    _write_results(folder, {"life": derived.life, "findings": derived.findings})
    fates = Counter(derived.life["fate"].to_pylist())
    counts = dict(Counter(derived.findings["class"].to_pylist()))
    evidence = gather(open_source(folder))
    verdict = "violated" if counts else "as declared"
    judgement = Judgement(
        verdict=verdict,
        exit_code=VERDICTS[verdict],
        reasons=tuple(f"{count} {name} that nothing declared" for name, count in counts.items()),
        messages=derived.life.num_rows,
        fates={fate: fates[fate] for fate in FATE_MEANINGS if fates[fate]},
        fates_by_writer=_fates_by_writer(derived.life),
        findings_by_class=counts,
        findings=tuple(
            described(derived.findings.slice(0, SAMPLE).to_pylist(), evidence.zero.ns, evidence.acks)
        ),
        run=str(folder),
    )
    (folder / "judgement.json").write_text(json.dumps(judgement.as_json()))
    return folder


def _write_results(folder: Path, tables: Mapping[str, pa.Table]) -> None:
    for name, rows in tables.items():
        (folder / f"{name}.parquet").mkdir()
        pq.write_table(rows, folder / f"{name}.parquet" / RESULT)


def _fates_by_writer(life: pa.Table) -> tuple[Mapping[str, Any], ...]:
    """Rows of `Judgement.fates_by_writer`."""
    columns = ["writer", "writer_name", "az", "acks", "outcome", "fate"]
    counts = (
        life.group_by(columns, use_threads=False)
        .aggregate([([], "count_all")])
        .rename_columns([*columns, "count"])
    )
    return tuple(counts.to_pylist())

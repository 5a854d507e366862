"""Every word of every sentence is replaced by another, and nothing is judged, cited or shown differently.

Facts travel as data; whatever reads one out of a sentence, or out of the name of a fault, fails here.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers import records
from checkers.evidence import gather
from checkers.promises.conditions import CONDITIONS, Answer
from checkers.promises.facts import facts_of
from checkers.promises.judging import with_promises
from checkers.tables.source import open_source
from report.model import causes, facts, other_findings, removals
from report.model.gather import report_model
from report.page.render import page
from report.words import causes as cause_words
from report.words import details, faults
from tests.runs import judged
from tests.runs.judged import RESULT, judged_run
from tests.runs.stored import StoredRun, read_stored

EVIDENCE_ROW = records.evidence_row
MAKERS: Iterable[Callable[..., Any]] = (
    *(cause_words.cause_in_words, details.detail_in_words, EVIDENCE_ROW),
    *(faults.clause, faults.state_in_words),
    *(
        causes.reasons,
        facts.sentences,
        facts.said_by_meaning,
        other_findings.explanations,
        removals.consequences,
    ),
)
"""Every function whose result is made of sentences."""
SENTENCES = {
    "faults": ("name",),
    "marks": ("text",),
    "findings": ("promise_reason", "acked_during"),
    "life": ("sent_during", "acked_during"),
    "judgement": ("findings", "promises"),
}
"""Columns for people, by table; the judgement's promises have the reasons of its findings."""
_LETTER = re.compile("[A-Za-z]")
_TAG = re.compile(r"<(/?\w+)")
_FACTS_IN_WORDS = re.compile(r'"fault_name": "[^"]*"')


def other_words(said: Any) -> Any:
    """Text of the same length in which every word is another; lists and values of dicts alike."""
    if isinstance(said, str):
        return _LETTER.sub("x", said)
    if isinstance(said, Mapping):
        return {key: other_words(value) for key, value in said.items()}
    return type(said)(map(other_words, said)) if isinstance(said, list | tuple) else said


def replaced(stored: StoredRun) -> StoredRun:
    """The stored run in which everything that was written for people has other words."""
    tables = dict(stored.tables)
    for name in ("faults", "marks"):
        (column,) = SENTENCES[name]
        table = tables[name]
        words = pa.array(map(other_words, table[column].to_pylist()), pa.string())
        tables[name] = table.set_column(table.column_names.index(column), column, words)
    return replace(stored, tables=tables)


def everywhere(patch: pytest.MonkeyPatch, maker: Callable[..., Any]) -> None:
    """Replace a maker of sentences in each module that has imported it."""

    def making(*args: Any, **kwargs: Any) -> Any:
        if maker is EVIDENCE_ROW:
            return json.dumps({**json.loads(maker(*args)), "what": other_words(args[2])})
        return other_words(maker(*args, **kwargs))

    for module in list(sys.modules.values()):
        for name, value in list(vars(module).items()):
            if value is maker and module is not sys.modules[__name__]:
                patch.setattr(module, name, making)


def told(folder: Path, name: str) -> dict[str, Any]:
    """What the judgement, the promises and the page say, without their sentences."""
    judged_run(name, folder)
    run = json.loads((folder / "run.json").read_text())
    evidence = gather(open_source(folder / "history"), run["kafka"])
    of_run = facts_of(evidence, kafka=run["kafka"], mode=run["mode"])
    findings = with_promises(pq.read_table(folder / "findings.parquet"), of_run)
    pq.write_table(findings, folder / "findings.parquet" / RESULT)
    model = report_model(folder)
    judgement = json.loads((folder / "judgement.json").read_text())
    return {
        "findings": [_without(row, "findings") for row in findings.to_pylist()],
        "life": [_without(row, "life") for row in pq.read_table(folder / "life.parquet").to_pylist()],
        "judgement": {
            key: value for key, value in judgement.items() if key not in ("findings", "run", "claims")
        },
        "claims": [{**claim, "observed": ""} for claim in judgement["claims"]],
        "model": _structure({**model.as_json(), "files": []}),
        "page": _TAG.findall(page(model)),
    }


def _without(row: Mapping[str, Any], table: str) -> dict[str, Any]:
    rest = {key: value for key, value in row.items() if key not in SENTENCES[table]}
    rest["cause_facts"] = _FACTS_IN_WORDS.sub("", rest["cause_facts"] or "")
    rest["evidence"] = [{**json.loads(entry), "what": ""} for entry in rest.get("evidence") or ()]
    return rest


def _structure(value: Any) -> Any:
    """A model without its texts: numbers, and how many of what there are."""
    if isinstance(value, dict):
        return [_structure(one) for one in value.values()]
    if isinstance(value, list | tuple):
        return [_structure(one) for one in value]
    return "" if isinstance(value, str) else value


@pytest.mark.parametrize(
    "name",
    [
        "leader-az-isolated",
        "power-cut",
        "late-produce-v2",
        "isr-stuck-two-cuts",
        "offsets-commit-lost-unclean",
    ],
)
def test_other_words_change_no_verdict_promise_citation_or_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    as_written = told(tmp_path / "as written" / "run", name)
    for maker in MAKERS:
        everywhere(monkeypatch, maker)
    for condition, known in list(CONDITIONS.items()):

        def asked(case: Any, known: Any = known) -> Answer:
            answer = known.asked(case)
            return Answer(answer.holds, other_words(answer.why))

        monkeypatch.setitem(CONDITIONS, condition, replace(known, asked=asked))  # type: ignore[arg-type]
    monkeypatch.setattr(judged, "read_stored", lambda run: replaced(read_stored(run)))
    in_other_words = told(tmp_path / "other words" / "run", name)
    for part, before in as_written.items():
        assert in_other_words[part] == before, part

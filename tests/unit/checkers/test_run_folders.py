"""Run folders that cannot be judged get one sentence and never pass. None of these tests needs Spark."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from checkers.evidence import gather
from checkers.judge import judge
from checkers.promises.case import FindingContext
from checkers.promises.facts import facts_of
from checkers.tables.output import FINDING
from checkers.tables.source import open_source
from checkers.transactions.answers import CLEANUP_MS, TIMEOUT_MS
from harness.errors import BadDataError
from harness.history.schema import TABLES
from tests.histories import History

NESTED = ("[" * 100_000, '{"a":' * 100_000)
"""Python's parser gives up on these with a RecursionError."""


def shortened(text: str) -> str:
    return text[:50]


def _folder(tmp_path: Path, status: str, *tables: str, problem: str | None = None) -> Path:
    (tmp_path / "run.json").write_text(json.dumps({"scenario": "s", "status": status, "problem": problem}))
    for name in tables:
        (tmp_path / "history").mkdir(exist_ok=True)
        pq.write_table(TABLES[name].arrow().empty_table(), tmp_path / "history" / f"{name}.parquet")
    return tmp_path


@pytest.mark.parametrize("status", ["invalid", "crashed"])
def test_a_run_that_ended_before_its_final_logs_has_no_fates(tmp_path: Path, status: str) -> None:
    """Its tables exist and are empty; it would be wrong to call every acknowledged message lost."""
    folder = _folder(tmp_path, status, "sends", "copies", "replicas", problem="broker1 did not lead")
    judgement = judge(None, folder)
    assert (judgement.verdict, dict(judgement.fates), judgement.findings) == (status, {}, ())
    assert judgement.reasons[0] == "broker1 did not lead"
    assert "never read" in judgement.reasons[1]


def test_a_run_without_history_keeps_its_status(tmp_path: Path) -> None:
    """The reason is the error that stopped it."""
    judgement = judge(None, _folder(tmp_path, "crashed", problem="no room"))
    assert (judgement.verdict, judgement.reasons) == ("crashed", ("no room",))


def test_a_run_that_never_ended_is_half_written(tmp_path: Path) -> None:
    """What else it would have recorded is unknown."""
    with pytest.raises(BadDataError, match="half-written"):
        judge(None, _folder(tmp_path, "running"))


def test_an_unknown_status_is_refused(tmp_path: Path) -> None:
    """The manifest is from another program or a later version."""
    with pytest.raises(BadDataError, match="status 'done'"):
        judge(None, _folder(tmp_path, "done"))


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_damaged_manifest_is_refused(tmp_path: Path, text: str) -> None:
    """It was cut short, or is not a JSON object."""
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(BadDataError, match=r"run\.json"):
        judge(None, tmp_path)


@pytest.mark.parametrize("version", [2, 0, "1", True, 1.5])
def test_a_run_of_another_schema_version_is_refused(tmp_path: Path, version: object) -> None:
    """Its tables may mean something else."""
    folder = _folder(tmp_path, "complete", "sends", "copies")
    (folder / "run.json").write_text(json.dumps({"status": "complete", "schema_version": version}))
    with pytest.raises(BadDataError, match=r"run\.json has schema_version .*reads version 1"):
        judge(None, folder)


CLAIM = {"name": "kept", "says": "", "section": "", "holds": "select 1"}
DAMAGED_CLAIMS: dict[str, tuple[object, str]] = {
    "a number": (7, "no JSON object"),
    "claims is a text": ({"claims": "all"}, "claims is a text, but must be a list"),
    "claims is an object": ({"claims": {"kept": CLAIM}}, "claims is an object"),
    "a claim is a text": ({"claims": ["kept"]}, "claim 1 is a text, but must be an object"),
    "a claim is null": ({"claims": [CLAIM, None]}, "claim 2 is null"),
    "no name": ({"claims": [{"holds": "select 1"}]}, "claim 1 has no 'name'"),
    "no holds": ({"claims": [{**CLAIM, "holds": None}]}, "claim 'kept' has no 'holds'"),
    "holds is a number": ({"claims": [{**CLAIM, "holds": 1}]}, "'holds' of claim 'kept' is a number"),
    "given is a list": ({"claims": [{**CLAIM, "given": []}]}, "'given' of claim 'kept' is a list"),
    "no says": ({"claims": [{"name": "kept", "section": "", "holds": ""}]}, "claim 'kept' has no 'says'"),
    "an erratum is true": (
        {"claims": [{**CLAIM, "erratum": True}]},
        "erratum of claim 'kept' is true or false",
    ),
    "an erratum without holds": (
        {"claims": [{**CLAIM, "erratum": {"says": "", "because": ""}}]},
        "erratum of claim 'kept' has no 'holds'",
    ),
    "the same name twice": ({"claims": [CLAIM, CLAIM]}, "declares the claim 'kept' twice"),
    "expected is a text": ({"expected": "lost"}, "expected is a text, but must be a list"),
    "an expected finding is a text": ({"expected": ["lost"]}, "expected finding 1 is a text"),
    "no where": ({"expected": [{"finding": "lost"}]}, "expected finding 1 has no 'where'"),
    "where is a number": ({"expected": [{"finding": "lost", "where": 1}]}, "'where' of expected finding 1"),
}


@pytest.mark.parametrize("name", DAMAGED_CLAIMS)
def test_claims_of_another_shape_are_refused_with_their_place(tmp_path: Path, name: str) -> None:
    """Before anything is judged: a scenario that cannot be understood has no verdict."""
    value, says = DAMAGED_CLAIMS[name]
    folder = _folder(tmp_path, "complete", "sends", "copies")
    (folder / "claims.json").write_text(json.dumps(value))
    with pytest.raises(BadDataError, match=r"claims\.json") as caught:
        judge(None, folder)
    assert says in caught.value.message and "\n" not in caught.value.message


@pytest.mark.parametrize("file", ["run.json", "claims.json"])
@pytest.mark.parametrize("text", NESTED, ids=shortened)
def test_json_that_is_nested_too_deeply_is_refused(tmp_path: Path, file: str, text: str) -> None:
    folder = _folder(tmp_path, "complete", "sends", "copies")
    (folder / file).write_text(text)
    with pytest.raises(BadDataError, match=rf"{file} is JSON that is nested too deeply; .* is damaged\.$"):
        judge(None, folder)


@pytest.mark.parametrize(
    "targets", [*NESTED, "{", "7", '{"hosts": 7, "links": 7, "partitions": 7}'], ids=shortened
)
def test_targets_of_another_shape_name_nothing(tmp_path: Path, targets: str) -> None:
    row = {"ns": 1, "fault": 1, "name": "cut", "kind": "link", "moment": "injected", "targets": targets}
    evidence = gather(open_source(History().add("faults", **row).write(tmp_path)))
    (fault,) = evidence.faults
    assert (fault.hosts, fault.partitions) == (frozenset(), frozenset())
    assert facts_of(evidence).linked == {1: frozenset()}


DAMAGED_CONFIGS = (*NESTED, "{", "7", "[]")
NO_TIMEOUTS = ("Infinity", "NaN", "1e300", "999999999999999999", "-1", "null", "[]", '"soon"')


@pytest.mark.parametrize(
    "config",
    [*DAMAGED_CONFIGS, *(f'{{"transaction.timeout.ms": {value}}}' for value in NO_TIMEOUTS)],
    ids=shortened,
)
def test_a_config_without_a_usable_time_out_has_the_default(tmp_path: Path, config: str) -> None:
    evidence = gather(
        open_source(History().add("writers", writer=1, name="w", config=config).write(tmp_path))
    )
    (timeout,) = evidence.transactions.timeouts(np.array([1]))
    assert timeout == (TIMEOUT_MS + CLEANUP_MS) * 1_000_000


@pytest.mark.parametrize("config", DAMAGED_CONFIGS, ids=shortened)
def test_a_config_of_another_shape_sets_nothing(tmp_path: Path, config: str) -> None:
    evidence = gather(
        open_source(History().add("writers", writer=1, name="w", config=config).write(tmp_path))
    )
    finding = {**dict.fromkeys(FINDING.names), "writer": 1}
    assert FindingContext(finding, facts_of(evidence)).config == {}


@pytest.mark.parametrize("scenario", [7, ["s"]])
def test_a_scenario_that_is_no_text_is_refused(tmp_path: Path, scenario: object) -> None:
    """It would be shown as a name."""
    (tmp_path / "run.json").write_text(json.dumps({"status": "complete", "scenario": scenario}))
    with pytest.raises(BadDataError, match="'scenario' of run.json is"):
        judge(None, tmp_path)


@pytest.mark.parametrize("table", ["sends", "views"])
def test_an_emptied_table_folder_is_damage(tmp_path: Path, table: str) -> None:
    """The harness writes an empty table as a file; a folder without files has lost them."""
    folder = _folder(tmp_path, "complete", *({"sends", "copies"} - {table}))
    (folder / "history" / f"{table}.parquet").mkdir()
    with pytest.raises(BadDataError, match=rf"{table}\.parquet .*no Parquet file"):
        judge(None, folder)

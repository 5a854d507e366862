"""The page, the terminal, Markdown, JUnit XML and JSON show the same model of a run."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

from harness.console import Console
from report import terminal
from report.junit import run_junit
from report.markdown import run_markdown
from report.model.document import FILE, RESULTS, broken, main, results_schema, schema
from report.model.gather import report_model
from report.model.judged import judged_model
from report.model.model import ReportModel
from report.page.render import page

RUN = "leader-az-isolated"


@pytest.fixture(scope="module")
def model(judged: Callable[[str], Path]) -> ReportModel:
    """The model of a run with claims, errata and losses."""
    return report_model(judged(RUN))


def _terminal(model: ReportModel) -> str:
    out = io.StringIO()
    terminal.show(model, Console(file=out, width=250, highlight=False))
    return out.getvalue()


def test_the_schema_in_the_documentation_is_that_of_the_code() -> None:
    """`python -m report.model.document` writes it."""
    assert json.loads(FILE.read_text(encoding="utf-8")) == schema()
    assert json.loads(RESULTS.read_text(encoding="utf-8")) == results_schema()


@pytest.mark.parametrize("name", ["assessment.json", "search.json"])
def test_results_of_several_runs_hold_to_the_schema(name: str) -> None:
    told = json.loads(RESULTS.read_text(encoding="utf-8"))
    check = jsonschema.Draft202012Validator(told["properties"][name] | {"$defs": told["$defs"]})
    document = json.loads((Path(__file__).parents[1] / "cli" / name).read_text())
    check.validate(document)
    assert not check.is_valid(document | {"lines": 1, "groups": 1})


def test_a_report_holds_to_the_schema(model: ReportModel) -> None:
    """The JSON of a real run fits, and one without its verdict or of another version does not."""
    check = jsonschema.Draft202012Validator(json.loads(FILE.read_text(encoding="utf-8")))
    document = json.loads(json.dumps(model.as_json()))
    assert document["partitions"]
    check.validate(document)
    assert not check.is_valid({key: value for key, value in document.items() if key != "verdict"})
    assert not check.is_valid(document | {"schema": 0})


def test_a_property_cannot_go_without_a_new_version(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new property is welcome; one that has gone or has changed its type needs another version."""
    older = schema()
    older["$defs"]["Claim"]["properties"]["author"] = {"type": "string"}
    older["$defs"]["Mark"]["properties"]["s"] = {"type": "string"}
    del older["$defs"]["Run"]["properties"]["lab"]
    assert broken(older, schema()) == ["Claim.author", "Mark.s"]
    file = tmp_path / "report.schema.json"
    file.write_text(json.dumps(older))
    assert main(file) == 1
    assert "Claim.author, Mark.s: gone" in capsys.readouterr().err
    assert json.loads(file.read_text()) == older
    older["$defs"]["ReportModel"]["properties"]["schema"]["const"] = 0
    file.write_text(json.dumps(older))
    assert main(file) == 0
    assert json.loads(file.read_text()) == schema()


def test_the_same_verdict_claims_and_numbers_in_every_form(model: ReportModel) -> None:
    """Verdict, losses, and the result of every claim."""
    lost = model.findings["lost"]
    assert lost
    assert model.writers
    texts = {"terminal": _terminal(model), "page": page(model), "markdown": run_markdown(model)}
    for form, text in texts.items():
        assert model.verdict.verdict in text, form
        assert str(lost) in text, form
        assert all(claim.section in text for claim in model.claims), form
    rows = [line for line in texts["markdown"].splitlines() if line.startswith("| ✓ ")]
    assert len(rows) == len(model.claims)
    cases = ElementTree.fromstring(run_junit(model)).findall("testsuite/testcase")
    assert len(cases) == len(model.claims) + 2


def test_a_judgement_alone_shows_the_same_in_the_terminal(
    model: ReportModel, judged: Callable[[str], Path]
) -> None:
    """`acked run` prints the verdict before it reads the history for the page."""
    alone = judged_model(json.loads((judged(RUN) / "judgement.json").read_text(encoding="utf-8")))
    assert (alone.writers, alone.findings, alone.promises) == (model.writers, model.findings, model.promises)
    assert [(group.name, group.count, group.expected) for group in alone.groups] == [
        (group.name, group.count, group.expected) for group in model.groups
    ]
    assert [(claim.name, claim.status, claim.instead) for claim in alone.claims] == [
        (claim.name, claim.status, claim.instead) for claim in model.claims
    ]
    assert [line for line in _terminal(alone).splitlines() if line.startswith("Verdict:")] == [
        "Verdict: as declared"
    ]


def test_a_claim_that_fails_is_a_failure_and_one_left_open_an_error(model: ReportModel) -> None:
    """CI shows which claim it was, and what was observed."""
    wrong, left_open, *others = model.claims
    model = replace(
        model,
        verdict=replace(model.verdict, verdict="violated", reasons=("a claim is refuted",)),
        claims=(
            replace(wrong, as_declared=False, status="refuted", observed="rose by <1>"),
            replace(left_open, as_declared=False, status="unknown"),
            *others,
        ),
        groups=tuple(replace(group, expected=False) for group in model.groups),
    )
    suite = ElementTree.fromstring(run_junit(model)).find("testsuite")
    assert suite is not None
    assert (suite.get("failures"), suite.get("errors")) == (str(2 + len(model.groups)), "1")
    failed = {case.get("name"): case[0] for case in suite if len(case)}
    message = str(failed[f"claim {wrong.name}"].get("message"))
    assert message.startswith(wrong.says)
    assert "Observed: rose by <1> (refuted). Expected" in message
    assert failed[f"claim {left_open.name}"].tag == "error"
    text = run_markdown(model)
    assert "- a claim is refuted" in text
    assert "| ✗ refuted" in text
    assert r"rose by \<1\>" in text

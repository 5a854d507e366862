"""Two runs beside each other: only what differs is listed, aligned by marks."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer.testing
from markupsafe import escape

from cli.commands import app
from harness.console import Console
from report.comparison import show_comparison
from report.model.compare import SECTIONS, Difference, RunComparison, compare, failover_s
from report.model.gather import report_model
from report.model.model import EffectiveSetting
from report.page.comparison import alignment, comparison_page
from tests.runs.judged import judged_run

RunJudge = Callable[[str], Path]


@pytest.fixture
def twins(judged: RunJudge, tmp_path: Path) -> tuple[Path, Path]:
    one = judged("leader-az-isolated")
    other = tmp_path / "other"
    shutil.copytree(one, other)
    return one, other


def compared(folders: tuple[Path, Path]) -> RunComparison:
    return compare(*(report_model(folder) for folder in folders))


def change(folder: Path, file: str, **values: object) -> None:
    stored = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps({**stored, **values}))


def test_run_and_itself_are_equal(twins: tuple[Path, Path]) -> None:
    comparison = compared(twins)
    for name in ("facts", "claims", "observed", "fates", "findings", "steps", "settings"):
        assert getattr(comparison, name) == (), name
    assert (comparison.opening.word, comparison.opening.sign) == ("alike", "=")
    model = report_model(twins[0])
    assert comparison.same["claims"] == len(model.claims)
    assert f"{len(model.claims)} claims, {len(model.verdict.fates)} fate" in comparison.equal
    assert comparison.same["steps"] == len(model.marks) - 1
    assert all(failover.one == failover.other for failover in comparison.failovers)


def test_version_claim_and_fate_that_differ(twins: tuple[Path, Path]) -> None:
    other = twins[1]
    change(other, "run.json", kafka="3.9.1")
    claims = json.loads((other / "judgement.json").read_text())["claims"]
    claims[0]["status"], claims[0]["as_declared"] = "refuted", False
    claims[1]["observed"] = "something else"
    change(other, "judgement.json", claims=claims[:-1], fates={"kept": 5, "moved": 1})
    comparison = compared(twins)
    assert Difference("Kafka", "2.7.1", "3.9.1") in comparison.facts
    assert comparison.claims[0] == Difference(claims[0]["name"], "confirmed", "refuted, not as declared")
    assert comparison.claims[-1] == Difference(claims[-1]["name"], comparison.claims[-1].one, "")
    assert [one.what for one in comparison.observed] == [claims[1]["name"]]
    assert {fate.what for fate in comparison.fates} >= {"kept", "lost", "moved"}
    said = comparison.opening.answer
    assert re.search(
        r"^A loses \d+ acknowledged messages, B none\. 1 of \d+ claim turns out otherwise: \S+\. "
        r"1 claim is made of one of them only\.",
        said,
    )
    assert claims[0]["name"] in said


def test_what_differs_little_is_folded_and_what_is_said_twice_is_said_once(twins: tuple[Path, Path]) -> None:
    """A lost message is a fate and a finding; 97 of 100 messages are no other outcome."""
    judgement = json.loads((twins[1] / "judgement.json").read_text())
    lost, kept = judgement["fates"]["lost"], judgement["fates"]["kept"]
    change(twins[1], "judgement.json", fates=judgement["fates"] | {"lost": lost - 1, "kept": 2 * kept})
    comparison = compared(twins)
    assert comparison.counts == (Difference("lost", str(lost), str(lost - 1)),)
    assert comparison.fates == (Difference("kept", str(kept), str(2 * kept)),)
    assert comparison.findings == ()
    assert comparison.opening.word == "alike"


def test_clock_of_a_run_does_not_matter_but_its_steps_do(twins: tuple[Path, Path]) -> None:
    file = twins[1] / "history" / "marks.parquet" / "00000.parquet"
    marks = pq.read_table(file)
    names = marks["name"].to_pylist()
    late = names.index("split")
    shifted = [ns + (2 * 10**9 if number >= late else 0) for number, ns in enumerate(marks["ns"].to_pylist())]
    number = marks.column_names.index("ns")
    pq.write_table(marks.set_column(number, "ns", pa.array(shifted, pa.int64())), file)
    steps = compared(twins).steps
    assert [step.what for step in steps] == [f"{names[late - 1]} to split"]
    took = [float(text.removesuffix(" s")) for text in (steps[0].one, steps[0].other)]
    assert took[1] - took[0] == pytest.approx(2.0, abs=0.11)


def test_time_to_a_new_leader(judged: RunJudge) -> None:
    lossy, clean = report_model(judged("leader-az-isolated")), report_model(judged("no-fault"))
    took = failover_s(lossy, "t/0")
    cut = next(fault.from_s for fault in lossy.faults)
    elected = min(b.from_s for lane in lossy.partitions[0].lanes for b in lane.beliefs if b.epoch == 1)
    assert took == pytest.approx(elected - cut, abs=0.06)
    assert failover_s(clean, "t/0") is None
    assert failover_s(lossy, "no such partition/0") is None


def test_comparison_in_the_terminal(judged: RunJudge, tmp_path: Path) -> None:
    other = judged_run("leader-az-isolated-acks-all", tmp_path / "other")
    comparison = compare(report_model(judged("leader-az-isolated")), report_model(other))
    out = io.StringIO()
    show_comparison(comparison, Console(file=out, width=160, highlight=False))
    text = out.getvalue()
    assert "leader-az-isolated-acks-all" in text
    assert "Claims with another result" in text
    assert text.rstrip().splitlines()[-1].startswith("Equal: ")
    assert json.loads(json.dumps(comparison.as_json()))["facts"][0]["what"] == "scenario"


def test_page_of_a_comparison_is_aligned_and_whole(twins: tuple[Path, Path], tmp_path: Path) -> None:
    """The same mark is at the same place in both timelines, although it was set at another time."""
    other = twins[1]
    file = other / "history" / "marks.parquet" / "00000.parquet"
    marks = pq.read_table(file)
    late = [
        row | {"ns": row["ns"] + (2_500_000_000 if row["name"] != "seeded" else 0)}
        for row in marks.to_pylist()
    ]
    pq.write_table(pa.Table.from_pylist(late, schema=marks.schema), file)
    change(other, "run.json", kafka="3.9.1")
    target = tmp_path / "compare.html"
    typer.testing.CliRunner().invoke(app, ["compare", *map(str, twins), "--html", str(target)])
    html = target.read_text()
    at = [
        re.findall(r': cut: [^<]*</title><line x1="([\d.]+)"', part)
        for part in html.split("<svg data-from")[1:3]
    ]
    assert at[0] == at[1] != []
    assert "mark “cut” is at 0 s" in html
    assert "since “cut”" in html and "since the fault" not in html
    comparison = compared(twins)
    for name, title in SECTIONS:
        assert (f"<h2>{escape(title)}</h2>" in html) == bool(getattr(comparison, name)), name
    assert "3.9.1" in html
    assert f"{comparison.same['claims']} claims" in html.split('class="same"')[-1]
    assert not re.search(r"(?:src|href)=\"(?!#|data:,)|<script|https?://(?!www.w3.org/2000/svg)", html)


def test_page_of_runs_without_a_common_mark_or_partition(judged: RunJudge) -> None:
    models = report_model(judged("leader-az-isolated")), report_model(judged("no-fault"))
    other = replace(models[1], marks=(), partitions=())
    html = comparison_page(compare(models[0], other), models[0], other)
    assert "no topic partition in common" in html
    assert alignment(models[0], other).mark == ""


def test_folders_of_runs_are_no_difference_of_settings(twins: tuple[Path, Path]) -> None:
    models = [report_model(folder) for folder in twins]
    settings = [
        EffectiveSetting("broker1", "log.dirs", f"{place}/nodes/broker1/data,{place}/nodes/broker1/data2", "")
        for place in (models[0].run.folder, "/where/the/other/run/was")
    ]
    one, other = (
        replace(model, settings=(setting,)) for model, setting in zip(models, settings, strict=True)
    )
    assert compare(one, other).settings == ()

"""The page: one file without references, everything escaped, readable without scripts and without colours."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from markupsafe import Markup

from checkers.verdict import VERDICTS
from harness.history.tables import write_into
from report.model.gather import report_model
from report.model.model import ReportModel, Split
from report.page.render import page
from report.page.svg import tag
from report.page.template import TONES
from report.page.write import write_page
from tests.runs.judged import RESULT, RUNS, judged_run

RunJudge = Callable[[str], Path]
_VOID = {"meta", "link", "br", "input"}


class Elements(HTMLParser):
    """All elements of a page, and whether they are nested correctly."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


@pytest.mark.parametrize("name", RUNS)
def test_page_is_whole_and_refers_to_nothing(judged: RunJudge, name: str) -> None:
    html = page(report_model(judged(name)))
    assert len(html.encode()) <= 1_000_000
    elements = Elements(html)
    assert (elements.open, elements.wrong) == ([], [])
    for element, attributes in elements.found:
        for key in ("src", "href", "data", "action", "srcset"):
            assert attributes.get(key, "#").startswith(("#", "data:,")), (element, attributes)
        assert "style" not in attributes, (element, attributes)
        assert not any(key.startswith("on") for key in attributes), (element, attributes)
    assert "@import" not in html
    urls = set(re.findall(r"url\(([^)]*)\)", html))
    assert all(url.startswith("#") for url in urls)
    assert {url[1:] for url in urls} <= {attributes.get("id", "") for _, attributes in elements.found}


@pytest.mark.parametrize("name", RUNS)
def test_links_lead_somewhere(judged: RunJudge, name: str) -> None:
    elements = Elements(page(report_model(judged(name))))
    ids = [attributes["id"] for _, attributes in elements.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {attributes["href"][1:] for tag, attributes in elements.found if tag == "a"}
    assert {target for target in targets if not target.startswith("t=")} <= set(ids)


def test_policy_names_the_only_script_and_style(judged: RunJudge) -> None:
    html = page(report_model(judged("no-fault")))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    assert policy[1].startswith("default-src 'none';")
    for kind in ("script", "style"):
        (inside,) = re.findall(rf"<{kind}>(.*?)</{kind}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy[1]


@pytest.mark.parametrize("name", RUNS)
def test_pictures_are_well_formed_and_named(judged: RunJudge, name: str) -> None:
    html = page(report_model(judged(name)))
    pictures = re.findall(r'<svg [^>]*class="picture.*?</svg>', html, re.DOTALL)
    assert pictures
    for picture in pictures:
        root = ElementTree.fromstring(picture)
        title = root.find("{http://www.w3.org/2000/svg}title")
        assert title is not None
        assert title.text


def test_legend_names_what_is_drawn_and_nothing_else(judged: RunJudge) -> None:
    def legend(name: str) -> str:
        return "".join(re.findall(r'<p class="legend">.*?</p>', page(report_model(judged(name))), re.DOTALL))

    faulty, calm = legend("leader-az-isolated"), legend("no-fault")
    for key in ("fault in force", "lost later", "failed"):
        assert key in faulty
        assert key not in calm
    for key in ("acknowledged", "the node takes itself for the leader", "ISR: broker 1 is in it"):
        assert key in faulty
        assert key in calm
    assert "outcome unknown" not in faulty + calm
    assert "no longer in this log" in faulty
    assert "no longer in this log" not in calm


def test_legend_names_every_controller_that_is_drawn(judged: RunJudge) -> None:
    """With KRaft's combined mode and with ZooKeeper, controllers are brokers."""
    model = report_model(judged("leader-az-isolated"))
    lane = model.controllers[0]
    seventh = replace(lane, beliefs=tuple(replace(one, leader=7) for one in lane.beliefs))
    combined = replace(
        model, controllers=(seventh,), controller_splits=(), run=replace(model.run, mode="kraft-combined")
    )

    def legend(shown: ReportModel) -> str:
        return re.findall(r'<p class="legend">.*?</p>', page(shown), re.DOTALL)[0]

    assert "broker7" in legend(combined)
    assert "broker7" not in legend(replace(combined, run=replace(model.run, mode="zookeeper")))


def test_text_of_the_run_is_escaped(judged: RunJudge, tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>\"'&"
    folder = tmp_path / "run"
    shutil.copytree(judged("leader-az-isolated"), folder)
    for table, column in (("marks", "text"), ("marks", "name"), ("faults", "name")):
        file = folder / "history" / f"{table}.parquet"
        rows = pq.read_table(file)
        number = rows.column_names.index(column)
        write_into(file.parent, table, rows.set_column(number, column, pa.array([evil] * rows.num_rows)))
    life = pq.read_table(folder / "life.parquet")
    for column in ("label", "cause", "az", "host"):
        number = life.column_names.index(column)
        life = life.set_column(number, column, pa.array([evil] * life.num_rows))
    pq.write_table(life, folder / "life.parquet" / RESULT)
    stored = json.loads((folder / "judgement.json").read_text())
    for claim in stored["claims"]:
        claim.update(says=evil, observed=evil, quote=evil, section=evil)
    (folder / "judgement.json").write_text(json.dumps({**stored, "verdict": evil, "reasons": [evil]}))
    manifest = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**manifest, "title": evil, "problem": evil, "kafka": evil}))
    html = page(report_model(folder))
    assert "<script>alert" not in html
    elements = Elements(html)
    assert (elements.open, elements.wrong) == ([], [])
    assert [tag for tag, _ in elements.found].count("script") == 1


def test_every_verdict_has_a_sign_and_a_word(judged: RunJudge, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(judged("no-fault"), folder)
    stored = json.loads((folder / "judgement.json").read_text())
    tones = set()
    for verdict in (*VERDICTS, "not judged"):
        (folder / "judgement.json").write_text(json.dumps({**stored, "verdict": verdict}))
        model = report_model(folder)
        html = page(model)
        icon, word = ("≠", "not as declared") if verdict == "violated" else TONES[model.verdict.tone]
        assert f"<h1>{word}</h1>" in html
        assert f'<span class="icon" aria-hidden="true">{icon}</span>' in html
        assert f">{verdict}</strong>" in html
        tones.add(model.verdict.tone)
    assert tones == {"kept", "undecided", "void"}


def test_leaders_differ_by_texture_too(judged: RunJudge) -> None:
    html = page(report_model(judged("leader-az-isolated")))
    hues = re.findall(r'<rect class="h([2-6])[^>]*/>(<rect[^>]*>)?', html)
    assert hues
    assert all(f"url(#t{hue})" in (beside or "") for hue, beside in hues)


def test_what_the_page_says_is_there_without_scripts(judged: RunJudge) -> None:
    folder = judged("leader-az-isolated")
    model = report_model(folder)
    html = re.sub(r"<script>.*?</script>", "", page(model), flags=re.DOTALL)
    plain = html.replace("&#39;", "'").replace("&#34;", '"')
    for sentence in model.verdict.sentences:
        assert sentence in plain or sentence.endswith(" lost, as the scenario expects.")
    for claim in model.claims:
        assert f'id="claim={claim.name}"' in html
    assert html.count('class="story"') == len(model.stories)


@pytest.mark.parametrize("moments", [("injecting",), ("injecting", "injected")])
def test_invalid_run_shows_first_what_the_fault_lacked(
    judged: RunJudge, tmp_path: Path, moments: tuple[str, ...]
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(judged("leader-az-isolated"), folder)
    file = folder / "history" / "faults.parquet" / "00000.parquet"
    rows = [row for row in pq.read_table(file).to_pylist() if row["fault"] == 1]
    kept = [row for row in rows if row["moment"] in moments]
    reason = "The fault 'isolate az1' had no effect: broker1 -> broker2 still answers"
    failed = {**kept[-1], "ns": kept[-1]["ns"] + 10**9, "moment": "failed"}
    failed["evidence"] = json.dumps({"reason": reason, "links": ["broker1 -> broker2"]})
    pq.write_table(pa.Table.from_pylist([*kept, failed], schema=pq.read_schema(file)), file)
    stored = json.loads((folder / "judgement.json").read_text())
    (folder / "judgement.json").write_text(json.dumps({**stored, "verdict": "invalid"}))
    model = report_model(folder)
    assert not model.faults[0].proven
    assert model.faults[0].injected == ("injected" in moments)
    assert not any("claims came out" in one for one in model.verdict.sentences)
    html = page(model)
    assert html.index('id="bite"') < html.index('id="belief"')
    assert "still answers" in html
    assert "✗ not as wanted" in html
    assert "broker1 → broker2: named by the fault, which had no effect on it" in html
    assert "broker1 → broker3: named by the fault, not proven dead all the time" in html
    assert '<article class="fault-proof not-held">' in html


def test_a_claim_that_is_not_as_declared_is_told_in_words(judged: RunJudge, tmp_path: Path) -> None:
    """With what was observed; a run that broke no promise is decided, and is not as declared."""
    folder = tmp_path / "run"
    shutil.copytree(judged("leader-az-isolated"), folder)
    stored = json.loads((folder / "judgement.json").read_text())
    claim = stored["claims"][0] | {"as_declared": False, "status": "refuted", "observed": "3 of 9 lost"}
    changed = {
        "verdict": "violated",
        "reasons": ["claim 'x' is refuted"],
        "claims": [claim, *stored["claims"][1:]],
    }
    (folder / "judgement.json").write_text(json.dumps(stored | changed))
    html = page(report_model(folder))
    why = html.partition("Why violated</strong>")[2].partition("</div>")[0]
    assert f"<p>{claim['says']} Observed: 3 of 9 lost (refuted)." in unescape(why)
    assert "<h1>not as declared</h1>" in html and "not decided" not in html.partition("<main>")[0]


def test_history_without_watermarks_has_no_picture_of_them(judged: RunJudge) -> None:
    html = page(report_model(judged("leader-az-isolated")))
    assert "high watermark and log end offset" not in html


def test_page_is_written_beside_the_run_and_replaced(judged: RunJudge, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(judged("no-fault"), folder)
    file = write_page(folder)
    assert file == folder / "report.html"
    first = file.read_text(encoding="utf-8")
    assert write_page(folder).read_text(encoding="utf-8") == first
    assert sorted(path.name for path in folder.iterdir() if path.name.startswith(".")) == []


def test_attributes_and_content_of_elements_are_escaped() -> None:
    made = tag("a", "<b>", Markup("<i/>"), href='"><script>', class_="x", stroke_width=1.25, hidden=None)
    assert made == ('<a href="&quot;&gt;&lt;script&gt;" class="x" stroke-width="1.2">&lt;b&gt;<i/></a>')


def test_a_partition_with_a_loss_is_not_folded_and_disagreeing_controllers_come_first(
    judged: RunJudge,
) -> None:
    model = report_model(judged("leader-az-isolated"))
    assert model.partitions[0].grave
    second = replace(model.partitions[0], topic="second")
    lanes = model.partitions[0].lanes
    split = Split(1.0, 3.0, {1: ("broker1",), 2: ("broker2",)})
    drawn = replace(
        model,
        run=replace(model.run, mode="combined"),
        partitions=(model.partitions[0], second),
        controllers=lanes,
        controller_splits=(),
    )
    html = page(drawn)
    assert html.count("<details open><summary>second/0") == 2
    belief = html.index('<section id="belief">')
    assert html.index("<h3>t/0</h3>", belief) < html.index("<h3>The controller</h3>")
    nobody = Split(1.0, 3.0, {1: ("broker1",), -1: ("broker2",)})
    html = page(replace(drawn, controller_splits=(nobody,)))
    assert html.index("<h3>t/0</h3>", belief) < html.index("<h3>The controller</h3>")
    html = page(replace(drawn, controller_splits=(split,), partitions=(replace(second, grave=False),) * 2))
    assert html.index("<h3>The controller</h3>") < html.index("<h3>second/0</h3>")
    assert html.count("<details><summary>second/0") == 2


@pytest.mark.long
def test_a_broken_promise_comes_before_a_loss(judged: RunJudge, tmp_path: Path) -> None:
    folder = shutil.copytree(judged("hw-truncation-diverges"), tmp_path / "run")
    findings = pq.read_table(folder / "findings.parquet")
    promises = ["broken" if name == "diverged" else "not promised" for name in findings["class"].to_pylist()]
    where = findings.column_names.index("promise")
    pq.write_table(
        findings.set_column(where, "promise", pa.array(promises)), folder / "findings.parquet" / RESULT
    )
    drawn = report_model(folder).partitions
    assert [one.name for one in drawn if one.grave] == ["old/0", "new/0"]


def test_an_expected_loss_is_told_once_above_the_pictures(judged: RunJudge) -> None:
    model = report_model(judged("leader-az-isolated"))
    assert any(one.endswith("lost, as the scenario expects.") for one in model.verdict.sentences)
    head = page(model).split("<nav")[0]
    assert "as the scenario expects" not in head
    assert "includes the loss of" in head


def test_example_for_duckdb_works_when_pasted(judged: RunJudge, capfd: pytest.CaptureFixture[str]) -> None:
    html = page(report_model(judged("no-fault")))
    (code,) = re.findall(r'<pre><code class="duckdb">(.*?)</code>', html, re.DOTALL)
    subprocess.run([sys.executable, "-c", unescape(code)], check=True)
    assert "kept" in capfd.readouterr().out


def test_half_a_surrogate_pair_in_a_text_of_the_run_is_replaced(tmp_path: Path) -> None:
    folder = judged_run("leader-az-isolated", tmp_path / "run", scenario="leader \ud800 isolated")
    table = pq.read_table(folder / "history" / "faults.parquet" / "00000.parquet")
    place = table.schema.get_field_index("targets")
    halves = pa.array([r'{"hosts": ["\ud800"], "links": ["\udc00 -> broker1"]}'] * len(table), pa.string())
    pq.write_table(
        table.set_column(place, table.schema.field(place), halves),
        folder / "history" / "faults.parquet" / "00000.parquet",
    )
    html = write_page(folder).read_text(encoding="utf-8")
    assert "leader ? isolated" in html

"""Elections, removals of messages, and what each fault did to lost messages are those of the history."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.history.schema import TABLES
from report.model.gather import report_model
from report.model.removals import turns
from report.page.render import page

RunJudge = Callable[[str], Path]


def test_an_election_and_a_truncation_are_drawn_where_they_happened(judged: RunJudge) -> None:
    model = report_model(judged("leader-az-isolated"))
    story = model.partitions[0]
    told = {one.kind: one for one in reversed(story.turns)}
    assert told["elected"].text == "broker2 leads in epoch 1"
    assert told["removed"].source == "broker1"
    assert model.faults[0].from_s < told["elected"].s < told["removed"].s
    removed = sum(one.count for one in story.turns if one.kind == "removed")
    assert removed == sum(one.lost for bins in story.sends.values() for one in bins)
    html = page(model)
    assert "a leader was elected" in html
    assert "acknowledged messages were removed from this log" in html
    assert len(re.findall(r'class="removedcross"', html)) >= 2


def test_a_run_without_a_loss_removes_nothing(judged: RunJudge) -> None:
    model = report_model(judged("no-fault"))
    assert all(one.kind != "removed" for story in model.partitions for one in story.turns)
    assert "acknowledged messages were removed" not in page(model)


@pytest.mark.parametrize(
    ("kind", "offset", "text"),
    [
        ("log_start", 8, "broker1 moved its log start: 1 acknowledged message removed"),
        ("records_deleted", 8, "broker1 moved its log start: 1 acknowledged message removed"),
        ("log_start", 7, "1 acknowledged message not found any more on broker1"),
        ("truncated", 7, "broker1 truncated: 1 acknowledged message removed"),
    ],
)
def test_what_a_broker_says_about_its_log_tells_why_records_are_gone(
    kind: str, offset: int, text: str
) -> None:
    place = {"topic": "t", "partition": 0}
    row = {**place, "broker": 1, "offset": 7, "writer": 1, "seq": 7, "seen_ns": 10**9, "gone_ns": 5 * 10**9}
    said = {**place, "host": "broker1", "kind": kind, "offset": offset, "ns": 4 * 10**9}
    told = turns([], pa.Table.from_pylist([row]), {(1, 7)}, [], [], [said], lambda ns: ns / 1e9, 0.0, 9.0)
    assert [turn.text for turn in told] == [text]


@pytest.mark.parametrize("name", ["kraft-last-replica-wiped", "canary"])
def test_a_storage_fault_is_known_by_what_it_hit_not_by_its_name(
    judged: RunJudge, name: str, tmp_path: Path
) -> None:
    """An erased log, and a damaged record."""
    named = report_model(judged(name)).partitions
    renamed = tmp_path / "renamed"
    shutil.copytree(judged(name), renamed)
    file = renamed / "history" / "faults.parquet" / "00000.parquet"
    rows = pq.read_table(file).to_pylist()
    table = pa.Table.from_pylist([{**row, "name": "a fault"} for row in rows], TABLES["faults"].arrow())
    pq.write_table(table, file)
    assert report_model(renamed).partitions == named
    if name != "canary":
        texts = [turn.text for story in named for turn in story.turns]
        assert "broker1 was erased: 3 acknowledged messages removed" in texts


@pytest.mark.long
def test_a_fault_that_took_nothing_is_told_apart_from_one_that_did(judged: RunJudge) -> None:
    kill, power = report_model(judged("power-cut")).verdict.sentences[:2]
    assert kill.endswith("This erased no copy of a lost message.")
    assert power.endswith("This erased every copy of all the 6 lost messages.")
    kill, power = report_model(judged("hw-truncation-diverges")).verdict.sentences[:2]
    assert kill.endswith("This erased no copy of a lost message.")
    assert power.endswith("This erased some copies of 1 lost message, not all.")


def test_marks_are_told_in_sentences(judged: RunJudge) -> None:
    model = report_model(judged("leader-az-isolated"))
    drawn = page(model).split('class="picture timeline"')[1].split("</svg>")[0]
    told = re.findall(r'class="markname"[^>]*>([^<]*)<', drawn)
    assert set(told) == {mark.text for mark in model.marks}

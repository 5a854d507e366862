"""The report of a history that another program recorded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from report.junit import run_junit
from report.markdown import run_markdown
from report.model.gather import report_model
from report.model.model import LogFigure, ReportModel
from report.page.render import page
from tests.histories import History
from tests.runs.judged import judged_import


def imported(folder: Path, history: History) -> ReportModel:
    history.write(folder)
    return report_model(judged_import(folder))


def with_hole(lost: set[int], messages: int = 30) -> History:
    """All replicas hold the same, and nothing at the offsets of some messages that were acknowledged."""
    history = History()
    for number in range(messages):
        history.send(number, offset=number)
    return history.logs([(number, number) for number in range(messages) if number not in lost])


def figure(model: ReportModel) -> LogFigure:
    (partition,) = model.partitions
    assert partition.logs is not None
    return partition.logs


def test_the_page_speaks_of_an_import(tmp_path: Path) -> None:
    model = imported(tmp_path / "from-elsewhere", with_hole({17}))
    text = re.sub(r"<(style|script).*?</\1>", "", page(model), flags=re.DOTALL)
    assert "<title>? not decided: import from-elsewhere</title>" in text
    assert "imported: the history of another program" in text
    for of_runs in ("scenario took", "the scenario", "The scenario", "<td>?</td>", "No fault was injected"):
        assert of_runs not in text
    assert "1 acknowledged message is lost." in text and "<td>not recorded</td>" in text
    assert "The history records no fault." in text
    assert f"acked check --import {tmp_path / 'from-elsewhere'}" in text
    assert f"acked story MESSAGE {tmp_path / 'from-elsewhere'}" in text


def test_other_forms_speak_of_an_import(tmp_path: Path) -> None:
    model = imported(tmp_path / "from-elsewhere", with_hole({17}))
    assert "## Import from-elsewhere: violated" in run_markdown(model)
    assert "scenario" not in run_markdown(model) + run_junit(model)


def test_an_import_without_findings(tmp_path: Path) -> None:
    model = imported(tmp_path / "clean", with_hole(set()))
    assert model.verdict.meaning == "Nothing went wrong, and no acknowledged message was lost."
    assert "scenario" not in " ".join(model.verdict.sentences)
    assert [one.offset for one in figure(model).columns if one.count == 1] == [0, 1, 27, 28, 29]


@pytest.mark.parametrize("lost", [{17}, {1}, {29}, {0}, {5, 17, 25}, set(range(3, 29, 2))], ids=str)
def test_a_lost_offset_is_a_column_of_its_own(tmp_path: Path, lost: set[int]) -> None:
    model = imported(tmp_path / "hole", with_hole(lost))
    drawn = figure(model)
    assert lost <= {one.offset for one in drawn.columns if one.count == 1}
    for replica in drawn.panels[-1].replicas:
        assert {(one.offset, one.message, one.count) for one in replica.missing} == {
            (offset, f"1/{offset}", 1) for offset in lost
        }
    assert page(model).count("acknowledged, lost, never seen in this log") == 3 * len(lost)


def test_many_lost_offsets_in_a_row_are_one_column(tmp_path: Path) -> None:
    drawn = figure(imported(tmp_path / "hole", with_hole(set(range(10, 25)))))
    (missing,) = {(one.offset, one.count) for one in drawn.panels[-1].replicas[0].missing if one.count > 1}
    assert missing == (12, 12)


def test_a_lost_offset_that_holds_another_message(tmp_path: Path) -> None:
    """The later message took the offset; that of the lost one is not folded either."""
    history = History()
    for number in range(30):
        history.send(number, offset=number)
    history.logs([(number, number if number < 17 else number + 1) for number in range(29)])
    drawn = figure(imported(tmp_path / "taken", history))
    assert 17 in {one.offset for one in drawn.columns if one.count == 1}
    assert [(one.offset, one.message) for one in drawn.panels[-1].replicas[0].missing][:1] == [(17, "1/17")]


def test_a_lost_offset_in_a_long_log_is_drawn(tmp_path: Path) -> None:
    """Of logs with more records than are drawn, the part around the first lost offset is."""
    drawn = figure(imported(tmp_path / "long", with_hole({4000, 7900}, messages=8000)))
    assert 4000 in {one.offset for one in drawn.columns if one.count == 1}
    assert [one.offset for one in drawn.panels[-1].replicas[0].missing] == [4000]

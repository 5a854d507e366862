"""The pictures of the catalogue: one for each stored run, small, and of what the run holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from report.model.gather import report_model
from report.page.standalone import standalone, texts_of
from scenarios import document
from tests.runs.pictures import FOLDER, LARGEST_BYTES
from tests.runs.stored import stored_names

RunJudge = Callable[[str], Path]


def test_every_stored_run_has_a_picture_in_the_catalogue() -> None:
    assert sorted(file.stem for file in FOLDER.glob("*.svg")) == stored_names(), (
        "run `python -m tests.runs.pictures`"
    )
    catalogue = document.FILE.read_text()
    for name in stored_names():
        assert f"({document.PICTURES}/{name}.svg)" in catalogue


@pytest.mark.parametrize("name", stored_names())
def test_picture_stands_alone(name: str) -> None:
    """A page such as GitHub's shows it in an `<img>`, where nothing is loaded and no script runs."""
    file = FOLDER / f"{name}.svg"
    assert file.stat().st_size <= LARGEST_BYTES
    whole = file.read_text()
    assert "prefers-color-scheme: dark" in whole
    root = ElementTree.fromstring(whole)
    ids = {one.get("id") for one in root.iter()}
    for one in root.iter():
        assert one.tag.split("}")[1] in {
            *("svg", "title", "style", "defs", "pattern", "marker", "g", "rect", "path", "circle", "line"),
            *("text", "tspan"),
        }
        for value in one.attrib.values():
            assert "url(" not in value or value[5:-1] in ids
        assert not any(key.startswith("on") or "href" in key for key in one.attrib)
    assert any(f" {name}, Kafka " in words for words in texts_of(whole))


@pytest.mark.parametrize(
    "name",
    [
        "leader-az-isolated",
        *(
            pytest.param(one, marks=pytest.mark.long)
            for one in ("no-fault", "power-cut", "hw-truncation-diverges")
        ),
    ],
)
def test_picture_says_what_its_run_holds(judged: RunJudge, name: str) -> None:
    """Every word and number; where a line is drawn may change with the drawing."""
    model = report_model(judged(name))
    fresh = texts_of(standalone(model))
    assert texts_of((FOLDER / f"{name}.svg").read_text()) == fresh, (
        f"run `python -m tests.runs.pictures {name}`"
    )
    for sentence in model.verdict.sentences[:2]:
        assert sentence in " ".join(fresh)

"""The page of a search: what was found, the schedules as lanes, and what was explored."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from harness.errors import BadDataError
from report.model.shapes import SearchShape, shaped
from report.page.search import search_page
from tests.browser import chromium, problem
from tests.page_layout import layout_faults

STORED = Path(__file__).parents[1] / "cli" / "search.json"


@pytest.fixture
def document() -> Any:
    stored = copy.deepcopy(json.loads(STORED.read_text()))
    stored["saturation"] = [30, 44, 60, 61, 70, 70, 70, 71]
    for group in stored["groups"]:
        if group["first"] == 3:
            group["score"] = [
                {"says": "pause the leader", "from_s": 12.0, "to_s": 16.0, "waits": True},
                {
                    "says": "kill a follower and erase partition 0 there",
                    "from_s": 12.0,
                    "to_s": 14.0,
                    "waits": False,
                },
                {"says": "elect the preferred leader", "from_s": 14.0, "to_s": None, "waits": False},
            ]
    return stored


def test_what_is_unexplained_comes_first(document: Any) -> None:
    page = search_page(document)
    assert (
        "In 8 random schedules of faults, Kafka broke no promise; one kind of finding is unexplained." in page
    )
    assert page.index('<tr class="c-broken">') < page.index('<tr class="c-cost">')


@pytest.mark.parametrize(
    ("groups", "sentence"),
    [
        ([], "In 8 random schedules of faults, Kafka broke no promise."),
        (["broken"], "In 8 random schedules of faults, Kafka broke a promise."),
        (["broken", "broken"], "In 8 random schedules of faults, Kafka broke promises in 2 ways."),
    ],
)
def test_headline_is_about_kafka(document: Any, groups: list[str], sentence: str) -> None:
    template = document["groups"][0]
    document["groups"] = [
        template | {"finding": template["finding"] | {"promise": promise}} for promise in groups
    ]
    assert f'<p class="headline">{sentence}</p>' in search_page(document)


def test_schedules_are_lanes_with_commands(document: Any) -> None:
    page = search_page(document, lambda run: "runs/x/report.html")
    assert page.count('<span class="lane">') == 3
    assert "<span>pause the leader</span>" in page and "12 s to 16 s, or earlier, at an event" in page
    assert "acked shrink runs/search/2026-11-27T14-55-54/runs/schedule/2026-11-27T14-56-34 --finding" in page
    assert page.count("acked report ") == len({group["first"] for group in document["groups"]})


def test_what_a_file_says_is_text(document: Any) -> None:
    document["groups"][0]["finding"]["cause"] = "<script>alert(1)</script>"
    assert "<script>" not in search_page(document)


@pytest.mark.parametrize(
    "change",
    [{"groups": [{"finding": {}}]}, {"judged": "8"}, {"saturation": [None]}, {"plan": {}}],
)
def test_a_damaged_file_is_refused(document: Any, tmp_path: Path, change: dict[str, Any]) -> None:
    file = tmp_path / "search.json"
    file.write_text(json.dumps(document | change))
    with pytest.raises(BadDataError, match="is malformed"):
        shaped(file, SearchShape)


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, pytest.param(1280, marks=pytest.mark.long)])
def test_nothing_is_cut_off(document: Any, tmp_path: Path, width: int) -> None:
    if reason := problem():
        pytest.skip(reason)
    file = tmp_path / "index.html"
    file.write_text(search_page(document))
    with chromium() as browser:
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.goto(file.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert layout_faults(page) == []
        page.screenshot(path=str(tmp_path / "page.png"), full_page=True)

"""Pages in a real browser: no request, no error, and everything that a reader does works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from report.model.compare import compare
from report.model.gather import report_model
from report.page.comparison import comparison_page
from report.page.write import write_page
from tests.browser import chromium
from tests.page_layout import layout_faults
from tests.runs.judged import RUNS
from tests.runs.pictures import FOLDER

pytestmark = pytest.mark.browser

RunJudge = Callable[[str], Path]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as one:
        yield one


class Reader:
    """A page that somebody has opened, and what the browser said and asked for meanwhile."""

    def __init__(self, browser: Any, file: Path, fragment: str = "", **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(file.as_uri() + fragment)

    def __enter__(self) -> Any:
        return self.page

    def __exit__(self, *error: object) -> None:
        self.context.close()


@pytest.fixture(scope="module")
def lossy(judged: RunJudge, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(judged("leader-az-isolated"), tmp_path_factory.mktemp("pages") / "lossy.html")


@pytest.mark.parametrize(
    "name",
    [
        "leader-az-isolated",
        *(pytest.param(name, marks=pytest.mark.long) for name in ("no-fault", "kraft-zombie-controller")),
    ],
)
def test_page_opens_without_request_or_complaint(
    browser: Any, judged: RunJudge, tmp_path: Path, name: str
) -> None:
    file = write_page(judged(name), tmp_path / "page.html")
    reader = Reader(browser, file)
    with reader as page:
        assert page.title().startswith(("✓ as documented", "◌ as documented"))
    assert reader.said == []
    assert [url for url in reader.asked if not url.startswith("data:")] == [file.as_uri()]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "width", [360, *(pytest.param(w, marks=pytest.mark.long) for w in (768, 1280)), 2560]
)
def test_page_is_never_wider_than_the_window(browser: Any, lossy: Path, width: int, scheme: str) -> None:
    """Pictures scroll in boxes of their own."""
    options = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    with Reader(browser, lossy, **options) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (colour == "rgb(255, 255, 255)") == (scheme == "light")


@pytest.mark.parametrize("name", RUNS)
def test_no_text_is_cut_off_or_lies_on_other_text(
    browser: Any, judged: RunJudge, tmp_path: Path, name: str
) -> None:
    """From a phone to a wide screen."""
    file = write_page(judged(name), tmp_path / "page.html")
    for width in (360, 768, 1280, 2560):
        with Reader(browser, file, viewport={"width": width, "height": 900}) as page:
            assert layout_faults(page) == [], width


@pytest.mark.parametrize(
    ("planted", "fault"),
    [
        (
            '<svg width="90" height="40"><text x="5" y="20">one</text><text x="12" y="22">two</text></svg>',
            "lies on",
        ),
        ('<svg width="90" height="40"><text x="70" y="20">broker1</text></svg>', "leaves its picture"),
        ('<p style="width:4em;overflow:hidden;white-space:nowrap">nothing was lost</p>', "is cut off"),
        ('<p style="width:4em">acknowledgements</p>', "is wider than its place"),
    ],
)
def test_text_that_cannot_be_read_is_found(browser: Any, tmp_path: Path, planted: str, fault: str) -> None:
    """Texts side by side or at right angles are none."""
    good = """<svg width="90" height="90"><text x="5" y="20">one</text><text x="45" y="20">two</text>
        <text transform="translate(20 80) rotate(-45)">one</text>
        <text transform="translate(38 80) rotate(-45)">two</text></svg><p style="width:9em">nothing</p>"""
    file = tmp_path / "page.html"
    for body, planted_is_read in ((good, False), (good + planted, True)):
        file.write_text(f"<!DOCTYPE html><meta charset=utf-8>{body}", encoding="utf-8")
        with Reader(browser, file) as page:
            faults = layout_faults(page)
        assert (len(faults) == 1 and fault in faults[0]) if planted_is_read else faults == []


def test_text_has_enough_contrast(browser: Any, lossy: Path) -> None:
    """4.5 : 1 for every kind of text outside the pictures, in both schemes."""
    script = """() => {
      const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
      const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
        .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
        .reduce((sum, c, n) => sum + c * [0.2126, 0.7152, 0.0722][n], 0);
      const behind = (one) => {
        for (let at = one; at; at = at.parentElement) {
          const colour = rgb(getComputedStyle(at).backgroundColor);
          if (colour.length < 4 || colour[3] === 1) return colour;
        }
        return [255, 255, 255];
      };
      const poor = new Set();
      for (const one of document.querySelectorAll("h1,h2,h3,p,li,td,th,a,summary,code,span,strong")) {
        if (one.closest("svg") || !one.textContent.trim()) continue;
        const [a, b] = [light(rgb(getComputedStyle(one).color)), light(behind(one))].sort((x, y) => y - x);
        if ((a + 0.05) / (b + 0.05) < 4.5) poor.add(`${one.tagName}.${one.className}`);
      }
      return [...poor];
    }"""
    for scheme in ("light", "dark"):
        with Reader(browser, lossy, color_scheme=scheme) as page:
            assert page.evaluate(script) == [], scheme


def test_filter_leaves_what_fits(browser: Any, lossy: Path) -> None:
    with Reader(browser, lossy) as page:
        rows = "details.group tbody tr:not(.hidden)"
        everything = page.locator(rows).count()
        page.keyboard.press("/")
        page.keyboard.type("5/0")
        shown = page.locator(rows).count()
        assert 0 < shown < everything
        assert all("5/0" in text for text in page.locator(rows).all_text_contents())
        page.locator("#filter").fill("no such message")
        assert page.locator("details.group:not(.hidden)").count() == 0
        page.locator("#filter").fill("")
        assert page.locator(rows).count() == everything


def test_table_is_sorted_by_keyboard(browser: Any, lossy: Path) -> None:
    with Reader(browser, lossy) as page:
        table = page.locator("details.group[open] table").first
        head = table.locator("th", has_text="offset")
        for way in (1, -1):
            head.focus()
            page.keyboard.press("Enter")
            offsets = [int(text) for text in table.locator("tbody td:nth-child(3)").all_text_contents()]
            assert offsets == sorted(offsets)[::way]


def test_link_to_a_message_opens_its_story(browser: Any, lossy: Path) -> None:
    with Reader(browser, lossy, "#message=5/2") as page:
        story = page.locator('details.story[id="message=5/2"]')
        assert story.get_attribute("open") is not None
        assert story.locator("svg").is_visible()
        top = story.bounding_box()["y"]
        assert 0 <= top < 700


def test_link_to_a_moment_marks_it_in_the_timeline(browser: Any, lossy: Path) -> None:
    from playwright.sync_api import expect

    with Reader(browser, lossy) as page:
        cursor, chosen = (
            page.locator("svg.timeline .cursor").first,
            page.locator("svg.timeline .chosen").first,
        )
        assert cursor.get_attribute("visibility") == "hidden"
        page.locator('#claims a[href*="-"]').first.click()
        # The browser announces a new hash after the click has returned.
        expect(cursor).to_have_attribute("visibility", "visible")
        assert chosen.get_attribute("visibility") == "visible"
        assert float(chosen.get_attribute("width")) > 5
        page.evaluate("location.hash = '#t=7.5'")
        expect(chosen).to_have_attribute("visibility", "hidden")
        assert cursor.get_attribute("visibility") == "visible"


def test_everything_is_reached_by_keyboard(browser: Any, lossy: Path) -> None:
    with Reader(browser, lossy) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        summary = page.locator("details.story summary").nth(1)
        summary.focus()
        page.keyboard.press("Enter")
        assert page.locator("details.story").nth(1).get_attribute("open") is not None


def test_page_without_scripts_can_be_read(browser: Any, lossy: Path) -> None:
    with Reader(browser, lossy, java_script_enabled=False) as page:
        assert page.locator("svg.timeline").first.is_visible()
        assert page.locator("svg.logs").first.is_visible()
        assert page.locator("#claims tbody tr").count() >= 15
        assert not page.locator("#filter").is_visible()
        closed = page.locator("details.story:not([open]) summary").first
        closed.click()
        assert page.locator("details.story[open]").count() == 2


def test_printed_page_shows_pictures_whole(browser: Any, lossy: Path) -> None:
    with Reader(browser, lossy, viewport={"width": 800, "height": 1000}) as page:
        page.emulate_media(media="print")
        assert not page.locator("nav").is_visible()
        width = page.locator("svg.timeline").first.bounding_box()["width"]
        assert width <= 800


def test_comparison_opens_without_request_or_complaint_and_fits(
    browser: Any, judged: RunJudge, tmp_path: Path
) -> None:
    one, other = (report_model(judged(name)) for name in ("leader-az-isolated", "no-fault"))
    file = tmp_path / "compare.html"
    file.write_text(comparison_page(compare(one, other), one, other))
    reader = Reader(browser, file, viewport={"width": 360, "height": 800})
    with reader as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert layout_faults(page) == []
        assert page.locator("svg.timeline").count() > 0
    assert reader.said == []
    assert [url for url in reader.asked if not url.startswith("data:")] == [file.as_uri()]


def test_picture_of_the_catalogue_is_shown_as_an_image(browser: Any, tmp_path: Path) -> None:
    """A document shows it in an `<img>`: it has a size, and its colours follow the scheme."""
    file = tmp_path / "document.html"
    picture = FOLDER / "leader-az-isolated.svg"
    file.write_text(f'<body><img src="{picture.as_uri()}">')
    shown = {}
    for scheme in ("light", "dark"):
        with Reader(browser, file, color_scheme=scheme) as page:
            assert page.evaluate("document.images[0].naturalWidth") > 1000
            shown[scheme] = page.screenshot()
    assert shown["light"] != shown["dark"]

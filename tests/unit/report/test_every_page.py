"""Every kind of page in a browser: from a phone to a wide screen, light and dark, by keyboard alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.axe import barriers, out_of_reach
from tests.browser import chromium, problem
from tests.page_layout import layout_faults
from tests.pages import every_page

pytestmark = [pytest.mark.browser, pytest.mark.skipif(bool(problem()), reason=problem()), pytest.mark.long]

WIDTHS = (390, 768, 1280, 1920)
KINDS = (
    *("run", "transactions", "recording", "import", "assessment", "assessments", "search", "comparison"),
    *("series", "searches", "shrink", "replay", "bisect"),
)
MB = 1_000_000
MOST_BYTES = {"assessment": 2 * MB, "search": 3 * MB, "searches": 3 * MB}
"""Of others, 1 MB."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    return every_page(tmp_path_factory.mktemp("pages"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as one:
        yield one


def opened(browser: Any, file: Path, width: int, scheme: str) -> tuple[Any, list[str], list[str]]:
    """A page, what the browser says, and what it asks for."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.set_default_timeout(60_000)
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    return page, said, asked


def test_there_is_a_page_of_every_kind(pages: Mapping[str, Path]) -> None:
    assert set(KINDS) == pages.keys()
    for kind, file in pages.items():
        assert file.stat().st_size <= MOST_BYTES.get(kind, MB), kind


@pytest.mark.parametrize("kind", KINDS)
def test_page_can_be_read(browser: Any, pages: Mapping[str, Path], kind: str) -> None:
    """No text lies on other text, nothing is wider than the window, and nothing is asked of elsewhere."""
    file = pages[kind]
    for width, scheme in (*((width, "light") for width in WIDTHS), (390, "dark")):
        page, said, asked = opened(browser, file, width, scheme)
        assert layout_faults(page) == [], (scheme, width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, scheme
        assert said == []
        assert [url for url in asked if not url.startswith("data:")] == [file.as_uri()]
        page.close()


@pytest.mark.parametrize("kind", KINDS)
def test_page_keeps_nobody_out(browser: Any, pages: Mapping[str, Path], kind: str) -> None:
    """By axe-core, and with the keyboard alone."""
    for scheme, width in (("light", 390), ("light", 1280), ("dark", 1280)):
        page, _, _ = opened(browser, pages[kind], width, scheme)
        assert barriers(page) == [], (scheme, width)
        if (scheme, width) == ("light", 390):
            assert out_of_reach(page) == [], width
        page.close()


@pytest.mark.parametrize(
    ("planted", "barrier"),
    [
        ('<p style="color:#aaa;background:#fff">too pale</p>', "color-contrast"),
        ('<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">', "image-alt"),
        ("<button></button>", "button-name"),
    ],
)
def test_a_barrier_is_found(browser: Any, tmp_path: Path, planted: str, barrier: str) -> None:
    head = '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>t</title><main><h1>t</h1>'
    file = tmp_path / "page.html"
    for body, expected in (("<p>fine</p>", []), (planted, [barrier])):
        file.write_text(f"{head}{body}</main></html>", encoding="utf-8")
        page, _, _ = opened(browser, file, 1280, "light")
        assert [sentence.split(" ")[0] for sentence in barriers(page)] == expected
        page.close()


def test_what_the_keyboard_does_not_reach_is_found(browser: Any, tmp_path: Path) -> None:
    trap = "<button onkeydown=\"event.key == 'Tab' && event.preventDefault()\">trap</button>"
    file = tmp_path / "page.html"
    file.write_text(f"<!DOCTYPE html><a href='#a'>a</a>{trap}<a href='#b'>b</a>", encoding="utf-8")
    page, _, _ = opened(browser, file, 1280, "light")
    assert out_of_reach(page) == ['<a href="#b">b</a>']
    page.close()

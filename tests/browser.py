"""The system's Chromium, driven by Playwright: its path, and the reason if it cannot be used here.

`python -m tests.browser RUN/report.html docs/images/page.png` makes the picture in docs/page.md.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

PACKAGE = "chromium"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""It sends nothing of its own."""


@cache
def problem() -> str:
    """Why no browser can be used here; empty if one can."""
    if shutil.which("chromium") is None:
        return f"chromium is not installed (package {PACKAGE})"
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError as error:
        return f"Playwright cannot be imported ({error})"
    return ""


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser, closed at the end of the context."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=list(FLAGS), timeout=120_000
        )
        try:
            yield browser
        finally:
            browser.close()


def picture(page: Path, target: Path) -> None:
    """A picture of a page from its beginning to the end of the first timeline."""
    with chromium() as browser:
        opened = browser.new_page(viewport={"width": 1240, "height": 1000})
        opened.set_default_timeout(120_000)
        opened.goto(page.resolve().as_uri())
        end = opened.locator("svg.timeline").first.bounding_box()
        clip = {"x": 0, "y": 0, "width": 1240, "height": end["y"] + end["height"] + 12}
        opened.screenshot(path=target, full_page=True, clip=clip)


if __name__ == "__main__":
    picture(Path(sys.argv[1]), Path(sys.argv[2]))

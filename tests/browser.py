"""The system's Chromium, driven by Playwright: which one it is, and why it cannot be used here."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
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
    """A browser, for a while."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=list(FLAGS), timeout=120_000
        )
        try:
            yield browser
        finally:
            browser.close()

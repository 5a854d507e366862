"""The pages that commands leave beside what they have found."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from harness.errors import AckedError

INDEX = "index.html"
"""The page of a series, in its folder."""
ResultT = TypeVar("ResultT")


def add_page(folder: Path, say: Callable[[str], None]) -> Path | None:
    """Write the page beside a judgement. If that fails, report it and go on."""
    from report.page.write import write_page

    return without_failing("there is no page of this run", say, lambda: write_page(folder))


def without_failing(lacking: str, say: Callable[[str], None], write: Callable[[], ResultT]) -> ResultT | None:
    """What ``write`` returns. If it fails, say what is ``lacking`` and why, and go on."""
    try:
        return write()
    except AckedError as error:
        say(f"{lacking}: {error.message}")
    except Exception as error:  # noqa: BLE001 - what was judged stands, whatever is wrong with its page
        say(f"{lacking} ({type(error).__name__}: {error}); please report it")
    return None


def page_links(document: Path) -> Callable[[str], str]:
    """From a run folder to the address of its page, relative to the document; empty if it has no page."""
    return lambda folder: page_beside(document, Path(folder)) if folder else ""


def page_beside(document: Path, folder: Path) -> str:
    """The address of the page of a run or a series, relative to a document; empty if it has none."""
    for name in ("report.html", INDEX):
        page = folder / name
        if page.is_file():
            return os.path.relpath(page.resolve(), document.absolute().parent.resolve())
    return ""

"""The page that a command leaves beside a judgement."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.errors import AckedError


def add_page(folder: Path, say: Callable[[str], None]) -> Path | None:
    """Write the page beside a judgement. If that fails, report it and go on."""
    from report.page.write import write_page

    try:
        return write_page(folder)
    except AckedError as error:
        say(f"there is no page of this run: {error.message}")
    except Exception as error:  # noqa: BLE001 - the judgement stands, whatever is wrong with its page
        say(f"there is no page of this run ({type(error).__name__}: {error}); please report it")
    return None

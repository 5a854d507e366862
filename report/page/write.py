"""`report.html` in a run folder."""

from __future__ import annotations

from pathlib import Path

from report.model.gather import report_model
from report.page.render import page

PAGE = "report.html"


def write_page(folder: Path, target: Path | None = None) -> Path:
    """Write the page of a judged run into its folder, or to ``target``; returns the file.

    Raises BadDataError if the folder is damaged or holds no run.
    """
    file = target or folder / PAGE
    text = page(report_model(folder))
    fresh = file.with_name(f".{file.name}.new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(file)
    return file

"""The page of a series of any kind, from what its command has written so far."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.errors import BadDataError
from report.assessment import read_assessment
from report.model.night import night_of
from report.model.shapes import REPLAY, SEARCH, SHRINK, ReplayShape, ShrinkShape, shaped
from report.page.assessment import assessment_page
from report.page.index import index_page
from report.page.repeated import replay_page, shrink_page
from report.page.search import search_page
from report.search import read_search
from studies.assess.series import DOCUMENT
from studies.series.folder import PLANNED, SeriesFolder, runs_before
from studies.series.summary import FILE, flaky

Link = Callable[[str], str]
"""From a run folder to the address of its page; empty if it has none."""


def is_series(folder: Path) -> bool:
    """Whether a folder is that of a series with a page."""
    return any((folder / name).is_file() for name in (DOCUMENT, SEARCH, SHRINK, REPLAY, FILE, PLANNED))


def series_page(folder: Path, link: Link) -> str:
    """The page as one self-contained HTML file. Raises BadDataError for a damaged series, or for none."""
    if (folder / DOCUMENT).is_file():
        return assessment_page(read_assessment(folder / DOCUMENT), link)
    if (folder / SEARCH).is_file():
        return search_page(read_search(folder / SEARCH), link)
    if (folder / SHRINK).is_file():
        return shrink_page(shaped(folder / SHRINK, ShrinkShape), link)
    if (folder / REPLAY).is_file():
        return replay_page(shaped(folder / REPLAY, ReplayShape), link)
    if not is_series(folder):
        raise BadDataError(f"{folder.parent.name}/{folder.name} has no page yet: no run of it has ended.")
    series = SeriesFolder(folder)
    earlier = runs_before(folder.resolve().parent.parent)
    night = night_of(
        series.runs, flaky(series.runs), not_run=series.not_run(), earlier=earlier, title=series.title
    )
    return index_page(night, series.runs, link)

"""The forms of a series of any kind, from what its command has written so far."""

from __future__ import annotations

import json
from pathlib import Path

from harness.errors import BadDataError
from report.junit import junit
from report.kinds import Link, kind_of
from report.model.night import Night, night_of
from report.night import summary_markdown
from report.page.index import index_page
from studies.series.folder import PLANNED, SeriesFolder, runs_before
from studies.series.summary import FILE, flaky

FORMS = ("json", "markdown", "junit")


def is_series(folder: Path) -> bool:
    """Whether a folder is that of a series with a page."""
    return kind_of(folder) is not None or any((folder / name).is_file() for name in (FILE, PLANNED))


def series_page(folder: Path, link: Link) -> str:
    """The page as one self-contained HTML file. Raises BadDataError for a damaged series, or for none."""
    if kind := kind_of(folder):
        return kind.page(kind.read(folder), link)
    series = _series(folder)
    return index_page(_night(series), series.runs, link)


def series_document(folder: Path, form: str, link: Link) -> str:
    """A series in one of the `FORMS`. Raises BadDataError as `series_page` does."""
    if kind := kind_of(folder):
        document = kind.read(folder)
        if form == "json":
            return json.dumps(document, indent=1) + "\n"
        return kind.markdown(document) if form == "markdown" else kind.junit(document)
    night = _night(_series(folder))
    if form == "json":
        return json.dumps(night.as_json(), indent=1) + "\n"
    return summary_markdown(night, link=link) if form == "markdown" else junit(night, link=link)


def _series(folder: Path) -> SeriesFolder:
    if not is_series(folder):
        raise BadDataError(f"{folder.parent.name}/{folder.name} has no page yet: no run of it has ended.")
    return SeriesFolder(folder)


def _night(series: SeriesFolder) -> Night:
    return night_of(
        series.runs,
        flaky(series.runs),
        not_run=series.not_run(),
        earlier=runs_before(series.path.resolve().parent.parent),
        kind=series.kind,
        time=series.time,
    )

"""The page of a bisect: all versions, oldest first, with the answers of those that were tried."""

from __future__ import annotations

from collections.abc import Callable

from report.model.bisected import BisectDocument, bisect_opening
from report.page.frame import framed
from report.page.template import STATUS_ICONS


def bisect_page(document: BisectDocument, link: Callable[[str], str] = lambda run: "") -> str:
    """The page as one self-contained HTML file. ``document`` is `bisect.json`."""
    runs = {run["version"]: run for run in document["runs"]}
    return framed(
        "bisect.html.j2",
        bisect_opening(document),
        document=document,
        versions=[(version, runs.get(version)) for version in document["versions"]],
        signs=STATUS_ICONS,
        link=link,
    )

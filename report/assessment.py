"""The table of an assessment, on the terminal and as Markdown.

Works on the document that `assessment.json` holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

Document = Mapping[str, Any]
_STYLES = {"broken": "bold red", "lost": "red", "unknown": "yellow"}
_NOTICEABLE_S = 1.0
LEGEND = (
    "times in seconds; * lasted until the fault was healed; – none; leader and controller: whether the fault "
    "hits them"
)


def table(document: Document) -> Table:
    """A row for each line."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    headings, rows = _cells(document)
    for heading in headings:
        shown.add_column(heading, no_wrap=heading != "operator")
    for row, style in rows:
        shown.add_row(*row, style=style)
    return shown


def markdown(document: Document) -> str:
    """The table, its legend, and the consequences."""
    headings, rows = _cells(document)
    lines = [headings, *(row for row, _ in rows)]
    head, *body = (f"| {' | '.join(line)} |" for line in lines)
    words = "\n".join(f"* {sentence}" for sentence in document["consequences"])
    return "\n".join((head, "|" + "---|" * len(headings), *body, "", LEGEND, "", words)) + "\n"


def _cells(document: Document) -> tuple[tuple[str, ...], list[tuple[tuple[str, ...], str]]]:
    azs: Mapping[str, str] = document["azs"]
    with_clients = [az for az in azs if az in document["clients"]]
    names = "/".join(azs[az] for az in with_clients)
    producers: Sequence[str] = document["producers"]
    headings = (
        "fault",
        "controller",
        "leader",
        f"lost ({' / '.join(producers)})",
        "promise",
        "dup.",
        "out of order",
        f"no write ({names})",
        f"no read ({names})",
        "failover",
        "full ISR",
        "operator",
    )
    return headings, [_row(line, producers, with_clients) for line in document["lines"]]


def _row(
    line: Mapping[str, Any], producers: Sequence[str], azs: Sequence[str]
) -> tuple[tuple[str, ...], str]:
    start = (line["says"], line["roles"].replace("quorum leader", "quorum"))
    if line["status"] != "measured":
        return (*start, "", line["status"], *[""] * 7, line["reason"]), "yellow"
    settings = line["settings"]
    described = settings[producers[0]]
    cells = (
        *start,
        line["led"],
        " / ".join(_lost(settings.get(name)) for name in producers),
        " / ".join("–" if name not in settings else _promise(settings[name]) for name in producers),
        " / ".join(_count(settings.get(name), "duplicated") for name in producers),
        " / ".join(_count(settings.get(name), "out_of_order") for name in producers),
        " / ".join(_gap(described["writes"].get(az)) for az in azs),
        " / ".join(_gap(line["reads"].get(az)) for az in azs),
        "–" if line["failover_s"] is None else f"{line['failover_s']:.1f}",
        "never" if line["recovery_s"] is None else f"{line['recovery_s']:.1f}",
        "; ".join(line["operator"]) or "–",
    )
    styled = "broken" if described["promise"] == "broken" else described["outcome"]
    return cells, _STYLES.get(styled, "")


def _lost(setting: Mapping[str, Any] | None) -> str:
    if setting is None:
        return "–"
    if setting["outcome"] == "unknown":
        return "?"
    read = f" ({setting['lost_after_read']} read)" if setting["lost_after_read"] else ""
    return f"{setting['lost']}{read}"


def _promise(setting: Mapping[str, Any]) -> str:
    return f"{setting['promise']}{' (known bug)' if setting['known_bugs'] else ''}"


def _count(setting: Mapping[str, Any] | None, name: str) -> str:
    return "–" if setting is None else str(setting[name])


def _gap(gap: Mapping[str, Any] | None) -> str:
    if gap is None:
        return "–"
    if gap["seconds"] < _NOTICEABLE_S:
        return "<1"
    return f"{gap['seconds']:.1f}{'*' if gap['until_heal'] else ''}"

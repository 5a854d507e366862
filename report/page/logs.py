"""The replicas' logs by leader epoch: rows are replicas, columns are offsets, one panel for each mark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from harness.history.time_zero import in_seconds
from report.model.model import LogColumn, LogFigure, Panel, ReplicaRecord, ReplicaState
from report.page.svg import block, fit, joined, picture, tag, text, titled, wrapped

_ROW, _GHOST = 30.0, 19.0
_LINE, _CAPTION_LINES = 14.0, 4
_MOST = 1180.0
_BOLD = 12.3
"""Size for which `fit` and `wrapped` estimate the width of bold letters of 11.5 px."""
_LONGEST_NAME = 380.0
"""Width that a panel's name may take beyond that of its cells."""


@dataclass(frozen=True)
class _Room:
    """Widths that the figure's longest texts need."""

    cell: float
    fold: float
    left: float

    @classmethod
    def of(cls, figure: LogFigure) -> _Room:
        records = [
            r
            for panel in figure.panels
            for one in panel.replicas
            for r in (*one.records, *one.gone, *one.missing)
        ]
        longest = max((len(record.text) for record in records), default=1)
        digits = max((len(str(column.offset + column.count)) for column in figure.columns), default=1)
        marks = max((len(str(one.leo or 0)) for panel in figure.panels for one in panel.replicas), default=1)
        return cls(
            cell=min(64.0, max(38.0, 7.0 * longest + 12, 6.5 * digits + 8)),
            fold=max(56.0, 9.5 * digits + 14),
            left=max(96.0, 72 + 12.0 * marks),
        )

    def width(self, column: LogColumn) -> float:
        return self.fold if column.count > 1 else self.cell


def logs_picture(figure: LogFigure, leaders: Mapping[int, int], name: str) -> Markup:
    """The picture of one topic partition; panels are side by side if there is room."""
    room = _Room.of(figure)
    names = max((6.4 * len(panel.name) + 128 for panel in figure.panels), default=0.0)
    width = max(
        room.left + sum(room.width(column) for column in figure.columns) + 46, min(names, _LONGEST_NAME)
    )
    side = max(1, int(_MOST // (width + 20)))
    parts: list[Markup] = []
    y, widest = 0.0, 0.0
    for start in range(0, len(figure.panels), side):
        heights = []
        row = figure.panels[start : start + side]
        captions = [wrapped(panel.text, width, _BOLD, most=_CAPTION_LINES) for panel in row]
        below = y + _LINE * max(len(lines) for lines in captions)
        for number, (panel, caption) in enumerate(zip(row, captions, strict=True)):
            x = number * (width + 20)
            parts += _heading(panel, caption, x, y, width)
            drawn, height = _panel(panel, figure.columns, leaders, room, x, below)
            parts += drawn
            heights.append(height)
            widest = max(widest, x + width)
        y = below + max(heights) + 14
    return picture(widest, y, parts, f"Logs of the replicas of {name}", "logs")


def _heading(panel: Panel, caption: Sequence[str], x: float, y: float, width: float) -> list[Markup]:
    return [
        text(x, y + 15, f"{in_seconds(panel.s)}", "panelname"),
        text(x + width - 46, y + 15, fit(panel.name, width - 110, 11), "panelmark", text_anchor="end"),
        *(text(x, y + 31 + _LINE * number, line, "paneltext") for number, line in enumerate(caption)),
    ]


def _panel(
    panel: Panel,
    columns: Sequence[LogColumn],
    leaders: Mapping[int, int],
    room: _Room,
    x: float,
    y: float,
) -> tuple[list[Markup], float]:
    """The replicas of one panel, below its heading; ``y`` leaves room for the caption's lines."""
    parts: list[Markup] = []
    top = y
    y += 26
    at = x + room.left
    for column in columns:
        wide = room.width(column)
        shown = (
            f"{column.offset}" if column.count == 1 else f"{column.offset}–{column.offset + column.count - 1}"
        )
        size = "offset" if len(shown) < 8 else "offset small"
        parts.append(text(at + wide / 2, y + 9, shown, size, text_anchor="middle"))
        at += wide
    y += 14
    for replica in panel.replicas:
        drawn, height = _replica(replica, columns, leaders, room, x, y)
        parts += drawn
        y += height + 5
    return parts, y - top


def _replica(
    replica: ReplicaState,
    columns: Sequence[LogColumn],
    leaders: Mapping[int, int],
    room: _Room,
    x: float,
    y: float,
) -> tuple[list[Markup], float]:
    name = f"broker{replica.broker}"
    parts = [text(x + room.left - 8, y + 14, name, "label", text_anchor="end")]
    below = "no answer" if replica.silent else "older read" if replica.older else ""
    if not replica.older and replica.high_watermark is not None and not replica.silent:
        below = f"HW {replica.high_watermark}"
        if replica.leo is not None:
            below += f" · LEO {replica.leo}"
    parts.append(text(x + room.left - 8, y + 26, below, "sublabel", text_anchor="end"))
    there = {record.offset: record for record in replica.records}
    gone = {record.offset: record for record in replica.gone}
    missing = {record.offset: record for record in replica.missing}
    at = x + room.left
    watermark_x: float | None = None
    shown_gone = False
    for column in columns:
        wide = room.width(column)
        record = there.get(column.offset)
        if (
            replica.high_watermark is not None
            and watermark_x is None
            and column.offset >= replica.high_watermark
        ):
            watermark_x = at
        if record is not None:
            inside = (replica.high_watermark or 0) - column.offset
            if 0 < inside < record.count:
                watermark_x = at + wide * inside / record.count
            above = replica.high_watermark is not None and record.offset >= replica.high_watermark
            parts.append(_cell(record, column, leaders, at, y, wide, name, above=above))
        if column.offset in gone:
            shown_gone = True
            words = _words(gone[column.offset], column, name, "no longer in this log")
            parts.append(_ghost(gone[column.offset], column, at, y + _ROW + 1, wide, words))
        elif column.offset in missing:
            shown_gone = True
            words = _words(missing[column.offset], column, name, "never seen in this log")
            parts.append(_ghost(missing[column.offset], column, at, y + _ROW + 1, wide, words))
        at += wide
    if replica.high_watermark is not None:
        edge = watermark_x if watermark_x is not None else at
        parts.append(tag("path", d=f"M{edge:.1f},{y - 3:.1f} v{_ROW + 6:.0f}", class_="hwline"))
    if replica.silent:
        left, wide = x + room.left + 1, at - x - room.left - 2
        parts.append(tag("rect", x=left, y=y + 0.5, width=wide, height=_ROW - 1, class_="notknown"))
        since = "" if replica.since_s is None else f" since {in_seconds(replica.since_s)}"
        words = next(
            (one for one in (f"not known{since}", f"?{since}", "?") if fit(one, wide - 4, 11) == one), "?"
        )
        middle = left + wide / 2
        parts.append(text(middle, y + 19, words, "notknowntext", text_anchor="middle"))
    return parts, _ROW + (_GHOST if shown_gone else 0)


def _cell(
    record: ReplicaRecord,
    column: LogColumn,
    leaders: Mapping[int, int],
    x: float,
    y: float,
    wide: float,
    name: str,
    *,
    above: bool,
) -> Markup:
    leader = leaders.get(record.epoch) if record.epoch is not None else None
    parts = [block(x + 1.5, y + 0.5, wide - 3, _ROW - 1, leader, "cell")]
    if above:
        parts.append(tag("rect", x=x + 1.5, y=y + 0.5, width=wide - 3, height=_ROW - 1, class_="above"))
    if record.acknowledged:
        parts.append(tag("rect", x=x + 3, y=y + 2, width=wide - 6, height=_ROW - 4, rx=6, class_="acked"))
    if record.damaged:
        crack = f"M{x + wide - 12:.1f},{y + 0.5:.1f} l5,7 l-6,5 l6,6 l-5,10.5"
        parts.append(tag("rect", x=x + 2.5, y=y + 1.5, width=wide - 5, height=_ROW - 3, class_="damaged"))
        parts.append(tag("path", d=crack, class_="damaged"))
    words = record.text if column.count == 1 else f"×{record.count}"
    shown = fit(words, wide - 6, 12) or words[:4]
    middle = x + wide / 2
    epoch = Markup("") if record.epoch is None else tag("tspan", f"e{record.epoch}", x=middle, dy="10")
    parts.append(tag("text", shown, epoch, x=middle, y=y + 14, class_="celltext", text_anchor="middle"))
    return titled(joined(parts), _words(record, column, name, "uncommitted" if above else ""))


def _ghost(record: ReplicaRecord, column: LogColumn, x: float, y: float, wide: float, words: str) -> Markup:
    inside = record.text if column.count == 1 else f"×{record.count}"
    shown = fit(inside, wide - 12, 10) or inside[:3]
    parts = [
        tag("rect", x=x + 1.5, y=y, width=wide - 3, height=_GHOST - 4, class_="ghostcell", rx=3),
        text(
            x + wide / 2,
            y + 11,
            shown,
            "ghosttext lost" if record.lost else "ghosttext",
            text_anchor="middle",
        ),
        tag("line", x1=x + 4, x2=x + wide - 4, y1=y + 7.5, y2=y + 7.5, class_="strike"),
    ]
    return titled(joined(parts), words)


def _words(record: ReplicaRecord, column: LogColumn, name: str, state: str) -> str:
    last = column.offset + column.count - 1
    offsets = f"offset {column.offset}" if column.count == 1 else f"offsets {column.offset} to {last}"
    facts = [
        f"{name}, {offsets}",
        "" if record.epoch is None else f"epoch {record.epoch}",
        f"message {record.message}" if record.message and column.count == 1 else "",
        "acknowledged" if record.acknowledged else "",
        "lost" if record.lost else "",
        "its bytes are damaged" if record.damaged else "",
        state,
    ]
    return ", ".join(fact for fact in facts if fact)

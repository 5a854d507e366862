"""Tables in which no value is cut: in columns where these fit, else in a block of lines for each row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from rich.text import Text

from harness.console import Console, wrapped
from harness.errors import printable
from report.markdown import plain

NONE = "–"
"""Stands where a row has no value."""
_GAP, _INDENT = 2, 2
_NARROWEST_PROSE = 24
_HEADING, _LABEL = "bold", "dim"


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of a `RowTable`."""

    heading: str
    """Says what the values are, with their unit."""
    parts: tuple[str, ...] = ()
    """What each of several values in a cell stands for: `acks=all` and `acks=1`."""
    right: bool = False
    """Whether its values are numbers, which are aligned at the right."""
    prose: bool = False
    """Whether its values are texts that may be wrapped at words to make room. It has no parts."""


Value = str | Text
"""Taken as it is, without markup."""
Cell = Value | tuple[Value, ...]
"""The value of a column, or a value for each of its parts."""
_Values = list[Text]
"""The values of a cell."""
_Widths = list[list[int]]
"""The width of each part of each column."""


@dataclass(frozen=True, kw_only=True)
class RowTable:
    """Rows of values.

    A terminal gets columns if all values fit, side by side or, in columns of prose, wrapped at words. Else it
    gets a block for each row: what names the row, and below it the other values, in columns if these fit, or
    else in a line `heading: value` for each. A file or a pipe gets one line a row, in columns that are as
    wide as their values.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    named_by: int = 1
    """How many of the first columns name a row. The first is named by its value alone."""
    grouped_by: int = 0
    """How many of those a terminal shows only once for adjacent rows in which they are equal."""

    def show(self, console: Console) -> None:
        """Print the table."""
        for line in self._lines(console.width if console.is_terminal else 0):
            console.print(line, soft_wrap=True)

    def markdown(self) -> str:
        """The table as Markdown, with the values of a cell side by side."""
        headings = [
            f"{column.heading}: {' / '.join(column.parts)}" if column.parts else column.heading
            for column in self.columns
        ]
        rows = [
            [plain(" / ".join(value.plain for value in _values(cell))) for cell in row] for row in self.rows
        ]
        lines = [headings, ["---"] * len(headings), *rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def _lines(self, width: int) -> Iterator[Text]:
        """The lines for a terminal of ``width`` columns; 0: for a file or a pipe."""
        rows = [[_values(cell) for cell in row] for row in self.rows]
        headings = self._headings(apart=bool(width))
        natural = self._natural([*rows, *reversed(headings)])
        if not width:
            yield from self._in_columns([*headings, *rows], natural)
        elif widths := self._fitted(natural, rows, width):
            yield from self._in_columns([*headings, *self._without_repeats(rows)], widths)
        else:
            yield from self._in_blocks(rows, width)

    def _headings(self, *, apart: bool) -> list[list[_Values]]:
        """The rows of headings. Parts may stand ``apart``, below what they are parts of."""
        with_parts = any(column.parts for column in self.columns)
        if apart and with_parts:
            return [
                [[Text(column.heading if column.parts else "", _HEADING)] for column in self.columns],
                [
                    [Text(text, _HEADING) for text in column.parts or (column.heading,)]
                    for column in self.columns
                ],
            ]
        return [
            [
                [Text(f"{column.heading} {part}".strip(), _HEADING) for part in column.parts or ("",)]
                for column in self.columns
            ]
        ]

    def _natural(self, rows: Sequence[Sequence[_Values]]) -> _Widths:
        """The widths at which every value fits into one line."""
        widths: _Widths = [[0] * max(1, len(column.parts)) for column in self.columns]
        for row in rows:
            for parts, values in zip(widths, row, strict=True):
                if len(values) == len(parts):
                    parts[:] = (
                        max(width, value.cell_len) for width, value in zip(parts, values, strict=True)
                    )
                else:  # a heading above all parts
                    for _ in range(values[0].cell_len - _whole(parts)):
                        parts[parts.index(min(parts))] += 1
        return widths

    def _fitted(self, natural: _Widths, rows: Sequence[Sequence[_Values]], width: int) -> _Widths | None:
        """The widths at which the table fits into ``width``; None if some value would have to be cut."""
        widths = [list(parts) for parts in natural]
        least = {
            at: max((len(word) for row in rows for word in row[at][0].plain.split()), default=0)
            for at, column in enumerate(self.columns)
            if column.prose
        }
        for _ in range(_whole([_whole(parts) for parts in widths]) - width):
            wide = [at for at in least if widths[at][0] > max(least[at], _NARROWEST_PROSE)]
            if not wide:
                return None
            widths[max(wide, key=lambda at: widths[at][0])][0] -= 1
        return widths

    def _without_repeats(self, rows: Sequence[list[_Values]]) -> Iterator[list[_Values]]:
        """The rows without the names of a group in all of its rows but the first."""
        before: list[_Values] = []
        for row in rows:
            group = row[: self.grouped_by]
            yield row if group != before else [*([[Text()]] * self.grouped_by), *row[self.grouped_by :]]
            before = group

    def _in_columns(self, rows: Sequence[Sequence[_Values]], widths: _Widths) -> Iterator[Text]:
        for row in rows:
            cells = [
                self._cell(column, values, parts)
                for column, values, parts in zip(self.columns, row, widths, strict=True)
            ]
            for pieces in zip_longest(*cells, fillvalue=Text()):
                line = Text()
                for piece, parts in zip(pieces, widths, strict=True):
                    line.append_text(piece)
                    line.append(" " * (_whole(parts) - piece.cell_len + _GAP))
                line.rstrip()
                yield line

    @staticmethod
    def _cell(column: Column, values: _Values, widths: Sequence[int]) -> Sequence[Text]:
        """The lines of a cell."""
        if column.prose:
            return wrapped(values[0], widths[0])
        if len(values) < len(widths):
            return values
        line = Text()
        for value, width in zip(values, widths, strict=True):
            space = " " * (width - value.cell_len)
            gap = " " * _GAP if line else ""
            line.append(gap + space if column.right else gap)
            line.append_text(value)
            line.append("" if column.right else space)
        return [line]

    def _in_blocks(self, rows: Sequence[Sequence[_Values]], width: int) -> Iterator[Text]:
        """What names a row, and below it the other values."""
        indent = _INDENT * (bool(self.grouped_by) + (self.grouped_by < self.named_by or not self.named_by))
        values = [list(row[self.named_by :]) for row in rows]
        others = replace(self, columns=self.columns[self.named_by :], named_by=0, grouped_by=0)
        headings = others._headings(apart=True)
        natural = others._natural([*values, *reversed(headings)])
        widths = others._fitted(natural, values, width - indent) if self.named_by else None
        if widths:
            yield Text(", ".join(column.heading for column in self.columns[: self.named_by]), _HEADING)
            for line in others._in_columns(headings, widths):
                yield _indented(line, indent)
        before: Sequence[_Values] = []
        for number, (row, other) in enumerate(zip(rows, values, strict=True), start=1):
            group = row[: self.grouped_by]
            if number > 1 and (group != before if group else not widths):
                yield Text()
            if group and group != before:
                yield from _hanging(Text(), self._name(0, group), 0, width)
            before = group
            name = self._name(self.grouped_by, row[self.grouped_by : self.named_by])
            if name or not self.named_by:
                shown = name or Text(f"row {number}", _HEADING)
                yield from _hanging(Text(), shown, _INDENT if group else 0, width)
            below = others._in_columns([other], widths) if widths else others._labelled(other, width - indent)
            for line in below:
                yield _indented(line, indent)

    def _labelled(self, row: Sequence[_Values], width: int) -> Iterator[Text]:
        """A line `heading: value` for each value of a row."""
        label = max((len(column.heading) + 2 for column in self.columns), default=0)
        for column, values in zip(self.columns, row, strict=True):
            value = _described(column, values)
            if value:
                yield from _hanging(Text(f"{column.heading}:".ljust(label), _LABEL), value, 0, width)

    def _name(self, first: int, values: Sequence[_Values]) -> Text:
        """What names a row: values of the columns from ``first`` on; the very first has no heading."""
        named = []
        for at, cell in enumerate(values, start=first):
            value = _described(self.columns[at], cell)
            if value:
                heading = Text(f"{self.columns[at].heading} " if at else "")
                named.append(heading.append_text(value))
        name = Text(", ").join(named)
        name.stylize(_HEADING if first == 0 else "")
        return name


def _values(cell: Cell) -> _Values:
    values = cell if isinstance(cell, tuple) else (cell,)
    return [
        value if isinstance(value, Text) else Text(" ".join(printable(value).split("\n"))) for value in values
    ]


def _whole(widths: Sequence[int]) -> int:
    """The width of columns side by side."""
    return sum(widths) + _GAP * (len(widths) - 1)


def _described(column: Column, values: Sequence[Text]) -> Text:
    """The values of a cell in one line, each with what it stands for; those that say nothing are left out."""
    parts = [
        Text(f"{part}\u00a0" if part else "").append_text(value)
        for part, value in zip(column.parts or ("",), values, strict=True)
        if value.plain.strip() not in ("", NONE)
    ]
    return Text(", ").join(parts)


def _hanging(start: Text, text: Text, indent: int, width: int) -> Iterator[Text]:
    """A text after ``start``, wrapped at words, with further lines below the first."""
    begin = indent + start.cell_len
    for number, line in enumerate(wrapped(text, width - begin)):
        yield (
            Text(" " * indent).append_text(start).append_text(line)
            if not number
            else Text(" " * begin).append_text(line)
        )


def _indented(line: Text, indent: int) -> Text:
    return Text(" " * indent).append_text(line)

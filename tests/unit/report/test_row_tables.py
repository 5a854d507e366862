"""Tables fit the terminal or become blocks; through a pipe every row is one line with all its values."""

from __future__ import annotations

import io

import pytest

from harness.console import Console
from report.console import Column, RowTable

FAULTS = RowTable(
    columns=[
        Column(heading="fault"),
        Column(heading="controller"),
        Column(heading="lost (messages)", parts=("acks=all", "acks=1"), right=True),
        Column(heading="operator", prose=True),
    ],
    rows=[
        ["az1 isolated", "inside", ("0", "66"), "starts broker1, and then broker2 as well"],
        ["az1 isolated", "outside", ("0", "–"), "–"],
        ["az2 [b]cut[/b]", "inside", ("12", "7"), "–"],
    ],
    named_by=2,
    grouped_by=1,
)


def printed(table: RowTable, width: int = 80, *, terminal: bool = True) -> list[str]:
    console = Console(
        file=io.StringIO(), force_terminal=terminal, width=width, color_system=None, highlight=False
    )
    table.show(console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_columns_that_fit_stand_side_by_side() -> None:
    """Numbers end below each other; a fault is named once."""
    assert printed(FAULTS, 90) == [
        "                            lost (messages)",
        "fault           controller  acks=all  acks=1  operator",
        "az1 isolated    inside             0      66  starts broker1, and then broker2 as well",
        "                outside            0       –  –",
        "az2 [b]cut[/b]  inside            12       7  –",
    ]


def test_prose_makes_room_for_the_other_columns() -> None:
    assert printed(FAULTS, 72)[2:4] == [
        "az1 isolated    inside             0      66  starts broker1, and then",
        "                                              broker2 as well",
    ]


def test_a_narrow_terminal_gets_a_block_for_each_row() -> None:
    """With the name of each value; what a row does not have is left out."""
    assert printed(FAULTS, 44) == [
        "az1 isolated",
        "  controller inside",
        "    lost (messages): acks=all 0, acks=1 66",
        "    operator:        starts broker1, and",
        "                     then broker2 as well",
        "  controller outside",
        "    lost (messages): acks=all 0",
        "",
        "az2 [b]cut[/b]",
        "  controller inside",
        "    lost (messages): acks=all 12, acks=1 7",
    ]


def test_names_stand_above_the_other_columns_where_only_these_fit() -> None:
    assert printed(FAULTS, 56) == [
        "fault, controller",
        "    lost (messages)",
        "    acks=all  acks=1  operator",
        "az1 isolated",
        "  controller inside",
        "           0      66  starts broker1, and then broker2",
        "                      as well",
        "  controller outside",
        "           0       –  –",
        "",
        "az2 [b]cut[/b]",
        "  controller inside",
        "          12       7  –",
    ]


def test_rows_without_a_name_are_numbered() -> None:
    table = RowTable(columns=[Column(heading="value")], rows=[["x" * 90], ["y"]], named_by=0)
    assert printed(table) == ["row 1", "  value: " + "x" * 90, "", "row 2", "  value: y"]


def test_a_pipe_gets_one_line_for_each_row_however_narrow() -> None:
    head, *rows = printed(FAULTS, 20, terminal=False)
    assert head.split("  ")[0] == "fault"
    assert "lost (messages) acks=all  lost (messages) acks=1" in head
    assert len(rows) == len(FAULTS.rows)
    assert all(row.startswith(str(cells[0])) for row, cells in zip(rows, FAULTS.rows, strict=True))
    assert rows[0].endswith("starts broker1, and then broker2 as well")


@pytest.mark.parametrize("width", [42, 60, 80, 120])
def test_no_value_is_cut_at_any_width(width: int) -> None:
    lines = printed(FAULTS, width)
    assert all(len(line) <= width for line in lines)
    words = " ".join(lines).split()
    assert {"isolated", "controller", "66", "broker1,", "starts", "operator"} <= {
        word.strip(":") for word in words
    }


@pytest.mark.parametrize("width", [30, 80])
def test_a_text_is_wrapped_at_words_and_its_long_words_stay_whole(width: int) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None)
    path = "/a/path/that/is/longer/than/thirty/columns"
    console.paragraph(f"[b]kept[/b] in {path} by the command", lead=" • ")
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert (
        lines
        == {
            30: [" • kept in", f"   {path}", "   by the command"],
            80: [f" • kept in {path} by the command"],
        }[width]
    )


def test_a_pipe_gets_a_text_in_one_line() -> None:
    console = Console(file=io.StringIO(), width=20)
    console.paragraph("a text that is longer than twenty columns", lead=" • ")
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == " • a text that is longer than twenty columns\n"

"""Consoles for tables."""

from __future__ import annotations

from harness.console import Console


def table_console(width: int) -> Console:
    """A console on stdout; where that is no terminal, it is ``width`` columns wide."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=width)

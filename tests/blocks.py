"""The rows that the checker deals with at a time (`checkers.partition.messages.BLOCK_ROWS`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from checkers.partition import messages


@contextmanager
def blocks_of_rows(rows: int) -> Iterator[None]:
    """Let the checker take so many rows at a time: small histories then have many blocks."""
    with patch.object(messages, "BLOCK_ROWS", rows):
        yield

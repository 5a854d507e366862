"""Files of fixed rows behind a line of JSON, which is padded to a multiple of the size of a row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

from harness.errors import BadDataError, json_object


def create(journal: Path, part: str, suffix: str, stated: Mapping[str, object], row_bytes: int) -> Path:
    """Make a file that begins with what is ``stated``, beside a ``journal`` of lines and under a free name.

    The name has the ``part`` and a number. Raises OSError.
    """
    head = json.dumps(stated, separators=(",", ":")).encode()
    size = -(-(len(head) + 1) // row_bytes) * row_bytes
    for number in count():
        path = journal.with_suffix(f".{part}-{number}{suffix}")
        try:
            with path.open("xb") as file:
                file.write(head.ljust(size - 1) + b"\n")
        except FileExistsError:
            continue
        return path
    raise AssertionError


def read_header(
    path: Path, of: str, magic: str, row_bytes: int, longest_bytes: int
) -> tuple[dict[str, Any], int] | None:
    """What a journal ``of`` something states, and the size of its header.

    None if its process was killed before the header was complete. Raises BadDataError for another file.
    """
    with path.open("rb") as file:
        return parse_header(file.readline(longest_bytes), str(path), of, magic, row_bytes, longest_bytes)


def parse_header(
    head: bytes, path: str, of: str, magic: str, row_bytes: int, longest_bytes: int
) -> tuple[dict[str, Any], int] | None:
    """The same of the first line of a journal, its end included."""
    if not head.endswith(b"\n"):
        if len(head) < longest_bytes:
            return None
        raise BadDataError(f"{path} is no journal of {of}: its header has no end.")
    stated = json_object(head, f"the header of {path}")
    if stated.get("magic") != magic or len(head) % row_bytes:
        raise BadDataError(f"{path} is no journal of {of}: its header is {head[:80]!r}.")
    return stated, len(head)

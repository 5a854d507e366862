"""JSON objects, one on each line, or an array of them with one on each line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.errors import json_value
from harness.history.imports.lines import Place, lines_of


def objects_of(file: Path) -> Iterator[tuple[Place, Any]]:
    """The value of each line, with its place. Raises BadDataError for a line that is not JSON."""
    place = Place(file)
    for line in lines_of(place):
        text = line.strip().removesuffix(",")
        if text not in ("", "[", "]"):
            yield place, json_value(text, place, "is this a file with a JSON object on each line?")

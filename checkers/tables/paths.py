"""Paths and URIs alike: what lies where, as text, without ever taking a URI apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs

from checkers.tables.source import file_system
from harness.errors import BadDataError


def is_uri(place: Path | str) -> bool:
    """Whether it names a file system of its own: `hdfs://…`, `file:///…`."""
    return isinstance(place, str) and "://" in place


def inside(place: Path | str, name: str) -> str:
    """A file or folder in a folder."""
    return f"{str(place).rstrip('/')}/{name}"


def exists(place: str) -> bool:
    """Whether something lies there."""
    system, inner = file_system(place)
    return bool(system.get_file_info(inner).type != pafs.FileType.NotFound)


def is_folder(place: str) -> bool:
    """Whether a folder lies there."""
    system, inner = file_system(place)
    return bool(system.get_file_info(inner).type == pafs.FileType.Directory)


def read_json(place: str) -> dict[str, Any]:
    """A JSON object of a run folder. Raises BadDataError when there is none."""
    if not exists(place):
        raise BadDataError(
            f"{place} cannot be read (No such file or directory); is this the folder of a run?"
        )
    system, inner = file_system(place)
    try:
        with system.open_input_stream(inner) as stream:
            found = json.loads(stream.read())
    except OSError as error:
        raise BadDataError(f"{place} cannot be read ({error}); is this the folder of a run?") from error
    except (ValueError, RecursionError) as error:
        raise BadDataError(f"{place} is not valid JSON ({error}); the run folder is damaged.") from error
    if not isinstance(found, dict):
        raise BadDataError(f"{place} holds no JSON object; the run folder is damaged.")
    return found


def write_text(place: str, text: str) -> None:
    """Write a small file."""
    system, inner = file_system(place)
    with system.open_output_stream(inner) as stream:
        stream.write(text.encode())


def put(source: str, target: str) -> None:
    """Put a folder where another file or folder may lie."""
    system, inner = file_system(target)
    kind = system.get_file_info(inner).type
    if kind == pafs.FileType.Directory:
        system.delete_dir(inner)
    elif kind == pafs.FileType.File:
        system.delete_file(inner)
    system.move(file_system(source)[1], inner)

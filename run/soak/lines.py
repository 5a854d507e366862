"""Journals of lines, read while they are written: the rows of one table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from harness.host_files import HostFiles

SUFFIX = ".jsonl"
_AT_ONCE_BYTES = 1 << 22


class NewRows:
    """The rows of a table that journals have got since they were asked last."""

    def __init__(self, files: Iterable[HostFiles], table: str) -> None:
        """``files`` are those of the hosts, or folders, in which journals lie."""
        self._files = tuple(files)
        self._begin = f'{{"table":"{table}"'.encode()
        self._read_to: dict[tuple[HostFiles, str], int] = {}

    def take(self) -> Iterator[Mapping[str, object]]:
        """The rows of all complete lines that are new, journal by journal. Raises OSError, ValueError."""
        for files in self._files:
            for name in files.names():
                if name.endswith(SUFFIX):
                    yield from self._of(files, name)

    def _of(self, files: HostFiles, name: str) -> Iterator[Mapping[str, object]]:
        while True:
            start = self._read_to.get((files, name), 0)
            lines = files.read(name, start, _AT_ONCE_BYTES)
            end = lines.rfind(b"\n") + 1
            self._read_to[files, name] = start + end
            for line in lines[:end].splitlines():
                if line.startswith(self._begin):
                    yield json.loads(line)
            if not end:
                return

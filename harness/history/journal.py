"""The journal of one process: rows of the history as JSON lines, appended during the run.

Each row is handed to the kernel with one write before the caller goes on, so that a SIGKILL loses at most a
row whose write had not finished. `harness.history.assemble` turns the journals of a run into Parquet.

Messages of streams of load (`harness.history.stream_journal`), records that consumers receive
(`harness.history.read_journal`) and records that are seen on replicas (`harness.history.sightings`) have
journals of their own.

A line is ``{"table": <name>, ...columns}``, with the tables and columns of `harness.history.schema`. A row of
`sends` is written in two steps: a line `sent` before the message leaves, and a line `done` with its outcome;
`writer` and `seq` join them. The `gone_ns` of rows of `sightings` is a line `gone` for a range of offsets.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from types import TracebackType

from harness.clock import now_ns


class Journal:
    """The journal of this process. Thread-safe."""

    def __init__(self, path: Path) -> None:
        """Open ``path`` for appending and create its folder."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._lock = threading.Lock()

    def write(self, table: str, **row: object) -> None:
        """Append one row of ``table``. Columns that are left out are null."""
        self.write_many(table, [row])

    def write_many(self, table: str, rows: list[dict[str, object]]) -> None:
        """Append several rows of ``table`` with one write."""
        text = "".join(json.dumps({"table": table, **row}, separators=(",", ":")) + "\n" for row in rows)
        with self._lock:
            if self._file >= 0:
                os.write(self._file, text.encode())

    def mark(self, name: str, text: str = "", **facts: object) -> int:
        """Append a row of `marks` with the present time, and return that time in ns.

        ``facts`` are what ``text`` says to people, as data.
        """
        at = now_ns()
        stated = {"facts": json.dumps(facts, separators=(",", ":"))} if facts else {}
        self.write("marks", ns=at, name=name, text=text or name, **stated)
        return at

    def close(self) -> None:
        """Close the file. Later writes are ignored, so that a late callback does not fail during shutdown."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

"""Append-only history of one process while the run lasts: JSON lines that survive a kill.

Every row goes to the kernel with one write before the caller goes on, so a SIGKILL loses at most a line
that was never finished. `harness.history.assemble` turns the journals of a run into Parquet.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from types import TracebackType

from harness.clock import now_ns


class Journal:
    """One process's file of rows. Thread-safe."""

    def __init__(self, path: Path) -> None:
        """Open ``path`` for appending and create its folder."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._lock = threading.Lock()

    def write(self, table: str, **row: object) -> None:
        """Append one row of ``table``. Columns that are not given are null."""
        self.write_many(table, [row])

    def write_many(self, table: str, rows: list[dict[str, object]]) -> None:
        """Append several rows of ``table`` with one write."""
        text = "".join(json.dumps({"table": table, **row}, separators=(",", ":")) + "\n" for row in rows)
        with self._lock:
            if self._file >= 0:
                os.write(self._file, text.encode())

    def mark(self, name: str, text: str = "") -> int:
        """Append a narrative mark now, and return its time in ns."""
        at = now_ns()
        self.write("marks", ns=at, name=name, text=text or name)
        return at

    def close(self) -> None:
        """Close the file; later writes are ignored (a late callback must not crash a tear-down)."""
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

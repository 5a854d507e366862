"""The checksums of a folder of jars, with file sizes and times that make most checks cheap."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SUMS = "SHA256SUMS"
_STAMP = "stamp.json"


@dataclass(frozen=True)
class Checksums:
    """SHA-256 by file name, as recorded when the folder was created."""

    sums: Mapping[str, str]

    @classmethod
    def of(cls, folder: Path) -> Checksums:
        """The manifest of a folder of jars."""
        return cls({jar.name: sha256(jar) for jar in sorted(folder.glob("*.jar"))})

    @classmethod
    def read(cls, root: Path) -> Checksums | None:
        """The manifest stored in ``root``; None if there is none or it is malformed."""
        try:
            lines = (root / SUMS).read_text().splitlines()
        except (OSError, UnicodeDecodeError):
            return None
        sums = {}
        for line in lines:
            digest, _, name = line.partition("  ")
            if len(digest) != 64 or not name.startswith("lib/"):
                return None
            sums[name.removeprefix("lib/")] = digest
        return cls(sums) if sums else None

    def write(self, root: Path) -> None:
        """Store the manifest, in the format of `sha256sum --check`."""
        (root / SUMS).write_text("".join(f"{digest}  lib/{name}\n" for name, digest in self.sums.items()))
        self._stamp(root)

    def damaged(self, root: Path) -> tuple[str, ...]:
        """Names of the jars that are missing or differ from their checksums.

        Hashes only files whose size or time has changed since the last check.
        """
        seen = _read_stamp(root)
        bad, fresh = [], False
        for name, digest in self.sums.items():
            jar = root / "lib" / name
            mark = _mark(jar)
            if mark is not None and seen.get(name) == mark:
                continue
            fresh = True
            if mark is None or sha256(jar) != digest:
                bad.append(name)
        if fresh and not bad:
            with contextlib.suppress(OSError):  # a read-only cache is good too
                self._stamp(root)
        return tuple(bad)

    def _stamp(self, root: Path) -> None:
        marks = {name: _mark(root / "lib" / name) for name in self.sums}
        new = root / f"{_STAMP}.new"
        new.write_text(json.dumps(marks))
        new.replace(root / _STAMP)


def sha256(path: Path) -> str:
    """Hexadecimal SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _mark(path: Path) -> list[int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns]


def _read_stamp(root: Path) -> dict[str, list[int]]:
    try:
        stored = json.loads((root / _STAMP).read_text())
    except (OSError, ValueError):
        return {}
    return stored if isinstance(stored, dict) else {}

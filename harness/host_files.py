"""The files of a host, by their paths below one of its folders.

Everything that reads or writes files of a host does so through `HostFiles`, which its lab provides: they need
not lie on the machine of the harness.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self


class HostFiles(Protocol):
    """Files below one folder of a host. Paths are relative, with `/` between their parts."""

    def below(self, folder: str) -> Self:
        """The files below one of its folders, which need not exist."""

    def names(self) -> list[str]:
        """Names of the files and folders in it, in order; none if it does not exist."""

    def size(self, path: str) -> int | None:
        """Bytes of a file; None if there is none."""

    def read(self, path: str, start: int = 0, at_most: int = -1) -> bytes:
        """A file's content from a position on, up to a number of bytes (-1: all). Raises OSError."""

    def write(self, path: str, content: bytes, *, private: bool = False) -> None:
        """Create or replace a file, and the folders above it. Raises OSError.

        Only its owner may read a private one.
        """

    def put(self, file: Path, path: str) -> None:
        """Copy a file of this machine to the host, with its permissions. Raises OSError."""

    def take(self, path: str, file: Path) -> None:
        """Move a file of the host to this machine. Raises OSError."""


@dataclass(frozen=True)
class Folder:
    """Files of a host that lie in a folder of this machine; satisfies `HostFiles`."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def below(self, folder: str) -> Folder:
        """The files below one of its folders."""
        return Folder(self.path / folder)

    def names(self) -> list[str]:
        """Names in the folder, in order; none if it does not exist."""
        try:
            return sorted(entry.name for entry in self.path.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def size(self, path: str) -> int | None:
        """Bytes of a file; None if there is none."""
        try:
            return (self.path / path).stat().st_size
        except FileNotFoundError:
            return None

    def read(self, path: str, start: int = 0, at_most: int = -1) -> bytes:
        """A file's content from a position on."""
        with (self.path / path).open("rb") as file:
            file.seek(start)
            return file.read(at_most)

    def write(self, path: str, content: bytes, *, private: bool = False) -> None:
        """Create or replace a file, and the folders above it."""
        file = self.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if private:
            file.touch(mode=0o600)
            file.chmod(0o600)  # it may have been there before
        file.write_bytes(content)

    def put(self, file: Path, path: str) -> None:
        """Copy a file into the folder."""
        shutil.copy(file, self.path / path)

    def take(self, path: str, file: Path) -> None:
        """Move a file out of the folder, which may be a file system of its own."""
        shutil.move(self.path / path, file)


def text_of_file(files: HostFiles, path: str) -> str:
    """A text file, whatever bytes are in it. Raises OSError."""
    return files.read(path).decode(errors="replace")


def tail(files: HostFiles, path: str, lines: int = 15) -> str:
    """The last lines of a log, or a note that it does not exist."""
    try:
        text: Sequence[str] = text_of_file(files, path).splitlines()
    except FileNotFoundError:
        return f"({path} was never written)"
    return "\n".join(text[-lines:])


FilesOf = Callable[[str], HostFiles]
"""The files of a host, by its name."""

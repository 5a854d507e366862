"""Files of run folders, which may come from anybody: only plain files are read, no link is written through.

A FIFO never ends, a device is never full, and a link in the place of a result lets a folder choose
what a command overwrites. `require_plain` is asked before a folder is read, `write_plain` writes into one,
and `write_output` writes a file that the user names.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TextIO

from harness.errors import BadDataError, UsageError, quoted

_FOLDERS = ("history", "journal", "nodes")
_FILES = (".json", ".jsonl", ".py", ".html")
_TABLE = ".parquet"
RESULTS = (
    "life.parquet",
    "findings.parquet",
    "transaction_fates.parquet",
    "transaction_records.parquet",
    "isolation_anomalies.parquet",
    "judgement.json",
    "run.json",
    "runs.jsonl",
    "schedules.jsonl",
    "tests.jsonl",
    "report.html",
    "latency.hlog",
    "index.html",
)
"""What commands write into a folder that exists; none of it may be a link."""


def require_plain(folder: Path | str) -> None:
    """Raise BadDataError, naming it, for an entry of a run folder that is no plain file or folder.

    ``folder`` is a run folder, a series, or one of tables. What it does not hold is not missed here.
    """
    place = Path(folder)
    for entry in _entries(place):
        if entry.name in RESULTS and entry.is_symlink():
            raise BadDataError(
                f"{_shown(entry)} is a link, and a result would be written through it; remove the link."
            )
        if entry.name in _FOLDERS:
            _require(entry, stat.S_ISDIR)
        elif entry.name.endswith(_FILES):
            _require(entry, stat.S_ISREG)
        elif entry.name.endswith(_TABLE):
            _require_table(entry)
    history = place / "history"
    if history.is_dir():
        for entry in _entries(history):
            if entry.name.endswith(_TABLE):
                _require_table(entry)


def require_file(file: Path, remedy: str = "remove it") -> None:
    """Raise BadDataError for something in the place of a file that is none; it may be missing."""
    if file.is_symlink() or file.exists():
        _require(file, stat.S_ISREG, remedy)


def folders_with(name: str, folder: Path) -> list[Path]:
    """The folders at or below ``folder`` that have a file of this name, in order; links are not followed.

    Folders that vanish meanwhile, or may not be read, are left out.
    """
    return sorted(Path(place) for place, _, files in os.walk(folder) if name in files)


def _require_table(entry: os.DirEntry[str] | Path) -> None:
    """A table is a file, or a folder of files."""
    if stat.S_ISDIR(_mode(entry)):
        for part in _entries(Path(entry)):
            if part.name.endswith(_TABLE):
                _require(part, stat.S_ISREG)
    else:
        _require(entry, stat.S_ISREG)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """The entries of a folder by name; of what is no folder, none."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise BadDataError(f"{_shown(folder)} cannot be read ({error.strerror}).") from None


def _require(entry: os.DirEntry[str] | Path, fits: object, remedy: str = "remove it") -> None:
    mode = _mode(entry, remedy)
    if fits is stat.S_ISREG and not stat.S_ISREG(mode):
        raise BadDataError(f"{_shown(entry)} is {_kind(mode)}, but must be a file; {remedy}.")
    if fits is stat.S_ISDIR and not stat.S_ISDIR(mode):
        raise BadDataError(f"{_shown(entry)} is {_kind(mode)}, but must be a folder; remove it.")


def _mode(entry: os.DirEntry[str] | Path, remedy: str = "remove it") -> int:
    """The mode of what an entry leads to. Raises BadDataError for a link that leads nowhere."""
    try:
        return entry.stat().st_mode
    except OSError as error:
        nowhere = error.errno in (errno.ENOENT, errno.ELOOP)
        what = "is a link that leads nowhere" if nowhere else f"cannot be read ({error.strerror})"
        raise BadDataError(f"{_shown(entry)} {what}; {remedy}.") from None


_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFREG: "a file",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def _kind(mode: int) -> str:
    return _KINDS.get(stat.S_IFMT(mode), "no file")


def _shown(entry: os.DirEntry[str] | Path) -> str:
    """The end of a path, by which it is recognised."""
    text = os.fspath(entry)
    return text if len(text) <= 160 else f"…{text[-160:]}"


def write_plain(file: Path, content: str | bytes) -> None:
    """Write a file of a run folder atomically: a reader sees the old or the new content, also after a kill.

    A link in its place is replaced, not followed.

    Raises BadDataError when something that is no file is in its place, OSError when it cannot be written.
    """
    with suppress(FileNotFoundError):
        mode = file.lstat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
            raise BadDataError(
                f"{_shown(file)} is {_kind(mode)}, and a file must be written there; remove it."
            )
    with _beside(file) as fresh:
        fresh.write(content if isinstance(content, bytes) else content.encode())


@contextmanager
def _beside(file: Path) -> Iterator[BinaryIO]:
    """A new file in the same folder, which takes the name of ``file`` in the end."""
    descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", suffix=".new", dir=file.parent)
    fresh = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as opened:
            yield opened
        umask = os.umask(0)
        os.umask(umask)
        fresh.chmod(0o666 & ~umask)
        fresh.replace(file)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def write_output(file: Path, text: str, option: str) -> None:
    """Write a text to the file that the user names with ``option``. Raises UsageError."""
    try:
        with output_file(file, option) as opened:
            opened.write(text)
    except OSError as error:
        raise UsageError(
            f"{option} {quoted(str(file), 160)} cannot be written ({error.strerror}); name another file."
        ) from None


@contextmanager
def output_file(file: Path, option: str) -> Iterator[TextIO]:
    """The file that the user names with ``option``, opened for writing. Raises UsageError, OSError.

    The standard output may be named (`/dev/stdout`), a FIFO or a folder may not.
    """
    with suppress(FileNotFoundError):
        mode = file.stat().st_mode
        inherited = str(file).startswith(("/dev/", "/proc/self/fd/"))
        if not (stat.S_ISREG(mode) or inherited):
            raise UsageError(f"{option} {quoted(str(file), 160)} is {_kind(mode)}; name a file.")
    with file.open("w", encoding="utf-8", newline="\n") as opened:
        yield opened

"""Spark's class-data archive: stores the classes that a judgement loads, which halves a session's start.

    python -m checkers.spark.class_data        # makes it if it is missing

`acked run` makes it after the first run, in a process of its own. An archive fits one Java and one
installation of PySpark; Java ignores one that does not fit.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from checkers.spark.session import archive_path, cache_dir, java_flags, start_session
from checkers.spark.warm import warm_up
from harness.errors import AckedError

END_WITHIN_S = 120.0


def needed(cache: Path) -> bool:
    """Whether there is no archive, and making one has not failed before."""
    archive = archive_path(cache)
    return not archive.exists() and not _failed(archive).exists()


def _failed(archive: Path) -> Path:
    return archive.with_suffix(".failed")


def make(cache: Path) -> Path | None:
    """Judge a tiny history and store the loaded classes; returns None, and notes it, if that fails."""
    remove_unfinished(cache)
    archive = archive_path(cache)
    if archive.exists():
        return archive
    flags = java_flags(cache)  # makes the folder
    new = archive.with_suffix(f".{os.getpid()}.new")
    options = {"spark.driver.extraJavaOptions": f"{flags} {shlex.quote(f'-XX:ArchiveClassesAtExit={new}')}"}
    try:
        session = start_session(settings=options)
        warm_up(session)
        gateway = session.sparkContext._gateway  # noqa: SLF001 - nothing public ends the JVM
        assert gateway is not None
        process = gateway.proc
        session.stop()
        gateway.shutdown()
        process.stdin.close()
        process.wait(END_WITHIN_S)
        _installation(archive).write_text(f"{_pyspark()}\n")
        new.rename(archive)
        _failed(archive).unlink(missing_ok=True)
        prune(cache)
    except (OSError, subprocess.TimeoutExpired):
        new.unlink(missing_ok=True)
        with suppress(OSError):
            _failed(archive).touch()
        return None
    return archive


def prune(cache: Path) -> None:
    """Remove archives (some 180 MB each) whose PySpark installation or maker no longer exists."""
    for archive in cache.glob("classes-*.jsa"):
        of = _installation(archive)
        if not of.exists() or not Path(of.read_text().strip()).exists():
            archive.unlink(missing_ok=True)
            of.unlink(missing_ok=True)
    remove_unfinished(cache)


def remove_unfinished(cache: Path, *, dry_run: bool = False) -> list[Path]:
    """Remove archives that processes which have ended did not finish; returns them."""
    removed = [
        file
        for file in sorted(cache.glob("classes-*.new"))
        if not Path("/proc", file.suffixes[-2][1:]).exists()
    ]
    for file in () if dry_run else removed:
        file.unlink(missing_ok=True)
    return removed


def _installation(archive: Path) -> Path:
    """The file that says which PySpark an archive is for."""
    return archive.with_suffix(".for")


def _pyspark() -> str:
    import pyspark

    return str(pyspark.__file__)


def main() -> int:
    """Make the archive; a failure is reported but is not an error, because Spark only starts more slowly."""
    try:
        made = make(cache_dir())
    except AckedError as error:
        sys.stderr.write(f"{error.message}\n")
        return error.exit_code
    if made is None:
        sys.stderr.write("Spark's class-data archive could not be made, so Spark starts more slowly.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Temporary folders of commands. A command that is killed leaves its folder; the next one removes it."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

PREFIX = "acked-scratch-"


@contextmanager
def temporary_folder() -> Iterator[None]:
    """Put all temporary files of this process and of Spark into a `scratch_folder`.

    A JVM that is killed does not remove its files, nor does a process that is killed itself. The folder stays
    until this process exits: a thread that starts Spark's JVM waits in it for the JVM's answer, also after an
    interruption, and Python waits for that thread before it calls what is registered.
    """
    before = tempfile.tempdir
    stack = ExitStack()
    with suppress(OSError):  # no place for it: what needs temporary files will say so
        tempfile.tempdir = str(stack.enter_context(scratch_folder()))
    atexit.register(stack.close)
    try:
        yield
    finally:
        tempfile.tempdir = before


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A temporary folder that is removed at the end; folders of dead processes are removed first.

    Its owner holds a lock on the folder, and so do the owner's forks: while one of them lives, the folder
    stays.
    """
    parent = Path(tempfile.gettempdir())
    _sweep(parent)
    folder, lock = _locked(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _locked(parent: Path) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:  # another run has swept it away before it was locked
            continue
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            return folder, lock
        os.close(lock)


def _sweep(parent: Path) -> None:
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):  # in use, somebody else's, or gone already
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
            finally:
                os.close(lock)

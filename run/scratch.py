"""Temporary folders of commands. A command that is killed leaves its folder; the next one removes it."""

from __future__ import annotations

import atexit
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from harness.held_folders import held_folder

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
    """A temporary folder that is removed at the end; folders of dead processes are removed first."""
    with held_folder(Path(tempfile.gettempdir()), PREFIX, 0o700) as folder:
        yield folder

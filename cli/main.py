"""The entry point of `acked`: its signals and its exit codes, before anything large is imported.

Importing the commands takes up to some seconds on a busy machine. A signal that arrives meanwhile ends the
process at once, because nothing has been started; later it is raised as KeyboardInterrupt.
"""

from __future__ import annotations

import atexit
import errno
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from harness.errors import (
    EXIT_AS_DECLARED,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    INTERRUPTED,
    AckedError,
    StoppedError,
    UnfitError,
    UsageError,
    crashed,
)

_NO_NAME = (errno.ENAMETOOLONG, errno.ELOOP)
SignalAction = Callable[[int, FrameType | None], object] | signal.Handlers

_interrupts: list[int] = []
"""Signals that have interrupted the command. Not an Event, whose lock could deadlock in a signal handler."""


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    os.write(2, f"acked: {INTERRUPTED}\n".encode())
    os._exit(EXIT_INTERRUPTED)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    _interrupts.append(number)
    if "logging" in sys.modules:
        sys.modules["logging"].disable()  # py4j would log a traceback of the interruption
    raise KeyboardInterrupt


def _leave_at_last() -> None:
    """Keep Python from ending by SIGINT, as it does if a C library ran the code that was interrupted."""
    if _interrupts:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(EXIT_INTERRUPTED)


atexit.register(_leave_at_last)  # the first that is registered runs last


def _handle(action: SignalAction) -> None:
    # A shell has SIGINT ignored for what it runs in the background, and `nohup` SIGHUP.
    signal.signal(signal.SIGTERM, action)
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, action)


def main() -> NoReturn:
    """Run the command line and leave with the exit code of `harness.errors`."""
    _handle(_leave)
    # Child processes must not look for modules in the current folder: a scenario there may have the name of
    # a package.
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    try:
        from cli import commands

        _handle(_interrupt)
        status = commands.carry_out()
        sys.stdout.flush()
        if status == EXIT_INTERRUPTED:  # Typer and processes in namespaces report nothing else
            raise StoppedError(INTERRUPTED)
    except BaseException as error:  # noqa: BLE001 - the last frame: every failure has its exit code and sentence
        _handle(signal.SIG_IGN)
        status = _reported(error)
    # The outcome stands. What still ends, such as the start of Spark's JVM, must not end in a traceback.
    _handle(signal.SIG_IGN)
    sys.exit(status)


def _reported(error: BaseException) -> int:
    """Show in one sentence what ended the command; returns the exit code."""
    # Typer and Rich exit when whoever read the output has gone.
    cause = error.__context__ if isinstance(error, SystemExit) else error
    if isinstance(cause, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_INTERRUPTED
    if isinstance(error, SystemExit) and not error.code:
        return EXIT_AS_DECLARED
    from typer.exceptions import TyperException

    if isinstance(error, TyperException) and not str(error):  # an empty command line: the help has been shown
        return EXIT_USAGE
    from report.terminal import show_error

    told = _as_told(error)
    show_error(told)
    return told.exit_code


def _as_told(error: BaseException) -> AckedError:
    from typer.exceptions import TyperException

    if isinstance(error, StoppedError):
        return error
    if _interrupts or isinstance(error, KeyboardInterrupt):
        return StoppedError(INTERRUPTED)  # py4j replaces the interruption with an error of its own
    if isinstance(error, AckedError):
        return error
    if isinstance(error, TyperException):
        return UsageError(error.format_message())
    if isinstance(error, OSError) and error.errno in _NO_NAME:
        return UsageError(
            f"{error.filename} is no name for a file or folder: {error.strerror}; name another."
        )
    if isinstance(error, ModuleNotFoundError):
        from harness.extras import lacks

        command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
        if sentence := lacks(error.name or "", command):
            return UnfitError(sentence)
    return crashed(error)


if __name__ == "__main__":
    main()

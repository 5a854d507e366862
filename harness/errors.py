"""One class per cause of failure, each with the exit code of the command line.

An error message is one sentence that says what was wrong, the value, where, and what to do about it.
"""

from __future__ import annotations

EXIT_AS_DECLARED = 0
EXIT_VIOLATED = 1
EXIT_UNKNOWN = 2
EXIT_UNFIT = 3
EXIT_BAD_DATA = 4
EXIT_INTERRUPTED = 130
EXIT_USAGE = 254
EXIT_CRASHED = 255


class AckedError(Exception):
    """Base of every failure that is reported as one sentence instead of a traceback."""

    exit_code = EXIT_CRASHED

    def __init__(self, message: str, *, detail: str = "") -> None:
        """``message`` is the sentence; ``detail`` is shown below it (for example the tail of a log)."""
        super().__init__(message)
        self.message = message
        self.detail = detail


class UsageError(AckedError):
    """A name, flag or scenario that cannot be meant: nothing was started."""

    exit_code = EXIT_USAGE


class UnfitError(AckedError):
    """This machine lacks something the request needs (Java, iptables, user namespaces, a qdisc)."""

    exit_code = EXIT_UNFIT


class BadDataError(AckedError):
    """A stored history, run folder or Parquet file is damaged or does not follow the schema."""

    exit_code = EXIT_BAD_DATA


class InvalidRunError(AckedError):
    """A precondition did not hold or a fault did not bite: the run proves nothing."""

    exit_code = EXIT_UNKNOWN


class StoppedError(AckedError):
    """Whoever started it has ended it early (Ctrl-C, SIGTERM)."""

    exit_code = EXIT_INTERRUPTED


class WaitTimeoutError(AckedError):
    """An awaited condition did not come true before its deadline; shows the last observation."""


class ProcessDiedError(AckedError):
    """A process of the cluster ended by itself; the detail holds the tail of its log."""


class LabError(AckedError):
    """The lab itself could not do what it was told (a command in a host failed)."""

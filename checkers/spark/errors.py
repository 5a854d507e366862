"""Errors inside Spark, in one sentence, without Java's stack frames."""

from __future__ import annotations

import re
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from harness.errors import AckedError, UnfitError

_LONGEST = 300
_CAUSED_BY = "Caused by: "
_FRAME = re.compile(r"\s*(at [\w.$/@-]+\(|\.\.\. \d+ more|== SQL|-+\^+)")
_CALL = re.compile(r"^An error occurred while calling [^\n]*\n: ")
_PYTHON_ERROR = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception): ")
"""The end of a worker's traceback."""
_ERROR_CLASS = re.compile(r"^(?:[\w.$]+(?:Exception|Error): )?(?:\[[A-Z0-9_.]+\]\s*)?")


def reason(error: BaseException) -> str:
    """The first sentence of Spark's message, without its error class, position and stack frames."""
    text = _CALL.sub("", str(error)).split("SQLSTATE")[0]
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _FRAME.match(line)]
    first = _ERROR_CLASS.sub("", lines[0]) if lines else type(error).__name__
    sentence = re.split(r"(?<=[.!?])\s", first)[0].strip()[:_LONGEST]
    return sentence if sentence.endswith((".", "!", "?")) else sentence + "."


_FEWEST_FILES = 1024
"""Spark's jars alone are more than 250 files, and Java fails in many ways if it cannot open one."""
_REMEDIES: tuple[tuple[str, str], ...] = (
    (r"Too many open files", "this shell allows too few open files: `ulimit -n 4096` allows more"),
    (r"UnsupportedClassVersionError", "its Java is too old: install Java 17, or set JAVA_HOME to one"),
    (
        r"java: (?:not found|command not found|No such file)|JAVA_HOME is not set",
        "there is no `java`: install Java 17, or set JAVA_HOME",
    ),
    (
        r"Cannot allocate memory|Could not reserve enough space|insufficient memory|OutOfMemory",
        "it needs 2 GB of memory: end other programs",
    ),
    (
        r"No space left on device",
        "its folder for temporary files is full: make room, or set TMPDIR to another one",
    ),
)
"""What the JVM, or the shell that starts it, prints, and what to do."""


def no_session(status: int | None, said: str) -> UnfitError:
    """The error for a JVM that has ended: how, if that is known, and what it has printed."""
    lines = [line.strip() for line in said.splitlines() if line.strip() and not _FRAME.match(line)]
    how = f" ({signal.Signals(-status).name})" if status is not None and status < 0 else ""
    remedy = _remedy(said, lines[-1] if lines else "")
    return UnfitError(f"Spark's JVM has ended{how}: {remedy}.", detail="\n".join(lines[-8:]))


def _remedy(said: str, last: str) -> str:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= files < _FEWEST_FILES:
        return f"this shell allows only {files} open files, and `ulimit -n 4096` allows more"
    for pattern, remedy in _REMEDIES:
        if re.search(pattern, said):
            return remedy
    if last:
        return f"it says: {last[:_LONGEST].rstrip('.')}"
    return "something ended it, such as a person, or the system for lack of memory; try again"


def spark_errors() -> tuple[type[Exception], ...]:
    """The exceptions that a Spark call raises: PySpark's own, and those of Java that it does not know."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return PySparkException, Py4JError


@contextmanager
def spark_errors_as_sentences(doing: str) -> Iterator[None]:
    """Raise AckedError for an error inside Spark: ``doing`` ("judging runs/x") and its innermost cause."""
    try:
        yield
    except spark_errors() as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        causes = [line.removeprefix(_CAUSED_BY) for line in lines if line.startswith(_CAUSED_BY)]
        causes += [line for line in lines if _PYTHON_ERROR.match(line)]
        cause = causes[-1][:_LONGEST] if causes else reason(error)
        detail = "\n".join(line for line in lines[:8] if not _FRAME.match(line))
        raise AckedError(f"Spark failed while {doing}: {cause}", detail=detail) from error

"""Errors inside Spark, in one sentence, without Java's stack frames."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from harness.errors import AckedError

_LONGEST = 300
_CAUSED_BY = "Caused by: "
_FRAME = re.compile(r"\s*(at [\w.$]+\(|\.\.\. \d+ more|== SQL|-+\^+)")
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

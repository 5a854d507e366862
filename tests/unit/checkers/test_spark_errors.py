"""Errors of Spark in one sentence; the texts are what Spark said."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from checkers.spark.errors import reason, spark_errors_as_sentences
from harness.errors import AckedError

WORKER = """
  An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "./acked.zip/checkers/judging/tasks.py", line 14, in <module>
    import numpy as np
ModuleNotFoundError: No module named 'numpy'

"""
CAUSED = """An error occurred while calling o274.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 41.0 failed 1 times
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2)
Caused by: java.io.IOException: No space left on device
\t... 21 more
"""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "[PARSE_SYNTAX_ERROR] Syntax error at or near 'life': extra input 'life'. SQLSTATE: 42601",
            "Syntax error at or near 'life': extra input 'life'.",
        ),
        (
            "An error occurred while calling o1.sql.\n: org.apache.spark.SparkException: "
            "[SCALAR_SUBQUERY_TOO_MANY_ROWS] More than one row returned. SQLSTATE: 21\n== SQL ==\n\tat a.b(",
            "More than one row returned.",
        ),
        ("", "PySparkException."),
    ],
)
def test_the_reason_is_the_first_sentence(text: str, says: str) -> None:
    assert reason(PySparkException(text)) == says


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (WORKER, "judging x: ModuleNotFoundError: No module named 'numpy'"),
        (CAUSED, "judging x: java.io.IOException: No space left on device"),
    ],
)
def test_the_cause_is_named(text: str, says: str) -> None:
    with pytest.raises(AckedError) as caught, spark_errors_as_sentences("judging x"):
        raise PySparkException(text)
    assert caught.value.message == f"Spark failed while {says}"
    assert "at org." not in caught.value.detail

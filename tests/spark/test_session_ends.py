"""A JVM that ends while a command goes on: another one can be started in its place."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import os, signal
from py4j.protocol import Py4JError
from pyspark import SparkContext
from checkers.spark.session import forget_session, session_ended, start_session

def counted(session):
    return session.range(7).count()

def by_python(session):
    return session.sparkContext.parallelize([7], 1).map(lambda one: one).sum()

session = start_session()
first = by_python(session)
jvm = SparkContext._gateway.proc
forget_session()
jvm.wait(20)
session = start_session()
counted(session)
os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
SparkContext._gateway.proc.wait(20)
try:
    failed = str(counted(session))
except (Py4JError, OSError) as error:
    failed = "failed"
ended = session_ended()
forget_session()
print(first, failed, ended, counted(start_session()))
"""


@pytest.mark.long
def test_another_jvm_takes_the_place_of_one_that_was_killed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=180, check=False
    )
    assert done.stdout.split() == ["7", "failed", "True", "7"], done.stderr[-2000:]
    assert "EOFError" not in done.stderr, "the end of the first JVM is shown to the user"

"""Judges on a Spark cluster: ships the project to it, and puts scratch files where its workers can read them.

The workers need Python with the project's dependencies (pyarrow, numpy), and the run folder under the same
path or URI as the driver. They read nothing else of this machine.
"""

from __future__ import annotations

import os
import re
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import checkers
from checkers.spark.session import start_session
from harness.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHIPPED = ("checkers", "harness")
"""`checkers`, and the package below it."""

_HOST_AND_PORT = r"[^\s/:,]+:\d+"
_MASTER = re.compile(
    rf"spark://{_HOST_AND_PORT}(,{_HOST_AND_PORT})*|yarn|k8s://\S+|local|local\[(\d+|\*)(, *\d+)?\]"
)


def pack_project(folder: Path) -> Path:
    """Write `acked.zip`, for `--py-files`: every module that a worker can import."""
    assert checkers.__file__ is not None
    place = Path(checkers.__file__).parents[1]
    target = folder / "acked.zip"
    files = {
        path.relative_to(place).as_posix(): path for name in SHIPPED for path in (place / name).rglob("*.py")
    }
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sorted(files.items()):
            archive.write(path, name)
    return target


@contextmanager
def cluster_session(master: str, *, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """A session on ``master``, with the project shipped to its workers; stopped at the end.

    Under `spark-submit` it joins the submitted session, and `--py-files` ships the project. Raises UsageError
    for a master that Spark does not know, UnfitError when the session does not come up.
    """
    if not _MASTER.fullmatch(master):
        raise UsageError(
            f"{master!r} is not a Spark master; give spark://HOST:PORT, yarn, k8s://URL or local[N]."
        )
    with tempfile.TemporaryDirectory(prefix="acked-ship-") as folder:
        chosen = dict(settings or {})
        if "PYSPARK_GATEWAY_PORT" not in os.environ:
            chosen["spark.submit.pyFiles"] = str(pack_project(Path(folder)))
        session = start_session(master=master, settings=chosen)
        try:
            yield session
        finally:
            session.stop()


@contextmanager
def scratch_beside(run: Path) -> Iterator[None]:
    """Put temporary files into the run folder, which the workers can reach."""
    before, tempfile.tempdir = tempfile.tempdir, str(run.resolve())
    try:
        yield
    finally:
        tempfile.tempdir = before

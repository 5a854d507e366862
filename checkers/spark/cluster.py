"""Judging on a cluster instead of here: the project is shipped, scratch lies where workers reach it.

The workers need Python with the project's dependencies (pyarrow, numpy), and the run folder under the same
path or URI as here. Nothing else of this machine is read there.
"""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import checkers
from checkers.spark.session import start_session
from harness.errors import UsageError

SHIPPED = (
    "harness/__init__.py",
    "harness/errors.py",
    "harness/history/__init__.py",
    "harness/history/schema.py",
    "harness/kafka/__init__.py",
    "harness/kafka/model.py",
)
"""What the checkers import besides themselves."""

_MASTERS = ("spark://", "yarn", "k8s://", "local")


def pack_project(folder: Path) -> Path:
    """Write `acked.zip`, all that a worker has to import, in the form of `--py-files`."""
    assert checkers.__file__ is not None
    room = Path(checkers.__file__).parent
    target = folder / "acked.zip"
    files = {path.relative_to(room.parent).as_posix(): path for path in room.rglob("*.py")}
    files |= {name: room.parent / name for name in SHIPPED}
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sorted(files.items()):
            archive.write(path, name)
    return target


@contextmanager
def cluster_session(master: str, *, settings: Mapping[str, str] | None = None) -> Iterator[Any]:
    """A session on ``master``, with the project shipped to its workers; ended at the end.

    Under `spark-submit` the session is the submitted one, and `--py-files` is what ships the project.
    Raises UsageError for a master that Spark does not know, UnfitError when the session does not come up.
    """
    if not master.startswith(_MASTERS):
        raise UsageError(
            f"{master!r} is no Spark master; give spark://HOST:PORT, yarn, k8s://URL or local[N]."
        )
    with tempfile.TemporaryDirectory(prefix="acked-ship-") as folder:
        chosen = dict(settings or {})
        if "PYSPARK_GATEWAY_PORT" not in os.environ:
            chosen["spark.submit.pyFiles"] = str(pack_project(Path(folder)))
        session = start_session(master=master, settings=chosen, warm=False)
        try:
            yield session
        finally:
            session.stop()


@contextmanager
def scratch_beside(run: Path) -> Iterator[None]:
    """Let parts of life and findings be written beside the run, which the workers reach in any case."""
    before, tempfile.tempdir = tempfile.tempdir, str(run.resolve())
    try:
        yield
    finally:
        tempfile.tempdir = before

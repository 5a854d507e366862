"""The process that forks Spark's Python workers: it imports the checker once, before the first fork.

Spark starts it as ``python -m checkers.spark.daemon`` (setting `spark.python.daemon.module`) and puts zip
files with PySpark and Py4J first on the path. Each process compiles modules in a zip file anew, and each task
looks into the file again. The installed packages are the same code.
"""

from __future__ import annotations

import gc
import importlib
import sys
from pathlib import Path

_IMPORTED_BEFORE = ("checkers.judging.worker",)
_BROUGHT = ("pyspark", "python", "lib")


def main() -> None:
    """Serve Spark until it closes standard input."""
    sys.path[:] = without_pyspark_zip(sys.path)
    from pyspark.daemon import manager

    for name in _IMPORTED_BEFORE:
        importlib.import_module(name)
    gc.freeze()  # so that collections in the forks leave these pages shared
    manager()


def without_pyspark_zip(path: list[str]) -> list[str]:
    """The path without the zip files that the installed PySpark brings along: itself and Py4J."""
    return [entry for entry in path if not (entry.endswith(".zip") and Path(entry).parts[-4:-1] == _BROUGHT)]


if __name__ == "__main__":
    main()

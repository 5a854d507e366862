"""Spark's Python workers: forks that have the checker, from the installed packages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from checkers.spark.daemon import without_pyspark_zip


@pytest.mark.spark
def test_workers_have_the_checker_from_the_installed_packages(spark: Any) -> None:
    # Fails without the setting `spark.python.daemon.module`: nothing is loaded, and both files are in a zip.
    def state(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys

        loaded = "checkers.judging.worker" in sys.modules
        import py4j
        import pyspark

        for _ in batches:
            row = {"loaded": loaded, "pyspark": pyspark.__file__, "py4j": py4j.__file__}
            yield pa.RecordBatch.from_pylist([row])

    rows = spark.range(0, 2, 1, 2).mapInArrow(state, "loaded boolean, pyspark string, py4j string").collect()
    assert len(rows) == 2
    for row in rows:
        assert row.loaded
        assert ".zip/" not in row.pyspark
        assert ".zip/" not in row.py4j


def test_only_the_zip_files_that_pyspark_brings_along_leave_the_path() -> None:
    lib = "/v/lib/python3.11/site-packages/pyspark/python/lib"
    kept = [
        "/work",
        "/v/mine.zip",
        "/v/lib/python3.11/site-packages",
        f"{lib}/notes",
        "/spark/lib/pyspark.zip",
    ]
    brought = [f"{lib}/pyspark.zip", f"{lib}/py4j-0.10.9.9-src.zip"]
    assert without_pyspark_zip([*brought, *kept]) == kept

"""Parquet files as DataFrames and DataFrames as Parquet files, wherever they lie.

Spark reads files at paths itself. Files elsewhere are read, and all files are written, by its Python workers
through `checkers.tables.files`: Spark needs no jars of a file system, and nothing passes through the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.tables.files import file_system, inside, local_path, make_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Reader = Callable[[str], Iterator[pa.Table]]
"""The rows of a file, part by part; it runs in workers."""


def by_workers(session: SparkSession, paths: Sequence[str], read: Reader, ddl: str) -> DataFrame:
    """What ``read`` makes of each file, a task for each; ``ddl`` are its columns."""
    places = list(paths)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for table in read(places[number]):
                    yield from table.to_batches()

    return session.range(0, len(places), 1, len(places)).mapInArrow(work, ddl)


def are_local(paths: Sequence[str]) -> bool:
    """Whether Spark can read these files itself."""
    return all(local_path(path) is not None for path in paths)


def write_frame(frame: DataFrame, folder: str, schema: pa.Schema) -> None:
    """Write a DataFrame to a folder, a file for each of its partitions that has rows."""
    make_folder(folder)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        writer = None
        for batch in batches:
            if writer is None:
                system, inner = file_system(inside(folder, f"part-{context.partitionId():06}.parquet"))
                writer = pq.ParquetWriter(inner, schema, filesystem=system)
            writer.write_table(pa.Table.from_batches([batch]).cast(schema))
        if writer is not None:
            writer.close()
        yield from ()

    frame.mapInArrow(work, "done boolean").collect()

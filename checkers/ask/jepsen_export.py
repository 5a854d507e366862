"""A history in the form that checkers of Jepsen's Kafka workload read: invocations and completions.

Every send is one operation (`:f :send`, value `[[:send key value]]`, completed with the offset), every poll
of a reader one (`:f :poll`, value `[[:poll {key [[offset value] ...]}]]`), and at the end one more process is
assigned every partition from its beginning and polls the leader's final log. Spark sorts, on disk where it
must; what is held in memory here does not grow with the history.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pyarrow.parquet as pq

from checkers.ask.jepsen_operations import Exported, Op, edn, operations
from checkers.ask.sql import history_of
from checkers.spark.views import table_frame
from checkers.tables.source import Source, open_source, partitions
from harness.errors import UsageError

WRITER_STEP = 10**12
"""A message's value is `writer * WRITER_STEP + seq`: one integer, unique in the run."""

POLL_RECORDS = 1000
"""A poll of the final log, or one that recorded no end, returns at most so many records."""


def export(session: Any, run_dir: Path | str, target: Path, *, final_log: bool = True) -> Exported:
    """Write the history of a run (or of an imported folder) to a `.edn` or `.json` file.

    Raises UsageError when the file has another ending or cannot be written, BadDataError for a bad history.
    """
    form = target.suffix.removeprefix(".")
    if form not in ("edn", "json"):
        raise UsageError(f"{target} ends in {target.suffix or 'nothing'!r}; exports are .edn or .json files.")
    source = open_source(history_of(Path(run_dir)))
    keys = {holds: number for number, holds in enumerate(sorted(partitions(source)))}
    done = Exported(keys={f"{topic}/{partition}": key for (topic, partition), key in keys.items()})
    with tempfile.TemporaryDirectory(prefix="acked-export-") as scratch:
        sorted_events = Path(scratch) / "events"
        _events(session, source, keys, done.keys, final_log).write.parquet(str(sorted_events))
        try:
            with target.open("w", encoding="utf-8") as out:
                _write(operations(_rows(sorted_events), done), out, form, done)
        except OSError as error:
            raise UsageError(f"{target} cannot be written: {error.strerror}.") from error
    return done


def _events(session: Any, source: Source, keys: dict[Any, int], names: dict[str, int], final: bool) -> Any:
    """All events, sorted by time: `sent`, `done`, `poll`, and the polls of the final log."""
    rows = [(topic, partition, key) for (topic, partition), key in keys.items()]
    session.createDataFrame(rows, "topic string, partition int, key int").createOrReplaceTempView("x_keys")
    for name in ("sends", "reads", "copies", "replicas"):
        table_frame(session, source, name).createOrReplaceTempView(f"x_{name}")
    value = f"writer * {WRITER_STEP} + seq"
    session.sql(f"""
        SELECT k.key, writer, sent_ns, coalesce(done_ns, sent_ns) AS done_ns, {value} AS value, offset, error,
               CASE WHEN done_ns IS NULL THEN 'info' ELSE coalesce(outcome, 'info') END AS type,
               done_ns IS NULL AS open
        FROM x_sends s JOIN x_keys k ON s.topic = k.topic AND s.partition = k.partition
    """).createOrReplaceTempView("x_ops")
    session.sql(f"""
        SELECT k.key, reader, ns, offset, {value} AS value,
               coalesce(poll, 0) AS poll, CASE WHEN poll IS NULL THEN 1 ELSE {POLL_RECORDS} END AS size,
               row_number() OVER (PARTITION BY reader, poll ORDER BY ns, k.key, offset) - 1 AS nth
        FROM x_reads r JOIN x_keys k ON r.topic = k.topic AND r.partition = k.partition
    """).createOrReplaceTempView("x_polled")
    session.sql(f"""
        SELECT k.key, c.offset, {value} AS value, floor(c.offset / {POLL_RECORDS}) AS chunk
        FROM x_copies c JOIN x_keys k ON c.topic = k.topic AND c.partition = k.partition
        JOIN ({_REFERENCE}) r ON c.topic = r.topic AND c.partition = r.partition AND c.broker = r.broker
        WHERE coalesce(c.control, false) = false
    """).createOrReplaceTempView("x_final")
    texts = [_SENT, _DONE, _POLLS]
    if final and names:
        texts += [f"SELECT {_END} AS ns, 4 AS rank, 0 AS tie, 'assign' AS what, {_NONE}", _FINAL]
    return session.sql(" UNION ALL ".join(texts)).orderBy("ns", "rank", "tie", "writer", "value")


_NONE = (
    "cast(null AS int) AS key, cast(null AS bigint) AS value, cast(null AS bigint) AS offset, "
    "cast(null AS int) AS error, cast(null AS int) AS writer, cast(null AS string) AS type, "
    "cast(null AS array<struct<key:int,offset:bigint,value:bigint>>) AS records"
)
_ITEMS = (
    "transform(array_sort(collect_list(struct({}, key, offset, value))), "
    "x -> struct(x.key, x.offset, x.value))"
)
_END = (
    "(SELECT greatest(coalesce((SELECT max(greatest(sent_ns, done_ns)) FROM x_ops), 0), "
    "coalesce((SELECT max(ns) FROM x_reads), 0)) + 1)"
)
_REFERENCE = """
    SELECT c.topic, c.partition, max_by(c.broker, struct(coalesce(r.leader, false), c.n, -c.broker)) AS broker
    FROM (SELECT topic, partition, broker, count(*) AS n FROM x_copies GROUP BY topic, partition, broker) c
    LEFT JOIN x_replicas r ON c.topic = r.topic AND c.partition = r.partition AND c.broker = r.broker
    GROUP BY c.topic, c.partition"""
_SENT = """
    SELECT sent_ns AS ns, 1 AS rank, 0 AS tie, 'sent' AS what, key, value, offset, error, writer, type,
           cast(null AS array<struct<key:int,offset:bigint,value:bigint>>) AS records FROM x_ops"""
_DONE = f"""
    SELECT CASE WHEN open THEN {_END} ELSE greatest(sent_ns, done_ns) END, 2, 0, 'done', key, value, offset,
           error, writer, type, null FROM x_ops"""
_POLLS = f"""
    SELECT max(ns), 3, 0, 'poll', null, null, null, null, reader, null, {_ITEMS.format("nth")}
    FROM x_polled GROUP BY reader, poll, size, floor(nth / size)"""
_FINAL = f"""
    SELECT {_END}, 5, chunk, 'final', null, null, null, null, null, null, {_ITEMS.format("offset AS nth")}
    FROM x_final GROUP BY chunk, key"""


def _rows(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("part-*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(batch_size=4096):
            yield from batch.to_pylist()


def _write(ops: Iterator[Op], out: TextIO, form: str, done: Exported) -> None:
    """EDN: one operation on each line; JSON: an array of them, one on each line."""
    if form == "json":
        out.write("[")
    for op in ops:
        whole = {"index": done.operations, **op}
        if form == "json":
            out.write((",\n" if done.operations else "\n") + json.dumps(whole))
        else:
            out.write(edn(whole) + "\n")
        done.operations += 1
    if form == "json":
        out.write("\n]\n")

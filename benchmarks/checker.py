"""The speed of the checker: makes a history of a known shape, judges it, and reports where the time went.

    python -m benchmarks.checker --messages 10000000 --damage clean --partitions 100

Damage is `clean`, `duplicated` (every third message twice), `lost` (1 %) or `diverged` (1 % of one replica).
With `--transaction 10`, each writer's messages are in committed transactions of ten, each with its marker.
The history is on disk before the clock starts; reading it and writing the findings is measured.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import checkers
from benchmarks.memory import family, pss_mib, sampling
from checkers.evidence import gather
from checkers.judging.plan import judge_all
from checkers.judging.run import run, run_here
from checkers.judging.tasks import JudgingContext
from checkers.judging.transactions import FATES_FILE, conclude
from checkers.spark.session import start_session
from checkers.spark.warm import warm_up
from checkers.tables.source import open_source
from checkers.tables.transactions import PARTS_FOLDER, RECORDS_FOLDER
from harness.history.schema import TABLES

WRITERS = 3
_LOOK_S = 0.2
ROW_GROUP = 1 << 18
CHECKERS = Path(checkers.__file__).parent
DAMAGES = ("clean", "duplicated", "lost", "diverged")


def make_history(folder: Path, messages: int, partitions: int, damage: str, transaction: int = 0) -> None:
    """Write `sends`, `copies` of three replicas, and `replicas`, one file per topic partition.

    With ``transaction``, every writer's messages are in transactions of that many.
    """
    for name in ("sends", "copies"):
        (folder / f"{name}.parquet").mkdir(parents=True)
    rows = []
    for partition in range(partitions):
        count = messages // partitions + (partition < messages % partitions)
        rows += _make_partition(folder, partition, count, damage, transaction)
    pq.write_table(pa.Table.from_pylist(rows, TABLES["replicas"].arrow()), folder / "replicas.parquet")
    if transaction:
        _make_transactions(folder, messages, partitions, transaction)


def _make_transactions(folder: Path, messages: int, partitions: int, size: int) -> None:
    """Three events for each transaction of each writer; the last transaction may still be open."""
    parts = []
    for partition in range(partitions):
        count = messages // partitions + (partition < messages % partitions)
        for place in range(WRITERS):
            sent = (count - place + WRITERS - 1) // WRITERS
            begun, ended = (sent + size - 1) // size, sent // size
            txn = np.arange(begun, dtype=np.int64)
            last = (txn * size + size) * WRITERS * 1000
            for number, event in enumerate(("begin", "committing", "committed")):
                ns = txn * size * WRITERS * 1000 - 1 if event == "begin" else last + number
                writer = partition * WRITERS + place + 1
                rows = begun if event == "begin" else ended
                columns = {"ns": ns[:rows], "writer": writer, "txn": txn[:rows], "event": event}
                parts.append(_table("transactions", rows, **columns))
    pq.write_table(pa.concat_tables(parts), folder / "transactions.parquet", row_group_size=ROW_GROUP)


def _with_markers(table: Any, size: int) -> Any:
    """Records in the order in which transactions end: after each writer's ``size`` messages, a marker."""
    seq = table["seq"].to_numpy()
    ends = np.flatnonzero(seq % size == size - 1)
    kept = table.num_rows
    order = np.argsort(np.concatenate([np.arange(kept), ends + 0.5]), kind="stable")
    both = pa.concat_tables([table, table.take(pa.array(ends))]).take(pa.array(order))
    control = order >= kept
    producer = both["writer"].to_numpy().astype(np.int64)
    columns = {
        "producer_id": pa.array(producer),
        "producer_epoch": pa.repeat(pa.scalar(0, pa.int32()), len(order)),
        "control": pa.array(control),
        "transactional": pa.repeat(True, len(order)),
        "marker": pa.array(np.where(control, "commit", None), pa.string()),
        "coordinator_epoch": pa.array(np.where(control, 0, -1), pa.int32(), mask=~control),
        "writer": pa.array(both["writer"].to_numpy(), mask=control),
        "seq": pa.array(both["seq"].to_numpy(), mask=control),
        "home": pa.array(np.where(control, None, both["home"][0].as_py()), pa.string()),
    }
    for name, values in columns.items():
        both = both.set_column(both.schema.get_field_index(name), name, values)
    return both.cast(TABLES["copies"].arrow())


def _in_transactions(ids: Any, size: int) -> Any:
    """The offset of each message if markers stand between them: how many ended before it."""
    ended = sum((np.maximum(0, ids - place + WRITERS - 1) // WRITERS) // size for place in range(WRITERS))
    return ids + ended


def _make_partition(
    folder: Path, partition: int, count: int, damage: str, transaction: int
) -> list[dict[str, Any]]:
    step = 1 << 20
    name = f"bench-{partition}.parquet"
    with pq.ParquetWriter(folder / "sends.parquet" / name, TABLES["sends"].arrow()) as sends:
        for low in range(0, count, step):
            ids = np.arange(low, min(count, low + step), dtype=np.int64)
            offset = _in_transactions(ids, transaction) if transaction else _offset(ids, damage)
            sends.write_table(_sends(partition, ids, offset, transaction), row_group_size=ROW_GROUP)
    leo = 0
    with pq.ParquetWriter(folder / "copies.parquet" / name, TABLES["copies"].arrow()) as copies:
        for broker in (1, 2, 3):
            for low in range(0, count, step):
                ids = np.arange(low, min(count, low + step), dtype=np.int64)
                table = _copies(partition, broker, ids, damage)
                if transaction:
                    first = int(_in_transactions(ids[:1], transaction)[0])
                    table = _with_markers(table, transaction)
                    numbers = pa.array(np.arange(first, first + table.num_rows, dtype=np.int64))
                    table = table.set_column(table.schema.get_field_index("offset"), "offset", numbers)
                    table = table.cast(TABLES["copies"].arrow())
                leo = int(table["offset"][-1].as_py()) + 1
                copies.write_table(table, row_group_size=ROW_GROUP)
    return [
        {
            "topic": "bench",
            "partition": partition,
            "broker": broker,
            "complete": True,
            "leo": leo,
            "log_start": 0,
            "leader": broker == 1,
            "in_sync": True,
        }
        for broker in (1, 2, 3)
    ]


def _offset(ids: Any, damage: str) -> Any:
    """A duplicate directly follows its message, so that later messages have higher offsets."""
    return ids + (ids + 2) // 3 if damage == "duplicated" else ids


def _who(ids: Any) -> tuple[Any, Any]:
    return (ids % WRITERS + 1).astype(np.int32), ids // WRITERS


def _sends(partition: int, ids: Any, offset: Any, transaction: int) -> Any:
    writer, seq = _who(ids)
    writer = writer + np.int32(partition * WRITERS)
    rows = len(ids)
    return _table(
        "sends",
        rows,
        topic="bench",
        partition=partition,
        writer=writer,
        seq=seq,
        sent_ns=ids * 1000,
        done_ns=ids * 1000 + 500,
        outcome="ok",
        offset=offset,
        attempts=1,
        txn=seq // transaction if transaction else None,
    )


def _copies(partition: int, broker: int, ids: Any, damage: str) -> Any:
    offset = _offset(ids, damage)
    if damage == "lost":
        keep = ids % 100 != 7
        ids, offset = ids[keep], offset[keep]
    if damage == "duplicated":
        twice = np.flatnonzero(ids % 3 == 0)
        ids = np.insert(ids, twice + 1, ids[twice])
        offset = np.arange(offset[0], offset[0] + len(ids), dtype=np.int64)
    writer, seq = _who(ids)
    writer = writer + np.int32(partition * WRITERS)
    if damage == "diverged" and broker == 3:
        seq = np.where(ids % 100 == 7, seq + 1, seq)
    return _table(
        "copies",
        len(ids),
        topic="bench",
        partition=partition,
        broker=broker,
        offset=offset,
        epoch=0,
        writer=writer,
        seq=seq,
        intact=True,
        home=f"bench/{partition}",
        control=False,
    )


def _table(name: str, rows: int, **columns: Any) -> Any:
    arrays = []
    for field in TABLES[name].arrow():
        value = columns.get(field.name)
        if value is None:
            arrays.append(pa.nulls(rows, field.type))
        elif isinstance(value, str | int | bool):
            arrays.append(pa.repeat(pa.scalar(value, field.type), rows))
        else:
            arrays.append(pa.array(value, field.type))
    return pa.table(arrays, schema=TABLES[name].arrow())


class PeakMemory:
    """Peak of the proportional resident memory of this process and all below it, in MiB."""

    def __init__(self) -> None:
        self.mib = 0.0

    def look(self) -> None:
        """Take the memory of this moment into account."""
        self.mib = max(self.mib, sum(pss_mib(pid) for pid in family(os.getpid())))


def floor(folder: Path) -> dict[str, float]:
    """CPU seconds that plain numpy needs for the same comparison, in one process: reading, and comparing."""
    reading = comparing = 0.0
    for sends_file in sorted((folder / "sends.parquet").glob("*.parquet")):
        began = time.process_time()
        sends = pq.read_table(sends_file, columns=["writer", "seq", "offset"], use_threads=False)
        copies = pq.read_table(
            folder / "copies.parquet" / sends_file.name,
            columns=["broker", "offset", "writer", "seq"],
            use_threads=False,
        )
        arrays = {name: copies[name].to_numpy() for name in copies.column_names}
        writer, seq, offset = (sends[name].to_numpy() for name in ("writer", "seq", "offset"))
        middle = time.process_time()
        reading += middle - began
        key = (writer.astype(np.int64) << 40) | seq
        for broker in (1, 2, 3):
            of_broker = arrays["broker"] == broker
            held = (arrays["writer"][of_broker].astype(np.int64) << 40) | arrays["seq"][of_broker]
            at = np.searchsorted(arrays["offset"][of_broker], offset)
            at = np.minimum(at, len(held) - 1)
            np.count_nonzero(held[at] != key)
        comparing += time.process_time() - middle
    return {"read the columns it needs": reading, "compare every message on 3 replicas": comparing}


def where_time_goes(job: JudgingContext) -> tuple[float, dict[str, float]]:
    """CPU seconds of the same tasks in this process without Spark: the total, and the ten largest functions.

    The time of a function includes libraries, but not the other functions of the checker.
    """
    profile = cProfile.Profile(time.process_time)
    began = time.process_time()
    profile.runcall(judge_all, run_here, job)
    whole = time.process_time() - began
    stats: Any = pstats.Stats(profile)
    spent: dict[str, float] = {}
    for (file, _, name), (_, _, own, _, callers) in stats.stats.items():
        if _is_checkers(file):
            place = f"{Path(file).relative_to(CHECKERS)}: {name}"
            spent[place] = spent.get(place, 0.0) + own
        elif file != __file__:  # time in a library counts for the checker's function that called it
            for (caller, _, by), (_, _, _, within) in callers.items():
                if _is_checkers(caller):
                    place = f"{Path(caller).relative_to(CHECKERS)}: {by}"
                    spent[place] = spent.get(place, 0.0) + within
    largest = dict(sorted(spent.items(), key=lambda entry: -entry[1])[:10])
    return whole, {**largest, "everything else": whole - sum(largest.values())}


def _is_checkers(file: str) -> bool:
    return Path(file).is_relative_to(CHECKERS)


def show_floor(options: argparse.Namespace, folder: Path, taken: float, scratch: Path) -> None:
    """Print how far the pipeline is from plain numpy, and where its time goes."""
    least = floor(folder)
    for name, seconds in least.items():
        print(f"numpy floor, one process: {name}: {seconds:.2f} s of CPU")
    compare = least["compare every message on 3 replicas"]
    print(
        f"the pipeline took {taken:.2f} s with 2 processes: {taken / compare:.1f} times the comparison, "
        f"{taken / sum(least.values()):.1f} times reading and comparing"
    )
    again = scratch / "again"
    again.mkdir()
    source = open_source(folder)
    whole, functions = where_time_goes(
        JudgingContext(source=source, evidence=gather(source), life=None, findings=str(again))
    )
    times = whole / sum(least.values())
    print(f"the same tasks without Spark, one process: {whole:.2f} s of CPU, {times:.1f} times the floor")
    for name, seconds in functions.items():
        print(f"  {name}: {seconds:.2f} s ({seconds / whole:.0%})")


def main() -> None:
    """Run one measurement and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument(
        "--damage", type=lambda text: "clean" if text == "0" else text, choices=DAMAGES, default="clean"
    )
    parser.add_argument("--partitions", type=int, default=10)
    parser.add_argument("--transaction", type=int, default=0, help="messages in a transaction; 0: none")
    parser.add_argument("--life", action="store_true", help="also write the life table")
    parser.add_argument("--floor", action="store_true", help="compare with plain numpy, and profile")
    parser.add_argument("--keep", type=Path, help="folder to make the history in, or one that has it")
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="acked-benchmark-"))
    try:
        _measure(options, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _measure(options: argparse.Namespace, scratch: Path) -> None:
    folder = options.keep or scratch / "history"
    phases: dict[str, float] = {}
    began = time.perf_counter()
    if not (folder / "replicas.parquet").exists():
        make_history(folder, options.messages, options.partitions, options.damage, options.transaction)
    phases["make history"] = time.perf_counter() - began
    began = time.perf_counter()
    session = start_session()
    warm_up(session)
    phases["start and warm session"] = time.perf_counter() - began
    for key in ("spark.master", "spark.driver.memory", "spark.sql.shuffle.partitions"):
        print(f"{key} = {session.conf.get(key)}")
    load = Path("/proc/loadavg").read_text().split()[0]
    print(f"{options.messages} messages x 3 replicas in {options.partitions} partitions, {options.damage}")
    print(f"load of the machine before: {load}")
    out = scratch / "findings.parquet"
    out.mkdir()
    life = scratch / "life.parquet" if options.life else None
    if life is not None:
        life.mkdir()
    transactions = scratch / "transactions"
    for name in (PARTS_FOLDER, RECORDS_FOLDER):
        (transactions / name).mkdir(parents=True)
    peak = PeakMemory()
    with sampling(peak.look, _LOOK_S):
        began = time.perf_counter()
        source = open_source(folder)
        evidence = gather(source)
        job = JudgingContext(
            source=source,
            evidence=evidence,
            life=str(life) if life else None,
            findings=str(out),
            transactions=str(transactions),
        )
        phases["open"] = time.perf_counter() - began
        middle = time.perf_counter()
        tallies = run(session, job)
        phases["fates and findings"] = time.perf_counter() - middle
        middle = time.perf_counter()
        tallies = conclude(source, evidence, transactions, out, tallies)
        phases["fates of transactions"] = time.perf_counter() - middle
        taken = time.perf_counter() - began
    for name, seconds in phases.items():
        print(f"{name}: {seconds:.2f} s")
    counts: dict[str, int] = {}
    for row in tallies.to_pylist():
        key = f"{row['kind']} {row['name']}"
        counts[key] = counts.get(key, 0) + row["count"]
    print(", ".join(f"{name}: {count}" for name, count in sorted(counts.items())))
    if options.transaction:
        fates = pq.read_table(transactions / FATES_FILE, columns=["reported", "visible", "finding"])
        for row in (
            fates.group_by(fates.column_names, use_threads=False).aggregate([([], "count_all")]).to_pylist()
        ):
            print("transactions:", ", ".join(f"{name} {value}" for name, value in row.items()))
    if options.floor:
        show_floor(options, folder, taken, scratch)
    print(f"{options.messages / taken:.0f} messages/s, peak {peak.mib:.0f} MiB")
    session.stop()


if __name__ == "__main__":
    main()

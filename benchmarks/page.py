"""How long the page of a judged run takes, and how large it is.

    .venv/bin/python -m benchmarks.page runs/leader-az-isolated/latest
    .venv/bin/python -m benchmarks.page runs/leader-az-isolated/latest --messages 1000000 --damage lost

Each page is made in a process of its own that has already loaded what judging a run loads, as in `acked run`.
What the page alone needs is imported while the clock runs. With `--messages`, a copy of the run gets a topic
`bench` of ten partitions with so many acknowledged messages, spread over the run's duration. That copy is
judged again.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.checker import DAMAGES, make_history
from harness.history.tables import read_table, write_into

PARTITIONS = 10
FIRST_WRITER = 1000
"""Above every writer of a real run."""


def main() -> None:
    """Make the pages several times and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("runs", type=Path, nargs="+", help="folders of judged runs")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--messages", type=int, default=0, help="messages to add to a copy of the run")
    parser.add_argument("--damage", choices=DAMAGES, default="clean")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        _once(options.runs[0])
        return
    print(f"{'run':<40} {'min':>6} {'median':>6} {'max':>6} s {'CPU':>6} s  {'size':>8}")
    with tempfile.TemporaryDirectory(prefix="acked-benchmark-") as scratch:
        for run in options.runs:
            folder = run.resolve()
            name = folder.parent.name
            if options.messages:
                folder = _with_messages(folder, Path(scratch) / name, options.messages, options.damage)
                name = f"{name} + {options.messages} {options.damage}"
            measured = [_page_in_a_new_process(folder) for _ in range(options.repeat)]
            seconds = sorted(wall for wall, _ in measured)
            cpu = statistics.median(processor for _, processor in measured)
            kilobytes = (folder / "report.html").stat().st_size / 1000
            median = statistics.median(seconds)
            print(
                f"{name:<40} {seconds[0]:>6.2f} {median:>6.2f} {seconds[-1]:>6.2f} s {cpu:>6.2f} s"
                f"  {kilobytes:>5.0f} kB",
                flush=True,
            )


def _page_in_a_new_process(folder: Path) -> tuple[float, float]:
    """Seconds: wall clock, processor."""
    command = [sys.executable, "-m", "benchmarks.page", str(folder), "--once"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    wall, processor = done.stdout.split()
    return float(wall), float(processor)


def _once(folder: Path) -> None:
    import cli.running  # noqa: F401 - `acked run` has it before it makes the page
    from checkers.judge import judge  # noqa: F401 - and judging

    began, used = time.monotonic(), time.process_time()
    from report.page.write import write_page

    write_page(folder)
    print(time.monotonic() - began, time.process_time() - used)


def _with_messages(run: Path, folder: Path, messages: int, damage: str) -> Path:
    """A judged copy of the run that holds the further messages."""
    shutil.copytree(run, folder, symlinks=True)
    history = folder / "history"
    with tempfile.TemporaryDirectory(prefix="acked-benchmark-") as scratch:
        made = Path(scratch)
        make_history(made, messages, PARTITIONS, damage)
        marks = pq.read_table(history / "marks.parquet", columns=["ns"])["ns"].to_numpy()
        for file in sorted((made / "sends.parquet").glob("*.parquet")):
            sends = pq.read_table(file)
            sent = np.linspace(marks.min(), marks.max(), sends.num_rows).astype(np.int64)
            sends = _with(
                sends,
                writer=sends["writer"].to_numpy() + FIRST_WRITER,
                sent_ns=sent,
                done_ns=sent + 2_000_000,
            )
            pq.write_table(sends, history / "sends.parquet" / file.name)
        for file in sorted((made / "copies.parquet").glob("*.parquet")):
            copies = pq.read_table(file)
            copies = _with(copies, writer=copies["writer"].to_numpy() + FIRST_WRITER)
            pq.write_table(copies, history / "copies.parquet" / file.name)
        _append(history, "replicas", pq.read_table(made / "replicas.parquet"))
    written = read_table(folder, "writers")
    pattern = next(row for row in written.to_pylist() if row["role"] == "stream") | {"interval_ns": None}
    ids = np.unique(pq.read_table(history / "sends.parquet", columns=["writer"])["writer"].to_numpy())
    rows = [pattern | {"writer": int(id_), "name": f"bench-{id_}"} for id_ in ids if id_ > FIRST_WRITER]
    _append(history, "writers", pa.Table.from_pylist(rows, written.schema))
    subprocess.run([sys.executable, "-m", "cli.main", "check", str(folder)], capture_output=True, check=False)
    return folder


def _with(table: pa.Table, **columns: np.ndarray) -> pa.Table:
    for name, values in columns.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(
            place, table.schema.field(place), pa.array(values, table.schema.field(place).type)
        )
    return table


def _append(history: Path, name: str, rows: pa.Table) -> None:
    stored = read_table(history.parent, name)
    added = rows.select(stored.schema.names).cast(stored.schema)
    write_into(history, name, pa.concat_tables([stored, added]))


if __name__ == "__main__":
    main()

"""Other ways to the same answer: the general plan's SQL in DuckDB, and a brute-force model in Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from checkers.evidence import Evidence
from checkers.general import life as whole
from checkers.general.steps import BASE, STEPS
from harness.history.schema import TABLES

Finding = tuple[str, str, int, int | None, int | None, int | None]
"""class, topic, partition, offset, writer, seq"""

_SQL = {"int": "INTEGER", "long": "BIGINT", "text": "VARCHAR", "flag": "BOOLEAN", "ints": "INTEGER[]"}


@contextmanager
def duckdb_plan(folder: Path, *, whole_rows: bool = False) -> Iterator[Any]:
    """A DuckDB connection in which every step of the general plan is a table."""
    base = {**BASE, **(whole.BASE if whole_rows else {})}
    steps = {**STEPS, **(whole.STEPS if whole_rows else {})}
    with duckdb.connect() as db:
        db.execute("set threads to 1")
        for name, (table, columns) in base.items():
            file = folder / f"{table}.parquet"
            if file.exists():
                source = f"read_parquet('{file}')"
            else:
                fields = ", ".join(
                    f'null::{_SQL.get(c.kind, "VARCHAR")} as "{c.name}"' for c in TABLES[table].columns
                )
                source = f"(select {fields} limit 0)"
            quoted = columns.format(offset='"offset"', group='"group"')
            db.execute(f"create temp table {name} as select {quoted} from {source}")
        for name, text in steps.items():
            db.execute(f"create temp table {name} as {text}")
        yield db


def findings_of(db: Any) -> list[Finding]:
    """Findings of the plan."""
    found: list[Finding] = db.execute("select class, t, p, o, w, q from found_all").fetchall()
    return found


def fates_of(db: Any) -> list[tuple[Any, ...]]:
    """Every message with its outcome, reported offset, copies, place and fate, before strays are settled."""
    found: list[tuple[Any, ...]] = db.execute(
        "select t, p, w, q, outcome, o, copies, found, fate from fated"
    ).fetchall()
    return found


def life_of(db: Any, evidence: Evidence) -> list[dict[str, Any]]:
    """Whole rows of life, with causes, by DuckDB and `checkers.general.life` (inside such a plan)."""
    table = db.table("life_all").to_arrow_table()
    found: list[dict[str, Any]] = whole.attribute(evidence, table).drop_columns(["further"]).to_pylist()
    return found


def duckdb_findings(folder: Path) -> list[Finding]:
    """Findings of a history folder as DuckDB sees them."""
    with duckdb_plan(folder) as db:
        return findings_of(db)


def model_findings(
    sends: list[dict[str, Any]],
    logs: Mapping[tuple[int, int], list[dict[str, Any]]],
    reads: Sequence[Mapping[str, Any]] = (),
) -> set[tuple[str, int, int | None, int | None, int | None]]:
    """What is wrong, message by message and offset by offset, said as plainly as Python allows.

    ``logs`` are the final logs by partition and broker. Brokers are in sync, none is known to lead; so the
    log that reached furthest (epoch, offset, lowest number) counts. Every read is of a reader of its own.
    Returns class, partition, offset, writer, seq.
    """
    found = set()
    was_read = {(row["writer"], row["seq"]) for row in reads}
    by_key = {(row["writer"], row["seq"]): row for row in sends}
    partitions = sorted({row["partition"] for row in sends} | {partition for partition, _ in logs})
    elsewhere = set()
    told: dict[int, set[int]] = {partition: set() for partition in partitions}
    lost = []
    for partition in partitions:
        replicas = {b: log for (p, b), log in sorted(logs.items()) if p == partition and log}
        reference = max(
            replicas, key=lambda b: (replicas[b][-1]["epoch"], replicas[b][-1]["offset"], -b), default=None
        )
        main = replicas.get(reference, []) if reference is not None else []
        at = {record["offset"]: record for record in main}
        for offset in sorted({r["offset"] for log in replicas.values() for r in log}):
            for broker in sorted(replicas, key=lambda b: (b != reference, b)):
                record = next((r for r in replicas[broker] if r["offset"] == offset), None)
                if record is None:
                    continue
                key = (record["writer"], record["seq"])
                home = by_key.get(key)
                if not record["intact"]:
                    told[partition].add(offset)
                    found.add(("corrupt", partition, offset, *key))
                    break
                if home is None or home["partition"] != partition:
                    told[partition].add(offset)
                    name = "foreign" if home is None else "misrouted"
                    found.add((name, partition, offset, *key))
                    if home is not None:
                        elsewhere.add(key)
                    break
        kept: dict[int, list[tuple[int, int]]] = {}
        absent: set[tuple[int, int]] = set()
        settled: dict[tuple[int, int], set[int | None]] = {}
        for row in sends:
            if row["partition"] != partition:
                continue
            key = (row["writer"], row["seq"])
            held = {
                b: [r["offset"] for r in log if (r["writer"], r["seq"]) == key and r["intact"]]
                for b, log in replicas.items()
            }
            own = held.get(reference, []) if reference is not None else []
            anywhere = any(held.values())
            place = row["offset"] if row["offset"] is not None else (own[0] if own else None)
            exact = row["offset"] if row["offset"] in own else own[0] if own else None
            if own:
                settled[key] = {exact, row["offset"], *own}
            elif anywhere and row["outcome"] == "fail":
                pass
            elif row["outcome"] != "ok":
                absent.add(key)
            if row["outcome"] == "fail":
                if anywhere:
                    found.add(("phantom", partition, place, *key))
            elif len(own) > 1:
                found.add(("duplicated", partition, place, *key))
            elif row["outcome"] == "ok" and not anywhere:
                bad = any(
                    r["offset"] == row["offset"] and not r["intact"] for log in replicas.values() for r in log
                )
                there = at.get(row["offset"])
                known = there is not None and by_key.get((there["writer"], there["seq"]))
                stray = (
                    there is not None and there["intact"] and not (known and known["partition"] == partition)
                )
                if bad:
                    found = {f for f in found if f[:3] != ("corrupt", partition, row["offset"])}
                    found.add(("corrupt", partition, row["offset"], *key))
                elif stray:
                    found = {
                        f
                        for f in found
                        if not (f[0] in ("foreign", "misrouted") and f[1:3] == (partition, row["offset"]))
                    }
                    found.add(("overwritten", partition, row["offset"], *key))
                else:
                    lost.append((partition, place, *key))
            elif row["outcome"] == "ok" and own and row["offset"] is not None and own[0] != row["offset"]:
                found.add(("moved", partition, place, *key))
            elif row["outcome"] == "ok" and own:
                kept.setdefault(row["writer"], []).append((row["seq"], own[0]))
        for writer, placed in kept.items():
            for seq, offset in placed:
                if any(s > seq and o < offset for s, o in placed):
                    found.add(("out_of_order", partition, offset, writer, seq))
        for read in reads:
            key = (read["writer"], read["seq"])
            if read["partition"] == partition and key in absent:
                found.add(("aborted_read", partition, read["offset"], *key))
            elif read["partition"] == partition and read["offset"] not in settled.get(key, {read["offset"]}):
                found.add(("offset_conflict", partition, read["offset"], *key))
        differing: dict[int, tuple[int | None, int | None]] = {}
        for broker, log in replicas.items():
            if broker == reference:
                continue
            mine = {record["offset"]: record for record in log}
            low, high = log[0]["offset"], log[-1]["offset"]
            outside = {"head": False, "tail": False}
            for offset in sorted(at.keys() | mine.keys()):
                a, b = at.get(offset), mine.get(offset)
                if a is not None and b is not None:
                    same = all(a[k] == b[k] for k in ("writer", "seq", "epoch"))
                    wrong = None if same else b
                elif a is not None:
                    side = "head" if offset < low else "tail" if offset > high else None
                    wrong = a if side is None or not outside[side] else None
                    if side is not None:
                        outside[side] = True
                else:
                    wrong = b
                if wrong is not None and offset not in differing:
                    differing[offset] = (wrong["writer"], wrong["seq"])
        for offset, key2 in differing.items():
            if offset not in told[partition]:
                found.add(("diverged", partition, offset, *key2))
    for partition, place, writer, seq in lost:
        if (writer, seq) not in elsewhere:
            name = "lost_after_read" if (writer, seq) in was_read else "lost"
            found.add((name, partition, place, writer, seq))
    return found

"""When readers of committed records were blocked, for how long, and by which transaction.

They get nothing from the last stable offset on, even if later records are committed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import pyarrow.compute as pc

from report.model.beliefs import ToSeconds
from report.model.judged import transaction_name
from report.model.model import BlockedReaders
from report.model.tables import Row, RunTables

SHORTEST_BLOCK_S = 1.0
"""Shorter blocks are not reported: every transaction blocks readers while it is open."""
_OFFSETS = ("ns", "topic", "partition", "broker", "high_watermark", "last_stable_offset")
_RECORDS = ("topic", "partition", "offset", "writer", "txn")


def blocked_readers(
    tables: RunTables, seconds: ToSeconds, *, shortest_s: float = SHORTEST_BLOCK_S, merged: bool = True
) -> tuple[BlockedReaders, ...]:
    """The blocks of a run, the longest first.

    If they are ``merged``, replicas that were blocked at the same offset and time are one block.
    """
    if not tables.table("transaction_fates", ("writer",)).num_rows:
        return ()
    blocks = [block for block in _blocks(tables) if _length_s(block) >= shortest_s]
    blocking = _records_at(tables, blocks)
    fates = {
        (row["writer"], row["txn"]): row
        for row in _of_writers(tables, "transaction_fates", {row["writer"] for row in blocking.values()})
    }
    readers = []
    for same in _together(blocks) if merged else [[block] for block in blocks]:
        place = _place(same[0])
        longest = max(same, key=_length_s)
        record = blocking.get(place)
        fate = {} if record is None else fates.get((record["writer"], record["txn"]), {})
        open_ended = any(one["open"] for one in same)
        readers.append(
            BlockedReaders(
                place=f"{place[0]}/{place[1]}",
                offset=place[2],
                brokers=tuple(sorted({one["broker"] for one in same})),
                from_s=seconds(longest["from_ns"]),
                to_s=None if open_ended else seconds(longest["until_ns"]),
                seconds=round(_length_s(longest), 3),
                behind=max(one["behind"] for one in same),
                transaction="" if record is None else transaction_name(record["writer"], record["txn"]),
                producer=fate.get("writer_name") or fate.get("transactional_id") or "",
                reported=fate.get("reported") or "",
            )
        )
    return tuple(sorted(readers, key=lambda one: (-one.seconds, one.place, one.offset)))


def blocked_in(folder: str) -> tuple[BlockedReaders, ...]:
    """The blocks of a judged run folder, by the times of its page; none without such a folder."""
    path = Path(folder)
    if not (path / "transaction_fates.parquet").exists():
        return ()
    tables = RunTables(path)
    zero_ns = tables.time_zero().ns
    return blocked_readers(tables, lambda ns: round((ns - zero_ns) / 1e9, 4))


def _place(block: Row) -> tuple[str, int, int]:
    return block["topic"], block["partition"], block["offset"]


def _together(blocks: Sequence[Row]) -> list[list[Row]]:
    """Blocks at the same offset that overlap in time."""
    stretches: list[list[Row]] = []
    ends = 0
    for block in sorted(blocks, key=lambda block: (*_place(block), block["from_ns"])):
        if stretches and _place(stretches[-1][0]) == _place(block) and block["from_ns"] <= ends:
            stretches[-1].append(block)
            ends = max(ends, block["until_ns"])
        else:
            stretches.append([block])
            ends = block["until_ns"]
    return stretches


def _length_s(block: Row) -> float:
    return float(block["until_ns"] - block["from_ns"]) / 1e9


def _blocks(tables: RunTables) -> Iterator[Row]:
    """Stretches in which the last stable offset of a replica stood still below its high watermark."""
    rows = tables.table("watermarks", _OFFSETS).to_pylist()
    rows.sort(key=lambda row: (row["topic"], row["partition"], row["broker"], row["ns"]))
    end_ns = max((row["ns"] for row in rows), default=0)
    for (topic, partition, broker), group in groupby(
        rows, key=lambda row: (row["topic"], row["partition"], row["broker"])
    ):
        history = list(group)
        at = 0
        for offset, stretch in groupby(history, key=_blocked_at):
            own = list(stretch)
            at += len(own)
            if offset is not None:
                following = history[at]["ns"] if at < len(history) else None
                yield {
                    "topic": topic,
                    "partition": partition,
                    "broker": broker,
                    "offset": offset,
                    "from_ns": own[0]["ns"],
                    "until_ns": end_ns if following is None else following,
                    "open": following is None,
                    "behind": max(row["high_watermark"] for row in own) - offset,
                }


def _blocked_at(row: Row) -> int | None:
    stable, high = row["last_stable_offset"], row["high_watermark"]
    return None if stable is None or high is None or stable >= high else int(stable)


def _records_at(tables: RunTables, blocks: Sequence[Row]) -> dict[tuple[str, int, int], Row]:
    """The records of transactions at the offsets of these blocks."""
    places = {_place(block) for block in blocks}
    records = {}
    for topic, partition in sorted({place[:2] for place in places}):
        for row in tables.rows("transaction_records", _RECORDS, (topic, partition)):
            if row["offset"] is not None and (topic, partition, row["offset"]) in places:
                records[topic, partition, row["offset"]] = row
    return records


def _of_writers(tables: RunTables, name: str, writers: set[int]) -> list[Row]:
    table = tables.table(name, ("writer", "txn", "writer_name", "transactional_id", "reported"))
    rows: list[Row] = table.filter(pc.field("writer").isin(sorted(writers))).to_pylist() if writers else []
    return rows

"""Cutting large partitions into bounded pieces, and putting right what two pieces say about one record."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from checkers.fast.regroup import part_name
from checkers.fast.task import Job, Piece
from checkers.partition.replicas import KINDS, LENGTH
from checkers.tables.arrays import make_context
from checkers.tables.output import FINDING
from checkers.tables.source import Source, TopicPartition, file_system, only

PIECE_MESSAGES = 1_000_000
"""A partition with more sends is judged in pieces of about so many."""

_ROWS_A_SEND = 8
"""Copies, reads and sightings besides: up to so many rows of a partition go with one message."""

_EVERYTHING = 1 << 62


def cut(
    job: Job, holds: TopicPartition, sends: int, size: int = PIECE_MESSAGES, rows: int = 0
) -> list[Piece]:
    """The pieces of one topic partition; a single whole one when it is small.

    ``rows`` counts those of every table of messages, where they may be out of proportion to ``sends``.
    """
    name = part_name(holds)
    if sends <= size and rows <= _ROWS_A_SEND * size:
        return [Piece(holds, name)]
    few = max(1, size * _ROWS_A_SEND * sends // rows) if rows > _ROWS_A_SEND * sends else size
    ends, spans = _ends(job.source, holds)
    context = replace(make_context(job.source, job.evidence, holds, ends), spans=spans)
    replicas = max(1, len({broker for broker, *_ in _groups(job.source, holds, "copies", "broker")}))
    pieces = []
    for kind, table, column, limit in (
        ("keys", "sends", "seq", few),
        ("offsets", "copies", "offset", size * replicas),
        ("reads", "reads", "ns", size),
    ):
        groups = _groups(job.source, holds, table, column)
        if kind == "reads" and not groups:
            continue
        cuts = _cuts(groups, limit)
        for number, (low, high) in enumerate(cuts):
            first, last = number == 0, number == len(cuts) - 1
            if kind == "keys":  # records may name sequences below and above all that were sent
                low, high = (-_EVERYTHING if first else low), (_EVERYTHING if last else high)
            part = f"{name}-{kind}-{number:06}"
            pieces.append(Piece(holds, part, kind, low, high, first, last, context))
    return pieces


def _groups(source: Source, holds: TopicPartition, table: str, column: str) -> list[tuple[int, int, int]]:
    """Lowest value, highest value and rows of each row group; from statistics, or from the data."""
    found = []
    for piece in source.files.get(table, ()):
        if piece.holds not in (None, holds):
            continue
        system, inner = file_system(piece.path)
        with system.open_input_file(inner) as handle:
            parquet = pq.ParquetFile(handle)
            place = parquet.schema_arrow.get_field_index(column)
            for number in range(parquet.metadata.num_row_groups):
                group = parquet.metadata.row_group(number)
                stats = group.column(place).statistics if place >= 0 else None
                if piece.holds is None:
                    read = parquet.read_row_group(number, columns=["topic", "partition", column])
                    values = only(read, holds)[column].drop_null()
                    if len(values):
                        low, high = pc.min_max(values).values()
                        found.append((low.as_py(), high.as_py(), len(values)))
                elif stats is not None and stats.has_min_max:
                    found.append((int(stats.min), int(stats.max), int(group.num_rows)))
                else:
                    values = pc.min_max(parquet.read_row_group(number, columns=[column])[column])
                    if values["min"].is_valid:
                        found.append((values["min"].as_py(), values["max"].as_py(), int(group.num_rows)))
    return found


def _ends(
    source: Source, holds: TopicPartition
) -> tuple[dict[int, tuple[int, int]], dict[int, tuple[int, int]]]:
    """Last epoch and offset, and first and last offset, of each replica; from statistics where possible."""
    ends: dict[int, tuple[int, int]] = {}
    spans: dict[int, tuple[int, int]] = {}
    for piece in source.files["copies"]:
        if piece.holds not in (None, holds):
            continue
        system, inner = file_system(piece.path)
        with system.open_input_file(inner) as handle:
            parquet = pq.ParquetFile(handle)
            names = parquet.schema_arrow.names
            columns = [c for c in ("broker", "epoch", "offset") if c in names]
            for number in range(parquet.metadata.num_row_groups):
                group = parquet.metadata.row_group(number)
                stats = {c: group.column(names.index(c)).statistics for c in columns}
                if piece.holds is None:
                    both = parquet.read_row_group(number, columns=["topic", "partition", *columns])
                    rows = _read_ends(only(both, holds))
                elif all(s is not None and s.has_min_max for s in stats.values()) and (
                    stats["broker"].min == stats["broker"].max
                ):
                    low = int(stats["offset"].min)
                    rows = [{**{c: s.max for c, s in stats.items()}, "low": low}]
                else:
                    rows = _read_ends(parquet.read_row_group(number, columns=columns))
                for row in rows:
                    epoch, broker, high = row.get("epoch"), row["broker"], int(row["offset"])
                    end = (high, -1 if epoch is None else int(epoch))
                    was = ends.get(broker, (-1, -1))
                    ends[broker] = max((was[1], was[0]), end)[::-1]
                    known = spans.get(broker, (row["low"], high))
                    spans[broker] = (min(known[0], row["low"]), max(known[1], high))
    return ends, spans


def _read_ends(table: Any) -> list[dict[str, Any]]:
    found = []
    for broker in pc.unique(table["broker"]).to_pylist():
        mine = table.filter(pc.equal(table["broker"], broker)).sort_by("offset").to_pylist()
        found.append({**mine[-1], "low": mine[0]["offset"]})
    return found


def _cuts(groups: Sequence[tuple[int, int, int]], limit: int) -> list[tuple[int, int]]:
    """Ranges [low, high) that hold about ``limit`` rows each and leave no value out."""
    if not groups:
        return [(0, 1)]
    end = max(high for _, high, _ in groups) + 1
    points: list[tuple[float, float]] = []
    for low, high, rows in groups:
        steps = max(1, -(-rows // max(1, limit // 4)))
        points += [(low + (high + 1 - low) * (k + 1) / steps, rows / steps) for k in range(steps)]
    bounds, filled = [min(low for low, _, _ in groups)], 0.0
    for at, weight in sorted(points):
        filled += weight
        if filled >= limit and int(at) > bounds[-1] and int(at) < end:
            bounds.append(int(at))
            filled = 0.0
    return list(zip(bounds, [*bounds[1:], end], strict=True))


def crossings(pieces: Iterable[Piece], tallies: Any) -> list[Piece]:
    """Pieces whose order must be looked at again, with what later pieces hold."""
    edges = tallies.filter(pc.equal(tallies["kind"], "edge")).select(["name", "writer", "count", "value"])
    told: dict[str, list[tuple[int, int, int]]] = {}
    for row in edges.to_pylist():
        told.setdefault(row["name"], []).append((row["writer"], row["count"], row["value"]))
    again: list[Piece] = []
    by_partition: dict[TopicPartition, list[Piece]] = {}
    for piece in pieces:
        if piece.kind == "keys":
            by_partition.setdefault(piece.holds, []).append(piece)
    for mine in by_partition.values():
        later: dict[int, int] = {}
        for piece in sorted(mine, key=lambda piece: -piece.low):
            found = told.get(piece.part, [])
            if any(high > later.get(writer, high) for writer, _, high in found):
                again.append(replace(piece, later_low=dict(later)))
            for writer, low, _ in found:
                later[writer] = min(low, later.get(writer, low))
    return again


def joints(pieces: Iterable[Piece], tallies: Any) -> list[Piece]:
    """One piece more for each partition whose reads were cut: the steps from window to window."""
    told = tallies.filter(pc.equal(tallies["kind"], "reads")).select(["name", "text"]).to_pylist()
    edges = {row["name"]: json.loads(row["text"]) for row in told}
    by_partition: dict[TopicPartition, list[Piece]] = {}
    for piece in pieces:
        if piece.kind == "reads":
            by_partition.setdefault(piece.holds, []).append(piece)
    found = []
    for holds, mine in by_partition.items():
        rows = []
        for number, piece in enumerate(sorted(mine, key=lambda piece: piece.low)):
            for first, last in edges.get(piece.part, ()):
                rows += [(number, tuple(first)), (number, tuple(last))]
        if len(mine) > 1 and rows:
            part = f"{part_name(holds)}-joints"
            found.append(replace(mine[0], part=part, kind="joints", edges=tuple(rows)))
    return found


def with_strays(findings: str, piece: Piece) -> Piece:
    """A piece of reads that knows where the pieces by sequence have put their findings."""
    system, inner = file_system(findings)
    listed = system.get_file_info(pafs.FileSelector(inner, recursive=False))
    mine = f"{part_name(piece.holds)}-keys-"
    prefix = findings[: len(findings) - len(inner)]
    return replace(
        piece, strays=tuple(sorted(prefix + f.path for f in listed if f.base_name.startswith(mine)))
    )


def settle_pieces(findings: Path, holds: TopicPartition) -> dict[str, int]:
    """Drop what another piece's finding about the same record explains; returns how many by class."""
    paths = sorted(findings.glob(f"{part_name(holds)}-*.parquet"))
    by_key = [path for path in paths if "-keys-" in path.name]
    by_offset = [path for path in paths if "-offsets-" in path.name]
    if not by_key or not by_offset:
        return {}
    dropped = _end_once(by_offset)
    keyed = pa.concat_tables([pq.read_table(path, columns=["class", "offset"]) for path in by_key])
    strays = keyed.filter(pc.is_in(keyed["class"], pa.array(["foreign", "misrouted", "corrupt"])))["offset"]
    messages = keyed.filter(pc.is_in(keyed["class"], pa.array(["corrupt", "overwritten"])))["offset"]
    if not len(strays) and not len(messages):
        return dropped
    for path in by_offset:
        table = pq.read_table(path, schema=FINDING)
        diverged = pc.equal(table["class"], "diverged")
        told = pc.or_(
            pc.and_(diverged, pc.is_in(table["offset"], strays.combine_chunks())),
            pc.and_(pc.invert(diverged), pc.is_in(table["offset"], messages.combine_chunks())),
        )
        told = pc.or_(told, pc.and_(diverged, pc.is_in(table["offset"], messages.combine_chunks())))
        for row in table.filter(told).group_by("class").aggregate([([], "count_all")]).to_pylist():
            dropped[row["class"]] = dropped.get(row["class"], 0) + row["count_all"]
        if pc.any(told).as_py():
            pq.write_table(table.filter(pc.invert(told)), path)
    return dropped


def _end_once(paths: Sequence[Path]) -> dict[str, int]:
    """Of the reports that a replica ends early keep the first: every later piece repeats it."""
    told: set[int] = set()
    dropped = 0
    for path in paths:
        table = pq.read_table(path, schema=FINDING)
        ends = pc.equal(table["detail"], KINDS[LENGTH])
        if not pc.any(ends).as_py():
            continue
        keep = []
        for row, end in zip(table.select(["brokers"]).to_pylist(), ends.to_pylist(), strict=True):
            keep.append(not end or not told.issuperset(row["brokers"]))
            told |= set(row["brokers"]) if end else set()
        if not all(keep):
            dropped += keep.count(False)
            pq.write_table(table.filter(pa.array(keep)), path)
    return {"diverged": dropped} if dropped else {}

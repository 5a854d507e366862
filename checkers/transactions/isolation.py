"""Anomalies between transactions that read and write, as Adya and Jepsen's Kafka workload define them.

Nodes are transactions. A `ww` edge leads from the transaction of a record to that of the next committed
record of the partition, a `wr` edge from the transaction of a record to the one that read it. Only histories
whose `reads` name transactions are looked at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from checkers.evidence import Row
from checkers.partition.decisions import COMMITTED
from checkers.records import facts_text
from checkers.tables.output import ANOMALY, FINDING
from checkers.tables.source import Source, read_file

TRANSACTION_READ_COLUMNS = (
    "topic", "partition", "reader", "ns", "offset", "writer", "seq", "isolation", "txn_writer", "txn",
)  # fmt: skip
TransactionKey = tuple[int, int]
"""writer, txn"""
Graph = Mapping[TransactionKey, Mapping[TransactionKey, Row]]
"""Edges, each with the read or the write that it rests on."""
FINDING_OF_ANOMALY = {"precommitted_read": "precommitted_read", "G1c": "circular_read"}
"""Anomalies that Kafka does not allow, and their classes as findings."""


def reads_in_transactions(source: Source) -> pa.Table:
    """The rows of `reads` that belong to a transaction."""
    parts = []
    for file in source.files.get("reads", ()):
        table = read_file(file.path, "reads", TRANSACTION_READ_COLUMNS)
        if table["txn"].null_count < len(table):
            parts.append(table.filter(pc.and_(pc.is_valid(table["txn"]), pc.is_valid(table["txn_writer"]))))
    return pa.concat_tables(parts) if parts else pa.table({name: [] for name in TRANSACTION_READ_COLUMNS})


@dataclass(frozen=True, kw_only=True)
class _Read:
    """A record that a transaction read, and its fate."""

    by: TransactionKey
    of: TransactionKey
    state: str
    row: Row


def anomalies_of(reads: pa.Table, records: pa.Table) -> pa.Table:
    """Rows of `ANOMALY`; ``reads`` are of transactions, ``records`` all rows of `transaction_records`."""
    if not reads.num_rows:
        return ANOMALY.empty_table()
    record_of = {(row["writer"], row["seq"]): row for row in records.to_pylist()}
    seen = []
    for row in reads.to_pylist():
        record = record_of.get((row["writer"], row["seq"]))
        if record is not None:
            by = (row["txn_writer"], row["txn"])
            of = (record["writer"], record["txn"])
            seen.append(_Read(by=by, of=of, state=record["state"], row=row))
    anomalies = [_of_read("precommitted_read", read, _dirty(read.row)) for read in seen if read.by == read.of]
    others = [read for read in seen if read.by != read.of]
    anomalies += [_of_read("G1a", read, _dirty(read.row)) for read in others if read.state == "aborted"]
    anomalies += _intermediate(others, record_of.values())
    ww, wr = _write_order(record_of.values()), _read_order(others)
    anomalies += [_of_cycle("G0", cycle, ww, True) for cycle in _cycles(ww)]
    clean = _read_order(read for read in others if not _dirty(read.row))
    both = {node: {**ww.get(node, {}), **wr.get(node, {})} for node in {*ww, *wr}}
    covered: set[TransactionKey] = set()
    for graph, reads_of, allowed in ((clean, clean, False), (wr, wr, True), (both, wr, True)):
        for cycle in _cycles(graph, through=reads_of):
            if not covered & set(cycle):
                anomalies.append(_of_cycle("G1c", cycle, graph, allowed))
                covered |= set(cycle)
    return pa.Table.from_pylist(anomalies, schema=ANOMALY)


def findings_of(anomalies: pa.Table) -> pa.Table:
    """Findings about the anomalies that Kafka does not allow; the first read of each is its place."""
    findings = []
    for row in anomalies.to_pylist():
        name = FINDING_OF_ANOMALY.get(row["anomaly"])
        if name is not None and not row["allowed"]:
            place = {key: row[key] for key in ("topic", "partition", "offset", "writer", "seq", "txn")}
            findings.append({"class": name, **place, "count": 1, "detail": row["detail"], "expected": False})
    return pa.Table.from_pylist(findings, schema=FINDING)


def _dirty(read: Row) -> bool:
    """Whether the reader asked for records that are not committed."""
    return bool(read["isolation"] == "read_uncommitted")


# ---- edges


def _write_order(records: Iterable[Row]) -> dict[TransactionKey, dict[TransactionKey, Row]]:
    """Edges from each transaction to those whose records come next in a partition."""
    edges: dict[TransactionKey, dict[TransactionKey, Row]] = {}
    written = [row for row in records if row["state"] in COMMITTED]
    written.sort(key=lambda row: (row["topic"], row["partition"], row["offset"]))
    for earlier, other in zip(written, written[1:], strict=False):
        if (earlier["topic"], earlier["partition"]) != (other["topic"], other["partition"]):
            continue
        before, after = (earlier["writer"], earlier["txn"]), (other["writer"], other["txn"])
        if before != after:
            edges.setdefault(before, {}).setdefault(after, other)
    return edges


def _read_order(reads: Iterable[_Read]) -> dict[TransactionKey, dict[TransactionKey, Row]]:
    """Edges from each transaction to those that read its records."""
    edges: dict[TransactionKey, dict[TransactionKey, Row]] = {}
    for read in reads:
        edges.setdefault(read.of, {}).setdefault(read.by, read.row)
    return edges


def _intermediate(reads: Sequence[_Read], records: Iterable[Row]) -> list[dict[str, Any]]:
    """G1b: a transaction read a part of what another one wrote to a partition, and not the end of it."""
    last: dict[tuple[Any, ...], int] = {}
    for row in records:
        if row["offset"] is not None:
            key = (row["writer"], row["txn"], row["topic"], row["partition"])
            last[key] = max(row["offset"], last.get(key, -1))
    newest: dict[tuple[Any, ...], _Read] = {}
    for read in reads:
        key = (read.by, read.of, read.row["topic"], read.row["partition"])
        if key not in newest or read.row["offset"] > newest[key].row["offset"]:
            newest[key] = read
    return [
        _of_read("G1b", read, True)
        for (_, of, topic, partition), read in newest.items()
        if read.row["offset"] < last.get((*of, topic, partition), -1)
    ]


# ---- cycles


def _cycles(graph: Graph, through: Graph | None = None) -> list[list[TransactionKey]]:
    """A shortest cycle of each strongly connected component; with ``through``, a cycle with such an edge."""
    cycles = []
    for component in _components(graph):
        members = set(component)
        starts = sorted(
            (one, other)
            for one in members
            for other in (graph if through is None else through).get(one, ())
            if other in members
        )
        paths = [path for one, other in starts if (path := _path(graph, other, one, members))]
        if paths:
            cycle = min(paths, key=lambda path: (len(path), path))
            turn = cycle.index(min(cycle))
            cycles.append(cycle[turn:] + cycle[:turn])
    return sorted(cycles)


def _path(
    graph: Graph, start: TransactionKey, end: TransactionKey, within: set[TransactionKey]
) -> list[TransactionKey]:
    """The shortest way from one transaction to another, both included; empty if there is none."""
    came: dict[TransactionKey, TransactionKey | None] = {start: None}
    ahead = deque([start])
    while ahead:
        node = ahead.popleft()
        if node == end:
            path = [node]
            while (before := came[path[-1]]) is not None:
                path.append(before)
            return path[::-1]
        for other in sorted(graph.get(node, ())):
            if other in within and other not in came:
                came[other] = node
                ahead.append(other)
    return []


def _components(graph: Graph) -> list[list[TransactionKey]]:
    """Strongly connected components of more than one transaction (Tarjan's algorithm, without recursion)."""
    index: dict[TransactionKey, int] = {}
    low: dict[TransactionKey, int] = {}
    stack: list[TransactionKey] = []
    on_stack: set[TransactionKey] = set()
    components = []
    for root in sorted(graph):
        if root in index:
            continue
        work: list[tuple[TransactionKey, Iterable[TransactionKey]]] = [(root, iter(graph.get(root, ())))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(graph.get(other, ()))))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component: list[TransactionKey] = []
                    while not component or component[-1] != node:
                        component.append(stack.pop())
                        on_stack.discard(component[-1])
                    if len(component) > 1:
                        components.append(component)
    return components


# ---- rows


def _of_read(anomaly: str, read: _Read, allowed: bool) -> dict[str, Any]:
    names = ("topic", "partition", "offset", "seq")
    return {
        "anomaly": anomaly,
        "allowed": allowed,
        "writer": read.row["writer"],
        "txn": read.by[1],
        "transactions": [_name(read.of), _name(read.by)] if read.of != read.by else [_name(read.by)],
        "detail": facts_text(reader=_name(read.by), writer=_name(read.of)),
        **{name: read.row[name] for name in names},
    }


def _of_cycle(anomaly: str, cycle: list[TransactionKey], graph: Graph, allowed: bool) -> dict[str, Any]:
    steps = []
    for one, other in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
        row = graph[one][other]
        steps.append(
            {
                "transaction": _name(other),
                "step": "read" if "txn_writer" in row else "wrote_after",
                "other": _name(one),
                "partition": f"{row['topic']}/{row['partition']}",
                "offset": row["offset"],
            }
        )
    first = graph[cycle[0]][cycle[1]]
    names = ("topic", "partition", "offset", "writer", "seq")
    return {
        "anomaly": anomaly,
        "allowed": allowed,
        "txn": cycle[0][1],
        "transactions": [_name(node) for node in cycle],
        "detail": facts_text(steps=steps),
        **{name: first[name] for name in names},
    }


def _name(transaction: TransactionKey) -> str:
    return f"{transaction[0]}/{transaction[1]}"

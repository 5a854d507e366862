"""Random transactions that read and write: the anomalies by their definitions, over all pairs and paths.

The definitions are evaluated on sets of edges and their transitive closure, without the checker's code.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from checkers.transactions import isolation
from checkers.transactions.isolation import TRANSACTION_READ_COLUMNS, anomalies_of
from tests.mutants import Mutant, mutated

Node = tuple[int, int]
Edges = set[tuple[Node, Node]]
RECORD_COLUMNS = ("topic", "partition", "offset", "writer", "seq", "txn", "state")
COMMITTED = ("readable", "blocked")
ENDS = (*COMMITTED, "readable", "aborted", "undecided")
SCHEMA = {"topic": pa.string(), "reader": pa.int32(), "isolation": pa.string(), "state": pa.string()}


@dataclass
class World:
    """Records in the order of their offsets, and reads of them."""

    records: list[dict[str, Any]] = field(default_factory=list)
    reads: list[dict[str, Any]] = field(default_factory=list)

    def tables(self) -> tuple[pa.Table, pa.Table]:
        """The arguments of `anomalies_of`."""
        return _table(self.reads, TRANSACTION_READ_COLUMNS), _table(self.records, RECORD_COLUMNS)


def _table(rows: list[dict[str, Any]], names: Iterable[str]) -> pa.Table:
    return pa.table(
        {name: pa.array([row[name] for row in rows], SCHEMA.get(name, pa.int64())) for name in names}
    )


def planted(seed: int) -> World:
    """Two to six transactions, each with up to three messages in up to three partitions, and a few reads."""
    rng = random.Random(seed)
    world = World()
    nodes = [(writer, rng.randint(1, 2)) for writer in range(1, rng.randint(2, 6) + 1)]
    ends = {node: rng.choice(ENDS) for node in nodes}
    writes = [node for node in nodes for _ in range(rng.randint(0, 3))]
    rng.shuffle(writes)
    offsets = [0, 0, 0]
    for seq, (writer, txn) in enumerate(writes):
        partition = rng.randrange(3)
        offsets[partition] += rng.randint(1, 2)
        place = {"topic": "t", "partition": partition, "offset": offsets[partition]}
        world.records.append(place | {"writer": writer, "seq": seq, "txn": txn, "state": ends[writer, txn]})
    if world.records:
        for _ in range(rng.randint(0, 9)):
            record, (writer, txn) = rng.choice(world.records), rng.choice(nodes)
            level = rng.choice(("read_committed", "read_committed", "read_uncommitted"))
            place = {name: record[name] for name in ("topic", "partition", "offset", "writer", "seq")}
            by = {"reader": writer, "ns": len(world.reads), "txn_writer": writer, "txn": txn}
            world.reads.append(place | by | {"isolation": level})
    return world


def _closure(edges: Edges) -> Edges:
    reach = set(edges)
    while more := {(a, d) for a, b in reach for c, d in reach if b == c} - reach:
        reach |= more
    return reach


def _components(edges: Edges) -> set[frozenset[Node]]:
    """Sets of transactions that lead to each other."""
    reach = _closure(edges)
    return {
        frozenset(other for _, other in reach if (node, other) in reach and (other, node) in reach)
        for node, again in reach
        if node == again
    }


def _shortest(edges: Edges, component: frozenset[Node], through: Edges) -> int | None:
    """The length of a shortest circle in a component that has an edge of ``through``."""
    inside = {(one, other) for one, other in edges if {one, other} <= component}
    lengths = []
    for start, after in inside & through:
        ahead, length = {after}, 1
        while ahead and start not in ahead and length <= len(component):
            ahead, length = {other for one, other in inside if one in ahead}, length + 1
        if start in ahead:
            lengths.append(length)
    return min(lengths, default=None)


def _names(nodes: Iterable[Node]) -> list[str]:
    return [f"{writer}/{txn}" for writer, txn in nodes]


def differences(world: World) -> list[str]:
    """What the checker says of a world and its definition does not, or the other way round."""
    anomalies = anomalies_of(*world.tables()).to_pylist()
    if not world.reads:
        return [f"without reads: {anomalies}"] if anomalies else []
    states = {row["seq"]: row for row in world.records}
    by_read = sorted(
        (row["anomaly"], row["allowed"], row["transactions"], row["partition"], row["offset"])
        for row in anomalies
        if row["anomaly"] not in ("G0", "G1c")
    )
    wrong = []
    if by_read != (expected := sorted(_of_reads(world, states))):
        wrong.append(f"reads: {by_read} instead of {expected}")
    ww, wr, clean = _edges(world, states)
    g0 = [row for row in anomalies if row["anomaly"] == "G0"]
    g1c = [row for row in anomalies if row["anomaly"] == "G1c"]
    wrong += _circles("G0", g0, ww)
    wrong += _circles("circular", [row for row in g1c if not row["allowed"]], clean)
    if not all(row["allowed"] for row in g0):
        wrong.append("G0 is always allowed")
    both = ww | wr
    circles = [_read_back(row["transactions"]) for row in g1c]
    for component in _components(both):
        if _shortest(both, component, wr) and not any(set(circle) & component for circle in circles):
            wrong.append(f"no G1c in {sorted(component)}")
    if len({node for circle in circles for node in circle}) < sum(map(len, circles)):
        wrong.append(f"{circles} have transactions in common")
    for circle in circles:
        steps = set(zip(circle, [*circle[1:], circle[0]], strict=True))
        if not steps <= both or not steps & wr:
            wrong.append(f"{circle} is no circle with a read")
    return wrong


def _read_back(names: list[str]) -> list[Node]:
    return [(int(writer), int(txn)) for writer, txn in (name.split("/") for name in names)]


def _circles(anomaly: str, anomalies: list[dict[str, Any]], edges: Edges) -> Iterable[str]:
    """Each component has one circle, of the shortest length; and nothing else is one."""
    left = [_read_back(row["transactions"]) for row in anomalies]
    for component in _components(edges):
        length = _shortest(edges, component, edges)
        circles = [circle for circle in left if set(circle) <= component]
        if [len(circle) for circle in circles] != ([length] if length else []):
            yield f"{anomaly} in {sorted(component)}: {circles} instead of one of length {length}"
        left = [circle for circle in left if circle not in circles]
        for circle in circles:
            if not set(zip(circle, [*circle[1:], circle[0]], strict=True)) <= edges:
                yield f"{anomaly}: {circle} is no circle"
    if left:
        yield f"{anomaly}: {left} in no component"


def _edges(world: World, states: dict[int, dict[str, Any]]) -> tuple[Edges, Edges, Edges]:
    """Write order, reads, and `read_committed` reads alone."""
    ww: Edges = set()
    for one in world.records:
        for other in world.records:
            between = [
                row
                for row in world.records
                if row["partition"] == one["partition"]
                and row["state"] in COMMITTED
                and one["offset"] < row["offset"] < other["offset"]
            ]
            if (
                one["partition"] == other["partition"]
                and one["offset"] < other["offset"]
                and {one["state"], other["state"]} <= set(COMMITTED)
                and not between
            ):
                ww.add(((one["writer"], one["txn"]), (other["writer"], other["txn"])))
    reads = [(_of(states, read), _by(read), read["isolation"]) for read in world.reads]
    wr = {(of, by) for of, by, _ in reads}
    clean = {(of, by) for of, by, level in reads if level == "read_committed"}
    return tuple({(a, b) for a, b in edges if a != b} for edges in (ww, wr, clean))  # type: ignore[return-value]


def _of(states: dict[int, dict[str, Any]], read: dict[str, Any]) -> Node:
    return states[read["seq"]]["writer"], states[read["seq"]]["txn"]


def _by(read: dict[str, Any]) -> Node:
    return read["txn_writer"], read["txn"]


def _of_reads(world: World, states: dict[int, dict[str, Any]]) -> Iterable[tuple[Any, ...]]:
    for read in world.reads:
        of, by, dirty = _of(states, read), _by(read), read["isolation"] == "read_uncommitted"
        place = (read["partition"], read["offset"])
        if of == by:
            yield ("precommitted_read", dirty, _names([by]), *place)
            continue
        if states[read["seq"]]["state"] == "aborted":
            yield ("G1a", dirty, _names([of, by]), *place)
    for by in {_by(read) for read in world.reads}:
        for of in {_of(states, read) for read in world.reads} - {by}:
            for partition in range(3):
                written = [
                    row["offset"]
                    for row in world.records
                    if (row["writer"], row["txn"], row["partition"]) == (*of, partition)
                ]
                seen = [
                    read["offset"]
                    for read in world.reads
                    if (_by(read), _of(states, read), read["partition"]) == (by, of, partition)
                ]
                if seen and max(seen) < max(written):
                    yield ("G1b", True, _names([of, by]), partition, max(seen))


@pytest.mark.parametrize("part", range(3))
def test_anomalies_are_those_of_their_definitions(part: int) -> None:
    """Three hundred worlds each."""
    for number in range(part * 300, part * 300 + 300):
        assert not differences(planted(number)), number


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_ten_thousand_worlds(part: int) -> None:
    """A thousand worlds each."""
    for number in range(part * 1000, part * 1000 + 1000):
        assert not differences(planted(number)), number


MUTANTS = {
    "a circle of committed reads hides behind one of uncommitted reads": Mutant(
        isolation.anomalies_of, "if not _dirty(read.row))", "if True)"
    ),
    "a circle that a reported one touches is reported again": Mutant(
        isolation.anomalies_of, "covered |= set(cycle)", "covered |= set() if graph is wr else set(cycle)"
    ),
    "write order alone is a circular read": Mutant(
        isolation.anomalies_of, "(both, wr, True)", "(both, both, True)"
    ),
    "aborted writes have an order": Mutant(isolation._write_order, 'row["state"] in COMMITTED', "True"),
    "writes that are not readable yet have none": Mutant(
        isolation._write_order, 'row["state"] in COMMITTED', 'row["state"] == "readable"'
    ),
    "writes of two partitions have an order": Mutant(
        isolation._write_order, "            continue", "            pass"
    ),
    "the end of a transaction is its first record": Mutant(
        isolation._intermediate, 'max(row["offset"], last.get(key, -1))', 'last.get(key, row["offset"])'
    ),
    "the oldest read decides": Mutant(
        isolation._intermediate, 'read.row["offset"] > newest[key]', 'read.row["offset"] < newest[key]'
    ),
    "a component is not closed": Mutant(
        isolation._components, "low[work[-1][0]] = min(low[work[-1][0]], low[node])", "pass"
    ),
    "any circle is the shortest": Mutant(
        isolation._cycles, "min(paths, key=lambda path: (len(path), path))", "paths[0]"
    ),
    "a read of an aborted record does not count": Mutant(
        isolation.anomalies_of, 'read.state == "aborted"', 'read.state == "undecided"'
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_noticed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Within the worlds of the short tests."""
    mutant = MUTANTS[name]
    monkeypatch.setattr(mutant.function, "__code__", mutated(mutant).__code__)
    assert any(differences(planted(number)) for number in range(900))

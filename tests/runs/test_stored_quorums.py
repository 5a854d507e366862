"""No fault of a scenario that starts one ZooKeeper node or controller ends, isolates or divides these nodes.

The runs of these scenarios that are stored here had three such nodes, so that a cut between them would show.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import pytest

from scenarios.catalogue import all_scenarios
from tests.runs.stored import read_stored

_QUORUM = ("zookeeper", "controller")
SCENARIOS = {name: one for name, one in all_scenarios().items() if one.mode != "kraft-combined"}


def _of_the_quorum(host: str) -> bool:
    return host.startswith(_QUORUM)


def _reached(targets: Mapping[str, list[str]]) -> Iterator[str]:
    """Nodes of the quorum among the hosts, and links between two of them."""
    yield from filter(_of_the_quorum, targets.get("hosts", []))
    for link in targets.get("links", []):
        if all(_of_the_quorum(end) for end in link.split(" -> ")):
            yield link


def _faults_on_the_quorum(name: str) -> set[str]:
    rows = read_stored(name).tables["faults"].to_pylist()
    return {
        f"{row['name']}: {target}"
        for row in rows
        if row["moment"] == "injected"
        for target in _reached(json.loads(row["targets"] or "{}"))
    }


@pytest.mark.parametrize("name", [name for name, one in SCENARIOS.items() if one.setup.quorum == "one node"])
def test_no_fault_reaches_a_quorum_of_one_node(name: str) -> None:
    assert _faults_on_the_quorum(name) == set()


@pytest.mark.parametrize(
    "name", ["leader-az-isolated", "bridge", "kraft-quorum-lost", "kraft-zombie-controller"]
)
def test_faults_that_reach_a_quorum_are_seen(name: str) -> None:
    """The control: these end nodes of the quorum, or cut links between them."""
    assert SCENARIOS[name].setup.quorum == "every AZ"
    assert _faults_on_the_quorum(name)

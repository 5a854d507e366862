"""Configuration of ZooKeeper nodes."""

from __future__ import annotations

from harness.kafka.config import zookeeper_properties


def test_a_single_node_has_no_peers() -> None:
    """ZooKeeper logs an ERROR if a node is given itself as the only server; a run would be *violated*."""
    properties = zookeeper_properties("/data", {1: "198.18.0.11"})
    assert properties["dataDir"] == "/data"
    assert [key for key in properties if key.startswith("server.")] == []


def test_nodes_of_an_ensemble_name_each_other() -> None:
    properties = zookeeper_properties("/data", {2: "198.18.0.12", 1: "198.18.0.11"})
    assert {key: value for key, value in properties.items() if key.startswith("server.")} == {
        "server.1": "198.18.0.11:2888:3888",
        "server.2": "198.18.0.12:2888:3888",
    }

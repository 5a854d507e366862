"""Data folders of KRaft nodes: cloned from one formatted folder, with a vote cast in advance."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cluster.kraft_storage import METADATA_PARTITION, cast_vote, clone
from harness.kafka.config import BASE_RAFT, CALM_OBSERVER, KRaftNode, kraft_properties

FETCH_TIMEOUT = "controller.quorum.fetch.timeout.ms"
VOTERS = {1: "198.18.0.21", 2: "198.18.0.22", 3: "198.18.0.23"}


def properties(file: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in file.read_text().splitlines())


@pytest.fixture
def template(tmp_path: Path) -> Path:
    """The formatted folder of Kafka 3.7 and later."""
    folder = tmp_path / "template"
    folder.mkdir()
    (folder / "bootstrap.checkpoint").write_bytes(b"\0records")
    (folder / "meta.properties").write_text("version=1\ncluster.id=abc\nnode.id=1\ndirectory.id=old\n")
    return folder


def test_a_clone_is_a_node_of_its_own(template: Path, tmp_path: Path) -> None:
    """It has the same cluster id and bootstrap records, but its own node id and directory id."""
    first, second = tmp_path / "a" / "data", tmp_path / "b" / "data"
    clone(template, first, 2)
    clone(template, second, 3)
    one, other = properties(first / "meta.properties"), properties(second / "meta.properties")
    assert (one["node.id"], other["node.id"]) == ("2", "3")
    assert one["cluster.id"] == other["cluster.id"] == "abc"
    assert len({one["directory.id"], other["directory.id"], "old"}) == 3
    assert len(one["directory.id"]) == 22
    assert (first / "bootstrap.checkpoint").read_bytes() == b"\0records"


def test_only_one_folder_of_a_node_has_its_metadata_log(template: Path, tmp_path: Path) -> None:
    (template / METADATA_PARTITION).mkdir()
    clone(template, tmp_path / "data", 2)
    clone(template, tmp_path / "data2", 2, metadata=False)
    assert (tmp_path / "data" / METADATA_PARTITION).is_dir()
    assert sorted(path.name for path in (tmp_path / "data2").iterdir()) == [
        "bootstrap.checkpoint",
        "meta.properties",
    ]


def test_a_folder_that_exists_is_filled(template: Path, tmp_path: Path) -> None:
    """A disk that can lose power is mounted before."""
    data = tmp_path / "data"
    data.mkdir()
    clone(template, data, 2)
    assert properties(data / "meta.properties")["node.id"] == "2"


def test_before_3_7_there_is_no_directory_id(template: Path, tmp_path: Path) -> None:
    """A key that the version does not know must be absent."""
    (template / "meta.properties").write_text("version=1\ncluster.id=abc\nnode.id=1\n")
    clone(template, tmp_path / "data", 11)
    assert properties(tmp_path / "data" / "meta.properties") == {
        "version": "1",
        "cluster.id": "abc",
        "node.id": "11",
    }


def test_every_voter_starts_as_one_that_has_voted(tmp_path: Path) -> None:
    """The quorum state file that Kafka reads at start has no leader and one vote in epoch 1."""
    cast_vote(tmp_path, 12, (13, 11, 12))
    state = json.loads((tmp_path / METADATA_PARTITION / "quorum-state").read_text())
    assert state["votedId"] == 12
    assert (state["leaderId"], state["leaderEpoch"]) == (-1, 1)
    assert [voter["voterId"] for voter in state["currentVoters"]] == [11, 12, 13]


@pytest.mark.parametrize(
    ("roles", "listeners"),
    [
        (("controller",), "CONTROLLER://198.18.0.21:9093"),
        (("broker",), "PLAINTEXT://198.18.0.21:9092"),
        (("broker", "controller"), "PLAINTEXT://198.18.0.21:9092,CONTROLLER://198.18.0.21:9093"),
    ],
)
def test_listeners_follow_the_roles(roles: tuple[str, ...], listeners: str) -> None:
    """All nodes have the same voters and the same quorum timeouts."""
    node = KRaftNode(node_id=1, roles=roles, az="az1", address="198.18.0.21", data_dir="/data", voters=VOTERS)
    properties = kraft_properties(node, {})
    assert properties["listeners"] == listeners
    assert properties["controller.quorum.voters"] == (
        "1@198.18.0.21:9093,2@198.18.0.22:9093,3@198.18.0.23:9093"
    )
    assert properties.items() >= BASE_RAFT.items()
    assert ("advertised.listeners" in properties) == ("broker" in roles)


def test_a_controller_hears_of_what_decides_elections() -> None:
    """The controller elects leaders, so it needs `unclean.leader.election.enable`, but no fetch sizes."""
    node = KRaftNode(
        node_id=11, roles=("controller",), az="az1", address="198.18.0.41", data_dir="/data", voters=VOTERS
    )
    asked = {"unclean.leader.election.enable": "true", "replica.fetch.wait.max.ms": "20000"}
    properties = kraft_properties(node, asked)
    assert properties["unclean.leader.election.enable"] == "true"
    assert "replica.fetch.wait.max.ms" not in properties


@pytest.mark.parametrize(
    ("roles", "asked", "expected"),
    [
        (("broker",), {}, CALM_OBSERVER[FETCH_TIMEOUT]),
        (("broker",), {FETCH_TIMEOUT: "5000"}, "5000"),
        (("broker", "controller"), {}, BASE_RAFT[FETCH_TIMEOUT]),
        (("controller",), {}, BASE_RAFT[FETCH_TIMEOUT]),
    ],
)
def test_only_a_node_that_cannot_lead_the_quorum_gets_the_long_fetch_timeout(
    roles: tuple[str, ...], asked: dict[str, str], expected: str
) -> None:
    """A controller elects when the time-out has passed."""
    node = KRaftNode(node_id=1, roles=roles, az="az1", address="198.18.0.21", data_dir="/data", voters=VOTERS)
    assert kraft_properties(node, asked, observer=CALM_OBSERVER)[FETCH_TIMEOUT] == expected


def test_keys_that_a_version_does_not_know_are_left_out() -> None:
    """They would fill the log with warnings and appear to take effect."""
    node = KRaftNode(
        node_id=1, roles=("broker",), az="az1", address="198.18.0.21", data_dir="/data", voters=VOTERS
    )
    properties = kraft_properties(node, {}, frozenset({"controller.socket.timeout.ms"}))
    assert "controller.socket.timeout.ms" not in properties

"""Cluster files: what they say, and one sentence with line, key, value and remedy for a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cluster.cluster_file import read_cluster_file
from harness.errors import UsageError
from harness.lab.layout import THREE_AZS, AvailabilityZone
from tests.unit.cluster.malformed import AZ, CLUSTER_FILES

EXAMPLES = Path(__file__).parents[3] / "examples" / "clusters"
NEEDED = "in any AZ; mode zookeeper needs at least one."


def _read(tmp_path: Path, text: str | bytes) -> str:
    """The sentence with which a file is rejected, without its path."""
    path = tmp_path / "cluster.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UsageError) as refused:
        read_cluster_file(path)
    assert "\n" not in refused.value.message
    return refused.value.message.replace(f"{path}", "FILE")


def test_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text(f'kafka = "3.9.1"\nmode = "kraft"\n{AZ}brokers = 2\ncontrollers = 3\nclients = 2\n')
    described = read_cluster_file(path)
    assert (described.kafka, described.mode) == ("3.9.1", "kraft")
    assert described.layout.azs == (AvailabilityZone(name="a", brokers=2, controllers=3, clients=2),)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_examples(path: Path) -> None:
    layout = read_cluster_file(path).layout
    assert layout.topology("zookeeper").hosts
    assert (layout == THREE_AZS) == (path.stem == "three-azs")


@pytest.mark.parametrize(("text", "sentence"), CLUSTER_FILES)
def test_what_a_file_should_not_say(tmp_path: Path, text: str | bytes, sentence: str) -> None:
    assert _read(tmp_path, text) == sentence


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file or directory; name a cluster file in TOML"):
        read_cluster_file(tmp_path / "none.toml")
    with pytest.raises(UsageError, match="Is a directory"):
        read_cluster_file(tmp_path)

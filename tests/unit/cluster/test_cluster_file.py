"""Cluster files: what they say, and one sentence with line, key, value and remedy for a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cluster.cluster_file import read_cluster_file
from harness.errors import UsageError
from harness.lab.layout import THREE_AZS, AvailabilityZone

EXAMPLES = Path(__file__).parents[3] / "examples" / "clusters"
NEEDED = "in any AZ; mode zookeeper needs at least one."
AZ = '[[az]]\nname = "a"\n'


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
    found = read_cluster_file(path)
    assert (found.kafka, found.mode) == ("3.9.1", "kraft")
    assert found.layout.azs == (AvailabilityZone(name="a", brokers=2, controllers=3, clients=2),)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_examples(path: Path) -> None:
    layout = read_cluster_file(path).layout
    assert layout.topology("zookeeper").hosts
    assert (layout == THREE_AZS) == (path.stem == "three-azs")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "FILE: az is missing; add an [[az]] table for each AZ."),
        ('kafka = "2.7.1"\n', "FILE: az is missing; add an [[az]] table for each AZ."),
        ("[az]\nname = 'a'\n", "FILE:1: [az] is a single table; write [[az]], with two brackets."),
        ("az = []\n", "FILE:1: az = []: write an [[az]] table for each AZ."),
        (AZ * 1 + AZ, "FILE:4: name = 'a': two AZs have this name; give each one of its own."),
        ("[[az]]\n", 'FILE:1: name is missing; add name = "...".'),
        (f"{AZ}[[az]]\nbrokers = 1\n", 'FILE:3: name is missing; add name = "...".'),
        ("[[az]]\nname = 7\n", "FILE:2: name = 7: write text in quotes."),
        (f'{AZ}brokers = "3"\n', "FILE:3: brokers = '3': write a whole number without quotes."),
        (f"{AZ}brokers = 1.5\n", "FILE:3: brokers = 1.5: write a whole number without quotes."),
        (f"{AZ}brokers = true\n", "FILE:3: brokers = True: write a whole number without quotes."),
        (f"{AZ}brokers = -1\n", "FILE:3: brokers = -1: write a number of at least 0."),
        (f"{AZ}brokers = 49\n", "FILE:3: brokers = 49: write a number of at most 48."),
        (f"{AZ}zookeepers = 10\n", "FILE: The cluster has 10 zookeepers; use at most 9."),
        (
            f"{AZ}brokers = 0\n",
            "FILE: The cluster has no broker in any AZ; mode zookeeper needs at least one.",
        ),
        (
            f"{AZ}clients = 0\n",
            "FILE: The cluster has no client in any AZ; mode zookeeper needs at least one.",
        ),
        (
            f"{AZ}broker = 3\n",
            "FILE:3: there is no key 'broker' here; use name, brokers, zookeepers, controllers, clients.",
        ),
        (
            f'version = "2.7.1"\n{AZ}',
            "FILE:1: there is no key 'version' here; use kafka, mode, az, broker, topic, producer, consumer.",
        ),
        (f'mode = "raft"\n{AZ}', "FILE:1: mode = 'raft': use zookeeper, kraft, kraft-combined, migration."),
        (f"kafka = 2.7\n{AZ}", "FILE:1: kafka = 2.7: write text in quotes."),
        (
            f'mode = "kraft"\n{AZ}zookeepers = 1\n',
            "FILE:4: zookeepers = 1: mode 'kraft' has no zookeepers; remove the line.",
        ),
        (
            f'mode = "kraft-combined"\n{AZ}controllers = 1\n',
            "FILE:4: controllers = 1: mode 'kraft-combined' has no controllers; remove the line.",
        ),
        (
            '[[az]]\nname = "brokers"\n',
            "FILE:2: name = 'brokers': names such as az1, broker1 and brokers have a meaning in faults; "
            "choose another one.",
        ),
        (
            f'{AZ}[[az]]\nname = "az1"\n',
            "FILE:4: name = 'az1': names such as az1, broker1 and brokers have a meaning in faults; choose "
            "another one.",
        ),
        (
            '[[az]]\nname = "a b"\n',
            "FILE:2: name = 'a b': begin with a letter, and use up to 40 letters, digits, '.', '_' and '-'.",
        ),
        (
            '[[az]]\nname = ""\n',
            "FILE:2: name = '': begin with a letter, and use up to 40 letters, digits, '.', '_' and '-'.",
        ),
        ("az = 3\n", "FILE:1: az = 3: write an [[az]] table for each AZ."),
        (
            "".join(f'[[az]]\nname = "{name}"\n' for name in "abcdef"),
            "FILE: the file has 6 AZs; at most 5 are possible.",
        ),
        (
            "[[az]\n",
            "FILE:1: [[az]: expected ']]' at the end of an array declaration; end the line with ]].",
        ),
        (
            "kafka 2.7.1\n",
            "FILE:1: kafka 2.7.1: expected '=' after a key in a key/value pair; write key = value.",
        ),
        (
            "[az.paris]\nbrokers = 1\n",
            'FILE:1: [az.paris]: write [[az]], and name = "paris" below it.',
        ),
        (
            f"{AZ}[topics.orders]\npartitions = 3\n",
            "FILE:3: there is no table 'topics'; did you mean [topic.orders]?",
        ),
        (
            f"{AZ}[zone]\npartitions = 3\n",
            "FILE:3: there is no table 'zone'; use kafka, mode, az, broker, topic, producer, consumer.",
        ),
        ('[[azs]]\nname = "a"\n', "FILE:1: there is no table 'azs'; did you mean [[az]]?"),
        (
            "[[az]]\nname = north\n",
            'FILE:2: name = north: invalid value; write text in quotes, name = "north".',
        ),
        (
            f"{AZ}[broker]\na.b = 1\n[broker]\n",
            "FILE:5: [broker]: cannot declare ('broker',) twice; the file has this table already; write it "
            "once, with all its keys.",
        ),
        (
            f'{AZ}kafka = "2.7.1',
            'FILE:3: kafka = "2.7.1: unterminated string; end the text with a quote.',
        ),
        (b"\xff\xfe", "FILE cannot be read: it is not UTF-8 text; name a cluster file in TOML."),
    ],
)
def test_what_a_file_should_not_say(tmp_path: Path, text: str | bytes, sentence: str) -> None:
    assert _read(tmp_path, text) == sentence


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file or directory; name a cluster file in TOML"):
        read_cluster_file(tmp_path / "none.toml")
    with pytest.raises(UsageError, match="Is a directory"):
        read_cluster_file(tmp_path)

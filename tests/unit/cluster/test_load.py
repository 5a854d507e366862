"""The table `[load]`: sizes and keys of messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cluster.cluster_file import read_cluster_file
from harness.cluster.load import NO_SHAPE, MessageShape, message_shape
from harness.cluster.settings import Settings
from harness.cluster.settings_files import read_options
from harness.errors import UsageError


def shape(*options: str) -> MessageShape:
    """What `--set` gives."""
    return message_shape(read_options([f"load.{option}" for option in options]).load)


def test_options() -> None:
    assert shape() == NO_SHAPE
    assert shape("size=100") == MessageShape(sizes=(100,))
    assert shape("size=100, 100,2000", "keys=50", "skew=1.2") == MessageShape(
        sizes=(100, 100, 2000), keys=50, skew=1.2
    )


def test_a_cluster_file(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text('[[az]]\nname = "a"\n[load]\nsize = [100, 2000]\nkeys = 7\n')
    settings = read_cluster_file(file).settings
    assert message_shape(settings.load) == MessageShape(sizes=(100, 2000), keys=7)
    assert Settings.from_json(settings.as_json()) == settings
    asked = read_options(["load.keys=9"]).over(settings)
    assert message_shape(asked.load) == MessageShape(sizes=(100, 2000), keys=9)


def test_a_file_of_sizes(tmp_path: Path) -> None:
    file = tmp_path / "sizes.txt"
    file.write_text("300\n\n100\n200\n")
    assert shape(f"size-file={file}").sizes == (100, 200, 300)
    file.write_text("\n".join(str(size) for size in range(1, 10_001)))
    sizes = shape(f"size-file={file}").sizes
    assert len(sizes) == 1000 and sizes[:2] == (6, 16) and sizes[-1] == 9996


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["sizes=3"], "--set: 'sizes' is no setting of a load: did you mean size?"),
        (["size=0"], "--set: size: '0': give whole numbers from 1 to 1000000."),
        (["size=1,x"], "--set: size: 'x': give whole numbers"),
        (["keys=20000"], "--set: keys: '20000': give whole numbers from 1 to 10000."),
        (["skew=1"], "--set: skew: messages have no keys; give keys, too."),
        (["keys=2", "skew=x"], "--set: skew: 'x': give a number from 0"),
        (["keys=2", "skew=nan"], "--set: skew: 'nan': give a number from 0"),
        (["size=1", "size-file=a"], "--set: size-file: --set: size=1 is given, too; keep one of them."),
        (["size-file=/nowhere"], "size-file '/nowhere' cannot be read"),
    ],
)
def test_mistakes(options: list[str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as caught:
        shape(*options)
    assert len(caught.value.message) <= 300


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("", "has no sizes"), ("5\nx\n", "line 2: 'x': give a size"), ("-1", "line 1: '-1'")],
)
def test_mistakes_in_a_file(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "sizes.txt"
    file.write_text(text)
    with pytest.raises(UsageError, match=sentence):
        shape(f"size-file={file}")

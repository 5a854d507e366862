"""Files of every format with random changes are read, or refused in one sentence, also by the checker."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest

from harness.errors import AckedError
from tests.sampling import every
from tests.unit.imports import test_other_imports as others
from tests.unit.imports.judging import dump, judged
from tests.unit.imports.test_jepsen_import import five

Files = Sequence[str | Path]
TOKENS = (
    *(b"-1", b"9223372036854775807", b"9223372036854775808", b"99999999999999999999999", b"nil", b"null"),
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b"\n",
        b"\t",
        b"\x00",
        b"\xff",
        b"1e999",
        b"0.5",
        b"true",
        b"",
        b" ",
        b"\\u0000",
    ),
)


def jepsen(folder: Path) -> Files:
    file = folder / "history.edn"
    ops = five().op(3, "ok", "subscribe", "[0]", ", :rebalance-log [{:keys [0]}]").from_the_beginning(9)
    file.write_text("\n".join(ops.poll(9, k0=[(n, n) for n in range(5)]).lines))
    return [file]


def verifiable(folder: Path) -> Files:
    sent = [others.success(n, n) for n in range(4)]
    read = [{**others.RECORD, "topic": "orders", "offset": n, "value": str(n)} for n in range(4)]
    place = {"topic": "orders", "partition": 0}
    ends = [{"name": "offsets_committed", "offsets": [{**place, "offset": 4}], "success": True}]
    ends += [{"name": "partitions_revoked", "partitions": [place]}]
    producer = others.events(folder / "producer.json", *sent, others.failure(4))
    consumer = others.events(folder / "consumer.json", *read, *ends)
    return [producer, consumer, *dump(folder, {1: [(n, 0, None, str(n)) for n in range(4)]})]


def kgo(folder: Path) -> Files:
    file = others.state(folder, [(0, 6), (7, 9)], [(0, 2)])
    return [file, *dump(folder, {1: [others.kgo(0), (1, 0, None, "COMMIT"), others.kgo(2)]})]


def openchaos(folder: Path) -> Files:
    file = others.chaos(folder / "history", *(line for value in range(4) for line in others.sent(value)))
    return [file, *dump(folder, {1: [(0, 0, None, "0")]})]


def columns(folder: Path) -> Files:
    return [others.mapped(folder)]


@pytest.mark.parametrize("seed", every(3, range(3)))
@pytest.mark.parametrize(
    ("form", "make"),
    [
        ("jepsen", jepsen),
        ("verifiable", verifiable),
        ("kgo-verifier", kgo),
        ("openchaos", openchaos),
        ("columns", columns),
    ],
)
def test_changed_files(tmp_path: Path, form: str, make: Callable[[Path], Files], seed: int) -> None:
    random = Random(seed)
    files = make(tmp_path)
    read = refused = 0
    sources = [file for file in tmp_path.iterdir() if file.is_file() and file.suffix != ".parquet"]
    for number in range(60):
        file = random.choice(sources)
        before = file.read_bytes()
        data = before
        for _ in range(random.choice((1, 1, 3))):
            at = random.randrange(len(data) + 1)
            length = random.choice((0, 1, 1, 5, 20))
            data = data[:at] + random.choice(TOKENS) + data[at + length :]
        file.write_bytes(data)
        try:
            judged(form, files, tmp_path / f"imported-{number}")
            read += 1
        except AckedError as error:
            refused += 1
            assert "\n" not in error.message, json.dumps(error.message)
        file.write_bytes(before)
    assert read and refused

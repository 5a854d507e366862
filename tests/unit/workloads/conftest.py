from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_broker import FakeBroker
from local_lab import LocalLab

from harness.history.reads import read_blocks
from harness.history.sends import stream_rows
from harness.history.stream_journal import beside, read_header
from harness.kafka.model import Endpoint
from workloads.client.client import Client

Rows = Callable[[str], list[dict[str, Any]]]


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker() as running:
        yield running


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[LocalLab]:
    """A local lab; fails the test if a process that it started still runs at the end."""
    running = LocalLab(tmp_path)
    yield running
    running.down()


@pytest.fixture
def journal_path(tmp_path: Path) -> Path:
    return tmp_path / "client.jsonl"


@pytest.fixture
def client(lab: LocalLab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A client whose brokers are named by their addresses."""
    monkeypatch.setattr(Client, "broker", lambda _, host: Endpoint.parse(host))
    with Client(lab, "client1") as running:  # type: ignore[arg-type]
        yield running


@pytest.fixture
def rows(journal_path: Path) -> Rows:
    """Rows of one table in the client's journals, without the table's name or a last line cut short."""

    def read(table: str) -> list[dict[str, Any]]:
        if table == "reads":
            return [row for block in read_blocks(journal_path.parent) for row in block.to_pylist()]
        lines = journal_path.read_text().split("\n")[:-1]
        found = [json.loads(line) for line in lines]
        return [row for row in found if row.pop("table") == table]

    return read


@pytest.fixture
def sends(journal_path: Path) -> Callable[[], list[dict[str, Any]]]:
    """Rows of `sends` that the journal of the stream of writer 1 holds."""
    file = beside(journal_path, 1)
    return lambda: [row for block in stream_rows(file, read_header(file)) for row in block.to_pylist()]

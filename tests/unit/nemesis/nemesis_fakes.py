"""A topology, and a fault that only records how it was called."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.errors import AckedError
from harness.history.journal import Journal
from harness.lab.layout import three_azs
from harness.lab.model import Host, Topology

TOPOLOGY = three_azs("zookeeper")


def crowded() -> Topology:
    """Host names of which one is a prefix of another."""
    hosts = tuple(
        Host(
            name=f"broker{n}",
            role="broker",
            az=f"az{n}",
            address=f"198.18.0.{n + 100}",
            node_id=n,
            services={"kafka": (9092,)},
        )
        for n in (1, 10, 11, 2)
    )
    return Topology(hosts, "198.18.0.99")


class RecordingFault:
    """A fault that records each call; ``fails`` names the methods that raise."""

    kind = "link"
    mechanism = "cut"

    def __init__(self, name: str = "test", fails: Mapping[str, AckedError] | None = None) -> None:
        self.name = name
        self.calls: list[str] = []
        self.fails = dict(fails or {})
        self.undoable = True
        self.evidence: Any = {"proof": 1}

    def targets(self) -> Mapping[str, object]:
        return {"hosts": ["broker1"]}

    def _did(self, what: str) -> None:
        self.calls.append(what)
        if what in self.fails:
            raise self.fails[what]

    def inject(self) -> None:
        self._did("inject")

    def verify(self) -> Any:
        self._did("verify")
        return self.evidence

    def heal(self) -> None:
        self._did("heal")

    def verify_healed(self) -> Any:
        self._did("verify_healed")
        return {}


class Rows:
    """A journal, and its rows."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "journal.jsonl"
        self.journal = Journal(self.path)

    def all(self, where: Callable[[dict[str, Any]], bool] = lambda row: True) -> list[dict[str, Any]]:
        rows = [json.loads(line) for line in self.path.read_text().splitlines()]
        return [row for row in rows if where(row)]

    def moments(self) -> list[str]:
        return [row["moment"] for row in self.all()]

"""Faults in exports: operations of the nemesis, which Jepsen pairs one with the next and shades between."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from checkers.ask.jepsen.export import export
from tests.histories import History
from tests.jepsen import NEMESIS, analyse


def exported(history: History, folder: Path) -> list[dict[str, Any]]:
    """The operations of the nemesis. All are well formed."""
    export(history.write(folder), folder / "history.json")
    ops = json.loads((folder / "history.json").read_text())
    analyse(ops)
    return [op for op in ops if op["process"] == NEMESIS]


def fault(history: History, number: int, mechanism: str | None, **at: int) -> None:
    for moment, ns in at.items():
        row = {"ns": ns, "fault": number, "name": f'the "{number}"', "kind": "link", "moment": moment}
        history.add("faults", mechanism=mechanism, **row)


def test_faults_have_the_names_of_jepsens_nemeses(tmp_path: Path) -> None:
    history = History().send(0, offset=0, sent_ns=0, done_ns=5).logs([(0, 0)])
    fault(history, 1, "cut", injecting=10, injected=20, healing=30, healed=40)
    fault(history, 2, "power_cut", injecting=50, injected=51, healing=52, healed=53)
    fault(history, 3, "elect_preferred", injecting=60, injected=61)
    fault(history, 4, "kill", injecting=70, failed=71)
    fault(history, 5, None, injected=80)
    functions = ["start-partition", "stop-partition", "start-power-cut", "stop-power-cut", "elect-preferred"]
    ops = exported(history, tmp_path)
    assert [op["f"] for op in ops] == [name for name in (*functions, "kill", "other") for _ in range(2)]
    assert [op["time"] for op in ops] == [10, 20, 30, 40, 50, 51, 52, 53, 60, 61, 70, 71, 80, 80]
    assert {op["type"] for op in ops} == {"info"} and ops[0]["value"] == 'the "1"'


def test_overlapping_faults_follow_one_another(tmp_path: Path) -> None:
    """The checker pairs the events of the nemesis by their order alone."""
    history = History().send(0, offset=0, sent_ns=0, done_ns=5).logs([(0, 0)])
    fault(history, 1, "cut", injecting=10, injected=30, healing=50, healed=60)
    fault(history, 2, "pause", injecting=20, injected=25, healing=55, healed=58)
    ops = exported(history, tmp_path)
    assert [(op["f"], op["time"]) for op in ops] == [
        *(("start-partition", 10), ("start-partition", 30), ("pause", 30), ("pause", 30)),
        *(("stop-partition", 50), ("stop-partition", 60), ("resume", 60), ("resume", 60)),
    ]


def test_a_history_without_faults_has_no_nemesis(tmp_path: Path) -> None:
    assert exported(History().send(0, offset=0, sent_ns=0, done_ns=5).logs([(0, 0)]), tmp_path) == []

"""Every cause of a loss or a duplicate, each from the least evidence that proves it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.causes import NO_EVIDENCE
from checkers.evidence import gather
from checkers.fast.plan import judge_all
from checkers.fast.task import Job
from checkers.tables.source import open_source
from tests.histories import History

PLACE = {"topic": "t", "partition": 0}


def lost() -> History:
    """Message 1 was acknowledged by broker 1 at 1500 ns and is lost."""
    return History().send(0, offset=0, broker=1).send(1, offset=1, broker=1).logs([(0, 0)])


def led(history: History, ns: int, leader: int, epoch: int, isr: list[int]) -> History:
    said = {"source": f"broker{leader}", "subject": "partition", "leader": leader, "epoch": epoch, "isr": isr}
    return history.add("views", ns=ns, **said, **PLACE)


def fault(history: History, name: str, kind: str, since: int, until: int | None = None) -> History:
    row = {"fault": 1, "name": name, "kind": kind, "targets": '["broker1"]'}
    history.add("faults", ns=since, moment="injected", **row)
    return history if until is None else history.add("faults", ns=until, moment="healed", **row)


def cut(history: History, kind: str = "truncated") -> History:
    return history.add("log_events", ns=4000, host="broker1", kind=kind, offset=1, epoch=0, **PLACE)


def rejoined() -> History:
    """Broker 2 was elected from the ISR after broker 1 had acknowledged the message alone."""
    return cut(led(led(lost(), 1, 1, 0, [1, 2]), 3000, 2, 1, [2]))


def usurped(until: int | None) -> History:
    """Broker 2 was leader already when broker 1 acknowledged; the fault lasted until ``until``."""
    history = led(led(lost(), 1, 1, 0, [1, 2]), 1000, 2, 1, [2])
    return cut(fault(history, "isolate az1", "link", 800, until))


def twice(outcome: str, idempotent: bool = False, **more: Any) -> History:
    history = History().send(0, outcome, offset=0 if outcome == "ok" else None, **more)
    history.add("writers", writer=1, name="one", idempotent=idempotent)
    return history.logs([(0, 0), (1, 0)])


CASES: dict[str, tuple[History, str]] = {
    "nothing is known": (lost(), NO_EVIDENCE),
    "rejoin": (rejoined(), "old leader truncated on rejoin: broker1 acknowledged it alone, then broker2"),
    "rejoin, led already": (
        usurped(None),
        "old leader truncated on rejoin: broker1 acknowledged it while broker2 led in epoch 1",
    ),
    "zombie": (usurped(1200), "zombie accepted after heal: broker1 acknowledged it after `isolate az1`"),
    "unclean": (
        led(led(lost(), 1, 1, 0, [1]), 3000, 2, 1, [2]),
        "unclean election: broker2 became leader in epoch 1 although the in-sync replicas were [1]",
    ),
    "high watermark": (
        cut(led(led(lost(), 1, 1, 0, [1, 2]), 3000, 2, 1, [2]), "truncated_to_hw"),
        "high-watermark truncation: broker1 truncated to its own high watermark 1",
    ),
    "wiped": (
        fault(lost(), "wipe the disk of broker1", "storage", 2000),
        "last in-sync replica wiped: `wipe the disk of broker1` emptied broker1",
    ),
    "not flushed": (
        fault(lost(), "power loss of broker1", "storage", 2000),
        "un-fsynced data lost: `power loss of broker1` took what broker1 had acknowledged",
    ),
    "cut without election": (cut(lost()), "truncated: broker1 cut its log at offset 1"),
    "retry of the unknown": (twice("info"), "client retry of an unknown outcome"),
    "retry of the acknowledged": (
        twice("ok", attempts=2),
        "client retry: the acknowledged attempt was not the only one",
    ),
    "idempotence": (twice("ok", idempotent=True, attempts=2), "idempotence broken"),
    "one attempt": (twice("ok", attempts=1), "not known: the client made one attempt"),
    "phantom": (
        History().send(0, "fail").logs([(0, 0)]),
        "reported as definitely failed, yet appended",
    ),
}


def causes(history: History, folder: Path) -> list[str]:
    """Causes from the life table, computed without Spark."""
    source = open_source(history.write(folder / "history"))
    life, findings = folder / "life", folder / "findings"
    life.mkdir()
    findings.mkdir()

    def one_by_one(tasks: Any, judge: Any) -> Any:
        return pa.concat_tables([table for task in tasks for item in task for table in judge(item)])

    judge_all(one_by_one, Job(source, gather(source), str(life), str(findings)))
    told = [row["cause"] for path in life.glob("*.parquet") for row in pq.read_table(path).to_pylist()]
    return [cause for cause in told if cause is not None]


@pytest.mark.parametrize("name", CASES)
def test_the_mechanism_is_named(tmp_path: Path, name: str) -> None:
    history, mechanism = CASES[name]
    (found,) = causes(history, tmp_path)
    assert found.startswith(mechanism), found


def test_what_happened_before_it_was_acknowledged_is_no_cause(tmp_path: Path) -> None:
    history = fault(lost(), "wipe the disk of broker1", "storage", 100)
    assert causes(history, tmp_path) == [NO_EVIDENCE]

"""Processes that one thread starts and another one ends, on a lab without processes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.cluster.processes import Processes
from harness.errors import ProcessDiedError, UsageError
from harness.history.journal import Journal
from harness.host_files import Folder
from harness.kafka.versions import kafka_version
from harness.lab.layout import THREE_AZS

HOST = "broker1"
JAVA: Any = type("Java", (), {"argv": lambda self: ("java",)})()


class FakeLab:
    """One host, whose process runs from `start` until `end`."""

    topology = THREE_AZS.topology("zookeeper")

    def __init__(self) -> None:
        self.running = False
        self.during_start: Callable[[], None] = lambda: None

    def start(self, host: str, process: object) -> int:
        self.running = True
        self.during_start()
        return 7

    def end(self) -> None:
        self.running = False

    def alive(self, host: str) -> bool:
        return self.running

    def exit_status(self, host: str) -> int:
        return 143

    def files(self, host: str) -> Folder:
        return Folder(Path("/nowhere"))


@pytest.fixture
def lab() -> FakeLab:
    return FakeLab()


@pytest.fixture
def processes(lab: FakeLab, tmp_path: Path) -> Iterator[Processes]:
    anything: Any = lab
    with Journal(tmp_path / "journal.jsonl") as journal:
        yield Processes(lab=anything, distribution=anything, journal=journal)


def test_a_process_that_a_fault_ends_while_it_is_started_did_not_end_by_itself(
    processes: Processes, lab: FakeLab
) -> None:
    """The fault sees a live process before the other thread has recorded its start."""

    def fault() -> None:
        processes.expect_end(HOST)
        lab.end()

    faults: list[threading.Thread] = []

    def meanwhile() -> None:
        faults.append(threading.Thread(target=fault))
        faults[0].start()
        faults[0].join(0.2)

    lab.during_start = meanwhile
    processes.start(HOST, JAVA)
    faults[0].join(10.0)
    processes.check_alive()
    assert processes.ended == {HOST}
    with pytest.raises(ProcessDiedError, match="broker1 has ended while it started"):
        processes.check_started(HOST)


def test_a_process_that_ends_by_itself_is_reported_once(processes: Processes, lab: FakeLab) -> None:
    processes.start(HOST, JAVA)
    processes.check_started(HOST)
    lab.end()
    with pytest.raises(ProcessDiedError, match="broker1 ended by itself with exit status 143") as raised:
        processes.check_alive()
    assert raised.value.facts == {"role": "broker", "status": "143"}
    processes.check_alive()
    assert processes.ended == set()


def test_a_process_that_is_started_again_has_not_ended(processes: Processes, lab: FakeLab) -> None:
    processes.start(HOST, JAVA)
    processes.expect_end(HOST)
    lab.end()
    processes.start(HOST, JAVA)
    processes.check_started(HOST)
    assert processes.ended == set()


class _Distribution:
    def __init__(self, version: str) -> None:
        self.version, self.spec = version, kafka_version(version)


def test_a_host_runs_only_the_versions_of_its_run(processes: Processes) -> None:
    """An upgrade, the way back, and a version that was never made ready."""
    old: Any = _Distribution("3.9.1")
    new: Any = _Distribution("4.4.0")
    processes.distribution = old
    with pytest.raises(UsageError, match=r"broker1 cannot run Kafka 4.4.0: the run has 3.9.1; name"):
        processes.choose_version("broker1", "4.4.0")
    processes.next_distribution = new
    processes.choose_version("broker1", "4.4.0")
    assert [processes.version_of(host).version for host in ("broker1", "broker2")] == ["4.4.0", "3.9.1"]
    processes.choose_version("broker1", "3.9.1")
    assert processes.version_of("broker1").version == "3.9.1"
    with pytest.raises(UsageError, match=r"the run has 3.9.1 and 4.4.0"):
        processes.choose_version("broker1", "4.3.1")

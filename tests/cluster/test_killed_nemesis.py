"""A harness that is killed in the middle of a fault leaves nothing, or nothing after `acked clean`."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conformance_bench import CONTAINERS_ONLY
from conformance_worker import CASES

from cli.clean import clean
from harness.lab.docker import engine as docker_engine
from harness.lab.docker import sweep as docker_sweep
from harness.waiting import wait_until
from tests.cluster.conftest import left_on_machine, processes_of

WORKER = Path(__file__).with_name("conformance_worker.py")
ROOT = WORKER.parents[2]
SOME, ALL = 10, 30
NOTHING_BEGINS = {"misspelt_names", "delay"}


def _kill_during(lab: str, case: str, folder: Path, after_s: float) -> int:
    """Start one case, wait until its fault is in the journal, and SIGKILL the harness a little later."""
    journal = folder / "journal" / "conformance.jsonl"
    run = subprocess.Popen(
        [sys.executable, str(WORKER), lab, str(folder), *[case] * 40],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(
            lambda: run.poll() is not None or (journal.exists() and "injecting" in journal.read_text()),
            within_s=60,
            awaiting=f"the fault of {case} to begin",
        )
        assert journal.exists() and "injecting" in journal.read_text(), f"{case} never began in {lab}"
        due = time.monotonic() + after_s
        wait_until(lambda: time.monotonic() >= due, within_s=after_s + 5, awaiting="the moment", poll_s=0.01)
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait(10)
    return run.pid


def _wait_until_clean(tmp_path: Path, what: str) -> None:
    """Wait until the killed runs have left no process, mount or loop device."""
    wait_until(
        lambda: processes_of(tmp_path),
        accept=lambda left: not left,
        within_s=10,
        awaiting=f"every process of the killed runs to end {what}",
    )
    wait_until(
        lambda: left_on_machine(tmp_path),
        accept=lambda left: not left,
        within_s=10,
        awaiting=f"the machine's mounts and loop devices to be as they were {what}",
    )


def _embedded(tmp_path: Path, count: int) -> None:
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    faults = [name for name in CASES if name not in NOTHING_BEGINS | CONTAINERS_ONLY]
    chosen = [(case, chance.uniform(0.0, 1.5)) for case in chance.sample(faults * 2, count)]
    with ThreadPoolExecutor(3) as pool:
        list(
            pool.map(
                lambda n: _kill_during("embedded", chosen[n][0], tmp_path / str(n), chosen[n][1]),
                range(count),
            )
        )
    _wait_until_clean(tmp_path, f"(seed {seed}: {chosen})")


@pytest.mark.cluster
def test_killed_in_some_faults_leaves_nothing(tmp_path: Path) -> None:
    _embedded(tmp_path, SOME)


@pytest.mark.cluster
@pytest.mark.long
def test_killed_in_thirty_faults_leaves_nothing(tmp_path: Path) -> None:
    _embedded(tmp_path, ALL)


def _compose(tmp_path: Path, count: int) -> None:
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    faults = [name for name in CASES if name not in NOTHING_BEGINS]
    chosen = chance.sample(faults, count)
    for number, case in enumerate(chosen):
        pid = _kill_during("compose", case, tmp_path / str(number), chance.uniform(0.0, 1.5))
        clean(everything=False, dry_run=False)
        client = docker_engine.connect()
        try:
            prefix = f"acked-{pid}-"
            left = [thing for thing in docker_sweep.leftovers(client) if thing.run.startswith(prefix)]
        finally:
            client.close()
        assert not left, f"seed {seed}, {case}: {left}"
    _wait_until_clean(tmp_path, f"(seed {seed}: {chosen})")


@pytest.mark.compose
@pytest.mark.long
def test_killed_in_two_faults_leaves_nothing_after_clean(tmp_path: Path) -> None:
    _compose(tmp_path, 2)


@pytest.mark.compose
@pytest.mark.long
def test_killed_in_thirty_faults_leaves_nothing_after_clean(tmp_path: Path) -> None:
    _compose(tmp_path, ALL)

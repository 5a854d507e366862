"""A failure is reported in one sentence, with the right exit code, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import wait_until
from tests.cluster.conftest import acked, commands_in, commands_with, processes_of

pytestmark = pytest.mark.cluster


def _one_sentence(stderr: str) -> str:
    assert "Traceback" not in stderr
    lines = [line for line in stderr.splitlines() if line.startswith("acked: ")]
    assert len(lines) == 1, stderr
    return lines[0]


def test_an_unknown_scenario_names_the_nearest() -> None:
    """Exit 254, and the name that was probably meant."""
    done = acked("run", "leader-az-isolate")
    assert done.status == 254
    assert "did you mean 'leader-az-isolated'?" in _one_sentence(done.stderr)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A file where the run folder should be."""
    (tmp_path / "runs").write_text("")
    done = acked("run", "leader-az-isolated", "--runs", tmp_path / "runs")
    assert done.status == 254
    assert str(tmp_path / "runs") in _one_sentence(done.stderr)


def test_without_java_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A PATH on which no Java can be found: exit 3."""
    for name in ("ip", "iptables", "nsenter"):
        folder = next((p for p in ("/usr/sbin", "/usr/bin", "/sbin") if (Path(p) / name).exists()), None)
        if folder:
            (tmp_path / name).symlink_to(Path(folder) / name)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    done = acked("run", "leader-az-isolated", "--runs", tmp_path / "runs")
    assert done.status == 3
    assert "ava" in _one_sentence(done.stderr)


def test_a_run_folder_that_is_none(tmp_path: Path) -> None:
    """Checking an empty folder, or one that is not there: exit 4."""
    assert acked("check", tmp_path).status == 4
    done = acked("check", tmp_path / "nowhere")
    assert done.status == 4
    assert "nowhere" in _one_sentence(done.stderr)


def test_a_damaged_manifest_is_named(tmp_path: Path) -> None:
    """Half a JSON file: exit 4 and the file's name."""
    (tmp_path / "run.json").write_text('{"status": "compl')
    done = acked("check", tmp_path)
    assert done.status == 4
    assert "run.json" in _one_sentence(done.stderr)


def test_a_half_written_run_is_no_pass(tmp_path: Path) -> None:
    """A run that was killed before it had a history: exit 4, never 0."""
    (tmp_path / "run.json").write_text(json.dumps({"status": "running", "schema_version": 1}))
    (tmp_path / "claims.json").write_text(json.dumps({"claims": [], "expected": []}))
    done = acked("check", tmp_path)
    assert done.status == 4
    _one_sentence(done.stderr)


@contextmanager
def _started(*words: str | Path, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """`acked WORDS`, which is ended when the test fails before it has ended."""
    run = subprocess.Popen(
        [sys.executable, "-m", "cli.main", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a shell may ignore it
        **options,
    )
    try:
        yield run
    finally:
        if run.poll() is None:
            run.terminate()
            run.communicate(timeout=60)


@pytest.mark.parametrize(
    "lab", ["embedded", pytest.param("compose", marks=[pytest.mark.compose, pytest.mark.long])]
)
def test_ctrl_c_ends_everything(lab: str, runs: Path) -> None:
    """SIGINT to the foreground group while the cluster is up: exit 130, one sentence, nothing left."""
    words = ("run", "leader-az-isolated", "--lab", lab, "--runs", runs)
    log = runs / "leader-az-isolated" / "latest" / "nodes" / "broker1" / "server.log"
    with _started(*words, start_new_session=True) as run:
        wait_until(log.exists, within_s=60, awaiting="broker1 to write its log")
        os.killpg(run.pid, signal.SIGINT)
        _, stderr = run.communicate(timeout=30)
    assert run.returncode == 130, stderr
    assert "interrupted" in _one_sentence(stderr)
    wait_until(
        lambda: processes_of(runs), accept=lambda left: not left, within_s=5, awaiting="every process to end"
    )


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_series_interrupted_while_spark_starts_leaves_nothing(number: signal.Signals, runs: Path) -> None:
    """Neither clusters nor the JVM whose start it had begun: exit 130, one sentence."""
    stderr = _interrupted_while_spark_starts(number, runs, "run", "no-fault", "--repeat", "2", "--runs", runs)
    assert "interrupted after 0 of 2 runs" in _one_sentence(stderr)


def test_a_check_interrupted_while_spark_starts_leaves_nothing(runs: Path) -> None:
    """A command that has nothing to add still reports one sentence."""
    runs.mkdir()
    (runs / "run.json").write_text(json.dumps({"status": "complete", "schema_version": 1}))
    (runs / "claims.json").write_text(json.dumps({"claims": [], "expected": []}))
    stderr = _interrupted_while_spark_starts(signal.SIGINT, runs, "check", runs)
    assert "interrupted" in _one_sentence(stderr)


def _interrupted_while_spark_starts(number: signal.Signals, mark: Path, *words: str | Path) -> str:
    """What `acked WORDS` says on stderr; nothing that it started, each with a mark, may be left."""
    with _started(*words, env={**os.environ, "MARK": str(mark)}) as run:
        wait_until(
            lambda: any("SparkSubmit" in line for line in commands_in(f"MARK={mark}").values()),
            within_s=60,
            awaiting="Spark's JVM to start",
            poll_s=0.02,
        )
        run.send_signal(number)
        _, stderr = run.communicate(timeout=60)
    assert run.returncode == 130, stderr
    wait_until(
        lambda: commands_in(f"MARK={mark}"),
        accept=lambda left: not left,
        within_s=5,
        awaiting="every process to end",
    )
    return str(stderr)


@pytest.mark.long
def test_a_broker_that_dies_by_itself_is_reported_with_its_log(runs: Path) -> None:
    """Somebody else kills broker3: the run is crashed (255), and the end of broker3's log is shown."""
    manifest = runs / "leader-az-isolated" / "latest" / "run.json"
    with _started("run", "leader-az-isolated", "--runs", runs) as run:
        wait_until(
            lambda: manifest.exists() and "roles" in json.loads(manifest.read_text()),
            within_s=60,
            awaiting="the cluster to be up",
        )
        assert _capabilities(runs) == {"0000000000000000"}
        os.kill(_pid_of("nodes/broker3/server.properties", runs), signal.SIGKILL)
        stdout, stderr = run.communicate(timeout=120)
    assert run.returncode == 255, (stdout, stderr)
    assert "broker3 ended by itself" in stderr
    assert "broker3/server.log" in stderr
    assert "Traceback" not in stderr
    assert "Verdict: crashed" in stdout


def _capabilities(runs: Path) -> set[str]:
    """Capabilities of brokers, ZooKeeper and clients: those that they have, and could regain."""
    java = [pid for pid, line in commands_with(str(runs)).items() if line.startswith("java")]
    assert len(java) == 6
    agents = wait_until(lambda: _agents(runs), within_s=30, awaiting="a client", poll_s=0.2)
    return {
        line.split()[1]
        for pid in (*java, *agents)
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith(("CapEff:", "CapInh:", "CapBnd:"))
    }


def _agents(runs: Path) -> list[int]:
    """Processes of clients, which write journals."""
    journal = re.compile(rf"{re.escape(str(runs))}/.*/nodes/client\d/client\.jsonl")
    files = Path("/proc").glob("[0-9]*/fd/*")
    return [int(file.parts[2]) for file in files if journal.fullmatch(_target(file))]


def _target(descriptor: Path) -> str:
    try:
        return str(descriptor.readlink())
    except OSError:  # closed meanwhile
        return ""


def _pid_of(words: str, folder: Path) -> int:
    lines = commands_with(words, str(folder))
    (pid,) = (pid for pid, line in lines.items() if line.startswith("java"))
    return pid

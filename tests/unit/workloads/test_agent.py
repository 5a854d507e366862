"""The agent process itself: its start and its pipe."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from local_lab import LocalLab

from harness.errors import LabError, ProcessDiedError
from workloads.client.client import Client
from workloads.client.link import AgentLink


def test_it_starts_quickly(tmp_path: Path) -> None:
    started = time.monotonic()
    with Client(LocalLab(tmp_path), "client1", tmp_path / "j.jsonl") as client:  # type: ignore[arg-type]
        assert client.alive
        assert time.monotonic() - started < 3.0, "0.1 s on an idle machine"


def test_it_imports_nothing_heavy() -> None:
    code = (
        "import sys, workloads.agent.main\n"
        "from workloads.agent.producers import pinned_series, raw, scripted, stream, transactions\n"
        "from workloads.agent.consumers import assigned, group_member\n"
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'pyarrow', 'pyspark', 'pandas', 'numpy'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_command_line_part_needs_no_client_library() -> None:
    code = (
        "import sys, workloads.agent.main; print('confluent_kafka' in sys.modules or 'kafka' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_end_of_its_input_ends_it(tmp_path: Path) -> None:
    lab = LocalLab(tmp_path)
    argv = [*lab.python(), "-m", "workloads.agent.main", "--host", "client1", "--az", "az1"]
    pipe = lab.open_pipe("client1", [*argv, "--journal", str(tmp_path / "j.jsonl")])
    pipe.stdin.close()
    assert pipe.wait(10) == 0


def test_unknown_commands_and_bad_arguments_do_not_end_it(tmp_path: Path, client: Client) -> None:
    link = client._link
    with pytest.raises(LabError, match="knows no command 'dance'"):
        link.call("dance", 5.0)
    with pytest.raises(LabError, match="knows no command '_scripted_of'"):
        link.call("_scripted_of", 5.0)
    with pytest.raises(LabError, match="could not do it"):
        link.call("send", 5.0)
    with pytest.raises(LabError, match="no stream with number 3"):
        link.call("stream_counts", 5.0, number=3)
    assert link.call("ping", 5.0) == "pong"


def test_a_start_that_fails_shows_its_last_words(tmp_path: Path) -> None:
    lab = LocalLab(tmp_path)
    errors = tmp_path / "j.err"
    errors.write_text("no such thing\n")
    pipe = lab.open_pipe("client1", [sys.executable, "-c", "raise SystemExit(3)"])
    link = AgentLink(pipe, "client1", errors)  # type: ignore[arg-type]
    pipe.wait(10)
    with pytest.raises(ProcessDiedError, match="client1 has ended") as caught:
        link.call("ping", 5.0)
    assert "no such thing" in caught.value.detail
    link.close(1.0)


def test_closing_twice_and_after_a_kill_is_harmless(client: Client) -> None:
    client.kill()
    client.close()
    client.close()

"""The agent's process: its start, its pipe and its end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from local_lab import LocalLab

from harness.errors import LabError, ProcessDiedError, UsageError
from harness.host_files import Folder
from harness.kafka.model import Endpoint
from workloads.client import agent_process
from workloads.client.agent_process import AgentProcess
from workloads.client.client import Client
from workloads.protocol.commands import ConsumerProgress, CountStream, Ping, Request
from workloads.protocol.spec import ProducerSpec

pytestmark = pytest.mark.usefixtures("no_process_left")

HEAVY = {"pyarrow", "pyspark", "pandas", "numpy"}


def imported_by(code: str) -> set[str]:
    """Top-level packages that a new interpreter has imported after ``code``."""
    program = f"import sys\n{code}\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_agent_imports_nothing_heavy() -> None:
    imported = imported_by(
        "import workloads.agent.main\n"
        "from workloads.agent.producers import raw, scripted, stream, transactional\n"
        "from workloads.agent.consumers import assigned, group_member, pinned"
    )
    assert "confluent_kafka" in imported
    assert imported & HEAVY == set()


def test_the_agent_answers_its_first_command_without_a_client_library() -> None:
    assert imported_by("import workloads.agent.main") & ({"confluent_kafka", "kafka"} | HEAVY) == set()


def test_the_agent_ends_with_its_input(lab: LocalLab, tmp_path: Path) -> None:
    arguments = ["--host", "client1", "--az", "az1", "--journal", str(tmp_path / "j.jsonl")]
    pipe = lab.open_module("client1", "workloads.agent.main", arguments)
    pipe.stdin.close()
    assert pipe.wait(60) == 0
    assert pipe.stdout.read() == ""


def test_unknown_commands_and_bad_arguments_do_not_end_the_agent(lab: LocalLab, tmp_path: Path) -> None:
    arguments = ["--host", "client1", "--az", "az1", "--journal", str(tmp_path / "j.jsonl")]
    pipe = lab.open_module("client1", "workloads.agent.main", arguments)

    def answer(line: str) -> str:
        pipe.stdin.write(line)
        pipe.stdin.flush()
        return pipe.stdout.readline()

    assert "no command 'dance'; the agent's commands are Ping, UseProgram" in answer(
        Request(1, "dance", {}).line()
    )
    assert "ConsumerProgress: Expected `int`, got `str` - at `$.reader`" in answer(
        Request(2, "ConsumerProgress", {"reader": "x"}).line()
    )
    no_producer = Request(3, "Send", {"topic": "t"}).line()
    assert "Send: Object missing required field `producer`" in answer(no_producer)
    assert answer(Request.of(4, Ping()).line()) == '{"id": 4, "result": null}\n'
    pipe.stdin.close()
    assert pipe.wait(60) == 0


def test_a_command_on_something_that_was_not_started_fails(client: Client) -> None:
    with pytest.raises(
        LabError, match=r"client1 failed to ConsumerProgress: .* no consumer with number 3; start it"
    ):
        client.call(ConsumerProgress(3))
    spec = ProducerSpec(writer=3, name="raw", brokers=(Endpoint("127.0.0.1", 1),))
    with pytest.raises(LabError, match=r"Producer 3 \(raw\) is a scripted producer of raw, which has no"):
        client.call(CountStream(producer=spec))


def test_a_start_that_fails_shows_the_end_of_its_stderr(lab: LocalLab, tmp_path: Path) -> None:
    errors = tmp_path / "client.err"
    errors.write_text("no such thing\n")
    pipe = lab.open_pipe("client1", [sys.executable, "-c", "raise SystemExit(3)"])
    agent = AgentProcess(pipe, "client1", Folder(tmp_path))
    pipe.wait(60)
    with pytest.raises(ProcessDiedError, match=r"client1 has ended \(exit status 3\)") as caught:
        agent.call(Ping())
    assert "no such thing" in caught.value.detail
    agent.close(1.0)


@pytest.mark.parametrize("answers", [False, True], ids=["silent", "answers"])
def test_an_agent_that_does_not_quit_is_killed(
    lab: LocalLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    monkeypatch.setattr(agent_process, "_EXIT_S", 0.1)
    answer = 'print(json.dumps({"id": json.loads(input())["id"]}), flush=True)' if answers else ""
    code = f"import json, signal\n{answer}\nwhile True: signal.pause()"
    pipe = lab.open_pipe("client1", [sys.executable, "-c", code])
    AgentProcess(pipe, "client1", Folder(tmp_path)).close(60.0 if answers else 0.1)
    assert pipe.wait(60) < 0


def test_closing_a_client_twice_or_after_a_kill_is_harmless(client: Client) -> None:
    client.kill()
    client.close()
    client.close()


def test_usage_errors_of_the_protocol_name_the_commands() -> None:
    with pytest.raises(UsageError, match="There is no command 'dance'"):
        Request(1, "dance", {}).command()

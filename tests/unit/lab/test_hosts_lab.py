"""Hosts over SSH, without a host: the shell's protocol, what is shipped, and who listens on a port."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.errors import AckedError, LabError, UnfitError
from harness.lab import expiry
from harness.lab.hosts.lab import HostsLab, _Ended
from harness.lab.hosts.shipped import OLDEST, bare, reader, shipped
from harness.lab.hosts.ssh import SshShell, SshTarget, listening
from harness.lab.model import Host, Topology

AGENT = "nemesis.proof.agent"


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A script in the place of `ssh`, which runs the remote command here; tests may put lines before it."""
    script = tmp_path / "bin" / "ssh"
    script.parent.mkdir()
    script.write_text('#!/bin/sh\n. "$0.before"\nfor last; do :; done\nexec sh -c "$last"\n')
    script.chmod(0o755)
    before = tmp_path / "bin" / "ssh.before"
    before.write_text("")
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    yield before
    left = subprocess.run(["pgrep", "-f", str(script)], capture_output=True, text=True, check=False)
    assert left.stdout == ""


def test_commands_get_their_input_and_return_status_and_both_outputs(ssh: Path) -> None:
    """Whatever is in them; a process in the background holds nothing up."""
    ssh.write_text(
        "echo '*** welcome ***'; printf 'no line end'\nSSH_CONNECTION='192.0.2.9 50 192.0.2.1 22'\n"
    )
    ssh.write_text(ssh.read_text() + "export SSH_CONNECTION\n")
    shell = SshShell("broker1", SshTarget(destination="kafka1"))
    login = shell.connect()
    assert (login.uid, login.client, login.server, login.port) == (
        os.getuid(),
        "192.0.2.9",
        "192.0.2.1",
        22,
    )
    text = "a 'quoted' \"text\" $HOME `date` \\n \\\\ ACKED-\n\nlast"
    assert shell.run(("cat",), stdin=text).stdout == text
    result = shell.run(("sh", "-c", 'echo out; echo "to stderr" >&2; exit 7'))
    assert (result.status, result.stdout, result.stderr) == (7, "out", "to stderr")
    assert shell.run(("sh", "-c", "seq 1 20000; seq 1 20000 >&2")).stderr.count("\n") == 19_999
    assert shell.run(("no-such-command",)).status == 127
    began = time.monotonic()
    pid = shell.run(("sh", "-c", expiry.ARM, "arm", "ACKED-test", "60", "true")).stdout
    shell.run(("sh", "-c", expiry.DISARM, "end", "ACKED-test", pid))
    assert time.monotonic() - began < 5
    shell.close()


def test_a_command_that_hangs_and_a_connection_that_ends_are_sentences(ssh: Path) -> None:
    """The next command makes a new connection."""
    shell = SshShell("broker1", SshTarget(destination="kafka1"))
    with pytest.raises(LabError, match="did not answer in time"):
        shell.run(("sleep", "30"), timeout_s=0.3)
    with pytest.raises(LabError, match="has ended"):
        shell.run(("sh", "-c", "kill -9 $PPID; kill -9 $(ps -o ppid= -p $PPID)"), timeout_s=5.0)
    assert shell.run(("echo", "again")).stdout == "again"
    shell.close()


_FIRST_THREAD_ENDS = """import ctypes, threading, time
threading.Thread(target=time.sleep, args=(0.8,)).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_of_which_a_thread_still_runs_is_not_gone(ssh: Path, tmp_path: Path) -> None:
    """Although its first thread is a zombie: its service manager would not start it again."""
    process = subprocess.Popen([sys.executable, "-c", _FIRST_THREAD_ENDS])
    stat = Path(f"/proc/{process.pid}/stat")
    host = Host(name="broker1", role="broker", az="az1", address="192.0.2.1", node_id=1)
    target = SshTarget(destination="kafka1")
    lab = HostsLab(Topology((host,), "", {}), tmp_path, {"broker1": target}, 60.0)
    lab._ended["broker1"] = _Ended(process.pid, stat.read_text().rpartition(")")[2].split()[19], "", 15)
    reaper = threading.Thread(target=process.wait)
    reaper.start()
    assert lab.wait_exit("broker1", 10.0) == -15
    assert not stat.exists()
    reaper.join()
    lab.down()


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("Host key verification failed.", "host key is not known"),
        ("ops@kafka1: Permission denied (publickey).", "accepts no key"),
        ("ssh: Could not resolve hostname kafka1: Name or service not known", "name is not known"),
        ("ssh: connect to host kafka1 port 22: Connection refused", "no sshd answers"),
        ("ssh: connect to host kafka1 port 22: Connection timed out", "nothing answers"),
        ("sudo: a password is required", "NOPASSWD"),
        ("x" * 500, "by hand"),
    ],
)
def test_a_login_that_fails_says_what_to_do(ssh: Path, said: str, remedy: str) -> None:
    """In one short sentence."""
    ssh.write_text(f"echo '{said}' >&2; exit 255\n")
    with pytest.raises(UnfitError) as error:
        SshShell("broker1", SshTarget(destination="kafka1")).connect()
    assert remedy in error.value.message and len(error.value.message) <= 300


def test_a_watchdog_may_be_started_in_a_scope_of_its_own(tmp_path: Path) -> None:
    """`ACKED_DETACH` is put before it; a `sleep` that fails undoes at once, instead of never."""
    scope = tmp_path / "scope"
    scope.write_text(f'#!/bin/sh\necho scope >> {tmp_path}/seen\nexec setsid "$@"\n')
    scope.chmod(0o755)
    undo = f"echo undone >> {tmp_path}/seen"
    command = ["sh", "-c", expiry.ARM, "arm", "ACKED-test", "not-a-number", undo]
    subprocess.run(command, env={**os.environ, "ACKED_DETACH": str(scope)}, check=True, capture_output=True)
    deadline = time.monotonic() + 5
    while "undone" not in (tmp_path / "seen").read_text() if (tmp_path / "seen").exists() else True:
        assert time.monotonic() < deadline, "the watchdog has not undone anything within 5 s"
        os.sched_yield()
    assert (tmp_path / "seen").read_text() == "scope\nundone\n"


def test_what_is_shipped_has_the_grammar_of_the_oldest_python() -> None:
    """Without annotations, for which 3.6 lacks the grammar."""
    program = shipped(AGENT)
    ast.parse(program, feature_version=OLDEST)
    texts = json.loads(ast.literal_eval(ast.parse(program).body[1].value.args[0]))  # type: ignore[attr-defined]
    assert set(texts) == {AGENT, "nemesis.proof.half_open", "nemesis.proof.sockets"}
    for text in texts.values():
        assert "annotations" not in text
        ast.parse(text, feature_version=OLDEST)
        unknown = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Match | ast.NamedExpr)]
        assert unknown == []
    with pytest.raises(SyntaxError):
        ast.parse(bare("match x:\n    case 1: pass\n"), feature_version=OLDEST)


def test_what_is_shipped_runs_without_this_project(tmp_path: Path) -> None:
    """As a text on the standard input of a Python that finds no module of it."""
    source = shipped(AGENT)
    asked = json.dumps({"op": "connect", "targets": [["x", "127.0.0.1", 1]]}) + "\n"
    command = [sys.executable, "-I", "-S", "-u", "-c", reader(source)]
    done = subprocess.run(
        command, input=source + asked, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert answers == [{"ready": True}, {"new": {"x": "refused"}, "held": {}}]


def test_who_listens_on_a_port() -> None:
    """As `ss -ltnp` prints it; ports are compared as a whole."""
    table = (
        "State  Recv-Q Send-Q Local Address:Port Peer Address:Port Process\n"
        'LISTEN 0      4096   0.0.0.0:19092 0.0.0.0:* users:(("docker-proxy",pid=77,fd=7))\n'
        'LISTEN 0      50     [::ffff:10.0.1.11]:9092 *:* users:(("java",pid=812,fd=130))\n'
        "LISTEN 0      50     *:9093 *:*\n"
    )
    assert listening(table, 9092) == ("java", 812)
    assert listening(table, 19092) == ("docker-proxy", 77)
    assert listening(table, 9093) is None and listening(table, 92) is None


def test_errors_of_a_missing_client_are_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """No ssh on the path."""
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(AckedError, match="install the OpenSSH client"):
        SshShell("broker1", SshTarget(destination="kafka1")).connect()

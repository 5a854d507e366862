"""What people say while a recording is under way."""

from __future__ import annotations

import http.client
import json
import socket
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from harness.history.assemble import assemble
from harness.history.journal import Journal
from harness.history.tables import read_table
from run.recording.marks import ADDRESS, HEADER, Marks, Statement, listening, loopback, send

HOSTS = ("broker0", "broker1001")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The run folder of a recording that takes marks."""
    with Journal(tmp_path / "journal" / "harness.jsonl") as journal:
        marks = Marks(journal, HOSTS, lambda _text: None)
        with listening(tmp_path, marks, ("127.0.0.1", 0), lambda: "# EOF\n"):
            yield tmp_path


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    assemble(folder)
    found: list[dict[str, Any]] = read_table(folder, table).to_pylist()
    return found


def post(folder: Path, body: bytes, *, path: str = "/mark", token: str | None = None) -> tuple[int, str]:
    """As curl would."""
    stated = json.loads((folder / ADDRESS).read_text())
    name, _, value = (folder / HEADER).read_text().strip().partition(": ")
    connection = http.client.HTTPConnection(stated["host"], stated["port"], timeout=5)
    connection.request("POST", path, body, {name: value if token is None else token})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_a_stated_fault_is_never_proven(folder: Path) -> None:
    assert send(folder, Statement(text="az1 closed", fault="cut", hosts=("broker0",))) == (
        "marked, 1 stated fault(s)"
    )
    assert send(folder, Statement(text="az1 open", healed=True)) == "marked, 1 stated fault(s)"
    faults = rows(folder, "faults")
    assert [(one["moment"], one["mechanism"], one["kind"], one["stated"]) for one in faults] == [
        ("injected", "cut", "link", True),
        ("healed", "cut", "link", True),
    ]
    assert json.loads(faults[0]["targets"]) == {"hosts": ["broker0"]}
    assert [one["text"] for one in rows(folder, "marks")] == ["az1 closed", "az1 open"]


def test_only_the_faults_of_the_named_hosts_end(folder: Path) -> None:
    for host in HOSTS:
        send(folder, Statement(text=host, fault="pause", hosts=(host,)))
    send(folder, Statement(text="goes on", healed=True, hosts=("broker1001",)))
    healed = [one["name"] for one in rows(folder, "faults") if one["moment"] == "healed"]
    assert healed == ["broker1001"]


def test_plain_text_over_http_is_a_mark(folder: Path) -> None:
    assert post(folder, b"Zone A aus") == (200, "marked\n")
    assert rows(folder, "marks")[0]["text"] == "Zone A aus"


@pytest.mark.parametrize(
    ("body", "path", "token", "status"),
    [
        (b"x", "/mark", "Bearer wrong", 401),
        (b"x", "/mark", "", 401),
        (b"x", "/", None, 404),
        (b"x" * 5000, "/mark", None, 413),
        (b"", "/mark", None, 400),
        (b'{"text": "x", "fault": "earthquake"}', "/mark", None, 400),
        (b'{"text": "x", "hosts": ["broker2"]}', "/mark", None, 400),
        (b'{"text": "x", "hosts": 7}', "/mark", None, 400),
        (b'{"text": "x", "fault": "cut", "healed": true}', "/mark", None, 400),
        (b'{"text": ', "/mark", None, 400),
    ],
)
def test_what_makes_no_sense_is_refused(
    folder: Path, body: bytes, path: str, token: str | None, status: int
) -> None:
    answered, text = post(folder, body, path=path, token=token)
    assert answered == status
    assert len(text) <= 300 and text.endswith(".\n")
    assert rows(folder, "marks") == []


def test_metrics_need_no_token(folder: Path) -> None:
    stated = json.loads((folder / ADDRESS).read_text())
    connection = http.client.HTTPConnection(stated["host"], stated["port"], timeout=5)
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, b"# EOF\n")
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    connection.request("GET", "/")
    assert connection.getresponse().status == 404
    connection.close()


def test_only_the_owner_reads_the_token(folder: Path) -> None:
    assert stat.S_IMODE((folder / HEADER).stat().st_mode) == 0o600


def test_no_recording_is_under_way(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No recording is under way"):
        send(tmp_path, Statement(text="x"))


def test_the_token_is_sent_to_this_machine_only(tmp_path: Path) -> None:
    (tmp_path / ADDRESS).write_text('{"host": "192.0.2.1", "port": 80}')
    (tmp_path / HEADER).write_text("Authorization: Bearer x\n")
    with pytest.raises(UsageError, match="not this machine"):
        send(tmp_path, Statement(text="x"))


@pytest.mark.parametrize("text", ["0.0.0.0:80", "8099", "192.0.2.1:1", "127.0.0.1:70000", "127.0.0.1:x"])
def test_marks_are_taken_on_the_loopback_interface_only(text: str) -> None:
    with pytest.raises(UsageError, match="127.0.0.1:8099"):
        loopback(text)


def raw(folder: Path, *parts: bytes) -> bytes:
    """What the port answers to these bytes, until it hangs up."""
    stated = json.loads((folder / ADDRESS).read_text())
    with socket.create_connection((stated["host"], stated["port"]), timeout=10) as peer:
        for part in parts:
            peer.sendall(part)
        answer = b""
        with suppress(ConnectionResetError):
            while more := peer.recv(1 << 16):
                answer += more
    return answer


@pytest.mark.parametrize("name", ["evil.example", "evil.example:80", "", "127.0.0.1.evil.example"])
def test_requests_by_another_name_are_refused(folder: Path, name: str) -> None:
    """A web page in a browser could reach the port by a name of its own."""
    token = (folder / HEADER).read_bytes().strip()
    host = f"Host: {name}".encode()
    marked = raw(
        folder, b"POST /mark HTTP/1.0\r\n" + host + b"\r\n" + token + b"\r\nContent-Length: 1\r\n\r\nx"
    )
    read = raw(folder, b"GET /metrics HTTP/1.0\r\n" + host + b"\r\n\r\n")
    assert b" 403 " in marked and b" 403 " in read
    assert rows(folder, "marks") == []


@pytest.mark.parametrize("length", ["4097", "99999999999999999999", "-1", "x", "1e3", "\xb2"])
def test_bodies_are_bounded(folder: Path, length: str) -> None:
    stated = json.loads((folder / ADDRESS).read_text())
    token = (folder / HEADER).read_text().strip()
    lines = ("POST /mark HTTP/1.0", f"Host: 127.0.0.1:{stated['port']}", token, f"Content-Length: {length}")
    assert b" 413 " in raw(folder, "\r\n".join((*lines, "", "")).encode("latin-1"))


def test_a_token_of_any_bytes_is_wrong(folder: Path) -> None:
    lines = (
        b"POST /mark HTTP/1.0",
        b"Host: localhost",
        b"Authorization: Bearer \xff\xb2",
        b"Content-Length: 0",
    )
    assert b" 401 " in raw(folder, b"\r\n".join((*lines, b"", b"")))


@pytest.mark.long
def test_slow_clients_are_hung_up_on_and_keep_nobody_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("run.recording.marks._ANSWER_S", 0.5)
    stated = json.loads((folder / ADDRESS).read_text())
    with ExitStack() as stack:
        held = [
            stack.enter_context(socket.create_connection((stated["host"], stated["port"]), timeout=10))
            for _ in range(200)
        ]
        held[0].sendall(b"POST /mark HTTP/1.0\r\n")
        before = time.monotonic()
        while more := held[0].recv(100):
            assert more is not None
        assert time.monotonic() - before < 5
        assert all(one.recv(1) == b"" for one in held)
    assert post(folder, b"after them")[0] == 200
    assert threading.active_count() < 50


def test_a_thousand_marks(folder: Path) -> None:
    for number in range(1000):
        assert post(folder, f"mark {number}".encode()) == (200, "marked\n")
    assert [one["text"] for one in rows(folder, "marks")] == [f"mark {number}" for number in range(1000)]

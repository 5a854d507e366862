"""What people say while a recording is under way: marks, and faults that they state.

`acked mark` and any HTTP client hand them over: to a port of the loopback interface, with a token that only
the owner of the run folder can read. A fault that somebody states is *stated*: acked has no proof of it. The
same port tells how the recording stands, to whoever is on this machine.
"""

from __future__ import annotations

import hmac
import http.client
import itertools
import json
import secrets
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from harness.clock import now_ns
from harness.errors import AckedError, BadDataError, UsageError, json_object, printable, quoted, some
from harness.history.journal import Journal
from harness.history.mechanisms import MECHANISMS
from harness.openmetrics import CONTENT_TYPE
from harness.plain_files import write_plain

ADDRESS = "mark.json"
"""File of the run folder that says where marks are taken."""
HEADER = "mark.header"
"""File of the run folder with the token, as `curl -H @FILE` takes it; readable by its owner alone."""
PATH = "/mark"
METRICS = "/metrics"
_LONGEST = 4096
"""Bytes of a request's body."""
_LONGEST_TEXT = 300
_ANSWER_S = 5.0
"""How long a request may take, from its connection to its last byte."""
_MOST_CLIENTS = 32
"""Connections at the same time; others are closed at once."""
_OWN_NAMES = ("127.0.0.1", "localhost")
"""Names of this machine in a request. A web page in a browser could ask by another one (DNS rebinding)."""


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What somebody says: a text, and perhaps that a fault began or ended with it."""

    text: str
    fault: str = ""
    """A mechanism of `harness.history.mechanisms`; empty: none."""
    hosts: tuple[str, ...] = ()
    """The hosts of the fault, such as `broker1`."""
    healed: bool = False
    """The faults that were stated, of these hosts or all, are over."""

    @classmethod
    def parse(cls, body: bytes, hosts: Sequence[str]) -> Statement:
        """From a JSON object, or from plain text. Raises UsageError for what cannot be meant."""
        text = body.decode("utf-8", errors="replace").strip()
        fields: Mapping[str, Any] = {"text": text}
        if text.startswith("{"):
            try:
                fields = json_object(text, "the mark")
            except BadDataError as error:
                raise UsageError(error.message) from None
        given = fields.get("hosts") or []
        named = given.split(",") if isinstance(given, str) else given
        if not isinstance(named, list) or not all(isinstance(one, str) for one in named):
            raise UsageError("hosts of the mark must be a list of names, such as broker1.")
        statement = cls(
            text=printable(str(fields.get("text") or "")).strip()[:_LONGEST_TEXT],
            fault=str(fields.get("fault") or ""),
            hosts=tuple(one.strip() for one in named if one.strip()),
            healed=fields.get("healed") is True,
        )
        return statement.checked(hosts)

    def checked(self, hosts: Sequence[str]) -> Statement:
        """Itself, if it makes sense on these hosts. Raises UsageError."""
        if not self.text:
            raise UsageError("The mark has no text; say what happened: acked mark 'az1 firewall closed'.")
        if self.fault and self.fault not in MECHANISMS:
            raise UsageError(
                f"--fault {quoted(self.fault, 40)} is no kind of fault; use {some(list(MECHANISMS), 12)} "
                "(docs/history.md, mechanisms)."
            )
        if self.fault and self.healed:
            raise UsageError("A mark says that a fault begins (--fault) or ends (--healed), not both.")
        unknown = [name for name in self.hosts if name not in hosts]
        if unknown:
            raise UsageError(
                f"--hosts {quoted(unknown[0], 40)}: the cluster has no such broker; name {', '.join(hosts)}."
            )
        return self


class Marks:
    """Writes what people say into the journal of a recording. Thread-safe."""

    def __init__(
        self, journal: Journal, hosts: Sequence[str], say: Callable[[str], None], *, first: int = 1
    ) -> None:
        """``hosts`` are those that a statement may name; ``first`` is the number of the next fault."""
        self.hosts = tuple(hosts)
        self._journal = journal
        self._say = say
        self._lock = threading.Lock()
        self._numbers = itertools.count(first)
        self._standing: dict[int, Statement] = {}

    def take(self, statement: Statement) -> int:
        """Write a statement; returns how many faults it begins or ends."""
        with self._lock:
            facts = {"fault": statement.fault, "hosts": statement.hosts, "healed": statement.healed}
            ns = self._journal.mark("stated", statement.text, **facts)
            self._say(statement.text)
            if statement.fault:
                number = next(self._numbers)
                self._standing[number] = statement
                self._fault(number, statement, "injected", ns)
                return 1
            over = [
                number
                for number, one in self._standing.items()
                if statement.healed and (not statement.hosts or set(statement.hosts) & set(one.hosts))
            ]
            for number in over:
                self._fault(number, self._standing.pop(number), "healed", now_ns())
            return len(over)

    def _fault(self, number: int, statement: Statement, moment: str, ns: int) -> None:
        self._journal.write(
            "faults",
            ns=ns,
            fault=number,
            name=statement.text,
            kind=MECHANISMS[statement.fault].kind,
            moment=moment,
            targets=json.dumps({"hosts": list(statement.hosts)}),
            mechanism=statement.fault,
            stated=True,
        )


@contextmanager
def listening(
    folder: Path, marks: Marks, address: tuple[str, int], metrics: Callable[[], str]
) -> Iterator[tuple[str, int]]:
    """Take marks over HTTP meanwhile, and answer with ``metrics`` when asked; yields the address.

    Raises UsageError if it cannot be listened on.
    """
    token = secrets.token_urlsafe(24)

    class Handler(BaseHTTPRequestHandler):
        def setup(self) -> None:
            super().setup()
            self._ending = threading.Timer(_ANSWER_S, _hang_up, (self.connection,))
            self._ending.daemon = True
            self._ending.start()

        def finish(self) -> None:
            self._ending.cancel()
            super().finish()

        def do_POST(self) -> None:
            self._answer(*_answer(self, marks, token))

        def do_GET(self) -> None:
            if not _asks_this_machine(self):
                self._answer(403, _NOT_HERE)
                return
            if self.path != METRICS:
                self._answer(404, f"There is only {METRICS}.")
                return
            try:
                self._answer(200, metrics().removesuffix("\n"), CONTENT_TYPE)
            except AckedError as error:
                self._answer(503, error.message)

        def _answer(self, status: int, text: str, kind: str = "text/plain; charset=utf-8") -> None:
            body = f"{text}\n".encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing: the journal has what was said."""

    try:
        server = _Server(address, Handler)
    except OSError as error:
        raise UsageError(
            f"--listen {address[0]}:{address[1]}: {error.strerror or error}; name another port of 127.0.0.1, "
            "or leave the option out."
        ) from None
    host, port = server.server_address[:2]
    (folder / HEADER).unlink(missing_ok=True)
    (folder / HEADER).touch(mode=0o600)
    (folder / HEADER).write_text(f"Authorization: Bearer {token}\n")
    write_plain(folder / ADDRESS, json.dumps({"host": str(host), "port": port}) + "\n")
    thread = threading.Thread(target=server.serve_forever, name="marks", daemon=True)
    thread.start()
    try:
        yield str(host), int(port)
    finally:
        server.shutdown()
        server.server_close()
        for name in (ADDRESS, HEADER):
            (folder / name).unlink(missing_ok=True)


class _Server(ThreadingHTTPServer):
    """Serves a bounded number of clients at a time."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._free = threading.BoundedSemaphore(_MOST_CLIENTS)
        super().__init__(address, handler)

    def verify_request(self, *_: object) -> bool:
        return self._free.acquire(blocking=False)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, *_: object) -> None:
        """Nothing: a client hung up."""


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _asks_this_machine(request: BaseHTTPRequestHandler) -> bool:
    name, _, _ = (request.headers.get("Host") or "").partition(":")
    return name in _OWN_NAMES


_NOT_HERE = f"Marks and metrics are those of this machine; ask {' or '.join(_OWN_NAMES)}."


def _answer(request: BaseHTTPRequestHandler, marks: Marks, token: str) -> tuple[int, str]:
    """Status and text of the answer to a request."""
    if not _asks_this_machine(request):
        return 403, _NOT_HERE
    given = request.headers.get("Authorization") or ""
    if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
        return 401, f"The token is missing or wrong; send the line of {HEADER} in the run folder as a header."
    if request.path != PATH:
        return 404, f"There is only {PATH}."
    length = request.headers.get("Content-Length") or ""
    if not (length.isascii() and length.isdigit()) or int(length) > _LONGEST:
        return 413, f"A mark has at most {_LONGEST} bytes, and says how many."
    try:
        count = marks.take(Statement.parse(request.rfile.read(int(length)), marks.hosts))
    except AckedError as error:
        return 400, error.message
    except OSError:
        return 400, "The mark was not received whole."
    return 200, f"marked, {count} stated fault(s)" if count else "marked"


def send(folder: Path, statement: Statement) -> str:
    """Hand a statement to the recording in a run folder; returns its answer. Raises UsageError."""
    try:
        stated = json_object((folder / ADDRESS).read_bytes(), ADDRESS)
        name, _, value = (folder / HEADER).read_text().strip().partition(": ")
        host, port = str(stated["host"]), int(stated["port"])
    except (OSError, BadDataError, KeyError, TypeError, ValueError):
        raise UsageError(
            f"No recording is under way in {folder}; name the folder of one with --run, or begin one with "
            "acked record."
        ) from None
    if host != "127.0.0.1":
        raise UsageError(f"{folder / ADDRESS} names {quoted(host, 40)}, which is not this machine.")
    connection = http.client.HTTPConnection(host, port, timeout=_ANSWER_S)
    try:
        connection.request("POST", PATH, json.dumps(asdict(statement)).encode(), {name: value})
        answer = connection.getresponse()
        text = answer.read(_LONGEST).decode(errors="replace").strip()
    except (OSError, http.client.HTTPException) as error:
        raise UsageError(
            f"The recording in {folder} does not answer ({error}); it may have ended: see whether it runs."
        ) from None
    finally:
        connection.close()
    if answer.status != 200:
        raise UsageError(f"The recording refuses the mark: {text}")
    return text


def loopback(text: str) -> tuple[str, int]:
    """The address that `--listen` names. Raises UsageError for one that others could reach."""
    host, _, port = text.rpartition(":")
    if host not in _OWN_NAMES or not port.isdigit() or int(port) > 65535:
        raise UsageError(
            f"--listen {quoted(text, 40)}: give 127.0.0.1 and a port, such as 127.0.0.1:8099; marks are "
            "taken from this machine only."
        )
    return "127.0.0.1", int(port)

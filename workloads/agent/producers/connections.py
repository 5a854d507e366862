"""The connections of a raw producer: one for each request, or kept under a name that the scenario gives."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

from harness.errors import InvalidRunError, UsageError
from harness.kafka.model import Endpoint
from harness.kafka.wire.connection import Connection, NotSentError
from workloads.agent.producers.producer import Work
from workloads.protocol.commands import CloseConnection, OpenConnection
from workloads.protocol.spec import ProducerSpec

T = TypeVar("T")


class Connections:
    """The connections of one producer. A name stands for one connection to each broker that is asked with it.

    Requests with the same name are sent one at a time, in the order of their commands, each when the one
    before is answered or given up. A named connection is opened by the first request that needs it. Once it
    has broken, requests on it fail until the scenario closes the name: a new connection under the same name
    would hide that there are two.
    """

    def __init__(self, spec: ProducerSpec) -> None:
        self._spec = spec
        self._lock = threading.Lock()
        self._kept: dict[tuple[Endpoint, str], Connection] = {}
        self._last: dict[str, threading.Event] = {}
        """Set when the last command with a name has ended."""

    def dispatch(self, command: OpenConnection | CloseConnection) -> Work:
        """Begin a command about a connection. Raises UsageError for one without a name."""
        name = command.connection
        if not name:
            raise UsageError("A connection that is kept needs a name.")
        if isinstance(command, OpenConnection):
            return self.opening(command.broker, name)
        return self.in_turn(name, lambda: self.close(name))

    @contextlib.contextmanager
    def to(self, broker: Endpoint, name: str) -> Iterator[Connection]:
        """The connection ``name`` to a broker; without a name, one for this request alone."""
        if name:
            yield self._named(broker, name)
        else:
            with Connection(broker, self._spec.connect_timeout_s) as connection:
                yield connection

    def in_turn(self, name: str, work: Callable[[], T]) -> Callable[[], T]:
        """Work that begins when all earlier work with this name has ended; without a name, at once.

        Called in the order of the commands. The wait is as long as the time-outs of the earlier work.
        """
        if not name:
            return work
        before, ended = self._last.get(name), threading.Event()
        self._last[name] = ended

        def wait_and_work() -> T:
            try:
                if before is not None:
                    before.wait()
                return work()
            finally:
                ended.set()

        return wait_and_work

    def opening(self, broker: Endpoint, name: str) -> Callable[[], int]:
        """Open the connection if it is not open yet; the result is its port at the client's end.

        An open connection is reported at once, also while a request on it is under way.
        """
        local = self._named(broker, name).local
        if local is not None:
            port = local[1]
            return lambda: port

        def work() -> int:
            connection = self._named(broker, name)
            with contextlib.suppress(NotSentError):
                connection.open()
            if connection.local is None:
                why = "has broken; close it first" if connection.broken else "could not be opened"
                raise InvalidRunError(
                    f"The connection {name!r} of {self._spec.name} to {broker.label} {why}."
                )
            return connection.local[1]

        return self.in_turn(name, work)

    def close(self, name: str = "") -> None:
        """Close what has this name, so that the next request with it opens a connection; no name: all."""
        with self._lock:
            for key in [key for key in self._kept if name in ("", key[1])]:
                self._kept.pop(key).close()

    def _named(self, broker: Endpoint, name: str) -> Connection:
        with self._lock:
            if (broker, name) not in self._kept:
                self._kept[broker, name] = Connection(broker, self._spec.connect_timeout_s, once=True)
            return self._kept[broker, name]

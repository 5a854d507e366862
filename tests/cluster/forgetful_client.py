"""The example client in Python with a bug that takes two faults; for `acked search`.

Each producer has a health check: it asks every broker for its API versions, over a new connection each time.
An outage in which brokers are silent, and none refuses a connection, does no harm by itself. If all brokers
have recovered from it and then one refuses a connection, the producer regards the next message as
acknowledged and never sends it.

One fault cannot do both. A process that is halted or cut off is silent. A process that has ended refuses
connections at once. It may be silent while it starts, but that belongs to the same outage.
"""

from __future__ import annotations

import socket
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # a client program runs without its folder on the path

from example_client import honest  # noqa: E402

SILENT_S = 1.5
"""A broker that has not answered within this time is silent. The shortest halt that counts lasts 2 s."""
WELL_S = 1.0
"""An outage is over when all brokers have answered for this long."""
PAUSE_S = 0.2


def asked(address: str) -> str:
    """What a broker does when it is asked for its API versions: `well`, `silent`, `gone`."""
    host, _, port = address.rpartition(":")
    # API key 18, version 0, correlation id 1, no client id
    request = struct.pack(">hhih", 18, 0, 1, -1)
    try:
        with socket.create_connection((host, int(port)), timeout=SILENT_S) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            return "well" if connection.recv(1) else "gone"
    except (ConnectionRefusedError, ConnectionResetError):
        return "gone"
    except OSError:
        return "silent"


class Outages:
    """Which kinds of outages a producer has seen, in their order."""

    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self.seen: set[str] = set()
        """What the brokers did in the present outage."""
        self.well_since: float | None = None
        self.armed = False
        self.forgets = False

    def now(self, address: str, state: str, at_s: float) -> None:
        """Record what one broker did."""
        self.states[address] = state
        bad = set(self.states.values()) - {"well"}
        if bad:
            self.well_since = None
            if self.armed and "gone" in bad and not self.seen:
                self.armed, self.forgets = False, True
            self.seen |= bad
        elif self.well_since is None:
            self.well_since = at_s
        elif self.seen and at_s - self.well_since > WELL_S:
            self.armed = self.armed or self.seen == {"silent"}
            self.seen = set()


class Forgetful(honest.Producer):  # type: ignore[misc]  # the example is loaded from its file
    """Forgets a message."""

    def __init__(self, number: int, properties: dict[str, str]) -> None:
        super().__init__(number, properties)
        self.outages = Outages()
        self.lock = threading.Lock()
        for address in properties["bootstrap.servers"].split(","):
            threading.Thread(target=self.watch, args=(address,), daemon=True).start()

    def watch(self, address: str) -> None:
        """Ask one broker again and again."""
        while not self.closing.wait(PAUSE_S):
            state = asked(address)
            with self.lock:
                self.outages.now(address, state, time.monotonic())

    def send(self, message: dict[str, Any], handed_over: float) -> None:
        with self.lock:
            forgets, self.outages.forgets = self.outages.forgets, False
        if forgets:
            self.pending[message["seq"]] = None
            self.report(message["seq"], "ok")
            return
        super().send(message, handed_over)


if __name__ == "__main__":
    sys.stdout = sys.stderr
    honest.Producer = Forgetful
    honest.Program().run()

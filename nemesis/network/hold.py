"""Single connections that are held: their packets do not arrive, while new ones over the same link work.

What a process has sent stays in the kernel, even if the process closes the connection: the kernel goes on
sending the data of such an *orphan* (`FIN-WAIT-1`). When the fault is healed, the kernels deliver what they
still hold, or a reset drops it. The evidence says which, for each direction of each connection.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from harness.clock import now_ns
from harness.errors import InvalidRunError, UsageError, WaitTimeoutError
from harness.history.mechanisms import MECHANISMS, Kind
from harness.lab.model import Topology
from harness.waiting import wait_until
from nemesis.context import FaultContext
from nemesis.fault import Evidence, Targets
from nemesis.network.links import Connection, Link
from nemesis.network.rules import Ruleset, connection_rules
from nemesis.proof.link_proof import LinkProof
from nemesis.registry import FaultRegistry

HeldFate = Literal["none", "delivered", "dropped", "pending"]
_MARGIN_S = 3.0
_POLL_S = 0.02
_READ_WITHIN_S = 1.0
_UNEXPLAINED_S = 0.5
"""The kernel reports a destroyed socket a moment after it is gone."""
_CLOSED = ("FIN-WAIT-1", "LAST-ACK", "CLOSING")
"""States in which the send queue counts one more than the bytes in it, for the FIN."""
_CLOSE_ALERT = 40
"""Longest record with which a process that closes its connection ends TLS 1.3: 24 bytes; Java pads 16 more.

Whoever answers the request before it resets the connection, since its sender has gone, and drops this record.
"""
_FINISHED = ("CLOSE-WAIT", "LAST-ACK", "CLOSING")
"""States in which the receive queue counts one more, for the FIN of the other end."""
SocketFacts = Mapping[str, Any]


def connections(context: FaultContext, links: Iterable[Link]) -> Mapping[Connection, int]:
    """The connections that are established over ``links`` now, as their clients' kernels report them.

    With each comes the number of bytes that its client's process has written to it.
    """
    topology = context.lab.topology
    servers: dict[str, dict[tuple[str, int], str]] = {}
    for link in links:
        host = topology.host(link.destination)
        ports = (link.port,) if link.port is not None else host.ports
        servers.setdefault(link.source, {}).update({(host.address, port): host.name for port in ports})
    with context.lock:
        answers = context.prober.ask(
            {client: {"op": "connections", "to": list(to)} for client, to in servers.items()}
        )
    written_bytes = {}
    for client, answer in answers.items():
        for row in answer["found"]:
            address, port = row["remote"]
            server = servers[client][address, port]
            connection = Connection(
                client=client, client_port=row["local"][1], server=server, server_port=port
            )
            written_bytes[connection] = int(row.get("written", 0))
    return dict(sorted(written_bytes.items()))


@dataclass(frozen=True)
class End:
    """What the kernel of one end reports of its socket; without a row, there is no socket."""

    row: SocketFacts | None
    live: bool

    @property
    def timer_s(self) -> float:
        """Seconds until the kernel sends something again."""
        waits = self.live and self.row is not None and self.row["timer"] in ("on", "persist")
        return float(self.row["expires_ms"]) / 1000 if waits and self.row is not None else 0.0

    @property
    def received(self) -> int:
        """Bytes that it has received."""
        return int(self.row.get("received", 0)) if self.row else 0

    @property
    def unread(self) -> int | None:
        """Bytes of them that no process has read; None if there is no socket any more."""
        if self.row is None or not self.live:
            return None
        return max(0, int(self.row["recv_q"]) - (self.row["state"] in _FINISHED))

    def written(self, *, opened: bool) -> int:
        """Bytes that the process has written; ``opened`` says whether it opened the connection."""
        if self.row is None or "acked" not in self.row:
            return 0
        if not self.live:
            return int(self.row["written"])
        return int(self.row["acked"]) - opened + self._queued()

    def unacknowledged(self, *, opened: bool) -> int:
        """Bytes of them that the other end has not acknowledged."""
        if self.row is None or "acked" not in self.row:
            return 0
        if not self.live:
            return int(self.row["written"]) - (int(self.row["acked"]) - opened)
        return self._queued()

    def _queued(self) -> int:
        assert self.row is not None
        return int(self.row["send_q"]) - (self.row["state"] in _CLOSED)


@dataclass(kw_only=True)
class Way:
    """One direction of a connection, from its release on."""

    held: int
    """Bytes that the receiver did not have at the release."""
    target: int
    """Bytes that it has received when all of them are delivered."""
    alert: int = 0
    """How many of them, at the end, may say only that TLS ends."""
    fate: HeldFate
    after_s: float | None = None
    arrived: int = 0
    unread: int | None = None
    _sender_gone_s: float | None = None

    def judge(self, sender: End, receiver: End, passed_s: float) -> None:
        """Look at both ends ``passed_s`` after the release."""
        if self.fate == "pending":
            self.arrived = max(self.arrived, self.held - max(0, self.target - receiver.received))
            if sender.live:
                self._sender_gone_s = None
            elif self._sender_gone_s is None:
                self._sender_gone_s = passed_s
            if receiver.row is not None and receiver.received >= self.target:
                self.fate, self.after_s = "delivered", round(passed_s, 3)
            elif (receiver.row is not None and not receiver.live) or self._too_late(passed_s):
                self.fate = "dropped"
                if self.held - self.arrived <= self.alert:
                    self.fate, self.after_s = "delivered", round(passed_s, 3)
        if self.fate == "delivered":
            self.unread = receiver.unread

    def _too_late(self, passed_s: float) -> bool:
        """Whether the sender has been gone for so long that the receiver's last report must have arrived."""
        return self._sender_gone_s is not None and passed_s - self._sender_gone_s >= _UNEXPLAINED_S

    def evidence(self) -> Evidence:
        """For the history."""
        facts: dict[str, object] = {"bytes": self.held, "fate": self.fate}
        if self.fate == "delivered":
            facts["after_s"] = self.after_s
            if self.unread is not None:
                facts["unread_bytes"] = self.unread
        elif self.held:
            facts["arrived_bytes"] = self.arrived
        return facts


def held_by(sender: End, receiver: End, *, opened: bool, tls: bool = False) -> Way:
    """What ``sender`` has written and ``receiver`` has not; ``opened`` if the sender is the client."""
    written = sender.written(opened=opened)
    held = max(0, min(written - receiver.received, sender.unacknowledged(opened=opened)))
    closing = sender.row is not None and sender.row["state"] in _CLOSED
    alert = _CLOSE_ALERT if tls and closing else 0
    return Way(held=held, target=written, alert=alert, fate="pending" if held > alert else "none")


@dataclass(kw_only=True)
class _ReleasedConnection:
    """A connection while it is watched after the heal."""

    connection: Connection
    state: str
    orphan: bool
    packets: int
    request: Way
    response: Way

    def evidence(self) -> Evidence:
        return {
            "connection": str(self.connection),
            "state": self.state,
            "orphan": self.orphan,
            "packets": self.packets,
            "request": self.request.evidence(),
            "response": self.response.evidence(),
        }


class Hold:
    """Connections whose packets are dropped from `inject` to `heal`; others over the same link live."""

    mechanism = "hold"
    kind: Kind = MECHANISMS[mechanism].kind
    undoable = True
    ends_processes = False

    def __init__(
        self, registry: FaultRegistry, links: tuple[Link, ...], client_ports: Collection[int] | None = None
    ) -> None:
        """Hold the connections that ``links`` carry at the injection, or those from ``client_ports``."""
        silent = [link.destination for link in links if not registry.topology.host(link.destination).ports]
        if silent:
            raise UsageError(f"No connection to {silent[0]} can be held, because it listens on no port.")
        self.name = f"hold connections {', '.join(map(str, links))}"
        self._context, self._number = registry.context, registry.next_number()
        self._chain = registry.next_chain()
        self._links, self._ports = links, client_ports
        self._proof = LinkProof(self._context, self._number, self.name, ())
        self._connections: tuple[Connection, ...] = ()
        self._rules = Ruleset(self._chain, "", {})
        self._released: list[_ReleasedConnection] = []
        self._vanished: tuple[str, ...] = ()
        self._times: dict[str, int] = {}

    def targets(self) -> Targets:
        """The links, and once they are known, the connections."""
        targets: dict[str, object] = {"links": [str(link) for link in self._links]}
        if self._connections:
            targets["connections"] = [str(connection) for connection in self._connections]
        return targets

    def inject(self) -> None:
        """Find the connections, watch their sockets, and load the rules."""
        context = self._context
        with context.lock:
            self._proof.record_before()
            held = tuple(connections(context, self._links))
            if self._ports is not None:
                held = tuple(one for one in held if one.client_port in self._ports)
            if not held:
                ports = "" if self._ports is None else f" from port {', '.join(map(str, self._ports))}"
                raise InvalidRunError(
                    f"{self.name!r} has nothing to hold: no connection{ports} is established there."
                )
            self._connections = held
            self._rules = connection_rules(context.lab.topology, self._chain, held)
            self._ask("watch", with_sockets=True)
            context.cuts[self._number] = (self._rules, ())
            self._times["loading_ns"] = now_ns()
            context.chains.load(self._rules)
            self._times["loaded_ns"] = now_ns()

    def verify(self) -> Evidence:
        """Check that the sockets exist, and that every other connection can still be opened."""
        context = self._context
        with context.lock:
            states = self._seen()
            gone = [str(one) for one in self._connections if not states[one][0].live]
            if gone:
                raise InvalidRunError(f"{self.name!r}: {gone[0]} was closed while the rules were loaded.")
            result, _ = self._proof.verify_dead(refused=False)
        return {
            **self._times,
            "connections": len(self._connections),
            "alive": len(result.alive()),
            "hosts": list(self._rules.hosts),
        }

    def heal(self) -> None:
        """Record what is held, and release it."""
        context = self._context
        with context.lock:
            if self._number not in context.cuts:
                return
            try:
                self._released = self._what_is_held()
            finally:
                self._vanished = context.chains.remove(self._rules)
                del context.cuts[self._number]
                self._times["removed_ns"] = now_ns()

    def verify_healed(self) -> Evidence:
        """Wait until the fate of all that was held is known. Raises InvalidRunError if nothing was held.

        The length of the wait follows from the kernels' retransmission timers. There is no wait for a link
        that another fault cuts: what is held there is `pending`.
        """
        context = self._context
        with context.lock:
            if self._vanished:
                raise InvalidRunError(
                    f"The rules of {self.name!r} were gone from {', '.join(self._vanished)} before the "
                    f"connections were let go."
                )
            context.check_gone(self.name, self._rules)
        if not any(one.packets for one in self._released):
            self._ask("unwatch")
            raise InvalidRunError(
                f"{self.name!r} had no effect: no packet was sent over "
                f"{', '.join(str(one.connection) for one in self._released)}."
            )
        # Read only now: a packet that was sent before the rules were removed doubled its timer.
        timers_s = [end.timer_s for ends in self._seen().values() for end in ends]
        with contextlib.suppress(WaitTimeoutError):  # what is not settled by then is `pending`
            wait_until(
                self._observe,
                within_s=max(timers_s) + _MARGIN_S,
                awaiting=f"the fate of what {self.name!r} held",
                accept=lambda settled: settled,
                poll_s=_POLL_S,
            )
        self._ask("unwatch")
        fates = [way.fate for one in self._released for way in (one.request, one.response)]
        return {
            "removed_ns": self._times["removed_ns"],
            **{fate: fates.count(fate) for fate in ("delivered", "dropped", "pending")},
            "connections": [one.evidence() for one in self._released],
        }

    def _what_is_held(self) -> list[_ReleasedConnection]:
        listings = self._context.chains.listings(self._rules.hosts)
        packets = dict.fromkeys(self._connections, 0)
        for host in self._rules.hosts:
            ended_here = [one for one in self._connections if host in (one.client, one.server)]
            for one, count in zip(ended_here, self._rules.packets(listings[host]), strict=False):
                packets[one] += count
        topology = self._context.lab.topology
        return [
            _ReleasedConnection(
                connection=one,
                state=str(client.row["state"]) if client.live and client.row else "CLOSED",
                orphan=bool(client.live and client.row and client.row["orphan"]),
                packets=packets[one],
                request=held_by(client, server, opened=True, tls=tls),
                response=held_by(server, client, opened=False, tls=tls),
            )
            for one, (client, server) in self._seen().items()
            for tls in (topology.host(one.server).security.tls,)
        ]

    def _observe(self) -> bool:
        """Look once. Returns whether the fate of everything is known, except where it cannot be known."""
        cut = self._context.links_in_force()
        seen = self._seen()
        passed_s = (now_ns() - self._times["removed_ns"]) / 1e9
        settled = True
        for one in self._released:
            where = one.connection
            client, server = seen[where]
            blocked = any(link.blocks(where.client, where.server, where.server_port) for link in cut)
            for way, sender, receiver in ((one.request, client, server), (one.response, server, client)):
                way.judge(sender, receiver, passed_s)
                waiting = way.fate == "pending" and not blocked
                late = way.after_s is not None and passed_s - way.after_s > _READ_WITHIN_S
                settled &= not waiting and (late or not way.unread)
        return settled

    def _seen(self) -> dict[Connection, tuple[End, End]]:
        answers = self._ask("sockets")
        topology = self._context.lab.topology
        by_key: dict[tuple[str, str, int, str, int], End] = {}
        for host, answer in answers.items():
            for live in (True, False):  # destroyed sockets come last, because their state is the later one
                for row in answer["live" if live else "destroyed"]:
                    by_key[host, *row["local"], *row["remote"]] = End(row, live)
        ends = {}
        for one in self._connections:
            client, server = _keys(topology, one)
            none = End(None, False)
            ends[one] = (
                by_key.get((one.client, *client), none),
                by_key.get((one.server, *server), none),
            )
        return ends

    def _ask(self, operation: str, *, with_sockets: bool = False) -> dict[str, dict[str, Any]]:
        topology = self._context.lab.topology
        keys: dict[str, list[Sequence[object]]] = {}
        for one in self._connections:
            client, server = _keys(topology, one)
            keys.setdefault(one.client, []).append(client)
            keys.setdefault(one.server, []).append(server)
        requests: dict[str, dict[str, object]] = {}
        for host, sockets in keys.items():
            requests[host] = {"op": operation, "fault": self._number}
            if with_sockets:
                requests[host]["sockets"] = sockets
        with self._context.lock:
            return self._context.prober.ask(requests)


def _keys(topology: Topology, one: Connection) -> tuple[Sequence[Any], Sequence[Any]]:
    """The connection as the client's kernel names it, and as the server's does."""
    client = (topology.host(one.client).address, one.client_port)
    server = (topology.host(one.server).address, one.server_port)
    return (*client, *server), (*server, *client)

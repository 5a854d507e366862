"""Bytes that TCP in the clients' hosts still holds after a heal, and sends again when its timer expires.
They may contain a message whose client gave up long ago. After the heal, it takes up to as long as the cut
lasted until it arrives; logs that are compared or read earlier may still change. Requests between brokers
arrive as late, but brokers ignore those of an earlier epoch, and a fetch that arrives twice does no harm.
"""

from __future__ import annotations

from harness.errors import WaitTimeoutError
from harness.waiting import wait_until
from nemesis.context import FaultContext

_MARGIN_S = 2.0
_POLL_S = 0.2
"""Each poll walks the kernel's table of sockets once for each client host."""


def backlog(context: FaultContext) -> dict[str, float]:
    """Connections of clients with such bytes, each with the seconds until they are sent again."""
    topology = context.lab.topology
    names = {host.address: host.name for host in topology.hosts}
    with context.lock:
        clients = {host.name for host in topology.hosts if host.role == "client"}
        hosts = clients.intersection(context.prober.running())
        answers = context.prober.ask({host: {"op": "backlog", "to": list(names)} for host in sorted(hosts)})
    return {
        f"{host}:{row['local'][1]} -> {names[row['remote'][0]]}:{row['remote'][1]}": row["expires_ms"] / 1000
        for host, answer in answers.items()
        for row in answer["found"]
    }


def wait_delivered(context: FaultContext) -> tuple[str, ...]:
    """Wait until nothing is held back, at most until the kernels' timers have expired.

    Returns the connections that still hold something then. Does not wait while links are cut or lossy.
    """
    left = backlog(context)
    if not left or context.cuts or context.lossy:
        return tuple(left)
    try:
        wait_until(
            lambda: backlog(context),
            accept=lambda rows: not rows,
            within_s=max(left.values()) + _MARGIN_S,
            awaiting="the delivery of what was sent over the links before they were restored",
            poll_s=_POLL_S,
        )
    except WaitTimeoutError:
        return tuple(backlog(context))
    return ()

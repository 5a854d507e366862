"""A rolling upgrade as Kafka's documentation describes it ("Upgrading"): one node after the other.

What the newer version offers is not turned on: on KRaft the levels of features stay, and with ZooKeeper the
brokers go on speaking the older protocol (`inter.broker.protocol.version`).
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence

from harness.cluster.model import BOOT_S, StartedCluster
from harness.cluster.processes import Processes
from harness.host_files import text_of_file
from harness.kafka.versions import INTER_BROKER_PROTOCOL
from harness.lab.model import SERVER_LOG, Host, Topology
from harness.waiting import wait_until

_STARTED = " started (Kafka"
_END_S = 60.0
"""How long a node may take to end in an orderly way."""


def order_of_upgrade(topology: Topology, mode: str, controller: str) -> tuple[Host, ...]:
    """The nodes that a rolling upgrade restarts: controllers before brokers, the active controller last.

    ZooKeeper nodes stay as they are: they have versions of their own.
    """
    roles = ("controller", "broker") if mode == "kraft" else ("broker",)
    return tuple(
        sorted(
            (host for role in roles for host in topology.role(role)),
            key=lambda host: (roles.index(host.role), host.name == controller),
        )
    )


def upgrade(
    cluster: StartedCluster,
    processes: Processes,
    hosts: Sequence[str],
    version: str,
    *,
    say: Callable[[str], None],
) -> None:
    """Have hosts of a running cluster run a newer version, and give the roles back to their hosts.

    Raises AckedError, for example if a node does not start with it.
    """
    spoken = {INTER_BROKER_PROTOCOL: processes.distribution.spec.own_protocol}
    wait_until(
        lambda: all(_STARTED in text_of_file(processes.lab.files(host), SERVER_LOG) for host in hosts),
        within_s=BOOT_S,
        awaiting=f"{', '.join(hosts)} to log that they have started, before which they cannot be stopped",
        abort=processes.check_alive,
    )
    for number, host in enumerate(hosts, start=1):
        processes.expect_end(host)
        processes.lab.signal(host, signal.SIGTERM)
        processes.lab.wait_exit(host, _END_S)
        cluster.upgrade(host, version, spoken if cluster.mode == "zookeeper" else {})
        cluster.start(host)
        say(f"{host} runs Kafka {version} ({number} of {len(hosts)} nodes)")
    cluster.place_roles()

"""A cluster that outlasts a run: further runs use it, one after the other, each with a folder of its own."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.cluster.model import StartedCluster
from harness.cluster.processes import Processes
from harness.lab.model import SERVER_LOG, Lab
from harness.waiting import wait_until
from nemesis.storage.disks import Disks
from run.sessions import place_sessions

_QUIET_S = 1.0
_SETTLED_WITHIN_S = 30.0


@dataclass(frozen=True, kw_only=True)
class RunningCluster:
    """What a run finds when it begins: hosts, and a cluster that runs in them."""

    lab: Lab
    disks: Disks
    processes: Processes
    cluster: StartedCluster


class StandingCluster:
    """A place for a cluster: the first run that is given it starts it, and the end of the context ends it.

    Hosts keep configuration, logs and data in its folder, not in those of the runs. All runs need the same
    layout, version, mode, roles and broker settings, and topics of different names.
    """

    def __init__(self, path: Path) -> None:
        """``path`` is an existing folder for the cluster."""
        self.path = path
        self.stack = ExitStack()
        """Ends everything that outlasts the runs."""
        self.running: RunningCluster | None = None
        """The cluster; None until a run has started it."""

    def restore(self, sessions: Mapping[str, str]) -> None:
        """Give the roles back to their hosts after a run, and wait until no node logs anything more.

        ``sessions`` names the ZooKeeper node of each broker's session, as `Setup.zookeeper_sessions` does.

        The run's own end has proved that no rule of a fault is left, and that its topic has a full ISR.
        Raises AckedError if it fails.
        """
        if self.running is None:
            return
        cluster = self.running.cluster
        cluster.check_alive()
        cluster.place_roles()
        if place_sessions(self.running.lab, sessions, cluster.check_alive):
            cluster.place_roles()  # a session that ended on the way may have been the controller's
        quiet = _Quiet(self.running.lab)
        wait_until(
            quiet.since_s,
            accept=lambda seconds: seconds >= _QUIET_S,
            within_s=_SETTLED_WITHIN_S,
            poll_s=0.1,
            awaiting="the nodes of the cluster to log nothing more",
            abort=cluster.check_alive,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stack.close()


class _Quiet:
    """For how long no node has logged anything."""

    def __init__(self, lab: Lab) -> None:
        self._files = [lab.files(host.name) for host in lab.topology.hosts]
        self._sizes: list[int | None] = []
        self._since = time.monotonic()

    def since_s(self) -> float:
        """Seconds since a log was seen to grow."""
        sizes = [files.size(SERVER_LOG) for files in self._files]
        if sizes != self._sizes:
            self._sizes, self._since = sizes, time.monotonic()
        return time.monotonic() - self._since

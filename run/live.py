"""How a run stands, for a person who watches it: what each AZ's brokers state and what its clients write."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from harness.history.stream_journal import COUNTERS_AT, COUNTERS_BYTES, SUFFIX, Counters
from harness.host_files import FilesOf, HostFiles
from harness.kafka.model import Topic
from harness.lab.model import Topology
from harness.observer.views import Views
from harness.waiting import current_waits
from workloads.client.agent_process import JOURNAL

ACKNOWLEDGED = b'"outcome":"ok"'
"""A text that a client's journal contains once per acknowledged message, but for those of streams."""
RATE_OVER_S = 0.8
"""Seconds over which a rate is measured, at least: every printed line redraws the terminal."""
_AT_ONCE_BYTES = 4_000_000
_HOST = re.compile(r"[a-z]+\d+")


@dataclass(kw_only=True)
class _Count:
    """Acknowledgements in one client's journals, as far as they have been read."""

    files: HostFiles
    """Those of the client's host."""
    offset: int = 0
    in_lines: int = 0
    in_all: int = 0
    before: int = 0
    """The number at ``at_s``."""
    at_s: float = 0.0
    per_s: float = 0.0

    def update(self, now_s: float) -> None:
        """Read what is new. Nobody waits for this, and the client does nothing for it."""
        try:
            fresh = self.files.read(JOURNAL, self.offset, _AT_ONCE_BYTES)
            streams = sum(self._of_stream(name) for name in self.files.names() if name.endswith(SUFFIX))
        except OSError:
            return
        fresh = fresh[: fresh.rfind(b"\n") + 1]  # a line may be half written
        self.offset += len(fresh)
        self.in_lines += fresh.count(ACKNOWLEDGED)
        self.in_all = self.in_lines + streams
        passed_s = now_s - self.at_s
        if passed_s >= RATE_OVER_S:
            self.per_s = (self.in_all - self.before) / passed_s if self.at_s else 0.0
            self.at_s, self.before = now_s, self.in_all

    def _of_stream(self, name: str) -> int:
        return Counters.parse(self.files.read(name, COUNTERS_AT, COUNTERS_BYTES)).ok


class LiveState:
    """A line for each AZ, from what the observer knows and what the clients have recorded."""

    def __init__(self, topology: Topology, topics: Sequence[Topic], views: Views, files: FilesOf) -> None:
        """``files`` are those of the hosts, with the journals of the clients."""
        self._topology = topology
        self._topic = topics[0].name if topics else ""
        self._views = views
        self._az_by_host = {host.name: host.az for host in topology.hosts}
        self._counts = {host.name: _Count(files=files(host.name)) for host in topology.role("client")}

    def lines(self) -> list[str]:
        """What each AZ's brokers state about the first partition, and what its clients write."""
        now_s = time.monotonic()
        waits: dict[str, list[str]] = {}
        for wait in current_waits():
            words = f"has waited {now_s - wait.since:.1f} s for {wait.awaiting}"
            waits.setdefault(self._az_of(wait.awaiting), []).append(words)
        return [self._az(az, now_s, waits.get(az, [])) for az in self._topology.azs]

    def _az_of(self, awaiting: str) -> str:
        """The AZ of the first host that a wait names; empty if it names none."""
        named = next((word for word in _HOST.findall(awaiting) if word in self._az_by_host), "")
        return self._az_by_host.get(named, "")

    def _az(self, az: str, now_s: float, waits: list[str]) -> str:
        hosts = [host for host in self._topology.hosts if host.az == az]
        parts = [self._broker(host.name) for host in hosts if host.role == "broker"]
        counts = [self._counts[host.name] for host in hosts if host.name in self._counts]
        for count in counts:
            count.update(now_s)
        if counts:
            per_s, total = sum(one.per_s for one in counts), sum(one.in_all for one in counts)
            parts.append(f"{per_s:.0f} acknowledged/s, {total} in all")
        parts += waits
        return f"{self._topology.az_name(az)}: {' · '.join(parts)}"

    def _broker(self, name: str) -> str:
        source = self._views.of(name)
        if not source.reachable():
            return f"{name} does not answer"
        state = source.partition(self._topic) if self._topic else None
        if state is None:
            return f"{name} has stated nothing yet"
        leader = f"leader broker{state.leader}" if state.leader >= 0 else "no leader"
        isr = ", ".join(map(str, state.isr))
        return f"{name}: {self._topic}/0 {leader}, epoch {state.leader_epoch}, ISR {isr}"

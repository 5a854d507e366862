"""Times that follow from the effective settings: how long a cut must last, and how long to wait for what.

Scenarios take their waits, the durations of their faults and their deadlines from here, so that they work
with production settings (`zookeeper.session.timeout.ms=18000`) as well as with the short ones of the base.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.cluster.settings import Setting, whole
from harness.errors import UsageError
from harness.kafka.config import BASE_BROKER, BASE_ZOOKEEPER, OF_MODE

ZOOKEEPER_SESSION_MS = "zookeeper.session.timeout.ms"
BROKER_SESSION_MS = "broker.session.timeout.ms"
LAG_MS = "replica.lag.time.max.ms"
REQUEST_MS = "request.timeout.ms"
FETCH_WAIT_MS = "replica.fetch.wait.max.ms"
QUORUM_FETCH_MS = "controller.quorum.fetch.timeout.ms"
QUORUM_ELECTION_MS = "controller.quorum.election.timeout.ms"
_MS = 1000.0


def effective_times(broker_config: Mapping[str, str], mode: str) -> dict[str, str]:
    """The broker properties of a run: the base configuration of the mode, and what overrides it."""
    return {**BASE_BROKER, **OF_MODE[mode], **broker_config}


@dataclass(frozen=True, kw_only=True)
class Timings:
    """The effective time settings in seconds, and what follows from them."""

    session_s: float = 4.0
    """`zookeeper.session.timeout.ms`, or `broker.session.timeout.ms` on KRaft: a silent broker is dead.

    While a cluster migrates, the longer one."""
    lag_s: float = 6.0
    """`replica.lag.time.max.ms`: a follower that does not catch up leaves the ISR."""
    request_s: float = 3.0
    """`request.timeout.ms` of the brokers: fetchers and the controller's channels wait for an answer."""
    fetch_wait_s: float = 0.5
    """`replica.fetch.wait.max.ms`"""
    quorum_fetch_s: float = 2.0
    """`controller.quorum.fetch.timeout.ms`"""
    quorum_election_s: float = 1.0
    """`controller.quorum.election.timeout.ms`"""

    @classmethod
    def of(cls, broker_config: Mapping[str, str], mode: str) -> Timings:
        """The timings of a run whose brokers get ``broker_config`` on top of the base configuration.

        A value that is not a number counts as the base's value; the brokers will refuse it.
        """
        given = effective_times(broker_config, mode)
        base = cls()

        def seconds(key: str, otherwise: float) -> float:
            try:
                return int(given.get(key, "")) / _MS
            except ValueError:
                return otherwise

        sessions = [key for key in (ZOOKEEPER_SESSION_MS, BROKER_SESSION_MS) if key in OF_MODE[mode]]
        return cls(
            session_s=max(seconds(key, base.session_s) for key in sessions),
            lag_s=seconds(LAG_MS, base.lag_s),
            request_s=seconds(REQUEST_MS, base.request_s),
            fetch_wait_s=seconds(FETCH_WAIT_MS, base.fetch_wait_s),
            quorum_fetch_s=seconds(QUORUM_FETCH_MS, base.quorum_fetch_s),
            quorum_election_s=seconds(QUORUM_ELECTION_MS, base.quorum_election_s),
        )

    @property
    def session_end_s(self) -> float:
        """Deadline for what follows from the end of a session: 0.7 to 1.1 times its time-out."""
        return max(15.0, 1.5 * self.session_s + 9.0)

    @property
    def shrink_s(self) -> float:
        """Deadline for what follows from the lag of a follower, which is checked each half of `lag_s`."""
        return max(20.0, 1.5 * self.lag_s + 11.0)

    @property
    def change_s(self) -> float:
        """Deadline for a change of leader or ISR, whatever makes it."""
        return max(self.session_end_s, self.shrink_s if self.lag_s > BASE.lag_s else 0.0)

    @property
    def recovery_s(self) -> float:
        """How much longer a healed cluster may take to recover than with the base settings."""
        return (
            max(0.0, 3.0 * (self.request_s - 3.0))
            + max(0.0, 1.5 * (self.session_s - 4.0))
            + max(0.0, 2.0 * (self.fetch_wait_s - 0.5))
        )

    @property
    def converge_s(self) -> float:
        """Deadline for replicas to be in sync again after a heal."""
        return 40.0 + self.recovery_s

    @property
    def harmless_s(self) -> float:
        """Longer than a session with its election, a request, and a lagging follower's stay in the ISR."""
        return max(1.5 * self.lag_s + 1.0, 1.5 * self.session_s + 4.0, self.request_s + 7.0)

    @property
    def cut_s(self) -> float:
        """`harmless_s` with a margin: after a cut of this length, everything that can happen has happened."""
        return self.harmless_s + 2.0

    @property
    def quorum_cut_s(self) -> float:
        """As `cut_s`, but also long enough for several elections of the KRaft quorum."""
        return max(self.cut_s, 6.0 * self.quorum_fetch_s)

    @property
    def lagged_s(self) -> float:
        """Longer than a follower that fetches nothing stays in the ISR."""
        return 1.5 * self.lag_s + 3.0

    @property
    def all_checked_s(self) -> float:
        """How long a leader takes at most to check all its partitions for lagging followers."""
        return self.lag_s / 2 + 1.0

    @property
    def held_s(self) -> float:
        """Longer than a request of a broker, and than a session."""
        return max(self.request_s + 2.0, self.session_s + 1.0)

    @property
    def patience_s(self) -> float:
        """How long a client has to wait for a write that a new leader or a smaller ISR completes."""
        return self.session_end_s + 5.0


BASE = Timings()
"""The timings of the base configuration."""


def require_possible(users: Mapping[str, Setting], broker_config: Mapping[str, str], mode: str) -> None:
    """Raise UsageError for time settings that take effect only in part, or that contradict each other."""
    session = users.get(ZOOKEEPER_SESSION_MS)
    asked_ms = None if session is None else whole(session.value)
    if session is None or asked_ms is None or ZOOKEEPER_SESSION_MS not in OF_MODE[mode]:
        return
    least, most = BASE_ZOOKEEPER["minSessionTimeout"], BASE_ZOOKEEPER["maxSessionTimeout"]
    if not int(least) <= asked_ms <= int(most):
        raise UsageError(
            f"{session}: the ZooKeeper nodes here grant sessions from {least} to {most} ms; use a value "
            f"between them."
        )

"""What a recording will do: its topic, its producers, its rate and its end, before anything is written."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from harness.cluster.attached import PREFIX, AttachedCluster, spread_over_azs
from harness.errors import BadDataError, UsageError, quoted
from harness.kafka.model import Topic
from run.clients import ProducerSetting, UserClients, compared

_NAME = re.compile(rf"{PREFIX}[A-Za-z0-9._-]{{1,200}}")
MOST_RATE = 1000.0
"""Messages per second of all producers together, unless the user says otherwise."""
MOST_BYTES_PER_S = 1_000_000
"""Bytes of values per second of all producers together, unless the user says otherwise."""
DEFAULT_FACTOR = 3
_OVERHEAD_BYTES = 80
"""What the log needs for a message beside its value: the header of a batch of its own, and the record's."""
_HISTORY_BYTES = 1000
"""What the run folder needs for a message, with three replicas: journals, of which the history is a tenth."""
_UNFORESEEN_BYTES = 1 << 28
"""What else the run folder may have, such as the views of a cluster that changes all the time."""


@dataclass(frozen=True, kw_only=True)
class RecordingPlan:
    """One recording. It is stored in the manifest, so that another process can carry it on."""

    topic: str
    """The topic of its own."""
    assignment: tuple[tuple[int, ...], ...]
    """Replicas of each partition, its first leader first."""
    rate: float
    """Messages per second of all producers together."""
    size_bytes: int
    """Size of a message's value."""
    for_s: float
    """How long it records."""
    transactions: bool = False
    """A group copies the messages to a second topic, in transactions that also commit its offsets. Group and
    transactional id are called as the topic."""

    @property
    def topics(self) -> tuple[Topic, ...]:
        """The topics to create, without any property: the cluster's own settings apply."""
        names = (self.topic, self.output) if self.transactions else (self.topic,)
        return tuple(
            Topic(name, self.assignment[0], partitions=len(self.assignment), placed=self.assignment)
            for name in names
        )

    @property
    def output(self) -> str:
        """The topic to which transactions copy."""
        return f"{self.topic}-copied"

    @property
    def replication_factor(self) -> int:
        """Replicas of each partition."""
        return len(self.assignment[0])

    @property
    def broker_bytes_per_hour(self) -> int:
        """What the cluster writes to all its disks in an hour."""
        size = self.size_bytes + _OVERHEAD_BYTES
        return round(self.rate * size * 3600) * self.replication_factor * len(self.topics)

    @property
    def own_bytes_per_hour(self) -> int:
        """What the run folder grows in an hour, about."""
        return round(self.rate * _HISTORY_BYTES * 3600) * len(self.topics)

    @property
    def most_own_bytes(self) -> int:
        """What the run folder may have before the recording ends early."""
        return 2 * round(self.own_bytes_per_hour * self.for_s / 3600) + _UNFORESEEN_BYTES

    def as_json(self) -> dict[str, Any]:
        """For the manifest."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> RecordingPlan:
        """From the manifest of a run folder, which may come from anybody. Raises BadDataError."""
        try:
            assignment = tuple(tuple(int(one) for one in replicas) for replicas in stored["assignment"])
            plan = cls(
                topic=str(stored["topic"]),
                assignment=assignment,
                rate=float(stored["rate"]),
                size_bytes=int(stored["size_bytes"]),
                for_s=float(stored["for_s"]),
                transactions=stored.get("transactions") is True,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise BadDataError(
                f"run.json of the recording has no usable plan ({type(error).__name__}: {error}); record "
                "anew."
            ) from None
        if not _NAME.fullmatch(plan.topic) or not assignment or not all(assignment):
            raise BadDataError(
                f"run.json names the topic {plan.topic!r}, which acked has not made; record anew."
            )
        return plan


def require_own_name(topic: str) -> str:
    """The name itself, if acked may make a topic of it. Raises UsageError."""
    if not _NAME.fullmatch(topic):
        raise UsageError(
            f"--topic {quoted(topic, 60)}: acked writes only to topics of its own; begin the name with "
            f"{PREFIX}, and go on with letters, digits, '.', '_' and '-'."
        )
    return topic


def plan_recording(
    cluster: AttachedCluster,
    *,
    for_s: float,
    rate: float,
    size_bytes: int,
    partitions: int = 0,
    replication_factor: int = 0,
    topic: str = "",
    uncapped: bool = False,
    transactions: bool = False,
) -> RecordingPlan:
    """A recording on a cluster. 0 partitions: one that each AZ leads, at least three; 0 replicas: three.

    Raises UsageError for what the cluster cannot have, and beyond the caps unless ``uncapped``.
    """
    brokers = cluster.brokers
    azs = {host.az for host in brokers}
    factor = replication_factor or min(DEFAULT_FACTOR, len(brokers))
    if factor > len(brokers):
        raise UsageError(
            f"--replication-factor {factor}: the cluster has {len(brokers)} broker(s); use at most as many."
        )
    if topic:
        require_own_name(topic)
    if not uncapped and rate > MOST_RATE:
        raise UsageError(
            f"--rate {rate:g}: at most {MOST_RATE:.0f} messages per second, unless you add --no-caps."
        )
    if not uncapped and rate * size_bytes > MOST_BYTES_PER_S:
        raise UsageError(
            f"--rate {rate:g} with --size {size_bytes} is {rate * size_bytes / 1e6:.1f} MB/s: at most "
            f"{MOST_BYTES_PER_S / 1e6:.0f} MB/s, unless you add --no-caps."
        )
    count = partitions or max(len(azs), min(DEFAULT_FACTOR, len(brokers)))
    return RecordingPlan(
        topic=topic or f"{PREFIX}{secrets.token_hex(4)}",
        assignment=spread_over_azs(brokers, partitions=count, factor=factor),
        rate=rate,
        size_bytes=size_bytes,
        for_s=for_s,
        transactions=transactions,
    )


def settings_of(user: UserClients) -> Sequence[ProducerSetting]:
    """The producers of a recording: the described one, and the one that is compared with it."""
    return compared(user.producer)

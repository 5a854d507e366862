"""What a scenario is: the set-up it needs, the faults it makes, and the claims it is judged by.

A claim is data (SQL over the history and the life table), not code: it is stored in the run folder, so that
a stored run can be judged again without the scenario's module. Each claim's query returns one row with

* ``holds`` (boolean; null means the evidence does not decide it), and
* ``observed`` (text: what was seen, in the units of the claim).

Queries may name every table of `harness.history.schema`, and `life` (see `docs/findings.md`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from harness.run.stage import Stage


@dataclass(frozen=True)
class Erratum:
    """What Kafka does instead of what the article says, and why (source, KIP or JIRA)."""

    says: str
    because: str
    holds: str


@dataclass(frozen=True)
class Claim:
    """One sentence of an article, and the query that decides it.

    As declared means: the article's query holds; or, where an erratum is given, it does not hold and the
    erratum's query does. ``given`` is a query of the same shape for the situation the claim speaks of: if
    that never arose, the claim is *not reproduced* instead of refuted.
    """

    name: str
    says: str
    section: str
    holds: str
    given: str = ""
    erratum: Erratum | None = None


@dataclass(frozen=True)
class Expected:
    """Findings that are expected here, so that they are shown but are no violation.

    ``where`` is an SQL condition over `life` joined with the finding's columns; a finding of class
    ``finding`` that no Expected covers makes the verdict *violated*.
    """

    finding: str
    where: str
    because: str


@dataclass(frozen=True)
class Topic:
    """A topic; ``replicas`` are the broker numbers of its partitions, preferred leader first.

    With ``spread`` each further partition rotates them, so that every broker leads some.
    """

    name: str
    replicas: tuple[int, ...]
    partitions: int = 1
    config: Mapping[str, str] = field(default_factory=dict)
    spread: bool = False

    @property
    def assignment(self) -> tuple[tuple[int, ...], ...]:
        """Replicas of each partition, in order of partition."""
        if not self.spread:
            return (self.replicas,) * self.partitions
        size = len(self.replicas)
        turned = (number % size for number in range(self.partitions))
        return tuple(self.replicas[turn:] + self.replicas[:turn] for turn in turned)


@dataclass(frozen=True)
class Setup:
    """Cluster and roles that must hold before the first fault; the harness forces and asserts them."""

    topics: tuple[Topic, ...]
    controller: str = "broker2"
    zookeeper_leader: str = "zookeeper2"
    broker_config: Mapping[str, str] = field(default_factory=dict)
    brokers: tuple[int, ...] = (1, 2, 3)
    zookeeper_pins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Brokers that may connect only to these ZooKeeper nodes: healthy ones stay off the AZ to be cut."""
    format_features: Mapping[str, str] = field(default_factory=dict)
    """KRaft features that are set when the data folders are formatted, by name and level."""
    stream_rate: float = 50.0
    """Background messages a second in each AZ; 0 for none."""
    stream_topic: str = "stream"


@dataclass(frozen=True)
class Scenario:
    """One case of the catalogue."""

    name: str
    title: str
    article: str
    section: str
    body: Callable[[Stage], None]
    setup: Setup
    claims: tuple[Claim, ...] = ()
    expected: tuple[Expected, ...] = ()
    faults: tuple[str, ...] = ()
    kafka: str = "2.7.1"
    mode: Literal["zookeeper", "kraft", "kraft-combined"] = "zookeeper"
    outcome: str = ""
    """One sentence for `acked list`: what a correct run ends with."""

    def declared(self) -> dict[str, Any]:
        """Claims and expected findings as stored in the run folder (`claims.json`)."""
        return {
            "scenario": self.name,
            "article": self.article,
            "section": self.section,
            "claims": [asdict(claim) for claim in self.claims],
            "expected": [asdict(entry) for entry in self.expected],
        }

"""What a scenario is: the set-up it needs, the faults it makes, and the claims it is judged by.

A claim is data (SQL over the history and the life table), not code: it is stored in the run folder, so that
a stored run can be judged again without the scenario's module. Each claim's query returns one row with

* ``holds`` (boolean; null means the evidence does not decide it), and
* ``observed`` (text: what was seen, in the units of the claim).

Queries may name every table of `harness.history.schema`, `life` and `findings` (see `docs/findings.md`), and
the times of the scenario's marks as `{mark:NAME}`. `checkers.claims.builders` writes the common ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from harness.cluster.setup import Setup
from harness.kafka.bugs import bugs_of
from harness.kafka.versions import version_key

if TYPE_CHECKING:
    from harness.cluster.timings import Timings
    from harness.run.stage import Stage


@dataclass(frozen=True)
class Erratum:
    """What Kafka does instead of what the article says, and why (source, KIP or JIRA)."""

    says: str
    because: str
    holds: str
    since: str = ""
    """First Kafka version to which it applies; empty for all."""
    before: str = ""
    """First Kafka version to which it no longer applies."""


@dataclass(frozen=True)
class Either:
    """The other outcome of a claim where Kafka really does the one or the other, and what decides it."""

    says: str
    because: str
    holds: str


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One sentence of an article, and the query that decides it.

    As declared means: the article's query holds. Where an erratum is given, the article's query must not hold
    and the erratum's must. Where another outcome is given (``either``), one of the two must hold, and the
    judgement says which one did. ``given`` is a query of the same shape for the situation that the claim
    is about: if that did not arise, the claim is *not reproduced* instead of refuted.
    """

    name: str
    says: str
    """Our sentence, in English."""
    section: str
    holds: str
    quote: str = ""
    """The article's own sentence, in its language."""
    given: str = ""
    erratum: Erratum | None = None
    either: Either | None = None
    precondition: bool = False
    """It only establishes the situation: it must hold (else it is *not reproduced*), and is not a claim."""
    since: str = ""
    """First Kafka version for which the claim is evaluated; empty for all."""
    before: str = ""
    """First Kafka version for which it is no longer evaluated."""

    def __post_init__(self) -> None:
        if self.erratum and self.either:
            raise ValueError(f"Claim {self.name!r} has both an erratum and another outcome; it may have one.")


@dataclass(frozen=True)
class Expected:
    """Findings that are expected here, so that they are shown but are no violation.

    ``where`` is an SQL condition over `life` joined with the finding's columns; a finding of class
    ``finding`` that no Expected covers makes the verdict *violated*.
    """

    finding: str
    where: str
    because: str
    since: str = ""
    """First Kafka version that shows it; empty for all."""
    before: str = ""
    """First Kafka version that no longer shows it."""


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
    versions: tuple[str, ...] = ()
    """Kafka versions whose difference the scenario shows, oldest first; none: its own alone."""
    modes: tuple[str, ...] = ()
    """Metadata modes it makes sense in; none: its own alone."""
    timed: tuple[Callable[[Timings], Claim], ...] = ()
    """Write those claims that name times for other time settings; ``claims`` has them for its own."""

    @property
    def supported_modes(self) -> tuple[str, ...]:
        """Metadata modes it can be run in."""
        return self.modes or (self.mode,)

    def at(self, timings: Timings) -> Scenario:
        """The scenario with the claims for these time settings."""
        if not self.timed:
            return self
        anew = {claim.name: claim for claim in (write(timings) for write in self.timed)}
        return replace(self, claims=tuple(anew.get(claim.name, claim) for claim in self.claims))

    def declared(self, version: str = "") -> dict[str, Any]:
        """Claims and expected findings of a Kafka version as stored in the run folder (`claims.json`).

        What known bugs of the version leave behind is expected in every scenario.
        """
        kafka = version or self.kafka
        return {
            "scenario": self.name,
            "article": self.article,
            "section": self.section,
            "claims": [_stored(claim, kafka) for claim in self.claims if speaks_of(claim, kafka)],
            "expected": [
                *(_stored(entry, kafka) for entry in self.expected if speaks_of(entry, kafka)),
                *(
                    {"finding": bug.finding, "where": bug.where, "because": f"{bug.jira}: {bug.says}"}
                    for bug in bugs_of(kafka)
                ),
            ],
        }


def speaks_of(entry: Claim | Erratum | Expected, version: str) -> bool:
    """Whether a Kafka version lies within an entry's ``since`` and ``before``."""
    here = version_key(version)
    return (not entry.since or version_key(entry.since) <= here) and (
        not entry.before or here < version_key(entry.before)
    )


def _stored(entry: Claim | Expected, version: str) -> dict[str, Any]:
    """An entry as data for one version: an erratum of other versions is left out, and so are the bounds."""
    stored = asdict(entry)
    if isinstance(entry, Claim) and entry.erratum is not None:
        if speaks_of(entry.erratum, version):
            stored["erratum"] = _without_bounds(stored["erratum"])
        else:
            stored["erratum"] = None
    return _without_bounds(stored)


def _without_bounds(stored: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in stored.items() if key not in ("since", "before")}

"""What a scenario is: the set-up it needs, the faults it makes, and the claims it is judged by.

A claim is data (SQL over the history and the life table), not code: it is stored in the run folder, so that
a stored run can be judged again without the scenario's module. Each claim's query returns one row with

* ``holds`` (boolean; null means the evidence does not decide it), and
* ``observed`` (text: what was seen, in the units of the claim).

Queries may name every table of `harness.history.schema`, `life` and `findings` (see `docs/findings.md`), and
the times of the scenario's marks as `{mark:NAME}`. `checkers.claims.builders` writes the common ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from checkers.claims.subject import merged, subject_of
from harness.cluster.setup import Setup
from harness.kafka.bugs import bugs_of
from harness.kafka.model import Library
from harness.kafka.versions import version_key

if TYPE_CHECKING:
    from harness.cluster.timings import Timings
    from run.stage import Stage


@dataclass(frozen=True, kw_only=True)
class Erratum:
    """What Kafka does instead of what the article says, and why (source, KIP or JIRA)."""

    says: str
    """What Kafka does."""
    because: str
    """Why, with its source."""
    holds: str
    """The query of that sentence, as in `Claim`."""
    since: str = ""
    """First Kafka version to which it applies; empty for all."""
    before: str = ""
    """First Kafka version to which it no longer applies."""
    client: Library = ""
    """The client library to which it applies, where clients differ; empty for all."""


@dataclass(frozen=True)
class Either:
    """The other outcome of a claim, where Kafka allows both, and what decides between them."""

    says: str
    """The other sentence."""
    because: str
    """What decides which of the two happens."""
    holds: str
    """The query of the other sentence, as in `Claim`."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One sentence about a run, and the query that decides it.

    A claim is as declared if its query holds. If it has an erratum, its own query must not hold and the
    erratum's must. If it has another outcome (``either``), one of the two queries must hold, and the
    judgement says which one does.
    """

    name: str
    """Distinct within the scenario."""
    says: str
    """The sentence, in English."""
    holds: str
    """A query that returns one row with `holds` and `observed`; `acked.claims` writes the common ones."""
    section: str = ""
    """The section of the article with this sentence; empty for a claim of your own."""
    quote: str = ""
    """The article's own sentence, in its language."""
    given: str = ""
    """A query of the same shape for the situation that the claim is about: if that did not arise, the claim
    is *not reproduced* instead of refuted."""
    erratum: Erratum | None = None
    """What Kafka does instead."""
    either: Either | None = None
    """The other outcome that Kafka allows."""
    precondition: bool = False
    """It only establishes the situation for other claims, and is *not reproduced* if it does not hold."""
    since: str = ""
    """First Kafka version for which the claim is evaluated; empty for all."""
    before: str = ""
    """First Kafka version for which it is no longer evaluated."""
    client: Library = ""
    """The client library for which it is evaluated; empty for all."""

    def __post_init__(self) -> None:
        if self.erratum and self.either:
            raise ValueError(
                f"Claim {self.name!r} has both an erratum and another outcome; remove one of them."
            )


@dataclass(frozen=True)
class Expected:
    """Findings that are expected here: they are shown, but are not a violation.

    A finding that no Expected covers makes the verdict *violated*.
    """

    finding: str
    """The class of the findings, such as `lost` (see `docs/findings.md`)."""
    where: str
    """An SQL condition over `life` joined with the finding's columns."""
    because: str
    """Why they are expected."""
    _: KW_ONLY
    since: str = ""
    """First Kafka version that shows it; empty for all."""
    before: str = ""
    """First Kafka version that no longer shows it."""
    client: Library = ""
    """The client library with which it is shown; empty for all."""


@dataclass(frozen=True)
class ScenarioFile:
    """The file that declares a scenario, as it was when it was read."""

    path: Path
    text: str
    module: str = ""
    """The importable module of an installed package; empty for a file that stands alone."""

    @property
    def sha256(self) -> str:
        """Hash of the text, in hexadecimal."""
        return sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One case: a set-up, what happens to it, and the claims that judge it."""

    name: str
    """Lower-case words with hyphens. It names the folder of the runs."""
    title: str
    """One line for lists."""
    body: Callable[[Stage], None]
    """Called once the cluster is up and the set-up holds."""
    setup: Setup
    """What must hold before the first fault."""
    article: str = "own"
    """The article that the case belongs to."""
    section: str = ""
    """The section of the article."""
    claims: tuple[Claim, ...] = ()
    """What the run is judged by, besides the findings that every run is searched for."""
    expected: tuple[Expected, ...] = ()
    """Findings that are not a violation here."""
    faults: tuple[str, ...] = ()
    """What is broken, in a few words each, for `acked list`."""
    kafka: str = "2.7.1"
    """The Kafka version that it is written for."""
    mode: Literal["zookeeper", "kraft", "kraft-combined", "migration"] = "zookeeper"
    """The metadata mode that it is written for."""
    outcome: str = ""
    """One sentence for `acked list`: what a correct run ends with."""
    versions: tuple[str, ...] = ()
    """Kafka versions between which the scenario shows a difference, oldest first; empty: only its own."""
    modes: tuple[str, ...] = ()
    """Metadata modes in which it makes sense; empty: only its own."""
    timed: tuple[Callable[[Timings], Claim], ...] = ()
    """Functions that write the claims that name times for given time settings."""
    judged_by: Literal["declaration", "promises"] = "declaration"
    """What decides about findings: `declaration` (those that are not expected violate the run) or `promises`
    (the table of promises: broken ones violate the run, and what Kafka does not promise is expected)."""
    described: str = ""
    """With what the names of the user's own producers end, for example `acks=all`; the others are there for
    comparison. Empty: there is no such distinction."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Hosts by the letters that the article gives them, besides its `broker-0`, which is always `broker1`."""
    file: ScenarioFile | None = field(default=None, compare=False, repr=False)
    """Where it was read from; None for the catalogue. Set by the harness."""

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

    def declared(self, version: str = "", client: Library = "librdkafka") -> dict[str, Any]:
        """Claims and expected findings for a Kafka version and a client, as `claims.json` stores them.

        A scenario that is judged by its declaration also expects the findings that known bugs of the version
        cause.
        """
        kafka = version or self.kafka
        return {
            "scenario": self.name,
            "article": self.article,
            "section": self.section,
            "aliases": dict(self.aliases),
            "claims": [
                _stored(claim, kafka, client) for claim in self.claims if speaks_of(claim, kafka, client)
            ],
            "expected": [
                *(
                    _stored(entry, kafka, client)
                    for entry in self.expected
                    if speaks_of(entry, kafka, client)
                ),
                *(
                    {"finding": bug.finding, "where": bug.where, "because": f"{bug.jira}: {bug.says}"}
                    for bug in (bugs_of(kafka) if self.judged_by == "declaration" else ())
                ),
            ],
            "judged_by": self.judged_by,
            "described": self.described,
        }


def speaks_of(entry: Claim | Erratum | Expected, version: str, client: Library = "librdkafka") -> bool:
    """Whether an entry applies to a Kafka version and a client library."""
    here = version_key(version)
    return (
        (not entry.since or version_key(entry.since) <= here)
        and (not entry.before or here < version_key(entry.before))
        and entry.client in ("", client)
    )


def _stored(entry: Claim | Expected, version: str, client: Library) -> dict[str, Any]:
    """An entry as data for one version and client, without bounds and without an erratum of another one."""
    stored = asdict(entry)
    if isinstance(entry, Claim):
        erratum = entry.erratum if entry.erratum and speaks_of(entry.erratum, version, client) else None
        stored["erratum"] = _without_bounds(stored["erratum"]) if erratum else None
        others = (other.holds for other in (erratum, entry.either) if other is not None)
        queries = (entry.holds, entry.given, *others)
        stored["subject"] = asdict(merged(subject_of(query) for query in queries))
    return _without_bounds(stored)


def _without_bounds(stored: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in stored.items() if key not in ("since", "before", "client")}

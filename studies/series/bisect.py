"""Regression search: the first Kafka version in which a claim of a scenario turns out differently."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.errors import InvalidRunError, UsageError
from harness.kafka.versions import KafkaVersion, kafka_version
from run.scenario import Scenario
from studies.series.summary import RunSummary

DECIDED = ("confirmed", "refuted")


@dataclass(frozen=True)
class ClaimChange:
    """Where a claim changes."""

    claim: str
    last_before: str
    """The last version before the change."""
    first: str
    """The first version after the change; empty if the claim is the same at both ends."""
    statuses: tuple[tuple[str, str, str], ...]
    """Version, status and observation of each run, in the order in which they ran."""

    def sentence(self) -> str:
        """The answer."""
        status = {version: status for version, status, _ in self.statuses}
        if not self.first:
            return f"{self.claim} is {status[self.last_before]} in all versions that were tried."
        return (
            f"{self.claim} changes in {self.first}: {status[self.last_before]} in {self.last_before}, "
            f"{status[self.first]} in {self.first}."
        )


def candidates(
    scenario: Scenario, claim: str, versions: Sequence[KafkaVersion], mode: str
) -> tuple[KafkaVersion, ...]:
    """Versions, oldest first, that run in the mode and that the claim applies to.

    Raises UsageError for a claim that the scenario does not have, or for fewer than two versions.
    """
    names = {entry.name for entry in scenario.claims}
    if claim not in names:
        raise UsageError(f"{scenario.name} has no claim {claim!r}; it has {', '.join(sorted(names))}.")
    considered = versions or tuple(kafka_version(name) for name in scenario.versions)
    fit = tuple(
        version
        for version in considered
        if mode in version.modes
        and any(entry["name"] == claim for entry in scenario.declared(version.version)["claims"])
    )
    if len(fit) < 2:
        asked = ", ".join(version.label for version in considered) or "none"
        raise UsageError(
            f"A search needs two versions that run in mode {mode} and have claim {claim!r}; of {asked}, "
            f"{len(fit)} do."
        )
    return fit


def search(claim: str, versions: Sequence[str], run: Callable[[str], RunSummary]) -> ClaimChange:
    """Halve the range between two versions that disagree until they are neighbours.

    Raises InvalidRunError if a run does not decide the claim.
    """
    decided: dict[str, tuple[str, str]] = {}

    def status(version: str) -> str:
        if version not in decided:
            summary = run(version)
            outcome = summary.claims.get(claim, "missing")
            if outcome not in DECIDED or not summary.judged:
                raise InvalidRunError(
                    f"The run on {version} does not decide claim {claim!r} ({outcome}, verdict "
                    f"{summary.verdict}); see {summary.folder}."
                )
            decided[version] = (outcome, summary.observed.get(claim, ""))
        return decided[version][0]

    low, high = 0, len(versions) - 1
    before = status(versions[low])
    changed = status(versions[high]) != before
    while changed and high - low > 1:
        middle = (low + high) // 2
        if status(versions[middle]) == before:
            low = middle
        else:
            high = middle
    statuses = tuple((version, outcome, observed) for version, (outcome, observed) in decided.items())
    return ClaimChange(claim, versions[low], versions[high] if changed else "", statuses)

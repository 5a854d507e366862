"""Regression search: the first Kafka version in which a claim of a scenario turns out differently."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.errors import InvalidRunError, UsageError
from harness.kafka.versions import KafkaVersion, kafka_version
from harness.scenario import Scenario
from harness.series.pool import CellResult

DECIDED = ("confirmed", "refuted")


@dataclass(frozen=True)
class Found:
    """Where a claim changes; ``first`` is empty when it is the same at both ends.

    ``statuses`` holds what was run, in the order in which it was run.
    """

    claim: str
    last_before: str
    first: str
    statuses: tuple[tuple[str, str, str], ...]
    """Version, status, and what was observed."""

    def sentence(self) -> str:
        """The answer."""
        told = {version: status for version, status, _ in self.statuses}
        if not self.first:
            return f"{self.claim} is {told[self.last_before]} in all versions that were tried."
        return (
            f"{self.claim} changes in {self.first}: {told[self.last_before]} in {self.last_before}, "
            f"{told[self.first]} in {self.first}."
        )


def candidates(
    scenario: Scenario, claim: str, versions: Sequence[KafkaVersion], mode: str
) -> tuple[KafkaVersion, ...]:
    """Versions, oldest first, that run in the mode and of which the claim is asked.

    Raises UsageError for a claim that the scenario does not have, or fewer than two versions.
    """
    known = {entry.name for entry in scenario.claims}
    if claim not in known:
        raise UsageError(f"{scenario.name} has no claim {claim!r}; it has {', '.join(sorted(known))}.")
    wanted = versions or tuple(kafka_version(name) for name in scenario.versions)
    fit = tuple(
        version
        for version in wanted
        if mode in version.modes
        and any(entry["name"] == claim for entry in scenario.declared(version.version)["claims"])
    )
    if len(fit) < 2:
        said = ", ".join(version.label for version in wanted) or "none"
        raise UsageError(
            f"A search needs two versions that run in mode {mode} and have claim {claim!r}; of {said}, "
            f"{len(fit)} do."
        )
    return fit


def search(claim: str, versions: Sequence[str], run: Callable[[str], CellResult]) -> Found:
    """Halve the range between two versions that disagree until they are neighbours.

    Raises InvalidRunError where a run does not decide the claim.
    """
    told: dict[str, tuple[str, str]] = {}

    def status(version: str) -> str:
        if version not in told:
            result = run(version)
            found = result.claims.get(claim, "missing")
            if found not in DECIDED or result.verdict in ("crashed", "invalid"):
                raise InvalidRunError(
                    f"The run on {version} does not decide claim {claim!r} ({found}, verdict "
                    f"{result.verdict}); see {result.folder}."
                )
            told[version] = (found, result.observed.get(claim, ""))
        return told[version][0]

    low, high = 0, len(versions) - 1
    before = status(versions[low])
    changed = status(versions[high]) != before
    while changed and high - low > 1:
        middle = (low + high) // 2
        if status(versions[middle]) == before:
            low = middle
        else:
            high = middle
    statuses = tuple((version, found, observed) for version, (found, observed) in told.items())
    return Found(claim, versions[low], versions[high] if changed else "", statuses)

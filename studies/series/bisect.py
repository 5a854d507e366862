"""Regression search: the first Kafka version in which a claim of a scenario turns out differently."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import InvalidRunError, UsageError
from harness.kafka.versions import KafkaVersion, kafka_version
from run.scenario import Scenario
from studies.series.summary import RunSummary

DECIDED = ("confirmed", "refuted")


@dataclass(frozen=True)
class ClaimChange:
    """Where a claim changes; both are empty if it is the same at both ends."""

    last_before: str = ""
    """The last version before the change."""
    first: str = ""
    """The first version after it."""


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
    decided: dict[str, str] = {}

    def status(version: str) -> str:
        if version not in decided:
            summary = run(version)
            outcome = status_in(summary, claim)
            if outcome not in DECIDED or not summary.judged:
                raise InvalidRunError(
                    f"The run on {version} does not decide claim {claim!r} ({outcome}, verdict "
                    f"{summary.verdict}); see {summary.folder}."
                )
            decided[version] = outcome
        return decided[version]

    low, high = 0, len(versions) - 1
    before = status(versions[low])
    if status(versions[high]) == before:
        return ClaimChange()
    while high - low > 1:
        middle = (low + high) // 2
        if status(versions[middle]) == before:
            low = middle
        else:
            high = middle
    return ClaimChange(versions[low], versions[high])


def status_in(run: RunSummary, claim: str) -> str:
    """The answer of a run to a claim."""
    return run.claims.get(claim, "missing")


def bisect_document(
    scenario: Scenario,
    mode: str,
    claim: str,
    versions: Sequence[str],
    runs: Sequence[RunSummary],
    change: ClaimChange | None = None,
    problem: str = "",
) -> dict[str, Any]:
    """What `bisect.json` holds. ``change``: the answer, once it is known; ``problem``: why there is none."""
    return {
        "scenario": scenario.name,
        "mode": mode,
        "claim": claim,
        "says": next(entry.says for entry in scenario.claims if entry.name == claim),
        "versions": list(versions),
        "runs": [
            {
                "version": run.version,
                "status": status_in(run, claim),
                "observed": run.observed.get(claim, ""),
                "verdict": run.verdict,
                "reasons": list(run.reasons),
                "seconds": round(run.seconds, 1),
                "folder": run.folder,
            }
            for run in runs
        ],
        "last_before": change.last_before if change else "",
        "first": change.first if change else "",
        "over": change is not None or bool(problem),
        "problem": problem,
    }

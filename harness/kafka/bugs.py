"""Bugs of Kafka versions that may show in any scenario: data, so that no scenario has to repeat them.

Each names the finding it leaves and the evidence that must stand beside it; the same finding without that
evidence stays unexpected.
"""

from __future__ import annotations

from typing import NamedTuple

from harness.kafka.versions import version_key


class Bug(NamedTuple):
    """A finding that a bug explains, where `where` (SQL over findings) holds."""

    jira: str
    says: str
    finding: str
    where: str
    since: str
    before: str
    """First version that has the cure."""


BUGS = (
    Bug(
        "KAFKA-12686, KAFKA-12751",
        "a change of the ISR that was asked of an isolated controller is never answered nor asked again, so "
        "that the ISR stays incomplete until the replicas are reordered or the leader restarts",
        "not_converged",
        "cause = 'ISR change never answered'",
        since="2.7.0",
        before="2.7.2",
    ),
)


def bugs_of(version: str) -> tuple[Bug, ...]:
    """The bugs of a Kafka version (`2.7.1`, or `2.7.1@2.6`)."""
    here = version_key(version)
    return tuple(bug for bug in BUGS if version_key(bug.since) <= here < version_key(bug.before))

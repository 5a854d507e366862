"""Known bugs of Kafka versions that may show in any scenario, so that no scenario has to repeat them.

Each names the finding that it causes and the condition that the finding must meet; a finding of the same
class that does not meet it stays unexpected.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.kafka.versions import version_key


@dataclass(frozen=True, kw_only=True)
class Bug:
    """A bug explains the findings of class ``finding`` for which ``where`` (SQL over findings) holds."""

    jira: str
    says: str
    finding: str
    where: str
    since: str
    """First version that has the bug."""
    before: str
    """First version in which it is fixed."""


BUGS = (
    Bug(
        jira="KAFKA-12686, KAFKA-12751",
        says="an ISR change that a leader requested from an isolated controller is neither answered nor sent "
        "again, so the ISR stays incomplete until the replicas are reordered or the leader restarts",
        finding="not_converged",
        where="cause = 'isr_change_unanswered'",
        since="2.7.0",
        before="2.7.2",
    ),
)


def bugs_of(version: str) -> tuple[Bug, ...]:
    """The bugs of a Kafka version (`2.7.1`, or `2.7.1@2.6`)."""
    here = version_key(version)
    return tuple(bug for bug in BUGS if version_key(bug.since) <= here < version_key(bug.before))

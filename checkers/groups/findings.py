"""Findings about consumer groups that rest on no message, as rows of `findings`."""

from __future__ import annotations

from typing import Any

from checkers.evidence import Evidence
from checkers.groups.commits import COMMIT_CLASSES, commit_findings
from checkers.groups.history import group_histories
from checkers.groups.outside import OUTSIDE, outside_findings
from checkers.groups.ownership import DOUBLE_OWNERSHIP, ownership_findings
from checkers.groups.resets import RESET, reset_findings
from checkers.groups.stalls import STALLED, stall_findings

GROUP_CLASSES = (*COMMIT_CLASSES, DOUBLE_OWNERSHIP, RESET, STALLED, OUTSIDE)


def group_findings(evidence: Evidence) -> list[dict[str, Any]]:
    """Rows of `findings` about commits, ownership and positions of groups, one for each root cause."""
    rows = list(outside_findings(evidence))
    for history in group_histories(evidence).values():
        rows += [*commit_findings(history), *ownership_findings(history)]
        rows += [*reset_findings(history), *stall_findings(history)]
    return rows

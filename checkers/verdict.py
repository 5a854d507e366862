"""Verdicts: their order, worst first, and the exit code of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness.errors import EXIT_AS_DECLARED, EXIT_CRASHED, EXIT_UNKNOWN, EXIT_VIOLATED

VERDICTS: Mapping[str, int] = {
    "crashed": EXIT_CRASHED,
    "invalid": EXIT_UNKNOWN,
    "violated": EXIT_VIOLATED,
    "unknown": EXIT_UNKNOWN,
    "as declared": EXIT_AS_DECLARED,
}
"""Exit code of each verdict, worst verdict first."""

NOT_JUDGED = ("crashed", "invalid")
"""Verdicts of runs that say nothing about Kafka."""

_RANK = {verdict: rank for rank, verdict in enumerate(VERDICTS)}


def worst(verdicts: Iterable[str]) -> str:
    """The worst of some verdicts; `unknown` when there is none."""
    return min(verdicts, key=_RANK.__getitem__, default="unknown")

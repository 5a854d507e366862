"""A run in which nodes were upgraded: the bugs of every version that ran may explain its findings."""

from __future__ import annotations

from checkers.promises.bugs import KnownBug
from checkers.promises.facts import RunFacts


def test_both_versions_may_explain_a_finding() -> None:
    """The promises are those of the first version, which is the older one."""
    facts = RunFacts(kafka="3.9.1", mode="kraft", upgraded=frozenset({"3.9.1", "4.4.0"}))
    assert facts.version() == (3, 9, 1)
    assert facts.versions() == ((3, 9, 1), (4, 4, 0))
    bug = KnownBug(name="KAFKA-0", says="", classes=("lost",), when=(), since="4.0.0")
    assert [bug.may_be_in(version, facts.mode) for version in facts.versions()] == [False, True]


def test_an_unknown_version_stays_unknown() -> None:
    """A history that names no version has no bug that is limited to versions."""
    assert RunFacts().versions() == (None,)

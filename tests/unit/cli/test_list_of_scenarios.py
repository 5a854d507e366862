"""`acked list`: one line a scenario at every width, one row a line through a pipe, and words that choose."""

from __future__ import annotations

import io
import re
import sys
from collections import Counter

import pytest
from click.testing import CliRunner

from cli.commands import loaded
from harness.errors import UsageError
from run.catalogue import known_scenarios
from scenarios.catalogue import SCENARIOS
from scenarios.questions import QUESTIONS


def _shown(monkeypatch: pytest.MonkeyPatch, width: int, *arguments: str) -> list[str]:
    """The lines on a terminal of this width, as plain text."""
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("LINES", "50")
    monkeypatch.setenv("TERM", "xterm")
    loaded("list").main(list(arguments), standalone_mode=False)
    return re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue()).splitlines()


def _piped(*arguments: str) -> list[str]:
    result = CliRunner().invoke(loaded("list"), list(arguments))
    if result.exception is not None:
        raise result.exception
    return result.output.splitlines()


def test_every_scenario_answers_one_question() -> None:
    counts = Counter(name for names in QUESTIONS.values() for name in names)
    assert set(counts) == {scenario.name for scenario in SCENARIOS}
    assert set(counts.values()) == {1}


@pytest.mark.parametrize("width", [80, 120, 200])
def test_one_line_for_each_scenario(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    lines = _shown(monkeypatch, width)
    assert max(len(line) for line in lines) <= width
    named = [line.split()[0] for line in lines if line.startswith("  ")]
    assert sorted(named) == sorted(known_scenarios())
    assert [line for line in lines if line in QUESTIONS] == list(QUESTIONS)


def test_findings_are_never_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    expected_findings = {expected.finding for scenario in SCENARIOS for expected in scenario.expected}
    for line in _shown(monkeypatch, 80):
        if line.startswith("  "):
            findings, _, more = re.split(r"\s{2,}", line.strip())[2].partition(" +")
            assert findings == "–" or set(findings.split(", ")) <= expected_findings
            assert not more or more.isdigit()


def test_through_a_pipe_a_scenario_is_a_line() -> None:
    rows = [line.split("\t") for line in _piped()]
    assert sorted(row[0] for row in rows) == sorted(known_scenarios())
    assert {len(row) for row in rows} == {4}
    assert {len(line.split("\t")) for line in _piped("--long")} == {7}


def test_words_choose() -> None:
    power = [line.partition("\t")[0] for line in _piped("power")]
    assert {"power-cut", "power-cut-flushed"} <= set(power)
    assert len(power) < len(SCENARIOS)
    assert [line.partition("\t")[0] for line in _piped("FOLLOWER", "default")] == [
        "slow-follower-default-lag"
    ]
    assert [line.partition("\t")[0] for line in _piped("leader-killed")] == ["leader-killed"]
    assert all(line.startswith("kraft-") for line in _piped("kraft-*"))


def test_a_word_that_no_scenario_has() -> None:
    with pytest.raises(UsageError, match=r"No scenario speaks of 'zeppelin'; `acked list` shows them all"):
        _piped("zeppelin")

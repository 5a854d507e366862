"""A bug that takes two faults, planted in a client: a search finds it, and shrinking leaves these two."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from harness.search.minimise import without_steps
from harness.search.schedule import read
from harness.search.shrinking import SMALLEST, TESTS
from tests.cluster.conftest import acked

FORGETFUL = Path(__file__).parent / "forgetful_client.py"
COMMON = ("--parallel", "2", "--json")

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(3600)]


def test_a_bug_that_takes_two_faults_is_found_and_shrunk_to_them(tmp_path: Path) -> None:
    """Safe settings, so that every lost message breaks a promise. Neither fault alone shows the bug."""
    found = acked(
        *("search", "--kafka", "4.3.1", "--mode", "kraft-combined", "--safe", "--faults", "pause,kill"),
        *("--client", f"{sys.executable} {FORGETFUL}", "--seed", "2", "--count", "3"),
        *(*COMMON, "--runs", tmp_path),
        timeout_s=1800,
    )
    assert found.status == 1, found.stderr
    (file,) = tmp_path.glob("search/*/schedules.jsonl")
    runs = [json.loads(line) for line in file.read_text().splitlines()]
    losing = [run for run in runs if ("lost", "broken") in _named(run)]
    assert losing, runs
    shrunk = acked(
        *("shrink", losing[0]["folder"], "--steps", "--finding", "lost: broken"),
        *(*COMMON, "--runs", tmp_path),
        timeout_s=1700,
    )
    assert shrunk.status == 0, shrunk.stderr
    (folder,) = tmp_path.glob("shrink/2*")
    smallest = read(folder / SMALLEST)
    assert [step.fault for step in smallest.steps] == ["pause", "kill"]
    tests = {test["digest"]: test for test in map(json.loads, (folder / TESTS).read_text().splitlines())}
    for place in (0, 1):
        alone = tests[without_steps(smallest, place, place + 1).digest]
        assert (alone["passes"], alone["hits"]) == (False, 0)
        assert alone["runs"] >= 2


def _named(run: dict[str, list[dict[str, str]]]) -> set[tuple[str, str | None]]:
    return {(one["name"], one.get("promise")) for one in run["findings"]}

"""What a nightly job adds to a series: shards, a budget, folders of failed runs only."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import UsageError
from run.folder import RunFolder
from studies.series.budget import Budget, as_before
from studies.series.job import Job
from studies.series.night import Shard, longest_unseen_first, remove_folder
from studies.series.summary import RunSummary, flaky

JOBS = [Job(scenario=name, version="2.7.1", mode="zookeeper") for name in ("a", "b", "c", "d", "e")]


def run(job: Job, ended: str = "", verdict: str = "as declared", **values: object) -> RunSummary:
    """A run of a job."""
    facts = {"scenario": job.scenario, "version": job.version, "mode": job.mode, "verdict": verdict}
    return RunSummary(**{**facts, "ended": ended, **values})  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "0/4", "5/4", "2", "2/0", "a/b", "-1/4"])
def test_a_shard_is_one_of_some(text: str) -> None:
    with pytest.raises(UsageError, match="--shard"):
        Shard.parse(text)


def test_shards_share_every_cell_once_and_keep_repeats_together() -> None:
    planned = JOBS * 3
    shares = [Shard(number, 2).share(planned) for number in (1, 2)]
    assert sorted(map(str, shares[0] + shares[1])) == sorted(map(str, planned))
    assert not set(shares[0]) & set(shares[1])
    assert [job.scenario for job in shares[1]] == ["b", "d"] * 3


def test_the_longest_unseen_come_first() -> None:
    """A job that never ran precedes all; the last run of a job counts, not its first one."""
    a, b, c, *_ = JOBS
    earlier = [run(a, "2026-01-01"), run(b, "2026-01-02"), run(a, "2026-01-03")]
    assert longest_unseen_first([a, b, c] * 2, earlier) == [c, b, a] * 2


def test_a_budget_starts_nothing_that_would_end_too_late() -> None:
    now = [0.0]
    budget, expected_s = Budget(100.0, clock=lambda: now[0]), as_before({JOBS[0]: 30.0, JOBS[1]: 80.0})
    assert budget.allows(expected_s(JOBS[0]))
    assert budget.allows(expected_s(JOBS[1]))
    now[0] = 50.0
    assert budget.left_s == 50.0
    assert budget.allows(expected_s(JOBS[0]))
    assert not budget.allows(expected_s(JOBS[1]))
    assert not budget.allows(expected_s(JOBS[2])), "a job that never ran counts as a usual one: 55 s"


def test_the_folder_of_a_run_goes_and_the_link_to_it(tmp_path: Path) -> None:
    old, new = (RunFolder.create(tmp_path, "a").path for _ in range(2))
    remove_folder(run(JOBS[0], folder=str(old)))
    assert (tmp_path / "a" / "latest").resolve() == new
    remove_folder(run(JOBS[0], folder=str(new)))
    assert list((tmp_path / "a").iterdir()) == []
    remove_folder(run(JOBS[0], folder=str(new)))
    remove_folder(run(JOBS[0]))


def test_flaky_means_more_than_one_outcome() -> None:
    """A verdict or the answer to a claim; runs that were not judged have no answers."""
    a, b, c, d, _ = JOBS
    runs = [
        run(a, claims={"x": "confirmed"}),
        run(a, claims={"x": "confirmed"}),
        run(b),
        run(b, verdict="violated"),
        run(c, claims={"x": "confirmed", "y": "refuted"}),
        run(c, claims={"x": "refuted", "y": "refuted"}),
        run(d, verdict="crashed"),
        run(d, verdict="crashed", claims={"x": "unknown"}),
    ]
    disagreements = flaky(runs)
    assert set(disagreements) == {b, c}
    assert disagreements[b].verdicts == {"as declared": 1, "violated": 1}
    assert disagreements[c].claims == {"x": {"confirmed": 1, "refuted": 1}}

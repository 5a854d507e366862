"""The catalogue on real clusters: the control finds nothing; without its mechanism a claim must fail."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.waiting import wait_until
from studies.series.summary import read_summaries
from tests.cluster.conftest import acked, processes_of, run_by

pytestmark = pytest.mark.cluster


@pytest.mark.long
def test_without_a_fault_nothing_is_found(runs: Path) -> None:
    """The control: a finding here would be one of the harness's own making."""
    run = acked("run", "no-fault", "--runs", runs, "--json")
    judgement = run.json()
    assert judgement["verdict"] == "as declared", (judgement, run.stderr)
    assert judgement["findings_by_class"] == {}
    assert run.status == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("mutant", "fallen"),
    [
        ("unclean-election-off", {"unclean-election", "acks-all-lost"}),
        ("alter-isr-off", {"shrink-asked-once", "acks-all-fails-on"}),
        ("flushed", {"lost"}),
        ("leader-epochs-on", {"old-diverges"}),
        ("leader-epochs-off", {"follower-cuts-to-hw", "old-leader-cuts-to-own-hw", "epoch-cache"}),
        ("alter-isr-on", {"stops", "refuses"}),
    ],
)
def test_without_its_mechanism_a_claim_falls(mutant: str, fallen: set[str], runs: Path) -> None:
    """The same run with one setting changed must end as violated, by the claims that hang on it."""
    folder = run_by("mutant_worker", mutant, runs)
    judged = acked("check", folder, "--json").json()
    assert judged["verdict"] == "violated", judged["reasons"]
    wrong = {claim["name"] for claim in judged["claims"] if not claim["as_declared"]}
    assert fallen <= wrong


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_part_of_the_catalogue_side_by_side(runs: Path) -> None:
    """Three clusters at a time; each scenario gets its verdict, and the worst of them is the exit code.

    Two articles describe one case: each has a run of its own, judged by the claims of that article.
    """
    same_case = ("leader-az-isolated", "partition-6-leader-isolated")
    names = {"no-fault", "bridge", *same_case}
    run = acked("run", "--all", "--filter", ",".join(sorted(names)), "--runs", runs, "--json")
    outcomes = {outcome["scenario"]: outcome for outcome in json.loads(run.stdout)}
    assert set(outcomes) == names
    first, second = (outcomes[name] for name in same_case)
    assert first["folder"] != second["folder"]
    assert first["lost"] > 0
    assert second["lost"] > 0
    assert not set(first["claims"]) & set(second["claims"]) - {"acks-all-safe"}
    assert {outcome["verdict"] for outcome in outcomes.values()} == {"as declared"}
    assert run.status == 0
    folders = [outcome["folder"] for outcome in outcomes.values()]
    for control in ("silence", "deaf"):
        checked = acked("check", *folders, "--control", control, "--json")
        report = checked.json()
        assert (report["confirmed"], report["errata"], checked.status) == (0, 0, 0), report
        assert report["claims"] > 20


@pytest.mark.long
@pytest.mark.timeout(300)
def test_an_interrupted_series_tells_what_it_has(runs: Path, tmp_path: Path) -> None:
    """Ctrl-C during the second of two runs: the first is shown and kept, and nothing is left running."""
    words = ("run", "no-fault", "--repeat", "2", "--parallel", "1", "--runs", str(runs))
    with (tmp_path / "said").open("w+") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "cli.main", *words],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        try:
            wait_until(
                lambda: any(file.stat().st_size for file in runs.glob("all/*/runs.jsonl")),
                within_s=200,
                awaiting="the first run to end",
            )
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does
            assert process.wait(40) == 130
        finally:
            process.kill()
            process.wait()
        said.seek(0)
        text = said.read()
    assert "interrupted after 1 of 2 runs" in text, text
    assert "Traceback" not in text
    (file,) = runs.glob("all/*/runs.jsonl")
    assert [row.verdict for row in read_summaries([file])] == ["as declared"]
    assert processes_of(runs) == []

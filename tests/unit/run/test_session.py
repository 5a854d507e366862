"""A run and its judgement: every failure becomes part of the outcome, with its exit code."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from harness import artifacts, doctor
from harness.cluster.cluster_file import read_cluster_file
from harness.console import Progress
from harness.errors import AckedError, InvalidRunError, UnfitError, UsageError
from harness.kafka.versions import kafka_version
from run import session
from run.catalogue import find
from run.folder import RunFolder
from run.runner import RunOptions, RunResult, applied_to
from run.scenario import ScenarioFile
from run.session import RunOutcome, choose_mode, ignores, prepare, run_and_judge

ROOT = Path(__file__).parents[3]
MAIN = find("leader-az-isolated")
ZOOKEEPER_ONLY = find("no-fault")


def _outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: object) -> RunOutcome:
    monkeypatch.setattr(session, "run_scenario", run)
    options = RunOptions(version=kafka_version("2.7.1"), mode="zookeeper")
    folder = RunFolder.create(tmp_path, "no-fault")
    return run_and_judge(ZOOKEEPER_ONLY, options, folder, Progress(quiet=True))


def test_a_mistake_of_the_harness_is_kept_for_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence names the file with the traceback, and the run folder records that the run crashed."""

    def run(*_: object, **__: object) -> RunResult:
        raise ZeroDivisionError("division by zero")

    outcome = _outcome(tmp_path, monkeypatch, run)
    report = tmp_path / "no-fault" / "latest" / "crash.txt"
    assert outcome.exit_code == 255
    assert outcome.problem is not None
    assert str(report.resolve()) in outcome.problem.message
    assert "ZeroDivisionError" in report.read_text()
    manifest = RunFolder.open(report.parent).manifest()
    assert (manifest["status"], manifest["problem"]) == ("crashed", "ZeroDivisionError: division by zero")


def test_a_known_failure_has_its_own_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, **__: object) -> RunResult:
        raise UsageError("nonsense")

    outcome = _outcome(tmp_path, monkeypatch, run)
    assert (outcome.exit_code, outcome.judgement) == (254, None)
    assert not (tmp_path / "no-fault" / "latest" / "crash.txt").exists()


def test_a_machine_that_is_unfit_leaves_nothing_to_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark is not started either."""

    def run(scenario: object, options: object, folder: RunFolder, *_: object, **__: object) -> RunResult:
        return RunResult(folder, "invalid", UnfitError("no qdisc"))

    outcome = _outcome(tmp_path, monkeypatch, run)
    assert (outcome.exit_code, outcome.judgement) == (3, None)


@pytest.mark.parametrize(("problem", "code"), [(InvalidRunError("x"), 2), (AckedError("y"), 255)])
def test_the_problem_of_a_run_outweighs_one_of_its_judgement(
    problem: AckedError, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user has to know the first problem."""

    def run(scenario: object, options: object, folder: RunFolder, *_: object, **__: object) -> RunResult:
        return RunResult(folder, "invalid", problem)

    def session_of(_: object) -> None:
        raise UnfitError("Spark did not start")

    monkeypatch.setattr(session._Spark, "session", session_of)
    outcome = _outcome(tmp_path, monkeypatch, run)
    assert outcome.problem is problem
    assert outcome.exit_code == code


def test_a_complete_run_that_cannot_be_judged_now_says_how_it_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(scenario: object, options: object, folder: RunFolder, *_: object, **__: object) -> RunResult:
        return RunResult(folder, "complete", None)

    def session_of(_: object) -> None:
        raise UnfitError("Spark's JVM has ended: make room.")

    monkeypatch.setattr(session._Spark, "session", session_of)
    outcome = _outcome(tmp_path, monkeypatch, run)
    assert outcome.exit_code == 3
    assert outcome.problem is not None
    assert re.search(r"make room\. .* `acked check \S+/no-fault/\S+` judges it", outcome.problem.message)


def test_the_mode_is_one_that_scenario_and_version_have() -> None:
    """It is the requested mode, else the scenario's own, else another that both have."""
    old, new = kafka_version("2.7.1"), kafka_version("3.8.1")
    assert choose_mode(MAIN, old) == "zookeeper"
    assert choose_mode(MAIN, new) == "kraft"
    assert choose_mode(MAIN, new, "kraft-combined") == "kraft-combined"
    with pytest.raises(UsageError, match="not 'kraft'"):
        choose_mode(MAIN, old, "kraft")
    with pytest.raises(UsageError, match="use another Kafka version"):
        choose_mode(ZOOKEEPER_ONLY, new)


def test_a_scenario_does_not_fit_a_version_that_ignores_its_settings() -> None:
    """A broker of 3.0 or later ignores `message.format.version`, unless it speaks an older protocol."""
    scenario = find("hw-truncation-diverges")
    for version in ("2.8.2", "3.3.2@2.8", "3.9.1@2.8"):
        assert ignores(scenario, kafka_version(version)) == ""
    for version in ("3.3.2", "3.9.1", "3.5.2@3.0"):
        assert "use an older version, or" in ignores(scenario, kafka_version(version))
    assert "4.3.1@" not in ignores(scenario, kafka_version("4.3.1")), "no broker of 4.x speaks an older one"
    assert ignores(find("truncation-hw-vs-epoch"), kafka_version("3.5.2"))
    assert ignores(MAIN, kafka_version("3.5.2")) == ""
    with pytest.raises(UsageError, match=r"3\.5\.2 ignores"):
        prepare(scenario, lab="embedded", kafka="3.5.2")


def test_all_nodes_of_a_cluster_file_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """By itself, the scenario starts one ZooKeeper node."""
    monkeypatch.setattr(doctor, "require", lambda _: None)
    monkeypatch.setattr(artifacts, "resolve", lambda *_, **__: None)
    scenario = find("leader-killed")
    described = read_cluster_file(ROOT / "examples" / "clusters" / "three-azs.toml")
    for cluster, quorum in ((None, "one node"), (described, "every AZ")):
        options = prepare(scenario, lab="embedded", cluster=cluster)
        assert applied_to(scenario, options).scenario.setup.quorum == quorum


def test_a_scenario_with_server_side_groups_does_not_fit_an_older_version() -> None:
    scenario = find("server-side-rebalance-during-cut")
    assert "use 4.0.1 or newer" in ignores(scenario, kafka_version("3.9.1"))
    for version in ("4.0.1", "4.3.1"):
        assert ignores(scenario, kafka_version(version)) == ""
    with pytest.raises(UsageError, match="KIP-848"):
        prepare(scenario, lab="embedded", kafka="3.9.1")


def test_a_scenario_with_share_groups_does_not_fit_an_older_version() -> None:
    scenario = find("share-no-fault")
    assert "use 4.2.0 or newer" in ignores(scenario, kafka_version("4.1.0"))
    for version in ("4.2.0", "4.2.2", "4.3.1", "4.4.0"):
        assert ignores(scenario, kafka_version(version)) == ""


def test_a_scenario_with_other_voters_does_not_fit_an_older_version() -> None:
    fixed = find("kraft-quorum-lost")
    scenario = replace(fixed, setup=replace(fixed.setup, dynamic_quorum=True))
    assert ignores(fixed, kafka_version("4.0.1")) == ""
    for version in ("3.9.2", "4.0.1"):
        assert "use 4.1.0 or newer" in ignores(scenario, kafka_version(version))
    for version in ("4.1.0", "4.4.0"):
        assert ignores(scenario, kafka_version(version)) == ""


def test_a_scenario_with_an_application_of_kafka_streams_does_not_fit_an_older_version() -> None:
    scenario = find("streams-no-fault")
    assert "from Kafka 3.9 on" in ignores(scenario, kafka_version("3.8.1"))
    for version in ("3.9.1", "4.4.0"):
        assert ignores(scenario, kafka_version(version)) == ""


def test_a_scenario_with_an_unclean_election_does_not_fit_an_early_kraft() -> None:
    """KRaft before 3.9 elects uncleanly only if an operator asks for it, whatever is configured."""
    for name, topic in (
        ("commit-marker-lost", "nothing-done"),
        ("offsets-commit-refused", "__consumer_offsets"),
    ):
        scenario = find(name)
        for version in ("2.7.1", "3.5.2", "3.9.1", "4.3.1"):
            assert ignores(scenario, kafka_version(version)) == "", version
        for version in ("3.6.2", "3.8.1"):
            assert f"for the topic {topic}" in ignores(scenario, kafka_version(version))
    assert ignores(find("offsets-commit-lost"), kafka_version("3.8.1")) == ""
    mine = replace(find("commit-marker-lost"), file=ScenarioFile(Path("mine.py"), ""))
    assert ignores(mine, kafka_version("3.8.1")) == ""

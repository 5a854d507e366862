"""A series on a described cluster: a scenario whose roles are missing is unfit, and nothing starts for it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from cli.main import main
from harness import doctor
from harness.errors import EXIT_UNFIT
from harness.kafka.versions import kafka_version
from harness.lab.layout import THREE_AZS, AvailabilityZone, Layout
from run.catalogue import find
from run.session import choose_mode, misfit
from scenarios.catalogue import all_scenarios

HIDDEN_CURSOR = "\x1b[?25l"
TWO_AZS = '[[az]]\nname = "north"\nbrokers = 2\n\n[[az]]\nname = "south"\nbrokers = 2\n'


@pytest.mark.parametrize(
    ("words", "client"),
    [
        (("run", "--filter", "no-fault,leader-az-isolated"), ""),
        (("run", "--filter", "no-fault,leader-az-isolated", "--client", "java@3.9.1"), "java@3.9.1"),
        (("matrix", "no-fault", "leader-az-isolated"), ""),
        (("matrix", "no-fault", "leader-az-isolated", "--clients", "java"), "java"),
    ],
)
def test_unfit_scenarios_are_shown_with_the_missing_role(
    words: tuple[str, ...],
    client: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "two.toml"
    file.write_text(TWO_AZS)
    monkeypatch.setattr(doctor, "require", lambda *_: pytest.fail("a run was prepared"))
    options = ["--cluster", str(file), "--runs", str(tmp_path / "runs"), "--json"]
    monkeypatch.setattr(sys, "argv", ["acked", *words, *options])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == EXIT_UNFIT
    runs = json.loads(capsys.readouterr().out)
    assert {run["client"] for run in runs} == {client}
    assert {(run["scenario"], run["verdict"]) for run in runs} >= {
        ("no-fault", "unfit"),
        ("leader-az-isolated", "unfit"),
    }
    assert all("a further AZ (az3), which the cluster of 2 AZs" in run["reasons"][0] for run in runs)


@pytest.mark.parametrize("option", ["", "--quiet", "--json"])
def test_a_series_says_how_it_goes_on_unless_quiet(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line for each run that has ended, and the table at the end."""
    file = tmp_path / "two.toml"
    file.write_text(TWO_AZS)
    words = ["acked", "run", "--filter", "leader-az-isolated", "--cluster", str(file), *option.split()]
    monkeypatch.setattr(sys, "argv", [*words, "--runs", str(tmp_path / "runs")])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == EXIT_UNFIT
    printed = capsys.readouterr()
    assert (printed.out.splitlines()[1].split()[:2] == ["leader-az-isolated", "unfit"]) == (
        option != "--json"
    )
    assert ("leader-az-isolated on 2.7.1 zookeeper: unfit" in printed.err) == (not option)
    assert ("1 run, " in printed.err) == (not option)


def test_a_quiet_matrix_prints_its_table_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "two.toml"
    file.write_text(TWO_AZS)
    words = ["acked", "matrix", "leader-az-isolated", "--cluster", str(file), "--quiet"]
    monkeypatch.setattr(sys, "argv", [*words, "--runs", str(tmp_path / "runs")])
    with pytest.raises(SystemExit):
        main()
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "unfit" in printed.out
    assert "\x1b" not in printed.out, "plain, because this is no terminal"


def test_scenarios_are_unfit_for_a_version_that_ignores_what_they_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They need no cluster file for that."""
    monkeypatch.setattr(doctor, "require", lambda *_: pytest.fail("a run was prepared"))
    words = ["acked", "matrix", "hw-truncation-diverges", "truncation-hw-vs-epoch", "--json"]
    versions = ["--versions", "3.5.2,3.9.1", "--runs", str(tmp_path / "runs")]
    monkeypatch.setattr(sys, "argv", [*words, *versions])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == EXIT_UNFIT
    runs = json.loads(capsys.readouterr().out)
    assert {(run["scenario"], run["version"]) for run in runs} == {
        (scenario, version) for scenario in words[2:4] for version in ("3.5.2", "3.9.1")
    }
    assert all(run["verdict"] == "unfit" and "ignores" in run["reasons"][0] for run in runs)


def test_a_scenario_fits_where_its_roles_are() -> None:
    scenario = find("no-fault")
    assert misfit(scenario, THREE_AZS, kafka="2.7.1", mode="zookeeper") == ""
    larger = Layout(tuple(AvailabilityZone(name=name, brokers=2) for name in ("a", "b", "c")))
    assert misfit(scenario, larger, kafka="2.7.1", mode="zookeeper") == ""
    assert "runs in mode" in misfit(find("leader-az-isolated"), larger, kafka="2.7.1", mode="raft")


def test_five_azs_fit_all_scenarios_but_those_that_reckon_with_three_hosts() -> None:
    """More brokers, and more controllers where they are hosts of their own."""
    five = Layout(tuple(AvailabilityZone(name=name) for name in "abcde"))
    reasons = {
        name: misfit(one, five, kafka=one.kafka, mode=choose_mode(one, kafka_version(one.kafka)))
        for name, one in all_scenarios().items()
    }
    unfit = {name for name, reason in reasons.items() if reason}
    assert unfit == {
        *("controller-az-isolated", "controller-and-leader-isolated", "controller-killed"),
        *("controller-without-zookeeper", "kraft-controller-az-isolated", "kraft-followers-die"),
        *("kraft-quorum-lost", "kraft-zombie-controller", "migration-az-cut"),
        *("kraft-voter-removed-while-isolated", "kraft-voter-removed-then-another-lost"),
        *("upgrade-az-cut", "upgrade-finalized-in-cut", "upgrade-taken-back", "upgrade-zookeeper-az-cut"),
        *("share-no-fault", "share-leader-killed", "share-coordinator-killed", "share-member-isolated"),
        *("replicas-move-in-cut", "broker-returns-elsewhere"),
        *("share-coordinator-isolated", "share-rolling-restart"),
        *("share-leader-isolated", "share-states-below-min-insync"),
        *("share-no-fault-librdkafka", "share-leader-killed-librdkafka"),
        *("streams-no-fault", "streams-az-isolated", "streams-coordinator-killed"),
        *("streams-instance-killed", "streams-instance-joins", "streams-at-least-once"),
    }
    assert all("needs exactly 3" in reasons[name] for name in unfit)

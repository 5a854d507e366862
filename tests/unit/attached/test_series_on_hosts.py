"""Assessments and searches on hosts: which cases and schedules a file leaves, and how steps are aimed."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from cli.attached_run import HostsOptions
from cli.attached_series import _plan
from harness.console import Progress
from harness.errors import InvalidRunError, UnfitError
from harness.kafka.model import PartitionState
from harness.kafka.wire.quorum import QuorumInfo
from harness.lab.hosts.lab import HostsLab
from nemesis.attached.abilities import Abilities
from nemesis.network.disciplines import Discipline
from run.attached import cases, guard
from run.attached import hosts as attached_hosts
from run.attached.hosts import AttachedHosts, lab_of
from run.attached.starting import note_tried, tried_file, untried
from run.clients import NO_CLIENTS
from studies.attached import fleet
from studies.attached.assessment import cases_of, holds, unfit
from studies.attached.process import HostsOrder
from studies.attached.search import HostsSearch, described, usable
from studies.attached.steps import Aims, on_hosts
from studies.search.grammar import fresh
from studies.search.hunt import RECORDS, SearchPlan, TriedSchedule
from studies.search.runs import schedule_of
from studies.series.job import Job
from studies.steps.step import Step
from tests.unit.recording.test_breaking_of_others import _BOTH, cluster_of, hosts_file

ALL = 'allow = ["cut", "one-way", "pause", "throttle", "kill", "restart"]'


@pytest.fixture(autouse=True)
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster without topics of others, whose controller is node 1."""
    monkeypatch.setattr(cases, "describe_quorum", lambda _endpoint: QuorumInfo(leader=1))
    monkeypatch.setattr(guard, "all_partitions", lambda _cluster: {})


def hosts_of(folder: Path, limits: str) -> AttachedHosts:
    """Three combined nodes in three AZs, each with a start command."""
    hosts_file(folder, *((number, az, _BOTH) for number, az in enumerate("abc", start=1)), limits=limits)
    file = folder / "hosts.toml"
    file.write_text(file.read_text().replace("ports =", 'start = "systemctl start kafka"\nports ='))
    from harness.cluster.hosts_file import read_hosts_file

    read = read_hosts_file(file)
    return AttachedHosts(
        file=read,
        cluster=cluster_of(read),
        lab=lab_of(read, read.allow),
        user=NO_CLIENTS,
        progress=Progress(quiet=True),
        rate=60.0,
    )


def test_an_assessment_names_what_is_unfit(tmp_path: Path) -> None:
    """By the allow-list, the trial of start commands, the number of hosts, and the quorum."""
    hosts = hosts_of(tmp_path, ALL)
    lacking = unfit(hosts, cases_of(hosts))
    names = {case.name for case in cases_of(hosts)}
    assert {"isolate-a.roles-a", "cut-a-b.roles-a", "one-way-a-b.roles-a", "pause-broker1.roles-here"} <= (
        names - set(lacking)
    )
    assert "was not tried" in lacking["kill-broker1.roles-here"]
    assert "no-quorum.roles-a" in lacking and not any("power" in name or "wipe" in name for name in names)
    note_tried(hosts.file, "broker1", "broker2", "broker3")
    tried = unfit(hosts, cases_of(hosts))
    assert "kill-broker1.roles-here" not in tried and "no-quorum.roles-a" in tried
    assert "would take 2 of 3 nodes" in tried["no-quorum.roles-a"]
    only = unfit(hosts_of(tmp_path, 'allow = ["pause"]'), cases_of(hosts))
    assert "needs 'cut'" in only["isolate-a.roles-a"] and "pause-broker1.roles-here" not in only


def test_what_a_host_cannot_have_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the reason; a host that does not answer ends it."""
    why = "eth0 has a queueing discipline of its own (tbf 8001:), which a limit would replace"
    told = {"broker2": Abilities(host="broker2", unfit={"throttle": f"{why}.", "kill": "no start command"})}
    monkeypatch.setattr(HostsLab, "up", lambda _self: None)
    monkeypatch.setattr(
        attached_hosts, "abilities", lambda _lab, host: told.get(host.name, Abilities(host=host.name))
    )
    hosts = hosts_of(tmp_path, ALL).asked()
    assert hosts.lacking == {"throttle": f"broker2 is unfit for 'throttle': {why}"}
    assert usable(hosts) == ("cut", "one-way", "pause")
    assert unfit(hosts, cases_of(hosts))["throttle-broker1.roles-here"] == hosts.lacking["throttle"]
    plan = SearchPlan(seed=7, version="3.9.1", mode="kraft-combined", settings={})
    assert f"  {hosts.lacking['throttle']}, which is left out" in list(described(hosts, plan))
    told["broker3"] = Abilities(host="broker3", problem="Permission denied (publickey).")
    with pytest.raises(UnfitError, match="broker3: Permission denied"):
        hosts.asked()


def test_a_plan_says_when_faults_end_by_themselves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not before the last proof of a fault, and a node may need long to end and to start."""
    monkeypatch.setattr(HostsLab, "up", lambda _self: None)
    for limits, restarts in (('allow = ["cut"]', False), (ALL, True)):
        _plan(hosts_of(tmp_path, limits), HostsOptions(plan=True), ["isolate-a"], Progress(quiet=True))
        said = capsys.readouterr().out
        assert "each fault ends by itself 65 s after" in said
        assert ("restarted is started by its host after 200 s" in said) is restarts


def test_a_plan_has_every_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each case, with what undoes it."""
    monkeypatch.setattr(HostsLab, "up", lambda _self: None)
    monkeypatch.setattr(HostsLab, "pid", lambda _self, _host: 812)
    monkeypatch.setattr(Discipline, "device", lambda _self, _host: "eth0")
    names = [f"{name}-broker1.roles-here" for name in ("pause", "throttle")]
    _plan(
        hosts_of(tmp_path, ALL), HostsOptions(plan=True), ["isolate-a.roles-a", *names], Progress(quiet=True)
    )
    said = capsys.readouterr().out
    assert "broker1: kill -STOP 812; after 65 s at most: kill -CONT" in said
    assert "parent ac01:acd handle ad01: tbf rate 64kbit" in said
    assert "after 65 s at most: tc qdisc del dev eth0 root handle ac01:" in said
    assert "-s 10.0.0.1/32 -d 10.0.0.2/32 -j CLASSIFY --set-class ac01:acd" in said
    assert "-s 10.0.0.1/32 -d 10.0.0.2/32 -j DROP" in said and "-D INPUT" in said and "-D OUTPUT" in said


def test_a_search_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    """With the schedules that it has carried out."""
    hosts = hosts_of(tmp_path, ALL)
    plan = SearchPlan(seed=7, version="3.9.1", mode="kraft-combined", settings={})
    begun = HostsSearch.begin(tmp_path / "runs", plan, hosts)
    tried = TriedSchedule(number=1, digest="d", folder="f", verdict="as declared", seconds=60.0)
    (begun.path / RECORDS).write_bytes(msgspec.json.encode(tried) + b"\n")
    resumed = HostsSearch.resumed(begun.path, hosts)
    assert (resumed.plan, resumed.records, resumed.hosts) == (plan, [tried], hosts)


def test_a_start_command_that_was_changed_is_tried_again(tmp_path: Path) -> None:
    """What is noted is the command, and where."""
    hosts = hosts_of(tmp_path, ALL)
    note_tried(hosts.file, "broker1")
    assert untried(hosts.file, ["broker1", "broker2"]) == ["broker2"]
    text = hosts.file.path.read_text()
    hosts.file.path.write_text(text.replace("systemctl start kafka", "systemctl start other"))
    from harness.cluster.hosts_file import read_hosts_file

    assert untried(read_hosts_file(hosts.file.path), ["broker1"]) == ["broker1"]
    tried_file(hosts.file).write_text("{half")
    assert untried(hosts.file, ["broker1"]) == ["broker1"]


def test_a_case_waits_for_the_controller_where_it_wants_it(tmp_path: Path) -> None:
    """Inside of the fault or outside of it, on whichever host."""
    hosts = hosts_of(tmp_path, ALL)
    first, second, _ = hosts.file.topology.hosts
    by_name = {case.name: case for case in cases_of(hosts)}
    inside, outside = by_name["isolate-a.roles-a"], by_name["isolate-a.roles-b"]
    assert (holds(inside, first), holds(inside, second)) == (True, False)
    assert (holds(outside, first), holds(outside, second)) == (False, True)


@pytest.mark.parametrize(
    ("step", "title", "hosts"),
    [
        (Step(fault="cut", targets=("az1",), toward=("others",)), "isolate a", ["broker1"]),
        (Step(fault="cut", targets=("leader",), toward=("others",)), "isolate leader", ["broker2"]),
        (Step(fault="cut", targets=("az1",), toward=("az2",), arrow="->"), "cut a -> b", ["broker1"]),
        (Step(fault="pause", targets=("controller",)), "pause broker1", ["broker1"]),
        (
            Step(fault="throttle", targets=("leader",), value=64.0),
            "throttle broker2 to 64 kbit/s",
            ["broker2"],
        ),
        (Step(fault="kill", targets=("follower",)), "kill broker3", ["broker3"]),
    ],
)
def test_steps_are_aimed_by_what_the_cluster_states(
    tmp_path: Path, step: Step, title: str, hosts: list[str]
) -> None:
    """At roles as they are when the step is due; AZs have the names of the file."""
    attached = hosts_of(tmp_path, ALL)
    state = PartitionState(leader=2, leader_epoch=1, isr=(2, 3, 1), replicas=(2, 3, 1))
    attached.cluster.partition = lambda *_: state  # type: ignore[method-assign]
    aim = Aims(file=attached.file, cluster=attached.cluster, topic="acked-1").aim(step)
    assert (aim.title, [host.name for host in aim.hosts]) == (title, hosts)
    attached.cluster.partition = lambda *_: None  # type: ignore[method-assign]
    if step.targets in (("leader",), ("follower",)):
        with pytest.raises(InvalidRunError, match="has no leader"):
            Aims(file=attached.file, cluster=attached.cluster, topic="acked-1").aim(step)


def test_a_schedule_keeps_what_is_allowed(tmp_path: Path) -> None:
    """Its faults at times within the limits; nothing waits for events, and no client is its own."""
    attached = hosts_of(tmp_path, ALL)
    plan = SearchPlan(seed=7, version="3.9.1", mode="kraft-combined", settings={})
    assert usable(attached) == ("cut", "one-way", "pause", "throttle")
    note_tried(attached.file, "broker1", "broker2", "broker3")
    assert "kill" in usable(attached)
    space = HostsSearch(path=tmp_path, plan=plan, hosts=attached).space()
    kinds: set[str] = set()
    for number in range(40):
        drawn = on_hosts(fresh(space, 7, number), usable(attached), partitions=3, fault_s=15.0)
        kinds |= {step.fault for step in drawn.steps}
        for step in drawn.steps:
            assert step.when.after_s <= 15 and 3 <= step.until.after_s <= 15 and step.partition < 3
            assert not step.when.event and not step.until.event
        assert [one.acks for one in drawn.producers] == [-1, 1] and not drawn.groups
        less = on_hosts(drawn, ["pause"], partitions=3, fault_s=15.0)
        assert {step.fault for step in less.steps} <= {"pause"}
        assert on_hosts(drawn, usable(attached), partitions=3, fault_s=15.0) == replace(drawn)
    assert kinds == {"cut", "pause", "throttle", "kill", "stop"}
    with pytest.raises(UnfitError, match="No fault is left for a search: see limits.allow of"):
        HostsSearch.begin(tmp_path, plan, hosts_of(tmp_path, "allow = []"))


@pytest.mark.parametrize(("allow", "arrows"), [(["cut"], {"<->"}), (["one-way"], {"->", "<-"})])
def test_a_schedule_is_never_empty(tmp_path: Path, allow: list[str], arrows: set[str]) -> None:
    """A cut has a direction that is allowed; a search that goes on with fewer faults draws anew."""
    attached = hosts_of(tmp_path, f"allow = {allow}".replace("'", '"'))
    plan = SearchPlan(seed=7, version="3.9.1", mode="kraft-combined", settings={})
    search = HostsSearch(path=tmp_path, plan=plan, hosts=attached)
    search._on_hosts = partial(on_hosts, allow=usable(attached), partitions=3, fault_s=15.0)  # type: ignore[method-assign]
    space = search.space()
    for number in range(40):
        (first, *rest) = schedule_of(search._next(space, number)).steps
        assert {one.arrow for one in (first, *rest)} <= arrows
    paused = replace(fresh(space, 7, 1), steps=(Step(fault="pause", targets=("leader",)),))
    search.corpus = {1: paused}
    assert all(schedule_of(search._next(space, number)).steps for number in range(40))


@pytest.mark.parametrize(
    ("program", "says"), [("exit 7", "ended with status 7"), ("exec sleep 60", "did not end within 1 s")]
)
def test_a_run_whose_process_cannot_tell_has_crashed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, says: str
) -> None:
    """By what became of the process; where its output is is said, and the series goes on."""
    script = tmp_path / "program"
    script.write_text(f"#!/bin/sh\n{program}\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    monkeypatch.setattr(fleet, "_LIMIT_S", 1.0)
    hosts = hosts_of(tmp_path, ALL)
    order = HostsOrder(hosts="", cluster_id="", folder="", rate=1.0, title="", steps=())
    runs = fleet.HostsFleet[None](hosts=hosts, runs=tmp_path / "runs", order=lambda *_: order)
    job = Job(scenario="schedule", version="4.4.0", mode="kraft-combined")
    summary = runs._carried_out(job, order).summary
    assert summary.verdict == "crashed", summary
    assert f"The process of the run {says}; see {tmp_path}" in summary.reasons[0], summary

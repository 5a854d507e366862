"""What the body does with a step, by what the fault's class states; for a schedule and for a case."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import InvalidRunError
from harness.kafka.model import Topic
from harness.lab.layout import three_azs
from studies.steps.body import Body
from studies.steps.events import ClusterState
from studies.steps.step import Moment, Step

TOPOLOGY = three_azs("zookeeper")
SEEN = ClusterState(leaders={}, in_sync={}, replicas={}, controller=1, counts={})


class Nemesis:
    """Records what is injected and healed, and ends processes as faults would."""

    def __init__(self, alive: set[str], fails: set[str]) -> None:
        self.alive, self.fails, self.did = alive, fails, list[str]()

    def make(self, kind: Any, aim: Any) -> Any:
        fault = kind.__self__
        hosts = [host.name for host in aim.hosts]
        name = " ".join([fault.mechanism, *hosts, *([aim.title] if aim.title else [])])
        if kind.__name__ == "reverse":
            name += " back"

        def inject() -> Any:
            if {fault.mechanism, name.replace(" ", "-")} & self.fails:
                raise InvalidRunError(f"{fault.mechanism} is not possible")
            self.did.append(name)
            if fault.ends_processes:
                self.alive -= set(hosts)
            return injection

        injection = SimpleNamespace(inject=inject, heal=lambda: self.did.append(f"heal {name}"))
        return injection


class World:
    """As much of a run as carrying out a step needs."""

    def __init__(self, *, measured: bool = False, fails: str = "", down: str = "") -> None:
        alive = {host.name for host in TOPOLOGY.hosts} - set(down.split())
        self.nemesis = Nemesis(alive, set(fails.split()))
        self.marks: dict[str, str] = {}
        topic = Topic("t", (1, 2, 3), config={"min.insync.replicas": "2"})
        lab = SimpleNamespace(topology=TOPOLOGY, alive=lambda host: host in alive)
        stage: Any = SimpleNamespace(
            lab=lab,
            nemesis=self.nemesis,
            cluster=SimpleNamespace(start=self._start, check_alive=lambda: None),
            dialect=None,
            mark=lambda name, text, **_: self.marks.update({name: text}),
            processes=SimpleNamespace(ended=set()),
            setup=SimpleNamespace(topics=(topic,), zookeeper_sessions={}),
            since=lambda ns: 100.0,
        )
        self.body = Body.__new__(Body)
        self.body.stage, self.body.measured = stage, measured
        self.body.partitions = list(topic.topic_partitions)
        self.body.lasting, self.body.restarts, self.body.unended = [], [], []
        self.body.pool = ThreadPoolExecutor(4)
        self.body.locks = {host.name: threading.Lock() for host in TOPOLOGY.hosts}

    def _start(self, host: str) -> None:
        self.nemesis.did.append(f"start {host}")
        self.nemesis.alive.add(host)

    def carry_out(self, fault: str, *targets: str, toward: tuple[str, ...] = ()) -> list[str]:
        """What was done by the end of the step."""
        step = Step(fault=fault, targets=targets, toward=toward, until=Moment(after_s=1.0))
        self.body._begin(1, step, 0, SEEN)
        self.body._tick()
        for restart in self.body.restarts:
            restart.result()
        self.body.pool.shutdown()
        return self.nemesis.did


@pytest.mark.parametrize("measured", [False, True])
@pytest.mark.parametrize(
    ("fault", "targets", "did"),
    [
        ("kill", ["broker1"], ["kill broker1", "start broker1"]),
        ("throttle", ["broker1", "broker2"], ["throttle broker1 broker2", "heal throttle broker1 broker2"]),
        ("power_cut", ["az1"], ["kill zookeeper1", "power_cut broker1", "start zookeeper1", "start broker1"]),
        ("wipe", ["broker1"], ["kill broker1", "wipe broker1", "start broker1"]),
        (
            "disk_full",
            ["broker1", "broker2"],
            ["disk_full broker1", "disk_full broker2", "heal disk_full broker1", "heal disk_full broker2"],
        ),
        ("configure", [], ["configure", "configure back"]),
        ("reassign", [], ["reassign"]),
        ("reassign_to_others", [], ["reassign_to_others", "reassign_to_others back"]),
        ("move_replica", ["broker1"], ["move_replica broker1"]),
        ("clock_shift", ["broker1"], ["clock_shift broker1", "heal clock_shift broker1"]),
    ],
)
def test_a_step_does_and_ends_what_its_fault_states(
    fault: str, targets: list[str], did: list[str], measured: bool
) -> None:
    done = World(measured=measured).carry_out(fault, *targets)
    assert (done if measured else sorted(done)) == (did if measured else sorted(did))


def test_the_other_side_of_a_link_is_named() -> None:
    assert World().carry_out("flap", "az1", toward=("az2",))[0] == "flap az1 <-> az2"


def test_hosts_without_a_process_are_left_out() -> None:
    assert World(down="broker1").carry_out("kill", "broker1", "broker2") == ["kill broker2", "start broker2"]


def test_a_step_that_is_not_possible_is_skipped_in_a_search() -> None:
    world = World(fails="cut")
    assert world.carry_out("cut", "az1", toward=("others",)) == []
    assert world.marks["skipped-1"] == "cut: cut is not possible"
    assert World(down="broker1").carry_out("kill", "broker1") == []


def test_a_step_that_is_not_possible_makes_a_measured_run_prove_nothing() -> None:
    with pytest.raises(InvalidRunError, match="cut is not possible"):
        World(measured=True, fails="cut").carry_out("cut", "az1", toward=("others",))


def test_what_an_ended_process_leaves_behind_is_started_although_the_rest_failed() -> None:
    world = World(fails="wipe")
    assert world.carry_out("wipe", "broker1") == ["kill broker1", "start broker1"]
    assert world.marks["note"] == "wipe is not possible"


def test_a_step_that_cannot_be_reversed_in_time_is_reversed_later() -> None:
    """For instance because there is no controller at that moment."""
    world = World(fails="configure-back")
    assert world.carry_out("configure") == ["configure"]
    (step,) = world.body.unended
    world.nemesis.fails.clear()
    step.end()
    assert world.nemesis.did == ["configure", "configure back"]


def test_measured_steps_are_marked_before_they_end() -> None:
    world = World(measured=True)
    world.carry_out("cut", "az1", toward=("others",))
    assert [*world.marks] == ["step-1", "heal", "ended-1"]
    searched = World()
    searched.carry_out("cut", "az1", toward=("others",))
    assert "heal" not in searched.marks

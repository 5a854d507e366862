"""Processes: killed, stopped, paused, restarted one after the other; clients too."""

from __future__ import annotations

from conformance_bench import FOUR, Bench, case, refused_to

from harness.errors import InvalidRunError
from nemesis.proof.reachability import Call


@case
def killed_and_started_again(bench: Bench) -> None:
    injection = bench.nemesis.kill("broker2")
    assert bench.moments(injection) == ["injecting", "injected"]
    assert bench.probe().new[Call("broker1", "broker2", 9092)] == "refused"
    bench.start("broker2")
    assert bench.moments(injection) == FOUR


@case
def killed_twice_is_invalid(bench: Bench) -> None:
    with bench.nemesis.kill("broker2", restart=bench.start):
        refused_to(InvalidRunError, "no process runs there", lambda: bench.nemesis.kill("broker2"))
    assert bench.lab.alive("broker2")


@case
def az_killed(bench: Bench) -> None:
    with bench.nemesis.kill("az2", restart=bench.start):
        assert not bench.lab.alive("broker2")
        assert not bench.lab.alive("zookeeper2")
        assert bench.lab.alive("broker1")
    assert bench.lab.alive("broker2")
    assert bench.lab.alive("zookeeper2")


@case
def stopped(bench: Bench) -> None:
    with bench.nemesis.stop("broker3", restart=bench.start) as injection:
        assert not bench.lab.alive("broker3")
    assert bench.moments(injection) == FOUR


@case
def paused(bench: Bench) -> None:
    injection = bench.nemesis.pause("broker1", "zookeeper1")
    with injection:
        assert injection.evidence == {"states": {"broker1": "T", "zookeeper1": "T"}}
        assert bench.probe().new[Call("broker2", "broker1", 9092)] == "open"
    assert bench.moments(injection) == FOUR


@case
def killed_while_paused(bench: Bench) -> None:
    with bench.nemesis.pause("broker1"):
        bench.nemesis.kill("broker1")
    bench.start("broker1")


@case
def rolling_restart(bench: Bench) -> None:
    pids = [bench.lab.pid(host.name) for host in bench.lab.topology.role("broker")]
    bench.nemesis.rolling_restart("brokers", restart=bench.start)
    assert all(
        now not in (None, was)
        for now, was in zip(
            [bench.lab.pid(host.name) for host in bench.lab.topology.role("broker")], pids, strict=True
        )
    )


@case
def client_killed(bench: Bench) -> None:
    pipe = bench.lab.open_module("client1", "nemesis.proof.agent", ())
    bench.nemesis.kill_client("client1", pipe.kill, lambda: pipe.poll() is None)
    assert pipe.wait(5.0) != 0

"""Links: cut, isolated, cut one way, cut in patterns, flapping."""

from __future__ import annotations

import re
from typing import Any

from conformance_bench import Bench, az, case, case_of_containers, expect_dead, recorded, refused_to

from harness.errors import UnfitError
from harness.waiting import wait_until
from nemesis.proof.prober import Prober
from nemesis.proof.reachability import Call


@case
def az_isolated(bench: Bench) -> Any:
    injection = bench.nemesis.isolate("az1")
    expect_dead(bench, injection, lambda c: (az(bench, c.caller) == "az1") != (az(bench, c.callee) == "az1"))
    evidence = injection.evidence
    assert set(evidence["held"]) == {"silent"}
    return evidence


@case
def az_isolated_with_resets(bench: Bench) -> Any:
    injection = bench.nemesis.isolate("az1", action="reject")
    with recorded(bench, injection):
        result = bench.probe()
        cut = [c for c in bench.all_calls if (az(bench, c.caller) == "az1") != (az(bench, c.callee) == "az1")]
        assert {result.new[call] for call in cut} == {"refused"}
    assert set(injection.evidence["held"]) == {"reset"}


@case
def broker_from_broker(bench: Bench) -> None:
    pair = {"broker1", "broker2"}
    expect_dead(bench, bench.nemesis.cut("broker1 <-> broker2"), lambda c: {c.caller, c.callee} == pair)


@case
def broker_from_zookeeper_only(bench: Bench) -> None:
    """ZooKeeper in its own AZ is cut, too; links between brokers live."""
    injection = bench.nemesis.without_zookeeper("broker1")
    expect_dead(bench, injection, lambda c: c.caller == "broker1" and c.callee.startswith("zookeeper"))


@case
def zookeeper_node_from_node(bench: Bench) -> None:
    pair = {"zookeeper1", "zookeeper3"}
    expect_dead(bench, bench.nemesis.cut("zookeeper1 <-> zookeeper3"), lambda c: {c.caller, c.callee} == pair)


@case
def zookeeper_peers_keep_clients(bench: Bench) -> None:
    """Only the peer ports are cut: a client of ZooKeeper notices nothing."""
    injection = bench.nemesis.cut("zookeeper1 <-> zookeeper3:zookeeper-peer")
    pair = {"zookeeper1", "zookeeper3"}
    expect_dead(bench, injection, lambda c: {c.caller, c.callee} == pair and c.port in (2888, 3888))


@case
def client_from_broker(bench: Bench) -> None:
    injection = bench.nemesis.cut("client1 -> broker2:kafka")
    expect_dead(bench, injection, lambda c: (c.caller, c.callee) == ("client1", "broker2"))


@case
def client_az_from_everything(bench: Bench) -> None:
    injection = bench.nemesis.isolate("clients@az1")
    expect_dead(bench, injection, lambda c: "client1" in (c.caller, c.callee))


@case
def one_way_packets(bench: Bench) -> None:
    """What broker1 sends does not arrive at broker2: neither can complete a handshake."""
    injection = bench.nemesis.cut("broker1 -> broker2")
    expect_dead(bench, injection, lambda c: {c.caller, c.callee} == {"broker1", "broker2"})


@case
def one_way_packets_back(bench: Bench) -> None:
    injection = bench.nemesis.cut("broker1 <- broker2")
    expect_dead(bench, injection, lambda c: {c.caller, c.callee} == {"broker1", "broker2"})


@case
def one_way_calls(bench: Bench) -> None:
    """broker1 cannot call broker2, broker2 can call broker1."""
    injection = bench.nemesis.cut("broker1 -> broker2:kafka")
    expect_dead(bench, injection, lambda c: (c.caller, c.callee) == ("broker1", "broker2"))


@case
def one_way_calls_with_resets(bench: Bench) -> None:
    injection = bench.nemesis.cut("broker1 -> broker2:kafka", action="reject")
    with recorded(bench, injection):
        result = bench.probe().new
        assert result[Call("broker1", "broker2", 9092)] == "refused"
        assert result[Call("broker2", "broker1", 9092)] == "open"
    assert injection.evidence["held"] == {"reset": 1}


@case
def sender_backs_off(bench: Bench) -> dict[str, list[str]]:
    """TCP doubles the time before each retransmission, as over a dead link: it does not know of the rule.

    The fault's own proof has left a byte unacknowledged on a connection that it holds. If packets were
    dropped at the sender, TCP would try again every 0.2 s, with the timer of a full window (`persist`).
    """
    seen: dict[str, list[str]] = {}
    for cut in (
        "broker1 <-> broker2",
        "broker1 -> broker2",
        "broker1 <- broker2",
        "broker1 -> broker2:kafka",
    ):
        found: list[str] = []

        def timers(found: list[str] = found) -> str:
            address = bench.lab.topology.host("broker2").address
            argv = ("ss", "-tinoH", "state", "established", "dst", f"{address}:9092")
            found.append(" ".join(bench.lab.execute("broker1", argv).stdout.split()))
            return found[-1]

        with recorded(bench, bench.nemesis.cut(cut)):
            wait_until(
                timers,
                within_s=10,
                awaiting=f"the sender to back off while {cut} is cut",
                accept=lambda shown: "timer:(on," in shown and _number(shown, "backoff") >= 2,
            )
        assert _number(found[-1], "rto") >= 4 * 200 and "persist" not in found[-1], found[-1]
        seen[cut] = found[-1:]
    return seen


def _number(shown: str, field: str) -> float:
    match = re.search(rf"\b{field}:([\d.]+)", shown)
    return float(match[1]) if match else 0.0


@case
def halves(bench: Bench) -> None:
    injection = bench.nemesis.halves("az3", "az1, az2")
    expect_dead(bench, injection, lambda c: (az(bench, c.caller) == "az3") != (az(bench, c.callee) == "az3"))


@case
def bridge(bench: Bench) -> None:
    injection = bench.nemesis.bridge("az2", "az1", "az3")
    expect_dead(bench, injection, lambda c: {az(bench, c.caller), az(bench, c.callee)} == {"az1", "az3"})


@case
def ring(bench: Bench) -> None:
    """Each AZ can call only the next one."""
    injection = bench.nemesis.ring("az1", "az2", "az3")
    back = {("az2", "az1"), ("az3", "az2"), ("az1", "az3")}

    def killed(call: Call) -> bool:
        return (az(bench, call.caller), az(bench, call.callee)) in back and call.port != 7

    expect_dead(bench, injection, killed)


@case
def flapping(bench: Bench) -> Any:
    """Seen by separate probes, because the fault's own probes are busy verifying each change."""
    injection = bench.nemesis.flapping("broker1 <-> broker2", period_s=1.4)
    call = Call("broker1", "broker2", 9092)
    eye = Prober(bench.lab)
    try:
        with recorded(bench, injection):
            for wanted in ("silent", "open", "silent", "open"):
                wait_until(
                    lambda: eye.probe([call], within_s=0.2).new[call],
                    within_s=20,
                    awaiting=f"the link to be {wanted}",
                    accept=lambda state, wanted=wanted: state == wanted,  # type: ignore[misc]
                )
    finally:
        eye.close()


@case_of_containers
def disconnected(bench: Bench) -> Any:
    """The container engine removes the interface, and adds it again with the same address."""
    if bench.lab.kind == "embedded":
        refused_to(UnfitError, "can be disconnected", lambda: bench.nemesis.disconnect("broker1"))
        return {"unfit": "embedded"}
    injection = bench.nemesis.disconnect("broker1")
    expect_dead(bench, injection, lambda c: "broker1" in (c.caller, c.callee))
    assert injection.evidence["dead"]["unreachable"], "its own calls fail at once"
    assert set(injection.evidence["held"]) == {"silent"}
    here = bench.lab.execute("broker1", ("hostname", "-i")).stdout.split()
    assert set(here) == {bench.lab.topology.host("broker1").address}
    bench.nemesis.isolate("broker1").inject().heal()  # a cut still works on the new interface
    injection.heal()
    return injection.evidence


@case_of_containers
def killed_while_disconnected(bench: Bench) -> None:
    """It cannot bind its address before it is connected again."""
    if bench.lab.kind == "embedded":
        return
    with bench.nemesis.disconnect("broker1"):
        bench.nemesis.kill("broker1")
    bench.start("broker1")
    assert bench.dead() == set()

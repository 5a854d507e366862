"""Single connections: held, while others over the same link work, and released."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from conformance_bench import FOUR, Bench, case, refused_to

from harness.errors import InvalidRunError
from harness.waiting import wait_until
from nemesis.fault import Injection
from nemesis.proof.prober import Prober
from nemesis.proof.reachability import Call

CALL = Call("client1", "broker2", 9092)
OTHER = Call("client1", "broker3", 9092)


@contextmanager
def client(bench: Bench, call: Call = CALL) -> Iterator[Prober]:
    """A separate process with one connection."""
    process = Prober(bench.lab)
    try:
        assert process.probe([call], within_s=2.0, keep=[call]).new[call] == "open"
        yield process
    finally:
        process.close()


def send(process: Prober, call: Call = CALL) -> str:
    """Send a byte over the connection; returns its fate within 0.3 s."""
    return process.probe([], within_s=0.3, check=[call]).held[call]


def only(evidence: Mapping[str, Any]) -> Mapping[str, Any]:
    """The evidence of the only connection."""
    (found,) = evidence["connections"]
    return found  # type: ignore[no-any-return]


def let_go(bench: Bench, injection: Injection) -> Mapping[str, Any]:
    """Heal; the evidence of `healed`."""
    found: list[Mapping[str, Any]] = []
    fault = injection.fault
    verify_healed = fault.verify_healed

    def remember() -> Mapping[str, Any]:
        found.append(verify_healed())
        return found[-1]

    fault.verify_healed = remember  # type: ignore[method-assign]
    injection.heal()
    assert bench.moments(injection) == FOUR, bench.moments(injection)
    rules = fault._rules.chain  # type: ignore[attr-defined]
    assert [line for line in bench.chains_left() if rules in line] == []
    return found[-1]


@case
def held_connection_is_delivered(bench: Bench) -> Any:
    """New connections work meanwhile; the byte arrives after the release, and nobody reads it."""
    with client(bench) as process:
        injection = bench.nemesis.hold_connections("client1", "broker2:kafka").inject()
        assert send(process) == "silent"
        assert bench.dead() == set()
        found = let_go(bench, injection)
    assert (found["delivered"], found["dropped"], found["pending"]) == (1, 0, 0), found
    one = only(found)
    assert one["request"]["bytes"] == 1 and one["request"]["unread_bytes"] == 1, one
    assert (one["state"], one["orphan"], one["response"]["fate"]) == ("ESTAB", False, "none"), one
    (named,) = injection.fault.targets()["connections"]  # type: ignore[misc]
    assert named == one["connection"] and named.endswith(" -> broker2:9092"), named
    return one


@case
def held_data_of_a_closed_connection_is_delivered(bench: Bench) -> Any:
    """The process closes the connection and ends; its kernel delivers the byte nevertheless."""
    with client(bench) as process:
        injection = bench.nemesis.hold_connections("client1", "broker2:kafka").inject()
        assert send(process) == "silent"
    found = let_go(bench, injection)
    one = only(found)
    assert (one["state"], one["orphan"]) == ("FIN-WAIT-1", True), one
    assert (one["request"]["bytes"], one["request"]["fate"]) == (1, "delivered"), one
    assert one["request"]["unread_bytes"] == 1, one
    return one


@case
def held_data_is_dropped_by_a_reset(bench: Bench) -> Any:
    """The server's process ends while the connection is held, so its kernel resets what arrives later."""
    with client(bench) as process:
        injection = bench.nemesis.hold_connections("client1", "broker2:kafka").inject()
        assert send(process) == "silent"
        bench.nemesis.kill("broker2")
        found = let_go(bench, injection)
    bench.start("broker2")
    assert (found["delivered"], found["dropped"], found["pending"]) == (0, 1, 0), found
    assert only(found)["request"] == {"bytes": 1, "fate": "dropped", "arrived_bytes": 0}, found
    wait_until(lambda: bench.probe().new[CALL] == "open", within_s=20, awaiting="broker2 to answer")
    return only(found)


@case
def one_of_two_connections_is_held(bench: Bench) -> Any:
    """By the client's port, found when the connection is opened."""
    with client(bench) as first:
        before = set(bench.nemesis.connections("client1", "broker2:kafka"))
        with client(bench) as second:
            (new,) = set(bench.nemesis.connections("client1", "broker2:kafka")) - before
            injection = bench.nemesis.hold_connections(
                "client1", "broker2", client_ports=[new.client_port]
            ).inject()
            assert send(first) == "alive"
            assert send(second) == "silent"
            found = let_go(bench, injection)
    assert only(found)["connection"] == str(new)
    return found


@case
def held_data_waits_for_another_cut(bench: Bench) -> Any:
    """The connection is released while its link is cut: held data is neither delivered nor dropped."""
    with client(bench) as process:
        injection = bench.nemesis.hold_connections("client1", "broker2:kafka").inject()
        assert send(process) == "silent"
        with bench.nemesis.cut("client1 <-> broker2"):
            found = let_go(bench, injection)
    assert (found["delivered"], found["dropped"], found["pending"]) == (0, 0, 1), found
    return only(found)


@case
def what_a_cut_held_back_is_waited_for(bench: Bench) -> Any:
    """A process sends during a cut and ends; its byte arrives when TCP has backed off long enough."""
    assert bench.nemesis.wait_delivered() == (), "what earlier cases have left"
    with bench.nemesis.cut("client1 <-> broker2"), client(bench, OTHER) as other:
        assert send(other, OTHER) == "alive"
    assert bench.backlog() == {}, "the connections that the proof held leave nothing behind"
    with client(bench) as process:
        cut = bench.nemesis.cut("client1 <-> broker2").inject()
        assert send(process) == "silent"
    found = wait_until(
        bench.backlog,
        within_s=10,
        awaiting="TCP to back off",
        accept=lambda found: max(found.values(), default=0.0) > 1.0,
    )
    mine = [one for one in found if one.startswith("client1:") and one.endswith(" -> broker2:9092")]
    assert set(mine) & set(bench.nemesis.wait_delivered()), "it is not waited for while the link is cut"
    cut.heal()
    assert bench.nemesis.wait_delivered() == ()
    assert bench.backlog() == {}
    return mine


@case
def a_hold_without_effect_is_invalid(bench: Bench) -> None:
    """There is no connection, or nothing is sent over it."""
    refused_to(
        InvalidRunError,
        "no connection is established there",
        bench.nemesis.hold_connections("client1", "broker2:kafka").inject,
    )
    with client(bench):
        injection = bench.nemesis.hold_connections("client1", "broker2:kafka").inject()
        refused_to(InvalidRunError, "no packet was sent over client1:", injection.heal)
    assert bench.chains_left() == []

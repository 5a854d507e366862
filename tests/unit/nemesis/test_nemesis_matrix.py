"""The expected reachability of the links under a fault."""

from __future__ import annotations

from nemesis_fakes import TOPOLOGY

from nemesis.network.links import Link, parse
from nemesis.proof.reachability import (
    CLOSED_PORT,
    Call,
    ProbeResult,
    calls,
    may_hold,
    still_alive,
    wrongly_dead,
)

CUT = (Link("broker1", "broker2", 9092),)
CALL = Call("broker1", "broker2", 9092)
BACK = Call("broker2", "broker1", 9092)


def test_every_ordered_pair_of_hosts_is_looked_at() -> None:
    pairs = {(call.caller, call.callee) for call in calls(TOPOLOGY)}
    assert len(pairs) == 9 * 8


def test_services_are_looked_at_by_those_who_call_them() -> None:
    all_calls = calls(TOPOLOGY)
    assert Call("client1", "broker3", 9092) in all_calls
    assert Call("broker1", "zookeeper1", 2181) in all_calls
    assert Call("zookeeper1", "zookeeper2", 3888) in all_calls
    assert Call("broker1", "zookeeper1", 3888) not in all_calls


def test_named_links_are_looked_at_even_if_nobody_calls_there() -> None:
    assert Call("zookeeper1", "broker1", 9092) in calls(TOPOLOGY, parse(TOPOLOGY, "zookeeper1 -> broker1"))
    assert Call("broker1", "client1", CLOSED_PORT) in calls(TOPOLOGY)


def test_ports_of_blocking_listeners_are_never_held_open() -> None:
    assert may_hold(CALL)
    assert not may_hold(Call("zookeeper1", "zookeeper2", 3888))
    assert not may_hold(Call("broker1", "client1", CLOSED_PORT))


def test_dead_means_silent_for_new_and_for_established_connections() -> None:
    assert still_alive(ProbeResult({CALL: "silent", BACK: "open"}, {CALL: "silent"}), CUT) == {}
    assert list(still_alive(ProbeResult({CALL: "open"}, {}), CUT)) == [
        "broker1 -> broker2:9092 still answers (open)"
    ]
    assert "still carries data" in next(
        iter(still_alive(ProbeResult({CALL: "silent"}, {CALL: "alive"}), CUT))
    )


def test_a_refusal_means_that_a_dropped_link_lives() -> None:
    assert "still answers (refused)" in next(iter(still_alive(ProbeResult({CALL: "refused"}, {}), CUT)))


def test_silence_where_a_reset_was_asked_for() -> None:
    assert still_alive(ProbeResult({CALL: "refused"}, {CALL: "reset"}), CUT, refused=True) == {}
    assert "instead of being refused" in next(
        iter(still_alive(ProbeResult({CALL: "silent"}, {}), CUT, refused=True))
    )


def test_only_links_that_lived_before_must_live_after() -> None:
    result = ProbeResult({CALL: "silent", BACK: "silent"}, {})
    assert wrongly_dead({BACK}, result, CUT) == [BACK]
    assert wrongly_dead(set(), result, CUT) == []
    assert wrongly_dead({CALL}, result, CUT) == []

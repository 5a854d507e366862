"""Rules: they compose, heal separately, spare foreign rules, and expire; cuts without effect are noticed."""

from __future__ import annotations

import time
from typing import Any

from conformance_bench import FOUR, Bench, case, case_of_containers, recorded, refused_to

from harness.errors import AckedError, InvalidRunError, UsageError
from harness.waiting import wait_until
from nemesis.nemesis import Nemesis
from nemesis.network.rules import CHAIN_PREFIX, normalised
from nemesis.proof.reachability import Call


@case
def several_faults_compose(bench: Bench) -> None:
    """Two faults that name the same link: healing one leaves the other."""
    first = bench.nemesis.cut("broker1 <-> broker2").inject()
    second = bench.nemesis.isolate("broker1").inject()
    call = Call("broker1", "broker2", 9092)
    second.heal()
    assert bench.probe().new[call] == "silent"
    assert bench.probe().new[Call("broker1", "broker3", 9092)] == "open"
    first.heal()
    assert bench.dead() == set()
    assert bench.chains_left() == []


@case
def equal_cuts_heal_apart(bench: Bench) -> None:
    first = bench.nemesis.cut("broker1 <-> broker2").inject()
    second = bench.nemesis.cut("broker1 <-> broker2").inject()
    first.heal()
    assert bench.probe().new[Call("broker2", "broker1", 9092)] == "silent"
    second.heal()
    assert bench.dead() == set()


@case
def inject_twice_heal_once_leaves_nothing(bench: Bench) -> None:
    injection = bench.nemesis.isolate("az2")
    injection.inject()
    injection.inject()
    injection.heal()
    assert bench.chains_left() == []
    assert bench.dead() == set()
    injection.heal()
    assert bench.moments(injection) == FOUR


@case
def foreign_rules_survive(bench: Bench) -> None:
    """A foreign rule and chain, even with the same target, exist before, during and after the fault."""
    rules = "*filter\n:MINE - [0:0]\n-A INPUT -s 203.0.113.9/32 -j DROP\n-A MINE -j RETURN\nCOMMIT\n"
    bench.lab.execute("broker1", ("iptables-restore", "--noflush"), stdin=rules)
    before = normalised(bench.nemesis._context.chains.listings(["broker1"])["broker1"])
    with bench.nemesis.isolate("broker1"):
        during = normalised(bench.nemesis._context.chains.listings(["broker1"])["broker1"])
        assert set(before) <= set(during)
    assert normalised(bench.nemesis._context.chains.listings(["broker1"])["broker1"]) == before
    undo = "*filter\n-D INPUT -s 203.0.113.9/32 -j DROP\n-F MINE\n-X MINE\nCOMMIT\n"
    bench.lab.execute("broker1", ("iptables-restore", "--noflush"), stdin=undo)


@case
def failed_injection_leaves_nothing(bench: Bench) -> None:
    """If one host's iptables refuses, the other hosts' rules are removed, and the fault is `failed`."""
    chain = f"{CHAIN_PREFIX}zz-1"
    blocker = f"*filter\n:{chain} - [0:0]\n-A INPUT -j {chain}\nCOMMIT\n"
    bench.lab.execute("broker2", ("iptables-restore", "--noflush"), stdin=blocker)
    injection = bench.nemesis.cut("broker1 <-> broker3")
    rules = injection.fault._rules  # type: ignore[attr-defined]
    broken = rules.rules["broker3"] + (type(rules.rules["broker3"][0])("--no-such-option"),)
    injection.fault._rules = type(rules)(rules.chain, rules.title, {**rules.rules, "broker3": broken})  # type: ignore[attr-defined]
    refused_to(AckedError, "refused the rules", injection.inject)
    assert bench.moments(injection) == ["injecting", "failed"]
    injection.heal()
    assert [line for line in bench.chains_left() if rules.chain in line] == []
    bench.nemesis._context.chains.sweep()
    assert bench.chains_left() == []
    assert bench.dead() == set()


@case
def a_cut_without_effect_is_invalid(bench: Bench) -> None:
    """A foreign rule in front accepts the packets: the fault notices, and says which link lives."""
    injection = bench.nemesis.cut("broker1 <-> broker2")
    fault = injection.fault

    def load() -> None:
        type(fault).load(fault)  # type: ignore[attr-defined]
        for host in ("broker1", "broker2"):
            bench.lab.execute(host, ("iptables", "-I", "INPUT", "1", "-j", "ACCEPT"))

    fault.load = load  # type: ignore[attr-defined]
    refused_to(InvalidRunError, "broker1 -> broker2:9092 still answers (open)", injection.inject)
    assert bench.moments(injection) == ["injecting", "failed"]
    for host in ("broker1", "broker2"):
        bench.lab.execute(host, ("iptables", "-D", "INPUT", "-j", "ACCEPT"))
    assert bench.chains_left() == []
    assert bench.dead() == set()


@case
def a_cut_that_vanished_is_invalid(bench: Bench) -> None:
    injection = bench.nemesis.cut("broker1 <-> broker2").inject()
    bench.lab.execute("broker1", ("iptables", "-F"))
    refused_to(InvalidRunError, "were gone from broker1", injection.heal)
    bench.nemesis._context.chains.sweep()
    assert bench.chains_left() == []
    assert bench.dead() == set()


@case
def rules_die_by_their_time_to_live(bench: Bench) -> Any:
    """A second nemesis that never heals, as if its harness had been killed."""
    other = Nemesis(bench.lab, bench.journal, run="ttl", ttl_s=4.0)
    other.isolate("az1").inject()
    other._context.prober.close()
    other._context.cuts.clear()  # a dead harness re-applies nothing
    began = time.monotonic()
    wait_until(lambda: not bench.chains_left(), within_s=15, awaiting="the rules to remove themselves")
    took_s = time.monotonic() - began
    wait_until(lambda: not bench.watchdogs(), within_s=2, awaiting="the watchdogs to end")
    assert bench.dead() == set()
    return {"gone_after_s": round(took_s, 2)}


@case
def healing_ends_the_watchdogs(bench: Bench) -> None:
    with bench.nemesis.isolate("az3"):
        assert bench.watchdogs()
    assert not bench.watchdogs()


@case
def restarted_host_is_cut_again(bench: Bench) -> None:
    """The host's table is lost, as with the restart of a container."""
    with recorded(bench, bench.nemesis.isolate("broker1")):
        bench.nemesis.kill("broker1")
        bench.lab.execute("broker1", ("iptables", "-F", "INPUT"))
        for call in (Call("broker1", "broker2", 9092), Call("broker2", "broker1", 9092)):
            assert bench.probe().new[call] == "silent", "the other end drops what broker1 sends"
        bench.start("broker1")
        assert any(line.startswith("broker1: -A INPUT") for line in bench.chains_left())


@case_of_containers
def restarted_container_is_cut_before_its_process(bench: Bench) -> Any:
    """A container that was stopped has a new network: its rules are there before its main process starts."""
    if bench.lab.kind == "embedded":
        return {"unfit": "embedded"}
    lab: Any = bench.lab
    seen: list[tuple[bool, bool]] = []

    def look(host: str) -> None:
        listing = bench.nemesis._context.chains.listings([host])[host]
        seen.append((f"-A INPUT {rules.hook}" in listing, lab.alive(host)))

    injection = bench.nemesis.cut("broker2 -> broker1")
    rules = injection.fault._rules  # type: ignore[attr-defined]
    lab.on_new_network(look)
    with recorded(bench, injection):
        bench.nemesis.kill("broker1")
        lab._api().stop(lab.container("broker1"), timeout=1)
        bench.start("broker1")
        assert seen == [(True, False)], seen
        assert bench.probe().new[Call("broker2", "broker1", 9092)] == "silent"
        assert bench.probe().new[Call("broker1", "broker2", 9092)] == "silent", "no answer arrives"
    return seen


@case
def misspelt_names(bench: Bench) -> None:
    refused_to(UsageError, "names no host", lambda: bench.nemesis.isolate("az4"))
    refused_to(
        UsageError, "neither a service nor a port", lambda: bench.nemesis.cut("broker1 -> broker2:kafak")
    )
    refused_to(UsageError, "names no link", lambda: bench.nemesis.cut("broker1 -> broker2:2181"))
    assert bench.chains_left() == []

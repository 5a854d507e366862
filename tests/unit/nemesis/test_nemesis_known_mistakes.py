"""Mistakes of other harnesses, each with a test that acked does not make it.

Two more are elsewhere: a misspelt configuration key in `unit/run/test_configs.py`, an empty
history that passes in `tests/anomalies/messages.py`.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from nemesis_fakes import TOPOLOGY, RecordingFault, Rows, crowded

import nemesis
from harness.errors import InvalidRunError, UsageError
from nemesis.fault import Injection
from nemesis.network import links
from nemesis.network.links import Link
from nemesis.network.rules import cut_rules
from nemesis.proof.reachability import Call, ProbeResult, calls, still_alive

SOURCES = sorted(Path(nemesis.__file__).parent.rglob("*.py"))
ROOT = Path(nemesis.__file__).parents[1]
TIMED = sorted(
    source for room in ("harness", "nemesis", "workloads") for source in (ROOT / room).rglob("*.py")
)
TELL_THE_DATE = {
    "harness/clock.py",
    "harness/cluster/certificates.py",
    "harness/cluster/tokens.py",
    "harness/kafka/wire/authentication.py",
    "harness/kafka/wire/produce.py",
    "harness/kafka/wire/transactions.py",
    "run/folder.py",
    "studies/series/folder.py",
    "studies/series/stored.py",
}
"""Where the wall clock is meant: it says when something was, and no duration is taken from it."""


def test_a_wait_on_a_function_object_instead_of_its_call(tmp_path: Path) -> None:
    """A function object is always true, so the partition was never checked. Here it is not evidence."""
    rows = Rows(tmp_path)
    fault = RecordingFault()
    fault.evidence = fault.verify
    with pytest.raises(TypeError, match="not JSON serializable"):
        Injection(1, fault, rows.journal).inject()
    assert "injected" not in rows.moments()


def test_a_verification_that_looked_at_nothing() -> None:
    """Having observed nothing is different from having observed that nothing is wrong."""
    assert list(still_alive(ProbeResult({}, {}), [Link("broker1", "broker2")])) == [
        "broker1 -> broker2 was never tried"
    ]


def test_a_block_of_one_port_that_leaves_the_zookeeper_ports_open() -> None:
    """A partition names no port and is verified on every port that is used between its hosts."""
    cut = links.parse(TOPOLOGY, "az1 <-> az2")
    rules = cut_rules(TOPOLOGY, "ACKED-t-1", cut)
    assert not any("port" in rule.text for of_host in rules.rules.values() for rule in of_host)
    looked_at = {call.port for call in calls(TOPOLOGY, cut) if call.caller == "zookeeper1"}
    assert {2181, 2888, 3888, 9092} <= looked_at
    open_port = Call("zookeeper1", "zookeeper2", 3888)
    result = ProbeResult(dict.fromkeys(calls(TOPOLOGY, cut), "silent") | {open_port: "open"}, {})
    assert list(still_alive(result, cut)) == ["zookeeper1 -> zookeeper2:3888 still answers (open)"]


@pytest.mark.parametrize("text", ["az1 <-> az4", "broker1 -> zookeepers:zookeper", "brokr1 -> broker2"])
def test_a_misspelt_name_without_effect(text: str) -> None:
    with pytest.raises(UsageError):
        links.parse(TOPOLOGY, text)


def test_a_misspelt_setting_without_effect() -> None:
    with pytest.raises(UsageError, match="use drop or reject"):
        cut_rules(TOPOLOGY, "ACKED-t-1", [Link("broker1", "broker2")], "rejct")  # type: ignore[arg-type]


def test_a_fault_name_misspelt_in_the_heal_switch(tmp_path: Path) -> None:
    """There is no switch: each fault heals itself, whatever its name."""
    rows = Rows(tmp_path)
    fault = RecordingFault("partiton-halfs")
    Injection(1, fault, rows.journal).inject().heal()
    assert fault.calls[-2:] == ["heal", "verify_healed"]


def test_a_heal_that_removes_one_of_two_equal_rules() -> None:
    """Equal cuts of two faults are in two chains, and each heal removes only its own."""
    cut = [Link("broker1", "broker2")]
    first, second = (cut_rules(TOPOLOGY, f"ACKED-t-{number}", cut) for number in (1, 2))
    assert "ACKED-t-2" not in first.heal_text()
    assert "ACKED-t-1" not in second.heal_text()
    assert first.rules == second.rules


def test_a_flush_that_removes_the_rules_of_others() -> None:
    text = cut_rules(TOPOLOGY, "ACKED-t-1", [Link("broker1", "broker2")]).heal_text()
    assert [line for line in text.splitlines() if line.startswith(("-F", "-X"))] == [
        "-F ACKED-t-1",
        "-X ACKED-t-1",
    ]
    for source in SOURCES:
        assert "iptables -F\n" not in source.read_text(), source


def test_the_start_of_a_fault_logged_before_it_acts(tmp_path: Path) -> None:
    rows = Rows(tmp_path)
    fault = RecordingFault(fails={"verify": InvalidRunError("it had no effect")})
    with pytest.raises(InvalidRunError):
        Injection(1, fault, rows.journal).inject()
    assert "injected" not in rows.moments()


def test_a_target_chosen_by_a_substring_of_its_name() -> None:
    topology = crowded()
    assert [host.name for host in topology.select("broker1")] == ["broker1"]
    assert [host.name for host in topology.select("az1")] == ["broker1"]
    cut = links.isolate(topology, "broker1")
    assert Link("broker10", "broker11") not in cut
    assert {link.source for link in cut if link.destination == "broker1"} == {
        "broker10",
        "broker11",
        "broker2",
    }


@pytest.mark.parametrize("source", TIMED, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_wall_clock_or_a_cpu_clock_where_a_monotonic_one_is_needed(source: Path) -> None:
    wrong = {"time", "time_ns", "process_time", "perf_counter", "thread_time", "now", "utcnow", "sleep"}
    if source.relative_to(ROOT).as_posix() in TELL_THE_DATE:
        wrong -= {"time", "time_ns", "now"}
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            assert not (node.value.id in ("time", "datetime") and node.attr in wrong), ast.unparse(node)


def test_an_empty_set_of_links_that_counts_as_a_partition() -> None:
    for text in ("broker1 -> broker1", "broker1 -> client1:kafka"):
        with pytest.raises(UsageError, match="names no link"):
            links.parse(TOPOLOGY, text)

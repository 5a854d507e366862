"""Links become input for iptables-restore, and listings of rules are read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from nemesis_fakes import TOPOLOGY

from harness.errors import LabError, UsageError
from harness.lab.model import Control, Result
from nemesis.network import links
from nemesis.network.chains import Chains
from nemesis.network.links import Connection, Link
from nemesis.network.rules import (
    chain_name,
    classify_rules,
    connection_rules,
    cut_rules,
    foreign,
    loss_rules,
    normalised,
)

ONE = (Link("broker1", "broker2"),)
BROKER_1, BROKER_2 = (TOPOLOGY.host(name).address for name in ("broker1", "broker2"))


def test_a_cut_drops_packets_where_they_arrive() -> None:
    assert cut_rules(TOPOLOGY, "ACKED-t-1", ONE).hosts == ("broker2",)
    both = cut_rules(TOPOLOGY, "ACKED-t-1", (*ONE, Link("broker2", "broker1")))
    assert [rule.text for rule in both.rules["broker1"]] == [f"-s {BROKER_2}/32 -d {BROKER_1}/32 -j DROP"]
    assert [rule.text for rule in both.rules["broker2"]] == [f"-s {BROKER_1}/32 -d {BROKER_2}/32 -j DROP"]


def test_load_text_in_full() -> None:
    rules = cut_rules(TOPOLOGY, "ACKED-t-1", ONE)
    hook = '-m comment --comment "acked fault ACKED-t-1" -j ACKED-t-1'
    assert rules.load_text("broker2").splitlines() == [
        "*filter",
        ":ACKED-t-1 - [0:0]",
        f"-I INPUT 1 {hook}",
        f"-A ACKED-t-1 -s {BROKER_1}/32 -d {BROKER_2}/32 -j DROP",
        "COMMIT",
    ]
    assert rules.heal_text().splitlines() == [
        "*filter",
        f"-D INPUT {hook}",
        "-F ACKED-t-1",
        "-X ACKED-t-1",
        "COMMIT",
    ]


def test_rules_may_end_by_the_clock_of_the_kernel() -> None:
    """The rule that ends them comes first, counts for no link, and tells by its counter that it has acted."""
    rules = cut_rules(TOPOLOGY, "ACKED-t-1", ONE)
    lines = rules.load_text("broker2", "2026-11-28T09:50:00").splitlines()
    end = "-A ACKED-t-1 -m time --datestart 2026-11-28T09:50:00 -j RETURN"
    assert lines[3:5] == [end, f"-A ACKED-t-1 {rules.rules['broker2'][0].text}"]
    listing = f"[0:0] {end}\n[7:420] {lines[4]}\n"
    assert rules.packets(listing) == [7] and rules.counts("broker2", listing) == {ONE[0]: 7}
    assert not rules.ended_by_clock(listing) and rules.ended_by_clock(listing.replace("[0:0]", "[2:80]"))


def test_a_service_cut_drops_both_directions_of_its_connections_only() -> None:
    rules = cut_rules(TOPOLOGY, "ACKED-t-1", [Link("broker1", "broker2", 9092)])
    assert {host: [rule.text for rule in lines] for host, lines in rules.rules.items()} == {
        "broker2": [f"-s {BROKER_1}/32 -d {BROKER_2}/32 -p tcp -m tcp --dport 9092 -j DROP"],
        "broker1": [f"-s {BROKER_2}/32 -d {BROKER_1}/32 -p tcp -m tcp --sport 9092 -j DROP"],
    }


def test_reject_resets_tcp_drops_the_rest_and_lets_the_resets_of_the_other_end_arrive() -> None:
    rules = cut_rules(TOPOLOGY, "ACKED-t-1", ONE, "reject")
    assert [rule.text for rule in rules.rules["broker2"]] == [
        f"-s {BROKER_1}/32 -d {BROKER_2}/32 -p tcp -m tcp --tcp-flags RST RST -j RETURN",
        f"-s {BROKER_1}/32 -d {BROKER_2}/32 -p tcp -m tcp -j REJECT --reject-with tcp-reset",
        f"-s {BROKER_1}/32 -d {BROKER_2}/32 -j DROP",
    ]
    assert [rule.link for rule in rules.rules["broker2"]] == [None, ONE[0], None]


def test_loss_is_applied_once_where_packets_arrive() -> None:
    rules = loss_rules(TOPOLOGY, "ACKED-t-1", ONE, 0.25)
    assert rules.hosts == ("broker2",)
    assert "--probability 0.250000 -j DROP" in rules.load_text("broker2")


def test_what_a_host_sends_to_others_is_assigned_to_a_class_and_the_harness_is_spared() -> None:
    """Where it leaves; what answers the harness, or what a jump host sends to a host, comes first."""
    controls = {
        "broker1": Control("192.0.2.1", BROKER_1, 22),
        "broker2": Control(BROKER_1, BROKER_2, 2222),
    }
    hosts = tuple(replace(host, control=controls.get(host.name)) for host in TOPOLOGY.hosts)
    topology = replace(TOPOLOGY, hosts=hosts)
    rules = classify_rules(topology, "ACKED-t-1", [topology.host("broker1")], "ac01:acd")
    assert rules.hosts == ("broker1",)
    first, second, *rest = [rule.text for rule in rules.rules["broker1"]]
    assert first == f"-s {BROKER_1}/32 -d 192.0.2.1/32 -p tcp -m tcp --sport 22 -j RETURN"
    assert second == f"-s {BROKER_1}/32 -d {BROKER_2}/32 -p tcp -m tcp --dport 2222 -j RETURN"
    assert rest == [
        f"-s {BROKER_1}/32 -d {other.address}/32 -j CLASSIFY --set-class ac01:acd"
        for other in hosts
        if other.name != "broker1"
    ]
    loaded, healed = rules.load_text("broker1"), rules.heal_text()
    assert f"-I OUTPUT 1 {rules.hook}" in loaded and f"-D OUTPUT {rules.hook}" in healed
    assert "INPUT" not in loaded + healed


def test_the_packets_of_a_connection_are_dropped_at_both_of_its_ends() -> None:
    one = Connection(client="broker1", client_port=40112, server="broker2", server_port=9092)
    rules = connection_rules(TOPOLOGY, "ACKED-t-1", [one])
    assert {host: [rule.text for rule in lines] for host, lines in rules.rules.items()} == {
        "broker2": [f"-s {BROKER_1}/32 -d {BROKER_2}/32 -p tcp -m tcp --sport 40112 --dport 9092 -j DROP"],
        "broker1": [f"-s {BROKER_2}/32 -d {BROKER_1}/32 -p tcp -m tcp --sport 9092 --dport 40112 -j DROP"],
    }


def test_chain_names_fit_and_tell_runs_apart() -> None:
    assert chain_name("a1b2", 12) == "ACKED-a1b2-12"
    with pytest.raises(UsageError, match="cannot name an iptables chain"):
        chain_name("a-run-with-a-very-long-name-indeed", 1)
    with pytest.raises(UsageError, match="cannot name an iptables chain"):
        chain_name("a b", 1)


def test_listing_is_compared_without_counters_comments_and_untouched_tables() -> None:
    untouched = ""
    used_once = "# Generated\n*filter\n:INPUT ACCEPT [7:420]\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n# Completed\n"
    assert normalised(untouched) == normalised(used_once) == ()
    assert normalised("[3:180] -A INPUT -j DROP\n:MINE - [1:2]") == ("-A INPUT -j DROP", ":MINE -")


def test_a_policy_that_drops_is_part_of_the_listing() -> None:
    assert normalised(":INPUT DROP [0:0]") == (":INPUT DROP",)


def test_foreign_lines_are_those_of_nobody_of_ours() -> None:
    assert foreign(("-A INPUT -j ACKED-x-1", "-A INPUT -j MINE")) == ("-A INPUT -j MINE",)


def test_counters_are_read_by_position_in_the_own_chain() -> None:
    parsed = links.parse(TOPOLOGY, "broker1 -> broker2, broker2 -> broker1:kafka")
    rules = cut_rules(TOPOLOGY, "ACKED-t-1", parsed)
    listing = "\n".join(
        [
            "[9:9] -A ACKED-t-11 -j DROP",
            "[5:300] -A ACKED-t-1 first",
            "[7:420] -A ACKED-t-1 answers of the second",
        ]
    )
    assert rules.counts("broker2", listing) == {parsed[0]: 5}
    listing = "[9:9] -A ACKED-t-11 -j DROP\n[6:360] -A ACKED-t-1 second"
    assert rules.counts("broker1", listing) == {parsed[1]: 6}
    assert rules.counts("broker1", "") == {}


class _HalfReached:
    """A lab of which one host does not answer; notes in which others each script ran."""

    topology = TOPOLOGY
    of_others = False

    def __init__(self) -> None:
        self.ran: list[tuple[str, str]] = []

    def execute_all(
        self, commands: Mapping[str, tuple[Sequence[str], str]], **_: object
    ) -> dict[str, Result]:
        self.ran += [(argv[3], host) for host, (argv, _) in commands.items() if host != "broker3"]
        if "broker3" in commands:
            raise LabError("the connection to broker3 has ended")
        return {host: Result(0, "77", "") for host in commands}


def test_rules_that_one_host_does_not_get_stay_in_no_other() -> None:
    lab = _HalfReached()
    rules = cut_rules(TOPOLOGY, "ACKED-t-1", links.isolate(TOPOLOGY, "broker1"))
    with pytest.raises(LabError, match="broker3 has ended"):
        Chains(lab, 60.0).load(rules)  # type: ignore[arg-type]
    loaded = {host for script, host in lab.ran if script == "load"}
    removed = {host for script, host in lab.ran if script == "remove-remains"}
    assert loaded == removed == set(rules.hosts) - {"broker3"} != set()

"""A table ends as it began, whatever faults come and go in any order, and foreign rules never move."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from harness.lab.layout import three_azs
from nemesis.network.links import Link, isolate, parse
from nemesis.network.rules import chain_name, cut_rules
from nemesis.proof.reachability import blocked, calls

TOPOLOGY = three_azs("zookeeper")
NAMES = [host.name for host in TOPOLOGY.hosts]
FOREIGN = {"INPUT": ["-s 203.0.113.9 -j DROP"], "OUTPUT": ["-j MINE"], "MINE": ["-j RETURN"]}

hosts = st.sampled_from(NAMES)
links = st.builds(Link, hosts, hosts, st.none() | st.sampled_from([9092, 2181])).filter(
    lambda link: link.source != link.destination
)
cuts = st.lists(st.lists(links, min_size=1, max_size=6, unique=True), min_size=1, max_size=5)


class Table:
    """A host's filter table, as far as our texts use it; anything else in them is an error."""

    def __init__(self) -> None:
        self.chains = {name: list(rules) for name, rules in FOREIGN.items()}

    def restore(self, text: str) -> None:
        lines = text.splitlines()
        assert (lines[0], lines[-1]) == ("*filter", "COMMIT")
        for line in lines[1:-1]:
            if match := re.fullmatch(r":(\S+) - \[0:0\]", line):
                self.chains[match[1]] = []
                continue
            command, chain, *rest = line.split(" ")
            rule = " ".join(rest)
            if command == "-I":
                self.chains[chain].insert(int(rest[0]) - 1, " ".join(rest[1:]))
            elif command == "-A":
                self.chains[chain].append(rule)
            elif command == "-D":
                self.chains[chain].remove(rule)
            elif command == "-F":
                self.chains[chain].clear()
            else:
                assert command == "-X"
                assert not any(chain in rule for rules in self.chains.values() for rule in rules)
                del self.chains[chain]


@given(cuts, st.randoms(use_true_random=False))
def test_tables_end_as_they_began(faults: list[list[Link]], chance: object) -> None:
    """Faults are injected one by one and healed in any order, in between or afterwards."""
    tables = {name: Table() for name in NAMES}
    in_force = []
    steps = list(enumerate(faults, start=1))
    while steps or in_force:
        if steps and (not in_force or chance.random() < 0.5):  # type: ignore[attr-defined]
            number, cut = steps.pop()
            rules = cut_rules(TOPOLOGY, chain_name("test", number), cut)
            for host in rules.hosts:
                tables[host].restore(rules.load_text(host))
                assert tables[host].chains["INPUT"][0].endswith(rules.chain), "before everything else"
            in_force.append(rules)
        else:
            rules = in_force.pop(chance.randrange(len(in_force)))  # type: ignore[attr-defined]
            for host in rules.hosts:
                tables[host].restore(rules.heal_text())
        for table in tables.values():
            assert {rule for rules in FOREIGN.values() for rule in rules} <= {
                rule for rules in table.chains.values() for rule in rules
            }
    assert all(table.chains == FOREIGN for table in tables.values())


@given(st.lists(links, min_size=1, max_size=8, unique=True))
def test_every_rule_stands_where_its_packets_arrive(cut: list[Link]) -> None:
    rules = cut_rules(TOPOLOGY, "ACKED-test-1", cut)
    for link in cut:
        assert [rule.link for rule in rules.rules[link.destination]].count(link) == 1
    for host, lines in rules.rules.items():
        assert all(f"-d {TOPOLOGY.host(host).address}/32" in rule.text for rule in lines)


@given(st.sampled_from(["az1", "az2", "az3", *NAMES]))
def test_isolation_kills_what_crosses_the_border_and_nothing_else(pattern: str) -> None:
    inside = {host.name for host in TOPOLOGY.select(pattern)}
    cut = isolate(TOPOLOGY, pattern)
    for call in calls(TOPOLOGY, cut):
        assert blocked(cut, call) == ((call.caller in inside) != (call.callee in inside))


@given(hosts, hosts)
def test_text_and_link_say_the_same(source: str, destination: str) -> None:
    if source != destination:
        link = Link(source, destination)
        assert parse(TOPOLOGY, str(link)) == (link,)
        assert link.blocks(source, destination, 9092)
        assert not link.blocks(source, source, 9092)

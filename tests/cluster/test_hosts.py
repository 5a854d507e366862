"""Hosts of others over a real sshd: faults with proof, the dead man's switch, hosts that are not as usual."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cluster import ssh_hosts, systemd_hosts
from tests.cluster.attached_runs import ROLLING
from tests.cluster.hosts_worker import KILLS, TTL_S
from tests.cluster.ssh_hosts import PORT
from tests.cluster.test_recorded_faults import carried_out

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(bool(ssh_hosts.missing()), reason=ssh_hosts.missing() or "nothing is missing"),
]
_BUSY_S = 6.0
"""By how much a busy machine may be late."""


@pytest.mark.long
def test_faults_are_proven_as_root_and_by_sudo(tmp_path: Path) -> None:
    """A cut, one way and both, for new and held connections, and a pause; nothing of them stays."""
    *proven, refused = carried_out("hosts_worker", tmp_path, "faults")
    for user in ("root", ssh_hosts.OPERATOR):
        seen, after = [one for one in proven if one["user"] == user]
        assert seen["dead"] == 4 and seen["held"] == {"silent": 4} and seen["one_way"] == 2, seen
        assert seen["paused"] == {"broker1": "T"} and seen["states"]["broker1"] == "T"
        assert seen["spared"] == 1 and after["restored"]
    assert refused["user"] == ssh_hosts.NOBODY and "NOPASSWD" in refused["refused"]


@pytest.mark.long
def test_a_limit_is_for_what_hosts_send_to_each_other(tmp_path: Path) -> None:
    """At the rate that was asked for; an interface with a discipline of its own is unfit."""
    *limited, refused = carried_out("hosts_worker", tmp_path, "throttled")
    for one in limited:
        assert 250 < one["kbit_s"] < 420 and one["evidence"]["packets"] > 2, one
        assert all(one[other] > 10_000 for other in ("here", "between_others", "after")), one
        assert one["restored"], one
    assert all("discipline of its own (tbf 10:)" in refused[why] for why in ("unfit", "refused")), refused
    assert refused["removed"] == [[], [], []] and refused["as_before"], refused


@pytest.mark.long
def test_the_canary_the_lock_and_healing_from_elsewhere(tmp_path: Path) -> None:
    """First each host has a rule that ends by itself; `heal` removes what is left, and only that."""
    guarded, healed = carried_out("hosts_worker", tmp_path, "guarded")
    assert set(guarded["lived"]) == {"broker1", "broker2", "broker3"} and guarded["restored"]
    assert all(4.0 <= seconds <= 5.0 + _BUSY_S for seconds in guarded["lived"].values()), guarded
    assert "is in use by 'acked on" in guarded["second"]
    assert healed["rules"] > 0 and healed["killed"] == 8 and all(healed["removed"]) and healed["restored"], (
        healed
    )
    assert healed["resumed"] == [1, 0, 0], "its watchdog was killed, and the lock says who paused it"
    assert healed["left"] == [[], [], []] and healed["again"] == [[], [], []]


@pytest.mark.long
def test_check_and_heal_as_a_user_types_them(tmp_path: Path) -> None:
    """`check` changes nothing; `heal` works while another process breaks, and names a host that is away."""
    check, nobody, healed, partly = carried_out("hosts_worker", tmp_path, "commands")
    assert check["check"] == 3 and "no broker answers" in check["problem"], (
        "programs listen there, not brokers"
    )
    assert check["unfit"] == [{}, {}, {}] and check["unchanged"]
    assert check["unanswered"] == [[], [f"broker1 -> broker2:{PORT}"]]
    assert check["canary"] == 3 and sum("vanished by itself" in line for line in check["lines"]) == 3
    assert nobody["nobody"] == 3 and any("NOPASSWD" in line for line in nobody["lines"])
    assert healed["heal"] == 0 and healed["restored"]
    assert sum(" removed" in line for line in healed["lines"]) == 3, healed
    assert partly["heal"] == 2 and [bool(one) for one in partly["problems"]] == [False, True, False]


@pytest.mark.long
def test_whatever_is_killed_the_faults_end_by_themselves(tmp_path: Path) -> None:
    """Within their time-to-live on every host, and nothing else has changed."""
    outcomes = list(carried_out("hosts_worker", tmp_path, "kills"))
    assert [one["kill"] for one in outcomes] == list(KILLS)
    for one in outcomes:
        assert one["rules"] > 3 and one["stopped"] == 1, one
        assert 2.0 < one["seconds"] <= TTL_S + _BUSY_S, one


@pytest.mark.long
def test_rules_whose_watchdogs_are_killed_end_by_the_clock(tmp_path: Path) -> None:
    """Of the kernel; they have no effect any more, and `heal` removes them."""
    (one,) = carried_out("hosts_worker", tmp_path, "clock")
    assert one["dead"] and 2.0 < one["seconds"] <= TTL_S + 5.0 + _BUSY_S and one["left"] > 3, one
    assert one["problems"] == ["", "", ""] and one["restored"], one


@pytest.mark.long
def test_a_kernel_without_a_clock_for_rules(tmp_path: Path) -> None:
    """Its watchdogs end them all the same, `check` says so, and `heal` removes what nobody ended."""
    first, second = carried_out("hosts_worker", tmp_path, "timeless")
    for one in (first, second):
        assert any("its watchdogs alone do" in note for note in one["notes"]), one
        assert one["clocks"] == {"broker1": False, "broker2": True, "broker3": True}, one
    assert 2.0 < first["seconds"] <= TTL_S + _BUSY_S, first
    assert second["left"] > 3 and second["healed"] == ["", "", ""] and second["after"], second


@pytest.mark.long
def test_hostile_hosts_get_a_sentence_and_keep_no_rule(tmp_path: Path) -> None:
    """Banners, slow logins, no Python, full /tmp, 200 rules, two kinds of iptables, a lost right."""
    outcomes = {one["case"]: one for one in carried_out("hosts_worker", tmp_path, "hostile")}
    assert all(one["restored"] for one in outcomes.values()), outcomes
    for name in ("banner", "slow", "full tmp", "200 foreign rules", "nft beside legacy"):
        assert outcomes[name]["cut"] == "dead 4" and not outcomes[name]["unfit"], outcomes[name]
    without = outcomes["without python"]
    assert "no Python 3.6" in without["unfit"]["cut"] and "no Python 3.6" in without["cut"]
    assert "pause" not in without["unfit"]
    (note,) = outcomes["clock"]["notes"]
    assert note.startswith("its clock differs by +7") and outcomes["clock"]["cut"] == "dead 4"
    assert "iptables-legacy (1)" in outcomes["nft beside legacy"]["notes"][0]
    assert "NOPASSWD" in outcomes["lost sudo"]["cut"]
    assert outcomes["lost sudo"]["seconds"] <= TTL_S + _BUSY_S


@pytest.mark.long
def test_topics_of_others_are_spared(tmp_path: Path) -> None:
    """The wrong cluster and a fault that would harm are refused; one that does harm ends at once."""
    wrong, refused, stopped = carried_out("attached_runs", tmp_path, "2.7.1", "sparing-others")
    assert wrong["status"] == 254 and "nothing was broken" in wrong["stderr"], wrong
    assert refused["status"] == 3 and "nothing was broken" in refused["stderr"], refused
    assert stopped["status"] == 2 and "to spare others: orders/0 has fewer" in stopped["stderr"], stopped
    assert stopped["moments"] == ["injecting", "injected", "healing", "healed"], stopped
    assert stopped["seconds"] < 45 and stopped["rules_as_before"], "a fault of 60 s ended early"


@pytest.mark.long
def test_a_hosts_file_is_proposed_and_start_commands_are_tried(tmp_path: Path) -> None:
    """What Kafka and the hosts tell is what their owner would write; a node is ended only after a trial."""
    discovered, killed = carried_out("attached_runs", tmp_path, "3.9.1", "discovered", "leader-killed")
    own, proposed = ({one["address"]: one for one in table} for table in discovered["hosts"])
    assert proposed == own and discovered["status"] == [0, 0, 3, 0], discovered
    _, untried, tried = (json.loads(text)["hosts"] for text in discovered["checks"])
    assert all("was not tried" in one["unfit"]["kill"] for one in untried), untried
    assert all(one["started_s"] > 0 and not one["unfit"] for one in tried), tried
    assert discovered["rules_as_before"] and discovered["inventory_as_before"]
    assert killed["status"] == 0 and killed["lost"] == killed["lost_on_disk"], killed


@pytest.mark.long
@pytest.mark.skipif(bool(systemd_hosts.missing()), reason=systemd_hosts.missing() or "nothing is missing")
def test_nodes_that_are_units_of_systemd(tmp_path: Path) -> None:
    """Their start command is proposed, tried and used; watchdogs are in scopes."""
    discovered, killed = carried_out("attached_runs", tmp_path, "3.9.1+no", "discovered", "leader-killed")
    _, proposed = discovered["starts"]
    assert set(proposed.values()) == {"systemctl start kafka.service"}, discovered
    tried = json.loads(discovered["checks"][2])["hosts"]
    assert all(one["started_s"] > 0 and one["canary_s"] > 4 and not one["unfit"] for one in tried), tried
    assert all(one["facts"]["systemd"] == "yes" for one in tried), tried
    assert discovered["rules_as_before"] and discovered["inventory_as_before"], discovered
    assert killed["status"] == 0 and killed["verdict"] == "as declared" and killed["rules_as_before"], killed
    assert killed["moments"] == ["injecting", "injected", "healing", "healed"], killed
    assert killed["lost"] == killed["lost_on_disk"], killed


@pytest.mark.long
@pytest.mark.parametrize("kafka", ["2.7.1", "3.9.1/zookeeper"])
def test_brokers_are_restarted_in_turn_during_a_cut(tmp_path: Path, kafka: str) -> None:
    """Each while the link is cut, which ends with the last restart."""
    (done,) = carried_out("attached_runs", tmp_path, kafka, "as-tried", ROLLING)
    assert (
        done["status"] == 0 and done["verdict"] == "as declared" and done["lost"] == done["lost_on_disk"]
    ), done
    assert done["rules_as_before"] and done["inventory_as_before"], done
    whole = ["injecting", "injected", "healing", "healed"]
    assert done["moments"] == [*whole[:2], *whole * 3, *whole[2:]], done


@pytest.mark.long
def test_combined_nodes_are_not_restarted_during_a_cut(tmp_path: Path) -> None:
    """One that is cut off and one that restarts would be a majority of the controllers."""
    (refused,) = carried_out("attached_runs", tmp_path, "3.9.1", "as-tried", ROLLING)
    assert refused["status"] == 3 and "2 of 3 nodes with the service controller" in refused["stderr"], refused


@pytest.mark.long
def test_an_assessment_of_a_cluster_of_others(tmp_path: Path) -> None:
    """One run after the other, each judged; findings are what the files lack, and nothing is left."""
    (done,) = carried_out("attached_runs", tmp_path, "3.9.1", "assess isolate-eu-a*,pause-broker*")
    assert done["status"] == 0 and done["rules_as_before"] and done["inventory_as_before"], done
    assert len(done["lost"]) >= 2 and all(not different for *_, different in done["lost"]), done


@pytest.mark.long
def test_a_search_on_a_cluster_of_others(tmp_path: Path) -> None:
    """Each schedule is judged; a search keeps no run without a finding."""
    (done,) = carried_out("attached_runs", tmp_path, "3.9.1", "as-tried", "search 2 7")
    assert done["status"] == 0 and done["rules_as_before"] and done["inventory_as_before"], done
    assert done["document"]["judged"] == 2 and not done["document"]["not_judged"], done
    assert all(not different for *_, different in done["lost"]), done


@pytest.mark.long
@pytest.mark.parametrize(
    ("kafka", "names"),
    [
        ("3.9.1", "leader-az-isolated kraft-leader-az-isolated leader-paused"),
        ("2.7.1", "leader-az-isolated follower-az-isolated"),
        ("4.4.0", "controller-az-isolated bridge"),
    ],
)
def test_scenarios_on_a_cluster_of_others(tmp_path: Path, kafka: str, names: str) -> None:
    """As declared; what is lost is what the brokers' files lack, and hosts and cluster are as before."""
    outcomes = list(carried_out("attached_runs", tmp_path, kafka, *names.split()))
    assert [one["name"] for one in outcomes] == names.split()
    for one in outcomes:
        ends = "s at most: kill -CONT" if one["name"] == "leader-paused" else "s later, UTC> -j RETURN"
        assert one["plan"]["status"] == 0 and ends in one["plan"]["commands"], one
        assert one["status"] == 0 and one["verdict"] == "as declared", one
        assert one["different"] == 0 and one["lost"] == one["lost_on_disk"], one
        assert set(one["lost_by_writer"]) <= {2}, "only acks=1 may lose messages"
        assert one["rules_as_before"] and one["inventory_as_before"], one

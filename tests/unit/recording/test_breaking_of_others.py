"""What may be broken on a cluster of others, and when a fault is ended at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from harness.cluster.attached import AttachedCluster, topology_of
from harness.cluster.hosts_file import HostsFile, in_azs_of, read_hosts_file
from harness.errors import InvalidRunError, UnfitError, UsageError
from harness.history.journal import Journal
from harness.kafka.model import Endpoint, PartitionState, TopicPartition
from harness.kafka.wire.dialect import MODERN
from harness.kafka.wire.metadata import AdvertisedBroker, AdvertisedCluster, BrokerMetadata
from harness.kafka.wire.quorum import QuorumInfo
from harness.lab.model import Control, Topology
from nemesis.network.links import isolate
from nemesis.network.rules import cut_rules
from run.attached import asking, breaking, cases, guard
from run.attached.breaking import Breaking
from run.attached.cases import Act, Aim, acts_of
from run.attached.guard import Guard

_HOST = """
[[host]]
ssh = "k{id}"
address = "10.0.0.{id}"
az = "{az}"
id = {id}
ports = {{ {ports} }}
"""
_BOTH = "kafka = [9092], controller = [9093]"


def hosts_file(folder: Path, *hosts: tuple[int, str, str], limits: str = "") -> HostsFile:
    """A hosts file of hosts, each with its id, its AZ and its ports."""
    file = folder / "hosts.toml"
    blocks = "".join(_HOST.format(id=number, az=az, ports=ports) for number, az, ports in hosts)
    file.write_text(f'[kafka]\nbootstrap = "k1:9092"\n[limits]\n{limits}\n{blocks}')
    return read_hosts_file(file)


def three(folder: Path, limits: str = "") -> HostsFile:
    """Three combined nodes in three AZs."""
    return hosts_file(folder, (1, "a", _BOTH), (2, "b", _BOTH), (3, "c", _BOTH), limits=limits)


def cluster_of(file: HostsFile, mode: str = "kraft") -> AttachedCluster:
    """The brokers of a hosts file as a cluster."""
    brokers = tuple(
        AdvertisedBroker(node_id=host.node_id, host=host.address, port=9092)
        for host in file.topology.role("broker")
    )
    described = AdvertisedCluster(cluster_id="c", controller=1, brokers=brokers)
    topology = in_azs_of(file, topology_of(described, Endpoint("10.0.0.1", 9092)))
    cluster = AttachedCluster(topology=topology, dialect=MODERN, mode=mode, cluster_id="c")
    cluster.any_endpoint = lambda: Endpoint("10.0.0.1", 9092)  # type: ignore[method-assign]
    return cluster


def aim_of(name: str, file: HostsFile, cluster: AttachedCluster) -> Aim:
    """The first fault of a case."""
    return acts_of(name, file, cluster, 15.0)[0].aim()


@pytest.fixture(autouse=True)
def quorum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Node 1 is the active controller."""
    monkeypatch.setattr(cases, "describe_quorum", lambda _endpoint: QuorumInfo(leader=1))


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("leader-az-isolated", "isolate b"),
        ("kraft-leader-az-isolated", "isolate b"),
        ("follower-az-isolated", "isolate b"),
        ("controller-az-isolated", "isolate a"),
        ("leader-paused", "pause broker2"),
        ("bridge", "cut a from c"),
        ("one-way-leader-to-follower", "cut b -> c"),
    ],
)
def test_each_case_is_aimed_by_the_roles_that_are_found(tmp_path: Path, name: str, title: str) -> None:
    """The controller is on node 1, and stays there."""
    file = three(tmp_path)
    assert aim_of(name, file, cluster_of(file)).title == title


def test_a_case_that_does_not_fit_is_refused_with_its_reason(tmp_path: Path) -> None:
    """The mode, the allow-list, the number of hosts, and the majority of the quorum."""
    file = three(tmp_path, 'allow = ["pause"]')
    with pytest.raises(UnfitError, match="needs 'cut', which limits.allow"):
        aim_of("leader-az-isolated", file, cluster_of(file))
    with pytest.raises(UsageError, match="with --hosts, use leader-az-isolated"):
        aim_of("power-cut", file, cluster_of(file))
    file = three(tmp_path)
    cluster = cluster_of(file, "zookeeper")
    with pytest.raises(UnfitError, match="needs a cluster in mode kraft"):
        aim_of("kraft-leader-az-isolated", file, cluster)
    brokers = [(1, "a", _BOTH), (2, "b", "kafka = [9092]"), (3, "b", "kafka = [9092]")]
    file = hosts_file(tmp_path, *brokers)
    with pytest.raises(UnfitError, match=r"takes 2 hosts at once \(broker2, broker3\)"):
        aim_of("leader-az-isolated", file, cluster_of(file))
    file = hosts_file(tmp_path, (1, "a", _BOTH), (2, "b", _BOTH))
    with pytest.raises(UnfitError, match="needs 'kill', which limits.allow"):
        aim_of("leader-killed", file, cluster_of(file))
    with pytest.raises(UnfitError, match="1 of 2 nodes with the service controller"):
        aim_of("leader-az-isolated", file, cluster_of(file))


def test_brokers_are_restarted_during_a_cut_where_controllers_are_elsewhere(tmp_path: Path) -> None:
    """With combined nodes, the one that is cut off and the one that is restarted are a majority."""
    name = "rolling-restart-during-cut"
    limits = 'allow = ["cut", "restart"]\nhosts-at-once = 2\nmax-seconds = 40'
    combined = three(tmp_path, limits)
    with pytest.raises(UnfitError, match="2 of 3 nodes with the service controller"):
        acts_of(name, combined, cluster_of(combined), 15.0)
    brokers = [(one, az, "kafka = [9092]") for one, az in ((2, "a"), (3, "b"), (4, "c"))]
    file = hosts_file(tmp_path, (1, "q", "controller = [9093]"), *brokers, limits=limits)
    with pytest.raises(UnfitError, match="needs a start command of broker4"):
        acts_of(name, file, cluster_of(file), 15.0)
    file = replace(file, starts=dict.fromkeys(("broker2", "broker3", "broker4"), "start"))
    cut, *restarts = acts_of(name, file, cluster_of(file), 15.0)
    assert (cut.says, cut.lasts_s, cut.spans) == ("cut broker2 from broker3", 40.0, True)
    assert [act.says for act in restarts] == ["restart broker4", "restart broker3", "restart broker2"]
    assert [act.waits for act in restarts] == ["room"] * 3 and restarts[0].after_s == 10.0
    with pytest.raises(UnfitError, match="takes 2 hosts at once"):
        acts_of(name, replace(file, hosts_at_once=1), cluster_of(file), 15.0)


class _Watched:
    """In the place of a lab in which watchdogs wait."""

    def lost(self) -> str:
        return ""


_WATCHED: Any = _Watched()
Stated = Callable[[int], dict[TopicPartition, PartitionState]]
KEY, OWN = TopicPartition("orders", 0), TopicPartition("acked-1", 0)
WHOLE = PartitionState(leader=1, leader_epoch=4, isr=(1, 2, 3), replicas=(1, 2, 3))


@pytest.fixture
def stating(monkeypatch: pytest.MonkeyPatch) -> dict[int, dict[TopicPartition, PartitionState]]:
    """What each broker states; min.insync.replicas is 2. Tests change it."""
    stated = {broker: {KEY: WHOLE, OWN: replace(WHOLE, leader=-1, isr=())} for broker in (1, 2, 3)}

    def metadata(endpoint: Endpoint, *_: Any, **__: Any) -> BrokerMetadata:
        if endpoint.node_id not in stated:
            raise ConnectionError("silent")
        return BrokerMetadata(1, (1, 2, 3), stated[endpoint.node_id])

    monkeypatch.setattr(guard, "metadata", metadata)
    monkeypatch.setattr(guard, "describe_configs", lambda *_, **__: {"min.insync.replicas": "2"})
    monkeypatch.setattr(guard, "LOOK_S", 0.02)
    return stated


@contextmanager
def watching(cluster: AttachedCluster) -> Iterator[Guard]:
    """A guard that looks."""
    one = Guard(cluster)
    one.start()
    try:
        yield one
    finally:
        one.stop()


def _within(limit_s: float, holds: Callable[[], object]) -> bool:
    from harness.errors import WaitTimeoutError
    from harness.waiting import wait_until

    try:
        wait_until(holds, within_s=limit_s, awaiting="the guard", poll_s=0.01)
    except WaitTimeoutError:
        return False
    return True


def test_nothing_begins_on_a_cluster_that_is_not_whole(tmp_path: Path, stating: Any) -> None:
    """acked's own topics do not count."""
    cluster = cluster_of(three(tmp_path))
    Guard(cluster).require_whole()
    Guard(cluster).require_room({1})
    with pytest.raises(UnfitError, match=r"orders/0 of others would have 1 in-sync replicas"):
        Guard(cluster).require_room({1, 2})
    for broker in stating:
        stating[broker][KEY] = replace(WHOLE, isr=(1, 3))
    with pytest.raises(UnfitError, match=r"orders/0 has the ISR \[1, 3\] of \[1, 2, 3\]"):
        Guard(cluster).require_whole()


def test_nothing_is_broken_if_a_replica_has_gone_since_the_plan_was_made(
    tmp_path: Path, stating: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Confirming, locking and warming up take minutes."""
    _without_own(stating)
    fault = Fault()
    with broken(tmp_path, [act_of(three(tmp_path), fault)], monkeypatch) as (work, _):
        for broker in stating:
            stating[broker][KEY] = replace(WHOLE, isr=(1, 3))
        assert _within(5, lambda: getattr(work.guard._seen[1].get(KEY), "isr", ()) == (1, 3))
        with pytest.raises(UnfitError, match=r"orders/0 has the ISR \[1, 3\] of \[1, 2, 3\]"):
            _until(work, lambda: fault.did)
    assert fault.did == []


def test_controllers_that_the_file_lacks_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A majority of three that are listed may be none of the five that there are."""
    file = three(tmp_path)
    cluster = cluster_of(file)
    voters = [(1, 0), (2, 0), (3, 0)]
    monkeypatch.setattr(
        asking, "describe_quorum", lambda _endpoint: QuorumInfo(leader=1, voters=tuple(voters))
    )
    asking.require_voters(file, cluster)
    voters += [(4, 0), (5, 0)]
    with pytest.raises(UnfitError, match="The controllers 4, 5 are in no `ports` of .*hosts.toml"):
        asking.require_voters(file, cluster)
    asking.require_voters(file, cluster_of(file, "zookeeper"))


def test_a_paused_leader_is_the_broker_that_leads_whatever_the_order_of_the_file(tmp_path: Path) -> None:
    """Of an AZ, the broker with the lowest id leads acked's topic."""
    kafka = "kafka = [9092]"
    hosts = [(1, "a", _BOTH), (5, "b", kafka), (4, "b", kafka), (3, "c", _BOTH), (9, "d", _BOTH)]
    file = hosts_file(tmp_path, *hosts)
    assert aim_of("leader-paused", file, cluster_of(file)).title == "pause broker4"


def test_one_more_fault_needs_room_as_it_is_now(tmp_path: Path, stating: Any) -> None:
    """A replica that an earlier fault took may still be out of the ISR when the next one is due."""
    file = three(tmp_path)
    first, second, _ = file.topology.role("broker")
    aims = [
        Aim(title="pause", ability="pause", make=lambda *_: None, hosts=hosts)
        for hosts in ((first,), (second,))
    ]
    with watching(cluster_of(file)) as one:
        one.require_room_now(aims[0])
        for broker in stating:
            stating[broker][KEY] = replace(WHOLE, isr=(1, 3))
        seen = "orders/0 of others would have 1 in-sync replicas without broker1"
        assert _within(5, lambda: seen in _refused(one, aims[0]))
        assert not _refused(one, aims[1])
        one.require_room_for([aims[0]])


def _refused(one: Guard, aim: Aim) -> str:
    """Why one more fault may not begin now; empty if it may."""
    try:
        one.require_room_now(aim)
    except UnfitError as error:
        return error.message
    return ""


def test_the_guard_believes_the_newest_epoch(tmp_path: Path, stating: Any) -> None:
    """A broker that is cut off states what was before it; one that is silent states nothing."""
    cluster = cluster_of(three(tmp_path))
    with watching(cluster) as one:
        del stating[3]
        stating[1][KEY] = replace(WHOLE, leader=-1)
        stating[2][KEY] = replace(WHOLE, leader=2, leader_epoch=5, isr=(2, 3))
        assert not _within(0.3, one.harm)
        stating[2][KEY] = replace(WHOLE, leader=2, leader_epoch=5, isr=(2,))
        assert _within(5, one.harm)
        assert one.harm() == "orders/0 has fewer in-sync replicas than min.insync.replicas=2"
    stating[2][KEY] = replace(WHOLE, leader=2, leader_epoch=5)
    with watching(cluster) as one:
        stating[2][KEY] = replace(WHOLE, leader=-1, leader_epoch=6)
        assert _within(5, one.harm) and one.harm() == "orders/0 has no leader"


def test_harm_that_changes_between_two_looks_is_harm(tmp_path: Path, stating: Any) -> None:
    """Each partition counts by itself, and so does a look that shows nothing."""
    harms: list[dict[TopicPartition | None, str]] = [{}, {KEY: "one"}, {}, {OWN: "other"}, {KEY: "one"}, {}]
    with watching(cluster_of(three(tmp_path))) as one:
        one._look = lambda: harms.pop(0) if harms else {}  # type: ignore[method-assign]
        assert _within(5, lambda: not harms) and not one.harm()
    for then in ({KEY: "no leader"}, {None: "unseen"}):
        with watching(cluster_of(three(tmp_path))) as one:
            several = iter([{KEY: "few replicas"}, then])
            one._look = lambda several=several: next(several, {})  # type: ignore[misc,method-assign]
            assert _within(5, one.harm) and one.harm() in ("no leader", "unseen")


class Fault:
    """An injection that notes what is asked of it."""

    def __init__(self) -> None:
        self.did: list[str] = []

    def inject(self) -> None:
        """Note it."""
        self.did.append("inject")

    def heal(self) -> None:
        """Note it."""
        self.did.append("heal")


def test_a_fault_that_harms_others_is_ended_at_once(
    tmp_path: Path, stating: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long before its time; the run proves nothing."""
    monkeypatch.setattr(breaking, "CALM_S", 0.0)
    file = three(tmp_path)
    cluster, fault, said = cluster_of(file), Fault(), list[str]()
    aim = replace(aim_of("leader-az-isolated", file, cluster), make=lambda _nemesis, _start: fault)  # type: ignore[arg-type,return-value]
    with watching(cluster) as one, Journal(tmp_path / "journal.jsonl") as journal:
        act = Act(aim=lambda: aim, says=aim.title, lasts_s=600)
        broken = Breaking(lab=_WATCHED, guard=one, acts=[act], start=str, say=said.append)
        broken._journal, broken._pool = journal, ThreadPoolExecutor(1)
        broken._nemesis = SimpleNamespace(vanished=list)  # type: ignore[assignment]
        assert _within(5, lambda: broken.look() or fault.did)  # type: ignore[func-returns-value]
        assert fault.did == ["inject"]
        for broker in stating:
            stating[broker][KEY] = replace(WHOLE, isr=(1,))
        assert _within(5, one.harm)
        with pytest.raises(InvalidRunError, match="spare others: orders/0 has fewer"):
            broken.look()
        broken._pool.shutdown()
    assert fault.did == ["inject", "heal"] and said[-1].endswith("healed, and proven")


@contextmanager
def broken(
    tmp_path: Path, acts: list[Act], monkeypatch: pytest.MonkeyPatch, **given: Any
) -> Iterator[tuple[Breaking, list[str]]]:
    """What breaks a cluster that is whole, without calm before it; and what it says."""
    monkeypatch.setattr(breaking, "CALM_S", 0.0)
    said: list[str] = []
    with watching(cluster_of(three(tmp_path))) as one, Journal(tmp_path / "journal.jsonl") as journal:
        gone = given.pop("vanished", list)
        work = Breaking(lab=_WATCHED, guard=one, acts=acts, start=str, say=said.append, **given)
        work._journal, work._pool = journal, ThreadPoolExecutor(1)
        work._nemesis = SimpleNamespace(vanished=gone)  # type: ignore[assignment]
        try:
            yield work, said
        finally:
            work._pool.shutdown()


def act_of(file: HostsFile, fault: Fault, **times: Any) -> Act:
    """An act whose fault only notes what is asked of it."""
    aim = aim_of("leader-az-isolated", file, cluster_of(file))
    aim = replace(aim, make=lambda _nemesis, _start: fault)  # type: ignore[arg-type,return-value]
    return Act(aim=lambda: aim, says=aim.title, **{"lasts_s": 600.0, **times})


def _without_own(stating: Any) -> None:
    """So that every partition is whole."""
    for broker in stating:
        del stating[broker][OWN]


def _until(work: Breaking, holds: Callable[[], object], within_s: float = 5.0) -> None:
    def looked() -> object:
        work.look()
        return holds()

    assert _within(within_s, looked)


def test_a_fault_that_somebody_has_ended_ends_the_run(
    tmp_path: Path, stating: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`acked heal` from elsewhere: the run does not wait for the planned end."""
    fault, gone = Fault(), list[str]()
    monkeypatch.setattr(breaking, "LOOK_S", 0.0)
    with broken(tmp_path, [act_of(three(tmp_path), fault)], monkeypatch, vanished=lambda: gone) as (work, _):
        _until(work, lambda: fault.did)
        gone.append("broker2 has no rule of it")
        with pytest.raises(InvalidRunError, match="Somebody has ended the fault before its time"):
            _until(work, lambda: False)
    assert fault.did == ["inject", "heal"]


def test_a_cut_ends_by_itself_as_early_beside_restarts(
    tmp_path: Path, stating: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a node that is ended and started again may take longer than what its owner allows faults."""
    cut, restart = (
        act_of(three(tmp_path), Fault(), lasts_s=30.0),
        act_of(three(tmp_path), Fault(), lasts_s=0.0),
    )
    for acts, times in (([cut], (50.0, 50.0)), ([cut, restart], (50.0, 200.0))):
        with broken(tmp_path, acts, monkeypatch) as (work, _):
            assert work.times_to_live_s == times


def test_a_process_has_one_fault_at_a_time(
    tmp_path: Path, stating: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two that pause or end it, the second is left out; a cut or a limit of links is another matter."""
    _without_own(stating)
    file = three(tmp_path)
    cluster, faults = cluster_of(file), [Fault(), Fault(), Fault(), Fault(), Fault()]
    paused, cut = (aim_of(name, file, cluster) for name in ("leader-paused", "leader-az-isolated"))
    slow = replace(paused, title="throttle it", ability="throttle")
    aims = [
        replace(aim, make=lambda _nemesis, _start, fault=fault: fault)  # type: ignore[misc,arg-type]
        for aim, fault in zip((paused, paused, slow, slow, cut), faults, strict=True)
    ]
    acts = [Act(aim=lambda aim=aim: aim, says=aim.title, lasts_s=600.0) for aim in aims]  # type: ignore[misc]
    with broken(tmp_path, acts, monkeypatch, skips=True) as (work, said):
        _until(work, lambda: faults[4].did)
        first, second = [text for text in said if "left out" in text]
    assert [one.did for one in faults] == [["inject"], [], ["inject"], [], ["inject"]]
    assert "left out: pause broker" in first and "has one process" in first
    assert "left out: throttle it is in force" in second and "has one interface" in second


def test_a_cut_ends_while_a_node_starts(
    tmp_path: Path, stating: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node may wait for it, because it reaches no controller before."""
    _without_own(stating)
    over = threading.Event()

    class Starting(Fault):
        def heal(self) -> None:
            """The node starts when the cut is over."""
            assert over.wait(5), "the cut is still in force"
            super().heal()

    class Cutting(Fault):
        def heal(self) -> None:
            """The cut is over."""
            super().heal()
            over.set()

    killed, cut = Starting(), Cutting()
    file = three(tmp_path)
    first, second = act_of(file, killed, lasts_s=0.1), act_of(file, cut, lasts_s=0.5)
    aim = replace(first.aim(), ability="kill")
    first = replace(first, aim=lambda: aim)
    with broken(tmp_path, [first, second], monkeypatch) as (work, _):
        work.lab = SimpleNamespace(alive=lambda _host: False, disarm=lambda _host: None, lost=str)  # type: ignore[assignment]
        _until(work, lambda: work.over, within_s=20.0)
    assert killed.did == cut.did == ["inject", "heal"]


def test_faults_end_with_the_window_of_the_day(
    tmp_path: Path, stating: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in force is healed, what has not begun never does, and the run goes on to its end."""
    _without_own(stating)
    first, second, left = Fault(), Fault(), [60.0]
    file = three(tmp_path)
    acts = [act_of(file, first), act_of(file, second, after_s=600.0)]
    with broken(tmp_path, acts, monkeypatch, window_left_s=lambda: left[0]) as (work, said):
        _until(work, lambda: first.did)
        left[0] = 0.0
        _until(work, lambda: work.over)
    assert first.did == ["inject", "heal"] and second.did == []
    assert (
        said[-1].endswith("healed, and proven") and "the window of the day is over: no further fault" in said
    )


def test_a_fault_ends_in_time_while_a_node_takes_long_to_end(
    tmp_path: Path, stating: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is being made meanwhile holds up no heal."""
    _without_own(stating)
    ended = Event()

    class Slow(Fault):
        def inject(self) -> None:
            ended.wait(10)
            super().inject()

    first, slow, file = Fault(), Slow(), three(tmp_path)
    acts = [act_of(file, first, lasts_s=0.3), act_of(file, slow, lasts_s=0.0)]
    with broken(tmp_path, acts, monkeypatch) as (work, _):
        _until(work, lambda: first.did == ["inject", "heal"])
        assert slow.did == []
        ended.set()
        _until(work, lambda: work.over)
    assert slow.did == ["inject", "heal"]


def test_what_is_not_possible_when_it_is_due_is_left_out_of_a_schedule(
    tmp_path: Path, stating: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two faults that take two hosts, of which one at a time is allowed; of a scenario that is an error."""
    _without_own(stating)

    def at_once(aims: Any) -> None:
        if len(aims) > 1:
            raise UnfitError("two at once")

    first, second, third = Fault(), Fault(), Fault()
    file = three(tmp_path)
    acts = [
        act_of(file, first, lasts_s=0.3),
        act_of(file, second, lasts_s=0.0),
        act_of(file, third, lasts_s=0.0, waits="whole"),
    ]
    with broken(tmp_path, acts, monkeypatch, skips=True, fits=at_once) as (work, said):
        _until(work, lambda: work.over)
        assert (first.did, second.did, third.did) == (["inject", "heal"], [], ["inject", "heal"])
        assert "isolate b: left out: two at once" in said
    with broken(tmp_path, acts[:2], monkeypatch, fits=at_once) as (work, said):
        with pytest.raises(UnfitError, match="two at once"):
            _until(work, lambda: False)
        work._heal_all()


def test_a_restart_waits_for_room_and_a_cut_ends_with_the_last_one(
    tmp_path: Path, stating: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broker 2 is not restarted while no replica besides its own and that of broker 1 is in sync."""
    _without_own(stating)
    cut, restart, file = Fault(), Fault(), three(tmp_path)
    acts = [act_of(file, cut, spans=True), act_of(file, restart, lasts_s=0.0, waits="room")]
    with broken(tmp_path, acts, monkeypatch) as (work, _):
        for broker in stating:
            stating[broker][KEY] = replace(WHOLE, isr=(1, 2))
        assert acts[1].aim().hosts[0].node_id == 2
        with pytest.raises(AssertionError):
            _until(work, lambda: restart.did, 0.5)
        assert cut.did == ["inject"]
        for broker in stating:
            stating[broker][KEY] = WHOLE
        _until(work, lambda: work.over)
    assert (cut.did, restart.did) == (["inject", "heal"], ["inject", "heal"])


def test_the_connection_that_commands_a_host_is_spared(tmp_path: Path) -> None:
    """At the host itself, and at the host that it comes from: acked or a jump host may be one of them."""
    topology = three(tmp_path).topology
    control = {
        "broker1": Control("192.0.2.1", "10.0.0.1", 22),
        "broker2": Control("10.0.0.1", "10.0.0.2", 2222),
    }
    hosts = tuple(replace(host, control=control.get(host.name)) for host in topology.hosts)
    topology = Topology(hosts, "", topology.az_names)
    rules = cut_rules(topology, "ACKED-1-1", isolate(topology, "a"))
    first = {
        name: [rule.text for rule in lines if "RETURN" in rule.text] for name, lines in rules.rules.items()
    }
    assert first == {
        "broker1": [
            "-s 192.0.2.1/32 -d 10.0.0.1/32 -p tcp -m tcp --dport 22 -j RETURN",
            "-s 10.0.0.2/32 -d 10.0.0.1/32 -p tcp -m tcp --sport 2222 -j RETURN",
        ],
        "broker2": ["-s 10.0.0.1/32 -d 10.0.0.2/32 -p tcp -m tcp --dport 2222 -j RETURN"],
        "broker3": [],
    }
    for lines in rules.rules.values():
        texts = [rule.text for rule in lines]
        assert texts == sorted(texts, key=lambda text: "DROP" in text), "what is spared comes first"

"""Every fault that a scenario can make writes its mechanism and its exact targets into the history."""

from __future__ import annotations

import inspect
import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from aiokafka.record.util import calc_crc32c
from nemesis_fakes import RecordingFault, Rows

from harness.errors import UsageError
from harness.history.mechanisms import MECHANISMS
from harness.host_files import Folder
from harness.kafka.model import PartitionState, Topic
from harness.kafka.wire.dialect import dialect
from harness.kafka.wire.produce import one_record_batch
from harness.kafka.wire.quorum import QuorumInfo
from harness.lab import host_names
from harness.lab.host_clock import write_shift
from harness.lab.layout import three_azs
from harness.lab.model import Result
from nemesis import operator as nemesis_operator
from nemesis.fault import Injection
from nemesis.nemesis import Nemesis
from nemesis.network.degrade import Degrade
from nemesis.operator import Operator
from nemesis.storage.faults import Storage
from nemesis.storage.fuse import FuseDisk

TOPOLOGY = three_azs("migration")
"""It has hosts of every role."""
HOSTS = {host.name for host in TOPOLOGY.hosts}
LINK = re.compile(r"(\S+) -> ([^\s:]+)(:\d+)?")
PARTITION = re.compile(r"\S+/\d+")


class StubLab:
    """All processes run, every command succeeds silently, and hosts can be disconnected."""

    kind = "stub"
    of_others = False
    topology = TOPOLOGY

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir

    def alive(self, host: str) -> bool:
        return host != "broker3"

    def data_dir(self, host: str) -> Path:
        return self.run_dir / "nodes" / host

    def files(self, host: str) -> Folder:
        return Folder(self.data_dir(host))

    def inside(self, host: str, path: str) -> str:
        return str(self.data_dir(host) / path)

    def execute_all(self, commands: Mapping[str, Any], **_options: object) -> dict[str, Result]:
        return {host: Result(0, "", "") for host in commands}

    def on_new_network(self, _callback: Callable[[str], None]) -> None:
        pass

    def on_start(self, _callback: Callable[[str], None]) -> None:
        pass

    def disconnect(self, host: str) -> None:
        pass

    def reconnect(self, host: str) -> None:
        pass


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    return Rows(tmp_path)


@pytest.fixture
def nemesis(tmp_path: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nemesis]:
    """A nemesis whose faults are recorded, but do not act."""

    def record(injection: Injection) -> Injection:
        injection._moment("injecting")
        return injection

    quorum = QuorumInfo(leader=12, voter_directories={11: uuid4(), 12: uuid4()})
    monkeypatch.setattr(nemesis_operator, "describe_voters", lambda *_, **__: quorum)
    monkeypatch.setattr(Injection, "inject", record)
    lab = StubLab(tmp_path)
    for host in ("broker1", "broker3"):
        (lab.data_dir(host) / "data" / "t-0").mkdir(parents=True)
        write_shift(lab.files(host), 0)
    disks = SimpleNamespace(get=lambda host, folder="data": FuseDisk(tmp_path))
    yield Nemesis(lab, rows.journal, disks=disks)  # type: ignore[arg-type]


CLUSTER: Any = SimpleNamespace(
    mode="zookeeper",
    partition=lambda *_: PartitionState(leader=1, leader_epoch=0, isr=(1, 2)),
    controller=lambda: 1,
)
ON_KRAFT: Any = SimpleNamespace(mode="kraft", operator_host=lambda: "broker1")
SESSION: Any = SimpleNamespace(controller_epoch=lambda: 1)


def _create_again(operator: Operator) -> Injection:
    operator._requests.registry.deleted_topics.add("t")
    return operator.create_topic(Topic("t", (1, 2)))


def on_operator(
    act: Callable[[Operator], Injection], cluster: Any = CLUSTER
) -> Callable[[Nemesis], Injection]:
    return lambda nemesis: act(nemesis.operator(cluster, dialect("4.4.0")))


FAULTS: dict[str, tuple[Callable[[Nemesis], Injection], str, dict[str, object]]] = {
    "cut_links": (lambda n: n.cut_links("none", ()), "cut", {"links": []}),
    "cut": (lambda n: n.cut("broker1 -> broker2:kafka"), "cut", {"links": ["broker1 -> broker2:9092"]}),
    "isolate": (lambda n: n.isolate("broker1", action="reject"), "cut", {"action": "reject"}),
    "halves": (lambda n: n.halves("az1", "az2, az3"), "cut", {}),
    "bridge": (lambda n: n.bridge("az2", "az1", "az3"), "cut", {}),
    "ring": (lambda n: n.ring("az1", "az2", "az3"), "cut", {}),
    "without_zookeeper": (lambda n: n.without_zookeeper("broker1"), "cut", {}),
    "flapping": (
        lambda n: n.flapping("broker1 -> broker2", period_s=2),
        "flap",
        {"links": ["broker1 -> broker2"], "period_s": 2.0},
    ),
    "hold_connections": (
        lambda n: n.hold_connections("client1", "broker2:kafka"),
        "hold",
        {"links": ["client1 -> broker2:9092"]},
    ),
    "disconnect": (lambda n: n.disconnect("broker1"), "disconnect", {"hosts": ["broker1"]}),
    "kill": (lambda n: n.kill("broker1", "broker2"), "kill", {"hosts": ["broker1", "broker2"]}),
    "stop": (lambda n: n.stop("broker1"), "stop", {"hosts": ["broker1"], "signal": "SIGTERM"}),
    "pause": (lambda n: n.pause("broker1"), "pause", {"hosts": ["broker1"]}),
    "change_address": (lambda n: n.change_address("broker3"), "address_change", {"hosts": ["broker3"]}),
    "shift_clock": (
        lambda n: n.shift_clock("broker1", -3600),
        "clock_shift",
        {"hosts": ["broker1"], "by_s": -3600},
    ),
    "rolling_restart": (
        lambda n: n.rolling_restart("broker1", "broker2", restart=lambda host: None),
        "restart",
        {"hosts": ["broker1", "broker2"]},
    ),
    "kill_client": (
        lambda n: n.kill_client("client1", lambda: None, lambda: False),
        "kill",
        {"hosts": ["client1"]},
    ),
    "lose": (
        lambda n: n.degrade.lose("broker1 -> broker2", percent=20),
        "loss",
        {"links": ["broker1 -> broker2"], "percent": 20.0},
    ),
    "throttle": (lambda n: n.degrade.throttle("broker1", rate_kbit=400), "throttle", {"hosts": ["broker1"]}),
    "delay": (lambda n: n.degrade.delay("broker1", delay_ms=50), "delay", {"hosts": ["broker1"]}),
    "power_cut": (
        lambda n: n.storage.power_cut("broker1"),
        "power_cut",
        {"hosts": ["broker1"], "disks": {"broker1": "fuse"}},
    ),
    "wipe": (lambda n: n.storage.wipe("broker3", "t"), "wipe", {"hosts": ["broker3"], "partitions": ["t/0"]}),
    "corrupt": (
        lambda n: n.storage.corrupt("broker1", "t", 1),
        "damage",
        {"hosts": ["broker1"], "partitions": ["t/0"], "offset": 1},
    ),
    "stall_disk": (
        lambda n: n.storage.stall_disk("broker1", ["fsyncs"]),
        "disk_stalled",
        {"hosts": ["broker1"], "disks": {"broker1": "fuse"}, "operations": ["fsyncs"]},
    ),
    "slow_disk": (
        lambda n: n.storage.slow_disk("broker1", 20),
        "disk_slow",
        {"hosts": ["broker1"], "delay_ms": 20},
    ),
    "fill_disk data2": (
        lambda n: n.storage.fill_disk("broker1", folder="data2"),
        "disk_full",
        {"hosts": ["broker1"], "folder": "data2"},
    ),
    "fill_disk": (lambda n: n.storage.fill_disk("broker1"), "disk_full", {"hosts": ["broker1"]}),
    "elect": (on_operator(lambda o: o.elect("t")), "elect_preferred", {"partitions": ["t/0"]}),
    "elect unclean": (
        on_operator(lambda o: o.elect("t", 2, kind="unclean")),
        "elect_unclean",
        {"partitions": ["t/2"]},
    ),
    "reassign": (on_operator(lambda o: o.reassign("t", [2, 1])), "reassign", {"partitions": ["t/0"]}),
    "cancel_reassignment": (
        on_operator(lambda o: o.cancel_reassignment("t")),
        "reassign",
        {"partitions": ["t/0"]},
    ),
    "configure": (
        on_operator(lambda o: o.configure("t", "min.insync.replicas", "3", partitions=2)),
        "configure",
        {"partitions": ["t/0", "t/1"], "properties": {"min.insync.replicas": "3"}},
    ),
    "set_feature": (
        on_operator(lambda o: o.set_feature("metadata.version", 21)),
        "set_feature",
        {"hosts": ["broker1", "broker2", "broker3"], "features": {"metadata.version": 21}},
    ),
    "delete_records": (
        on_operator(lambda o: o.delete_records("t", 20, 1)),
        "delete_records",
        {"partitions": ["t/1"], "before_offset": 20},
    ),
    "delete_topic": (
        on_operator(lambda o: o.delete_topic("t", partitions=2)),
        "delete_topic",
        {"partitions": ["t/0", "t/1"]},
    ),
    "create_topic": (on_operator(_create_again), "create_topic", {"partitions": ["t/0"]}),
    "add_partitions": (
        on_operator(lambda o: o.add_partitions(Topic("t", (1, 2), partitions=3, later=2))),
        "add_partitions",
        {"partitions": ["t/1", "t/2"]},
    ),
    "move_replica": (
        on_operator(lambda o: o.move_replica("t", "broker1", "data2", 1)),
        "move_replica",
        {"hosts": ["broker1"], "partitions": ["t/1"], "folder": "data2"},
    ),
    "add_voter": (
        on_operator(lambda o: o.add_voter("controller3"), ON_KRAFT),
        "add_voter",
        {"hosts": ["controller3"]},
    ),
    "remove_voter": (
        on_operator(lambda o: o.remove_voter("controller1"), ON_KRAFT),
        "remove_voter",
        {"hosts": ["controller1"]},
    ),
    "delete_controller": (
        on_operator(lambda o: o.delete_controller(SESSION, becomes="broker2")),
        "move_controller",
        {"hosts": ["broker2"]},
    ),
    "act": (
        on_operator(
            lambda o: o.act(
                "anything",
                targets={"hosts": ["broker1"]},
                action=lambda: None,
                observe=lambda: True,
                accept=bool,
            )
        ),
        "other",
        {"hosts": ["broker1"]},
    ),
}


def test_every_method_that_makes_a_fault_is_tried() -> None:
    made = {
        name
        for group in (Nemesis, Degrade, Storage, Operator)
        for name, method in inspect.getmembers(group, inspect.isfunction)
        if not name.startswith("_") and inspect.signature(method).return_annotation == "Injection"
    }
    assert made - {"add", "make"} == {name.split()[0] for name in FAULTS}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_writes_its_mechanism_and_its_exact_targets(name: str, nemesis: Nemesis, rows: Rows) -> None:
    make, mechanism, expected = FAULTS[name]
    if name == "change_address":
        (nemesis._registry.lab.run_dir / host_names.HOSTS_FILE).write_text("198.18.0.253 broker3\n")
    make(nemesis).inject()
    row = rows.all()[-1]
    assert row["mechanism"] == mechanism
    assert mechanism in MECHANISMS
    targets = json.loads(row["targets"])
    assert targets == targets | expected
    assert {"hosts", "links", "partitions"} & targets.keys()
    assert set(targets.get("hosts", ())) <= HOSTS
    for link in targets.get("links", ()):
        match = LINK.fullmatch(link)
        assert match is not None
        assert {match[1], match[2]} <= HOSTS
    assert all(PARTITION.fullmatch(text) for text in targets.get("partitions", ()))


def test_links_of_hosts_with_names_are_not_cut(nemesis: Nemesis) -> None:
    (nemesis._registry.lab.run_dir / host_names.HOSTS_FILE).write_text("198.18.0.253 broker3\n")
    with pytest.raises(
        UsageError, match="'isolate az1' acts on the addresses .* others reach broker3 by name"
    ):
        nemesis.isolate("az1")


def test_the_links_of_an_isolated_host_are_all_named(nemesis: Nemesis, rows: Rows) -> None:
    nemesis.isolate("broker1").inject()
    links = set(json.loads(rows.all()[-1]["targets"])["links"])
    others = HOSTS - {"broker1"}
    assert links == {f"broker1 -> {o}" for o in others} | {f"{o} -> broker1" for o in others}


def test_an_unknown_mechanism_is_refused(rows: Rows) -> None:
    fault = RecordingFault()
    fault.mechanism = "magic"
    with pytest.raises(UsageError, match="'magic'; use one of cut, "):
        Injection(1, fault, rows.journal)


def test_damage_records_the_first_offset_of_the_batch(tmp_path: Path, rows: Rows) -> None:
    lab = StubLab(tmp_path)
    folder = lab.data_dir("broker1") / "data" / "t-0"
    folder.mkdir(parents=True)
    batch = bytearray(one_record_batch(b"value"))
    struct.pack_into(">q", batch, 0, 3)
    struct.pack_into(">i", batch, 23, 2)  # it ends at offset 5
    struct.pack_into(">I", batch, 17, calc_crc32c(bytes(batch[21:])))
    (folder / "00000000000000000003.log").write_bytes(batch)
    Nemesis(lab, rows.journal).storage.corrupt("broker1", "t", 5)  # type: ignore[arg-type]
    row = rows.all()[-1]
    assert (row["moment"], json.loads(row["targets"])["offset"]) == ("injected", 5)
    assert json.loads(row["evidence"])["first_offset"] == 3

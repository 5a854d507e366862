"""Runs the fault conformance cases in one lab, with trivial TCP listeners instead of Kafka.

`conformance_worker.py embedded|compose RUN_DIR [CASE...]` prints one JSON line per case. A process of its
own, because the embedded lab's namespaces can only be entered by a process with one thread.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import struct
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.errors import AckedError, InvalidRunError, UnfitError, UsageError
from harness.history.journal import Journal
from harness.kafka.wire.produce import one_record_batch
from harness.lab.embedded import EmbeddedLab
from harness.lab.model import Lab, MainProcess
from harness.lab.namespaces import run_inside
from harness.lab.topology import three_azs
from harness.waiting import wait_until
from nemesis.fault import Injection
from nemesis.matrix import Call, Look, calls
from nemesis.nemesis import Nemesis
from nemesis.rules import CHAIN_PREFIX, normalised
from nemesis.storage.disk import DiskKind
from nemesis.storage.disks import Disks

LISTENER = """
import select, socket, sys
listening = []
for port in sys.argv[1:]:
    one = socket.socket(); one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind(("", int(port))); one.listen(256); listening.append(one)
held = []
while True:
    for one in select.select(listening, [], [])[0]: held.append(one.accept()[0])
"""

DISKS: dict[str, DiskKind] = {"broker1": "fuse", "broker2": "ext4", "broker3": "xfs"}

WATCHDOGS = """
import pathlib, sys
for entry in pathlib.Path("/proc").glob("[0-9]*"):
    try: words = (entry / "cmdline").read_bytes().decode().split("\\0")
    except OSError: continue
    if words[:2] != ["sh", "-c"] or not words[2].startswith("sleep"): continue
    if words[4].startswith(sys.argv[1]): print(entry.name)
"""


class Bench:
    """One lab with a listener in every host that has ports, a nemesis, and an eye of its own on the links."""

    def __init__(self, lab: Lab, disks: Disks) -> None:
        self.lab = lab
        self.disks = disks
        self.without_disk: dict[str, str] = {}
        self.journal_path = lab.run_dir / "journal" / "conformance.jsonl"
        self.journal = Journal(self.journal_path)
        for host, kind in DISKS.items():
            try:
                disks.make(host, kind)
            except UnfitError as error:
                self.without_disk[host] = error.message
                (lab.data_dir(host) / "data").mkdir()
        for host in lab.topology.hosts:
            if host.ports:
                self.start(host.name)
        self.nemesis = Nemesis(lab, self.journal, disks=disks)
        self.nemesis.warm_up()
        self.prober = self.nemesis._ground.prober
        self.all_calls = calls(lab.topology)
        wait_until(
            lambda: set(self.look().new.values()) <= {"open", "refused"},
            within_s=20,
            awaiting="every listener to answer",
        )

    def start(self, host: str) -> None:
        ports = [str(port) for port in self.lab.topology.host(host).ports]
        self.lab.start(host, MainProcess((*self.lab.python(), "-c", LISTENER, *ports)))

    def look(self) -> Look:
        return self.prober.look(self.all_calls, within_s=0.5)

    def dead(self) -> set[Call]:
        """Calls that get no answer now, seen independently of the fault's own verification."""
        return {call for call, state in self.look().new.items() if state in ("silent", "unreachable")}

    def chains_left(self) -> list[str]:
        listings = self.nemesis._ground.chains.listings()
        return [
            f"{h}: {line}"
            for h, text in listings.items()
            for line in normalised(text)
            if CHAIN_PREFIX in line
        ]

    def watchdogs(self, tag: str = CHAIN_PREFIX) -> set[str]:
        """Watchdogs that still run, as host and pid; embedded hosts see all processes of the lab."""
        argv = (*self.lab.python(), "-c", WATCHDOGS, tag)
        results = self.lab.execute_all({host.name: (argv, "") for host in self.lab.topology.hosts})
        return {f"{host} {pid}" for host, result in results.items() for pid in result.stdout.split()}

    def moments(self, injection: Injection) -> list[str]:
        rows = [json.loads(line) for line in self.journal_path.read_text().splitlines()]
        return [r["moment"] for r in rows if r["table"] == "faults" and r["fault"] == injection.number]


CASES: dict[str, Callable[[Bench], Any]] = {}
FOUR = ["injecting", "injected", "healing", "healed"]


def case(function: Callable[[Bench], Any]) -> Callable[[Bench], Any]:
    CASES[function.__name__] = function
    return function


def refused_to(expected: type[AckedError], words: str, action: Callable[[], Any]) -> None:
    try:
        action()
    except expected as error:
        assert words in error.message, f"{error.message!r} does not say {words!r}"
        return
    raise AssertionError(f"no {expected.__name__} was raised")


@contextmanager
def recorded(bench: Bench, injection: Injection) -> Iterator[Injection]:
    """Inject, verify, let the caller look, heal, verify; then nothing may be left."""
    with injection:
        yield injection
    assert bench.moments(injection) == FOUR, bench.moments(injection)
    assert bench.chains_left() == []
    assert bench.dead() == set()


def expect_dead(bench: Bench, injection: Injection, killed: Callable[[Call], bool]) -> None:
    """The calls that ``killed`` describes die, no others, as seen from outside of the fault's own checks."""
    with recorded(bench, injection):
        assert bench.dead() == {call for call in bench.all_calls if killed(call)}


def az(bench: Bench, name: str) -> str:
    return bench.lab.topology.host(name).az


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
        look = bench.look()
        cut = [c for c in bench.all_calls if (az(bench, c.caller) == "az1") != (az(bench, c.callee) == "az1")]
        assert {look.new[call] for call in cut} == {"refused"}
    assert set(injection.evidence["held"]) == {"reset"}


@case
def broker_from_broker(bench: Bench) -> None:
    pair = {"broker1", "broker2"}
    expect_dead(bench, bench.nemesis.cut("broker1 <-> broker2"), lambda c: {c.caller, c.callee} == pair)


@case
def broker_from_zookeeper_only(bench: Bench) -> None:
    """The node of its own AZ included; broker to broker lives."""
    injection = bench.nemesis.without_zookeeper("broker1")
    expect_dead(bench, injection, lambda c: c.caller == "broker1" and c.callee.startswith("zookeeper"))


@case
def zookeeper_node_from_node(bench: Bench) -> None:
    pair = {"zookeeper1", "zookeeper3"}
    expect_dead(bench, bench.nemesis.cut("zookeeper1 <-> zookeeper3"), lambda c: {c.caller, c.callee} == pair)


@case
def zookeeper_peers_keep_clients(bench: Bench) -> None:
    """Only the peer ports: a client of ZooKeeper notices nothing."""
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
        look = bench.look().new
        assert look[Call("broker1", "broker2", 9092)] == "refused"
        assert look[Call("broker2", "broker1", 9092)] == "open"
    assert injection.evidence["held"] == {"reset": 1}


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
    injection = bench.nemesis.flapping("broker1 <-> broker2", period_s=1.4)
    call = Call("broker1", "broker2", 9092)
    with recorded(bench, injection):
        for wanted in ("silent", "open", "silent", "open"):
            wait_until(
                lambda: _state(bench, call),
                within_s=5,
                awaiting=f"the link to be {wanted}",
                accept=lambda state, wanted=wanted: state == wanted,  # type: ignore[misc]
            )


def _state(bench: Bench, call: Call) -> str:
    with bench.nemesis._ground.lock:
        return bench.prober.look([call], within_s=0.2).new[call]


@case
def several_faults_compose(bench: Bench) -> None:
    """Two faults that name the same link: healing one leaves the other."""
    first = bench.nemesis.cut("broker1 <-> broker2").inject()
    second = bench.nemesis.isolate("broker1").inject()
    call = Call("broker1", "broker2", 9092)
    second.heal()
    assert bench.look().new[call] == "silent"
    assert bench.look().new[Call("broker1", "broker3", 9092)] == "open"
    first.heal()
    assert bench.dead() == set()
    assert bench.chains_left() == []


@case
def equal_cuts_heal_apart(bench: Bench) -> None:
    first = bench.nemesis.cut("broker1 <-> broker2").inject()
    second = bench.nemesis.cut("broker1 <-> broker2").inject()
    first.heal()
    assert bench.look().new[Call("broker2", "broker1", 9092)] == "silent"
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
    """Somebody's own rule and chain, even with the same target, are there before, during and after."""
    rules = "*filter\n:MINE - [0:0]\n-A INPUT -s 203.0.113.9/32 -j DROP\n-A MINE -j RETURN\nCOMMIT\n"
    bench.lab.execute("broker1", ("iptables-restore", "--noflush"), stdin=rules)
    before = normalised(bench.nemesis._ground.chains.listings(["broker1"])["broker1"])
    with bench.nemesis.isolate("broker1"):
        during = normalised(bench.nemesis._ground.chains.listings(["broker1"])["broker1"])
        assert set(before) <= set(during)
    assert normalised(bench.nemesis._ground.chains.listings(["broker1"])["broker1"]) == before
    undo = "*filter\n-D INPUT -s 203.0.113.9/32 -j DROP\n-F MINE\n-X MINE\nCOMMIT\n"
    bench.lab.execute("broker1", ("iptables-restore", "--noflush"), stdin=undo)


@case
def failed_injection_leaves_nothing(bench: Bench) -> None:
    """A host whose iptables refuses: the other hosts' rules are taken back, and the fault is `failed`."""
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
    bench.nemesis._ground.chains.sweep()
    assert bench.chains_left() == []
    assert bench.dead() == set()


@case
def a_cut_that_does_not_bite_is_invalid(bench: Bench) -> None:
    """An accepting rule of somebody else in front: the fault notices, and says which link lives."""
    injection = bench.nemesis.cut("broker1 <-> broker2")
    fault = injection.fault

    def load() -> None:
        type(fault).load(fault)  # type: ignore[attr-defined]
        for host in ("broker1", "broker2"):
            for hook in ("INPUT", "OUTPUT"):
                bench.lab.execute(host, ("iptables", "-I", hook, "1", "-j", "ACCEPT"))

    fault.load = load  # type: ignore[attr-defined]
    refused_to(InvalidRunError, "broker1 -> broker2:9092 still answers (open)", injection.inject)
    assert bench.moments(injection) == ["injecting", "failed"]
    for host in ("broker1", "broker2"):
        for hook in ("INPUT", "OUTPUT"):
            bench.lab.execute(host, ("iptables", "-D", hook, "-j", "ACCEPT"))
    assert bench.chains_left() == []
    assert bench.dead() == set()


@case
def a_cut_that_vanished_is_invalid(bench: Bench) -> None:
    injection = bench.nemesis.cut("broker1 <-> broker2").inject()
    bench.lab.execute("broker1", ("iptables", "-F"))
    refused_to(InvalidRunError, "were gone from broker1", injection.heal)
    bench.nemesis._ground.chains.sweep()
    assert bench.chains_left() == []
    assert bench.dead() == set()


@case
def rules_die_by_their_time_to_live(bench: Bench) -> Any:
    """A second nemesis that never heals, as if its harness had been killed."""
    other = Nemesis(bench.lab, bench.journal, run="ttl", ttl_s=4.0)
    other.isolate("az1").inject()
    other._ground.prober.close()
    other._ground.cuts.clear()  # a dead harness re-applies nothing
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
    """As if the host's table had been lost with a restart (a container's is)."""
    with recorded(bench, bench.nemesis.isolate("broker1")):
        lose_table = "iptables -F INPUT; iptables -F OUTPUT"
        bench.nemesis.kill("broker1")
        bench.lab.execute("broker1", ("sh", "-c", lose_table))
        call = Call("broker1", "broker2", 9092)
        assert bench.look().new[call] == "silent", "the other end holds the cut alone"
        bench.start("broker1")
        assert any(line.startswith("broker1: -A INPUT") for line in bench.chains_left())


@case
def loss(bench: Bench) -> Any:
    injection = bench.nemesis.degrade.lose("az1 <-> az2", percent=30)
    with injection:
        pass
    assert bench.moments(injection) == FOUR
    assert bench.chains_left() == []
    return injection.evidence


@case
def little_loss(bench: Bench) -> Any:
    injection = bench.nemesis.degrade.lose("broker1 -> broker2", percent=1)
    with injection:
        pass
    return injection.evidence


@case
def rate_limit(bench: Bench) -> Any:
    injection = bench.nemesis.degrade.throttle("broker1", rate_kbit=400)
    with injection:
        pass
    assert bench.moments(injection) == FOUR
    assert not bench.watchdogs("acked-queue")
    return injection.evidence


@case
def delay(bench: Bench) -> Any:
    """Where the kernel has no netem: unfit, in a sentence that says so."""
    injection = bench.nemesis.degrade.delay("broker1", delay_ms=50)
    try:
        with injection:
            return injection.evidence
    except UnfitError as error:
        assert "netem" in error.message
        assert bench.moments(injection) == ["injecting", "failed"]
        return {"unfit": error.message}


@case
def killed_and_started_again(bench: Bench) -> None:
    injection = bench.nemesis.kill("broker2")
    assert bench.moments(injection) == ["injecting", "injected"]
    assert bench.look().new[Call("broker1", "broker2", 9092)] == "refused"
    bench.start("broker2")
    assert bench.moments(injection) == FOUR


@case
def killed_twice_is_invalid(bench: Bench) -> None:
    with bench.nemesis.kill("broker2", restart=bench.start):
        refused_to(InvalidRunError, "no process runs there", lambda: bench.nemesis.kill("broker2"))
    assert bench.lab.alive("broker2")


@case
def az_killed(bench: Bench) -> None:
    with bench.nemesis.kill("az2", restart=bench.start):
        assert not bench.lab.alive("broker2")
        assert not bench.lab.alive("zookeeper2")
        assert bench.lab.alive("broker1")
    assert bench.lab.alive("broker2")
    assert bench.lab.alive("zookeeper2")


@case
def stopped(bench: Bench) -> None:
    with bench.nemesis.stop("broker3", restart=bench.start) as injection:
        assert not bench.lab.alive("broker3")
    assert bench.moments(injection) == FOUR


@case
def paused(bench: Bench) -> None:
    injection = bench.nemesis.pause("broker1", "zookeeper1")
    with injection:
        assert injection.evidence == {"states": {"broker1": "T", "zookeeper1": "T"}}
        assert bench.look().new[Call("broker2", "broker1", 9092)] == "open"
    assert bench.moments(injection) == FOUR


@case
def killed_while_paused(bench: Bench) -> None:
    with bench.nemesis.pause("broker1"):
        bench.nemesis.kill("broker1")
    bench.start("broker1")


@case
def rolling_restart(bench: Bench) -> None:
    pids = [bench.lab.pid(host.name) for host in bench.lab.topology.role("broker")]
    bench.nemesis.rolling_restart("brokers", restart=bench.start)
    assert all(
        now not in (None, was)
        for now, was in zip(
            [bench.lab.pid(host.name) for host in bench.lab.topology.role("broker")], pids, strict=True
        )
    )


@case
def misspelt_names(bench: Bench) -> None:
    refused_to(UsageError, "names no host", lambda: bench.nemesis.isolate("az4"))
    refused_to(
        UsageError, "neither a service nor a port", lambda: bench.nemesis.cut("broker1 -> broker2:kafak")
    )
    refused_to(UsageError, "names no link", lambda: bench.nemesis.cut("broker1 -> broker2:2181"))
    assert bench.chains_left() == []


def write_log(bench: Bench, host: str) -> list[Path]:
    """A replica with three batches that were fsynced and two that were not."""
    data = bench.lab.data_dir(host) / "data"
    folder = data / "t-0"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with (folder / "00000000000000000000.log").open("wb", buffering=0) as log:
        for offset in range(5):
            batch = bytearray(one_record_batch(b"m"))
            struct.pack_into(">q", batch, 0, offset)
            log.write(batch)
            if offset == 2:
                os.fsync(log.fileno())
                for place in (folder, data):
                    handle = os.open(place, os.O_RDONLY)
                    os.fsync(handle)
                    os.close(handle)
    return [folder]


def kept(injection: Injection, host: str) -> int:
    size = len(one_record_batch(b"m"))
    evidence: Any = injection.evidence["disks"]
    assert evidence[host]["log_bytes_before"] == {"t/0": 5 * size}
    return int(evidence[host]["log_bytes_after"]["t/0"] / size)


def power_cut_of(bench: Bench, host: str) -> Any:
    """What was fsynced is there, what was not is gone; where the machine cannot, it says why."""
    if host in bench.without_disk:
        return {"unfit": bench.without_disk[host]}
    write_log(bench, host)
    with bench.nemesis.storage.power_cut(host, restart=bench.start, how="real") as injection:
        assert kept(injection, host) == 3
        assert injection.fault.name == f"power cut {host}"
    assert bench.moments(injection) == FOUR
    return injection.evidence


@case
def power_cut_of_a_volatile_layer(bench: Bench) -> Any:
    return power_cut_of(bench, "broker1")


@case
def power_cut_of_ext4(bench: Bench) -> Any:
    return power_cut_of(bench, "broker2")


@case
def power_cut_of_xfs(bench: Bench) -> Any:
    return power_cut_of(bench, "broker3")


@case
def power_cut_emulated(bench: Bench) -> Any:
    """All brokers at once, and called an emulation."""
    hosts = [host.name for host in bench.lab.topology.role("broker")]
    for host in hosts:
        write_log(bench, host)
    options: Any = {"how": "emulated", "flushed": {("t", 0): 3}, "restart": bench.start}
    with bench.nemesis.storage.power_cut("brokers", **options) as injection:
        assert [kept(injection, host) for host in hosts] == [3, 3, 3]
        assert injection.fault.name.endswith("(emulated)")
    assert bench.moments(injection) == FOUR


@case
def full_disk(bench: Bench) -> Any:
    fits = [host for host in DISKS if host not in bench.without_disk]
    for host in fits:
        log = bench.lab.data_dir(host) / "data" / "growing"
        with bench.nemesis.storage.fill_disk(host) as injection:
            try:
                log.write_bytes(b"x" * 8192)
            except OSError as error:
                assert error.errno == errno.ENOSPC
            else:
                raise AssertionError("a file could grow")
        log.write_bytes(b"x" * 8192)
        assert bench.moments(injection) == FOUR
    if not fits:
        refused_to(UnfitError, "cannot be filled", lambda: bench.nemesis.storage.fill_disk("broker1"))
    return {"disks": fits}


@case
def wiped_and_damaged_replica(bench: Bench) -> None:
    (folder,) = write_log(bench, "broker1")
    wiped = bench.nemesis.storage
    wiped.corrupt("broker1", "t", 3)
    refused_to(UsageError, "kill or stop broker1 first", lambda: wiped.wipe("broker1", "t"))
    with bench.nemesis.kill("broker1", restart=bench.start):
        wiped.wipe("broker1", "t")
        assert not folder.exists()


@case
def client_killed(bench: Bench) -> None:
    pipe = bench.lab.open_pipe("client1", (*bench.lab.python(), "-c", "input()"))
    bench.nemesis.kill_client("client1", pipe.kill, lambda: pipe.poll() is None)
    assert pipe.wait(5.0) != 0


def run_cases(lab: Lab, names: list[str]) -> int:
    disks = Disks(lab)
    lab.up()
    try:
        bench = Bench(lab, disks)
        for name in names:
            began = time.monotonic()
            problem, detail = "", None
            try:
                detail = CASES[name](bench)
            except (AckedError, AssertionError, OSError) as error:
                problem = f"{error}\n{traceback.format_exc()}"
                bench.nemesis.heal_all()
            took_s = round(time.monotonic() - began, 3)
            print(
                json.dumps({"case": name, "problem": problem, "took_s": took_s, "detail": detail}), flush=True
            )
        bench.nemesis.close()
        print(json.dumps({"case": "clean_end", "problem": "", "took_s": 0, "detail": None}), flush=True)
    finally:
        lab.down()
        disks.close()
    return 0


def main() -> int:
    kind, run_dir, names = sys.argv[1], Path(sys.argv[2]), sys.argv[3:] or list(CASES)
    topology = three_azs("zookeeper")
    if kind == "compose":
        from harness.lab.compose import ComposeLab

        return run_cases(ComposeLab(topology, run_dir), names)
    return run_inside(lambda: run_cases(EmbeddedLab(topology, run_dir), names))


if __name__ == "__main__":
    sys.exit(main())

"""The bench of conformance cases: a lab with listeners, a nemesis, and independent probes of the links."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from harness.errors import AckedError, UnfitError
from harness.history.journal import Journal
from harness.lab.model import Lab, MainProcess
from harness.waiting import wait_until
from nemesis.fault import Injection
from nemesis.nemesis import Nemesis
from nemesis.network.backlog import backlog
from nemesis.network.rules import CHAIN_PREFIX, normalised
from nemesis.proof.reachability import Call, ProbeResult, calls
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
    """One lab with a listener in every host with ports, a nemesis, and independent probes of the links."""

    def __init__(self, lab: Lab, disks: Disks, kinds: Mapping[str, DiskKind] = DISKS) -> None:
        """``kinds``: the kinds of hosts that get their own disk."""
        self.lab = lab
        self.disks = disks
        self.without_disk: dict[str, str] = {}
        self.journal_path = lab.run_dir / "journal" / "conformance.jsonl"
        self.journal = Journal(self.journal_path)
        for host, kind in kinds.items():
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
        self.prober = self.nemesis._context.prober
        self.all_calls = calls(lab.topology)
        wait_until(
            lambda: set(self.probe().new.values()) <= {"open", "refused"},
            within_s=20,
            awaiting="every listener to answer",
        )

    def start(self, host: str) -> None:
        ports = [str(port) for port in self.lab.topology.host(host).ports]
        self.lab.start(host, MainProcess((*self.lab.python(), "-c", LISTENER, *ports)))

    def probe(self) -> ProbeResult:
        return self.prober.probe(self.all_calls, within_s=0.5)

    def dead(self) -> set[Call]:
        """Calls that get no answer now, probed independently of the fault's own verification."""
        return {call for call, state in self.probe().new.items() if state in ("silent", "unreachable")}

    def chains_left(self) -> list[str]:
        listings = self.nemesis._context.chains.listings()
        return [
            f"{h}: {line}"
            for h, text in listings.items()
            for line in normalised(text)
            if CHAIN_PREFIX in line
        ]

    def backlog(self) -> dict[str, float]:
        """Connections of clients with unacknowledged data, and the seconds until TCP retransmits it."""
        return backlog(self.nemesis._context)

    def watchdogs(self, tag: str = CHAIN_PREFIX) -> set[str]:
        """Watchdogs that still run, as host and pid; embedded hosts see all processes of the lab."""
        argv = (*self.lab.python(), "-c", WATCHDOGS, tag)
        results = self.lab.execute_all({host.name: (argv, "") for host in self.lab.topology.hosts})
        return {f"{host} {pid}" for host, result in results.items() for pid in result.stdout.split()}

    def rows(self, injection: Injection) -> list[dict[str, Any]]:
        rows = [json.loads(line) for line in self.journal_path.read_text().splitlines()]
        return [row for row in rows if row["table"] == "faults" and row["fault"] == injection.number]

    def moments(self, injection: Injection) -> list[str]:
        return [row["moment"] for row in self.rows(injection)]

    def healed(self, injection: Injection) -> Any:
        """What the proof that nothing is left of it has recorded."""
        return json.loads(self.rows(injection)[-1]["evidence"])


CASES: dict[str, Callable[[Bench], Any]] = {}
CONTAINERS_ONLY: set[str] = set()
"""Cases that inject nothing in the embedded lab."""
FOUR = ["injecting", "injected", "healing", "healed"]


def case(function: Callable[[Bench], Any]) -> Callable[[Bench], Any]:
    CASES[function.__name__] = function
    return function


def case_of_containers(function: Callable[[Bench], Any]) -> Callable[[Bench], Any]:
    CONTAINERS_ONLY.add(function.__name__)
    return case(function)


def refused_to(expected: type[AckedError], words: str, action: Callable[[], Any]) -> None:
    try:
        action()
    except expected as error:
        assert words in error.message, f"{error.message!r} does not say {words!r}"
        return
    raise AssertionError(f"no {expected.__name__} was raised")


@contextmanager
def recorded(bench: Bench, injection: Injection) -> Iterator[Injection]:
    """Inject, verify, let the caller probe, heal, and verify that nothing is left."""
    with injection:
        yield injection
    assert bench.moments(injection) == FOUR, bench.moments(injection)
    assert bench.chains_left() == []
    assert bench.dead() == set()


def expect_dead(bench: Bench, injection: Injection, killed: Callable[[Call], bool]) -> None:
    """Exactly the calls that ``killed`` describes die, by probes independent of the fault's own checks."""
    with recorded(bench, injection):
        assert bench.dead() == {call for call in bench.all_calls if killed(call)}


def az(bench: Bench, name: str) -> str:
    return bench.lab.topology.host(name).az

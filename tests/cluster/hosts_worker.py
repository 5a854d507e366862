"""Hosts with an sshd, and what acked does to them: each case in hosts of its own.

`python -m tests.cluster.hosts_worker FOLDER CASE...` prints a line of JSON for each. Needs root.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.cluster.hosts_file import ALLOWED, read_hosts_file
from harness.errors import AckedError
from harness.history.journal import Journal
from harness.lab.embedded.lab import EmbeddedLab
from harness.lab.embedded.namespaces import run_inside
from harness.lab.hosts.lab import HostsLab
from harness.waiting import wait_until
from nemesis.attached.abilities import abilities
from nemesis.attached.safety import heal, locked, prove_dead_man
from nemesis.nemesis import Nemesis
from nemesis.network.queues import Throttle
from tests.cluster.ssh_hosts import NOBODY, OPERATOR, PORT, SshHosts, kill, listening_lab

TTL_S = 6.0
FOREIGN = "-A INPUT -s 203.0.113.0/24 -p tcp -m tcp --dport 8080 -j DROP"
"""A rule of somebody else, which stays as it is."""
HERE = "here"
RECEIVE = """
import socket, sys, time
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
server.settimeout(20)
peer = server.accept()[0]
peer.settimeout(20)
peer.recv(65536)
began, count = time.monotonic(), 0
while time.monotonic() - began < 5:
    count += len(peer.recv(65536))
print(count * 8 / 1000 / (time.monotonic() - began))
"""
SEND = """
import socket, sys, time
until = time.monotonic() + 20
while True:
    try:
        peer = socket.create_connection((sys.argv[1], int(sys.argv[2])), 1)
        break
    except OSError:
        if time.monotonic() > until:
            raise
        time.sleep(0.1)
try:
    while True:
        peer.sendall(bytes(16384))
except OSError:
    pass
"""
_BOOTSTRAP = f"198.18.0.11:{PORT}"


@dataclass(kw_only=True)
class Bench:
    """Three hosts with an sshd, and a rule of somebody else in each."""

    folder: Path
    lab: EmbeddedLab
    hosts: SshHosts

    def attached(self, user: str = "root") -> HostsLab:
        """The hosts as acked sees them; not up yet."""
        file = read_hosts_file(self.hosts.hosts_file(_BOOTSTRAP, user=user))
        return HostsLab(file.topology, self.folder / "run", file.targets, TTL_S)

    @contextmanager
    def nemesis(self, user: str = "root", ttl_s: float = TTL_S) -> Iterator[tuple[HostsLab, Nemesis]]:
        """Faults on the hosts."""
        with ExitStack() as stack:
            lab = self.attached(user)
            stack.callback(lab.down)
            lab.up()
            journal = stack.enter_context(Journal(self.folder / f"{user}.jsonl"))
            yield lab, stack.enter_context(Nemesis(lab, journal, ttl_s=ttl_s))

    def only_foreign(self) -> bool:
        """Whether every host has the rule of somebody else, and no other."""
        return all(rules == [FOREIGN] for rules in self.hosts.rules().values())

    def states(self) -> dict[str, str | None]:
        """The state of the process in the place of each broker."""
        return {host.name: self.lab.process_state(host.name) for host in self.lab.topology.hosts}

    def disciplines(self) -> dict[str, str]:
        """The queueing discipline of each host's interface."""
        show = ("tc", "qdisc", "show", "dev", "eth0")
        return {
            host.name: self.lab.execute(host.name, show).stdout.strip() for host in self.lab.topology.hosts
        }

    def restored(self) -> bool:
        """Whether nothing of acked is left."""
        queued = any("noqueue 0:" not in text for text in self.disciplines().values())
        return self.only_foreign() and "T" not in self.states().values() and not queued

    def kbit_s(self, source: str, target: str) -> float:
        """How fast a host sends to another one, or to this machine, over TCP, as the receiver counts."""
        topology = self.lab.topology
        address = topology.observer_address if target == HERE else topology.host(target).address
        with ThreadPoolExecutor(2) as pool:
            receiver = (sys.executable, "-c", RECEIVE, address, str(PORT + 1))
            if target == HERE:
                got = pool.submit(
                    lambda: subprocess.run(receiver, capture_output=True, text=True, check=True)
                )
            else:
                got = pool.submit(self.lab.execute, target, receiver, timeout_s=40.0)  # type: ignore[arg-type]
            sender = (sys.executable, "-c", SEND, address, str(PORT + 1))
            pool.submit(self.lab.execute, source, sender, timeout_s=40.0)
            return float(got.result().stdout)

    def seconds_to_restore(self) -> float:
        """How long it takes until nothing of acked is left."""
        began = time.monotonic()
        wait_until(self.restored, within_s=3 * TTL_S, poll_s=0.1, awaiting="the faults to end by themselves")
        return round(time.monotonic() - began, 1)


def faults(bench: Bench) -> Iterator[dict[str, Any]]:
    """Cut, one way, pause, with proof, as root and by sudo; without rights nothing."""
    for user in ("root", OPERATOR):
        with bench.nemesis(user) as (lab, nemesis):
            before = time.monotonic()
            with nemesis.isolate("eu-a") as isolated:
                proven_s = time.monotonic() - before
                spared = [line for line in bench.hosts.rules()["broker1"] if "--dport 22 -j RETURN" in line]
            with nemesis.cut("broker2 -> broker3") as one_way, nemesis.pause("broker1") as paused:
                states = bench.states()
            yield {
                "user": user,
                "dead": isolated.evidence["dead"],
                "held": isolated.evidence["held"],
                "one_way": one_way.evidence["dead"],
                "paused": paused.evidence["states"],
                "states": states,
                "seconds": round(proven_s, 2),
                "spared": len(spared),
            }
        yield {"user": user, "restored": bench.restored()}
    lab = bench.attached(NOBODY)
    try:
        lab.up()
    except AckedError as error:
        yield {"user": NOBODY, "refused": error.message}
    lab.down()


def throttled(bench: Bench) -> Iterator[dict[str, Any]]:
    """What a host sends to others is limited; what it sends elsewhere, over ssh too, is not."""
    for user in ("root", OPERATOR):
        with bench.nemesis(user, ttl_s=120.0) as (lab, nemesis):
            (host, *_) = lab.topology.hosts
            with nemesis.make(Throttle, host.name, [host], 400.0) as limit:
                to_host, here = bench.kbit_s("broker1", "broker2"), bench.kbit_s("broker1", HERE)
                back = bench.kbit_s("broker2", "broker3")
            yield {
                "user": user,
                "kbit_s": to_host,
                "here": here,
                "between_others": back,
                "evidence": limit.evidence,
                "after": bench.kbit_s("broker1", "broker2"),
                "restored": bench.restored(),
            }
    own = "tc qdisc add dev eth0 root handle 10: tbf rate 1gbit burst 1mb latency 50ms"
    bench.lab.execute("broker1", ("sh", "-c", own))
    before = bench.disciplines()
    refused = ""
    with bench.nemesis() as (lab, nemesis):
        host = lab.topology.hosts[0]
        unfit = abilities(lab, host).unfit
        try:
            nemesis.make(Throttle, host.name, [host], 400.0).inject()
        except AckedError as error:
            refused = error.message
    healed = [heal(bench.attached(), one) for one in lab.topology.hosts]
    yield {
        "unfit": unfit.get("throttle"),
        "refused": refused,
        "removed": [one.removed for one in healed],
        "as_before": bench.disciplines() == before,
    }
    bench.lab.execute("broker1", ("tc", "qdisc", "del", "dev", "eth0", "root"))


def guarded(bench: Bench) -> Iterator[dict[str, Any]]:
    """The canary vanishes by itself, a second harness is refused, and another machine can heal."""
    lab, other = bench.attached(), bench.attached()
    lab.up()
    with locked(lab, 60.0):
        lived = prove_dead_man(lab, throttles=True)
        try:
            with locked(other, 60.0):
                second = ""
        except AckedError as error:
            second = error.message
    yield {"lived": lived, "second": second, "restored": bench.restored()}
    journal = Journal(bench.folder / "abandoned.jsonl")
    nemesis = Nemesis(lab, journal, ttl_s=60.0)
    abandoned = locked(lab, 60.0)
    abandoned.__enter__()  # as acked leaves it when it is killed
    nemesis.isolate("eu-b").inject()
    nemesis.pause("broker1").inject()
    nemesis.make(Throttle, "broker2", [lab.topology.host("broker2")], 400.0).inject()
    others = [one for one in bench.hosts.rules()["broker2"] if "ACKED" in one]
    killed = wait_until(
        lambda: bench.hosts.watchdogs("broker2"),
        accept=lambda processes: len(processes) >= 8,
        within_s=10.0,
        awaiting="four watchdogs of broker2, each with the sleep that it waits for",
    )
    kill([*killed, *bench.hosts.watchdogs("broker1")])
    healed = [heal(other, host) for host in other.topology.hosts]
    again = [heal(other, host) for host in other.topology.hosts]
    yield {
        "rules": len(others),
        "killed": len(killed),
        "removed": [len(one.removed) for one in healed],
        "resumed": [sum(what.startswith("pause of ") for what in one.removed) for one in healed],
        "left": [one.left for one in healed],
        "again": [one.removed for one in again],
        "restored": bench.restored(),
    }
    lab.down()
    other.down()
    journal.close()


def _acked(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def allowed(unfit: Mapping[str, str]) -> dict[str, str]:
    """What is not possible of that which a file allows by default."""
    return {name: why for name, why in unfit.items() if name in ALLOWED}


def commands(bench: Bench) -> Iterator[dict[str, Any]]:
    """`acked attach check` and `acked heal`, as a user types them."""
    file = str(bench.hosts.hosts_file(_BOOTSTRAP))
    before = bench.hosts.rules()
    check = _acked("attach", "check", file, "--json")
    unchanged = bench.hosts.rules() == before
    address = bench.lab.topology.host("broker1").address
    wall = ("INPUT", "-s", address, "-p", "tcp", "--dport", str(PORT), "-j", "DROP")
    bench.lab.execute("broker2", ("iptables", "-I", *wall))
    walled = _acked("attach", "check", file, "--json")
    bench.lab.execute("broker2", ("iptables", "-D", *wall))
    canary = _acked("attach", "check", file, "--canary")
    yield {
        "check": check.returncode,
        "unfit": [allowed(one["unfit"]) for one in json.loads(check.stdout)["hosts"]],
        "problem": json.loads(check.stdout)["cluster"]["problem"],
        "unanswered": [json.loads(one.stdout)["unanswered"] for one in (check, walled)],
        "unchanged": unchanged,
        "canary": canary.returncode,
        "lines": canary.stdout.splitlines(),
    }
    refused = _acked("attach", "check", str(bench.hosts.hosts_file(_BOOTSTRAP, user=NOBODY)))
    yield {"nobody": refused.returncode, "lines": refused.stdout.splitlines()}
    process = _broken(bench, 120.0)
    healed = _acked("heal", file)
    yield {"heal": healed.returncode, "lines": healed.stdout.splitlines(), "restored": bench.restored()}
    process.kill()
    process.wait()
    bench.hosts.stop("broker2")
    partly = _acked("heal", file, "--json")
    problems = [one["problem"] for one in json.loads(partly.stdout)]
    yield {"heal": partly.returncode, "problems": problems}
    bench.hosts.start(bench.lab.topology.host("broker2"))


def _broken(bench: Bench, ttl_s: float = TTL_S) -> subprocess.Popen[str]:
    """A harness of its own, which has isolated one host and paused another."""
    file = bench.hosts.hosts_file(_BOOTSTRAP)
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            __spec__.name,
            str(bench.folder / "harness"),
            "--break",
            str(file),
            f"{ttl_s:g}",
        ],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "broken"
    return process


def _harness(bench: Bench, process: subprocess.Popen[str]) -> None:
    process.kill()


def _connections(bench: Bench, _process: subprocess.Popen[str]) -> None:
    for host in bench.lab.topology.hosts:
        kill(bench.hosts.sessions(host.name))


def _clients(bench: Bench, process: subprocess.Popen[str]) -> None:
    """The ssh clients, which are the harness's children."""
    listed = subprocess.run(["pgrep", "-P", str(process.pid), "ssh"], capture_output=True, text=True)
    kill(map(int, listed.stdout.split()))


def _servers(bench: Bench, process: subprocess.Popen[str]) -> None:
    for host in bench.lab.topology.hosts:
        bench.hosts.stop(host.name)
    _connections(bench, process)


def _control_link(bench: Bench, _process: subprocess.Popen[str]) -> None:
    subprocess.run(["ip", "link", "set", "eth0", "down"], check=True)


KILLS: dict[str, Callable[[Bench, subprocess.Popen[str]], None]] = {
    "harness": _harness,
    "connections": _connections,
    "ssh": _clients,
    "sshd": _servers,
    "control link": _control_link,
}


def kills(bench: Bench) -> Iterator[dict[str, Any]]:
    """What breaks the harness, or the way to it, while faults are in force."""
    for name, end in KILLS.items():
        process = _broken(bench)
        rules = sum(len(rules) for rules in bench.hosts.rules().values())
        stopped = list(bench.states().values()).count("T")
        end(bench, process)
        try:
            yield {"kill": name, "rules": rules, "stopped": stopped, "seconds": bench.seconds_to_restore()}
        finally:
            process.kill()
            process.wait()
            subprocess.run(["ip", "link", "set", "eth0", "up"], check=True)
            for host in bench.lab.topology.hosts:
                if host.name not in bench.hosts.servers:
                    bench.hosts.start(host)


def clock(bench: Bench) -> Iterator[dict[str, Any]]:
    """Harness and watchdogs of two hosts are killed: their kernels end the rules, which stay until `heal`."""
    host = bench.lab.topology.host("broker1")
    connect = f"import socket; socket.create_connection(({host.address!r}, {PORT}), 1.0)"

    def reached() -> bool:
        return bench.lab.execute("broker2", (sys.executable, "-c", connect)).status == 0

    process = _broken(bench)
    try:
        began = time.monotonic()
        for name in ("broker1", "broker2"):
            kill(bench.hosts.watchdogs(name))
        process.kill()
        dead = not reached()
        wait_until(reached, within_s=4 * TTL_S, poll_s=0.1, awaiting="the rules to end by the clock")
        seconds = round(time.monotonic() - began, 1)
        left = sum("ACKED" in line for line in bench.hosts.rules()["broker1"])
    finally:
        process.kill()
        process.wait()
    lab = bench.attached()
    healed = [heal(lab, one) for one in lab.topology.hosts]
    lab.down()
    yield {
        "dead": dead,
        "seconds": seconds,
        "left": left,
        "problems": [one.problem for one in healed],
        "restored": bench.restored(),
    }


def timeless(bench: Bench) -> Iterator[dict[str, Any]]:
    """A host whose iptables refuses the match `time`: watchdogs end its rules, and without them `heal`."""
    folder = bench.folder / "ssh"
    host = bench.lab.topology.hosts[0]
    tools = folder / "timeless"
    tools.mkdir()
    (tools / "iptables-restore").write_text(
        "#!/bin/sh\ntext=$(cat)\ncase $text in\n"
        "*'-m time'*) echo 'iptables-restore: no match time' >&2; exit 2 ;;\nesac\n"
        f'printf \'%s\\n\' "$text" | exec {shutil.which("iptables-restore")} "$@"\n'
    )
    (tools / "iptables-restore").chmod(0o755)
    shell = folder / "timeless.sh"
    shell.write_text(f'#!/bin/sh\nPATH={tools}:$PATH\nexport PATH\nexec sh -c "$SSH_ORIGINAL_COMMAND"\n')
    shell.chmod(0o755)
    bench.hosts.stop(host.name)
    bench.hosts.start(host, f"ForceCommand {shell}\n")
    lab = bench.attached()
    found = abilities(lab, lab.topology.hosts[0])
    others = ("broker2", "broker3")
    for name in ("harness", "harness and watchdogs"):
        process = _broken(bench)
        try:
            rules = bench.hosts.rules()
            if name != "harness":
                kill(bench.hosts.watchdogs(host.name))
        finally:
            process.kill()
            process.wait()
        clocks = {one: any("-m time" in rule for rule in rules[one]) for one in rules}
        outcome = {"kill": name, "notes": list(found.notes), "clocks": clocks}
        if name == "harness":
            yield {**outcome, "seconds": bench.seconds_to_restore()}
            continue
        wait_until(
            lambda: all(bench.hosts.rules()[one] == [FOREIGN] for one in others),
            within_s=3 * TTL_S,
            poll_s=0.1,
            awaiting="the rules of the other hosts to end by themselves",
        )
        left = sum("ACKED" in line for line in bench.hosts.rules()[host.name])
        healed = [heal(lab, one) for one in lab.topology.hosts]
        yield {**outcome, "left": left, "healed": [one.problem for one in healed], "after": bench.restored()}
    lab.down()
    bench.hosts.stop(host.name)
    bench.hosts.start(host)


def hostile(bench: Bench) -> Iterator[dict[str, Any]]:
    """Hosts in which something is not as usual; each with a sentence, and none with a rule left."""
    host = bench.lab.topology.hosts[0]
    folder = bench.folder / "ssh"

    def tried(name: str, wrapper: str = "", *, user: str = "root") -> dict[str, Any]:
        """What `check` and a cut say while each login goes through a script."""
        shell = folder / "wrapper"
        shell.write_text(f'#!/bin/sh\n{wrapper}\nexec sh -c "$SSH_ORIGINAL_COMMAND"\n')
        shell.chmod(0o755)
        bench.hosts.stop(host.name)
        bench.hosts.start(host, f"ForceCommand {shell}\n")
        lab = bench.attached(user)
        found = abilities(lab, lab.topology.hosts[0])
        lab.down()
        outcome = ""
        try:
            with bench.nemesis(user) as (_, nemesis), nemesis.isolate("eu-a") as cut:
                outcome = f"dead {cut.evidence['dead']}"
        except AckedError as error:
            outcome = error.message
        return {
            "case": name,
            "unfit": allowed(found.unfit),
            "problem": found.problem,
            "notes": list(found.notes),
            "cut": outcome,
            "restored": bench.restored(),
        }

    hidden = folder / "without-python"
    hidden.mkdir(exist_ok=True)
    for tool in ("/usr/bin", "/usr/sbin", "/bin", "/sbin"):
        for file in Path(tool).iterdir():
            link = hidden / file.name
            if "python" not in file.name and not link.is_symlink():
                link.symlink_to(file)
    yield tried("banner", "echo '*** Welcome ***'; echo 'authorised use only'; printf 'no line end'")
    yield tried("slow", "sleep 4")
    ahead = folder / "ahead"
    ahead.mkdir(exist_ok=True)
    (ahead / "date").write_text('#!/bin/sh\nexec /bin/date -d "+2 hours" "$@"\n')
    (ahead / "date").chmod(0o755)
    yield tried("clock", f"PATH={ahead}:$PATH; export PATH")
    yield tried("without python", f"PATH={hidden}; export PATH; unset PYTHONHOME")
    full = (
        "mount -t tmpfs -o size=4k,noexec none /tmp; dd if=/dev/zero of=/tmp/full bs=1k count=8 2>/dev/null"
    )
    yield tried("full tmp", f"exec unshare -m sh -c '{full}; exec sh -c \"$SSH_ORIGINAL_COMMAND\"'")
    rules = "".join(
        f"-A INPUT -s 203.0.113.{number % 250}/32 -p udp -m udp --dport {2000 + number} -j DROP\n"
        for number in range(200)
    )
    bench.lab.execute(host.name, ("iptables-restore", "--noflush"), stdin=f"*filter\n{rules}COMMIT\n")
    before = bench.hosts.rules()[host.name]
    many = tried("200 foreign rules")
    yield {**many, "restored": bench.hosts.rules()[host.name] == before and len(before) == 201}
    bench.lab.execute(host.name, ("iptables", "-F"))
    bench.lab.execute(host.name, ("iptables-restore", "--noflush"), stdin=f"*filter\n{FOREIGN}\nCOMMIT\n")
    legacy = bench.lab.execute(
        host.name, ("iptables-legacy", "-A", "INPUT", "-s", "203.0.113.9", "-j", "DROP")
    )
    yield {**tried("nft beside legacy"), "legacy": legacy.status}
    bench.lab.execute(host.name, ("iptables-legacy", "-F"))
    bench.hosts.stop(host.name)
    bench.hosts.start(host)
    sudoers = folder / "etc.sudoers"
    rights = sudoers.read_text()
    try:
        with bench.nemesis(OPERATOR) as (lab, nemesis):
            nemesis.isolate("eu-a").inject()
            sudoers.write_text("root ALL=(ALL) ALL\n")
            lab.down()  # the next command logs in anew
        outcome = ""
    except AckedError as error:
        outcome = error.message
    yield {
        "case": "lost sudo",
        "cut": outcome,
        "seconds": bench.seconds_to_restore(),
        "restored": bench.restored(),
    }
    sudoers.write_text(rights)


CASES: dict[str, Callable[[Bench], Iterator[dict[str, Any]]]] = {
    case.__name__: case for case in (faults, throttled, guarded, commands, kills, clock, timeless, hostile)
}


def _break(folder: Path, file: Path, ttl_s: float) -> None:
    """Isolate one host, pause another and slow the third, say so, and wait for the end."""
    folder.mkdir(exist_ok=True)
    described = read_hosts_file(file)
    lab = HostsLab(described.topology, folder, described.targets, ttl_s)
    lab.up()
    nemesis = Nemesis(lab, Journal(folder / "faults.jsonl"), ttl_s=ttl_s)
    nemesis.isolate("eu-a").inject()
    nemesis.pause("broker3").inject()
    nemesis.make(Throttle, "broker2", [lab.topology.host("broker2")], 400.0).inject()
    print("broken", flush=True)
    signal.pause()


def main(arguments: Sequence[str]) -> int:
    """Carry out cases."""
    folder, names = Path(arguments[0]), arguments[1:]
    if names[0] == "--break":
        _break(folder, Path(names[1]), float(names[2]))
        return 0

    def inside() -> int:
        lab = listening_lab(folder)
        try:
            with SshHosts(lab=lab, folder=folder / "ssh") as hosts:
                text = f"*filter\n{FOREIGN}\nCOMMIT\n"
                lab.execute_all(
                    {one.name: (("iptables-restore", "--noflush"), text) for one in lab.topology.hosts}
                )
                (folder / "run").mkdir(exist_ok=True)
                bench = Bench(folder=folder, lab=lab, hosts=hosts)
                for name in names:
                    for outcome in CASES[name](bench):
                        print(json.dumps(outcome), flush=True)
        finally:
            lab.down()
        return 0

    return run_inside(inside)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

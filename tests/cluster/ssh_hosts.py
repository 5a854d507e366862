"""Hosts of somebody else with a real sshd in each: network namespaces of an embedded lab.

Only inside `harness.lab.embedded.namespaces.run_inside`, as root. Users, groups and sudoers are files of this
mount namespace alone; the machine's own are not changed.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from harness.lab.embedded.lab import NAMESPACE_DIR, EmbeddedLab
from harness.lab.model import Host, MainProcess, Topology
from harness.waiting import wait_until

OPERATOR, NOBODY = "acked-operator", "acked-nobody"
"""Users of all hosts: one may use sudo without a password, the other may not."""
_SSHD = "/usr/sbin/sshd"
_SUBNET = "198.18.0"
PORT = 19092
_USERS = {OPERATOR: 4801, NOBODY: 4802}


def missing() -> str:
    """What this machine lacks for such hosts, as a sentence; empty if nothing."""
    if os.geteuid() != 0:
        return "hosts with an sshd need root"
    lacking = [name for name in (_SSHD, "ssh", "ssh-keygen", "sudo") if shutil.which(name) is None]
    return f"there is no {', '.join(lacking)} (apt-get install openssh-server sudo)" if lacking else ""


@dataclass(kw_only=True)
class SshHosts:
    """An sshd in each host of a lab that is up, and what a user's ssh needs to log in."""

    lab: EmbeddedLab
    folder: Path
    servers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    keys_in: Path | None = None
    """Where the accepted keys are; None: in the temporary folder."""

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in ("host_key", "own_key"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name)]
            subprocess.run(command, check=True)
        public = (self.folder / "own_key.pub").read_text()
        self._keys = Path(tempfile.mkdtemp(prefix="acked-keys-", dir=self.keys_in))
        self._keys.chmod(0o755)  # sshd reads it as the user who logs in, who sees no folder of pytest
        (self._keys / "authorized").write_text(public)
        self._add_users()
        Path("/run/sshd").mkdir(exist_ok=True)
        known = (self.folder / "host_key.pub").read_text()
        hosts = self.lab.topology.hosts
        (self.folder / "known_hosts").write_text("".join(f"{one.address} {known}" for one in hosts))
        blocks = "".join(f"Host {one.name}\n  HostName {one.address}\n" for one in hosts)
        (self.folder / "ssh_config").write_text(
            f"{blocks}Host *\n  IdentityFile {self.folder / 'own_key'}\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {self.folder / 'known_hosts'}\n"
        )
        for host in hosts:
            self.start(host)
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self.servers):
            self.stop(name)
        shutil.rmtree(self._keys)

    def start(self, host: Host, settings: str = "") -> None:
        """Start the sshd of a host, and wait until it answers."""
        self.servers[host.name] = subprocess.Popen(
            ["nsenter", f"--net={NAMESPACE_DIR / host.name}", "--", *self.server(host, settings)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / f"sshd.{host.name}.log").open("ab"),
        )
        self.wait_listening(host)

    def server(self, host: Host, settings: str = "") -> list[str]:
        """The command of a host's sshd, whose configuration it writes."""
        config = self.folder / f"sshd_config.{host.name}"
        config.write_text(
            f"ListenAddress {host.address}\nPort 22\nHostKey {self.folder / 'host_key'}\nPidFile none\n"
            f"AuthorizedKeysFile {self._keys / 'authorized'}\nStrictModes no\nUsePAM no\n"
            f"PasswordAuthentication no\nPermitRootLogin yes\nMaxStartups 50\n{settings}"
        )
        return [_SSHD, "-D", "-f", str(config), "-e"]

    def wait_listening(self, host: Host) -> None:
        """Wait until something listens on the port of sshd."""
        probe = ["nsenter", f"--net={NAMESPACE_DIR / host.name}", "--", "ss", "-Hltn", "sport = :22"]
        wait_until(
            lambda: subprocess.run(probe, capture_output=True, text=True, check=True).stdout.strip(),
            within_s=10,
            awaiting=f"the sshd of {host.name}",
        )

    def stop(self, name: str) -> None:
        """Kill a host's sshd; connections that it has accepted have processes of their own."""
        process = self.servers.pop(name)
        process.kill()
        process.wait()

    def sessions(self, name: str) -> list[int]:
        """The processes of sshd that serve connections to a host."""
        server = self.servers.get(name)
        found = self._inside(name, b"sshd")
        return [pid for pid in found if server is None or pid != server.pid]

    def watchdogs(self, name: str) -> list[int]:
        """The dead man's switches of acked in a host, and what they wait for."""
        return self._inside(name, b'sh\0-c\0sleep "$2"; ') + self._inside(name, b"sleep\0")

    def _inside(self, name: str, command: bytes) -> list[int]:
        """Processes in a host's network whose command line begins so."""
        network = (NAMESPACE_DIR / name).stat().st_ino
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                inside = (folder / "ns/net").stat().st_ino == network
                if inside and (folder / "cmdline").read_bytes().startswith(command):
                    found.append(int(folder.name))
            except OSError:
                continue
        return found

    def hosts_file(
        self,
        bootstrap: str,
        *,
        user: str = "root",
        limits: str = "",
        start: Callable[[str], str] | None = None,
    ) -> Path:
        """Write a hosts file as a user would; ``start`` is the start command of a host."""
        become = 'become = "sudo -n"\n' if user != "root" else ""
        lines = [f'[ssh]\nuser = "{user}"\n{become}config = "ssh_config"\n']
        lines.append(f'[kafka]\nbootstrap = "{bootstrap}"\n')
        lines.append(f"[limits]\n{limits}\n")
        for host in self.lab.topology.hosts:
            ports = ", ".join(f"{name} = {list(ports)}" for name, ports in host.services.items())
            lines.append(
                f'[[host]]\nssh = "{host.name}"\naddress = "{host.address}"\nid = {host.node_id}\n'
                f'az = "{self.lab.topology.az_name(host.az)}"\nports = {{ {ports} }}\n'
                + (f'start = "{start(host.name)}"\n' if start else "")
            )
        file = self.folder / f"hosts-{user}.toml"
        file.write_text("\n".join(lines))
        return file

    def rules(self) -> dict[str, list[str]]:
        """All rules of each host, without counters."""
        listings = self.lab.execute_all(
            {host.name: (("iptables-save",), "") for host in self.lab.topology.hosts}
        )
        return {
            name: [line for line in result.stdout.splitlines() if line.startswith("-A")]
            for name, result in listings.items()
        }

    def _add_users(self) -> None:
        homes = self.folder / "homes"
        for name in _USERS:
            (homes / name).mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        accounts = "".join(f"{name}:x:{uid}:{uid}::{homes / name}:/bin/sh\n" for name, uid in _USERS.items())
        self._hidden("/etc/passwd", Path("/etc/passwd").read_text() + accounts, 0o644)
        groups = "".join(f"{name}:x:{uid}:\n" for name, uid in _USERS.items())
        self._hidden("/etc/group", Path("/etc/group").read_text() + groups, 0o644)
        shadow = "".join(f"{name}:*:19000:0:99999:7:::\n" for name in _USERS)
        self._hidden("/etc/shadow", Path("/etc/shadow").read_text() + shadow, 0o600)
        self._hidden("/etc/sudoers", f"root ALL=(ALL) ALL\n{OPERATOR} ALL=(ALL) NOPASSWD: ALL\n", 0o440)

    def _hidden(self, path: str, text: str, mode: int) -> None:
        """Put a file over one of the machine's, for this mount namespace alone."""
        own = self.folder / f"etc.{Path(path).name}"
        own.write_text(text)
        own.chmod(mode)
        subprocess.run(["mount", "--bind", str(own), path], check=True)


LISTEN = """
import socketserver, sys, time

class Reader(socketserver.BaseRequestHandler):
    def handle(self):
        try:
            while self.request.recv(4096):
                pass
        except OSError:
            pass

socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer.daemon_threads = True
socketserver.ThreadingTCPServer((sys.argv[1], int(sys.argv[2])), Reader).serve_forever()
"""
"""A program that listens, in the place of a broker."""


def listening_lab(folder: Path, azs: Iterable[str] = ("eu-a", "eu-b", "eu-c")) -> EmbeddedLab:
    """A lab that is up, in which a program listens in the place of each broker."""
    names = {f"az{number}": name for number, name in enumerate(azs, start=1)}
    hosts = tuple(
        Host(
            name=f"broker{number}",
            role="broker",
            az=az,
            address=f"{_SUBNET}.{10 + number}",
            node_id=number,
            services={"kafka": (PORT,)},
        )
        for number, az in enumerate(names, start=1)
    )
    lab = EmbeddedLab(Topology(hosts, f"{_SUBNET}.99", names), folder)
    lab.up()
    for host in hosts:
        lab.start(host.name, MainProcess((sys.executable, "-c", LISTEN, host.address, str(PORT))))
    return lab


def kill(pids: Iterable[int]) -> None:
    """SIGKILL; processes that have ended meanwhile are no matter."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue

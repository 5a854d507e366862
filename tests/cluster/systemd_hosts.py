"""Hosts of somebody else that systemd has booted: it runs their sshd, and Kafka as a unit.

Each systemd has processes, mounts and control groups of its own, in the network of a host of an embedded lab;
it reads the files of this machine, and what it writes is gone afterwards. Only inside
`harness.lab.embedded.namespaces.run_inside`, as root.
"""

from __future__ import annotations

import os
import secrets
import shlex
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.lab.embedded.lab import NAMESPACE_DIR
from harness.lab.model import Host
from harness.waiting import wait_until
from tests.cluster import ssh_hosts
from tests.cluster.foreign_lab import ForeignLab
from tests.cluster.ssh_hosts import SshHosts

_SYSTEMD = "/lib/systemd/systemd"
_BOOT = """set -e
mount --make-rprivate /
mount -t tmpfs -o mode=755 none "$1"; mkdir "$1/upper" "$1/work" "$1/root" "$1/cgroup"
mount -t cgroup2 none "$1/cgroup"; mkdir "$1/cgroup/$4"; echo $$ >"$1/cgroup/$4/cgroup.procs"
cd /; exec unshare --cgroup --pid --fork --kill-child sh -ec '
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" none "$1/root"
cd "$1/root"
for own in tmp run dev var/tmp; do mount -t tmpfs -o mode=755 none $own; done
mkdir -p run/sshd dev/shm ".$2"; chmod 1777 tmp dev/shm
for one in null:3 zero:5 full:7 random:8 urandom:9; do mknod -m 666 dev/${one%:*} c 1 ${one#*:}; done
mount --bind "$2" ".$2"
mount -t proc none proc; mount --bind proc/sys proc/sys; mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro none sys; mount -t cgroup2 none sys/fs/cgroup
rm -rf etc/systemd usr/lib/systemd/system-generators usr/lib/tmpfiles.d usr/lib/sysctl.d
mkdir -p etc/systemd/system; cp "$3"/* etc/systemd/system/
exec env -i PATH="$PATH" container=acked SYSTEMD_UNIT_PATH=/etc/systemd/system \\
    chroot . /lib/systemd/systemd --system --unit=kafka.target --show-status=no' boot "$1" "$2" "$3"
"""
# A systemd that sees the files of this machine would tidy them up: /tmp is emptied at a boot. So it has no
# unit but those given, and may write nothing of this machine's but the folder of the test.
_TIDY = """mount --make-rprivate /; mount -t cgroup2 none "$1"
find "$1/$2" -depth -type d -exec rmdir {} +"""
_TARGET = "[Unit]\nDefaultDependencies=no\nWants=kafka.service\nAllowIsolate=yes\n"
_UNIT = """[Unit]
DefaultDependencies=no
[Service]
ExecStart={command}
StandardOutput=append:{output}
SuccessExitStatus=143
Restart={restart}
"""


def missing() -> str:
    """What this machine lacks for such hosts, as a sentence; empty if nothing."""
    if not Path(_SYSTEMD).exists():
        return "there is no systemd (apt-get install systemd)"
    return ssh_hosts.missing()


@dataclass(kw_only=True)
class SystemdCluster(ForeignLab):
    """The brokers of `ForeignLab`, each a unit of its host's systemd."""

    restart: str = "no"
    """`Restart=` of the unit."""
    groups: str = field(default_factory=lambda: f"acked-{secrets.token_hex(4)}")
    """How the names of its control groups begin."""
    booted: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start_command(self, name: str) -> str:
        """That of an operator."""
        return "systemctl start kafka"

    def inside(self, name: str, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command where systemd is the first process."""
        (first,) = subprocess.run(
            ["pgrep", "-P", str(self.booted[name].pid)], capture_output=True, text=True, check=True
        ).stdout.split()
        argv = ["nsenter", "-t", first, "-a", "-r", *command]
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    def _launch(self, name: str, command: Sequence[str]) -> None:
        units = self.folder / "units" / name
        units.mkdir(parents=True)
        output = self.home(name) / "out.log"
        unit = _UNIT.format(command=shlex.join(command), output=output, restart=self.restart)
        (units / "kafka.service").write_text(unit)
        (units / "kafka.target").write_text(_TARGET)
        mounts = self.folder / "roots" / name
        mounts.mkdir(parents=True)
        given = (mounts, self.folder, units, f"{self.groups}-{name}")
        boot = ["sh", "-c", _BOOT, "boot", *map(str, given)]
        own = ("unshare", "--mount", "--uts", "--ipc")
        self.booted[name] = subprocess.Popen(
            ["nsenter", f"--net={NAMESPACE_DIR / name}", "--", *own, *boot],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / f"systemd.{name}.log").open("ab"),
            start_new_session=True,
        )
        wait_until(
            lambda: self.inside(name, "systemctl", "is-system-running").stdout.strip(),
            accept=lambda state: state in ("running", "degraded"),
            within_s=30,
            awaiting=f"systemd in {name}",
            ignoring=(ValueError, subprocess.CalledProcessError),
        )

    def _down(self) -> None:
        for process in self.booted.values():
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for name in self.booted:
            group = (str(self.folder / "roots" / name), f"{self.groups}-{name}")
            tidy = ["unshare", "--mount", "sh", "-c", _TIDY, "tidy", *group]
            wait_until(
                lambda tidy=tidy: not subprocess.run(tidy, capture_output=True).returncode,  # type: ignore[misc]
                within_s=10,
                awaiting=f"the end of all processes of {name}",
            )
        super()._down()


@dataclass(kw_only=True)
class SystemdSshHosts(SshHosts):
    """An sshd in each host that systemd has started. The folder must be one within that of the cluster."""

    cluster: SystemdCluster

    def __post_init__(self) -> None:
        """Of this machine's /tmp, such a host sees nothing."""
        self.keys_in = self.folder

    def start(self, host: Host, settings: str = "") -> None:
        """Start it as a unit, and wait until it listens."""
        argv = self.server(host, settings)
        done = self.cluster.inside(
            host.name, "systemd-run", "--unit=ssh", "-p", "DefaultDependencies=no", *argv
        )
        assert done.returncode == 0, done.stderr
        self.wait_listening(host)

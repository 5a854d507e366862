"""Probes of what the kernel allows inside a lab's namespaces. Each tries the real thing, in new namespaces.

`harness.doctor` runs this module as `python -m harness.kernel_probes NAME...`. It prints a JSON object: the
problem of each probe by name, empty if there is none. Everything that a probe makes disappears with its
namespaces, when the process ends.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from harness import tools
from harness.errors import AckedError
from harness.lab.embedded.namespaces import run_inside

SHUTDOWN_IOCTL = 0x8004587D
"""`EXT4_IOC_SHUTDOWN`, the same as `XFS_IOC_GOINGDOWN`."""
NO_LOG_FLUSH = 2
"""Its argument (`EXT4_GOING_FLAGS_NOLOGFLUSH`): neither the journal nor data is flushed."""


class _Refused(Exception):
    """A probe failed; the message says why."""


def _run(*command: str, stdin: str = "", keep_open: Sequence[int] = ()) -> None:
    try:
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
            pass_fds=tuple(keep_open),
        )
    except FileNotFoundError:
        raise _Refused(tools.not_installed(command[0])) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _Refused(f"{command[0]}: {error}") from None
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}").splitlines()
        error_line = next((line for line in lines if "Error" in line), lines[-1])
        raise _Refused(f"{command[0]}: {error_line}")


def _namespaces() -> None:
    """Nothing to try: this runs only if the namespaces could be made."""


def _iproute2() -> None:
    _run("ip", "netns", "add", "probe")
    _run("ip", "link", "add", "v-probe", "type", "veth", "peer", "name", "eth0", "netns", "probe")
    _run("ip", "link", "add", "lan-probe", "type", "bridge")


def _iptables(*match: str) -> Callable[[], None]:
    rule = " ".join(("-A INPUT -p tcp", *match))
    return lambda: _run("iptables-restore", "--noflush", stdin=f"*filter\n{rule}\nCOMMIT\n")


def _qdisc(*words: str) -> Callable[[], None]:
    def add() -> None:
        _run("tc", "qdisc", "add", "dev", "lo", "root", *words)
        _run("tc", "qdisc", "del", "dev", "lo", "root")

    return add


def _need(*programs: str) -> None:
    if problem := tools.missing(*programs):
        raise _Refused(problem)


def _loop_disk(kind: str, size_mb: int, *options: str) -> Callable[[], None]:
    """A file system in a file, shut down as if the power had failed."""

    def cut() -> None:
        _need(f"mkfs.{kind}", "mount", "umount")
        if not Path("/dev/loop-control").exists():
            raise _Refused("there is no /dev/loop-control")
        _run("mount", "-t", "tmpfs", "tmpfs", "/mnt")
        try:
            image, place = Path("/mnt/image"), Path("/mnt/disk")
            place.mkdir()
            with image.open("wb") as file:
                file.truncate(size_mb << 20)
            _run(f"mkfs.{kind}", "-q", *options, str(image))
            _run("mount", "-t", kind, "-o", "loop", str(image), str(place))  # the loop goes with the mount
            try:
                _shut_down(kind, place)
            finally:
                _run("umount", str(place))
        finally:
            _run("umount", "/mnt")

    return cut


def _shut_down(kind: str, place: Path) -> None:
    folder = os.open(place, os.O_RDONLY)
    try:
        fcntl.ioctl(folder, SHUTDOWN_IOCTL, NO_LOG_FLUSH.to_bytes(4, sys.byteorder))
    except OSError as error:
        raise _Refused(f"the shutdown ioctl of {kind} fails: {error.strerror}") from None
    finally:
        os.close(folder)


def _fuse() -> None:
    """Mount a file system that no process serves, and unmount it."""
    _need("libfuse", "mount", "umount")
    try:
        device = os.open("/dev/fuse", os.O_RDWR)
    except OSError as error:
        raise _Refused(f"/dev/fuse: {error.strerror}") from None
    try:
        options = f"fd={device},rootmode=40000,user_id=0,group_id=0"
        _run("mount", "-i", "-t", "fuse", "-o", options, "acked-probe", "/mnt", keep_open=(device,))
    finally:
        os.close(device)
    _run("umount", "--lazy", "/mnt")


PROBES: Mapping[str, Callable[[], None]] = {
    "namespaces": _namespaces,
    "iproute2": _iproute2,
    "iptables": _iptables("-m comment --comment probe -j DROP"),
    "iptables-reject": _iptables("-j REJECT --reject-with tcp-reset"),
    "iptables-statistic": _iptables("-m statistic --mode random --probability 0.5 -j DROP"),
    "tbf": _qdisc("tbf", "rate", "1mbit", "burst", "32kbit", "latency", "400ms"),
    "netem": _qdisc("netem", "delay", "10ms"),
    "fuse": _fuse,
    "ext4": _loop_disk("ext4", 32, "-F"),
    "xfs": _loop_disk("xfs", 320),
}
"""Probes by the name of their check in `harness.doctor`."""


def _probe(names: Sequence[str]) -> int:
    problems = {}
    for name in names:
        try:
            PROBES[name]()
            problems[name] = ""
        except _Refused as error:
            problems[name] = str(error)
    sys.stdout.write(json.dumps(problems))
    return 0


def main(names: list[str]) -> int:
    """Run the probes ``names`` and print their problems."""
    try:
        return run_inside(lambda: _probe(names))
    except AckedError as error:
        sys.stderr.write(f"{error.message}\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

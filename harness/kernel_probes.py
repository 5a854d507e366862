"""What the kernel allows inside a lab's namespaces: each thing really tried, in throw-away namespaces.

`harness.doctor` runs it as `python -m harness.kernel_probes NAME...`. It prints one JSON object, name →
problem (empty where it works). Everything it tries ends with the process, because the namespaces do.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from harness.errors import AckedError
from harness.lab.embedded.namespaces import run_inside

_SHUTDOWN_IOCTL, _NO_LOG_FLUSH = 0x8004587D, 2


class _Refused(Exception):
    """A command said no; the message is its last line."""


def _run(*command: str, stdin: str = "") -> None:
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=5, check=False)
    except FileNotFoundError:
        raise _Refused(f"{command[0]} is not installed") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _Refused(f"{command[0]}: {error}") from None
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}").splitlines()
        said = next((line for line in lines if "Error" in line), lines[-1])
        raise _Refused(f"{command[0]}: {said}")


def _namespaces() -> None:
    """Reached only when the namespaces were made."""


def _iproute2() -> None:
    _run("ip", "netns", "add", "probe")
    _run("ip", "link", "add", "v-probe", "type", "veth", "peer", "name", "eth0", "netns", "probe")
    _run("ip", "link", "add", "lan-probe", "type", "bridge")


def _iptables(*match: str) -> Callable[[], None]:
    rule = " ".join(("-A OUTPUT -p tcp", *match))
    return lambda: _run("iptables-restore", "--noflush", stdin=f"*filter\n{rule}\nCOMMIT\n")


def _qdisc(*words: str) -> Callable[[], None]:
    def add() -> None:
        _run("tc", "qdisc", "add", "dev", "lo", "root", *words)
        _run("tc", "qdisc", "del", "dev", "lo", "root")

    return add


def _power_cut() -> None:
    """A file system in a file that can be shut down as if the power failed."""
    if not Path("/dev/loop-control").exists():
        raise _Refused("there is no /dev/loop-control")
    _run("mount", "-t", "tmpfs", "tmpfs", "/mnt")
    image, place = Path("/mnt/image"), Path("/mnt/disk")
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(32 << 20)
    _run("mkfs.ext4", "-q", "-F", str(image))
    _run("mount", "-o", "loop", str(image), str(place))  # the loop device goes with the mount
    try:
        folder = os.open(place, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, _SHUTDOWN_IOCTL, _NO_LOG_FLUSH.to_bytes(4, sys.byteorder))
        except OSError as error:
            raise _Refused(f"the shutdown ioctl of ext4 answers {error.strerror}") from None
        finally:
            os.close(folder)
    finally:
        _run("umount", str(place))


def _fuse() -> None:
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        raise _Refused(f"/dev/fuse: {error.strerror}") from None


PROBES: Mapping[str, Callable[[], None]] = {
    "namespaces": _namespaces,
    "iproute2": _iproute2,
    "iptables": _iptables("-m comment --comment probe -j DROP"),
    "iptables-reject": _iptables("-j REJECT --reject-with tcp-reset"),
    "iptables-statistic": _iptables("-m statistic --mode random --probability 0.5 -j DROP"),
    "tbf": _qdisc("tbf", "rate", "1mbit", "burst", "32kbit", "latency", "400ms"),
    "netem": _qdisc("netem", "delay", "10ms"),
    "power-cut": _power_cut,
    "fuse": _fuse,
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
    """Probe each of ``names``."""
    try:
        return run_inside(lambda: _probe(names))
    except AckedError as error:
        sys.stderr.write(f"{error.message}\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

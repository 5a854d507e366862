"""What this machine can do. Every check tries the real thing, in under three seconds, and cleans up."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from harness import tools
from harness.artifacts.builds import read_home
from harness.artifacts.cache import cache_dir, writable
from harness.artifacts.java import INSTALL, MIN_JAVA, find_java
from harness.clock import Anchor
from harness.errors import UnfitError, UsageError
from harness.extras import EXTRAS, install, missing
from harness.host_files import Folder
from harness.kernel_probes import PROBES
from harness.lab.host_clock import SHIFT, preloading, write_shift
from harness.lab.registry import lab_kind

GIB = 1 << 30
MIN_DISK_BYTES, MIN_MEMORY_BYTES = 3 * GIB, 2 * GIB
_DAY_S, _BUSY_S = 86_400, 60
_EVERY_LAB = ("python", "packages", "java", "cache", "disk-space", "memory")

_APT = "sudo apt-get install -y"
_KERNEL = "sudo modprobe {1}; if that fails, use a kernel with CONFIG_{0}"
_REMEDIES = {
    "iproute2": f"{_APT} iproute2",
    "iptables": f"{_APT} iptables",
    "iptables-reject": _KERNEL.format("NFT_REJECT, CONFIG_IP_NF_TARGET_REJECT", "ipt_REJECT"),
    "iptables-statistic": _KERNEL.format("NETFILTER_XT_MATCH_STATISTIC", "xt_statistic"),
    "tbf": _KERNEL.format("NET_SCH_TBF", "sch_tbf"),
    "netem": _KERNEL.format("NET_SCH_NETEM", "sch_netem"),
    "fuse": f"{_APT} mount fuse3; then run as root, or sudo chmod 666 /dev/fuse",
    "ext4": f"{_APT} mount e2fsprogs; then run as root where the kernel has loop devices",
    "xfs": f"{_APT} mount xfsprogs; then run as root where the kernel has loop devices and xfs",
    "libfaketime": f"{_APT} libfaketime",
}
_NEEDED = {
    "python": "everything",
    "packages": "running clusters and judging",
    "java": "Kafka and Spark",
    "cache": "Kafka's jars",
    "disk-space": "run folders and the cache",
    "memory": "a cluster of six Java processes",
    "namespaces": "the embedded lab",
    "iproute2": "the embedded lab",
    "iptables": "the embedded lab, link faults",
    "iptables-reject": "link faults that refuse connections instead of dropping packets",
    "iptables-statistic": "the fault that drops a percentage of the packets",
    "tbf": "the fault that limits the rate of a link",
    "netem": "the fault that delays a link",
    "fuse": "power cuts (emulated if fuse, ext4 and xfs are all missing)",
    "ext4": "power cuts on a real file system",
    "xfs": "power cuts on a real file system",
    "libfaketime": "the fault that shifts the clock of a process",
    "docker-engine": "the compose lab",
    "docker-compose": "the compose lab",
}
CHECKS = tuple(_NEEDED)
"""Names of all checks, in display order."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """The result of one check. ``found`` is what is there, or what went wrong."""

    name: str
    ok: bool
    found: str
    remedy: str
    needed_for: str


def diagnose(names: Collection[str] = CHECKS) -> list[Check]:
    """Run the checks ``names`` (default: all); returns them in the order of `CHECKS`."""
    unknown = sorted(set(names) - set(CHECKS))
    if unknown:
        raise ValueError(f"no such check: {', '.join(unknown)}")
    selected = [name for name in CHECKS if name in names]
    with ThreadPoolExecutor() as pool:
        inside = pool.submit(_inside, [name for name in selected if name in PROBES])
        outside = {name: pool.submit(_OUTSIDE[name]) for name in selected if name in _OUTSIDE}
        results = {**inside.result(), **{name: future.result() for name, future in outside.items()}}
    return [
        Check(name=name, ok=ok, found=what, remedy=remedy, needed_for=_NEEDED[name])
        for name, (ok, what, remedy) in ((name, results[name]) for name in selected)
    ]


def kafka_home(home: Path) -> Check:
    """Whether a folder holds all that a run with `--kafka-home` needs."""
    try:
        version, jars = read_home(home)
    except UsageError as error:
        description, _, remedy = error.message.rstrip(".").partition("; ")
        ok = False
    else:
        ok, description, remedy = True, f"Kafka {version}, {len(jars)} jars in {jars[0].parent}", ""
    return Check(
        name="kafka-home", ok=ok, found=description, remedy=remedy, needed_for="runs with --kafka-home"
    )


def require(names: Iterable[str]) -> None:
    """Raise UnfitError if one of the checks ``names`` fails."""
    missing = [check for check in diagnose(tuple(names)) if not check.ok]
    if missing:
        first = missing[0]
        also = f" (also missing: {', '.join(check.name for check in missing[1:])})" if missing[1:] else ""
        raise UnfitError(
            f"The check {first.name} failed ({first.found}), and is needed for {first.needed_for}; remedy: "
            f"{first.remedy}{also}; `acked doctor` shows more."
        )


def required(lab: str) -> tuple[str, ...]:
    """The checks that a kind of lab requires; the others are for single faults. Raises UsageError."""
    return (*_EVERY_LAB, *lab_kind(lab).requires)


def missing_for(lab: str, checks: Iterable[Check]) -> list[str]:
    """The checks that a lab requires and that have failed."""
    names = required(lab)
    return [check.name for check in checks if check.name in names and not check.ok]


_Found = tuple[bool, str, str]
"""ok, found, remedy."""


def _inside(names: list[str]) -> dict[str, _Found]:
    """The checks that need namespaces, all in one process."""
    if not names:
        return {}
    command = [sys.executable, "-m", "harness.kernel_probes", *names]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return dict.fromkeys(names, (False, "the probe did not end within 20 s", "see the kernel's log"))
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or [f"the probe ended with status {done.returncode}"])[-1]
        remedy = _namespace_remedy()
        refused = {name: (False, "not tried: this machine refuses namespaces", remedy) for name in names}
        return {**refused, "namespaces": (False, reason, remedy)} if "namespaces" in names else refused
    problems: dict[str, str] = json.loads(done.stdout)
    return {
        name: (not problem, problem or "works", "" if not problem else _REMEDIES.get(name, ""))
        for name, problem in problems.items()
    }


_SYSCTLS = {
    "kernel.apparmor_restrict_unprivileged_userns": ("1", "0"),
    "kernel.unprivileged_userns_clone": ("0", "1"),
    "user.max_user_namespaces": ("0", "10000"),
    "user.max_net_namespaces": ("0", "10000"),
}
"""Kernel settings that can forbid namespaces: the value that forbids them and one that allows them."""


def _namespace_remedy(proc: Path = Path("/proc/sys")) -> str:
    sets = []
    for name, (refusing, allowing) in _SYSCTLS.items():
        try:
            value = (proc / name.replace(".", "/")).read_text().strip()
        except OSError:
            continue
        if value == refusing and not (os.getuid() == 0 and "user" in name.partition(".")[2]):
            sets.append(f"{name}={allowing}")
    if sets:
        return f"sudo sysctl -w {' '.join(sets)}"
    return "run as root; in a container, give it CAP_SYS_ADMIN and an unmasked /proc"


def _python() -> _Found:
    version = ".".join(str(part) for part in sys.version_info[:3])
    return sys.version_info >= (3, 11), f"{version} at {sys.executable}", f"{_APT} python3.11"


def _packages() -> _Found:
    lacking = missing("lab")
    description = f"not installed: {', '.join(lacking)}" if lacking else "all installed"
    return not lacking, description, install("check" if not set(lacking) - set(EXTRAS["check"]) else "lab")


def _java() -> _Found:
    try:
        java = find_java()
    except UnfitError as error:
        return False, error.message, INSTALL
    return True, f"{java.version} at {java.path}", f"Java {MIN_JAVA} or newer"


def _cache() -> _Found:
    try:
        folder = writable(cache_dir())
    except UnfitError as error:
        return False, error.message, "set ACKED_CACHE to a folder that can be written"
    kept = sorted(entry.name.removeprefix("kafka-") for entry in folder.glob("kafka-*"))
    return True, f"{folder}, holds {', '.join(kept) or 'nothing yet'}", ""


def _disk_space() -> _Found:
    free = shutil.disk_usage(Path.cwd()).free
    return free >= MIN_DISK_BYTES, f"{free / GIB:.1f} GiB free here", f"free {MIN_DISK_BYTES // GIB} GiB"


def available_gib() -> float:
    """Memory that new processes may use, by the kernel's estimate."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    kib = next((int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), 0)
    return kib * 1024 / GIB


def _memory() -> _Found:
    available, least = available_gib(), MIN_MEMORY_BYTES // GIB
    return available >= least, f"{available:.1f} GiB available", f"have {least} GiB available"


def _libfaketime() -> _Found:
    """Ask a program for the time with a shift of a day."""
    library, remedy = tools.libfaketime(), _REMEDIES["libfaketime"]
    if library is None:
        return False, tools.not_installed("libfaketime"), remedy
    with tempfile.TemporaryDirectory() as folder:
        write_shift(Folder(Path(folder)), _DAY_S)
        environment = {**os.environ, **preloading(library, Path(folder) / SHIFT)}
        command = [sys.executable, "-c", "import time; print(time.time())"]
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=5, check=True
            )
            ahead_s = float(done.stdout) - Anchor.take().wall_ns / 1e9
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            return False, f"a process that preloads {library} fails: {error}", remedy
    shifted = abs(ahead_s - _DAY_S) < _BUSY_S
    return shifted, "works" if shifted else f"{library} does not shift the time of a process", remedy


def _docker_engine() -> _Found:
    if "docker" in missing("lab"):
        return False, "the Python package docker is not installed", install("lab")
    from harness.lab.docker import engine as docker_engine  # a tenth of a second that other labs save

    try:
        client = docker_engine.connect()
    except UnfitError as error:
        return (
            False,
            error.message.split("; ")[0],
            f"{_APT} docker.io, then start it, or: sudo compose/engine.sh start",
        )
    version = client.version()
    client.close()
    return True, f"engine {version['Version']}, API {version['ApiVersion']}", ""


def _docker_compose() -> _Found:
    if "docker" in missing("lab"):
        return False, "the Python package docker is not installed", install("lab")
    from harness.lab.docker import engine as docker_engine

    try:
        command = docker_engine.compose_command()
    except UnfitError as error:
        return (
            False,
            error.message.split("; ")[0],
            f"{_APT} docker-compose, or the Compose plugin of your Docker",
        )
    return True, f"`{' '.join(command)}` works", ""


_OUTSIDE: Mapping[str, Callable[[], _Found]] = {
    "python": _python,
    "packages": _packages,
    "java": _java,
    "cache": _cache,
    "disk-space": _disk_space,
    "memory": _memory,
    "libfaketime": _libfaketime,
    "docker-engine": _docker_engine,
    "docker-compose": _docker_compose,
}

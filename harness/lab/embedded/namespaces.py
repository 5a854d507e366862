"""Entering new namespaces, so that the kernel cleans up however the harness ends.

Process tree: the caller → the process that enters → an init (PID 1 of the new PID namespace, reaps orphans) →
the harness. If any of the four dies, the kernel ends every process of the PID namespace, and with the last of
them the network namespaces, interfaces, rules and mounts disappear. Root keeps its real privileges (loop
devices need them); an ordinary user, or root of a container, gets privileges inside a user namespace.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from harness.errors import EXIT_CRASHED, EXIT_INTERRUPTED, UnfitError, as_printed, crashed

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
_MS_REC_PRIVATE = 0x4000 | (1 << 18)
_MS_BIND = 4096
_PR_SET_PDEATHSIG = 1
_CAP_SYS_ADMIN = 21

_libc = ctypes.CDLL(None, use_errno=True)

NAMESPACE_DIR = Path("/run/netns")
_SBIN = "/usr/sbin:/sbin"
"""Folders of iptables and tc, which ordinary users of Debian do not have on their path."""


def _call(what: str, result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _mount(source: str, target: str, kind: str, flags: int = 0) -> None:
    call = _libc.mount(source.encode(), target.encode(), kind.encode(), flags, None)
    _call(f"mount {kind or source} on {target}", call)


def _privileged() -> bool:
    """Whether this process may create namespaces by itself; root of a container often may not."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> _CAP_SYS_ADMIN & 1)
    return os.geteuid() == 0


def _unshare() -> None:
    user, group, privileged = os.getuid(), os.getgid(), _privileged()
    flags = CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID | (0 if privileged else CLONE_NEWUSER)
    try:
        _call("unshare", _libc.unshare(flags))
        if not privileged:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"0 {user} 1")
            Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    except OSError as error:
        if error.errno == errno.ENOSPC:
            hint = "raise user.max_user_namespaces and user.max_net_namespaces with sysctl"
        else:
            hint = (
                "allow them (sysctl kernel.unprivileged_userns_clone=1, on Ubuntu also "
                "kernel.apparmor_restrict_unprivileged_userns=0), or run as root"
            )
        raise UnfitError(
            f"The embedded lab needs user, network, PID and mount namespaces, and this machine refuses "
            f"them to uid {user} ({error.strerror}): {hint}; `acked doctor` shows more."
        ) from error


def _own_mounts() -> None:
    try:
        _call("mount private", _libc.mount(None, b"/", None, _MS_REC_PRIVATE, None))
        _mount("proc", "/proc", "proc")
        _mount("tmpfs", "/run", "tmpfs")
    except OSError as error:
        raise UnfitError(
            f"The embedded lab could not set up its own mounts ({error.strerror}); inside a container it "
            f"needs an unmasked /proc and CAP_SYS_ADMIN; `acked doctor` shows more."
        ) from error
    NAMESPACE_DIR.mkdir()


def own_shared_memory(run_dir: Path) -> None:
    """Give the processes of this namespace a `/dev/shm` of their own, which ends with them.

    Files in it that are named after process ids then belong to them alone. Raises UnfitError if it would hide
    the run's folder.
    """
    shared_memory = Path("/dev/shm")
    if run_dir.resolve().is_relative_to(shared_memory):
        raise UnfitError(
            f"{run_dir} lies below {shared_memory}, which a run with clocks of its own hides; name another "
            "folder with --runs."
        )
    if shared_memory.is_dir():
        try:
            _mount("tmpfs", str(shared_memory), "tmpfs")
        except OSError as error:
            raise UnfitError(f"{shared_memory} cannot be mounted anew ({error.strerror}).") from error


def own_hosts_file(path: Path) -> None:
    """Let the processes of this namespace look host names up in a file of their own."""
    try:
        _mount(str(path), "/etc/hosts", "", _MS_BIND)
    except OSError as error:
        raise UnfitError(f"{path} cannot be mounted on /etc/hosts ({error.strerror}).") from error


def _wait_for(child: int) -> int:
    """Forward termination signals to a child and return its exit status; Ctrl-C reaches it anyway."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _frame: os.kill(child, received))
    while True:  # as PID 1 of the namespace, reap every orphan too
        pid, wait_status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(wait_status)
            return 128 - code if code < 0 else code


def _fork(work: Callable[[], int]) -> int:
    """Run ``work`` in a child that dies with this process; returns its exit status."""
    alive_read, alive_write = os.pipe()
    child = os.fork()
    if not child:

        def begin() -> int:
            os.close(alive_write)
            os.set_blocking(alive_read, False)
            _parent_pipe.append(alive_read)
            die_with_parent()
            return work()

        leave_with(begin)
    os.close(alive_read)
    status = _wait_for(child)
    os.close(alive_write)
    return status


def leave_with(work: Callable[[], int]) -> NoReturn:
    """Do the work of a forked process and exit with its status: no frame above it may run twice."""
    status = EXIT_CRASHED
    try:
        status = work()
    except UnfitError as error:
        sys.stderr.write(as_printed(error))
        status = error.exit_code
    except KeyboardInterrupt:
        status = EXIT_INTERRUPTED  # the waiting process reports it
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else EXIT_CRASHED
    except BaseException as error:  # noqa: BLE001 - the last frame of this process: show it and leave
        sys.stderr.write(as_printed(crashed(error)))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


_parent_pipe: list[int] = []
"""Read ends of pipes that only our ancestors hold open; end of file means that the parent is gone."""


def die_with_parent() -> None:
    """Have the kernel SIGKILL this process when its parent dies, even if that has just happened."""
    _call("prctl", _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
    if any(_at_end(pipe) for pipe in _parent_pipe):
        os._exit(EXIT_CRASHED)


def with_parent(command: Sequence[str]) -> list[str]:
    """The command, for a process that the kernel ends when the thread that starts it does."""
    return ["setpriv", "--pdeathsig", "KILL", "--", *command] if shutil.which("setpriv") else [*command]


def enter_network(namespace: Path) -> None:
    """Move this process into a network namespace. Raises OSError."""
    opened = os.open(namespace, os.O_RDONLY)
    try:
        _call("setns", _libc.setns(opened, CLONE_NEWNET))
    finally:
        os.close(opened)


def run_inside(harness: Callable[[], int]) -> int:
    """Run ``harness`` inside new namespaces and return its exit status (3 if the kernel refuses them).

    The first child has one thread, whatever libraries the caller has loaded: a user namespace needs that.
    """
    sys.stdout.flush()
    sys.stderr.flush()

    def start() -> int:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ["PATH"] = f"{os.environ.get('PATH', '/usr/bin:/bin')}:{_SBIN}"
        return harness()

    def init() -> int:
        _own_mounts()
        return _fork(start)

    def enter() -> int:
        _unshare()
        die_with_parent()  # entering a user namespace has cancelled the first request
        return _fork(init)

    return _fork(enter)


def _at_end(pipe: int) -> bool:
    try:
        return os.read(pipe, 1) == b""
    except BlockingIOError:
        return False

"""A shell in a host over the OpenSSH client: commands go to its standard input, one after the other.

Connection, keys, jump hosts and known hosts are those of the user's `ssh`. The remote side is a POSIX `sh`:
nothing has to be installed, and no file is written. What the login prints before the shell answers (banners,
output of rc files) is skipped.
"""

from __future__ import annotations

import io
import os
import re
import secrets
import select
import shlex
import subprocess
import tempfile
import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, cast

from harness.errors import LabError, UnfitError, quoted
from harness.lab.hosts.shipped import reader
from harness.lab.model import Control, Pipe, Result

_FOUND = "ACKED-PYTHON"
_PYTHON = f"""for p in python3 /usr/libexec/platform-python python; do
if $p -c 'import sys; sys.exit(sys.version_info < (3, 6))' </dev/null >/dev/null 2>&1
then echo {_FOUND} $p; exec $p -u -c {{read}}; fi; done; echo {_FOUND}; exit 1"""
CONNECT_S = 30.0
"""How long a login may take, slow rc files included."""
_OPTIONS = (
    *("-T", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "LogLevel=ERROR"),
    *("-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=3", "-o", "ServerAliveCountMax=3"),
)
"""Nobody is asked for a password, an unknown host key is refused, and a dead connection is noticed in 9 s."""
_PRELUDE = """PATH=$PATH:/usr/sbin:/sbin:/usr/local/sbin; LC_ALL=C; export PATH LC_ALL
if [ -d /run/systemd/system ] && [ "$(id -u)" = 0 ] && command -v systemd-run >/dev/null 2>&1
then ACKED_DETACH='setsid systemd-run --scope --quiet'; export ACKED_DETACH; fi
"""
# The end of a login may end its background processes (KillUserProcesses); those in a scope of their own stay.
_REASONS = (
    ("host key", "its host key is not known; log in once with ssh yourself and compare the key"),
    (
        "permission denied",
        "it accepts no key of yours; load it into your ssh-agent, or name it in ssh's config",
    ),
    ("resolve", "its name is not known; correct `ssh`, or add the host to ssh's config"),
    ("refused", "no sshd answers there; correct `ssh`, or the port in ssh's config"),
    ("timed out", "nothing answers there; see whether this machine reaches it"),
    ("password is required", "sudo asks for a password; allow it with NOPASSWD, or change `become`"),
    ("not allowed", "sudo refuses it; allow it with NOPASSWD, or change `become`"),
    ("not in the sudoers", "sudo refuses it; allow it with NOPASSWD, or change `become`"),
    ("sudo: not found", "it has no sudo; log in as root, or change `become`"),
)
"""What ssh and sudo say, in lower case, and what it means."""


@dataclass(frozen=True, kw_only=True)
class SshTarget:
    """How a host is reached."""

    destination: str
    """As `ssh` takes it: a name of the user's configuration, or `user@address`."""
    user: str = ""
    become: tuple[str, ...] = ()
    """What is put before `sh` to become root, such as `sudo -n`; empty: the login is root's."""
    config: Path | None = None
    """Instead of the user's own configuration."""
    shared: bool = True
    """Whether a connection that the user's ControlMaster keeps may be used."""

    @property
    def title(self) -> str:
        """The command, for people."""
        return f"ssh {self.destination}"

    def shell(self, host: str) -> SshShell:
        """A login that is not made yet."""
        return SshShell(host, self)

    def limited(self, abilities: Collection[str]) -> SshTarget:
        """The same: rights are those of the login."""
        return self

    def apart(self) -> SshTarget:
        """The same, without a connection that the user's ControlMaster keeps."""
        return replace(self, shared=False)

    def guard(self) -> None:
        """None: watchdogs outlive the login."""

    def argv(self, remote: str) -> list[str]:
        """The command that runs ``remote`` there."""
        options = list(_OPTIONS)
        if self.config is not None:
            options += ["-F", str(self.config)]
        if self.user:
            options += ["-l", self.user]
        if not self.shared:
            options += ["-o", "ControlMaster=no", "-o", "ControlPath=none"]
        return ["ssh", *options, "--", self.destination, remote]


@dataclass(frozen=True, kw_only=True)
class Login:
    """What a host tells about a connection to it."""

    uid: int
    """Of the shell; 0 if it may do everything."""
    client: str = ""
    """The address that the host sees the harness come from; empty if it does not tell."""
    server: str = ""
    port: int = 0
    """Where sshd has accepted the connection."""


class SshShell:
    """One shell in a host; satisfies `HostShell`. Commands of several threads wait for each other."""

    def __init__(self, host: str, target: SshTarget) -> None:
        """``host`` is its name in messages. `run` connects; so does `connect`."""
        self.host = host
        self._target = target
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None
        self._left = b""
        self._lock = threading.RLock()
        self._nonce, self._number = secrets.token_hex(4), 0
        self.login = Login(uid=-1)

    def connect(self) -> Login:
        """Log in, unless it is done. Raises UnfitError if that is not possible."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return self.login
            self.close()
            from_, hello = f"ACKED-FROM-{self._nonce}", f"ACKED-HELLO-{self._nonce}"
            shell = shlex.join([*self._target.become, "sh"])
            remote = f'echo; echo "{from_} $SSH_CONNECTION"; exec {shell}'
            self._said = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the connection
            try:
                self._process = subprocess.Popen(
                    self._target.argv(f"sh -c {shlex.quote(remote)}"),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._said,
                    bufsize=0,
                    start_new_session=True,  # Ctrl-C is for the harness, which heals over this connection
                )
            except FileNotFoundError:
                raise UnfitError("There is no ssh on the path; install the OpenSSH client.") from None
            self._left = b""
            self._write(f'{_PRELUDE}echo; echo "{hello} $(id -u)"\n')
            lines = self._lines_until(hello, time.monotonic() + CONNECT_S, connecting=True)
            ends = next((line.split()[1:] for line in lines if line.startswith(from_)), [])
            uid = int(lines[-1].split()[1])
            self.login = Login(uid=uid)
            if len(ends) == 4 and ends[3].isdigit():
                self.login = Login(uid=uid, client=ends[0], server=ends[2], port=int(ends[3]))
            return self.login

    def reach(self) -> Control:
        """Log in. Raises UnfitError if the login is not root's."""
        login = self.connect()
        if login.uid != 0:
            raise UnfitError(
                f"The login on {self.host} is not root's (uid {login.uid}), so it cannot change rules; set "
                'become = "sudo -n" in [ssh], or log in as root.'
            )
        if not login.port:
            raise UnfitError(
                f"{self.host} does not tell where its ssh connection comes from (SSH_CONNECTION), so no rule "
                "could spare it; log in by sshd itself."
            )
        return Control(login.client, login.server, login.port)

    def program(self, source: str) -> Pipe:
        """The program goes to the Python's standard input. Raises UnfitError if the host has no Python."""
        script = _PYTHON.format(read=shlex.quote(reader(source)))
        line, pipe = SshShell(self.host, self._target).become(script, _FOUND)
        if line == _FOUND:
            pipe.kill()
            pipe.wait(5.0)
            raise UnfitError(
                f"{self.host} has no Python 3.6 or newer, without which no cut can be proven there."
            )
        pipe.stdin.write(source)
        pipe.stdin.flush()
        return pipe

    def listener(self, port: int) -> tuple[str, int] | None:
        """As `ss` tells."""
        return listening(self.run(("ss", "-ltnp")).stdout, port)

    def lost(self) -> str:
        """Nothing: watchdogs outlive the login."""
        return ""

    def resume(self) -> tuple[str, ...]:
        """Nothing: it knows no process of the node."""
        return ()

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = 10.0) -> Result:
        """Run a command and wait for it; line ends at the end of its output are left out.

        Raises LabError if it does not end in time, or the connection is lost: the next command connects anew.
        """
        with self._lock:
            self.connect()
            self._number += 1
            mark = f"ACKED-{self._nonce}-{self._number}"
            pipe = ""
            if stdin:
                text = stdin if stdin.endswith("\n") else stdin + "\n"
                # No here-document, which some shells write to a file: the host's `/tmp` may be full.
                pipe = f"printf %s {shlex.quote(text)} | "
            command = f"{pipe}{shlex.join(argv)} 2>&4 3>&- 4>&-{'' if stdin else ' </dev/null'}"
            self._write(
                f'{{ e=$( {{ o=$({command}); printf \'%s\\n%s\\n\' "{mark}-B $?" "$o" >&3; }} 4>&1 ); '
                f"printf '%s\\n%s\\n%s\\n' {mark}-M \"$e\" {mark}-E; }} 3>&1\n"
            )
            lines = self._lines_until(f"{mark}-E", time.monotonic() + timeout_s)
        begin = next(number for number, line in enumerate(lines) if line.startswith(f"{mark}-B"))
        middle = lines.index(f"{mark}-M")
        status = int(lines[begin].split()[1])
        return Result(status, "\n".join(lines[begin + 1 : middle]), "\n".join(lines[middle + 1 : -1]))

    def become(self, script: str, ready: str, timeout_s: float = CONNECT_S) -> tuple[str, SshPipe]:
        """Give the shell a last script, which ends in `exec`; returns its line that begins with ``ready``.

        From then on the connection is the standard streams of what was executed.
        """
        with self._lock:
            self.connect()
            self._write(script + "\n")
            line = self._lines_until(ready, time.monotonic() + timeout_s)[-1]
            process, self._process = self._process, None
            assert process is not None
            return line, SshPipe(process)

    def close(self) -> None:
        """End the connection; the shell ends with its input."""
        with self._lock:
            process, self._process = self._process, None
            if process is not None:
                _end(process)
            if self._said is not None:
                self._said.close()
                self._said = None

    def _write(self, text: str) -> None:
        assert self._process is not None and self._process.stdin is not None
        data = memoryview(text.encode())
        try:
            while data:
                data = data[self._process.stdin.write(data) :]
        except OSError:
            return  # the reader finds out why

    def _lines_until(self, last: str, deadline: float, *, connecting: bool = False) -> list[str]:
        """Lines up to the first that begins with ``last``."""
        assert self._process is not None and self._process.stdout is not None
        lines: list[str] = []
        descriptor = self._process.stdout.fileno()
        while True:
            while b"\n" in self._left:
                line, _, self._left = self._left.partition(b"\n")
                lines.append(line.decode(errors="replace").rstrip("\r"))
                if lines[-1].startswith(last):
                    return lines
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not select.select([descriptor], [], [], left_s)[0]:
                self.close()
                raise LabError(
                    f"{self.host} ({self._target.title}) did not answer in time; the "
                    "connection was ended, and the next command makes another."
                )
            data = os.read(descriptor, 1 << 16)
            if not data:
                self._process.wait()
                said = self._last_words()
                self.close()
                raise (
                    self._refusal(said)
                    if connecting
                    else LabError(
                        f"The connection to {self.host} ({self._target.title}) has ended"
                        f"{f' ({said})' if said else ''}; what acked has changed there ends by itself."
                    )
                )
            self._left += data

    def _last_words(self) -> str:
        assert self._said is not None
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def _refusal(self, said: str) -> UnfitError:
        lower = said.lower()
        remedy = next((text for words, text in _REASONS if words in lower), "try `ssh` by hand")
        return UnfitError(
            f"{self.host} cannot be reached by `{self._target.title}` ({quoted(said, 80)}): {remedy}."
        )


class SshPipe:
    """The standard streams of a process in a host; satisfies `Pipe`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        """``process`` is the ssh client."""
        assert process.stdin is not None and process.stdout is not None
        self._process = process
        self._stdin = io.TextIOWrapper(io.BufferedWriter(process.stdin))
        self._stdout = io.TextIOWrapper(io.BufferedReader(cast(io.RawIOBase, process.stdout)))

    @property
    def stdin(self) -> IO[str]:
        """Writable text stream."""
        return self._stdin

    @property
    def stdout(self) -> IO[str]:
        """Readable text stream."""
        return self._stdout

    def poll(self) -> int | None:
        """Exit status of the connection, or None while it lasts."""
        return self._process.poll()

    def kill(self) -> None:
        """End the connection; the process ends with its input."""
        self._process.kill()

    def wait(self, timeout_s: float) -> int:
        """Wait for the end of the connection."""
        return self._process.wait(timeout_s)


def listening(table: str, port: int) -> tuple[str, int] | None:
    """Name and pid of the process that listens on a TCP port, from `ss -ltnp`."""
    for line in table.splitlines():
        words = line.split()
        if len(words) > 3 and words[0] == "LISTEN" and words[3].rpartition(":")[2] == str(port):
            found = re.search(r'users:\(\("([^"]+)",pid=(\d+)', line)
            return (found[1], int(found[2])) if found else None
    return None


def _end(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    try:
        process.wait(1.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

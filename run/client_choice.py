"""The client library of producers and consumers, by default librdkafka: `--client`, `--client-version`."""

from __future__ import annotations

import os
import selectors
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from harness.artifacts.java_client import java_client
from harness.errors import UsageError, quoted
from harness.kafka.model import Library
from harness.kafka.versions import KafkaVersion, kafka_version
from harness.lab.model import Lab
from harness.secrets import shown_arguments, shown_text
from workloads.protocol.lines import HELLO_S, LONGEST_LINE, Hello, parse_hello, quoted_line, shown
from workloads.protocol.spec import ClientProgram, Via


@dataclass(frozen=True, kw_only=True)
class ClientChoice:
    """A client library, as the user names it."""

    name: str = "librdkafka"
    """`librdkafka`, `java`, or the command line of a program that speaks the protocol."""
    version: str = ""
    """Version of the Java client; empty: that of the brokers."""

    @property
    def via(self) -> Via:
        """How producers and consumers name it."""
        return "librdkafka" if self.name == "librdkafka" else "java" if self.name == "java" else "program"

    @property
    def library(self) -> Library:
        """The library whose claims apply."""
        return "java" if self.via == "java" else "librdkafka"

    @property
    def text(self) -> str:
        """The choice as `parse_client` reads it."""
        return f"{self.name}@{self.version}" if self.version else self.name

    @property
    def label(self) -> str:
        """The choice in one word, for tables: `java@3.6.2`, or the file name of a program."""
        if self.via == "program":
            return " ".join(Path(word).name for word in shlex.split(self.name))
        return self.text


LIBRDKAFKA = ClientChoice()


def parse_client(text: str, version: str = "") -> ClientChoice:
    """What the user names: `librdkafka`, `java`, `java@3.9.1`, or a command line.

    Raises UsageError if there is no such program, and for a version of another client than `java`.
    """
    name, _, own = text.strip().partition("@")
    if name == "java":
        chosen_version = own or version
        if chosen_version:
            kafka_version(chosen_version, force=True)
        return ClientChoice(name=name, version=chosen_version)
    if version:
        raise UsageError(
            f"--client-version {version} is for --client java; "
            f"the client is {quoted(shown_text(text.strip().partition(' ')[0]))}."
        )
    if text.strip() == "librdkafka":
        return LIBRDKAFKA
    return ClientChoice(name=shlex.join(_command(text)))


def client_of(text: str) -> ClientChoice:
    """The client library that a plan, a job or a run names; empty: librdkafka. Raises UsageError."""
    return parse_client(text) if text else LIBRDKAFKA


def require_trusted(text: str, place: object, *, trust: bool) -> None:
    """Raise UsageError if a stored folder names a program as its client, unless the user trusts the folder.

    The folder may come from anybody, and the program would be started with the user's rights.
    """
    choice = client_of(text)
    if choice.via == "program" and not trust:
        raise UsageError(
            f"{place} names a client program, {quoted(choice.name)}, which would be started; "
            f"give --trust if you know it."
        )


def parse_clients(text: str) -> tuple[ClientChoice, ...]:
    """A comma-separated list. Raises UsageError."""
    choices = tuple(parse_client(word) for word in text.split(",") if word.strip())
    if not choices:
        raise UsageError(f"--clients {text!r} names no client; use librdkafka, java or a program.")
    return choices


def program(
    choice: ClientChoice,
    kafka: KafkaVersion,
    say: Callable[[str], None] = lambda text: None,
    *,
    streams: bool = False,
) -> ClientProgram | None:
    """The program of a choice; None for librdkafka, which needs none. Raises UsageError, UnfitError.

    With ``streams``, the Java client runs applications of Kafka Streams too.
    Compiles the Java client if the cache lacks it, and may download Kafka: call it before entering a lab.
    """
    if choice.via == "librdkafka":
        return None
    if choice.via == "java":
        version = kafka_version(choice.version, force=True) if choice.version else kafka
        made = java_client(version, streams=streams, say=say)
        return ClientProgram(via=choice.via, argv=made.argv, name=choice.name, version=made.version)
    return ClientProgram(via="program", argv=tuple(shlex.split(choice.name)), name=choice.label)


def inside(program: ClientProgram, lab: Lab, host: str) -> ClientProgram:
    """The program with the command line that starts it in a host.

    A container does not see the user's files, so those that the command line names are copied to the host's
    folder. The Java client lies in the artifact cache, which containers see. Containers have a Java of their
    own.
    """
    if lab.shares_files:
        return program
    argv = []
    for word in program.argv:
        file = Path(word)
        if program.via == "java" and file.is_absolute() and file.name == "java":
            argv.append("java")
            continue
        if "/" in word and file.is_file() and not file.is_relative_to("/usr"):
            copy = f"client-{file.name}"
            lab.files(host).put(file, copy)
            word = lab.inside(host, copy)
        argv.append(word)
    return replace(program, argv=tuple(argv))


def greet(program: ClientProgram, within_s: float = HELLO_S) -> Hello:
    """Start a program outside any lab, and read what it states about itself.

    Raises UsageError if it cannot be started, ends, or writes no greeting.
    """
    who = f"The client program {program.name}"
    with tempfile.TemporaryFile() as errors:  # a pipe that is full would stop the program
        try:
            process = subprocess.Popen(
                program.argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        except OSError as error:
            raise UsageError(f"{who} cannot be started: {error.strerror}.") from error
        try:
            line = _first_line(process, within_s)
            if line is None:
                raise UsageError(
                    f"{who} wrote nothing within {within_s:g} s of its start; its first line must be a hello "
                    f"(docs/client-protocol.md)."
                )
            if not line:
                raise UsageError(f"{who} {_end(process)}{_last_words(errors)}.")
            try:
                return parse_hello(line)
            except ValueError as error:
                raise UsageError(
                    f"{who} did not send the hello of docs/client-protocol.md: {error}; its "
                    f"first line is {quoted_line(line)}."
                ) from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # also what it has started itself
            with process:
                pass


def _first_line(process: subprocess.Popen[bytes], within_s: float) -> bytes | None:
    """The first line, not read further than it may be long; empty if the process ended; None: not in time."""
    assert process.stdout is not None
    deadline, line = time.monotonic() + within_s, bytearray()
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdout, selectors.EVENT_READ)
        while len(line) <= LONGEST_LINE:
            if not ready.select(max(0.0, deadline - time.monotonic())):
                return None
            more = process.stdout.read1(65536)  # type: ignore[attr-defined]  # a buffered pipe
            if not more:
                return b""
            rest, end, _ = more.partition(b"\n")
            line += rest
            if end:
                break
    return bytes(line)


def _end(process: subprocess.Popen[bytes]) -> str:
    try:
        return f"ended before its first line (exit status {process.wait(5.0)})"
    except subprocess.TimeoutExpired:
        return "closed its standard output before its first line"


def _last_words(errors: IO[bytes]) -> str:
    """The last line that a program has written to its standard error, with a colon before it."""
    errors.seek(max(0, errors.seek(0, os.SEEK_END) - LONGEST_LINE))
    last = errors.read().decode(errors="replace").strip().splitlines()[-1:]
    return f": {shown(last[0])}" if last else ""


def _command(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"--client {shown_text(text)!r} is not a command line: {error}.") from None
    if shown_arguments(words) != words:
        raise UsageError(
            f"--client {shlex.join(shown_arguments(words))}: every user of the machine can read the secret "
            f"in this command line; hand it to the program in a file or in the environment."
        )
    if not words:
        raise UsageError("--client is empty; use librdkafka, java, or a program that speaks the protocol.")
    executable = shutil.which(words[0])
    if executable is None:
        wrong = "is not executable" if Path(words[0]).is_file() else "is neither a file nor on the path"
        raise UsageError(
            f"--client: {quoted(words[0], 160)} {wrong}; use librdkafka, java, or a program that "
            f"speaks the client protocol."
        )
    words[0] = str(Path(executable).absolute())
    return [str(Path(word).absolute()) if Path(word).is_file() else word for word in words]

#!/usr/bin/env python3
"""Kafka's own VerifiableProducer and VerifiableConsumer as a program of the client protocol.

`verifiable.py VERSION JAVA... -cp CLASS_PATH` starts one JVM for each producer and each consumer, with the
given command line, the class of the tool, and the tool's options. The class path holds kafka-tools, its
dependencies, and `Feeder`, a plug-in of the producer that turns the tool's own messages into those of the
harness. This file imports only the standard library. It refuses what the tools cannot do: transactions,
assigned partitions, a consumer that does not commit. It leaves out what they do not print: the broker that
answered, the attempts, the leader epoch of a record, and times in ns.
"""

from __future__ import annotations

import base64
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
FEEDER = {"interceptor.classes": "Feeder", "partitioner.class": "Feeder$Leaders"}
_PAUSE_S = 0.1
"""Time between two requests for the leaders."""
_TAKEN = frozenset({"bootstrap.servers", "group.id", "session.timeout.ms", "enable.auto.commit"})
"""Properties of a consumer for which the tool has options, or which it sets itself."""
_output = threading.Lock()


def say(line: Mapping[str, Any]) -> None:
    """Write one line of the client protocol."""
    with _output:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def properties_file(properties: Mapping[str, str]) -> str:
    """The text of a file of Java properties."""
    lines = []
    for key, value in properties.items():
        escaped = value.replace("\\", "\\\\").replace("\n", "\\n")
        lines.append(f"{key}=" + "".join(c if c.isascii() else f"\\u{ord(c):04x}" for c in escaped))
    return "\n".join(lines) + "\n"


def simple_name(shown: str) -> str:
    """The class of an exception without its package: of `class a.b.C$D`, `D`."""
    return shown.removeprefix("class ").rpartition(".")[2].rpartition("$")[2]


class Tool:
    """One of the two tools, in a JVM of its own. Create it on the main thread: it dies with that thread."""

    def __init__(
        self,
        java: Sequence[str],
        main: str,
        options: Sequence[str],
        properties: Mapping[str, str],
        take: Callable[[dict[str, Any]], None],
    ) -> None:
        """``take`` gets the tool's lines, one after the other. ``properties`` never touch the disk."""
        self.name = main.rpartition(".")[2]
        self.started = threading.Event()
        """The tool has printed `startup_complete`, or ended."""
        self.ready = False
        self.ending = False
        self._take = take
        self._complaint = ""
        reading, writing = os.pipe()
        with os.fdopen(writing, "w") as file:
            file.write(properties_file(properties))
        kind = "producer" if main == PRODUCER else "consumer"
        command = [*java, main, *options, f"--{kind}.config", f"/dev/fd/{reading}"]
        wrapper = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
        try:
            self.process = subprocess.Popen(
                [*wrapper, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(reading,),
                encoding="utf-8",
                errors="replace",
            )
        finally:
            os.close(reading)
        self._readers = [
            threading.Thread(target=work, daemon=True) for work in (self._read_lines, self._read_errors)
        ]
        for reader in self._readers:
            reader.start()

    def end(self, within_s: float) -> None:
        """Wait until the tool has ended and its lines are read; kill it when the time is up."""
        try:
            self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for reader in self._readers:
            reader.join()

    def problem(self) -> dict[str, Any]:
        """Why the tool ended."""
        status = self.process.wait()
        text = f"{self.name} ended with exit status {status}"
        return {"exception": "ToolEnded", "text": f"{text}: {self._complaint}" if self._complaint else text}

    def _read_lines(self) -> None:
        for line in _stream(self.process.stdout):
            try:
                event = json.loads(line)
            except ValueError:
                event = None
            if not isinstance(event, dict) or "name" not in event:  # the library's log
                sys.stderr.write(line)
            elif event["name"] == "startup_complete":
                self.ready = True
                self.started.set()
            else:
                self._take(event)
        self.started.set()
        if self.ready and not self.ending:
            # A crash of the client proves nothing about Kafka, so let the harness see the program end.
            self._readers[1].join()
            sys.stderr.write(f"{self.problem()['text']}\n")
            sys.stderr.flush()
            os._exit(1)

    def _read_errors(self) -> None:
        for line in _stream(self.process.stderr):
            sys.stderr.write(line)
            if line.startswith(("Exception in thread", "Caused by:")) or "error: " in line:
                self._complaint = line.strip()
        sys.stderr.flush()


def _stream(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


@dataclass
class _Look:
    """A request to wait for the leaders of a topic."""

    request: dict[str, Any]
    deadline: float
    answered: bool = False


class Producer:
    """One VerifiableProducer. The tool reports each message by its number among all messages that it got."""

    def __init__(self, java: Sequence[str], request: dict[str, Any]) -> None:
        properties = request["properties"]
        if "transactional.id" in properties:
            raise Refused("VerifiableProducer has no transactions")
        self.number = request["producer"]
        self._given = 0
        self._owed: dict[int, int | _Look] = {}
        """Number of a line → seq of its message, or the request for leaders."""
        self._changed = threading.Condition()
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        options = ["--topic", "unused", "--bootstrap-server", properties["bootstrap.servers"]]
        self.tool = Tool(java, PRODUCER, options, {**properties, **FEEDER}, self._take)
        threading.Thread(target=self._write, daemon=True).start()

    def send(self, message: dict[str, Any]) -> None:
        """Hand a message to the tool."""
        value = message["value"].encode("latin-1")
        try:
            value.decode()
        except UnicodeDecodeError:
            text = "VerifiableProducer writes text, and the value is not valid UTF-8"
            self._report(message["seq"], {"outcome": "fail", "error": {"text": text}})
            return
        encoded = base64.b64encode(value).decode()
        self._give(message["seq"], f"{message['topic']} {message['partition']} {encoded}")

    def connect(self, request: dict[str, Any]) -> None:
        """Answer as soon as every partition of the topic has a leader."""
        within_s = request["within_ms"] / 1000
        look = _Look(request, time.monotonic() + within_s)
        timer = threading.Timer(within_s, lambda: self._answer(look, f"{request['topic']} has no leaders"))
        timer.daemon = True
        timer.start()
        self._give(look, request["topic"])

    def flush(self, within_s: float) -> None:
        """Wait until every message has an outcome, or the time is up."""
        with self._changed:
            self._changed.wait_for(
                lambda: not any(isinstance(one, int) for one in self._owed.values()), within_s
            )

    def close(self, within_s: float) -> None:
        """End the tool, which first waits for outcomes; outcomes that are still missing are unknown."""
        self.tool.ending = True
        self._lines.put(None)
        self.tool.end(within_s)
        with self._changed:
            owed, self._owed = self._owed, {}
        for what in owed.values():
            if isinstance(what, int):
                text = "VerifiableProducer ended before it reported an outcome"
                self._report(what, {"outcome": "info", "error": {"text": text}})

    def _give(self, what: int | _Look, line: str) -> None:
        with self._changed:
            self._owed[self._given] = what
            self._given += 1
            self._lines.put(line + "\n")

    def _write(self) -> None:
        stdin = _stream(self.tool.process.stdin)
        try:
            while (line := self._lines.get()) is not None:
                stdin.write(line)
                if self._lines.empty():
                    stdin.flush()
            stdin.close()
        except OSError:
            pass  # the tool has ended

    def _take(self, event: dict[str, Any]) -> None:
        if event["name"] not in ("producer_send_success", "producer_send_error"):
            return
        with self._changed:
            what = self._owed.pop(int(event["value"]), None)
            self._changed.notify_all()
        if isinstance(what, _Look):
            self._looked(what, event)
        elif what is not None and event["name"] == "producer_send_success":
            known = {"offset": event["offset"]} if event["offset"] >= 0 else {}
            self._report(what, {"outcome": "ok", **known})
        elif what is not None:
            # Without an outcome: the harness decides by its table of exceptions.
            failure = {"exception": simple_name(event["exception"]), "text": event["message"] or ""}
            self._report(what, {"error": failure})

    def _looked(self, look: _Look, event: dict[str, Any]) -> None:
        name = simple_name(event.get("exception", ""))
        if name == "Connected":
            self._answer(look, "")
        elif not look.answered and time.monotonic() < look.deadline:
            again = threading.Timer(_PAUSE_S, lambda: self._give(look, look.request["topic"]))
            again.daemon = True
            again.start()

    def _answer(self, look: _Look, problem: str) -> None:
        with self._changed:
            first, look.answered = not look.answered, True
        if first:
            answer(look.request, {"exception": "TimeoutException", "text": problem} if problem else None)

    def _report(self, seq: int, outcome: Mapping[str, Any]) -> None:
        say({"outcome": {"producer": self.number, "seq": seq, **outcome}})


class Consumer:
    """One VerifiableConsumer, a member of a group."""

    def __init__(self, java: Sequence[str], request: dict[str, Any]) -> None:
        if "assign" in request:
            raise Refused("VerifiableConsumer reads as a member of a group, and never assigned partitions")
        if not request["commit"]:
            raise Refused("VerifiableConsumer commits after each poll, or at intervals")
        if len(request["subscribe"]) != 1:
            raise Refused("VerifiableConsumer reads one topic")
        properties = request["properties"]
        self.number = request["consumer"]
        self._records: list[list[Any]] = []
        options = ["--bootstrap-server", properties["bootstrap.servers"], "--topic", request["subscribe"][0]]
        options += ["--group-id", properties["group.id"], "--verbose"]
        if "session.timeout.ms" in properties:
            options += ["--session-timeout", properties["session.timeout.ms"]]
        others = {key: value for key, value in properties.items() if key not in _TAKEN}
        self.tool = Tool(java, CONSUMER, options, others, self._take)

    def close(self, within_s: float) -> None:
        """Leave the group."""
        self.tool.ending = True
        self.tool.process.terminate()
        self.tool.end(within_s)

    def _take(self, event: dict[str, Any]) -> None:
        name = event["name"]
        if name == "record_data":
            value = event["value"]
            text = None if value is None else value.encode().decode("latin-1")
            self._records.append([event["topic"], event["partition"], event["offset"], None, text])
        elif name == "records_consumed":
            records, self._records = self._records, []
            if records:
                say({"records": {"consumer": self.number, "records": records}})
        elif name in ("partitions_assigned", "partitions_revoked"):
            self._group(name.removeprefix("partitions_"), event["partitions"])
        elif name == "offsets_committed" and event["success"]:
            self._group("committed", event["offsets"])
        elif name == "offsets_committed":
            say({"problem": {"consumer": self.number, "error": {"text": event.get("error") or ""}}})

    def _group(self, event: str, places: Sequence[Mapping[str, Any]]) -> None:
        if places:
            partitions = [[one["topic"], one["partition"], one.get("offset")] for one in places]
            say({"group": {"consumer": self.number, "event": event, "partitions": partitions}})


class Refused(Exception):
    """The tools cannot do what a request asks for."""


def answer(request: Mapping[str, Any], error: Mapping[str, Any] | None = None) -> None:
    """Answer a request."""
    say({"id": request["id"], **({"result": {}} if error is None else {"error": error})})


def later(request: Mapping[str, Any], work: Callable[[], None]) -> None:
    """Do something on a thread of its own, then answer."""

    def run() -> None:
        work()
        answer(request)

    threading.Thread(target=run, daemon=True).start()


class Program:
    """Reads requests until the input ends."""

    def __init__(self, version: str, java: Sequence[str]) -> None:
        self._version = version
        self._java = java
        self._producers: dict[int, Producer] = {}
        self._consumers: dict[int, Consumer] = {}

    def run(self) -> None:
        """Greet and serve."""
        hello = {
            "protocol": 1,
            "client": "kafka-tools",
            "version": self._version,
            "features": ["idempotence", "groups"],
            "lacks": ["assign"],
            "ns": time.monotonic_ns(),
        }
        say({"hello": hello})
        for line in sys.stdin:
            request = json.loads(line)
            try:
                self._carry_out(request)
            except (Refused, OSError) as error:
                answer(request, {"exception": type(error).__name__, "text": str(error)})
            if request["op"] == "quit":
                return

    def _carry_out(self, request: dict[str, Any]) -> None:
        op = request["op"]
        if op == "create_producer":
            producer = self._producers[request["producer"]] = Producer(self._java, request)
            self._answer_when_started(request, producer.tool)
        elif op == "create_consumer":
            consumer = self._consumers[request["consumer"]] = Consumer(self._java, request)
            self._answer_when_started(request, consumer.tool)
        elif op == "send":
            for message in request["messages"]:
                self._producers[request["producer"]].send(message)
        elif op == "connect":
            self._producers[request["producer"]].connect(request)
        elif op == "flush":
            producer = self._producers[request["producer"]]
            later(request, lambda: producer.flush(request["within_ms"] / 1000))
        elif op in ("close_producer", "close_consumer"):
            found: Producer | Consumer = (
                self._producers[request["producer"]]
                if op == "close_producer"
                else self._consumers[request["consumer"]]
            )
            later(request, lambda: found.close(request["within_ms"] / 1000))
        elif op == "quit":
            self._quit(request)
        else:
            raise Refused(f"the verifiable tools have no operation {op}")

    @staticmethod
    def _answer_when_started(request: Mapping[str, Any], tool: Tool) -> None:
        def run() -> None:
            tool.started.wait()
            if not tool.ready:
                tool.end(1.0)
            answer(request, None if tool.ready else tool.problem())

        threading.Thread(target=run, daemon=True).start()

    def _quit(self, request: Mapping[str, Any]) -> None:
        within_s = request["within_ms"] / 1000
        tools: list[Producer | Consumer] = [*self._producers.values(), *self._consumers.values()]
        closing = [threading.Thread(target=one.close, args=(within_s,), daemon=True) for one in tools]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join(within_s + 0.5)
        answer(request)


if __name__ == "__main__":
    Program(sys.argv[1], sys.argv[2:]).run()

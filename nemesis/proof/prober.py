"""Commands the probe agents inside the hosts: one `nemesis.proof.agent` per host for the whole run."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from harness.errors import LabError
from harness.lab.model import Lab, Pipe
from nemesis.proof.reachability import FRAGILE_PORTS, Call, ProbeResult

_ANSWER_WITHIN_S = 15.0


class _Agent:
    """One host's agent; a thread reads its answers, so an agent that hangs is noticed after a time-out."""

    def __init__(self, host: str, pipe: Pipe) -> None:
        self.host = host
        self.pipe = pipe
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, name=f"probe-{host}", daemon=True).start()
        self._ready = False

    def _read(self) -> None:
        for line in self.pipe.stdout:
            self._answers.put(line)
        self._answers.put("")

    def ask(self, request: Mapping[str, object]) -> None:
        if not self._ready:
            self.answer()
            self._ready = True
        try:
            self.pipe.stdin.write(json.dumps(request) + "\n")
            self.pipe.stdin.flush()
        except OSError as error:
            raise LabError(
                f"The probe agent in {self.host} has ended ({error}); see its helper.log."
            ) from error

    def answer(self) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=_ANSWER_WITHIN_S)
        except queue.Empty:
            raise LabError(
                f"The probe agent in {self.host} did not answer within {_ANSWER_WITHIN_S:g} s; is the "
                f"machine overloaded?"
            ) from None
        if not line:
            raise LabError(f"The probe agent in {self.host} has ended; see helper.log in its folder.")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise LabError(f"The probe agent in {self.host} could not do the request: {answer['error']}.")
        return answer


class Prober:
    """All agents of a lab. Not thread-safe; `Nemesis` holds a lock."""

    def __init__(self, lab: Lab) -> None:
        """`warm_up` or the first probe starts the agents."""
        self._lab = lab
        self._agents: dict[str, _Agent] = {}

    def warm_up(self, hosts: Iterable[str] | None = None) -> None:
        """Start the agents that do not run yet, in parallel."""
        names = [host.name for host in self._lab.topology.hosts] if hosts is None else list(hosts)
        missing = [name for name in names if name not in self._agents or self._ended(name)]
        if not missing:
            return
        with ThreadPoolExecutor(max_workers=len(missing)) as pool:
            pipes = list(
                pool.map(lambda name: self._lab.open_module(name, "nemesis.proof.agent", ()), missing)
            )
        for name, pipe in zip(missing, pipes, strict=True):
            self._agents[name] = _Agent(name, pipe)

    def probe(
        self,
        calls: Iterable[Call],
        *,
        within_s: float,
        keep: Iterable[Call] = (),
        check: Iterable[Call] = (),
    ) -> ProbeResult:
        """Probe ``wanted`` calls in parallel; hold the connections of ``keep``, check those held before."""
        requests: dict[str, dict[str, Any]] = {}
        address = {host.name: host.address for host in self._lab.topology.hosts}
        by_key: dict[str, Call] = {}
        for field, chosen in (("targets", calls), ("keep", keep), ("check", check)):
            for call in chosen:
                empty: dict[str, Any] = {"targets": [], "quiet": [], "keep": [], "check": []}
                request = requests.setdefault(call.caller, empty)
                by_key[str(call)] = call
                key: object = str(call)
                if field == "targets":
                    how = "quiet" if call.port in FRAGILE_PORTS else "targets"
                    request[how].append([key, address[call.callee], call.port])
                else:
                    request[field].append(key)
        answers = self.ask({h: {"op": "connect", "within_s": within_s, **r} for h, r in requests.items()})
        new = {by_key[key]: state for answer in answers.values() for key, state in answer["new"].items()}
        held = {by_key[key]: state for answer in answers.values() for key, state in answer["held"].items()}
        return ProbeResult(new, held)

    def ask(self, requests: Mapping[str, Mapping[str, object]]) -> dict[str, dict[str, Any]]:
        """One request to each of several agents at the same time."""
        self.warm_up(requests)
        for host, request in requests.items():
            self._agents[host].ask(request)
        answers: dict[str, dict[str, Any]] = {}
        failed: LabError | None = None
        for host in requests:  # fetch all: an answer left behind would be taken for the next one
            try:
                answers[host] = self._agents[host].answer()
            except LabError as error:
                failed = failed or error
        if failed is not None:
            raise failed
        return answers

    def release(self) -> None:
        """Close all held connections."""
        self.ask({host: {"op": "release"} for host in self.running()})

    def running(self) -> list[str]:
        """Hosts whose agent runs."""
        return [host for host in self._agents if not self._ended(host)]

    def close(self) -> None:
        """End the agents."""
        for agent in self._agents.values():
            agent.pipe.kill()
        for agent in self._agents.values():
            agent.pipe.wait(5.0)
        self._agents.clear()

    def _ended(self, host: str) -> bool:
        return self._agents[host].pipe.poll() is not None

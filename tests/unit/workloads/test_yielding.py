"""A client with a load that yields runs after everything else on its machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.history.journal import Journal
from harness.kafka.model import Endpoint
from harness.waiting import wait_until
from workloads.agent.producers import stream
from workloads.agent.producers.recorder import Recorder
from workloads.agent.producers.stream import StreamProducer
from workloads.agent.yielding import NICE, give_way
from workloads.protocol.spec import ProducerSpec, StreamLoad

SAYS = """
import os, pathlib, threading
from workloads.agent.yielding import give_way
give_way()
seen = []
thread = threading.Thread(target=lambda: seen.append(os.getpriority(os.PRIO_PROCESS, 0)))
thread.start(); thread.join()
group = pathlib.Path("/proc/self/autogroup")
print(seen[0], group.read_text().split()[-1] if group.exists() and group.read_text() else seen[0])
"""


def test_threads_that_it_starts_and_its_session_yield() -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    done = subprocess.run(
        [sys.executable, "-c", SAYS],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        start_new_session=True,
    )
    assert done.stdout.split() == [str(max(NICE, own))] * 2
    assert os.getpriority(os.PRIO_PROCESS, 0) == own, "not this process"


def test_it_tries_again_while_the_kernel_is_busy_with_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "self").mkdir()
    write, refused = Path.write_text, [1, 2]

    def busy(path: Path, text: str) -> int:
        if refused:
            raise BlockingIOError(refused.pop())
        return write(path, text)

    monkeypatch.setattr(os, "setpriority", lambda *_: None)
    monkeypatch.setattr(Path, "write_text", busy)
    give_way(tmp_path)
    assert int((tmp_path / "self" / "autogroup").read_text()) >= NICE and not refused


@pytest.mark.parametrize("yields", [True, False])
def test_a_load_says_whether_its_client_yields(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, yields: bool
) -> None:
    called = list[bool]()
    monkeypatch.setattr(stream, "give_way", lambda: called.append(True))
    spec = ProducerSpec(writer=1, name="p", brokers=(Endpoint("127.0.0.1", 1),), role="stream")
    one = StreamProducer(Recorder(Journal(tmp_path / "journal.jsonl"), "client1", "az1"), spec)
    one.start(StreamLoad(topic="t", rate=10, max_count=1, yields=yields))
    one.close()
    wait_until(lambda: not one._thread.is_alive(), within_s=30, awaiting="the stream to end")
    assert called == [True] * yields

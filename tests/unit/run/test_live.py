"""The state of a run while it waits: by AZ on a terminal, in few lines elsewhere, not at all if quiet."""

from __future__ import annotations

import io
import threading
from pathlib import Path

import pytest

from harness import console
from harness.console import Console, Progress
from harness.history.journal import Journal
from harness.history.stream_journal import StreamJournal
from harness.host_files import Folder
from harness.kafka.model import PartitionState, Topic, TopicPartition
from harness.lab.layout import THREE_AZS
from harness.observer.views import View, Views
from harness.waiting import waiting_for
from run import live
from run.live import LiveState

ISR = PartitionState(leader=2, leader_epoch=1, isr=(2, 3), replicas=(1, 2, 3))


@pytest.fixture
def state(tmp_path: Path) -> LiveState:
    for number in (1, 2, 3):
        (tmp_path / f"client{number}").mkdir()
    views = Views(Journal(tmp_path / "harness.jsonl"))
    views.record(
        [
            View(source="broker1", subject="reachable", error="refused"),
            View(source="broker2", subject="reachable"),
            View(source="broker2", subject="partition", topic_partition=TopicPartition("t", 0), state=ISR),
            View(source="broker3", subject="reachable"),
        ]
    )
    return LiveState(
        THREE_AZS.topology("zookeeper"), [Topic("t", (1, 2, 3))], views, lambda host: Folder(tmp_path / host)
    )


def test_each_az_has_what_its_brokers_state_and_what_its_clients_wrote(
    state: LiveState, tmp_path: Path
) -> None:
    with Journal(tmp_path / "client2" / "client.jsonl") as journal:
        for number, outcome in enumerate(("ok", "info", "ok", "fail")):
            journal.write("done", writer=1, seq=number, outcome=outcome)
    (tmp_path / "client3" / "client.jsonl").write_bytes(b'{"table":"done","outcome":"ok"')
    assert state.lines() == [
        "az1: broker1 does not answer · 0 acknowledged/s, 0 in all",
        "az2: broker2: t/0 leader broker2, epoch 1, ISR 2, 3 · 0 acknowledged/s, 2 in all",
        "az3: broker3 has stated nothing yet · 0 acknowledged/s, 0 in all",
    ]
    with (tmp_path / "client3" / "client.jsonl").open("ab") as file:
        file.write(b'}\n{"table":"done","outcome":"ok"}\n')
    assert state.lines()[2].endswith("acknowledged/s, 2 in all")
    stream = StreamJournal(tmp_path / "client3" / "client.7.sends", 7, [("t", 0)])
    for seq in range(3):
        stream.begin(seq, 0, 1)
        stream.complete(seq, done_ns=2, outcome="ok")
    stream.counters()
    assert state.lines()[2].endswith("acknowledged/s, 5 in all")
    stream.close()
    assert state.lines()[1].endswith("· 0 acknowledged/s, 2 in all")


def test_rate_is_taken_over_a_while(
    state: LiveState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often the lines are drawn: six messages in two seconds are three per second."""
    now = [100.0]
    monkeypatch.setattr(live.time, "monotonic", lambda: now[0])
    state.lines()
    for number in range(6):
        now[0] += 0.5 if number % 2 else 0.1667
        with Journal(tmp_path / "client1" / "client.jsonl") as journal:
            journal.write("done", writer=1, seq=number, outcome="ok")
        said = state.lines()[0]
    assert said.endswith("· 3 acknowledged/s, 6 in all")


def test_a_wait_stands_in_the_line_of_the_az_that_it_names(state: LiveState) -> None:
    """The first host that it names decides; other waits belong to no AZ."""
    with waiting_for("broker3 to follow broker2"), waiting_for("all replicas to be in sync"):
        lines = state.lines()
    assert [line.count(" · has waited ") for line in lines] == [0, 0, 1]
    assert lines[2].endswith("s for broker3 to follow broker2")


def test_terminal_shows_what_is_awaited_and_how_the_azs_stand(
    state: LiveState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "REFRESH_S", 0.01)
    screen = _Screen("broker2 does")
    shown = Progress(console=Console(file=screen, force_terminal=True, width=120))
    with shown.phase("scenario", "running the scenario", lambda: ["az2: broker2 does not answer"]):
        with waiting_for("broker2 to lead t/0"), waiting_for("answer"):
            assert screen.seen.wait(30)
        shown.say("broker2 leads")
    text = screen.getvalue()
    assert "running the scenario, 0 s so far" in text
    assert "waits for broker2 to lead t/0, 0." in text
    assert "waits for answer" not in text
    assert "broker2 leads" in text
    assert shown.durations["scenario"] > 0


class _Screen(io.StringIO):
    """A terminal that tells when a text has been written to it."""

    def __init__(self, awaited: str) -> None:
        super().__init__()
        self.awaited = awaited
        self.seen = threading.Event()

    def write(self, text: str) -> int:
        if self.awaited in text:
            self.seen.set()
        return super().write(text)


@pytest.mark.parametrize("quiet", [False, True])
def test_elsewhere_only_long_waits_are_told_and_each_seldom(
    monkeypatch: pytest.MonkeyPatch, *, quiet: bool
) -> None:
    now = [100.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    out = io.StringIO()
    told: dict[float, float] = {}
    plain = Progress(quiet=quiet, console=Console(file=out, width=120))
    with waiting_for("broker2 to lead t/0"):
        for _ in range(3600):
            now[0] += 1.0
            plain.report_long_waits(told, lambda: ["az1: down"])
    lines = [line.split("  ")[-1] for line in out.getvalue().splitlines()]
    wanted = [f"has waited {seconds} s for broker2 to lead t/0; az1: down" for seconds in (10, 20)]
    assert lines[:2] == ([] if quiet else wanted)
    assert len(lines) <= 25, "an hour"


def test_short_phases_say_nothing_without_a_terminal() -> None:
    out = io.StringIO()
    plain = Progress(console=Console(file=out))
    with plain.phase("lab", "making hosts"), waiting_for("hosts"):
        pass
    assert out.getvalue() == ""
    assert threading.active_count() < 50

"""Soaks of which three processes are killed at random moments, and what is judged of them then.

`python -m tests.cluster.soak_kills FOLDER NUMBER [SEED]` carries out so many soaks. In each, the decoder is
killed first. Then it is the harness, which judges and reads, and after that the command that resumes; or it
is a client, with its producers and its reader, and after that Spark, which judges what is left. The judgement
of the folder, in the end by `--resume` or `acked check`, is compared with the journals of the clients and
with the logs in the files of the brokers.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.memory import command_of, family
from benchmarks.soak import opened_by
from harness.errors import WaitTimeoutError
from harness.history.stream_journal import STATES, read_counters, read_header
from harness.waiting import wait_until
from run.soak.replicas import StoredReplicas
from tests.cluster.conftest import acked, processes_of
from tests.cluster.test_soak import CLUSTER, acknowledged, held, received, rows_of

VICTIMS = (("decoder", "harness", "resuming"), ("decoder", "client", "Spark"))
_LOAD = ("--rate", "1200", "--every", "12s", "--faults", "isolate-az1*", "--keep-records", "--readers")
_BROKERS = (1, 2, 3)


@dataclass(frozen=True, kw_only=True)
class Kills:
    """When what is killed, in seconds."""

    victims: tuple[str, str, str]
    decoder_s: float
    """After it has begun, which it does when there is enough to decode."""
    second_s: float
    third_s: float
    """Second and third: after the kill before it."""

    @classmethod
    def drawn(cls, number: int) -> Kills:
        """Those of a seed."""
        draw = random.Random(number)
        victims = VICTIMS[number % len(VICTIMS)]
        longest_s = {"resuming": 6.0, "Spark": 3.0}[victims[-1]]
        return cls(
            victims=victims,
            decoder_s=draw.uniform(0, 8),
            second_s=draw.uniform(0.5, 12),
            third_s=draw.uniform(0, longest_s),
        )

    def __str__(self) -> str:
        first, second, third = self.victims
        return (
            f"{first} after {self.decoder_s:.1f} s, {second} {self.second_s:.1f} s later, "
            f"{third} {self.third_s:.1f} s later"
        )


def killed_soak(folder: Path, kills: Kills) -> Iterator[str]:
    """Carry out a soak, kill three of its processes, and yield what is wrong with what is left."""
    folder.mkdir(parents=True)
    file, runs = folder / "cluster.toml", folder / "runs"
    file.write_text(CLUSTER)
    _, second, third = kills.victims
    for_s = "10m" if second == "harness" else "90s"
    soak = _started(folder, "soak", str(file), *_LOAD, "--for", for_s, "--runs", str(runs), "--json")
    run = runs / "soak" / "latest"
    for victim, after_s in (("decoder", kills.decoder_s), (second, kills.second_s)):
        wait_until(
            partial(_processes, victim, soak.pid),
            within_s=240,
            awaiting=f"the {victim} of the soak",
            poll_s=0.1,
            abort=partial(_refuse_end, soak, folder),
        )
        with suppress(subprocess.TimeoutExpired):
            soak.wait(after_s)
        _refuse_end(soak, folder)
        os.kill(_processes(victim, soak.pid)[0], signal.SIGKILL)
    command = soak
    if third == "resuming":
        soak.wait(10)
        _wait_ended(runs)
        command = _started(folder, "soak", "--resume", str(run), "--json")
    wait_until(
        lambda: command.poll() is not None or _processes(third, command.pid),
        within_s=120,
        awaiting=f"{third} to begin",
        poll_s=0.1,
    )
    with suppress(subprocess.TimeoutExpired):
        command.wait(kills.third_s)
    pids = _processes(third, command.pid)
    if not pids or command.poll() is not None:
        print(f"{folder.name}: {third} had ended", flush=True)
    else:
        os.kill(pids[0], signal.SIGKILL)
    stdout, _ = command.communicate(timeout=300)
    _wait_ended(runs)
    if not stdout:
        ended = json.loads((run / "run.json").read_text())["status"] != "running"
        done = acked(*(("check", run) if ended else ("soak", "--resume", run)), "--json")
        stdout = done.stdout
        # Without its client, the run has crashed, and says so after its judgement.
        if done.status not in (0, 2) and (second, done.status) != ("client", 255):
            yield f"the judgement ended with {done.status}: {done.stderr[-300:]}"
    if not stdout:
        manifest = json.loads((run / "run.json").read_text())
        yield f"there is no judgement: {manifest['status']}: {manifest.get('problem')}"
        return
    yield from wrong(run, json.loads(stdout))


def _started(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    with (folder / "stderr").open("a") as stderr:
        return subprocess.Popen(
            [sys.executable, "-m", "cli.main", *arguments],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )


def _wait_ended(runs: Path) -> None:
    wait_until(
        lambda: processes_of(runs),
        accept=lambda left: not left,
        within_s=20,
        awaiting="the processes of the soak to vanish",
    )


def wrong(run: Path, judgement: dict[str, Any]) -> Iterator[str]:
    """What a judgement says that journals and logs do not."""
    journals = {read_header(one).writer: rows_of(one) for one in (run / "streams").glob("*.sends")}
    begun = sum(int(np.count_nonzero(rows["state"])) for rows in journals.values())
    if judgement["messages"] != begun:
        yield f"{judgement['messages']} messages are judged, and the journals have {begun}"
    told, read = acknowledged(run), received(run)
    nodes = StoredReplicas.below(run / "nodes", _BROKERS)
    expected, unrecorded = Counter[tuple[int, str]](), 0
    for key in {place for _, _, place in told}:
        ends = {broker: nodes.end(broker, key) for broker in _BROKERS}
        leader = max(ends, key=lambda broker: (*ends[broker], -broker))
        logs = {broker: held(run, broker, key) for broker in _BROKERS}
        for writer, seq, place in told:
            if place == key and (writer, seq) not in logs[leader]:
                somewhere = any((writer, seq) in log for log in logs.values())
                lost = "lost_after_read" if (writer, seq) in read else "lost"
                expected[writer, "diverged" if somewhere else lost] += 1
        unrecorded += sum(not _is_begun(journals, *one) for log in logs.values() for one in log)
    found = Counter[tuple[int, str]]()
    for row in judgement["fates_by_writer"]:
        if row["fate"] in ("lost", "lost_after_read", "diverged"):
            found[row["writer"], row["fate"]] += row["count"]
    if unrecorded:
        yield f"{unrecorded} records of the brokers have no row in a journal"
    if found != expected:
        yield f"by writer and fate {dict(found)} are judged, and by the files {dict(expected)}"
    for file in (run / "streams").glob("*.sends"):
        rows, counters = rows_of(file), read_counters(file)
        if int((rows["state"] == STATES.index("ok")).sum()) < counters.ok:
            yield f"{file.name} counts {counters.ok} acknowledged messages, and has fewer rows of them"


def _is_begun(journals: dict[int, Any], writer: int, seq: int) -> bool:
    rows = journals.get(writer)
    return rows is not None and seq < len(rows) and bool(rows["state"][seq])


def _refuse_end(soak: subprocess.Popen[str], folder: Path) -> None:
    if soak.poll() is not None:
        raise AssertionError(f"the soak ended by itself: {(folder / 'stderr').read_text()[-500:]}")


def _processes(victim: str, soak: int) -> list[int]:
    """Its command, the agents (by the journals that they hold open), the decoder, or Spark's JVM."""
    if victim in ("harness", "resuming"):
        return [soak]
    below = family(soak)
    if victim == "Spark":
        return [pid for pid in below if "SparkSubmit" in command_of(pid)]
    if victim == "decoder":
        return [pid for pid in below if command_of(pid).rstrip().endswith(" BatchDecoder")]
    return [pid for pid in below if any(name.endswith("/client.jsonl") for name in opened_by(pid))]


def main() -> int:
    """Kill, and print a line for each; the status is 1 if something was wrong."""
    folder, number = Path(sys.argv[1]), int(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    failed = 0
    for one in range(seed, seed + number):
        kills = Kills.drawn(one)
        try:
            found = list(killed_soak(folder / str(one), kills))
        except (AssertionError, WaitTimeoutError, subprocess.TimeoutExpired) as error:
            found = [f"not tried: {error}"]
        failed += bool(found)
        print(f"{one}: {kills}: {'; '.join(found) or 'as it should be'}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

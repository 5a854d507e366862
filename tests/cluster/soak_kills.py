"""Soaks of which a process is killed at a random moment, and what is judged of them then.

`python -m tests.cluster.soak_kills FOLDER NUMBER [SEED]` kills so many soaks: the harness, which judges and
reads, a client, or the decoder. The judgement of the folder, with `--resume` after the harness was killed, is
compared with the journals of the clients and with the logs in the files of the brokers.
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
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.memory import command_of, family
from harness.errors import WaitTimeoutError
from harness.history.stream_journal import STATES, read_counters, read_header
from harness.waiting import wait_until
from run.soak.replicas import StoredReplicas
from tests.cluster.conftest import acked, processes_of
from tests.cluster.test_soak import CLUSTER, acknowledged, held, rows_of

VICTIMS = ("harness", "client", "decoder")
_LOAD = ("--rate", "600", "--every", "12s", "--faults", "isolate-az1*", "--keep-records")
_BROKERS = (1, 2, 3)


def killed_soak(folder: Path, victim: str, after_s: float) -> Iterator[str]:
    """Begin a soak, kill one of its processes, and yield what is wrong with what is left."""
    folder.mkdir(parents=True)
    file, runs = folder / "cluster.toml", folder / "runs"
    file.write_text(CLUSTER)
    for_s = "10m" if victim == "harness" else "40s"
    command = [sys.executable, "-m", "cli.main", "soak", str(file), *_LOAD, "--for", for_s]
    with (folder / "stderr").open("w") as stderr:
        soak = subprocess.Popen(
            [*command, "--runs", str(runs), "--json"], stdout=subprocess.PIPE, stderr=stderr, text=True
        )
    run = runs / "soak" / "latest"
    wait_until(
        lambda: _seconds(run),
        accept=lambda seconds: seconds >= after_s,
        within_s=180,
        awaiting=f"{after_s:.1f} s of the soak",
        poll_s=0.1,
        abort=lambda: _refuse_end(soak, folder),
    )
    for process in [soak.pid] if victim == "harness" else _processes(victim, soak.pid)[:1]:
        os.kill(process, signal.SIGKILL)
    stdout, _ = soak.communicate(timeout=300)
    wait_until(
        lambda: processes_of(runs),
        accept=lambda left: not left,
        within_s=20,
        awaiting="the processes of the soak to vanish",
    )
    if victim == "harness":
        done = acked("soak", "--resume", run, "--json")
        stdout = done.stdout
        if done.status not in (0, 2):
            yield f"--resume ended with {done.status}: {done.stderr[-300:]}"
    if not stdout:
        manifest = json.loads((run / "run.json").read_text())
        yield f"there is no judgement: {manifest['status']}: {manifest.get('problem')}"
        return
    yield from wrong(run, json.loads(stdout))


def wrong(run: Path, judgement: dict[str, Any]) -> Iterator[str]:
    """What a judgement says that journals and logs do not."""
    journals = {read_header(one).writer: rows_of(one) for one in (run / "streams").glob("*.sends")}
    begun = sum(int(np.count_nonzero(rows["state"])) for rows in journals.values())
    if judgement["messages"] != begun:
        yield f"{judgement['messages']} messages are judged, and the journals have {begun}"
    told = acknowledged(run)
    nodes = StoredReplicas.below(run / "nodes", _BROKERS)
    expected, unrecorded = Counter[tuple[int, str]](), 0
    for key in {place for _, _, place in told}:
        ends = {broker: nodes.end(broker, key) for broker in _BROKERS}
        leader = max(ends, key=lambda broker: (*ends[broker], -broker))
        logs = {broker: held(run, broker, key) for broker in _BROKERS}
        for writer, seq, place in told:
            if place == key and (writer, seq) not in logs[leader]:
                somewhere = any((writer, seq) in log for log in logs.values())
                expected[writer, "diverged" if somewhere else "lost"] += 1
        unrecorded += sum(not _is_begun(journals, *one) for log in logs.values() for one in log)
    found = Counter[tuple[int, str]]()
    for row in judgement["fates_by_writer"]:
        if row["fate"] in ("lost", "diverged"):
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


def _seconds(run: Path) -> float:
    try:
        lines = (run / "soak.jsonl").read_text().splitlines()
        first, last = (json.loads(line)["s"] for line in (lines[0], lines[-1]))
    except (OSError, IndexError, ValueError):
        return 0.0
    return float(last - first)


def _refuse_end(soak: subprocess.Popen[str], folder: Path) -> None:
    if soak.poll() is not None:
        raise AssertionError(f"the soak ended by itself: {(folder / 'stderr').read_text()[-500:]}")


def _processes(victim: str, soak: int) -> list[int]:
    """Processes of a soak: the agents, by the journals that they hold open, or the decoders."""
    below = family(soak)
    if victim == "decoder":
        return [pid for pid in below if command_of(pid).rstrip().endswith(" BatchDecoder")]
    return [pid for pid in below if any(name.endswith("/client.jsonl") for name in _opened(pid))]


def _opened(pid: int) -> list[str]:
    try:
        return [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]  # noqa: PTH115
    except OSError:
        return []


def main() -> int:
    """Kill, and print a line for each; the status is 1 if something was wrong."""
    folder, number = Path(sys.argv[1]), int(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    failed = 0
    for one in range(seed, seed + number):
        draw = random.Random(one)
        victim, after_s = VICTIMS[one % len(VICTIMS)], draw.uniform(2, 30)
        try:
            found = list(killed_soak(folder / str(one), victim, after_s))
        except (AssertionError, WaitTimeoutError, subprocess.TimeoutExpired) as error:
            found = [f"not tried: {error}"]
        failed += bool(found)
        print(
            f"{one}: {victim} killed after {after_s:.1f} s: {'; '.join(found) or 'as it should be'}",
            flush=True,
        )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

"""Every command, ended at a random moment of its work: what it leaves, how it exits, and whether it goes on.

`python -m tests.cluster.kills FOLDER NUMBER [SEED [COMMAND...]]` ends so many commands, in turns by SIGKILL,
Ctrl-C and SIGTERM, and prints a line for each and what was wrong.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from harness.artifacts.cache import UNFINISHED, cache_dir
from harness.errors import EXIT_INTERRUPTED, WaitTimeoutError
from harness.waiting import wait_until
from studies.search.schedule import Producer, Schedule, TopicPlan
from tests.cluster.conftest import commands_in, left_on_machine
from tests.runs.judged import judged_run

SIDE_BY_SIDE = 4
END_S = 45.0
"""How long a command may take to end when it is asked to: hosts are taken down first."""
GONE_S = 15.0
DOCUMENTED = (0, 1, 2, 3, 4, 254)
"""Exit codes of commands that end before the signal comes."""
HAND_IN_TURN = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)


SCHEDULE = Schedule(
    kafka="2.7.1",
    mode="zookeeper",
    controller="broker2",
    quorum_leader="zookeeper2",
    topics=(TopicPlan(name="t1"),),
    producers=(Producer(az="az1"),),
)


@dataclass(frozen=True)
class Work:
    """A command, and how long it takes about; ``resumed`` names the folder that `--resume` takes."""

    words: tuple[str, ...]
    seconds: float
    resumed: str = ""
    fresh_cache: bool = False
    """Kafka is not in its cache."""


def works(run: Path, schedule: Path) -> Mapping[str, Work]:
    """All commands that take a while; ``run`` is a judged run and ``schedule`` a file."""
    there = str(run)
    return {
        "run": Work(("run", "no-fault"), 40),
        "series": Work(("run", "no-fault", "--repeat", "2"), 45, "all"),
        "matrix": Work(("matrix", "no-fault", "--versions", "2.7.1", "--modes", "zookeeper"), 40, "matrix"),
        "assess": Work(("assess", "--faults", "kill-broker1*"), 60, "assess"),
        "search": Work(("search", "--seed", "1", "--count", "1"), 60, "search"),
        "replay": Work(("replay", str(schedule), "--repeat", "1"), 50),
        "shrink": Work(("shrink", str(schedule)), 50, "shrink"),
        "download": Work(("run", "no-fault"), 30, fresh_cache=True),
        "check": Work(("check", there), 12),
        "import": Work(("check", "--import", f"{there}/history"), 12),
        "sql": Work(("sql", "select count(*) from sends", there), 10),
        "story": Work(("story", "1/0", there), 10),
        "export": Work(("export", there, "--to", "{folder}/history.edn"), 6),
        "report": Work(("report", there, "--output", "{folder}/page.html"), 4),
        "summary": Work(("summary", "{series}"), 2),
        "list": Work(("list",), 2),
    }


@dataclass(frozen=True)
class Kill:
    """What came of one."""

    name: str
    signal: signal.Signals
    after_s: float
    status: int
    problems: tuple[str, ...]

    def __str__(self) -> str:
        what = "; ".join(self.problems) or "as expected"
        return f"{self.name:9} {self.signal.name:7} after {self.after_s:5.1f} s: {self.status:4}  {what}"


class Bench:
    """Ends commands below one folder."""

    def __init__(self, folder: Path) -> None:
        """Make what the commands work on."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        run = folder / "judged"
        judged_run("no-fault", run)
        schedule = folder / "schedule.json"
        schedule.write_bytes(SCHEDULE.encode())
        self.works = works(run, schedule)
        self.series = folder / "series"
        self.series.mkdir()
        line = '{"scenario": "no-fault", "version": "2.7.1", "mode": "zookeeper", "verdict": "as declared"}\n'
        (self.series / "runs.jsonl").write_text(line)

    def kill(self, number: int, name: str, how: signal.Signals, part: float) -> Kill:
        """End a command after ``part`` of its time, and look at everything that may be left of it."""
        work = self.works[name]
        place = self.folder / f"{number:03}-{name}"
        temporary = place / "tmp"
        temporary.mkdir(parents=True)
        environment = self._environment(place, fresh=work.fresh_cache)
        words = self._words(work, place)
        after_s = 0.2 + part * work.seconds
        run = subprocess.Popen(
            [sys.executable, "-m", "cli.main", *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        try:
            _, said = run.communicate(timeout=after_s)
            ended = True
        except subprocess.TimeoutExpired:
            ended = False
            # Ctrl-C reaches the foreground group.
            (os.killpg if how is signal.SIGINT else os.kill)(run.pid, how)
            try:
                _, said = run.communicate(timeout=END_S)
            except subprocess.TimeoutExpired:
                os.killpg(run.pid, signal.SIGKILL)
                _, said = run.communicate()
                said += "\n(did not end)"
        problems = [*self._left(place, by_kill=how is signal.SIGKILL and not ended)]
        accepted = (
            DOCUMENTED if ended else (-signal.SIGKILL,) if how is signal.SIGKILL else (EXIT_INTERRUPTED,)
        )
        # A command that was through when the signal came exits with its outcome.
        if run.returncode not in accepted and not (
            run.returncode in DOCUMENTED and how is not signal.SIGKILL
        ):
            problems.append(f"exit code {run.returncode}: {said[-300:]!r}")
        if "Traceback" in said or len(re.findall("^acked: ", said, re.MULTILINE)) > 1:
            problems.append(f"said {said[-600:]!r}")
        if work.resumed and not ended:
            problems += self._resumed(name, work, place, number)
        shutil.rmtree(place, ignore_errors=True)
        return Kill(name, how, after_s, run.returncode, tuple(problems))

    def _environment(self, place: Path, *, fresh: bool) -> dict[str, str]:
        """The variables of a command, with a mark by which its processes are known."""
        given = {**os.environ, "TMPDIR": str(place / "tmp"), "MARK": str(place)}
        if fresh:
            given["ACKED_CACHE"] = str(place / "cache")
            copy = ["cp", "-al", str(cache_dir()), str(place / "cache")]
            subprocess.run(copy, check=True)
            shutil.rmtree(place / "cache" / "kafka-2.7.1")
        return given

    def _words(self, work: Work, place: Path) -> list[str]:
        words = [word.format(folder=place, series=self.series) for word in work.words]
        with_runs = {"run", "matrix", "assess", "search", "replay", "shrink"}
        return [*words, "--runs", str(place / "runs")] if words[0] in with_runs else words

    def _left(self, place: Path, *, by_kill: bool) -> list[str]:
        """What is left of a command, and of its files after the next command."""
        problems = []
        try:
            wait_until(
                lambda: commands_in(f"MARK={place}"),
                accept=lambda left: not left,
                within_s=GONE_S,
                awaiting="every process to end",
            )
        except WaitTimeoutError:
            problems.append(f"processes {commands_in(f'MARK={place}')}")
        problems += [f"left on the machine: {line}" for line in left_on_machine(place)]
        temporary = place / "tmp"
        if not by_kill and any(temporary.iterdir()):
            problems.append(f"temporary files {[path.name for path in temporary.iterdir()]}")
        environment = {**os.environ, "TMPDIR": str(temporary)}
        cache = place / "cache"
        if cache.is_dir():
            environment["ACKED_CACHE"] = str(cache)
        subprocess.run(
            [sys.executable, "-m", "cli.main", "clean"],
            env=environment,
            check=True,
            capture_output=True,
        )
        if any(temporary.iterdir()):
            problems.append(f"the next command leaves {[path.name for path in temporary.iterdir()]}")
        unfinished = [path for below in ("", "*/", "*/*/") for path in cache.glob(f"{below}{UNFINISHED}*")]
        if unfinished or list(cache.glob("spark/classes-*.new")):
            problems.append(f"unfinished in the cache: {unfinished}")
        return problems

    def _resumed(self, name: str, work: Work, place: Path, number: int) -> list[str]:
        """Whether a command that has a plan goes on; the first of each goes on to its end."""
        folders = sorted((place / "runs" / work.resumed).glob("*"))
        plans = ("planned.jsonl", "plan.json", "runs.jsonl")
        if not folders or not any((folders[0] / plan).is_file() for plan in plans):
            return []
        words = [*work.words] if name in ("series", "matrix") else [work.words[0]]
        words += ["--count", "1"] if name == "search" else []
        again = [*words, "--resume", str(folders[0]), "--runs", str(place / "runs")]
        if number >= len(self.works):  # it has been seen to go on to its end
            return []
        done = subprocess.run(
            [sys.executable, "-m", "cli.main", *again],
            capture_output=True,
            text=True,
            env=self._environment(place, fresh=False),
            timeout=500,
            check=False,
        )
        return [] if done.returncode in (0, 1, 2) else [f"--resume: {done.returncode} {done.stderr[-400:]!r}"]


def kills(
    folder: Path,
    number: int,
    seed: int,
    say: Callable[[str], None] = print,
    only: Sequence[str] = (),
) -> list[Kill]:
    """End ``number`` commands, each kind (or ``only`` these) and each signal in turn; says each."""
    chance = random.Random(seed)
    bench = Bench(folder)
    names = list(only or bench.works)
    plan = [
        (n, names[n % len(names)], HAND_IN_TURN[(n + n // len(names)) % 3], chance.random())
        for n in range(number)
    ]

    def one(entry: tuple[int, str, signal.Signals, float]) -> Kill:
        kill = bench.kill(*entry)
        say(str(kill))
        return kill

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        return list(pool.map(one, plan))


def main(argv: Sequence[str]) -> int:
    """Arguments: those of the module. Returns 1 if anything was not as expected."""
    folder, number, *more = argv
    seed = int(more[0]) if more else random.randrange(1 << 30)
    print(f"seed {seed}", flush=True)
    place = Path(folder).absolute()
    done = kills(place, int(number), seed, lambda line: print(line, flush=True), more[1:])
    bad = [kill for kill in done if kill.problems]
    print(f"{len(done)} kills, {len(done) - len(bad)} as expected")
    return 1 if bad else 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        tempfile.tempdir = scratch
        sys.exit(main(sys.argv[1:]))

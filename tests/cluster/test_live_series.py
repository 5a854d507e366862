"""Real nights, searches and shrinkings watched in a browser: the page grows with them, and ends as theirs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import time
from typing import Any

import pytest

from harness.waiting import wait_until
from studies.search.schedule import FILE, Producer, Schedule, TopicPlan
from studies.steps.step import Moment, Step
from tests.browser import chromium, problem
from tests.cluster.conftest import acked
from tests.unit.report.test_serve import Server, serving

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.browser,
    pytest.mark.long,
    pytest.mark.timeout(3000),
    pytest.mark.skipif(bool(problem()), reason=problem()),
]

BEHIND_S = 2.0
CUT = Step(fault="cut", targets=("az1",), toward=("others",), until=Moment(after_s=8.0))
LOSING = Schedule(
    kafka="3.9.1",
    mode="kraft",
    controller="controller2",
    topics=(TopicPlan(name="t"),),
    producers=(Producer(az="az1", acks=1, idempotent=False), Producer(az="az2")),
    steps=(CUT, Step(fault="elect_preferred", when=Moment(after_s=12.0))),
)
TEXTS = """root => [...root.querySelectorAll("h1, h2, h3, p, li, th, td, summary")]
    .filter(one => !one.closest(".around") && !one.matches("#state, .live > main > p"))
    .map(one => one.textContent.replace(/\\s+/g, " ").replace(/, \\d+ an hour/, "").trim())"""
"""What a page says, without links to what is around it, and without the pace, which time changes."""
WATCH = f"""
const texts = {TEXTS};
new MutationObserver(() => {{
  const shown = document.querySelector("#pictures");
  if (shown && shown.textContent) window.told(Date.now() / 1000, texts(shown));
}}).observe(document, {{subtree: true, childList: true}});
"""


class Watched:
    """What a browser has shown of a series, and when."""

    def __init__(self, page: Any) -> None:
        self.shown: list[tuple[float, list[str]]] = []
        self.said: list[str] = []
        page.expose_function("told", lambda at_s, texts: self.shown.append((at_s, texts)))
        page.add_init_script(WATCH)
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))

    def first(self, text: str) -> float:
        """When a page first said something, in seconds since the epoch."""
        return next(at_s for at_s, texts in self.shown if any(text in one for one in texts))


@contextmanager
def following(folder: Path, file: str, count: Callable[[bytes], int]) -> Iterator[dict[int, float]]:
    """When ``count`` of a file of the folder first reached each number, looked at every 50 ms."""
    reached: dict[int, float] = {}
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.05):
            try:
                reached.setdefault(count((folder / file).read_bytes()), time())
            except (OSError, ValueError, KeyError):
                continue

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield reached
    finally:
        over.set()
        thread.join()


def watched(
    server: Server,
    runs: Path,
    command: Sequence[str],
    kind: str,
    file: str,
    count: Callable[[bytes], int],
    *,
    until: int = 0,
) -> tuple[Watched, dict[int, float], list[str]]:
    """Run a command and watch it to its end; ``until``: interrupt it when so many runs have ended.

    Returns what was shown, when the folder reached each count, and the texts of the final page.
    """
    arguments = [sys.executable, "-m", "cli.main", *command, "--runs", str(runs)]
    with (
        chromium() as browser,
        subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process,
    ):
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(600_000)
        told = Watched(page)
        try:
            address = wait_until(
                lambda: next(
                    (
                        one["address"]
                        for one in server.json("/runs.json")
                        if one["under_way"] and one["address"].startswith(f"{kind}/")
                    ),
                    "",
                ),
                within_s=180,
                awaiting=f"a {kind} to be under way",
                poll_s=0.3,
            )
            folder = runs / address
            page.goto(f"http://127.0.0.1:{server.port}/")
            page.locator(f'a[href="/runs/{address}/"]').first.click()
            page.wait_for_url(f"**/runs/{address}/live")
            with following(folder, file, count) as reached:
                if until:
                    wait_until(
                        lambda: page.wait_for_timeout(200) or until in reached,
                        within_s=900,
                        awaiting=f"{until} in {file}",
                    )
                    page.wait_for_timeout(3000)
                    process.send_signal(signal.SIGINT)
                page.wait_for_url(f"**/runs/{address}/", timeout=1_500_000)
            final = page.evaluate(f"({TEXTS})(document.body)")
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=120)
    assert told.said == [], said
    return told, reached, final


def in_json(key: str) -> Callable[[bytes], int]:
    """The number that a JSON document has under a key."""
    return lambda data: int(json.loads(data)[key])


@pytest.mark.parametrize("what", ["night", "search", "shrinking"])
def test_what_is_under_way_grows_and_ends_as_its_page(tmp_path: Path, what: str) -> None:
    """Each run is seen at most 2 s after its line was written; the last thing shown is on the final page."""
    runs = tmp_path / "runs"
    runs.mkdir()
    if what == "shrinking":
        found = a_run_that_loses(tmp_path, runs)
    with serving(runs) as server:
        if what == "night":
            command = ("run", "canary", "--repeat", "2", "--parallel", "1")
            told, reached, final = watched(
                server, runs, command, "all", "runs.jsonl", lambda d: d.count(b"\n")
            )
            sentences = {1: "1 run; 1 planned and not run.", 2: "2 runs."}
        elif what == "search":
            command = ("search", "--kafka", "3.9.1", "--seed", "5", "--count", "2", "--parallel", "1")
            told, reached, final = watched(server, runs, command, what, "search.json", in_json("schedules"))
            sentences = {1: "1 schedule, 1 judged", 2: "2 schedules, 2 judged"}
        else:
            command = ("shrink", str(found), "--finding", "lost", "--steps", "--parallel", "1")
            told, reached, final = watched(
                server, runs, command, "shrink", "shrink.json", in_json("tried"), until=1
            )
            sentences = {1: "1 schedule and "}
        assert not any(one["under_way"] for one in server.json("/runs.json"))
    behind = {number: round(told.first(text) - reached[number], 2) for number, text in sentences.items()}
    print(f"{what}: seconds behind, by count: {behind}")
    assert max(behind.values()) <= BEHIND_S, behind
    pages = "The page of a run that shows it"  # made by the server if the folder has none
    assert [text for text in told.shown[-1][1] if text not in (*final, pages)] == []


def a_run_that_loses(tmp_path: Path, runs: Path) -> Path:
    """The run of a schedule in which acks=1 loses messages."""
    file = tmp_path / FILE
    file.write_bytes(LOSING.encode())
    done = acked("replay", file, "--repeat", "1", "--parallel", "1", "--runs", runs, "--json")
    assert done.status in (0, 1), done.stderr  # a busy machine may leave an unexplained ERROR
    assert any(one["example"]["name"] == "lost" for one in done.json()["findings"]), done.stderr
    (folder,) = (one.parent for one in runs.glob("replay/*/runs/schedule/2*/judgement.json"))
    return folder

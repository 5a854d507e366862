"""`acked serve`: what it lists and sends, what it refuses, and a run under way as it grows."""

from __future__ import annotations

import http.client
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow.parquet as pq
import pytest

from cli.serve import serve
from harness.errors import UsageError
from harness.history.stream_journal import StreamJournal
from harness.waiting import wait_until
from studies.series.planned import alone
from tests.axe import barriers, out_of_reach
from tests.browser import chromium
from tests.page_layout import layout_faults
from tests.pages import long_comparison

TIME = "2026-11-28T01-00-00"
NASTY = 'x"><script>alert(1)</script>'
SECRET = "of-somebody-else"


class Server:
    """A server that runs, and what it answers."""

    def __init__(self, port: int, token: str) -> None:
        self.port, self.token = port, token

    def get(self, path: str, method: str = "GET", **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
        """One request. ``path`` is sent as it is."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.putrequest(method, path, skip_host="host" in headers)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders()
            response = connection.getresponse()
            return response, response.read()
        finally:
            connection.close()

    def json(self, path: str) -> Any:
        """The answer to a request, as JSON."""
        response, body = self.get(path)
        assert response.status == 200
        return json.loads(body)


@contextmanager
def serving(runs: Path, *options: str) -> Iterator[Server]:
    """`acked serve` in a process of its own, which has ended afterwards."""
    command = [sys.executable, "-m", "cli.main", "serve", "--runs", str(runs), "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline()
            port, _, token = address.rpartition(":")[2].strip().partition("/?token=")
            yield Server(int(port.strip("/")), token)
        finally:
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=60)
    assert "Traceback" not in said


@pytest.fixture(scope="module")
def runs(judged: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two judged runs, one of them without a page, a series, and folders that somebody hostile made."""
    folder = tmp_path_factory.mktemp("served") / "runs"
    for name in ("leader-az-isolated", "no-fault"):
        shutil.copytree(judged(name), folder / name / TIME)
    (folder / "no-fault" / TIME / "report.html").write_text("<script>fetch('/runs.json')</script>stored")
    series = folder / "all" / TIME
    series.mkdir(parents=True)
    (series / "runs.jsonl").write_text("")
    (series / "index.html").write_text("the night")
    inner = series / "runs" / "case" / TIME
    inner.mkdir(parents=True)
    (inner / "report.html").write_text("a run of the night")
    (inner / "run.json").write_text("{}")
    hostile = folder / "hostile" / TIME
    hostile.mkdir(parents=True)
    (hostile / "run.json").write_text(
        json.dumps({"scenario": NASTY, "kafka": "9" * 400, "status": "complete"})
    )
    (hostile / "judgement.json").write_text(json.dumps({"verdict": "violated", "fates": {"lost": 1}}))
    (folder.parent / "secret.html").write_text(SECRET)
    (hostile / "report.html").symlink_to(folder.parent / "secret.html")
    os.mkfifo(hostile / "claims.json")
    outside = folder.parent / "outside" / TIME
    outside.mkdir(parents=True)
    (outside / "run.json").write_text(json.dumps({"scenario": SECRET}))
    (folder / "linked").symlink_to(outside.parent)
    return folder


@pytest.fixture(scope="module")
def server(runs: Path) -> Iterator[Server]:
    with serving(runs) as one:
        yield one


def test_list_has_every_run_with_its_sentence(server: Server) -> None:
    entries = {entry["address"]: entry for entry in server.json("/runs.json")}
    assert set(entries) == {f"{name}/{TIME}" for name in ("leader-az-isolated", "no-fault", "all", "hostile")}
    lossy = entries[f"leader-az-isolated/{TIME}"]
    assert "With acks=1, 63 of 64 acknowledged writes were lost" in lossy["headline"]
    assert (lossy["tone"], lossy["findings"], lossy["lost"] > 0) == ("cost", ["lost"], True)
    assert entries[f"all/{TIME}"]["series"]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("finding=lost", {"leader-az-isolated"}),
        ("name=LEADER", {"leader-az-isolated"}),
        ("verdict=violated", {NASTY}),
        ("kafka=2.7.1", {"leader-az-isolated", "no-fault"}),
        ("kafka=0.1", set()),
    ],
)
def test_list_is_restricted(server: Server, query: str, names: set[str]) -> None:
    assert {entry["name"] for entry in server.json(f"/runs.json?{query}")} == names
    _, page = server.get(f"/?{query}")
    assert page.count(b'<th scope="row">') == len(names)


def test_pages_are_served_and_made_where_there_is_none(server: Server, runs: Path) -> None:
    made, page = server.get(f"/runs/leader-az-isolated/{TIME}/")
    assert (made.status, b"as documented" in page) == (200, True)
    assert not (runs / "leader-az-isolated" / TIME / "report.html").exists()
    stored, page = server.get(f"/runs/no-fault/{TIME}/report.html")
    assert page.endswith(b"stored")
    for response in (made, stored):
        policy = response.headers["content-security-policy"]
        assert policy.startswith("sandbox allow-scripts; default-src 'none'")
        assert "connect-src" not in policy
    assert server.get(f"/runs/all/{TIME}/")[1] == b"the night"
    assert server.get(f"/runs/all/{TIME}/runs/case/{TIME}/report.html")[1] == b"a run of the night"


def test_data_can_be_downloaded(server: Server, runs: Path) -> None:
    address = f"/runs/leader-az-isolated/{TIME}"
    tables = next(
        entry["tables"] for entry in server.json("/runs.json") if entry["name"] == "leader-az-isolated"
    )
    assert {"sends", "copies", "life", "findings"} <= set(tables)
    for table in ("sends", "findings"):
        _, archive = server.get(f"{address}/tables/{table}.zip")
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            rows = sum(pq.read_table(io.BytesIO(opened.read(name))).num_rows for name in opened.namelist())
        stored = next(runs.glob(f"leader-az-isolated/*/**/{table}.parquet"))
        assert rows == pq.read_table(stored).num_rows > 0
    assert server.json(f"{address}/judgement.json")["verdict"] == "as declared"
    assert server.json(f"{address}/report.json")["verdict"]["verdict"] == "as declared"
    _, history = server.get(f"{address}/history.edn")
    assert history.startswith(b"{:")


def test_a_recording_is_listed_with_what_it_was_of(tmp_path: Path) -> None:
    """All recordings are called `record`; the version of a cluster of others is not known."""
    folder = tmp_path / "record" / TIME
    folder.mkdir(parents=True)
    said = {"scenario": "record", "title": "bridge: <two AZs>", "kafka": None, "mode": "kraft"}
    (folder / "run.json").write_text(json.dumps({**said, "status": "running"}))
    with serving(tmp_path) as server:
        (entry,) = server.json("/runs.json?name=bridge")
        assert (entry["name"], entry["title"]) == ("record", "bridge: <two AZs>")
        assert server.json("/runs.json?name=leader") == []
        for path in ("/", f"/runs/record/{TIME}/live"):
            page = server.get(path)[1]
            assert b"bridge: &lt;two AZs&gt;" in page and b"Kafka ," not in page


def test_two_runs_are_compared(server: Server) -> None:
    one, other = (quote(f"{name}/{TIME}", safe="") for name in ("leader-az-isolated", "no-fault"))
    response, page = server.get(f"/compare?run={one}&run={other}")
    assert (response.status, b"leader-az-isolated" in page, b"no-fault" in page) == (200, True, True)
    response, page = server.get(f"/compare?run={one}")
    assert (response.status, b"tick exactly two" in page) == (400, True)


def test_nothing_outside_of_what_is_stored_is_served(server: Server) -> None:
    """Neither by a path, nor by a link in a folder, nor by a name that is no table."""
    for path in (
        "/../secret.html",
        "/runs/../secret.html",
        f"/runs/hostile/{TIME}/../../../secret.html",
        f"/runs/hostile/{TIME}/..%2f..%2f..%2fsecret.html",
        f"/runs/hostile/{TIME}/report.html",
        f"/runs/hostile/{TIME}/claims.json",
        f"/runs/hostile/{TIME}/tables/..%2frun.parquet",
        f"/runs/linked/{TIME}/run.json",
        f"/runs/all/{TIME}/runs/../../../hostile/{TIME}/run.json",
        f"/runs/all/{TIME}/runs/case/..%2f..%2f..%2f../run.json",
        f"/runs/leader-az-isolated/{TIME}/journal/harness.jsonl",
        "//etc/passwd",
        "/%00",
    ):
        response, body = server.get(path)
        assert response.status in (307, 400, 404), path
        assert SECRET.encode() not in body, path


def test_what_folders_say_is_text(server: Server) -> None:
    _, page = server.get("/")
    assert NASTY.encode() not in page
    assert b"&lt;script&gt;alert(1)" in page
    _, page = server.get(f"/runs/hostile/{TIME}/<script>alert(1)</script>".replace(" ", "%20"))
    assert b"<script>alert" not in page


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_only_reading_is_possible(server: Server, method: str) -> None:
    for path in ("/", f"/runs/no-fault/{TIME}/", f"/runs/no-fault/{TIME}/run.json", "/compare"):
        assert server.get(path, method)[0].status == 405


def test_a_page_elsewhere_cannot_ask(server: Server) -> None:
    """A name that leads to this machine, as of DNS rebinding, is not one of its own."""
    response, _ = server.get("/", host=f"evil.example:{server.port}")
    assert response.status == 400
    assert server.get("/", host=f"localhost:{server.port}")[0].status == 200
    headers = server.get("/")[0].headers
    assert headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers


def test_other_addresses_need_the_token(runs: Path) -> None:
    with serving(runs, "--host", "0.0.0.0") as server:
        assert len(server.token) >= 32
        assert server.get("/")[0].status == 401
        assert server.get("/runs.json?token=wrong")[0].status == 401
        response, _ = server.get(f"/?token={server.token}")
        cookie = response.headers["set-cookie"]
        assert (response.status, "HttpOnly" in cookie) == (200, True)
        assert server.get("/runs.json", cookie=cookie.split(";")[0])[0].status == 200


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"runs": Path("/nowhere")}, "There is no folder /nowhere"),
        ({"host": "example.com"}, "--host example.com is no IP address"),
        ({"port": 0, "host": "203.0.113.1"}, "Port 0 of 203.0.113.1 cannot be listened on"),
    ],
)
def test_what_cannot_be_served_is_refused(tmp_path: Path, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        serve(**{"runs": tmp_path, "port": 0, "host": "127.0.0.1", "open_page": False, **options})


class Journals:
    """A run under way, as its processes write it."""

    def __init__(self, runs: Path) -> None:
        self.folder = runs / "growing" / TIME
        self.zero_ns = time.monotonic_ns()
        for place in ("journal", "nodes/client1"):
            (self.folder / place).mkdir(parents=True)
        manifest = {"scenario": "growing", "kafka": "4.4.0", "mode": "kraft", "status": "running"}
        (self.folder / "run.json").write_text(json.dumps(manifest))
        writer = '{"table":"writers","writer":1,"name":"p","az":"az1"}'
        (self.folder / "nodes/client1/client.jsonl").write_text(f"{writer}\n")
        self._stream = StreamJournal(self.folder / "nodes/client1/client.1.sends", 1, [("t", 0)])
        self._sent = 0

    def write(self, table: str, **row: object) -> None:
        """A line of the harness's journal."""
        line = json.dumps({"table": table, "ns": time.monotonic_ns(), **row}, separators=(",", ":"))
        with (self.folder / "journal/harness.jsonl").open("a") as file:
            file.write(f"{line}\n")

    def leads(self, broker: int, epoch: int) -> None:
        """Every broker states who leads the partition."""
        for source in (1, 2, 3):
            row = {"topic": "t", "partition": 0, "leader": broker, "epoch": epoch, "isr": [1, 2, 3]}
            self.write("views", source=f"broker{source}", subject="partition", **row)

    def acknowledge(self, count: int) -> None:
        """Messages of the stream are acknowledged."""
        for _ in range(count):
            now = time.monotonic_ns()
            self._stream.begin(self._sent, 0, now)
            self._stream.complete(self._sent, done_ns=now + 1, outcome="ok", offset=self._sent)
            self._sent += 1
        self._stream.counters()


def pictures(server: Server, address: str) -> Iterator[tuple[str, str]]:
    """The events of a run under way: their kind and their text."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.request("GET", f"/runs/{address}/live/events")
        response = connection.getresponse()
        kind = "message"
        while line := response.readline():
            if line.startswith(b"event: "):
                kind = line[7:].decode().strip()
            elif line.startswith(b"data: "):
                yield kind, json.loads(line[6:]) if kind == "message" else ""
                kind = "message"
    finally:
        connection.close()


def test_a_run_under_way_is_shown_as_it_grows(tmp_path: Path) -> None:
    """What a journal gets is drawn with the next event; lines that no run writes change nothing."""
    journals = Journals(tmp_path)
    with serving(tmp_path) as server:
        address = f"growing/{TIME}"
        assert server.json("/runs.json")[0]["under_way"]
        assert server.get(f"/runs/{address}/live")[0].status == 200
        led, _ = server.get(f"/runs/{address}/")
        assert (led.status, led.headers["location"]) == (307, "live")
        assert b"history.edn" not in server.get("/")[1]
        events = pictures(server, address)
        assert next(events) == ("message", '<p class="meta">The run begins.</p>')
        journals.leads(1, 0)
        journals.acknowledge(25)
        with (journals.folder / "journal/harness.jsonl").open("a") as file:
            file.write('{"table":"views","ns":-1}\n{"table":"views","ns":1e400}\n{"table":"vie\n[1]\n')
        first = next(text for kind, text in events if "Who leads t/0" in text)
        assert "25 messages acknowledged" in first
        assert "broker2 · epoch 1" not in first
        journals.leads(2, 1)
        journals.write("marks", name="cut", text="<b>the cut</b>")
        second = next(text for kind, text in events if "broker2 · epoch 1" in text)
        assert "&lt;b&gt;the cut" in second and "since the start<" in second
        journals.write("faults", fault=0, name="cut az1", kind="link", moment="injected")
        third = next(text for kind, text in events if "since the fault<" in text)
        assert re.search(r"−[\d.]+ s: cut: &lt;b&gt;", third)
        (journals.folder / "judgement.json").write_text('{"verdict": "as declared"}')
        assert next(kind for kind, _ in events if kind != "message") == "over"
        assert server.get(f"/runs/{address}/live")[0].status == 307


ASSESSED = Path(__file__).parents[1] / "cli" / "assessment.json"


def test_an_assessment_under_way_is_shown_as_it_grows(tmp_path: Path) -> None:
    """For as long as a process works in its folder; then its page takes the place."""
    document = json.loads(ASSESSED.read_text()) | {"ended": 1, "planned": 3}
    folder = tmp_path / "assess" / TIME
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text("{}")
    (folder / "assessment.json").write_text(json.dumps(document))
    run = folder / "runs" / document["lines"][0]["runs"][0]
    run.mkdir(parents=True)
    (run / "run.json").write_text("{}")
    address = f"assess/{TIME}"
    with serving(tmp_path) as server:
        with alone(folder):
            (entry,) = server.json("/runs.json")
            assert (entry["under_way"], entry["outcome"], entry["series"]) == (True, "under way", True)
            assert server.get(f"/runs/{address}/")[0].headers["location"] == "live"
            assert b"{" not in server.get("/metrics")[1]
            events = pictures(server, address)
            _, first = next(events)
            assert "1 of 3 runs have ended." in first and '<div class="assessment">' in first
            assert f'href="/runs/{address}/runs/{document["lines"][0]["runs"][0]}/"' in first
            (folder / "assessment.json").write_text(json.dumps(document | {"ended": 2}))
            assert next(text for _, text in events if "2 of 3 runs have ended." in text)
        assert next(kind for kind, _ in events if kind != "message") == "over"
        assert b"2 of 3 runs have ended." in server.get(f"/runs/{address}/")[1]


def test_a_comparison_of_searches_leads_to_its_searches_and_their_runs(tmp_path: Path) -> None:
    """By addresses below its own; what is not there, or a link, has none."""
    folder = tmp_path / "compare" / TIME
    run = folder / "1" / "runs" / "schedule" / TIME
    run.mkdir(parents=True)
    (folder / "2").mkdir()
    (folder / "3").symlink_to(tmp_path)
    (folder / "comparison.json").write_text('["3.6.2", "4.3.1"]')
    document = long_comparison()
    document["differences"] = document["differences"][:1]
    document["differences"][0]["sides"][0]["folder"] = f"runs/compare/{TIME}/1/runs/schedule/{TIME}"
    (folder / "compare.json").write_text(json.dumps(document))
    (folder / "1" / "search.json").write_text((ASSESSED.parent / "search.json").read_text())
    (run / "run.json").write_text("{}")
    (run / "judgement.json").write_text('{"verdict": "as declared"}')
    (run / "report.html").write_text("<!--around-->the run")
    address = f"/runs/compare/{TIME}"
    with serving(tmp_path) as server:
        (entry,) = server.json("/runs.json")
        assert entry["headline"].startswith("Kafka broke a promise with 3.6.2, and none with 4.3.1.")
        assert (entry["tone"], entry["under_way"]) == ("broken", False)
        page = server.get(f"{address}/")[1].decode()
        assert f'href="{address}/1/runs/schedule/{TIME}/"' in page and 'href="1/index.html"' in page
        inner = server.get(f"{address}/1/index.html")[1].decode()
        assert (
            "In 8 random schedules of faults" in inner and f'<a href="{address}/">its comparison</a>' in inner
        )
        text = server.get(f"{address}/1/runs/schedule/{TIME}/")[1].decode()
        assert text == (
            f'<a href="/">all results</a> <a href="{address}/">its comparison</a> '
            f'<a href="{address}/1/">its search</a>the run'
        )
        for absent in ("2/runs/schedule/x", "3", "4", "1/runs", "x/runs/schedule/x"):
            assert server.get(f"{address}/{absent}/")[0].status == 404, absent


def test_pages_lead_to_those_around_them(tmp_path: Path) -> None:
    """Up to the list, and to the ones before and after of the same kind; assessments are compared."""
    document = json.loads(ASSESSED.read_text())
    for day in (1, 2, 3):
        folder = tmp_path / "assess" / f"2026-11-0{day}T01-00-00"
        folder.mkdir(parents=True)
        (folder / "assessment.json").write_text(json.dumps(document))
        (folder / "plan.json").write_text("{}")
        (folder / "index.html").write_text(f"the page<!--around-->, {day}<!--around-->")
    with serving(tmp_path) as server:
        _, page = server.get("/runs/assess/2026-11-02T01-00-00/")
        assert page.decode() == (
            'the page<a href="/">all results</a> '
            '<a href="/runs/assess/2026-11-01T01-00-00/">← 2026-11-01 01:00:00</a> '
            '<a href="/runs/assess/2026-11-03T01-00-00/">2026-11-03 01:00:00 →</a>, 2<!--around-->'
        )
        assert "→" not in server.get("/runs/assess/2026-11-03T01-00-00/")[1].decode()
        both = "&".join(f"run=assess/2026-11-0{day}T01-00-00" for day in (1, 3))
        response, compared = server.get(f"/compare?{both}")
        assert response.status == 200 and b"No cell of the table differs" in compared
        assert b'<a href="/runs/assess/2026-11-03T01-00-00/">' in compared


def test_a_run_under_way_is_told_to_collectors(tmp_path: Path) -> None:
    """By the text that a recording gives them, with a label `run`."""
    journals = Journals(tmp_path)
    with serving(tmp_path) as server:
        journals.leads(1, 0)
        journals.leads(2, 1)
        journals.write("views", source="broker1", subject="reachable", error="timed out")
        journals.acknowledge(25)
        response, text = server.get("/metrics")
        assert response.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
        run = f'run="growing/{TIME}"'
        for line in (
            f'acked_messages_total{{{run},producer="p",outcome="ok"}} 25',
            f'acked_broker_answers{{{run},broker="1"}} 0',
            f'acked_partition_leader{{{run},topic="t",partition="0"}} 2',
            f'acked_partition_in_sync_replicas{{{run},topic="t",partition="0"}} 3',
        ):
            assert f"{line}\n".encode() in text, text.decode()
        assert text.endswith(b"# EOF\n")
        client = journals.folder / "nodes/client1"
        client.rename(journals.folder / "collected")  # at the end of a run
        assert f'{run},producer="p",outcome="ok"}} 25\n'.encode() in server.get("/metrics")[1]
        (journals.folder / "judgement.json").write_text('{"verdict": "as declared"}')
        over = wait_until(
            lambda: server.get("/metrics")[1],
            accept=lambda told: b"{" not in told,
            within_s=20,
            awaiting="the run to be over",
            poll_s=0.2,
        )
        assert b"# TYPE acked_messages counter" in over


@pytest.mark.browser
@pytest.mark.long
@pytest.mark.parametrize("width", [390, 768, 1280, 1920])
def test_list_and_live_page_in_a_browser(runs: Path, tmp_path: Path, width: int) -> None:
    """Without overlap, complaint or request elsewhere; the list follows the folder, and ticks stay."""
    folder = tmp_path / "runs"
    shutil.copytree(runs, folder, symlinks=True, ignore=shutil.ignore_patterns("hostile"))
    with serving(folder) as server, chromium() as browser:
        page = browser.new_page(viewport={"width": width, "height": 800})
        said: list[str] = []
        asked: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"http://127.0.0.1:{server.port}/")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert layout_faults(page) == []
        assert barriers(page) == []
        assert out_of_reach(page) == []
        page.locator("input[type=checkbox]").first.check()
        journals = Journals(folder)
        journals.leads(1, 0)
        page.get_by_role("link", name="under way").click(timeout=30_000)
        page.get_by_role("heading", name="Who leads t/0").wait_for()
        journals.leads(2, 1)
        page.get_by_text("broker2 · epoch 1").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert layout_faults(page) == []
        assert barriers(page) == []
        assert [
            url for url in asked if not url.startswith((f"http://127.0.0.1:{server.port}/", "data:"))
        ] == []
        assert said == []

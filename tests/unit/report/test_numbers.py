"""Every number of a page: it prints none that its model lacks, and the model's are those of the tables."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pytest

from report.model.gather import report_model
from report.model.model import ReportModel
from report.page.render import page
from tests.runs.judged import ZERO_NS

RunJudge = Callable[[str], Path]
Rows = list[dict[str, Any]]
RUNS = (
    "leader-az-isolated",
    "delayed-end-txn",
    *(
        pytest.param(name, marks=pytest.mark.long)
        for name in (
            *("canary", "follower-az-isolated", "no-fault", "kraft-zombie-controller", "power-cut"),
            *("hw-truncation-diverges", "at-least-once-az-isolated", "server-side-rebalance-during-cut"),
            "commit-marker-lost",
        )
    ),
)
_NUMBER = re.compile(r"−?\d[\d,]*(?:\.\d+)?")
_SVG = re.compile(r"<svg .*?</svg>", re.DOTALL)
_PICTURE = re.compile(r'<svg [^>]*class="picture (\w+)".*?</svg>', re.DOTALL)
_HIDDEN = re.compile(r"<(style|script|pre)>.*?</\1>", re.DOTALL)
_FIXED = {
    "How to name a message, and how often logs are read": ("5/0 is the first message of producer 5", "0.2 s"),
    "Heads of columns": (" p50 ", " p99 "),
    "The key of the ISR": ("ISR: broker 1 is in it, broker 2 is not",),
}
"""Numbers of the page's own sentences."""


def values(model: Any) -> Iterator[int | float | str]:
    """Everything that a model holds, and how many things its lists and tables hold."""
    if is_dataclass(model):
        for field in fields(model):
            yield from values(getattr(model, field.name))
    elif isinstance(model, Mapping):
        yield len(model)
        for key, value in model.items():
            yield from values(key)
            yield from values(value)
    elif isinstance(model, list | tuple):
        yield len(model)
        for value in model:
            yield from values(value)
    elif isinstance(model, int | float | str):
        yield model


def derived(model: ReportModel) -> Iterator[int | float]:
    """Sums and differences that the page makes of the model's numbers."""
    groups = model.groups
    yield sum(one.count for one in groups)
    yield from (len(one.shown) for one in groups)
    for story in model.partitions:
        for bins in story.sends.values():
            yield sum(one.ok + one.info + one.fail for one in bins)
            yield sum(one.lost for one in bins)
            yield sum(one.fail for one in bins)
    for split in (*model.controller_splits, *(one for story in model.partitions for one in story.splits)):
        yield split.to_s - split.from_s
    for story in model.partitions:
        for column in story.logs.columns if story.logs else ():
            yield column.offset + column.count - 1
    for one in model.files:
        yield from (one.size_bytes / 1000, one.size_bytes / 1_000_000)
    yield len(model.verdict.reasons) - 6


def printed(numbers: Iterable[int | float | str]) -> set[str]:
    """How a page may print these."""
    printed_numbers = set()
    for one in numbers:
        if isinstance(one, str):
            printed_numbers |= {number.rstrip(",") for number in _NUMBER.findall(one)}
        else:
            forms = (str(one), f"{one:,}", *(f"{one:z.{digits}f}" for digits in range(3)))
            printed_numbers |= {form.replace("-", "−") for form in forms}
    return printed_numbers


def text_of(html: str) -> str:
    """What a reader sees of a page outside the pictures and the examples of code."""
    body = _HIDDEN.sub(" ", _SVG.sub(" ", html[html.index("<body") :]))
    text = unescape(re.sub(r"<[^>]+>", " ", body))
    for fixed in (one for some in _FIXED.values() for one in some):
        text = text.replace(fixed, " ")
    return text


def invented(numbers: Iterable[str], printed_numbers: set[str]) -> set[str]:
    """Numbers that are not known."""
    return {one for one in (number.rstrip(",") for number in numbers) if one not in printed_numbers}


@pytest.mark.parametrize("name", RUNS)
def test_page_prints_no_number_that_its_model_lacks(judged: RunJudge, name: str) -> None:
    model = report_model(judged(name))
    html = page(model)
    of_model = printed([*values(model), *derived(model)])
    assert invented(_NUMBER.findall(text_of(html)), of_model) == set()
    for kind, picture in ((match[1], match[0]) for match in _PICTURE.finditer(html)):
        texts = re.findall(r'<text [^>]*class="([^"]*)"[^>]*>(.*?)</text>', picture)
        said = [unescape(re.sub(r"<[^>]*>", " ", words)) for class_, words in texts if class_ != "tick"]
        said = [one for one in said if not one.startswith("HW stands still")]
        assert invented(_NUMBER.findall(" ".join(said)), of_model) == set(), kind


def test_an_invented_number_is_found(judged: RunJudge) -> None:
    model = report_model(judged("canary"))
    html = page(model).replace("53 messages judged", "54 messages judged")
    of_model = printed([*values(model), *derived(model)])
    assert "54" in invented(_NUMBER.findall(text_of(html)), of_model)


class RunQueries:
    """A judged run folder, asked in SQL."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = duckdb.connect()
        for file in (*folder.glob("*.parquet"), *(folder / "history").glob("*.parquet")):
            self.database.execute(f"CREATE VIEW {file.stem} AS FROM read_parquet('{file}')")
        self.tables = {row[0] for row in self.database.execute("SHOW TABLES").fetchall()}
        begins = ("views", "faults", "processes", "marks", "log_events", "groups", "transactions")
        union = " UNION ALL ".join(
            f"SELECT min(ns) AS ns FROM {begin}" for begin in begins if begin in self.tables
        )
        fault = f"({ZERO_NS})" if {"faults", "processes"} <= self.tables else "NULL"
        self.zero_ns = self.rows(f"SELECT coalesce({fault}, min(ns)) AS ns FROM ({union})")[0]["ns"]

    def rows(self, query: str) -> Rows:
        rows: Rows = self.database.sql(query).to_arrow_table().to_pylist()
        return rows

    def s(self, ns: int) -> float:
        return round((ns - self.zero_ns) / 1e9, 4)


@pytest.fixture
def asked(judged: RunJudge, request: pytest.FixtureRequest) -> Iterator[RunQueries]:
    one = RunQueries(judged(request.param))
    yield one
    one.database.close()


OF_EACH_RUN = pytest.mark.parametrize("asked", RUNS, indirect=True)


@OF_EACH_RUN
def test_messages_marks_and_faults(asked: RunQueries) -> None:
    model = report_model(asked.folder)
    assert [{"n": model.verdict.messages}] == asked.rows("SELECT count(*) AS n FROM life")
    assert [(mark.s, mark.name) for mark in model.marks] == [
        (asked.s(row["ns"]), row["name"]) for row in asked.rows("FROM marks ORDER BY ns")
    ]
    moments = "min(ns) FILTER (moment = 'injected') AS begun, max(ns) FILTER (moment = 'healed') AS ended"
    for row in asked.rows(f"SELECT fault, any_value(name) AS name, {moments} FROM faults GROUP BY fault"):
        fault = next(one for one in model.faults if one.number == row["fault"])
        begun = [row["begun"]]
        if fault.mechanism in ("kill", "power_cut"):
            begun = [
                one["ns"] for one in asked.rows("SELECT ns FROM processes WHERE event = 'killed'")
            ] + begun
        assert fault.name == row["name"]
        assert fault.from_s in {asked.s(ns) for ns in begun}
        if row["ended"] is not None:
            assert fault.to_s == asked.s(row["ended"])


@OF_EACH_RUN
def test_sends_of_each_bar(asked: RunQueries) -> None:
    model = report_model(asked.folder)
    for story in model.partitions:
        here = f"topic = '{story.topic}' AND partition = {story.partition}"
        for az, bins in story.sends.items():
            sent = asked.rows(f"SELECT sent_ns, outcome, fate FROM life WHERE {here} AND az = '{az}'")
            width = bins[0].width_s
            counted = Counter(
                (
                    min(max(int(((row["sent_ns"] - asked.zero_ns) / 1e9 - model.from_s) / width), 0), 179),
                    row["outcome"] if row["outcome"] in ("ok", "fail") else "info",
                )
                for row in sent
            )
            drawn = Counter()
            for one in bins:
                at = round((one.s - model.from_s) / width)
                drawn.update({(at, "ok"): one.ok, (at, "info"): one.info, (at, "fail"): one.fail})
            assert +drawn == counted


@OF_EACH_RUN
def test_beliefs_and_offsets(asked: RunQueries) -> None:
    model = report_model(asked.folder)
    for story in model.partitions:
        here = f"topic = '{story.topic}' AND partition = {story.partition}"
        query = f"SELECT source, ns, leader, epoch, isr FROM views WHERE subject = 'partition' AND {here}"
        stated = {
            (row["source"], row["leader"], row["epoch"], tuple(row["isr"] or ())): []
            for row in asked.rows(query)
        }
        for row in asked.rows(query):
            key = (row["source"], row["leader"], row["epoch"], tuple(row["isr"] or ()))
            stated[key].append(asked.s(row["ns"]))
        for lane in story.lanes:
            silent = False
            for belief in lane.beliefs:
                if belief.leader is not None and not belief.error and not silent:
                    assert belief.from_s in stated[lane.source, belief.leader, belief.epoch, belief.isr]
                silent = bool(belief.error)
        for broker, steps in story.offsets.items():
            rows = asked.rows(f"FROM watermarks WHERE {here} AND broker = {broker} ORDER BY ns")
            assert [(step.s, step.high_watermark, step.leo) for step in steps] == [
                (asked.s(row["ns"]), row["high_watermark"], row["leo"]) for row in rows
            ]


@OF_EACH_RUN
def test_elections_and_removals(asked: RunQueries) -> None:
    model = report_model(asked.folder)
    for story in model.partitions:
        here = f"topic = '{story.topic}' AND partition = {story.partition}"
        query = "SELECT min(ns) AS ns FROM views WHERE subject = 'partition' AND leader > 0 AND"
        for one in (turn for turn in story.turns if turn.kind == "elected"):
            epoch = int(_NUMBER.findall(one.text)[-1])
            (row,) = asked.rows(f"{query} {here} AND epoch = {epoch}")
            assert one.s == asked.s(row["ns"])
        removed: Counter[str] = Counter()
        for one in story.turns:
            removed[one.source] += one.count if one.kind == "removed" else 0
        gone = (
            f"SELECT broker, count(*) AS n FROM sightings s WHERE {here} AND gone_ns IS NOT NULL AND "
            f"(writer, seq) IN (SELECT (writer, seq) FROM life WHERE outcome = 'ok' AND {here}) AND "
            f"gone_ns < {asked.zero_ns + int(model.to_s * 1e9)} GROUP BY broker"
        )
        for row in asked.rows(gone):
            assert removed[f"broker{row['broker']}"] <= row["n"]
        assert sum(removed.values()) <= sum(row["n"] for row in asked.rows(gone))


@OF_EACH_RUN
def test_availability(asked: RunQueries) -> None:
    stream = "AND role = 'stream'" if asked.rows("FROM life WHERE role = 'stream' LIMIT 1") else ""
    for one in report_model(asked.folder).availability:
        level = {"acks=all": -1, "acks=1": 1, "acks=0": 0, "": None}[one.acks]
        whose = f"az = '{one.az}' AND acks IS NOT DISTINCT FROM {'NULL' if level is None else level}"
        good = "outcome = 'ok' AND done_ns IS NOT NULL"
        took = f"(done_ns - sent_ns) / 1e6) FILTER ({good})"
        (row,) = asked.rows(
            f"SELECT count(*) AS sent, count(*) FILTER ({good}) AS acknowledged, "
            f"count(*) FILTER (outcome = 'fail') AS failed, "
            f"count(*) FILTER (outcome IS NULL OR outcome NOT IN ('ok', 'fail')) AS unknown, "
            f"max({took} AS most, list({took} AS latencies "
            f"FROM life WHERE {whose} {stream}"
        )
        assert (one.sent, one.acknowledged, one.failed, one.unknown) == (
            *(row["sent"], row["acknowledged"], row["failed"]),
            row["unknown"],
        )
        for shown, which in (
            (one.failed_ms, "outcome = 'fail'"),
            (one.unknown_ms, "(outcome IS NULL OR outcome NOT IN ('ok', 'fail'))"),
        ):
            (measured,) = asked.rows(
                f"SELECT max((done_ns - sent_ns) / 1e6) AS most FROM life "
                f"WHERE {whose} AND {which} AND done_ns IS NOT NULL {stream}"
            )
            assert shown == (None if measured["most"] is None else pytest.approx(measured["most"], abs=0.06))
        most = row["most"]
        assert (one.max_ms is None) == (most is None)
        for share, shown in ((0.5, one.p50_ms), (0.99, one.p99_ms)):
            measured = sorted(row["latencies"] or ())
            assert (shown is None) == (not measured)
            if shown is not None:  # messages that were due during a pause make latencies longer
                least = measured[max(0, int(share * len(measured) + 0.5) - 1)]
                assert one.max_ms >= most * 0.998 - 0.06 and one.max_ms >= shown
                assert shown >= least * 0.998 - 0.06
        (sent,) = asked.rows(
            f"SELECT min(sent_ns) AS first, max(sent_ns) AS last FROM life WHERE {whose} {stream}"
        )
        times: dict[tuple[str, int], list[float]] = {
            (place["topic"], place["partition"]): []
            for place in asked.rows(f"SELECT DISTINCT topic, partition FROM life WHERE {whose} {stream}")
        }
        for done in asked.rows(
            f"SELECT topic, partition, done_ns FROM life WHERE {whose} AND {good} {stream}"
        ):
            times[done["topic"], done["partition"]].append(asked.s(done["done_ns"]))
        last = max([asked.s(sent["last"]), *(one for of_partition in times.values() for one in of_partition)])
        gaps = [
            after - before
            for of_partition in times.values()
            for before, after in pairwise([asked.s(sent["first"]), *sorted(of_partition), last])
        ]
        assert one.longest_gap_s == pytest.approx(max(gaps), abs=0.011)
        assert one.gap_to_s - one.gap_from_s == pytest.approx(one.longest_gap_s, abs=0.011)
        seconds = asked.rows(
            f"SELECT floor((done_ns - {asked.zero_ns}) / 1e9) AS second, count(*) AS acknowledged "
            f"FROM life WHERE {whose} AND {good} {stream} GROUP BY ALL"
        )
        assert dict(one.per_second) == {float(row["second"]): row["acknowledged"] for row in seconds}


@OF_EACH_RUN
def test_findings_with_all_their_numbers(asked: RunQueries) -> None:
    model = report_model(asked.folder)
    rows = asked.rows("FROM findings")
    shown = [one for group in model.groups for one in group.shown]
    assert Counter(
        (one.name, one.place, one.offset, one.epoch, one.acked_s, one.acked_by, one.last_broker, one.brokers)
        for one in shown
    ) == Counter(
        (
            row["class"],
            "" if row["topic"] is None else f"{row['topic']}/{row['partition']}",
            *(row["offset"], row["epoch"]),
            None if row["acked_ns"] is None else asked.s(row["acked_ns"]),
            *(row["acked_by"], row["last_broker"], tuple(row["brokers"] or ())),
        )
        for row in rows
    )
    copies = {f"{row['writer']}/{row['seq']}": row["copies"] for row in asked.rows("FROM life")}
    for one in shown:
        assert one.copies == (copies[one.message] if one.name == "duplicated" else None)
    for story in model.partitions:
        here = f"topic = '{story.topic}' AND partition = {story.partition}"
        assert [{"n": story.findings}] == asked.rows(f"SELECT count(*) AS n FROM findings WHERE {here}")


@OF_EACH_RUN
def test_badge_counts_duplicated_messages(asked: RunQueries) -> None:
    model = report_model(asked.folder)
    (row,) = asked.rows("SELECT count(*) AS n FROM life WHERE fate = 'duplicated'")
    told = re.findall(r"(\d+) duplicated</p>", page(model).split("<nav")[0])
    assert told == ([str(row["n"])] if row["n"] and not model.verdict.lost else [])


@OF_EACH_RUN
def test_stories_and_transactions(asked: RunQueries) -> None:
    model = report_model(asked.folder)
    for story in model.stories:
        which = "writer = {} AND seq = {}".format(*story.message.split("/"))
        (life,) = asked.rows(f"FROM life WHERE {which}")
        seen = asked.rows(f"FROM sightings WHERE {which}")
        times = {
            kind: sorted(event.s for event in story.events if event.kind == kind) for kind in ("seen", "gone")
        }
        assert times["seen"] == sorted(asked.s(row["seen_ns"]) for row in seen)
        assert times["gone"] == sorted(asked.s(row["gone_ns"]) for row in seen if row["gone_ns"] is not None)
        assert [event.s for event in story.events if event.kind == "send"] == [asked.s(life["sent_ns"])]
        assert [event.s for event in story.events if event.kind == "ack"] == (
            [asked.s(life["done_ns"])] if life["outcome"] == "ok" else []
        )
        reads = {asked.s(row["ns"]) for row in asked.rows(f"FROM reads WHERE {which}")}
        assert {event.s for event in story.events if event.kind == "read"} <= reads
        if (life["copies"] or 0) > 1:
            assert story.ending.startswith(f"{life['copies']} copies in the log, one of them at offset")
    if "transaction_fates" in asked.tables:
        query = "SELECT reported, visible, finding, count(*) AS n FROM transaction_fates GROUP BY ALL"
        assert sorted(transaction.count for transaction in model.transactions) == sorted(
            row["n"] for row in asked.rows(query)
        )


@OF_EACH_RUN
def test_settings_and_files(asked: RunQueries) -> None:
    model = report_model(asked.folder)
    configs = {(row["key"], row["value"] or "", row["asked"]) for row in asked.rows("FROM configs")}
    assert {(setting.key, setting.value, setting.asked) for setting in model.settings} == {
        config for config in configs if config[2] is not None
    }
    for one in model.files:
        path = asked.folder / one.name
        files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
        assert one.size_bytes == sum(file.stat().st_size for file in files)
    assert [claim.status for claim in model.claims] == [
        one["status"] for one in json.loads((asked.folder / "judgement.json").read_text())["claims"]
    ]

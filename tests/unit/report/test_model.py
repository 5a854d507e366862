"""What a report shows agrees with the run: every number is that of a query over its tables."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from harness.errors import BadDataError
from harness.history.schema import TABLES
from harness.history.tables import write_into
from harness.history.time_zero import in_seconds, time_zero
from report.model.beliefs import believed_at
from report.model.gather import report_model
from report.model.messages import availability
from report.model.model import SCHEMA, ReportModel
from report.page.render import page
from report.terminal import block_in_words
from tests.runs.judged import RUNS, ZERO_NS

RunJudge = Callable[[str], Path]
NS = 1_000_000_000
LOST = "('lost', 'lost_after_read', 'overwritten', 'diverged')"


def ask(folder: Path, query: str) -> list[tuple[object, ...]]:
    with duckdb.connect() as database:
        for table in ("life", "findings"):
            database.execute(f"CREATE VIEW {table} AS FROM read_parquet('{folder}/{table}.parquet')")
        for file in (folder / "history").glob("*.parquet"):
            database.execute(f"CREATE VIEW {file.stem} AS FROM read_parquet('{file}')")
        return database.execute(query).fetchall()


@pytest.mark.parametrize("name", RUNS)
def test_numbers_are_those_of_queries(judged: RunJudge, name: str) -> None:
    folder = judged(name)
    model = report_model(folder)
    assert model.verdict.fates == dict(ask(folder, "SELECT fate, count(*) FROM life GROUP BY fate"))
    ((lost,),) = ask(folder, f"SELECT count(*) FROM life WHERE fate IN {LOST}")
    assert model.verdict.lost == lost
    assert (f"the loss of {lost} acknowledged" in model.verdict.meaning) == (lost != 0)
    counts = sorted(
        (one.name, one.cause_kind, json.dumps(one.cause_facts) if one.cause_facts else "", one.count)
        for one in model.groups
    )
    assert all(sum(one.promises.values()) == (one.count if _told(folder) else 0) for one in model.groups)
    causes = "coalesce(cause, '') AS cause, coalesce(cause_facts, '') AS cause_facts"
    rows = ask(folder, f"SELECT class, {causes}, count(*) FROM findings GROUP BY ALL")
    assert counts == sorted(rows)
    for story in model.partitions:
        here = f"topic = '{story.topic}' AND partition = {story.partition}"
        sent = {az: sum(one.ok + one.info + one.fail for one in bins) for az, bins in story.sends.items()}
        assert sent == dict(ask(folder, f"SELECT az, count(*) FROM life WHERE {here} GROUP BY az"))
        lost = sum(one.lost for bins in story.sends.values() for one in bins)
        where = f"{here} AND fate IN {LOST} AND outcome = 'ok'"
        assert [(lost,)] == ask(folder, f"SELECT count(*) FROM life WHERE {where}")
        assert [(story.findings,)] == ask(folder, f"SELECT count(*) FROM findings WHERE {here}")
    for one in model.availability:
        role = "AND role = 'stream'" if ask(folder, "FROM life WHERE role = 'stream'") else ""
        ((count, p50),) = ask(
            folder,
            f"SELECT count(*), quantile_disc((done_ns - sent_ns) / 1e6, 0.5) FROM life "
            f"WHERE az = '{one.az}' AND {_with_acks(one.acks)} AND outcome = 'ok' {role}",
        )
        assert (one.acknowledged, one.p50_ms) == (count, pytest.approx(p50, rel=0.002, abs=0.06))


@pytest.mark.parametrize("name", RUNS)
def test_longest_gap_is_a_time_without_any_acknowledgement(judged: RunJudge, name: str) -> None:
    folder = judged(name)
    model = report_model(folder)
    zero_ns = _zero_ns(folder)
    role = "AND role = 'stream'" if ask(folder, "FROM life WHERE role = 'stream'") else ""
    for one in model.availability:
        begin, end = (zero_ns + int((s + d) * NS) for s, d in ((one.gap_from_s, 0.02), (one.gap_to_s, -0.02)))
        ours = f"az = '{one.az}' AND {_with_acks(one.acks)} {role}"
        acked = f"outcome = 'ok' AND done_ns > {begin} AND done_ns < {end}"
        by_partition = f"SELECT count(*) FILTER ({acked}) FROM life WHERE {ours} GROUP BY topic, partition"
        assert (0,) in ask(folder, by_partition)


def _with_acks(acks: str) -> str:
    return f"acks IS NOT DISTINCT FROM {acks.removeprefix('acks=').replace('all', '-1') or 'NULL'}"


def _zero_ns(folder: Path) -> int:
    tables = ("views", "faults", "processes", "marks", "log_events", "groups", "transactions")
    union = " UNION ALL ".join(f"SELECT min(ns) AS ns FROM {name}" for name in tables)
    ((first,),) = ask(folder, f"SELECT coalesce(({ZERO_NS}), min(ns)) FROM ({union})")
    return int(str(first))


def test_old_leader_is_seen_to_believe_in_itself(judged: RunJudge) -> None:
    model = report_model(judged("leader-az-isolated"))
    story = model.partitions[0]
    split = next(mark.s for mark in model.marks if mark.name == "split")
    leaders = {
        lane.source: belief.leader
        for lane in story.lanes
        if (belief := believed_at(lane, split)) is not None and not belief.error
    }
    assert leaders["broker1"] == 1
    assert {leaders[name] for name in ("broker2", "broker3", "zookeeper2", "zookeeper3")} == {2}
    (disagreement,) = [one for one in story.splits if one.from_s <= split <= one.to_s]
    assert disagreement.says[1] == ("broker1",)
    assert any(
        "broker1 went on believing that it led t/0" in sentence for sentence in model.verdict.sentences
    )


def test_active_controller_that_was_cut_off_is_named(judged: RunJudge) -> None:
    model = report_model(judged("kraft-zombie-controller"))
    said = [sentence for sentence in model.verdict.sentences if "active controller" in sentence]
    assert said
    assert said[0].startswith("controller2 went on believing that it was the active controller for ")
    assert model.controller_splits


def test_run_without_fault_has_no_disagreement_and_no_loss(judged: RunJudge) -> None:
    model = report_model(judged("no-fault"))
    assert "No fault was injected." in model.verdict.sentences
    assert any(
        sentence.startswith("No acknowledged message was lost") for sentence in model.verdict.sentences
    )
    assert not model.groups
    assert not any(story.splits for story in model.partitions)
    assert model.partitions[0].logs is not None
    assert model.partitions[0].logs.first_difference is None


@pytest.mark.parametrize(
    "name",
    [
        "leader-az-isolated",
        *(pytest.param(one, marks=pytest.mark.long) for one in ("power-cut", "idle-follower")),
    ],
)
def test_times_count_from_the_first_fault(judged: RunJudge, name: str) -> None:
    model = report_model(judged(name))
    first = min((one for one in model.faults if one.injected), key=lambda one: one.from_s)
    assert (first.from_s, model.zero.fault) == (0.0, first.name)
    assert model.from_s < model.marks[0].s < 0
    started, utc = (datetime.fromisoformat(one) for one in (model.run.started, model.zero.utc))
    assert (utc - started).total_seconds() > -model.from_s - 1
    drawn = page(model)
    assert f"Times count from the first fault, {utc:%H:%M:%S}.{utc.microsecond // 1000:03} UTC." in drawn
    assert f">−{-model.marks[0].s:.2f} s<" in drawn
    assert "since the fault<" in drawn


def test_times_of_a_run_without_fault_count_from_its_first_event(judged: RunJudge) -> None:
    model = report_model(judged("no-fault"))
    assert (model.zero.fault, model.zero.utc[:19]) == ("", model.run.started[:19])
    assert model.from_s >= 0
    assert "Times count from the first recorded event, " in page(model)


@pytest.mark.parametrize(
    ("s", "digits", "said"), [(3.25, 2, "3.25 s"), (-3.21, 1, "−3.2 s"), (-0.01, 1, "0.0 s")]
)
def test_times_before_zero_have_a_minus_sign(s: float, digits: int, said: str) -> None:
    assert in_seconds(s, digits) == said


def test_what_did_not_take_effect_and_what_an_operator_does_is_not_time_zero() -> None:
    common = {"mechanism": "kill", "targets": '{"hosts": ["broker1"]}'}
    faults = [
        {"ns": 20, "fault": 0, "name": "restart", "kind": "operator", "moment": "injected", **common},
        {"ns": 30, "fault": 1, "name": "cut", "kind": "link", "moment": "injecting", **common},
        {"ns": 31, "fault": 1, "name": "cut", "kind": "link", "moment": "failed", **common},
        {"ns": 40, "fault": 2, "name": "kill", "kind": "process", "moment": "injecting", **common},
        {"ns": 50, "fault": 2, "name": "kill", "kind": "process", "moment": "injected", **common},
    ]
    ends = [{"ns": ns, "host": host, "event": "killed"} for ns, host in ((42, "broker2"), (44, "broker1"))]
    assert time_zero(faults, ends, 10) == (44, "kill")
    assert time_zero(faults, [], 10) == (50, "kill")
    assert time_zero(faults[:3], ends, 10) == (10, "")


def test_a_run_under_way_began_when_it_took_its_anchor(tmp_path: Path) -> None:
    """It has no event yet; the clock of the machine began at zero long before."""
    anchor = {"monotonic_ns": 1_000_000 * NS, "wall_ns": 1_795_325_872 * NS}
    manifest = {"scenario": "growing", "kafka": "4.4.0", "mode": "kraft", "status": "running"}
    (tmp_path / "run.json").write_text(json.dumps({**manifest, "anchor": anchor}))
    assert report_model(tmp_path).run.started == "2026-11-22T05:37:52+00:00"


def test_truncation_is_seen_in_the_logs(judged: RunJudge) -> None:
    logs = report_model(judged("leader-az-isolated")).partitions[0].logs
    assert logs is not None
    assert logs.first_difference == 2
    first, last = logs.panels[0], logs.panels[-1]
    assert not any(one.gone for one in first.replicas)
    held = [{(r.offset, r.message, r.epoch) for r in one.records} for one in last.replicas]
    assert held[0] == held[1] == held[2]
    gone = {one.broker: one.gone for one in last.replicas}
    assert [record.text for record in gone[1]][:3] == ["c", "d", "e"]
    assert all(record.acknowledged and record.lost for record in gone[1])
    assert not gone[2]


@pytest.mark.parametrize("name", RUNS)
def test_last_panel_is_the_final_log(judged: RunJudge, name: str) -> None:
    """Folded stretches included: what the columns of a replica stand for is what its final log holds."""
    folder = judged(name)
    for story in report_model(folder).partitions:
        if story.logs is None:
            continue
        for replica in story.logs.panels[-1].replicas:
            here = f"topic = '{story.topic}' AND partition = {story.partition} AND broker = {replica.broker}"
            ((count,),) = ask(
                folder, f"SELECT count(*) FROM copies WHERE {here} AND coalesce(NOT control, true)"
            )
            assert sum(record.count for record in replica.records) == count


def test_high_watermark_that_stands_still_is_told(judged: RunJudge, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(judged("leader-az-isolated"), folder)
    assert report_model(folder).partitions[0].offsets == {}
    (failover, split), *_ = ask(
        folder,
        "SELECT max(ns) FILTER (WHERE name = 'failover'), max(ns) FILTER (WHERE name = 'split') FROM marks",
    )
    steps = [(int(str(failover)) - 4 * NS, 2, 2), (int(str(failover)) - NS, 2, 12), (int(str(split)), 2, 40)]
    rows = [
        {"ns": ns, "topic": "t", "partition": 0, "broker": 1, "high_watermark": high, "leo": leo}
        for ns, high, leo in steps
    ]
    table = pa.Table.from_pylist(rows, schema=TABLES["watermarks"].arrow())
    write_into(folder / "history", "watermarks", table)
    model = report_model(folder)
    assert [(one.high_watermark, one.leo) for one in model.partitions[0].offsets[1]] == [
        (2, 2),
        (2, 12),
        (2, 40),
    ]
    told = next(
        sentence for sentence in model.verdict.sentences if sentence.startswith("broker1 went on believing")
    )
    assert "its log end offset grew to 40 while its high watermark stood still at 2" in told


def test_message_has_its_story(judged: RunJudge) -> None:
    model = report_model(judged("leader-az-isolated"))
    story = next(one for one in model.stories if one.label == "c")
    kinds = [event.kind for event in story.events]
    assert kinds.index("send") < kinds.index("ack") < kinds.index("gone")
    elected = next(event for event in story.events if event.kind == "elected" and event.source == "broker2")
    assert story.events[kinds.index("ack")].s < elected.s < story.events[kinds.index("gone")].s
    assert story.cause.startswith("old leader truncated on rejoin")
    listed = {one.message for group in model.groups for one in group.shown if one.story}
    assert listed == {one.message for one in model.stories}


def test_every_claim_says_where_it_looks(judged: RunJudge) -> None:
    model = report_model(judged("leader-az-isolated"))
    failover = next(claim for claim in model.claims if claim.name == "failover-in-time")
    cut = next(mark.s for mark in model.marks if mark.name == "cut")
    assert failover.from_s == pytest.approx(cut, abs=0.001)
    assert failover.partitions == ("t/0",)


@pytest.mark.parametrize(
    ("promises", "said"),
    [
        (
            [("broken", 2, "K-1"), ("not promised", 9, None)],
            "2 findings break a promise of Kafka, namely that why broken. The cause is known: K-1.",
        ),
        ([("broken", 1, None)], "1 finding breaks a promise of Kafka, namely that why broken."),
        ([("not promised", 9, None)], "Kafka does not promise to prevent this (why not promised)."),
        ([("unknown", 9, None)], None),
    ],
)
def test_what_kafka_promises_is_told_as_judged(
    judged: RunJudge, tmp_path: Path, promises: list[tuple[str, int, str | None]], said: str | None
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(judged("leader-az-isolated"), folder)
    rows = [
        {"promise": one, "row": "r", "class": "lost", "known_bug": bug, "why": f"why {one}", "count": count}
        for one, count, bug in promises
    ]
    stored = json.loads((folder / "judgement.json").read_text())
    (folder / "judgement.json").write_text(json.dumps({**stored, "promises": rows}))
    model = report_model(folder)
    assert [(promise.promise, promise.count) for promise in model.promises] == [
        (one, count) for one, count, _ in promises
    ]
    assert [sentence for sentence in model.verdict.sentences if "promise" in sentence] == (
        [said] if said else []
    )


def _told(folder: Path) -> bool:
    return bool(ask(folder, "FROM findings WHERE promise IS NOT NULL"))


def test_verdict_is_the_stored_one(judged: RunJudge, tmp_path: Path) -> None:
    """Whatever the tables say: a report judges nothing."""
    folder = tmp_path / "run"
    shutil.copytree(judged("leader-az-isolated"), folder)
    file = folder / "judgement.json"
    stored = json.loads(file.read_text())
    file.write_text(json.dumps({**stored, "verdict": "violated", "reasons": ["because we say so"]}))
    model = report_model(folder)
    assert (model.verdict.verdict, model.verdict.reasons) == ("violated", ("because we say so",))


def test_run_that_crashed_early_has_a_report(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(
        json.dumps({"status": "crashed", "scenario": "x", "problem": "no Java"})
    )
    (tmp_path / "judgement.json").write_text(json.dumps({"verdict": "crashed", "reasons": ["no Java"]}))
    model = report_model(tmp_path)
    assert model.verdict.verdict == "crashed"
    assert model.verdict.headline == "The run ended early, so it says nothing about Kafka."
    assert (model.verdict.meaning, model.verdict.sentences[0]) == ("", "No fault was injected.")
    html = page(model)
    assert html.count("says nothing about Kafka") == 1 and "Nothing follows from this run." in html
    assert model.verdict.reasons == ("no Java",)
    assert model.partitions == ()


def test_folder_that_holds_no_run(tmp_path: Path) -> None:
    with pytest.raises(BadDataError, match="is not a judged run folder"):
        report_model(tmp_path)


NESTED = ("[" * 9**5, '{"a":' * 9**5)


def shortened(value: object) -> str:
    return str(value)[:40]


CLAIM = {"name": "a", "says": "", "section": "", "status": "confirmed", "as_declared": True}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        *((text, "is JSON that is nested too deeply") for text in NESTED),
        ("{", "is not valid JSON"),
        ("[]", "holds no JSON object"),
        ('{"anchor": 7}', "is malformed .*anchor"),
        ('{"anchor": {"wall_ns": 1e300, "monotonic_ns": 0}}', "is malformed .*wall_ns"),
        ('{"azs": "az1"}', "is malformed .*azs"),
        ('{"durations": {"scenario": "long"}}', "is malformed .*durations.scenario"),
        ('{"made_by": {"memory_bytes": Infinity}}', "is malformed .*memory_bytes"),
        ('{"scenario_file": ["x.py"]}', "is malformed .*scenario_file"),
    ],
    ids=shortened,
)
def test_damaged_manifest_is_refused(tmp_path: Path, content: str, problem: str) -> None:
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(BadDataError, match=rf"run\.json {problem}.*; the run folder is damaged\.$"):
        report_model(tmp_path)


@pytest.mark.parametrize("version", [9, 0, "1", True, 1.5])
def test_run_of_another_schema_version_is_refused(tmp_path: Path, version: object) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"status": "complete", "schema_version": version}))
    with pytest.raises(BadDataError, match=r"run\.json has schema_version .*reads version 1"):
        report_model(tmp_path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        *((text, "is JSON that is nested too deeply") for text in NESTED),
        ('{"claims": 7}', "is malformed .*claims"),
        ('{"claims": ["x"]}', r"is malformed .*claims\[0\]"),
        ('{"claims": [{"name": "a"}]}', "is malformed .*says.*claims"),
        (json.dumps({"claims": [{**CLAIM, "either": "x"}]}), "is malformed .*either"),
        (json.dumps({"claims": [{**CLAIM, "evidence": 7}]}), "is malformed .*evidence"),
        ('{"fates": "x"}', "is malformed .*fates"),
        ('{"fates": {"lost": "x"}}', "is malformed .*fates"),
        ('{"fates_by_writer": [{"fate": "kept"}]}', "is malformed .*count"),
        ('{"findings_by_class": 7}', "is malformed .*findings_by_class"),
        ('{"messages": Infinity}', "is malformed .*messages"),
        ('{"promises": [{"promise": "broken"}]}', "is malformed .*count"),
        ('{"reasons": 7}', "is malformed .*reasons"),
    ],
    ids=shortened,
)
def test_damaged_judgement_is_refused(tmp_path: Path, content: str, problem: str) -> None:
    (tmp_path / "judgement.json").write_text(content)
    with pytest.raises(BadDataError, match=rf"judgement\.json {problem}.*; judge the run again with `acked"):
        report_model(tmp_path)


@pytest.mark.parametrize(
    "content", ['{"aliases": 7}', '{"aliases": {"broker-0": 7}}', *NESTED], ids=shortened
)
def test_damaged_claims_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "judgement.json").write_text("{}")
    (tmp_path / "claims.json").write_text(content)
    with pytest.raises(BadDataError, match=r"claims\.json .*; the run folder is damaged\.$"):
        report_model(tmp_path)


def test_damaged_table_is_named(judged: RunJudge, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(judged("no-fault"), folder)
    (folder / "history" / "views.parquet" / "00000.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(BadDataError, match=r"views\.parquet/00000\.parquet cannot be read as Parquet"):
        report_model(folder)


@pytest.mark.parametrize("name", RUNS)
def test_model_is_plain_json_with_a_version(judged: RunJudge, name: str) -> None:
    model: ReportModel = report_model(judged(name))
    plain = json.loads(json.dumps(model.as_json()))
    assert plain["schema"] == SCHEMA
    assert plain["run"]["scenario"] == name


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("power-cut", "broker1, broker2 and broker3 were killed at "),
        ("leader-az-isolated", "az1 was cut off from everything else from "),
        ("leader-paused", "broker1 hung from "),
    ],
)
def test_fault_is_told_in_words(judged: RunJudge, name: str, said: str) -> None:
    assert report_model(judged(name)).verdict.sentences[0].startswith(said)


def test_what_made_a_run_is_what_its_manifest_says(judged: RunJudge, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(judged("no-fault"), folder)
    assert report_model(folder).run.made_by == ()
    made_by = {
        "acked": "1.2.3",
        "commit": "abcdef",
        "command": "acked run no-fault --kafka-home /opt/kafka",
        "python": "3.11.2",
        "system": "Linux 6.1 x86_64",
        "processors": 4,
        "memory_bytes": 8 * 2**30,
        "load": 0.5,
    }
    jars = {"kafka_2.13-3.9.1.jar": "0" * 64, "scala.jar": "1" * 64}
    manifest = json.loads((folder / "run.json").read_text()) | {
        "made_by": made_by,
        "jars": jars,
        "java": "17",
    }
    (folder / "run.json").write_text(json.dumps(manifest))
    run = report_model(folder).run
    assert run.command.startswith("acked run no-fault --kafka-home /opt/kafka --mode ")
    assert dict(run.made_by) == {
        "acked": "1.2.3, commit abcdef",
        "command line": made_by["command"],
        "machine": "Linux 6.1 x86_64, 4 processors, 8.0 GiB, load 0.5 at first",
        "Python": "3.11.2",
        "Java": "17",
        "kafka_2.13-3.9.1.jar, one of 2 jars": "SHA-256 " + "0" * 64,
    }


def test_transaction_has_its_story_from_begin_to_reader(judged: RunJudge) -> None:
    model = report_model(judged("delayed-end-txn-librdkafka"))
    torn = [transaction for transaction in model.transactions if transaction.finding == "torn_transaction"]
    assert sorted((one.reported, one.visible, one.count) for one in torn) == [
        ("aborted", "part", 1),
        ("committed", "part", 1),
    ]
    assert model.transactions[0].finding, "those with a finding come first"
    listed = {one.message for group in model.groups for one in group.shown}
    assert listed == {one.message for one in model.transaction_stories}
    assert all(one.story for group in model.groups for one in group.shown)
    assert not model.stories, "what is about a transaction is not told again by message"
    story = next(one for one in model.transaction_stories if one.label == "late-abort")
    told = [event.text for event in story.events if event.kind not in ("mark", "fault", "healed")]
    assert told[0] == "begins"
    order = [
        next(number for number, text in enumerate(told) if text.startswith(beginning))
        for beginning in (
            "x2 to late-abort/0",
            "abort marker at offset 3 of late-abort/0",
            "asks to commit",
            "reported: committed",
            "y2 read",
        )
    ]
    assert order == sorted(order)
    assert story.cause.startswith("torn transaction: late marker")
    assert story.columns[:2] == ("client1", "coordinator")


def test_run_without_findings_tells_of_some_transactions(judged: RunJudge) -> None:
    model = report_model(judged("fenced-zombie-producer"))
    assert not model.groups and sum(transaction.count for transaction in model.transactions) == 2
    assert {one.cause for one in model.transaction_stories} == {"nothing went wrong with it"}
    assert not report_model(judged("leader-az-isolated")).transactions


def test_blocked_readers_are_named_with_the_transaction_that_blocked_them(judged: RunJudge) -> None:
    folder = judged("transaction-coordinator-isolated")
    blocked = report_model(folder).blocked
    zero_ns = _zero_ns(folder)
    for one in blocked:
        topic, _, partition = one.place.partition("/")
        where = f"topic = '{topic}' AND partition = {partition} AND last_stable_offset = {one.offset}"
        begun = (
            f"SELECT broker, min(ns) FROM watermarks WHERE {where} AND last_stable_offset < high_watermark "
            "GROUP BY broker"
        )
        times = {int(str(broker)): (int(str(ns)) - zero_ns) / NS for broker, ns in ask(folder, begun)}
        assert set(times) == set(one.brokers)
        assert min(abs(s - one.from_s) for s in times.values()) < 0.001
        assert one.to_s is not None and one.to_s - one.from_s == pytest.approx(one.seconds, abs=0.01)
    assert {(one.place, one.transaction, one.producer) for one in blocked} == {
        ("p/0", "txn:1/0", "inside"),
        ("q/0", "txn:1/0", "inside"),
    }
    assert all(one.seconds > 9 for one in blocked), "from its first message until it was aborted or committed"
    text = block_in_words(blocked[0])
    assert "by transaction txn:1/0 of inside, reported as committed" in text and "blocked for 10.4 s" in text
    assert not report_model(judged("leader-az-isolated")).blocked


def test_a_story_says_on_which_replica_a_transaction_became_readable(judged: RunJudge) -> None:
    folder = judged("transaction-coordinator-isolated")
    story = next(one for one in report_model(folder).transaction_stories if one.message == "txn:1/0")
    seen = [event for event in story.events if "readable up to offset 0" in event.text]
    assert {(event.source, event.text[:3]) for event in seen} >= {("broker2", "p/0"), ("broker3", "q/0")}
    first = (
        "SELECT min(ns) FROM watermarks WHERE topic = 'p' AND broker = 2 AND last_stable_offset > 0 AND "
        "ns >= (SELECT min(ns) FROM transactions WHERE writer = 1)"
    )
    ((ns,),) = ask(folder, first)
    (p2,) = (event for event in seen if (event.source, event.text[:3]) == ("broker2", "p/0"))
    assert p2.s == pytest.approx((int(str(ns)) - _zero_ns(folder)) / NS, abs=0.001)


def test_why_names_who_had_each_lost_message(judged: RunJudge) -> None:
    folder = judged("leader-az-isolated")
    query = (
        "SELECT topic || '/' || partition, count(*), max(acked_ns) FROM findings "
        "WHERE class = 'lost' GROUP BY 1"
    )
    ((place, count, last_ns),) = ask(folder, query)
    (said,) = report_model(folder).verdict.why
    assert said.startswith(f"{place}: broker1 acknowledged {count} messages with acks=1 from ")
    assert isinstance(last_ns, int)
    assert f" to {(last_ns - _zero_ns(folder)) / NS:.1f} s. broker1 was fenced" in said
    seen = (
        "SELECT s.broker, count(DISTINCT (s.writer, s.seq)) FROM sightings s JOIN findings f "
        "USING (writer, seq, topic, partition) WHERE f.class = 'lost' GROUP BY 1"
    )
    assert ask(folder, seen) == [(1, count)]
    assert "The copies on broker1 were removed when broker1 truncated its log to follow broker2." in said


@pytest.mark.long
def test_why_says_which_power_cut_took_a_message_from_the_next_leader(judged: RunJudge) -> None:
    said = " ".join(report_model(judged("hw-truncation-diverges")).verdict.why)
    assert "broker2 had it, too, and lost it in the power cut at " in said
    assert "old/0: broker2 acknowledged m3 at " in said
    assert "broker2 had m2, too, and lost it" in said


@pytest.mark.long
def test_why_says_that_a_leader_followed_a_controller_that_was_replaced(judged: RunJudge) -> None:
    said = " ".join(report_model(judged("kraft-zombie-controller")).verdict.why)
    assert "broker2 still followed controller2, which controller1 had replaced at " in said
    assert "broker2 and broker3 truncated their logs" in said


def test_availability_is_told_of_each_producer_and_its_worst_partition() -> None:
    """In an assessment one with acks=1 goes on beside the described one, which comes first."""
    rows = [
        {"topic": "t", "partition": place, "writer": writer, "acks": acks, "az": "az1", "role": "stream"}
        | {"outcome": "ok", "sent_ns": s * NS, "done_ns": s * NS + NS // 100}
        for s in range(20)
        for place in (0, 1)
        for writer, acks in ((1, -1), (2, 1))
        if not (acks == -1 and place == 0 and 5 <= s < 12)
    ]
    told = availability(pa.Table.from_pylist(rows), 0, lambda begin, end: f"{begin:.0f} to {end:.0f}", {})
    described, compared = told
    assert (described.acks, described.sent, described.lasting_beyond) == ("acks=all", 33, "4 to 12")
    assert (compared.acks, compared.sent) == ("acks=1", 40)
    assert (described.longest_gap_s, compared.longest_gap_s) == (8.0, pytest.approx(1.0, abs=0.02))

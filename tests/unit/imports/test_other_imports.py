"""Verifiable clients, kgo-verifier, OpenChaos, files with a map: what is planted is found, and no more."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.errors import AckedError, UsageError
from report.words.causes import cause_of
from tests.unit.imports.judging import dump, judged

NOW_MS = 1_790_000_000_000
Event = Mapping[str, Any]
Log = Sequence[tuple[int, int, str | None, str]]


def events(file: Path, *rows: Event, noise: str = "") -> Path:
    lines = [json.dumps({"timestamp": NOW_MS + number, **row}) for number, row in enumerate(rows)]
    file.write_text("\n".join([noise, *lines]) + "\n")
    return file


def success(number: int, offset: int, prefix: str = "", partition: int = 0) -> Event:
    where = {"topic": "orders", "partition": partition, "offset": offset}
    return {"name": "producer_send_success", "key": None, "value": f"{prefix}{number}", **where}


def failure(number: int) -> Event:
    name = {"name": "producer_send_error", "topic": "orders", "key": None, "value": str(number)}
    return {**name, "exception": "class org.apache.kafka.common.errors.TimeoutException", "message": "late"}


RECORD: Event = {"name": "record_data", "topic": "t", "partition": 0, "offset": 0}


def equal_logs(records: Log) -> dict[int, Log]:
    return {1: records, 2: records, 3: records}


# ---- verifiable clients


def test_a_loss_by_a_later_leader(tmp_path: Path) -> None:
    """The replicas alone show why: epoch 1 begins where the lost offsets are."""
    kept = [(n, 0, None, str(n)) for n in range(10)] + [(n - 3, 1, None, str(n)) for n in range(13, 20)]
    sent = [success(n, n if n < 13 else n - 3) for n in range(20)]
    producer = events(tmp_path / "producer.json", *sent, failure(20), {"name": "tool_data", "sent": 21})
    result = judged("verifiable", [producer, *dump(tmp_path, equal_logs(kept))], tmp_path / "imported")
    assert result.found == [("lost", 0, 10), ("lost", 0, 11), ("lost", 0, 12)]
    assert result.fates == {"kept": 17, "lost": 3, "unknown_dropped": 1}
    assert {cause_of(row) for row in result.findings} == {
        "truncated under a later leader: epoch 1 begins at offset 10 in the final log, and an earlier leader "
        "had acknowledged it"
    }


def test_the_cause_is_not_known_within_one_epoch(tmp_path: Path) -> None:
    """Nor for the end of the log, nor if the epoch may have begun in what was removed."""
    log = [(0, 3, None, "0"), (1, 3, None, "2")]
    producer = events(tmp_path / "producer.json", success(0, 0), success(1, 1), success(2, 1), success(3, 5))
    whole = judged("verifiable", [producer, *dump(tmp_path, equal_logs(log))], tmp_path / "a")
    assert [(row["seq"], row["cause"]) for row in whole.findings] == [
        (1, "later_epoch"),
        (3, "unexplained_loss"),
    ]
    first = [(offset, 0, *rest) for offset, _, *rest in log]
    same = judged("verifiable", [producer, *dump(tmp_path, equal_logs(first))], tmp_path / "b")
    assert {row["cause"] for row in same.findings} == {"unexplained_loss"}
    texts = dump(tmp_path, equal_logs(log[1:]))
    cut = judged("verifiable", [producer, *texts], tmp_path / "c")
    assert "later_epoch" not in {row["cause"] for row in cut.findings}


def test_duplicates_orders_and_replicas_that_differ(tmp_path: Path) -> None:
    values = ["3.0", "3.2", "3.1", "3.3", "3.3"]
    log = [(n, 0, None, value) for n, value in enumerate(values)]
    sent = [success(n, at, "3.") for n, at in enumerate((0, 2, 1, 3))]
    producer = events(tmp_path / "producer.json", *sent, noise="[2026-11-27] WARN a log line")
    texts = dump(tmp_path, {1: log, 2: log, 3: log[:-1]})
    result = judged("verifiable", [producer, *texts], tmp_path / "imported")
    classes = [name for name, _, _ in result.found]
    assert ("duplicated", 4, 3) in result.found and ("out_of_order", 4, 1) in result.found
    assert set(classes) - {"duplicated", "out_of_order"} == {"diverged"}, "one replica lacks a record"
    assert result.recording.left_out == {"lines that are no JSON": 1}


def test_messages_without_an_answer_are_those_that_the_log_has(tmp_path: Path) -> None:
    log = [(n, 0, None, str(n)) for n in range(4)]
    producer = events(tmp_path / "producer.json", success(0, 0), success(1, 1), failure(2))
    result = judged("verifiable", [producer, *dump(tmp_path, equal_logs(log))], tmp_path / "imported")
    assert result.fates == {"kept": 2, "unknown_kept": 2}
    assert result.findings == []


def test_without_logs_nothing_is_kept_or_lost(tmp_path: Path) -> None:
    producer = events(tmp_path / "producer.json", success(0, 0), success(1, 1))
    result = judged("verifiable", [producer], tmp_path / "imported")
    assert result.fates == {"undetermined": 2}
    assert any("No replica's log was given" in note for note in result.recording.notes)


def test_what_consumers_read(tmp_path: Path) -> None:
    log = [(n, 0, None, str(n)) for n in range(5)]
    producer = events(tmp_path / "producer.json", *(success(n, n) for n in range(5)))
    place = {"topic": "orders", "partition": 0}
    read = [{"name": "record_data", "key": None, "value": str(n), **place, "offset": n} for n in (0, 1, 4)]
    summary = {"name": "records_consumed", "count": 3, "partitions": [{**place, "minOffset": 0}]}
    assigned = {"name": "partitions_assigned", "partitions": [place]}
    commit = {"name": "offsets_committed", "offsets": [{**place, "offset": 5}], "success": True}
    consumer = events(
        tmp_path / "consumer.json", {"name": "startup_complete"}, assigned, *read, summary, commit
    )
    texts = dump(tmp_path, equal_logs(log))
    result = judged("verifiable", [producer, consumer, *texts], tmp_path / "imported")
    assert [name for name, _, _ in result.found] == ["skip"]
    quiet = events(tmp_path / "quiet.json", assigned, summary, commit)
    short = judged("verifiable", [producer, quiet, *texts], tmp_path / "quiet")
    assert short.findings == [] and "reads" not in {
        name for name, table in short.recording.tables.items() if table.num_rows
    }
    assert list(short.recording.left_out.values()) == [3]


def test_an_error_in_several_partitions_is_placed_where_the_log_has_it(tmp_path: Path) -> None:
    producer = events(
        tmp_path / "producer.json", success(0, 0), success(1, 0, partition=1), failure(2), failure(3)
    )
    first = dump(tmp_path, equal_logs([(0, 0, None, "0")]))
    second = dump(tmp_path, equal_logs([(0, 0, None, "1"), (1, 0, None, "2")]), "orders-1")
    result = judged("verifiable", [producer, *first, *second], tmp_path / "imported")
    assert sorted((row["seq"], row["partition"], row["fate"]) for row in result.life) == [
        (0, 0, "kept"),
        (1, 1, "kept"),
        (2, 1, "unknown_kept"),
    ]
    assert sum(result.recording.left_out.values()) == 1


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([{"name": "tool_data"}, {**success(0, 0), "value": "x"}], "value 'x' is neither NUMBER nor"),
        ([success(0, -2)], "offset is -2"),
        ([{**success(0, 0), "partition": 2**40}], "partition is 1099511627776"),
        ([{**success(0, 0), "topic": None}], "topic None is no name of a topic"),
        ([{**success(0, 0), "timestamp": "now"}], "timestamp is 'now'"),
        ([{**success(0, 0), "timestamp": 10**17}], "timestamp is 100000000000000000"),
        ([{"name": "hello"}], "has no event of a producer or consumer"),
        ([], "has no event of a producer or consumer"),
        ([{**RECORD, "offset": -1}], "offset is -1"),
        ([RECORD, {"name": "offsets_committed"}], "offsets is None"),
    ],
    ids=ascii,
)  # fmt: skip
def test_lines_that_verifiable_clients_do_not_print(tmp_path: Path, rows: Sequence[Event], says: str) -> None:
    file = events(tmp_path / "producer.json", *rows)
    refused("verifiable", [file], tmp_path, says)


def test_two_producers_need_prefixes(tmp_path: Path) -> None:
    files = [events(tmp_path / f"{name}.json", success(0, 0)) for name in ("one", "two")]
    refused("verifiable", files, tmp_path, "two producers of one topic need different --value-prefix")


def refused(form: str, files: Sequence[str | Path], folder: Path, says: str) -> None:
    with pytest.raises(AckedError) as refusal:
        judged(form, files, folder / "refused")
    assert says in refusal.value.message
    assert len(refusal.value.message) < 300 + 2 * len(str(folder))
    assert not (folder / "refused").exists()


# ---- logs alone


def test_logs_without_producers_are_compared(tmp_path: Path) -> None:
    """Nobody knows who sent what: no record is foreign, and replicas are compared."""
    log: Log = [(n, 0, None, value) for n, value in enumerate(("7 0 a", "7 1 b", "other", "other", "other"))]
    same = judged("kafka-dump-log", dump(tmp_path, equal_logs(log)), tmp_path / "same")
    assert (same.findings, same.life) == ([], [])
    other: Log = [*log[:1], (1, 0, None, "7 2 c"), log[2], (3, 1, None, "other")]
    texts = dump(tmp_path, {1: log, 2: log, 3: other})
    file = tmp_path / "broker3-orders-0.txt"
    file.write_text(file.read_text().replace("crc: 2 isvalid", "crc: 77 isvalid"))
    result = judged("kafka-dump-log", texts, tmp_path / "imported")
    assert [(row["class"], row["offset"], row["detail"]) for row in result.findings] == [
        ("diverged", 1, '{"difference": "other_record"}'),
        ("diverged", 2, '{"difference": "other_record"}'),
        ("diverged", 3, '{"difference": "other_epoch"}'),
        ("diverged", 4, '{"difference": "reference_ends_earlier"}'),
    ]


# ---- kgo-verifier


def state(folder: Path, *ranges: Sequence[tuple[int, int]], **more: Any) -> Path:
    file = folder / "valid_offsets_orders.json"
    partitions = [
        {"Ranges": [{"Lower": low, "Upper": up} for low, up in one], "TolerateDataLoss": False}
        for one in ranges
    ]
    file.write_text(json.dumps({"PartitionRanges": partitions, "LastConsumableOffsets": [], **more}))
    return file


def kgo(offset: int, expected: int | None = None, epoch: int = 0) -> tuple[int, int, str, str]:
    return offset, epoch, f"000000.{offset if expected is None else expected:018d}", "padding"


def test_losses_of_kgo_verifier(tmp_path: Path) -> None:
    """Partition 0 has lost 3 and 4; a retry stands at another offset, and markers are in the ranges."""
    file = state(tmp_path, [(0, 6), (7, 9)], [(0, 2)])
    records = [kgo(0), kgo(1), kgo(2), (5, 0, None, "COMMIT"), kgo(6, 3, 1), kgo(7, epoch=1), kgo(8, epoch=1)]
    texts = dump(tmp_path, equal_logs(records))
    other = dump(tmp_path, equal_logs([kgo(0), kgo(1)]), "orders-1")
    foreign = dump(tmp_path, equal_logs([kgo(0)]), "payments-0")
    result = judged("kgo-verifier", [file, *texts, *other, *foreign], tmp_path / "imported")
    assert result.found == [("lost", 0, 4), ("moved", 0, 3)]
    assert result.fates == {"kept": 7, "lost": 1, "moved": 1}
    assert result.recording.left_out == {"records of topics to which no producer sent": 3}


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda f: state(f, [(5, 3)]), "has a range from 5 to 3"),
        (lambda f: state(f, [(0, 3), (2, 4)]), "after one up to 3; ranges rise"),
        (lambda f: state(f, [(0, 2**62)]), "more than 50000000 messages"),
        (lambda f: state(f, [(-5, 3)]), "has a range from -5 to 3"),
        (lambda f: state(f, PartitionRanges=7), "is no state of kgo-verifier"),
        (lambda f: state(f).rename(f / "offsets.json"), "is not called valid_offsets_TOPIC.json"),
        (lambda f: f / "valid_offsets_t.json", "cannot be read"),
    ],
)
def test_states_that_kgo_verifier_does_not_write(
    tmp_path: Path, make: Callable[[Path], Path], says: str
) -> None:
    refused("kgo-verifier", [make(tmp_path)], tmp_path, says)


# ---- OpenChaos


def chaos(file: Path, *lines: Sequence[object]) -> Path:
    file.write_text("".join("\t".join(map(str, line)) + "\n" for line in lines))
    return file


def sent(value: int, result: str | None = "SUCCESS", client: int = 0) -> list[Sequence[object]]:
    ms = NOW_MS + value
    lines: list[Sequence[object]] = [(client, "enqueue", "REQUEST", value, "null", ms, "null")]
    if result:
        lines.append((client, "enqueue", "RESPONSE", result, value, "null", ms + 5, 5, "null", 0))
    return lines


def test_losses_of_openchaos(tmp_path: Path) -> None:
    lines = [line for value in range(6) for line in sent(value, client=value % 2)]
    lines += [*sent(6, "UNKNOWN"), *sent(7, "FAILURE"), *sent(8, None)]
    lines.insert(4, ("fault", "minor-kill", "start", NOW_MS))
    lines.append((2, "dequeue", "RESPONSE", "SUCCESS", 1, "null", NOW_MS + 99, 0, "null", 4))
    file = chaos(tmp_path / "history", *lines)
    log = [(n, 0, None, str(value)) for n, value in enumerate((0, 1, 2, 4, 4, 7))]
    result = judged("openchaos", [file, *dump(tmp_path, equal_logs(log))], tmp_path / "imported")
    assert sorted((row["label"], row["fate"]) for row in result.life) == [
        ("0", "kept"),
        ("1", "kept"),
        ("2", "kept"),
        ("3", "lost"),
        ("4", "duplicated"),
        ("5", "lost"),
        ("6", "unknown_dropped"),
        ("7", "unknown_kept"),
        ("8", "unknown_dropped"),
    ]
    assert result.recording.tables["reads"].num_rows == 1
    begin, fault = result.recording.tables["marks"].to_pylist()
    assert (begin["ns"], begin["name"]) == (NOW_MS * 10**6, "begin"), "reports count seconds from here"
    assert (fault["ns"], fault["name"]) == (NOW_MS * 10**6, "minor-kill start")


def test_a_loss_whose_partition_nobody_names(tmp_path: Path) -> None:
    file = chaos(tmp_path / "history", *(line for value in range(3) for line in sent(value)))
    texts = dump(tmp_path, equal_logs([(0, 0, None, "0")])) + dump(
        tmp_path, equal_logs([(0, 0, None, "2")]), "orders-1"
    )
    result = judged("openchaos", [file, *texts], tmp_path / "imported")
    assert [(row["label"], row["fate"]) for row in result.life if row["fate"] != "kept"] == [("1", "lost")]
    assert result.recording.notes == [
        "1 acknowledged messages name no partition and are in no log; they stand in the first"
    ]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([("hello",)], "'hello' is no event of a queue"),
        ([*sent(1), *sent(1)], "value '1' is sent twice"),
        ([*sent(1, "MAYBE")], "result 'MAYBE' is none of"),
        ([("x", "enqueue", "REQUEST", 1, "null", NOW_MS)], "a client is 'x'"),
        ([(1, "put", "REQUEST", 1, "null", NOW_MS)], "is no event of a queue"),
        ([(1, "enqueue", "RESPONSE", "SUCCESS", 1, "null")], "the line has 6 fields"),
    ],
)
def test_lines_that_openchaos_does_not_write(
    tmp_path: Path, lines: Sequence[Sequence[object]], says: str
) -> None:
    file = chaos(tmp_path / "history", *lines)
    refused("openchaos", [file, *dump(tmp_path, {1: [(0, 0, None, "0")]})], tmp_path, says)


# ---- a map of columns

MAP = """
times = "ms"

[sends]
file = "sends.csv"
columns = {seq = "id", sent_ns = "sent", done_ns = "answered", outcome = "result"}
values = {topic = "orders", partition = 0, writer = 7}
outcomes = {SUCCESS = "ok", TIMEOUT = "info"}

[copies]
file = "log.parquet"
values = {topic = "orders", partition = 0}
"""
SENDS = """\
id,sent,answered,result,offset,note
0,1,2,SUCCESS,0,a
1,2,3,SUCCESS,1,
2,3,4,SUCCESS,2,c
3,4,,TIMEOUT,,
"""


def mapped(folder: Path, text: str = MAP, sends: str = SENDS) -> Path:
    (folder / "sends.csv").write_text(sends)
    rows = [
        {"broker": broker, "offset": offset, "epoch": offset, "writer": 7, "seq": seq}
        for broker in (1, 2)
        for offset, seq in ((0, 0), (1, 2))
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / "log.parquet")
    file = folder / "map.toml"
    file.write_text(text)
    return file


def test_csv_and_parquet(tmp_path: Path) -> None:
    """The example of docs/history.md, with other names of columns and times in ms."""
    result = judged("columns", [mapped(tmp_path)], tmp_path / "imported")
    assert result.found == [("lost", 7, 1), ("moved", 7, 2)]
    assert result.fates == {"kept": 1, "lost": 1, "moved": 1, "unknown_dropped": 1}
    assert sorted(row["sent_ns"] for row in result.life) == [1_000_000, 2_000_000, 3_000_000, 4_000_000]


def test_csv_with_texts_of_the_logs(tmp_path: Path) -> None:
    file = mapped(tmp_path, MAP.partition("[copies]")[0])
    texts = dump(tmp_path, equal_logs([(0, 0, None, "7 0 a"), (1, 1, None, "7 2 b")]))
    assert judged("columns", [file, *texts], tmp_path / "imported").found == [("lost", 7, 1), ("moved", 7, 2)]


@pytest.mark.parametrize(
    ("text", "sends", "says"),
    [
        ("[sends", SENDS, "is not TOML"),
        ("times = 'weeks'", SENDS, "times = 'weeks' is none of ns, us, ms, s"),
        ("", SENDS, "has no table [sends]"),
        ("[send]", SENDS, "there is no table 'send'; did you mean sends?"),
        ("[sends]\nfile = 3", SENDS, "table sends:"),
        (MAP.replace("seq =", "sequence ="), SENDS, "there is no column of sends 'sequence'"),
        (MAP.replace('"id"', '"nr"'), SENDS, "has no column 'nr' for seq; its columns are id, sent"),
        (MAP.replace('TIMEOUT = "info"', 'X = "perhaps"'), SENDS, "outcome 'X' is to be 'perhaps'"),
        (MAP.replace("TIMEOUT", "LATE"), SENDS, "outcome 'TIMEOUT' is none of"),
        (MAP, SENDS.replace("1,2,3", "one,2,3"), "the column for seq does not fit int64"),
        (MAP, SENDS.replace("\n1,2", "\n1,9999999999999999"), "the column for sent_ns does not fit"),
        (MAP.replace("partition = 0, w", "partition = 5000000000, w"), SENDS, "does not fit int32"),
        (MAP, SENDS.replace("0,1,2", "0,1,2,3,4,5,6,7,8"), "cannot be read"),
        (MAP.replace("sends.csv", "none.csv"), SENDS, "cannot be read"),
        (MAP.replace("log.parquet", "sends.csv"), SENDS, "has no column 'broker' for broker"),
    ],
    ids=ascii,
)
def test_maps_and_files_that_do_not_fit(tmp_path: Path, text: str, sends: str, says: str) -> None:
    refused("columns", [mapped(tmp_path, text, sends)], tmp_path, says)


def test_a_result_is_never_written_over(tmp_path: Path) -> None:
    file = mapped(tmp_path)
    judged("columns", [file], tmp_path / "imported")
    with pytest.raises(UsageError, match="is not empty; name a new folder"):
        judged("columns", [file], tmp_path / "imported")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="is no folder"):
        judged("columns", [file], tmp_path / "link")
    assert not list(tmp_path.glob(".*.new"))

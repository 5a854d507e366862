"""What reports say of recordings of clusters that acked did not start."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pytest

from checkers.verdict import SeenEvent
from harness.errors import BadDataError
from harness.history.schema import TABLES
from harness.history.tables import write_table
from report.model.command import command_to_repeat
from report.model.judged import judged_model
from report.model.recorded import recorded_availability
from report.words.seen import limits_in_words, seen_in_words
from run.folder import write_json

S = 10**9
QUIET = dict.fromkeys(get_args(SeenEvent), 0)


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        (None, ""),
        (QUIET, "Nothing was seen to break: every broker answered, no leader changed, and no ISR shrank."),
        ({**QUIET, "broker-silent": 1}, "Seen meanwhile: a broker stopped answering."),
        (
            {**QUIET, "leader-changed": 2, "isr-shrunk": 1},
            "Seen meanwhile: other leaders were elected 2 times and an ISR shrank once.",
        ),
        ({**QUIET, "topic-deleted": 1}, "Seen meanwhile: somebody deleted the topic."),
        (
            {**QUIET, "right-lost": 2, "config-changed": 1, "throttled": 1},
            "Seen meanwhile: the user lost rights 2 times, a setting of the topic changed and quotas began "
            "to slow producers.",
        ),
    ],
)
def test_what_was_seen_to_break_is_a_sentence(seen: dict[str, int] | None, says: str) -> None:
    assert seen_in_words(seen) == says
    assert judged_model({"verdict": "as declared", "seen": seen}).verdict.seen == says


def test_a_recording_names_what_nobody_can_know() -> None:
    assert limits_in_words(None) == ()
    assert len(limits_in_words({"plan": {}})) == 1
    assert len(limits_in_words({"watched": {"cleanup": "delete", "refusal": ""}})) == 3
    (*_, unknown, refused) = limits_in_words({"watched": {"cleanup": None, "refusal": "they refuse"}})
    assert "DESCRIBE_CONFIGS" in unknown
    assert refused.endswith("because they refuse.")
    assert "each compacts its log" in limits_in_words({"watched": {"cleanup": "compact,delete"}})[-1]
    assert "not on the leader" in limits_in_words({"replica_logs": "refused"})[1]
    assert len(limits_in_words({"throttled_ms": 0})) == 1
    assert "answers to producers by 1.2 s" in limits_in_words({"throttled_ms": 1230})[1]


def test_a_recording_is_repeated_by_its_own_command() -> None:
    manifest = {"recording": {}, "lab": "attached", "made_by": {"command": "acked record --for 10s"}}
    assert command_to_repeat({**manifest, "recording": {"plan": 1}}, "record") == "acked record --for 10s"


def table(name: str, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=TABLES[name].arrow())


def recording(folder: Path, *, brokers: dict[str, str]) -> None:
    """Two producers on a partition of each AZ: one message per second, with a gap from 3 s to 8 s in az1."""
    plan = {"topic": "acked-x", "assignment": [[0, 7], [7, 0]]}
    write_json(
        folder / "run.json",
        {"azs": {"az1": "eu-a", "az2": "eu-b"}, "recording": {"plan": plan, "brokers": brokers}},
    )
    sends = [
        {
            "topic": "acked-x",
            "partition": partition,
            "writer": writer,
            "seq": second * 2 + partition,
            "sent_ns": second * S,
            "done_ns": second * S + writer * 10**6,
            "outcome": "ok",
        }
        for writer in (1, 2)
        for second in range(11)
        for partition in (0, 1)
        if partition == 1 or not 3 < second < 8
    ]
    write_table(folder, "sends", table("sends", sends))
    names = [{"writer": 1, "name": "acked-acks=all"}, {"writer": 2, "name": "acked-acks=1"}]
    write_table(folder, "writers", table("writers", names))
    place = '"topic":"acked-x","partition":0'
    marks = [
        {"ns": 3 * S, "name": "broker-silent", "facts": '{"broker":0}'},
        {"ns": 5 * S, "name": "isr-shrunk", "facts": f"{{{place}}}"},
        {"ns": 7 * S, "name": "leader-changed", "facts": f'{{{place},"leader":7,"before":0}}'},
        {"ns": 9 * S, "name": "isr-full", "facts": f"{{{place}}}"},
    ]
    write_table(folder, "marks", table("marks", marks))


def test_availability_is_told_by_the_az_of_the_first_leader(tmp_path: Path) -> None:
    recording(tmp_path, brokers={"0": "az1", "7": "az2"})
    available = recorded_availability(tmp_path)
    assert available is not None
    assert [(one.az, one.setting, one.acknowledged) for one in available.by_az] == [
        ("eu-a", "acks=all", 7),
        ("eu-a", "acks=1", 7),
        ("eu-b", "acks=all", 11),
        ("eu-b", "acks=1", 11),
    ]
    assert [one.longest_gap_s for one in available.by_az] == [5.0, 5.0, 1.0, 1.0]
    assert [one.p50_ms for one in available.by_az] == [1.0, 2.0, 1.0, 2.0]
    assert (available.failover_s, available.full_isr_s) == ((4.0,), (4.0,))


def test_other_runs_have_no_such_availability(tmp_path: Path) -> None:
    write_json(tmp_path / "run.json", {"scenario": "no-fault"})
    assert recorded_availability(tmp_path) is None


def test_a_damaged_recording_is_one_sentence(tmp_path: Path) -> None:
    recording(tmp_path, brokers={})
    with pytest.raises(BadDataError, match="which AZ leads"):
        recorded_availability(tmp_path)

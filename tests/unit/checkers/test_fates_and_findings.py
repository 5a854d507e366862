"""Fates and findings of small histories, with rows dealt with together and one by one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from checkers.evidence import gather
from checkers.judging.plan import judge_all
from checkers.judging.run import run_here
from checkers.judging.tasks import JudgingContext
from checkers.tables.source import open_source
from tests.blocks import blocks_of_rows
from tests.histories import History

ReportedFates = tuple[list[str], list[tuple[str, int | None]], dict[int, int]]
"""Fates in the order of the messages' numbers, class and offset of each finding, and by offset, how many
records each difference between replicas stands for.
"""


def judged(history: History, folder: Path) -> ReportedFates:
    history.write(folder)
    life, findings = folder / "life", folder / "findings"
    life.mkdir()
    findings.mkdir()
    source = open_source(folder)
    job = JudgingContext(source=source, evidence=gather(source), life=str(life), findings=str(findings))
    judge_all(run_here, job)
    return (
        [row["fate"] for row in sorted(_rows(life), key=lambda row: row["seq"])],
        sorted(((row["class"], row["offset"]) for row in _rows(findings)), key=str),
        {row["offset"]: row["count"] for row in _rows(findings) if "difference" in (row["detail"] or "")},
    )


def _rows(folder: Path) -> list[dict[str, Any]]:
    return [row for part in sorted(folder.glob("*.parquet")) for row in pq.read_table(part).to_pylist()]


def check(
    history: History, folder: Path, fates: str, *findings: tuple[str, int | None], counts: Sequence[int] = ()
) -> None:
    """Both ways come to the same; ``counts`` are those of differences between replicas, by offset."""
    said = [judged(history, folder / "together")]
    with blocks_of_rows(1):
        said.append(judged(history, folder / "one by one"))
    assert said[0][:2] == (fates.split(), sorted(findings, key=str))
    assert said == said[:1] * 2
    assert not counts or [said[0][2][offset] for offset in sorted(said[0][2])] == [*counts]


def test_the_end_of_a_log_counts_all_records_that_are_not_there(tmp_path: Path) -> None:
    """Broker 2 begins two records late and lacks three at its end; broker 3 has all."""
    history = History().log(2, [(o, o) for o in range(2, 7)])
    for seq in range(10):
        history.send(seq, offset=seq)
    for broker in (1, 3):
        history.log(broker, [(o, o) for o in range(10)])
    for broker in (1, 2, 3):
        history.replica(broker, leader=broker == 1, in_sync=True)
    check(history, tmp_path, "kept " * 10, ("diverged", 0), ("diverged", 7), counts=[2, 3])


def test_a_reference_that_ends_early_counts_what_the_first_follower_has(tmp_path: Path) -> None:
    """Broker 2 has two records more than the leader, broker 3 has three."""
    history = History()
    for seq in range(7):
        history.send(seq, "ok" if seq < 4 else "info", seq if seq < 4 else None)
    for broker, end in ((1, 4), (2, 6), (3, 7)):
        history.log(broker, [(o, o) for o in range(end)])
        history.replica(broker, leader=broker == 1, in_sync=True)
    fates = "kept " * 4 + "unknown_dropped " * 3
    check(history, tmp_path, fates, ("diverged", 4), counts=[2])


def test_a_reference_ends_at_one_offset_whatever_followers_have_behind_it(tmp_path: Path) -> None:
    """Broker 2 has a record right behind the leader's end, broker 3 lacks it and has the next one."""
    history = History()
    for seq in range(6):
        history.send(seq, "ok" if seq < 4 else "info", seq if seq < 4 else None)
    for broker, offsets in ((1, range(4)), (2, range(5)), (3, (0, 1, 2, 3, 5))):
        history.log(broker, [(o, o) for o in offsets])
        history.replica(broker, leader=broker == 1, in_sync=True)
    check(history, tmp_path, "kept " * 4 + "unknown_dropped " * 2, ("diverged", 4))


def test_a_partition_that_holds_nothing_and_was_not_read(tmp_path: Path) -> None:
    """Nobody sent anything to partition 1 either; what its log holds is not known."""
    history = History().send(0, offset=0).log(1, [(0, 0)]).replica(1, leader=True, leo=1)
    history.replica(1, False, leader=True, partition=1)
    check(history, tmp_path, "kept", ("undetermined", None))


def test_compaction_explains_nothing_beyond_what_was_read(tmp_path: Path) -> None:
    """The read stopped behind offset 1: 0 was compacted away, 2 may still be there."""
    history = History().send(0, offset=0).send(1, offset=1).send(2, offset=2).log(1, [(1, 1)])
    history.replica(1, False, leader=True, leo=3, log_start=0, cleanup="compact")
    check(history, tmp_path, "retired kept undetermined", ("undetermined", None))


def test_retention_decides_although_the_read_was_not_complete(tmp_path: Path) -> None:
    """Messages 0 and 1 stood before the log start offset; nobody knows where 2 and 3 stood."""
    history = History().send(0, offset=0).send(1, "info", offset=1).send(2, "info").send(3, "fail", offset=1)
    history.replica(1, False, leader=True, leo=3, log_start=2)
    fates = "retired unknown_dropped undetermined undetermined"
    check(history, tmp_path / "empty", fates, ("undetermined", None))
    history.send(4, offset=2).log(1, [(2, 4)])
    check(history, tmp_path / "one record", f"{fates} kept", ("undetermined", None))


def test_a_log_that_was_not_read_to_its_end_does_not_end_early(tmp_path: Path) -> None:
    """No log was read to its end, and the one of the newest epoch was read to offset 1 only."""
    history = History().send(0, offset=0).send(1, "info")
    history.log(1, [{"offset": 0, "seq": 0, "epoch": 2}]).log(2, [{"offset": 0, "seq": 0, "epoch": 2}])
    history.log(2, [{"offset": 1, "seq": 1, "epoch": 1}]).replica(1, False).replica(2, False)
    check(history, tmp_path, "kept unknown_dropped", ("undetermined", None))


def test_a_reference_out_of_sync_is_not_compared(tmp_path: Path) -> None:
    """It is the only log that was read to its end; the replica in sync has more, as it should."""
    history = History().send(0, offset=0).send(1, offset=1).log(1, [(0, 0)]).log(2, [(0, 0), (1, 1)])
    history.replica(1, in_sync=False, leo=1, log_start=0).replica(2, False, in_sync=True)
    check(history, tmp_path, "kept kept", ("undetermined", None))


@pytest.mark.parametrize("names", [(None, None), (7, None), (None, 7), (None, 0)])
@pytest.mark.parametrize("other", [(None, None), (None, 3)])
def test_two_reads_of_what_nobody_sent(
    tmp_path: Path, names: tuple[int | None, int | None], other: tuple[int | None, int | None]
) -> None:
    """Of records that name no message, each counts once at each offset."""
    history = History().send(0, offset=0).send(1, offset=1).log(1, [(0, 0), (1, 1)])
    for at, (writer, seq) in enumerate((names, other)):
        history.add(
            "reads", topic="t", partition=0, reader=at, ns=9000 + at, offset=5, writer=writer, seq=seq
        )
    findings = [("aborted_read", 5)] * len({names, other})
    check(history, tmp_path, "kept kept", *findings)


@pytest.mark.parametrize(("acks", "last_broker"), [(1, 1), (-1, 1), (0, None)])
def test_an_unseen_record_was_on_the_leader_only_if_the_leader_acknowledged_it(
    acks: int, last_broker: int | None, tmp_path: Path
) -> None:
    """A leader appends before it acknowledges. With acks=0, the outcome `ok` says only that it was sent."""
    history = History().send(0, offset=0 if acks else None, broker=1).send(1, offset=1, broker=1)
    history.log(1, [(0, 1)]).replica(1, leader=True, leo=1)
    history.add("writers", writer=1, name="w", host="client1", acks=acks)
    judged(history, tmp_path)
    (lost,) = (row for row in _rows(tmp_path / "life") if row["fate"] == "lost")
    assert (lost["acked_by"], lost["last_broker"]) == (1, last_broker)


@pytest.mark.parametrize(
    ("links", "moments", "by"),
    [
        (["client1 -> broker2", "broker2 -> client1"], ("injected",), 1),
        (["broker2 -> client1"], ("injected",), 1),
        (["client1 -> broker2:kafka"], ("injected",), 1),
        (["client1 -> broker2:controller"], ("injected",), None),
        (["client2 -> broker2", "broker1 -> broker2"], ("injected",), None),
        (["client1 -> broker1", "client1 -> broker2"], ("injected",), None),
        (["client1 -> broker2"], ("injecting",), None),
        (["client1 -> broker2"], ("injected", "healing"), None),
    ],
)
def test_a_cut_client_was_answered_by_the_leader_that_it_reached(
    tmp_path: Path, links: list[str], moments: tuple[str, ...], by: int | None
) -> None:
    """Two brokers take themselves for the leader; a proven cut decides, if it lasts from send to answer."""
    history = History().send(0, offset=0).send(1, offset=1)
    history.log(2, [(0, 1)]).replica(2, leader=True, leo=1)
    sent, done = (history.rows["sends"][0][column] for column in ("sent_ns", "done_ns"))
    history.add("writers", writer=1, name="w", host="client1", acks=1)
    for broker in (1, 2):
        view = {"topic": "t", "partition": 0, "leader": broker, "epoch": broker}
        history.add("views", ns=sent - 10, source=f"broker{broker}", subject="partition", **view)
    for at, moment in zip((sent - 5, done - 1), moments, strict=False):
        targets = json.dumps({"links": links})
        row = {"name": "cut", "kind": "link", "mechanism": "cut", "targets": targets}
        history.add("faults", ns=at, fault=1, moment=moment, **row)
    judged(history, tmp_path)
    (lost,) = (row for row in _rows(tmp_path / "life") if row["fate"] == "lost")
    assert lost["acked_by"] == by

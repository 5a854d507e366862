"""A final log that is older than an acknowledgement cannot show a loss."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from harness.history.final_read import acknowledged_after_final_read
from harness.history.schema import TABLES
from harness.history.tables import write_table

S = 1_000_000_000


def history(folder: Path, *, outcome: str, done_s: int, read_s: tuple[int | None, ...]) -> Path:
    sends = [
        {"topic": "t", "partition": 0, "writer": 3, "seq": seq, "sent_ns": S, "done_ns": ns, "outcome": how}
        for seq, (ns, how) in enumerate([(2 * S, "ok"), (done_s * S, outcome)])
    ]
    replicas = [
        {"topic": "t", "partition": 0, "broker": number, "complete": True, "ns": s and s * S}
        for number, s in enumerate(read_s, start=1)
    ]
    for name, rows in (("sends", sends), ("replicas", replicas)):
        write_table(folder, name, pa.Table.from_pylist(rows, TABLES[name].arrow()))
    return folder


@pytest.mark.parametrize(
    ("outcome", "done_s", "read_s", "late"),
    [
        ("ok", 9, (10, 11, 12), False),
        ("ok", 11, (10, 12, 13), True),
        ("ok", 14, (10, 12, 13), True),
        ("info", 14, (10, 12, 13), False),
        ("fail", 14, (10, 12, 13), False),
        ("ok", 14, (None, None, None), False),
        ("ok", 14, (None, 12, None), True),
        ("ok", 14, (), False),
    ],
)
def test_only_an_acknowledgement_after_the_first_read_counts(
    tmp_path: Path, outcome: str, done_s: int, read_s: tuple[int | None, ...], late: bool
) -> None:
    """The first replica to be read decides: the leader may have been that one."""
    said = acknowledged_after_final_read(history(tmp_path, outcome=outcome, done_s=done_s, read_s=read_s))
    assert bool(said) == late


def test_the_sentence_names_a_message_and_the_time(tmp_path: Path) -> None:
    said = acknowledged_after_final_read(history(tmp_path, outcome="ok", done_s=14, read_s=(10, 12, 13)))
    assert said == (
        "Producers went on although they were asked to stop: 1 message(s) were acknowledged up to 4.0 s "
        "after the final log of their partition had been read, such as one of producer 3 in t/0."
    )


def test_a_run_without_a_final_read_has_none(tmp_path: Path) -> None:
    assert acknowledged_after_final_read(tmp_path) == ""

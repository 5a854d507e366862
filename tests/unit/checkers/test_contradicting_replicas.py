"""A table `replicas` that contradicts itself is refused: it would hide what was lost."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.evidence import gather
from checkers.tables.source import open_source
from harness.errors import BadDataError
from harness.history.schema import TABLES
from tests.histories import History

LED = {"topic": "t", "partition": 0, "broker": 1, "complete": True, "leader": True, "leo": 1}
FOLLOWED = {**LED, "broker": 2, "leader": False}


def written(folder: Path, rows: list[dict[str, object]]) -> Path:
    place = History().send(0, offset=0).send(1, offset=1).log(1, [(0, 0)]).log(2, [(0, 0)]).write(folder)

    pq.write_table(pa.Table.from_pylist(rows, TABLES["replicas"].arrow()), place / "replicas.parquet")
    return place


def test_one_leader_and_one_row_per_replica_are_accepted(tmp_path: Path) -> None:
    other = {**LED, "partition": 1, "broker": 2}
    assert len(gather(open_source(written(tmp_path, [LED, FOLLOWED, other]))).rows("replicas")) == 3


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([LED, {**FOLLOWED, "leader": True}], "brokers 1 and 2 as leaders of 't', partition 0"),
        ([LED, FOLLOWED, {**LED, "complete": False}], "two rows for broker 1 and 't', partition 0"),
        ([FOLLOWED, FOLLOWED], "two rows for broker 2"),
    ],
)
def test_contradicting_rows_are_refused(tmp_path: Path, rows: list[dict[str, object]], says: str) -> None:
    with pytest.raises(BadDataError, match=says):
        gather(open_source(written(tmp_path, rows)))

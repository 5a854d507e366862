"""The moments that a claim's SQL names: how they are read from a history, and inserted into the SQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.ask.sql import with_moments
from checkers.claims.moments import Moments, read_moments, resolve
from checkers.tables.source import open_source
from harness.errors import UsageError
from harness.history.schema import TABLES


def _history(folder: Path, **tables: list[dict[str, Any]]) -> Any:
    for name in {"sends": [], "copies": []} | tables:
        rows = tables.get(name, [])
        pq.write_table(pa.Table.from_pylist(rows, TABLES[name].arrow()), folder / f"{name}.parquet")
    return open_source(folder)


def test_marks_become_numbers() -> None:
    moments = Moments(marks={"cut": 5})
    assert resolve("ns <= {mark:cut}", moments).sql == "ns <= 5L"
    assert resolve("ns <= {mark:cut}", moments).missing == ()


def test_a_missing_mark_is_named() -> None:
    resolved = resolve("ns BETWEEN {mark:cut} AND {mark:end}", Moments(marks={"cut": 5}))
    assert resolved.sql == "ns BETWEEN 5L AND CAST(NULL AS BIGINT)"
    assert resolved.missing == ("the scenario did not set the mark 'end'",)


def test_an_optional_mark_may_be_missing() -> None:
    resolved = resolve("ns <= {mark?:stuck}", Moments())
    assert (resolved.sql, resolved.missing) == ("ns <= CAST(NULL AS BIGINT)", ())


def test_other_braces_stay() -> None:
    assert resolve("'{x}' RLIKE 'a{2}'", Moments()).sql == "'{x}' RLIKE 'a{2}'"


def test_the_last_of_several_marks_counts(tmp_path: Path) -> None:
    source = _history(tmp_path, marks=[{"ns": 1, "name": "cut"}, {"ns": 7, "name": "cut"}])
    assert read_moments(source, ["{mark:cut}"]).marks == {"cut": 7}
    assert read_moments(source, ["nothing"]).marks == {}


def test_until_when_somebody_watched(tmp_path: Path) -> None:
    source = _history(
        tmp_path,
        views=[{"ns": 5, "source": "broker1", "subject": "reachable"}],
        sightings=[
            {"topic": "t", "partition": 0, "broker": 1, "offset": 0, "seen_ns": 8, "gone_ns": 9},
            {"topic": "t", "partition": 0, "broker": 2, "offset": 0, "seen_ns": 3},
        ],
        log_events=[
            {"ns": 4, "host": "broker1", "kind": "error"},
            {"ns": 6, "host": "broker2", "kind": "error"},
        ],
        replicas=[
            {"topic": "t", "partition": 0, "broker": 1, "complete": True, "ns": 20},
            {"topic": "u", "partition": 0, "broker": 1, "complete": False, "ns": 21},
        ],
    )
    moments = read_moments(source, ["{heard:store}"])
    assert moments.heard == {"broker1": 9, "broker2": 3, "store": 5}
    assert moments.tailed == {"broker1": 9, "broker2": 3}
    assert moments.logs == {"broker1": 21, "broker2": 6}, "all of a log is read when its replicas are"
    assert moments.final == {"t": 20, "*": 20}


def test_the_metadata_store_is_followed_by_its_own_answers(tmp_path: Path) -> None:
    """Where ZooKeeper is the store, what brokers and their logs say does not replace its answers."""
    rows = [
        {"ns": 3, "source": "zookeeper1", "subject": "partition"},
        {"ns": 6, "source": "zookeeper2", "subject": "reachable", "error": "timed out"},
        {"ns": 8, "source": "broker1", "subject": "partition"},
    ]
    seen = [{"topic": "t", "partition": 0, "broker": 1, "offset": 0, "seen_ns": 9}]
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    source = _history(tmp_path / "a", views=rows, sightings=seen)
    assert read_moments(source, ["{heard:store}"]).heard["store"] == 3
    quorum = [*rows, {"ns": 7, "source": "controller1", "subject": "quorum"}]
    source = _history(tmp_path / "b", views=quorum, sightings=seen)  # each node has the metadata
    assert read_moments(source, ["{heard:store}"]).heard["store"] == 8


def test_the_first_look_after_a_mark_is_one_that_began_after_it(tmp_path: Path) -> None:
    """It ended at ``ns``. Nodes of a kind count together, except those that answer a second later."""
    looks = [
        *(("broker1", ns, asked) for ns, asked in ((9, 8), (12, 9), (15, 13), (18, 16))),
        *(("zookeeper1", ns, asked) for ns, asked in ((12, 9), (14, 12))),
        *(("zookeeper2", ns, asked) for ns, asked in ((17, 15),)),
        *(("zookeeper3", ns, asked) for ns, asked in ((2_000_000_000, 1_900_000_000),)),
    ]
    history = _history(
        tmp_path,
        marks=[{"ns": 10, "name": "cut"}, {"ns": 20, "name": "end"}],
        views=[
            {"ns": ns, "asked_ns": asked, "source": source, "subject": "reachable"}
            for source, ns, asked in looks
        ],
    )
    names = "{look:broker1@cut} {look:store@cut} {look:zookeeper@cut} {look:broker1@end} {look:broker1@none}"
    moments = read_moments(history, [names])
    assert moments.looks == {"broker1@cut": 15, "store@cut": 17, "zookeeper@cut": 17}
    assert resolve("{look:broker1@cut} {look:broker1@end}", moments).sql == "15L CAST(NULL AS BIGINT)"
    assert resolve("{look:broker1@end}", moments).missing == ()


def test_without_times_of_looks_the_mark_itself_counts(tmp_path: Path) -> None:
    """Runs that were stored before the observer recorded when it asked are judged as they were."""
    history = _history(
        tmp_path,
        marks=[{"ns": 10, "name": "cut"}],
        views=[{"ns": 12, "source": "broker1", "subject": "reachable"}],
    )
    assert resolve("{look:broker1@cut}", read_moments(history, ["{look:broker1@cut}"])).sql == "10L"


def test_an_empty_history_knows_nothing(tmp_path: Path) -> None:
    resolved = resolve(
        "{heard:store} {log:broker1} {final:*} {tailed:broker1}",
        read_moments(_history(tmp_path), ["{heard:store}"]),
    )
    assert len(resolved.missing) == 4


def test_a_claim_can_be_asked_of_one_run(tmp_path: Path) -> None:
    """`acked sql` takes a claim's query as it is stored; of several runs each has times of its own."""
    _history(tmp_path, marks=[{"ns": 5, "name": "cut"}])
    assert with_moments("SELECT {mark:cut}", [tmp_path]) == "SELECT 5L"
    assert with_moments("SELECT 1", [tmp_path, tmp_path]) == "SELECT 1"
    with pytest.raises(UsageError, match="name one run"):
        with_moments("SELECT {mark:cut}", [tmp_path, tmp_path])
    with pytest.raises(UsageError, match="did not set the mark 'end'"):
        with_moments("SELECT {mark:end}", [tmp_path])

"""Records that no message of their partition explains: sent to another partition, or by nobody?

The tasks of the fast path see one partition each, so a record that names a message unknown there is looked
up among all sends here. What was found elsewhere is *misrouted*, and its absence at home is no loss besides.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checkers.spark.views import output_frame, table_frame
from checkers.tables.output import FINDING, LIFE, TALLY, build
from checkers.tables.source import Source

_STRAY = ("foreign", "misrouted")
_OVERWRITTEN = "overwritten"
"""A finding that tells of a stray record too: the record's key stands in `life`, as what overwrote it."""
_LOST = ("lost", "lost_after_read")
_KEYS = ["writer", "seq"]


def settle_strays(session: Any, source: Source, life: Path, findings: Path, tallies: Any) -> Any:
    """Rewrite the findings and fates that strays touch; returns the tallies as they are then."""
    counted = set(tallies.filter(pc.equal(tallies["kind"], "finding"))["name"].to_pylist())
    if not counted & {*_STRAY, _OVERWRITTEN}:
        return tallies
    parts = sorted(findings.glob("*.parquet"))
    strays = (
        output_frame(session, "findings", [str(path) for path in parts])
        .filter("class in ('foreign', 'misrouted') and seq is not null")
        .select(*_KEYS)
    )
    if _OVERWRITTEN in counted:
        over = output_frame(session, "life", [str(path) for path in sorted(life.glob("*.parquet"))])
        strays = strays.unionAll(
            over.filter(f"fate = '{_OVERWRITTEN}' and overwritten_by like '%/%'").selectExpr(
                "cast(split(overwritten_by, '/')[0] as int) as writer",
                "cast(split(overwritten_by, '/')[1] as bigint) as seq",
            )
        )
    strays = strays.distinct()
    sends = table_frame(session, source, "sends").select(*_KEYS, "topic", "partition")
    homes = sends.join(strays.hint("broadcast"), _KEYS).toArrow()
    homes = homes.rename_columns([*_KEYS, "home_topic", "home_partition"])
    deltas: dict[tuple[str, str, int, int | None, str], int] = {}
    for path in parts:
        table = pq.read_table(path, schema=FINDING)
        settled = _settle(table, homes, deltas)
        if not settled.equals(table):
            pq.write_table(settled, path)
    gone = {key[1:4] for key in deltas if key[0] == "fate"}
    for path in sorted(life.glob("*.parquet")) if gone else ():
        _mark_misrouted(path, homes)
    return _adjust(tallies, deltas)


def settle_rows(findings: Any, sends: Any, life: Any) -> Any:
    """Findings as they are once strays are told apart by ``sends`` (writer, seq, topic, partition)."""
    stray = findings.filter(pc.is_in(findings["class"], pa.array(_STRAY))).select(_KEYS)
    over = life.filter(pc.equal(life["fate"], _OVERWRITTEN))["overwritten_by"]
    named = pc.split_pattern(over.filter(pc.match_substring(over, "/")), "/")
    keys = [pc.list_element(named, place) for place in (0, 1)]
    columns = [values.cast(stray.schema.field(name).type) for name, values in zip(_KEYS, keys, strict=True)]
    stray = pa.concat_tables([stray, pa.table(columns, schema=stray.schema)])
    stray = stray.filter(stray["seq"].is_valid()).group_by(_KEYS).aggregate([])
    homes = sends.join(stray, _KEYS, join_type="inner").select([*_KEYS, "topic", "partition"])
    return _settle(findings, homes.rename_columns([*_KEYS, "home_topic", "home_partition"]), {})


def _settle(table: Any, homes: Any, deltas: dict[tuple[str, str, int, int | None, str], int]) -> Any:
    numbered = table.append_column("row", pa.array(range(table.num_rows), pa.int64()))
    joined = numbered.select(["row", *_KEYS]).join(homes, _KEYS, join_type="left outer").sort_by("row")
    known = joined["home_topic"].is_valid()
    elsewhere = pc.and_(
        known,
        pc.or_(
            pc.fill_null(pc.not_equal(joined["home_topic"], table["topic"]), False),
            pc.fill_null(pc.not_equal(joined["home_partition"], table["partition"]), False),
        ),
    )
    stray = pc.is_in(table["class"], pa.array(_STRAY))
    lost = pc.and_(pc.is_in(table["class"], pa.array(_LOST)), known)
    name = pc.if_else(stray, pc.if_else(elsewhere, "misrouted", "foreign"), table["class"])
    sent_to = pc.binary_join_element_wise(
        "sent to ", joined["home_topic"], "/", pc.cast(joined["home_partition"], pa.string()), ""
    )
    detail = pc.if_else(pc.and_(stray, elsewhere), sent_to, table["detail"])
    for row in (
        table.filter(lost)
        .group_by(["class", "topic", "partition", "writer"])
        .aggregate([([], "count_all")])
        .to_pylist()
    ):
        place = (row["topic"], row["partition"])
        _add(deltas, ("fate", *place, row["writer"], row["class"]), -row["count_all"])
        _add(deltas, ("fate", *place, row["writer"], "misrouted"), row["count_all"])
        _add(deltas, ("finding", *place, None, row["class"]), -row["count_all"])
    names = table.set_column(0, "class", name)
    for sign, counted in ((-1, table), (1, names)):
        for row in (
            counted.filter(stray)
            .group_by(["class", "topic", "partition"])
            .aggregate([([], "count_all")])
            .to_pylist()
        ):
            key = ("finding", row["topic"], row["partition"], None, row["class"])
            _add(deltas, key, sign * row["count_all"])
    place = FINDING.get_field_index("detail")
    return names.set_column(place, "detail", detail).filter(pc.invert(lost)).cast(FINDING)


def _add(deltas: dict[Any, int], key: Any, count: int) -> None:
    deltas[key] = deltas.get(key, 0) + count


def _mark_misrouted(path: Path, homes: Any) -> None:
    table = pq.read_table(path, schema=LIFE)
    numbered = table.append_column("row", pa.array(range(table.num_rows), pa.int64()))
    joined = numbered.select(["row", *_KEYS]).join(homes, _KEYS, join_type="left outer").sort_by("row")
    hit = pc.and_(joined["home_topic"].is_valid(), pc.is_in(table["fate"], pa.array(_LOST)))
    if pc.any(hit).as_py():
        fate = LIFE.get_field_index("fate")
        table = table.set_column(fate, "fate", pc.if_else(hit, "misrouted", table["fate"]))
        cause = LIFE.get_field_index("cause")
        table = table.set_column(
            cause, "cause", pc.if_else(hit, pa.scalar(None, pa.string()), table["cause"])
        )
        pq.write_table(table.cast(LIFE), path)


def _adjust(tallies: Any, deltas: dict[Any, int]) -> Any:
    rows = [
        build(
            TALLY,
            {
                "kind": kind,
                "topic": topic,
                "partition": partition,
                "writer": writer,
                "outcome": "ok" if kind == "fate" else None,
                "name": name,
                "count": count,
            },
            1,
        )
        for (kind, topic, partition, writer, name), count in deltas.items()
        if count
    ]
    return pa.concat_tables([tallies, *rows])

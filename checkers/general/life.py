"""The general plan's life and findings, as complete rows; the fast plan's code attributes the causes.

It holds the SQL steps that `checkers.general.steps` leaves out, and the last step, which is not SQL:
`checkers.tables.rows.attributed` processes batches of rows of any partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from checkers.evidence import Evidence, Sightings
from checkers.groups import StreamStep, causes_of_steps
from checkers.partition.fate import CODE
from checkers.partition.fates import Fates
from checkers.partition.logs import PartitionReplicas
from checkers.partition.messages import Sends
from checkers.tables.arrays import outcome_codes
from checkers.tables.output import FINDING, LIFE, build, ddl
from checkers.tables.rows import INCOMPLETE, attributed, reader_name
from checkers.tables.source import numbers

BASE: Mapping[str, tuple[str, str]] = {
    "sx": (
        "sends",
        "topic as t, partition as p, writer as w, seq as q, label, txn as told_txn, sent_ns, done_ns, error, "
        "attempts, broker",
    ),
    "sg": (
        "sightings",
        "topic as t, partition as p, broker as b, {offset} as o, seen_ns, epoch as e, writer as w, seq as q, "
        "gone_ns",
    ),
}
"""Working tables in addition to those of the plan."""

STEPS: Mapping[str, str] = {
    "own_epoch": """
        select l.t, l.p, l.mw as w, l.mq as q,
               coalesce(max(case when l.o = s.o then l.e end), min_by(l.e, l.o)) as e
        from l join s on s.t = l.t and s.p = l.p and s.w = l.mw and s.q = l.mq
        group by l.t, l.p, l.mw, l.mq""",
    "further": """
        select l.t, l.p, l.mw as w, l.mq as q, min(l.o) as o
        from l join life_core c on c.t = l.t and c.p = l.p and c.w = l.mw and c.q = l.mq
        where c.copies > 1 and l.o <> c.found group by l.t, l.p, l.mw, l.mq""",
    "holding": """
        select t, p, mw as w, mq as q, array_sort(array_agg(distinct b)) as brokers
        from k where mq is not null and intact group by t, p, mw, mq""",
    "first_seen": """
        select t, p, w, q, b, seen_ns from (
            select sg.*, row_number() over (partition by t, p, w, q order by seen_ns, b) as rn from sg
            where q is not null) z where rn = 1""",
    "seen_again": """
        select f.t, f.p, f.w, f.q, max(sg.seen_ns) as ns
        from first_seen f join sg on sg.t = f.t and sg.p = f.p and sg.w = f.w and sg.q = f.q and sg.b = f.b
        where sg.seen_ns > f.seen_ns group by f.t, f.p, f.w, f.q""",
    "last_seen": """
        select t, p, w, q, b, o, e, gone_ns from (
            select sg.*, row_number() over (
                partition by t, p, w, q order by case when gone_ns is null then 0 else 1 end, gone_ns desc,
                seen_ns, b desc) as rn
            from sg where q is not null) z where rn = 1""",
    "life_all": """
        select c.t as topic, c.p as partition, c.w as writer, c.q as seq, sx.label, sx.told_txn as txn,
               sx.sent_ns, sx.done_ns, c.outcome, sx.error, c.o as at_offset, sx.attempts, sx.broker,
               c.copies, h.brokers, c.found, coalesce(c.follower_e, oe.e) as found_epoch, x.o as further,
               c.reads,
               case when c.outcome <> 'ok' or c.holders > 0 or c.damaged or l.o is null then null
                    when l.w >= 0 and l.q >= 0 then concat(l.w, '/', l.q) else 'nobody' end as overwritten_by,
               f.b as first_broker, a.ns as again_ns, g.b as last_broker, g.o as last_offset,
               g.e as last_epoch, g.gone_ns, c.fate
        from life_core c join sx on sx.t = c.t and sx.p = c.p and sx.w = c.w and sx.q = c.q
        left join holding h on h.t = c.t and h.p = c.p and h.w = c.w and h.q = c.q
        left join own_epoch oe on oe.t = c.t and oe.p = c.p and oe.w = c.w and oe.q = c.q
        left join further x on x.t = c.t and x.p = c.p and x.w = c.w and x.q = c.q
        left join l on l.t = c.t and l.p = c.p and l.o = c.o
        left join first_seen f on f.t = c.t and f.p = c.p and f.w = c.w and f.q = c.q
        left join seen_again a on a.t = c.t and a.p = c.p and a.w = c.w and a.q = c.q
        left join last_seen g on g.t = c.t and g.p = c.p and g.w = c.w and g.q = c.q""",
}
"""The columns of `life` besides fates; each step may use the steps of the plan and those before it."""

WIDE = pa.schema([*LIFE, ("further", pa.int64()), ("evidence", pa.list_(pa.string()))])
"""Rows of life with the first further offset of a duplicated message, and the columns that causes rest on."""


def attribute(evidence: Evidence, table: pa.Table) -> pa.Table:
    """Rows of `life_all` as rows of `WIDE`, with causes; in any order, of any partitions."""
    parts = [_of_partition(evidence, mine) for mine in _partitions(table)]
    return pa.concat_tables(parts) if parts else WIDE.empty_table()


def _partitions(table: pa.Table) -> Iterator[pa.Table]:
    for key in table.group_by(["topic", "partition"]).aggregate([]).to_pylist():
        same = pc.and_(pc.equal(table["topic"], key["topic"]), pc.equal(table["partition"], key["partition"]))
        yield table.filter(same)


def _of_partition(evidence: Evidence, table: pa.Table) -> pa.Table:
    partition = PartitionReplicas(topic=table["topic"][0].as_py(), number=table["partition"][0].as_py())
    nothing = np.full(table.num_rows, -1, dtype=np.int64)
    unused = np.zeros(table.num_rows, dtype=bool)
    sends = Sends(
        writer=numbers(table, "writer"),
        seq=numbers(table, "seq"),
        outcome=outcome_codes(table["outcome"], partition.name),
        offset=numbers(table, "at_offset"),
        sent_ns=numbers(table, "sent_ns"),
        aborted=unused,
        visible=unused,
        withheld=unused,
        transaction=nothing,
    )
    fates = Fates(
        fate=pc.index_in(table["fate"], value_set=pa.array(list(CODE))).to_numpy().astype(np.int8),
        copies=numbers(table, "copies").astype(np.int32),
        found_offset=numbers(table, "found"),
        found_epoch=numbers(table, "found_epoch"),
        extra_offset=numbers(table, "further"),
        holders=nothing,
        overwriter=nothing,
        removal=nothing,
        reads=numbers(table, "reads"),
    )
    seen = Sightings(
        first_broker=numbers(table, "first_broker").astype(np.int64),
        again_ns=numbers(table, "again_ns").astype(np.int64),
        last_broker=numbers(table, "last_broker").astype(np.int64),
        last_offset=numbers(table, "last_offset").astype(np.int64),
        last_epoch=numbers(table, "last_epoch").astype(np.int64),
        gone_ns=numbers(table, "gone_ns").astype(np.int64),
    )
    none = pa.scalar([], pa.list_(pa.int32()))
    life = attributed(
        partition,
        evidence,
        table=table,
        sends=sends,
        fates=fates,
        seen=seen,
        holders=pc.coalesce(table["brokers"].cast(pa.list_(pa.int32())), none),
        overwriters=table["overwritten_by"],
    )
    wide = life.table.append_column("further", table["further"].cast(pa.int64()))
    return wide.append_column("evidence", life.evidence).cast(WIDE)


def life(session: SparkSession, evidence: Evidence) -> DataFrame:
    """Life as a DataFrame (inside the plan, `whole_rows=True`), with the columns of `WIDE`."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from attribute(evidence, pa.Table.from_batches([batch])).to_batches()

    return session.table("life_all").mapInArrow(work, ddl(WIDE))


_CARRIED = ("acked_by", "acked_during", "acked_fault", "last_broker", "cause", "evidence")


def findings(session: SparkSession, evidence: Evidence, life_view: str) -> DataFrame:
    """Findings as a DataFrame (inside the plan); those about messages take their columns from ``life_view``.
    Findings about replicas and readers have only a class, a place and a message.
    """
    disagreements = {
        "class": "m.class",
        "topic": "m.t",
        "partition": "m.p",
        "offset": "m.o",
        "epoch": "coalesce(l.found_epoch, l.last_epoch)",
        "brokers": "l.replicas",
        "writer": "m.w",
        "seq": "m.q",
        "label": "l.label",
        "found_offset": "coalesce(l.further, l.found_offset)",
        "count": "case when m.class = 'undetermined' then coalesce(u.n, 0) else 1 end",
        "acked_ns": "case when l.outcome = 'ok' then l.done_ns end",
        "detail": f"case when m.class = 'undetermined' then '{INCOMPLETE}' end",
        "expected": "false",
        **{name: f"l.{name}" for name in _CARRIED},
    }
    bare = {
        "class": "class",
        "topic": "t",
        "partition": "p",
        "offset": "o",
        "writer": "w",
        "seq": "q",
        "count": "n",
        "expected": "false",
    }
    rest = (
        "select *, 1 as n from found_strays union all select * from counted_differences "
        "union all select *, 1 as n from found_reads"
    )
    found = session.sql(f"""
        select {_as_findings(disagreements)} from found_messages m
        left join {life_view} l on l.topic = m.t and l.partition = m.p and l.writer = m.w and l.seq = m.q
        left join (select t, p, count(*) as n from life_core where fate = 'undetermined' group by t, p) u
          on u.t = m.t and u.p = m.p
        union all
        select {_as_findings(bare)} from ({rest}) z""")

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from step_findings(evidence, pa.Table.from_batches([batch])).to_batches()

    return found.unionAll(session.table("found_moves").mapInArrow(work, ddl(FINDING)))


def step_findings(evidence: Evidence, table: pa.Table) -> pa.Table:
    """Rows of `found_moves` as findings, with the causes of skips and replays of groups."""
    parts = []
    for mine in _partitions(table.rename_columns(["class", "topic", "partition", *table.column_names[3:]])):
        rows = mine.to_pylist()
        first = rows[0]
        steps = [
            StreamStep(
                group=row["g"],
                reader=row["rd"],
                ns=row["ns"],
                before_reader=row["prd"],
                before_ns=row["pns"],
                back=row["class"] != "skip",
                committed=row["committed"],
            )
            for row in rows
        ]
        causes, grounds = causes_of_steps(evidence, first["topic"], first["partition"], steps)
        columns = {
            "class": mine["class"],
            "topic": mine["topic"],
            "partition": mine["partition"],
            "offset": mine["o"],
            "writer": mine["w"],
            "seq": mine["q"],
            "count": mine["messages"],
            "reader": [reader_name(step.group, step.reader) for step in steps],
            "cause": causes,
            "evidence": grounds,
        }
        parts.append(build(FINDING, columns, len(rows)))
    return pa.concat_tables([FINDING.empty_table(), *parts])


def _as_findings(columns: Mapping[str, str]) -> str:
    kinds = dict(part.strip().split(" ", 1) for part in ddl(FINDING).split(", "))
    return ", ".join(
        f"cast({columns.get(field.name, 'null')} as {kinds[f'`{field.name}`']}) as `{field.name}`"
        for field in FINDING
    )

"""Views that say when readers of committed records were blocked, and when transactions became readable.

Both follow from the last stable offsets in `watermarks`. ``by`` is a column that distinguishes runs. The text
is that of Spark and of DuckDB.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

_STILL_NS = 2**63 - 1
"""After every time of a history."""


def blocked_readers(by: str = "") -> str:
    """The view `blocked_readers`: when the last stable offset of a replica stood below its high watermark.

    It has one row for each stretch of time in which a replica's last stable offset did not move, with the
    transaction whose record is there.
    """
    run = f"{by}, " if by else ""
    keys = f"{run}topic, partition, broker"
    same = f"r.{by} = w.{by} AND " if by else ""
    fate = f"f.{by} = w.{by} AND " if by else ""
    chosen = f"w.{by}, " if by else ""
    in_time = f"OVER (PARTITION BY {keys} ORDER BY ns)"
    return f"""
        SELECT {chosen}w.topic, w.partition, w.broker, w.blocked_at AS offset, w.from_ns, w.until_ns,
               round((w.until_ns - w.from_ns) / 1e9, 3) AS seconds, r.writer, r.txn, r.seq, f.reported
        FROM (
            SELECT {keys}, blocked_at, min(ns) AS from_ns,
                   CASE WHEN count(*) = count(next_ns) THEN max(next_ns) END AS until_ns
            FROM (
                SELECT *, sum(CASE WHEN blocked_at IS NOT DISTINCT FROM before THEN 0 ELSE 1 END) {in_time}
                          AS stretch
                FROM (
                    SELECT *, lead(ns) {in_time} AS next_ns, lag(blocked_at) {in_time} AS before
                    FROM (SELECT *, CASE WHEN last_stable_offset < high_watermark
                                         THEN last_stable_offset END AS blocked_at FROM watermarks)))
            WHERE blocked_at IS NOT NULL GROUP BY {keys}, blocked_at, stretch) w
        LEFT JOIN transaction_records r
          ON {same}r.topic = w.topic AND r.partition = w.partition AND r.offset = w.blocked_at
        LEFT JOIN transaction_fates f ON {fate}f.writer = r.writer AND f.txn = r.txn"""


def readable_since(by: str = "") -> str:
    """The view `readable_since`: when each replica's last stable offset passed a transaction's records.

    It has one row for each transaction, partition and replica if a commit marker decided records of the
    transaction there: `first_ns` is the first time, and `since_ns` the time from which it was above until the
    end (null: it is not). `offset` is that of the last record. `leader` led the partition at `first_ns`.
    `seconds` is the time from the answer to the application until then.

    The offset is that of the final log. If the first time is before the transaction began, other records
    were at the offset, and `since_ns` counts.
    """
    run = f"{by}, " if by else ""
    keys = f"{run}topic, partition, broker"

    def both(one: str, other: str, *names: str) -> str:
        columns = (*((by,) if by else ()), *names)
        return " AND ".join(f"{one}.{name} = {other}.{name}" for name in columns)

    def chosen(table: str) -> str:
        return f"{table}.{by}, " if by else ""

    return f"""
        WITH seen AS (
            SELECT {keys}, ns, last_stable_offset AS place,
                   coalesce(lead(ns) OVER (PARTITION BY {keys} ORDER BY ns), {_STILL_NS}) AS next_ns
            FROM watermarks WHERE last_stable_offset IS NOT NULL),
        places AS (
            SELECT {run}writer, txn, topic, partition, max(r.offset) AS place FROM transaction_records r
            WHERE state IN ('readable', 'blocked') GROUP BY {run}writer, txn, topic, partition),
        both_kinds AS (
            SELECT {keys}, place, ns, next_ns, CAST(NULL AS INT) AS writer, CAST(NULL AS BIGINT) AS txn
            FROM seen
            UNION ALL
            SELECT {chosen("p")}p.topic, p.partition, b.broker, p.place, NULL, NULL, p.writer, p.txn
            FROM places p JOIN (SELECT DISTINCT {keys} FROM seen) b
              ON {both("p", "b", "topic", "partition")}),
        passed AS (
            SELECT *,
                   min(ns) OVER (PARTITION BY {keys} ORDER BY place DESC, writer IS NULL
                                 ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS above_ns,
                   max(next_ns) OVER (PARTITION BY {keys} ORDER BY place, writer IS NOT NULL
                                      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS left_ns
            FROM both_kinds),
        timed AS (
            SELECT {chosen("z")}z.writer, z.txn, z.topic, z.partition, z.broker, z.place, f.reported,
                   f.ended_ns, nullif(coalesce(z.left_ns, z.above_ns), {_STILL_NS}) AS since_ns,
                   CASE WHEN z.above_ns < f.begin_ns
                        THEN nullif(coalesce(z.left_ns, z.above_ns), {_STILL_NS})
                        ELSE z.above_ns END AS first_ns
            FROM passed z LEFT JOIN transaction_fates f ON {both("f", "z", "writer", "txn")}
            WHERE z.writer IS NOT NULL),
        leaders AS (
            SELECT {chosen("z")}z.topic, z.partition, z.first_ns, max_by(t.leader, t.ns) AS leader
            FROM (SELECT DISTINCT {run}topic, partition, first_ns FROM timed) z
            JOIN truth t ON {both("t", "z", "topic", "partition")} AND t.ns <= z.first_ns
            GROUP BY {chosen("z")}z.topic, z.partition, z.first_ns)
        SELECT {chosen("z")}z.writer, z.txn, z.topic, z.partition, z.broker, z.place AS offset, z.first_ns,
               z.since_ns, l.leader, z.reported, round((z.first_ns - z.ended_ns) / 1e9, 3) AS seconds
        FROM timed z
        LEFT JOIN leaders l ON {both("l", "z", "topic", "partition", "first_ns")}"""


READER_VIEWS: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {"blocked_readers": blocked_readers, "readable_since": readable_since}
)

"""The tables and views that a query over stored runs may name. Each row has its run."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from checkers.partition.fate import LOST
from checkers.spark.reader_views import READER_VIEWS
from checkers.spark.views import DERIVED
from harness.history.schema import TABLES, views

_LOST = str(LOST)

RUN_VIEWS: Mapping[str, str] = MappingProxyType(
    {
        **views("run"),
        "lost": f"""
            SELECT l.run, l.topic, l.partition, l.offset, l.label, l.writer, l.seq, l.writer_name, l.az,
                   l.acks, l.acked_by, l.acked_during, l.last_broker, l.fate, l.cause, l.cause_facts
            FROM life l WHERE l.fate IN {_LOST}""",
        "losses": f"""
            SELECT * FROM life WHERE fate IN {_LOST}""",
        "availability": """
            SELECT l.run, l.second, l.az, count(*) AS sent,
                   count(CASE WHEN l.outcome = 'ok' THEN 1 END) AS ok,
                   count(CASE WHEN l.outcome = 'fail' THEN 1 END) AS fail,
                   count(CASE WHEN l.outcome = 'info' THEN 1 END) AS info,
                   round(count(CASE WHEN l.outcome = 'ok' THEN 1 END) / count(*), 4) AS share
            FROM (SELECT run, az, outcome,
                         CAST(floor((sent_ns - min(sent_ns) OVER (PARTITION BY run)) / 1e9) AS INT) AS second
                  FROM life) l
            GROUP BY l.run, l.second, l.az""",
        "latency": """
            SELECT l.run, l.az, l.acks, l.sent_during, count(*) AS acknowledged,
                   percentile_disc(0.5) WITHIN GROUP (ORDER BY l.ms) AS p50_ms,
                   percentile_disc(0.99) WITHIN GROUP (ORDER BY l.ms) AS p99_ms,
                   max(l.ms) AS max_ms
            FROM (SELECT run, az, acks, sent_during, round((done_ns - sent_ns) / 1e6, 3) AS ms
                  FROM life WHERE outcome = 'ok') l
            GROUP BY l.run, l.az, l.acks, l.sent_during""",
        "latencies": """
            SELECT run, writer_name, az, acks, outcome, (done_ns - sent_ns) / 1e6 AS ms, sent_ns, sent_during
            FROM life WHERE done_ns IS NOT NULL""",
        "leaders": """
            SELECT run, topic, partition, epoch, leader, min(ns) AS since_ns,
                   array_sort(array_agg(DISTINCT source)) AS named_by
            FROM views WHERE subject = 'partition' AND leader IS NOT NULL AND topic IS NOT NULL
            GROUP BY run, topic, partition, epoch, leader""",
        "timeline": """
            SELECT run, ns, 'mark' AS kind, name AS what, text FROM marks
            UNION ALL SELECT run, ns, 'fault', name || ': ' || moment, targets FROM faults
            UNION ALL SELECT run, ns, 'process', host || ' ' || event, detail FROM processes
            UNION ALL SELECT run, ns, 'log', host || ' ' || kind, text FROM log_events""",
        **{name: view("run") for name, view in READER_VIEWS.items()},
    }
)
"""Those of the schema, and views for common questions: `lost` messages (`losses`: with every column of
`life`), `availability` per second (since the first send) and AZ, `latency` per AZ and fault (`latencies`: of
each message), `leaders` that any source reported, by epoch, the `timeline` of events, `blocked_readers` by
partition and transaction, and when transactions were `readable_since`."""

QUERYABLE = (*TABLES, *DERIVED, *RUN_VIEWS)
"""Every table and view that a query may name."""

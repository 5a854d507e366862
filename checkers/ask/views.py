"""The tables and views that a query over stored runs may name. Each row has its run."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from checkers.partition.fate import LOST
from checkers.spark.reader_views import READER_VIEWS
from checkers.spark.views import DERIVED
from harness.history.schema import TABLES, VIEWS

_SECOND = "cast(floor((l.sent_ns - b.start_ns) / 1e9) as int)"
_BEGIN = "(SELECT run, min(sent_ns) AS start_ns FROM life GROUP BY run) b"
_LOST = str(LOST)

RUN_VIEWS: Mapping[str, str] = MappingProxyType(
    {
        "lost": f"""
            SELECT run, topic, partition, offset, label, writer, seq, writer_name, az, acks, acked_by,
                   acked_during, last_broker, fate, cause, cause_facts
            FROM life WHERE fate IN {_LOST}""",
        "losses": f"SELECT * FROM life WHERE fate IN {_LOST}",
        "availability": f"""
            SELECT l.run, {_SECOND} AS second, l.az, count(*) AS sent,
                   count_if(l.outcome = 'ok') AS ok, count_if(l.outcome = 'fail') AS fail,
                   count_if(l.outcome = 'info') AS info,
                   round(count_if(l.outcome = 'ok') / count(*), 4) AS share
            FROM life l JOIN {_BEGIN} ON l.run = b.run GROUP BY l.run, second, l.az""",
        "latency": """
            SELECT run, az, acks, sent_during, count(*) AS acknowledged,
                   round(percentile_approx((done_ns - sent_ns) / 1e6, 0.5), 3) AS p50_ms,
                   round(percentile_approx((done_ns - sent_ns) / 1e6, 0.99), 3) AS p99_ms,
                   round(max((done_ns - sent_ns) / 1e6), 3) AS max_ms
            FROM life WHERE outcome = 'ok' GROUP BY run, az, acks, sent_during""",
        "latencies": """
            SELECT run, writer_name, az, acks, outcome, (done_ns - sent_ns) / 1e6 AS ms, sent_ns,
                   sent_during FROM life WHERE done_ns IS NOT NULL""",
        "leaders": """
            SELECT run, topic, partition, epoch, leader, min(ns) AS since_ns,
                   collect_set(source) AS named_by
            FROM views WHERE subject = 'partition' AND leader IS NOT NULL AND topic IS NOT NULL
            GROUP BY run, topic, partition, epoch, leader""",
        "timeline": """
            SELECT run, ns, 'mark' AS kind, name AS what, text FROM marks
            UNION ALL SELECT run, ns, 'fault', concat(name, ': ', moment), targets FROM faults
            UNION ALL SELECT run, ns, 'process', concat(host, ' ', event), detail FROM processes
            UNION ALL SELECT run, ns, 'log', concat(host, ' ', kind), text FROM log_events""",
        **{name: view("run") for name, view in READER_VIEWS.items()},
    }
)
"""Views for common questions, besides those of the schema: `lost` messages (`losses`: with every column of
`life`), `availability` per second (since the first send) and AZ, `latency` per AZ and fault (`latencies`: of
each message), `leaders` that any source reported, by epoch, the `timeline` of events, `blocked_readers` by
partition and transaction, and when transactions were `readable_since`."""

ALL_VIEWS: Mapping[str, str] = {
    **{name: text.replace("SELECT ns,", "SELECT run, ns,", 1) for name, text in VIEWS.items()},
    **RUN_VIEWS,
}
"""All views, those that others name first."""

QUERYABLE = (*TABLES, *DERIVED, *ALL_VIEWS)
"""Every table and view that a query may name."""

"""Views for the questions that are asked most, over one or many registered runs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

_SECOND = "cast(floor((l.sent_ns - b.start_ns) / 1e9) as int)"
_BEGIN = "(SELECT run, min(sent_ns) AS start_ns FROM life GROUP BY run) b"

QUESTIONS: Mapping[str, str] = MappingProxyType(
    {
        "lost": """
            SELECT run, topic, partition, offset, label, writer, seq, writer_name, az, acks, acked_by,
                   acked_during, last_broker, fate, cause
            FROM life WHERE fate IN ('lost', 'lost_after_read', 'overwritten')""",
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
        "leaders": """
            SELECT run, topic, partition, epoch, leader, min(ns) AS since_ns,
                   collect_set(source) AS told_by
            FROM views WHERE subject = 'partition' AND leader IS NOT NULL AND topic IS NOT NULL
            GROUP BY run, topic, partition, epoch, leader""",
    }
)
"""Name of the view → its SQL: `lost` messages, `availability` per second (since the first send) and AZ,
`latency` per AZ and fault, `leaders` that anybody believed in, by epoch."""


def register_questions(session: Any) -> list[str]:
    """Register the views in a session that has the runs' tables (`checkers.ask.sql.register_runs`)."""
    for name, text in QUESTIONS.items():
        session.sql(text).createOrReplaceTempView(name)
    return sorted(QUESTIONS)

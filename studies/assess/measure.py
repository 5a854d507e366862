"""The numbers of an assessment: queries over stored runs, and what they return.

`acked sql` answers every query of `QUERIES` in the same way, over one run or many. Their columns include
`run`; `topic`, the name by which a topic is described; and `led`, which is `inside` where the fault hit the
first leader of a partition. Times are seconds.

A fault can lose messages that were sent before it, so these are counted as lost. If they are in the log twice
or in the wrong order, that is not due to the fault and is not counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.ask.sql import history_of
from checkers.partition.fate import LOST
from checkers.spark.session import settings_for_small_data
from checkers.spark.views import as_rows
from checkers.tables.output import FINDING, LIFE
from checkers.tables.source import open_source, read_small
from checkers.verdict import TRANSACTIONS_AND_GROUPS
from harness.history.schema import TABLES, views
from studies.assess.promised import promised

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MeasureRow = Mapping[str, Any]
Measures = Mapping[str, Sequence[MeasureRow]]
"""Rows by the name of the query; those of `studies.assess.promised` have the name `promised`."""
PROMISED = "promised"

_TABLES = ("marks", "writers", "reads", "views", "machine")
"""Tables of the history that the queries use."""

_LED = """(SELECT run, fact.* FROM (SELECT run,
    from_json(facts, 'led string, topic string, partition int, described string') AS fact
    FROM marks) WHERE fact.led IS NOT NULL)"""
_SPAN = """(SELECT run, min(ns) FILTER (WHERE name = 'begin') AS begin_ns,
    min(ns) FILTER (WHERE name = 'injected') AS injected_ns, min(ns) FILTER (WHERE name = 'heal') AS heal_ns,
    min(ns) FILTER (WHERE name = 'recovered') AS recovered_ns,
    min(ns) FILTER (WHERE name = 'drained') AS end_ns FROM marks GROUP BY run)"""
_SETTING = "substring_index({}, '-', -1)"
_LOST = f"fate IN {LOST}"


def _gaps(what: str, events: str, *, by: str) -> str:
    """The longest time without an event in any one partition, from the beginning to the end of a run.

    ``events`` has the columns run, topic, partition, ns and those of ``by``. Each series of events begins
    and ends with the run's span, so that one without any event in it is one gap. A gap that began in the
    last second before the heal is due to the heal.
    """
    return f"""WITH led AS {_LED}, span AS {_SPAN}, event AS ({events}),
series AS (SELECT DISTINCT e.run, e.topic, e.partition, {by} FROM event e),
moment AS (
    SELECT e.* FROM event e JOIN span s ON e.run = s.run WHERE e.ns BETWEEN s.begin_ns AND s.end_ns
    UNION ALL SELECT x.run, x.topic, x.partition, {by}, s.begin_ns FROM series x JOIN span s ON x.run = s.run
    UNION ALL SELECT x.run, x.topic, x.partition, {by}, s.end_ns FROM series x JOIN span s ON x.run = s.run),
gap AS (SELECT *, ns - lag(ns) OVER (PARTITION BY run, topic, partition, {by} ORDER BY ns) AS gap_ns
    FROM moment)
SELECT g.run, led.described AS topic, led.led, {by}, round(max(gap_ns) / 1e9, 2) AS {what}_gap_s,
    max_by(g.ns, gap_ns) > max(s.heal_ns)
        AND max_by(g.ns - gap_ns, gap_ns) < max(s.heal_ns) - 1e9 AS lasted_until_heal
FROM gap g JOIN led ON g.run = led.run AND g.topic = led.topic AND g.partition = led.partition
JOIN span s ON g.run = s.run GROUP BY g.run, led.described, led.led, {by}"""


QUERIES: Mapping[str, str] = MappingProxyType(
    {
        "messages": f"""SELECT l.run, led.described AS topic, led.led,
    {_SETTING.format("writer_name")} AS setting,
    count_if(outcome = 'ok') AS acknowledged, count_if({_LOST}) AS lost,
    count_if(fate = 'lost_after_read') AS lost_after_read,
    count_if(fate = 'duplicated' AND sent_ns >= begin_ns) AS duplicated,
    count_if(fate = 'undetermined') AS undetermined
FROM life l JOIN {_LED} led ON l.run = led.run AND l.topic = led.topic AND l.partition = led.partition
JOIN {_SPAN} s ON l.run = s.run GROUP BY l.run, led.described, led.led, setting""",
        "order": f"""SELECT f.run, led.described AS topic, led.led, {_SETTING.format("w.name")} AS setting,
    sum(coalesce(f.count, 1)) AS out_of_order
FROM findings f JOIN {_LED} led ON f.run = led.run AND f.topic = led.topic AND f.partition = led.partition
JOIN writers w ON f.run = w.run AND f.writer = w.writer JOIN {_SPAN} s ON f.run = s.run
JOIN life l ON f.run = l.run AND f.writer = l.writer AND f.seq = l.seq
WHERE f.class = 'out_of_order' AND l.sent_ns >= s.begin_ns GROUP BY f.run, led.described, led.led, setting""",
        "promises": f"""SELECT f.run, led.described AS topic, led.led,
    {_SETTING.format("w.name")} AS setting, f.promise, f.promise_row, f.known_bug, f.class,
    count(*) AS findings
FROM findings f JOIN {_LED} led ON f.run = led.run AND f.topic = led.topic AND f.partition = led.partition
JOIN {_SPAN} s ON f.run = s.run LEFT JOIN writers w ON f.run = w.run AND f.writer = w.writer
LEFT JOIN life l ON f.run = l.run AND f.writer = l.writer AND f.seq = l.seq
WHERE f.class NOT IN {TRANSACTIONS_AND_GROUPS}
AND (f.class NOT IN ('out_of_order', 'duplicated') OR coalesce(l.sent_ns, s.begin_ns) >= s.begin_ns)
GROUP BY f.run, led.described, led.led, setting, f.promise, f.promise_row, f.known_bug, f.class""",
        "findings": """SELECT run, class, count(*) AS findings FROM findings
WHERE class NOT IN ('lost', 'lost_after_read', 'overwritten', 'duplicated', 'out_of_order')
GROUP BY run, class""",
        "writes": _gaps(
            "write",
            f"""SELECT run, topic, partition, az, {_SETTING.format("writer_name")} AS setting, done_ns AS ns
    FROM life WHERE outcome = 'ok'""",
            by="az, setting",
        ),
        "rates": f"""SELECT l.run, led.described AS topic, led.led, az,
    {_SETTING.format("writer_name")} AS setting,
    cast(floor((done_ns - injected_ns) / 1e9) AS int) AS second, count(*) AS acknowledged
FROM life l JOIN {_LED} led ON l.run = led.run AND l.topic = led.topic AND l.partition = led.partition
JOIN {_SPAN} s ON l.run = s.run
WHERE outcome = 'ok' AND done_ns BETWEEN begin_ns AND end_ns
GROUP BY l.run, led.described, led.led, az, setting, second""",
        "reads": _gaps(
            "read",
            """SELECT r.run, r.topic, r.partition, m.fact.az, r.ns FROM reads r JOIN
    (SELECT run, from_json(facts, 'reader int, az string') AS fact FROM marks) m
    ON r.run = m.run AND m.fact.reader = r.reader""",
            by="az",
        ),
        "groups": _gaps(
            "group",
            """SELECT r.run, r.topic, r.partition, 'group' AS readers, r.ns FROM reads r JOIN
    (SELECT run, from_json(facts, 'member int') AS fact FROM marks) m
    ON r.run = m.run AND m.fact.member = r.reader""",
            by="readers",
        ),
        "failover": f"""WITH led AS {_LED}, span AS {_SPAN},
first AS (SELECT t.run, t.topic, t.partition, max_by(t.leader, t.ns) AS leader FROM truth t
    JOIN span s ON t.run = s.run AND t.ns <= s.injected_ns GROUP BY t.run, t.topic, t.partition)
SELECT f.run, led.described AS topic, led.led, count(t.s) AS moved, count(*) AS partitions,
    round(max(t.s), 2) AS failover_s
FROM first f JOIN led ON f.run = led.run AND f.topic = led.topic AND f.partition = led.partition
LEFT JOIN (SELECT t.run, t.topic, t.partition, (min(t.ns) - max(s.injected_ns)) / 1e9 AS s FROM truth t
    JOIN span s ON t.run = s.run AND t.ns > s.injected_ns
    JOIN first f ON t.run = f.run AND t.topic = f.topic AND t.partition = f.partition
    WHERE t.leader >= 0 AND t.leader <> f.leader GROUP BY t.run, t.topic, t.partition) t
    ON f.run = t.run AND f.topic = t.topic AND f.partition = t.partition
GROUP BY f.run, led.described, led.led""",
        "recovery": f"""SELECT run, round((heal_ns - injected_ns) / 1e9, 2) AS fault_s,
    round((recovered_ns - heal_ns) / 1e9, 2) AS recovery_s FROM {_SPAN}""",
        "busy": f"""WITH span AS {_SPAN}
SELECT s.run, cast(round(avg(m.busy)) AS int) AS busy_percent FROM span s
JOIN machine m ON m.run = s.run AND m.ns BETWEEN s.injected_ns AND coalesce(s.recovered_ns, s.end_ns)
GROUP BY s.run""",
        "operator": """SELECT run, text AS action FROM marks WHERE name = 'operator' ORDER BY run, ns""",
    }
)
"""By name, in Spark SQL."""


def measure(session: SparkSession, runs: Sequence[Path]) -> Measures:
    """The measures of judged runs. Raises BadDataError for a damaged run."""
    with settings_for_small_data(session):
        _register(session, runs)
        measures = {
            name: [row.asDict() for row in session.sql(text).collect()] for name, text in QUERIES.items()
        }
    rows = [row for run in runs for row in promised(name_of(run), run, open_source(history_of(run)))]
    return {**measures, PROMISED: rows}


def name_of(run: Path) -> str:
    """How the column `run` names a run folder."""
    resolved = run.resolve()
    return f"{resolved.parent.name}/{resolved.name}"


def _register(session: SparkSession, runs: Sequence[Path]) -> None:
    """The tables that the queries use, over all runs, as `acked sql` has them.

    They are read here and handed to Spark as rows: it would take longer to open the files of every run than
    to query them.
    """
    sources = {name_of(run): open_source(history_of(run)) for run in runs}
    tables = {
        table: pa.concat_tables(
            _of_run(read_small(source, table).cast(TABLES[table].arrow()), run)
            for run, source in sources.items()
        )
        for table in _TABLES
    }
    for table, schema in (("life", LIFE), ("findings", FINDING)):
        tables[table] = pa.concat_tables(
            _of_run(pq.read_table(run / f"{table}.parquet", schema=schema), name_of(run)) for run in runs
        )
    for table, rows in tables.items():
        as_rows(session, rows).createOrReplaceTempView(table)
    truth = session.sql(views("run")["truth"]).toArrow()
    as_rows(session, truth).createOrReplaceTempView("truth")


def _of_run(rows: pa.Table, run: str) -> pa.Table:
    return rows.append_column("run", pa.array([run] * rows.num_rows, pa.string()))

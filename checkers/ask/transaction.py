"""The story of one transaction: its messages, the end that was asked for and reported, markers, and readers.

A transaction is one row of `transaction_fates`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from checkers.ask.sql import history_of, judged_life
from checkers.evidence import Evidence, broker_events, gather
from checkers.records import CauseWords
from checkers.spark.reader_views import readable_since
from checkers.spark.views import register, table_frame
from checkers.tables.output import FINDING, TRANSACTION_TABLES, ddl
from checkers.tables.source import Source, open_source
from harness.errors import UsageError
from harness.history.time_zero import TimeZero, in_seconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PREFIX = "txn:"
"""Begins the name of a transaction: `txn:WRITER/NUMBER`."""
_SHOWN = 20
"""At most this many messages of a transaction are shown one by one."""

StoryEvent = tuple[int, str]
"""Time in ns, and what happened."""


class StoryLine(NamedTuple):
    """A line of a story; `str` has it in one piece."""

    lead: str
    """When it was, or what the text is about; empty in the first line."""
    text: str

    def __str__(self) -> str:
        return self.lead + self.text

    @classmethod
    def at(cls, seconds: float, text: str) -> StoryLine:
        """What happened so long after time zero."""
        return cls(f"{in_seconds(seconds, 3):>12}  ", text)

    @classmethod
    def zero(cls, zero: TimeZero) -> StoryLine:
        """What times count from."""
        began = f"the first fault, `{zero.fault}`, began" if zero.fault else "the history began"
        return cls.about("at 0 s", began)

    @classmethod
    def about(cls, subject: str, text: str) -> StoryLine:
        """What became of the message or transaction, and why."""
        return cls(f"{subject:>13}  ", text)


IN_THE_END, CAUSE = "in the end", "cause"


def transaction_story(
    session: SparkSession, run_dir: Path | str, name: str, cause_of: CauseWords
) -> list[StoryLine]:
    """Lines that say what happened to the transaction ``name`` (`txn:WRITER/NUMBER`).

    Raises UsageError when the run has no such transaction, BadDataError when it has not been judged.
    """
    folder = Path(run_dir)
    writer, number = _parsed(name)
    fates = _output(session, folder, "transaction_fates").filter(f"writer = {writer} AND txn = {number}")
    fate_rows = [row.asDict() for row in fates.collect()]
    if not fate_rows:
        raise UsageError(f"{folder} has no transaction {name!r}; the table transaction_fates lists them.")
    fate = fate_rows[0]
    source = open_source(history_of(folder))
    evidence = gather(source)
    records = _rows(
        _output(session, folder, "transaction_records").filter(f"writer = {writer} AND txn = {number}")
    )
    records.sort(key=lambda row: int(row["seq"]))
    own = list(_own_events(session, source, evidence, folder, fate))
    end = max((ns for ns, _ in own), default=0)
    begin = min((ns for ns, _ in own), default=0)
    around = [event for event in _around(evidence) if begin <= event[0] <= end]
    zero_ns = evidence.zero.ns or begin
    name = f"Transaction {number} of {fate['writer_name'] or f'writer {writer}'}" + (
        f" (transactional.id {fate['transactional_id']})" if fate["transactional_id"] else ""
    )
    endings = [_ending(row) for row in records[:_SHOWN]]
    if len(records) > _SHOWN:
        endings.append(f"({len(records) - _SHOWN} more messages)")
    return [
        StoryLine(
            "", f"{name}: reported as {fate['reported']}, {fate['visible'] or 'nothing'} of it readable"
        ),
        StoryLine.zero(evidence.zero),
        *(StoryLine.at((ns - zero_ns) / 1e9, text) for ns, text in sorted([*own, *around])),
        *(StoryLine.about(IN_THE_END, text) for text in endings),
        StoryLine.about(CAUSE, _cause(session, folder, fate, cause_of)),
    ]


def _parsed(name: str) -> tuple[int, int]:
    writer, slash, number = name.removeprefix(PREFIX).partition("/")
    if not (slash and writer.isdecimal() and number.isdecimal() and len(writer) < 10 and len(number) < 19):
        raise UsageError(
            f"{name!r} names no transaction; give {PREFIX}WRITER/NUMBER, for example {PREFIX}3/12."
        )
    return int(writer), int(number)


def _output(session: SparkSession, folder: Path, table: str) -> DataFrame:
    path = folder / f"{table}.parquet"
    judged_life(folder)
    schema = ddl(TRANSACTION_TABLES[table])
    if not path.exists():
        return session.createDataFrame([], schema)
    return session.read.schema(schema).parquet(str(path))


def _own_events(
    session: SparkSession, source: Source, evidence: Evidence, folder: Path, fate: Mapping[str, Any]
) -> Iterator[StoryEvent]:
    """What happened to the transaction and its messages, up to their readers."""
    texts = {
        "begin": "it began",
        "committing": "the application asked to commit",
        "aborting": "the application asked to abort",
        "committed": "reported to the application: committed",
        "aborted": "reported to the application: aborted",
        "unknown": "nothing was reported to the application",
    }
    for row in evidence.rows("transactions"):
        if (row["writer"], row["txn"]) == (fate["writer"], fate["txn"]):
            error = f" (error {row['error']})" if row["error"] else ""
            yield row["ns"], texts.get(row["event"], str(row["event"])) + error
    yield from _given_ids(evidence, fate)
    yield from offset_events(evidence, fate)
    yield from _readable(session, source, folder, fate)
    condition = f"writer = {fate['writer']} AND txn = {fate['txn']}"
    sends = _rows(table_frame(session, source, "sends").filter(condition).orderBy("seq").limit(_SHOWN))
    names = {}
    for row in sends:
        label = f" ({row['label']})" if row["label"] else ""
        names[row["seq"]] = f"message {row['writer']}/{row['seq']}{label}"
        yield row["sent_ns"], f"{names[row['seq']]} sent to {row['topic']}/{row['partition']}"
        if row["done_ns"] is not None:
            at = f" at offset {row['offset']}" if row["offset"] is not None else ""
            reported = {"ok": f"acknowledged{at}", "fail": "refused"}.get(row["outcome"], "outcome unknown")
            yield row["done_ns"], f"{names[row['seq']]} {reported}"
    if not names:
        return
    seqs = ", ".join(str(seq) for seq in names)
    reads = table_frame(session, source, "reads").filter(f"writer = {fate['writer']} AND seq IN ({seqs})")
    for row in _rows(reads):
        level = f" ({row['isolation']})" if row["isolation"] else ""
        place = f"to reader {row['reader']}{level} at offset {row['offset']}"
        yield row["ns"], f"{names[row['seq']]} handed {place}"


def _given_ids(evidence: Evidence, fate: Mapping[str, Any]) -> Iterator[StoryEvent]:
    """When another producer with the same transactional id was given a producer id, from its beginning on."""
    since_ns = fate["begin_ns"]
    for row in evidence.rows("producer_ids"):
        writer = evidence.writers.get(row["writer"], {})
        same = fate["transactional_id"] and writer.get("transactional_id") == fate["transactional_id"]
        if same and row["writer"] != fate["writer"] and since_ns is not None and row["ns"] >= since_ns:
            name = writer["name"] or f"writer {row['writer']}"
            text = f"was refused a producer id (error {row['error']})" if row["error"] else "fenced it"
            yield row["ns"], f"{name}, with the same transactional id, {text}"


def _readable(
    session: SparkSession, source: Source, folder: Path, fate: Mapping[str, Any]
) -> Iterator[StoryEvent]:
    """When replicas let readers of committed records have what it wrote to each partition."""
    if not source.rows("watermarks"):
        return
    register(session, source, ["readable_since"])
    for table in ("transaction_fates", "transaction_records"):
        _output(session, folder, table).createOrReplaceTempView(table)
    of_transaction = f"writer = {fate['writer']} AND txn = {fate['txn']} AND first_ns IS NOT NULL"
    for row in _rows(session.sql(f"SELECT * FROM ({readable_since()}) WHERE {of_transaction}")):
        leads = ", which leads it" if row["leader"] == row["broker"] else ""
        place = f"{row['topic']}/{row['partition']}"
        yield (
            row["first_ns"],
            f"{place} readable up to offset {row['offset']} on broker{row['broker']}{leads}",
        )
        if row["since_ns"] not in (None, row["first_ns"]):
            yield row["since_ns"], f"{place} readable again on broker{row['broker']}"


def offset_events(evidence: Evidence, fate: Mapping[str, Any]) -> Iterator[StoryEvent]:
    """The offsets of groups that were added to the transaction, and their outcomes."""
    ends = {
        "sent": "handed to it",
        "committed": "committed",
        "commit_failed": "not known to be committed",
    }
    for row in evidence.rows("groups"):
        if (row["txn_writer"], row["txn"]) == (fate["writer"], fate["txn"]) and row["event"] in ends:
            error = f" (error {row['error']})" if row["error"] else ""
            what = f"offset {row['offset']} of {row['topic']}/{row['partition']} for group {row['group']}"
            yield row["ns"], f"{what} {ends[row['event']]}{error}"


def _around(evidence: Evidence) -> Iterator[StoryEvent]:
    """Faults, and the starts and ends of brokers."""
    for row in evidence.rows("faults"):
        if row["moment"] in ("injected", "healed"):
            yield row["ns"], f"fault `{row['name']}` {row['moment']}"
    for ns, host, event in broker_events(evidence):
        yield ns, f"{host} {event}"


def _ending(record: Mapping[str, Any]) -> str:
    place = f"{record['topic']}/{record['partition']}"
    where = f"{place} at offset {record['offset']}" if record["offset"] is not None else f"not in {place}"
    text = f"message {record['writer']}/{record['seq']} {where}: {record['state']}"
    if record["marker_offset"] is None:
        return text
    coordinator = record["coordinator_epoch"]
    return (
        f"{text}, decided by the {record['marker'] or 'marker'} at offset {record['marker_offset']} "
        f"(producer epoch {record['marker_epoch']}, coordinator epoch "
        f"{'unknown' if coordinator is None else coordinator})"
    )


def _cause(
    session: SparkSession,
    folder: Path,
    fate: Mapping[str, Any],
    cause_of: CauseWords,
) -> str:
    if fate["finding"] is None:
        return "nothing went wrong with it"
    findings = session.read.schema(ddl(FINDING)).parquet(str(folder / "findings.parquet"))
    chosen = findings.filter(f"writer = {fate['writer']} AND txn = {fate['txn']}")
    rows = _rows(chosen.filter(f"class = '{fate['finding']}'").limit(1))
    cause = cause_of(rows[0]) if rows else ""
    return f"{fate['finding'].replace('_', ' ')}: {cause or 'not known'}"


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]

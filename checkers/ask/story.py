"""The story of one message: sent, acknowledged, where it appeared and vanished, and why.

A run holds hundreds of events; the story keeps those that can explain the message. For the time before the
send, it keeps only the state at the send: each node's latest view, the faults in force, and the latest mark.
It ends with the last event of the message itself if that settles its fate.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from checkers.ask.sql import history_of, judged_life
from checkers.ask.transaction import CAUSE, IN_THE_END, PREFIX, StoryEvent, StoryLine, transaction_story
from checkers.evidence import Evidence, broker_events, gather
from checkers.partition.fate import BENIGN
from checkers.partition.messages import FOREVER
from checkers.records import CauseWords
from checkers.spark.views import table_frame
from checkers.tables.output import LIFE, ddl
from checkers.tables.source import Source, open_source
from harness.errors import UsageError, quoted
from harness.history.imports.lines import MAX_INT
from harness.kafka.model import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def story(session: SparkSession, run_dir: Path | str, message: str, cause_of: CauseWords) -> list[StoryLine]:
    """Lines that say what happened to ``message``: its label, `writer/seq`, or `topic/label`.

    ``cause_of`` makes a sentence of the cause in a row of `life` or `findings`; empty: the row has none.

    `txn:WRITER/NUMBER` names a transaction. Raises UsageError when the run has no such message, or several.
    """
    if message.encode(errors="ignore").decode() != message:  # half a surrogate pair, which no text holds
        raise UsageError(f"{quoted(message)} names no message; give its label, or writer/seq.")
    if message.startswith(PREFIX):
        return transaction_story(session, run_dir, message, cause_of)
    folder = Path(run_dir)
    source = open_source(history_of(folder))
    evidence = gather(source)
    life = _find(session, folder, message)
    removed: list[int] = []
    own = list(_own_events(session, source, life, removed))
    marks = [
        _ReportedEvent(row["ns"], f"— {row['text'] or row['name']}", "mark")
        for row in _rows(table_frame(session, source, "marks"))
    ]
    others = [*_other_events(evidence, life), *marks]
    last = max(ns for ns, _ in own) if life["fate"] in BENIGN or removed else None  # its fate is settled
    shown, later = _relevant(others, since=life["sent_ns"], until=last)
    events = [*own, *shown]
    zero_ns = evidence.zero.ns or life["sent_ns"]
    name = f"{life['writer']}/{life['seq']}" + (f" ({life['label']})" if life["label"] else "")
    fate = life["fate"].replace("_", " ")
    where = f"{life['topic']}/{life['partition']}"
    unrelated = f"({later} later events are not about this message)"
    return [
        StoryLine("", f"Message {name} of {life['writer_name'] or 'an unnamed writer'} to {where}: {fate}"),
        StoryLine.zero(evidence.zero),
        *(StoryLine.at((ns - zero_ns) / 1e9, text) for ns, text in sorted(events)),
        *([StoryLine.about("", unrelated)] if later else []),
        StoryLine.about(IN_THE_END, _ending(life, _read_replicas(evidence, life))),
        StoryLine.about(CAUSE, cause_of(life) or _without_cause(life)),
    ]


class _ReportedEvent(NamedTuple):
    """An event that may explain a fate."""

    ns: int
    text: str
    subject: str = ""
    """The thing whose state it reports: a newer event replaces an earlier one. Empty: it reports none."""
    over: bool = False
    """The thing is over, so that it has no state from now on."""


def _relevant(
    events: Iterable[_ReportedEvent], *, since: int, until: int | None
) -> tuple[list[StoryEvent], int]:
    """The events from ``since`` to ``until`` with the state at ``since``, and how many come later."""
    state: dict[str, StoryEvent] = {}
    shown: list[StoryEvent] = []
    later = 0
    for ns, text, subject, over in sorted(events):
        if ns < since:
            if subject:
                state.pop(subject, None)
            if subject and not over:
                state[subject] = (ns, text)
        elif until is not None and ns > until:
            later += 1
        else:
            shown.append((ns, text))
    return [*state.values(), *shown], later


def _find(session: SparkSession, folder: Path, message: str) -> Mapping[str, Any]:
    path = judged_life(folder)
    life = session.read.schema(ddl(LIFE)).parquet(str(path))
    chosen = life.filter(_is_called(message)).orderBy("topic", "partition", "writer", "seq")
    matches = _rows(chosen.limit(6))
    if not matches:
        raise UsageError(f"{folder} has no message {quoted(message)}; give its label, or writer/seq.")
    if len(matches) > 1:
        names = ", ".join(f"{row['writer']}/{row['seq']} in {row['topic']}" for row in matches)
        raise UsageError(f"Several messages are called {quoted(message)} ({names}); give one as writer/seq.")
    return matches[0]


def _is_called(message: str) -> Column:
    """Condition on `life`: the message has this name."""
    from pyspark.sql import functions as f

    head, slash, tail = message.rpartition("/")
    if not slash:
        return f.col("label") == message
    if not (head.isdecimal() and tail.isdecimal()):
        return (f.col("topic") == head) & (f.col("label") == tail)
    if _exceeds(head, MAX_INT) or _exceeds(tail, FOREVER):
        return f.lit(False)
    return (f.col("writer") == int(head)) & (f.col("seq") == int(tail))


def _exceeds(digits: str, limit: int) -> bool:
    """Whether a number exceeds a column's type. Python refuses to convert very long numbers."""
    return len(digits.lstrip("0")) > len(str(limit)) or int(digits) > limit


def _own_events(
    session: SparkSession, source: Source, life: Mapping[str, Any], removed: list[int]
) -> Iterator[StoryEvent]:
    """What happened to the message itself; adds to ``removed`` when a copy of it vanished from a log."""
    at = f" at offset {life['offset']}" if life["offset"] is not None else ""
    acks = {-1: "all", None: "unknown"}.get(life["acks"], life["acks"])
    yield life["sent_ns"], f"sent with acks={acks} from {life['host'] or life['az'] or 'an unknown host'}"
    if life["done_ns"] is not None:
        error = f" (error {life['error']})" if life["error"] else ""
        outcomes = {
            "ok": _acknowledged(life, at),
            "fail": f"refused{error}",
            "info": f"outcome unknown{error}{at}",
        }
        yield life["done_ns"], outcomes[life["outcome"]]
    for row in _rows(_of_message(table_frame(session, source, "sightings"), life)):
        where = f"broker{row['broker']} at offset {row['offset']}, epoch {row['epoch']}"
        yield row["seen_ns"], f"seen on {where}"
        if row["gone_ns"] is not None:
            removed.append(row["gone_ns"])
            yield row["gone_ns"], f"gone from {where}"
    for row in _rows(_of_message(table_frame(session, source, "reads"), life)):
        by = f" by broker{row['broker']}" if row["broker"] is not None else ""
        yield row["ns"], f"received by reader {row['reader']} at offset {row['offset']}{by}"


def _acknowledged(life: Mapping[str, Any], at: str) -> str:
    """A producer with acks=0 counts a message as acknowledged once it is sent; no broker has answered."""
    if life["acks"] == 0:
        return "taken as acknowledged: with acks=0 no broker answers"
    by = f" by broker{life['acked_by']}" if life["acked_by"] is not None else ""
    return f"acknowledged{by}{at}"


def _of_message(frame: DataFrame, life: Mapping[str, Any]) -> DataFrame:
    for name in ("topic", "partition", "writer", "seq"):
        frame = frame.filter(frame[name] == life[name])
    return frame


def _other_events(evidence: Evidence, life: Mapping[str, Any]) -> Iterator[_ReportedEvent]:
    """Events that may explain its fate: those of its partition, of every broker, and every fault."""
    place = (life["topic"], life["partition"])
    for row in evidence.rows("faults"):
        if row["moment"] in ("injected", "healing", "healed"):
            moment = {"healing": "is being healed"}.get(row["moment"], row["moment"])
            over = row["moment"] == "healed"
            yield _ReportedEvent(row["ns"], f"fault `{row['name']}` {moment}", f"fault {row['fault']}", over)
    for row in evidence.rows("log_events"):
        if (row["topic"], row["partition"]) == place:
            offset = f" to offset {row['offset']}" if row["offset"] is not None else ""
            yield _ReportedEvent(row["ns"], f"{row['host']} logged: {row['kind'].replace('_', ' ')}{offset}")
    for ns, host, event in broker_events(evidence):
        yield _ReportedEvent(ns, f"{host} {event}", f"process {host}")
    latest: dict[str, tuple[Any, ...]] = {}
    for row in sorted(evidence.rows("views"), key=lambda row: int(row["ns"])):
        if row["subject"] == "partition" and (row["topic"], row["partition"]) == place:
            view = (row["leader"], row["epoch"], tuple(row["isr"] or ()))
            if latest.get(row["source"]) != view:
                latest[row["source"]] = view
                isr = json.dumps(list(view[2]))
                text = f"{row['source']} says: leader {view[0]}, epoch {view[1]}, in sync {isr}"
                yield _ReportedEvent(row["ns"], text, f"view of {row['source']}")


def _read_replicas(evidence: Evidence, life: Mapping[str, Any]) -> list[int]:
    """The brokers whose log of the message's partition was read."""
    rows = evidence.rows_about("replicas", TopicPartition(life["topic"], life["partition"]))
    return [row["broker"] for row in rows]


def _ending(life: Mapping[str, Any], read: Sequence[int]) -> str:
    """Where it is; ``read`` are the brokers whose log was read."""
    if life["replicas"]:
        where = ", ".join(f"broker{number}" for number in life["replicas"])
        copies = f" ({life['copies']} times)" if (life["copies"] or 0) > 1 else ""
        return f"on {where} at offset {life['found_offset']}, epoch {life['found_epoch']}{copies}"
    other = f"; its offset now holds {life['overwritten_by']}" if life["overwritten_by"] else ""
    last = f"; last seen on broker{life['last_broker']}" if life["last_broker"] is not None else ""
    if len(read) == 1:
        return f"not on broker{read[0]}, the only replica that was read{last}{other}"
    return f"on no replica{last}{other}"


def _without_cause(life: Mapping[str, Any]) -> str:
    return "nothing went wrong with it" if life["fate"] in BENIGN else "not known: too little evidence"


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]

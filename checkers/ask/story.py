"""The story of one message: sent, acknowledged, where it appeared and vanished, and what took it away."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from checkers.ask.sql import history_of
from checkers.evidence import Evidence, gather
from checkers.spark.views import table_frame
from checkers.tables.source import open_source
from harness.errors import BadDataError, UsageError


def story(session: Any, run_dir: Path | str, message: str) -> list[str]:
    """Lines that tell what happened to ``message``: its label, `writer/seq`, or `topic/label`.

    Raises UsageError when no message of the run is called so, or several are.
    """
    folder = Path(run_dir)
    source = open_source(history_of(folder))
    evidence = gather(source)
    life = _find(session, folder, message)
    events = [*_own(session, source, life), *_around(evidence, life)]
    marks = [
        (row["ns"], f"— {row['text'] or row['name']}") for row in _rows(table_frame(session, source, "marks"))
    ]
    start_ns = evidence.start_ns or life["sent_ns"]
    last = max((ns for ns, _ in events), default=life["sent_ns"])
    events += [(ns, text) for ns, text in marks if ns <= last]
    name = f"{life['writer']}/{life['seq']}" + (f" ({life['label']})" if life["label"] else "")
    lines = [
        f"Message {name} of {life['writer_name'] or 'an unnamed writer'} "
        f"to {life['topic']}/{life['partition']}: {life['fate'].replace('_', ' ')}"
    ]
    lines += [f"{(ns - start_ns) / 1e9:10.3f} s  {text}" for ns, text in sorted(events)]
    lines.append(f"   in the end  {_ending(life)}")
    lines.append(f"        cause  {life['cause'] or _no_cause(life)}")
    return lines


def _rows(frame: Any) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]


def _find(session: Any, folder: Path, message: str) -> dict[str, Any]:
    from pyspark.sql import functions as f

    from checkers.tables.output import LIFE, ddl

    path = folder / "life.parquet"
    if not path.exists():
        raise BadDataError(f"{folder} has not been judged yet (no life.parquet); run `acked check {folder}`.")
    life = session.read.schema(ddl(LIFE)).parquet(str(path))
    head, slash, tail = message.rpartition("/")
    if not slash:
        chosen = life.filter(f.col("label") == message)
    elif head.isdigit() and tail.isdigit():
        chosen = life.filter((f.col("writer") == int(head)) & (f.col("seq") == int(tail)))
    else:
        chosen = life.filter((f.col("topic") == head) & (f.col("label") == tail))
    found = _rows(chosen.orderBy("topic", "partition", "writer", "seq").limit(6))
    if not found:
        raise UsageError(f"No message of {folder} is called {message!r}; say its label, or writer/seq.")
    if len(found) > 1:
        names = ", ".join(f"{row['writer']}/{row['seq']} in {row['topic']}" for row in found)
        raise UsageError(f"Several messages are called {message!r} ({names}); say which, as writer/seq.")
    return found[0]


def _own(session: Any, source: Any, life: dict[str, Any]) -> Iterable[tuple[int, str]]:
    at = f" at offset {life['offset']}" if life["offset"] is not None else ""
    acks = {-1: "all", None: "unknown"}.get(life["acks"], life["acks"])
    yield life["sent_ns"], f"sent with acks={acks} from {life['host'] or life['az'] or 'somewhere'}"
    if life["done_ns"] is not None:
        by = f" by broker{life['acked_by']}" if life["acked_by"] is not None else ""
        error = f" (error {life['error']})" if life["error"] else ""
        told = {
            "ok": f"acknowledged{by}{at}",
            "fail": f"refused{error}",
            "info": f"outcome unknown{error}{at}",
        }
        yield life["done_ns"], told[life["outcome"]]
    mine = f"topic = '{life['topic']}' and partition = {life['partition']} and writer = {life['writer']}"
    mine += f" and seq = {life['seq']}"
    for row in _rows(table_frame(session, source, "sightings").filter(mine)):
        where = f"broker{row['broker']} at offset {row['offset']}, epoch {row['epoch']}"
        yield row["seen_ns"], f"seen on {where}"
        if row["gone_ns"] is not None:
            yield row["gone_ns"], f"gone from {where}"
    for row in _rows(table_frame(session, source, "reads").filter(mine)):
        yield (
            row["ns"],
            f"handed to reader {row['reader']} at offset {row['offset']} by broker{row['broker']}",
        )


def _around(evidence: Evidence, life: dict[str, Any]) -> Iterable[tuple[int, str]]:
    """Events that can have to do with it: of its partition, of brokers that had it, and every fault."""
    place = (life["topic"], life["partition"])
    for row in evidence.rows("faults"):
        if row["moment"] in ("injected", "healed"):
            yield row["ns"], f"fault `{row['name']}` {row['moment']}"
    for row in evidence.rows("log_events"):
        if (row["topic"], row["partition"]) == place:
            offset = f" to offset {row['offset']}" if row["offset"] is not None else ""
            yield row["ns"], f"{row['host']} logged: {row['kind'].replace('_', ' ')}{offset}"
    for row in evidence.rows("processes"):
        if str(row["host"]).startswith("broker") and row["event"] in ("killed", "exited", "ready", "paused"):
            yield row["ns"], f"{row['host']} {row['event']}"
    told: dict[str, tuple[Any, ...]] = {}
    for row in sorted(evidence.rows("views"), key=lambda row: int(row["ns"])):
        if row["subject"] == "partition" and (row["topic"], row["partition"]) == place:
            said = (row["leader"], row["epoch"], tuple(row["isr"] or ()))
            if told.get(row["source"]) != said:
                told[row["source"]] = said
                isr = json.dumps(list(said[2]))
                yield row["ns"], f"{row['source']} says: leader {said[0]}, epoch {said[1]}, in sync {isr}"


def _ending(life: dict[str, Any]) -> str:
    if life["replicas"]:
        where = ", ".join(f"broker{number}" for number in life["replicas"])
        copies = f" ({life['copies']} times)" if (life["copies"] or 0) > 1 else ""
        return f"on {where} at offset {life['found_offset']}, epoch {life['found_epoch']}{copies}"
    other = f"; its offset now holds {life['overwritten_by']}" if life["overwritten_by"] else ""
    last = f"; last seen on broker{life['last_broker']}" if life["last_broker"] is not None else ""
    return f"on no replica{last}{other}"


def _no_cause(life: dict[str, Any]) -> str:
    if life["fate"] in ("kept", "failed", "unknown_kept", "unknown_dropped"):
        return "nothing went wrong with it"
    return "the evidence does not suffice to say"

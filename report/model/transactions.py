"""Transactions by their reported outcome and their visibility, and the stories of some of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from report.model.beliefs import ToSeconds
from report.model.judged import transaction_name
from report.model.model import Fault, Mark, Story, StoryEvent, TransactionGroup
from report.model.stories import marks_and_faults, thinned
from report.model.tables import Row, RunTables
from report.words.causes import cause_of

SHOWN = 12
"""At most this many transactions with a finding have their story in the model."""
WITHOUT_FINDING = 3
"""Number of stories if no transaction has a finding."""
MESSAGES = 8
"""At most this many messages of a transaction are in its story."""
_FATES = (
    *("writer", "txn", "writer_name", "transactional_id", "asked", "reported", "visible", "messages"),
    *("finding", "begin_ns"),
)
_RECORDS = (
    *("topic", "partition", "writer", "seq", "txn", "offset", "state", "marker", "marker_offset"),
    "marker_epoch",
)
_COORDINATOR = "coordinator"
_REPORTED = {"committed": "reported: committed", "aborted": "reported: aborted"}


class RunTransactions:
    """The transactions of one run."""

    def __init__(self, tables: RunTables) -> None:
        """A run without transactions has none of their tables."""
        self._tables = tables
        self._fates = tables.table("transaction_fates", _FATES)

    def groups(self) -> tuple[TransactionGroup, ...]:
        """Counts of transactions by reported outcome and visibility; those with a finding first."""
        if not self._fates.num_rows:
            return ()
        keys = ["reported", "visible", "finding"]
        counted = self._fates.group_by(keys, use_threads=False).aggregate([([], "count_all")]).to_pylist()
        groups = [
            TransactionGroup(
                reported=row["reported"] or "unknown",
                visible=row["visible"] or "nothing to read",
                finding=row["finding"] or "",
                count=row["count_all"],
            )
            for row in counted
        ]
        return tuple(sorted(groups, key=lambda one: (not one.finding, -one.count, one.reported, one.visible)))

    def stories(
        self, findings: pa.Table, seconds: ToSeconds, *, faults: Sequence[Fault], marks: Sequence[Mark]
    ) -> tuple[Story, ...]:
        """The stories of transactions that have a finding; if none has, those of the first transactions."""
        chosen = self._chosen()
        if not chosen:
            return ()
        keys = {(row["writer"], row["txn"]) for row in chosen}
        causes = _causes(findings, keys)
        records = _grouped(_of(self._tables.table("transaction_records", _RECORDS), keys))
        events = _grouped(_of(self._tables.table("transactions"), keys))
        sends = _grouped(_of(self._tables.table("sends"), keys))
        writers = {row["writer"]: row for row in self._tables.rows("writers", ["writer", "host", "az"])}
        seqs = {(row["writer"], row["seq"]) for rows in sends.values() for row in rows[:MESSAGES]}
        reads = self._reads(seqs)
        stories = []
        for fate in chosen:
            key = fate["writer"], fate["txn"]
            writer = writers.get(fate["writer"], {})
            client = writer.get("host") or writer.get("az") or "client"
            story_events = _StoryEvents(client, seconds)
            story_events.ends(events.get(key, ()))
            story_events.messages(sends.get(key, ())[:MESSAGES], reads)
            story_events.seen(self._markers(records.get(key, ())))
            story_events.seen(self._readable(records.get(key, ()), fate["begin_ns"] or 0))
            stories.append(story_events.story(fate, causes.get(key, ""), faults, marks))
        return tuple(stories)

    def _chosen(self) -> list[Row]:
        if not self._fates.num_rows:
            return []
        marked = self._fates.filter(pc.is_valid(self._fates["finding"]))
        table = marked.slice(0, SHOWN) if marked.num_rows else self._fates.slice(0, WITHOUT_FINDING)
        rows: list[Row] = table.to_pylist()
        return sorted(rows, key=lambda row: (row["writer"], row["txn"]))

    def _reads(self, seqs: set[tuple[int, int]]) -> list[Row]:
        table = self._tables.table(
            "reads", ["reader", "ns", "offset", "writer", "seq", "broker", "isolation"]
        )
        writers = pa.array(sorted({writer for writer, _ in seqs}), table["writer"].type)
        rows = table.filter(pc.is_in(table["writer"], writers)).to_pylist()
        return [row for row in rows if (row["writer"], row["seq"]) in seqs]

    def _markers(self, records: Sequence[Row]) -> list[tuple[int, str, str]]:
        """When and where each marker that decided one of these records was first seen, and its kind."""
        markers = []
        places = {
            (row["topic"], row["partition"], row["marker_offset"]): row
            for row in records
            if row["marker_offset"] is not None
        }
        for (topic, partition, offset), row in places.items():
            seen = [
                one
                for one in self._tables.rows("sightings", None, (topic, partition))
                if one["offset"] == offset and one["writer"] is None
            ]
            if seen:
                first = min(seen, key=lambda one: int(one["seen_ns"]))
                text = f"{row['marker'] or 'end'} marker at offset {offset} of {topic}/{partition}"
                markers.append((int(first["seen_ns"]), f"broker{first['broker']}", text))
        return markers

    def _readable(self, records: Sequence[Row], begin_ns: int) -> list[tuple[int, str, str]]:
        """When each replica's last stable offset passed what the transaction committed in a partition."""
        ends: dict[tuple[str, int], int] = {}
        for row in records:
            if row["state"] in ("readable", "blocked"):
                place = row["topic"], row["partition"]
                ends[place] = max(row["offset"], ends.get(place, -1))
        readable: dict[tuple[str, int, int], tuple[int, str, str]] = {}
        for (topic, partition), offset in ends.items():
            columns = ("ns", "topic", "partition", "broker", "last_stable_offset")
            for row in self._tables.rows("watermarks", columns, (topic, partition)):
                stable, key = row["last_stable_offset"], (topic, partition, row["broker"])
                if stable is not None and stable > offset and row["ns"] >= begin_ns and key not in readable:
                    text = f"{topic}/{partition} readable up to offset {offset}"
                    readable[key] = row["ns"], f"broker{row['broker']}", text
        return list(readable.values())


class _StoryEvents:
    """The events of one story, in the order in which they are found."""

    def __init__(self, client: str, seconds: ToSeconds) -> None:
        self._client, self._seconds = client, seconds
        self._events: list[StoryEvent] = []

    def ends(self, rows: Iterable[Row]) -> None:
        """The application's requests to its coordinator, and the answers."""
        for row in rows:
            s, event = self._seconds(row["ns"]), row["event"]
            error = f" (error {row['error']})" if row["error"] else ""
            if event == "begin":
                self._events.append(
                    StoryEvent(s=s, kind="begin", source=self._client, target="", text="begins")
                )
            elif event in ("committing", "aborting"):
                asks = "asks to commit" if event == "committing" else "asks to abort"
                self._events.append(
                    StoryEvent(s=s, kind="send", source=self._client, target=_COORDINATOR, text=asks)
                )
            elif event in _REPORTED:
                self._events.append(
                    StoryEvent(
                        s=s,
                        kind="ack",
                        source=_COORDINATOR,
                        target=self._client,
                        text=_REPORTED[event] + error,
                    )
                )
            else:
                self._events.append(
                    StoryEvent(
                        s=s,
                        kind="unknown",
                        source=_COORDINATOR,
                        target=self._client,
                        text=f"outcome unknown{error}",
                    )
                )

    def messages(self, sends: Iterable[Row], reads: Sequence[Row]) -> None:
        """The messages, from the send to the readers."""
        for row in sends:
            name = row["label"] or f"{row['writer']}/{row['seq']}"
            broker = "" if row["broker"] is None else f"broker{row['broker']}"
            place = f"{row['topic']}/{row['partition']}"
            self._events.append(
                StoryEvent(
                    s=self._seconds(row["sent_ns"]),
                    kind="send",
                    source=self._client,
                    target=broker,
                    text=f"{name} to {place}",
                )
            )
            if row["done_ns"] is not None:
                at = "" if row["offset"] is None else f" at offset {row['offset']}"
                error = f" (error {row['error']})" if row["error"] else ""
                kind, text = {
                    "ok": ("ack", f"{name} acknowledged{at}"),
                    "fail": ("refused", f"{name} refused"),
                }.get(row["outcome"], ("unknown", f"{name}: outcome unknown"))
                self._events.append(
                    StoryEvent(
                        s=self._seconds(row["done_ns"]),
                        kind=kind,
                        source=broker,
                        target=self._client,
                        text=text + error,
                    )
                )
            for read in reads:
                if (read["writer"], read["seq"]) == (row["writer"], row["seq"]):
                    source = "" if read["broker"] is None else f"broker{read['broker']}"
                    self._events.append(
                        StoryEvent(
                            s=self._seconds(read["ns"]),
                            kind="read",
                            source=source,
                            target=f"reader {read['reader']}",
                            text=f"{name} read at offset {read['offset']}",
                        )
                    )

    def seen(self, sightings: Iterable[tuple[int, str, str]]) -> None:
        """On replicas: the markers that decided its messages, and when these became readable."""
        self._events += [
            StoryEvent(s=self._seconds(ns), kind="logged", source=broker, target="", text=text)
            for ns, broker, text in sightings
        ]

    def story(self, fate: Row, cause: str, faults: Sequence[Fault], marks: Sequence[Mark]) -> Story:
        """The story, with the faults and marks between its first and its last event."""
        own = self._events
        first = min((event.s for event in own), default=0.0)
        last = max((event.s for event in own), default=0.0)
        met = [
            fault for fault in faults if fault.from_s <= last and (fault.to_s is None or fault.to_s >= first)
        ]
        around = marks_and_faults(marks, met)
        shown = [event for event in around if event.s <= last and (event.kind == "fault" or event.s >= first)]
        nodes = dict.fromkeys(
            node for event in own for node in (event.source, event.target) if node not in ("", self._client)
        )
        brokers = sorted(name for name in nodes if name.startswith("broker"))
        readers = [name for name in nodes if name.startswith("reader")]
        asked = [_COORDINATOR] * (_COORDINATOR in nodes)
        name = fate["writer_name"] or fate["transactional_id"] or ""
        visible = {"all": "all of it", "part": "a part of it", "none": "nothing of it"}
        return Story(
            message=transaction_name(fate["writer"], fate["txn"]),
            label=name,
            place=f"{fate['messages']} message{'s' * (fate['messages'] != 1)}",
            fate=fate["finding"] or fate["reported"],
            cause=cause or "nothing went wrong with it",
            ending=f"reported as {fate['reported']}, "
            f"{visible.get(fate['visible'] or '', 'not known how much of it')} can be read",
            columns=(self._client, *asked, *brokers, *readers),
            events=tuple(thinned((*own, *shown))),
        )


def _of(table: pa.Table, keys: set[tuple[int, int]]) -> list[Row]:
    """The rows of these transactions."""
    if not table.num_rows:
        return []
    writers = pa.array(sorted({writer for writer, _ in keys}), table["writer"].type)
    transactional = table.filter(pc.and_(pc.is_in(table["writer"], writers), pc.is_valid(table["txn"])))
    rows: list[Row] = transactional.to_pylist()
    return [row for row in rows if (row["writer"], row["txn"]) in keys]


def _grouped(rows: Iterable[Row]) -> dict[tuple[int, int], list[Row]]:
    by_transaction: dict[tuple[int, int], list[Row]] = {}
    for row in rows:
        by_transaction.setdefault((row["writer"], row["txn"]), []).append(row)
    return by_transaction


def _causes(findings: pa.Table, keys: set[tuple[int, int]]) -> Mapping[tuple[int, int], str]:
    if "txn" not in findings.column_names:
        return {}
    return {
        (row["writer"], row["txn"]): f"{row['class'].replace('_', ' ')}: {cause_of(row) or 'not known'}"
        for row in _of(findings, keys)
    }

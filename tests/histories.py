"""Small histories, written operation by operation as folders that the checker reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.history.schema import TABLES

Row = Mapping[str, Any]
SPAN = 100
"""How many numbers of writers and of readers each of several histories has, if they are put together."""


@dataclass
class History:
    """Rows by table. `send` and `log` fill in values that do not matter to a test."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, table: str, **row: Any) -> History:
        """One row, as it is."""
        self.rows.setdefault(table, []).append(row)
        return self

    def send(
        self, seq: int, outcome: str | None = "ok", offset: int | None = None, writer: int = 1, **more: Any
    ) -> History:
        """One send of message ``seq``; it lasts half a microsecond."""
        row = {"topic": "t", "partition": 0, "writer": writer, "seq": seq, "sent_ns": seq * 1000}
        row |= {
            "outcome": outcome,
            "offset": offset,
            "done_ns": None if outcome is None else seq * 1000 + 500,
        }
        return self.add("sends", **row | more)

    def log(self, broker: int, records: Iterable[tuple[int, int | None] | Row], **more: Any) -> History:
        """One replica's final log: (offset, seq) of writer 1, or whole rows."""
        for record in records:
            row: dict[str, Any] = {"topic": "t", "partition": 0, "broker": broker, "epoch": 0, "writer": 1}
            if isinstance(record, tuple):
                row |= {"offset": record[0], "seq": record[1]}
                if record[1] is None:
                    row["writer"] = None
            else:
                row |= record
            self.add("copies", **row | more)
        return self

    def logs(self, records: Iterable[tuple[int, int | None] | Row], **more: Any) -> History:
        """The same log on brokers 1, 2 and 3."""
        told = list(records)
        for broker in (1, 2, 3):
            self.log(broker, told, **more)
        return self

    def replica(self, broker: int, complete: bool = True, **more: Any) -> History:
        """What is known of one replica at the end."""
        row = {"topic": "t", "partition": 0, "broker": broker, "complete": complete}
        return self.add("replicas", **row | more)

    def read(self, offset: int, seq: int | None, at: int, reader: int = 1, **more: Any) -> History:
        """One record that a reader received."""
        row = {"topic": "t", "partition": 0, "reader": reader, "ns": at, "offset": offset, "seq": seq}
        row["writer"] = None if seq is None else 1
        return self.add("reads", **row | more)

    def write(self, folder: Path) -> Path:
        """Write the tables as Parquet; `sends` and `copies` always."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in {"sends", "copies", *self.rows}:
            table = pa.Table.from_pylist(self.rows.get(name, []), schema=TABLES[name].arrow())
            pq.write_table(table, folder / f"{name}.parquet")
        return folder


def apart(name: str, number: int, history: History) -> History:
    """The same history with a topic, and with writers, readers, groups and ids, that no other number has.

    Producer ids stay: they decide within a partition. Writers and readers must be below `SPAN`.
    """
    found = History()
    for table, rows in history.rows.items():
        for row in rows:
            changed = dict(row)
            if changed.get("topic") is not None:
                changed["topic"] = name if changed["topic"] == "t" else f"{name}-{changed['topic']}"
            if changed.get("home") is not None:
                topic, _, partition = changed["home"].rpartition("/")
                changed["home"] = f"{name if topic == 't' else f'{name}-{topic}'}/{partition}"
            if table == "transaction_states" and changed.get("partitions"):
                places = (place.rpartition("/") for place in changed["partitions"].split(","))
                changed["partitions"] = ",".join(
                    f"{name if topic == 't' else f'{name}-{topic}'}/{partition}"
                    for topic, _, partition in places
                )
            for key in ("writer", "reader", "txn_writer", "fault"):
                if changed.get(key) is not None:
                    assert changed[key] < SPAN, f"{key} {changed[key]} of {name}"
                    changed[key] += SPAN * number
            for key in ("group", "transactional_id"):
                if changed.get(key) is not None:
                    changed[key] += name
            found.add(table, **changed)
    return found


def joined(histories: Iterable[History]) -> History:
    """The rows of several histories as one."""
    found = History()
    for history in histories:
        for table, rows in history.rows.items():
            found.rows.setdefault(table, []).extend(rows)
    return found


def together(cases: Mapping[str, History], folder: Path) -> Path:
    """Several histories in one folder, each as a separate topic with separate writers."""
    return joined(apart(name, number, one) for number, (name, one) in enumerate(cases.items())).write(folder)

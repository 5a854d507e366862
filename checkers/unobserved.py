"""What a run should have observed and did not, as clauses for people, and the claims that depend on it.

Pure Python, importable without Spark or Arrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from checkers.claims.citations import Citation

Row = Mapping[str, Any]
"""A row of `unobserved`."""

OBSERVED_BY: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "tail": frozenset(("sightings", "watermarks", "last_broker", "last_offset", "last_epoch", "gone_ns")),
        "reader": frozenset(("reads",)),
        "read_back": frozenset(("reads",)),
        "share_states": frozenset(("share_states",)),
    }
)
"""Tables, and columns of `life`, that hold what each source observes."""

SEEN_LATE = "the observer saw parts of replicas' logs late or never"
_LOGS_SHOWN = 3
_WHO: Mapping[str, str] = MappingProxyType(
    {
        "tail": SEEN_LATE,
        "reader": "the consumer that reads all the time did not receive all records",
        "read_back": "the consumer that reads all partitions at the end did not receive all records",
        "share_states": "what share coordinators have stored was not read at the end",
    }
)


def clauses(rows: Iterable[Row]) -> Iterator[str]:
    """A clause for each source, with the ranges of at most three logs."""
    ranges: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        log = f"{row['topic']}/{row['partition']}"
        if row["broker"] is not None:
            log += f" on broker{row['broker']}"
        ranges.setdefault(row["source"], {}).setdefault(log, []).append(row)
    for source, logs in sorted(ranges.items()):
        named = [f"{log}, {_offsets(missed)}" for log, missed in list(sorted(logs.items()))[:_LOGS_SHOWN]]
        more = f"; and {len(logs) - _LOGS_SHOWN} more" if len(logs) > _LOGS_SHOWN else ""
        who = _WHO.get(source, f"{source} did not observe everything")
        yield f"{who} ({'; '.join(named)}{more})"


def _offsets(rows: Sequence[Row]) -> str:
    """The offsets of some ranges of one log; `to_offset` is the offset after the last one."""
    begins = [row["from_offset"] for row in rows if row["from_offset"] is not None]
    ends = [row["to_offset"] for row in rows if row["to_offset"] is not None]
    times = f" in {len(rows)} ranges" if len(rows) > 1 else ""
    if not begins:
        return f"offsets not known{times}"
    if len(ends) < len(rows):
        return f"from offset {min(begins)}{times}"
    return f"offsets {min(begins)} to {max(max(begins), max(ends) - 1)}{times}"


def needed(rows: Iterable[Row], words: Set[str], about: Citation) -> tuple[Row, ...]:
    """The rows on which a claim depends whose queries have these ``words``.

    A claim that says which partitions, brokers and times it is ``about`` depends on no other row.
    """
    return tuple(
        row
        for row in rows
        if words & OBSERVED_BY.get(row["source"], frozenset())
        and _in_time(row, about)
        and _in_place(row, about)
    )


def _in_time(row: Row, about: Citation) -> bool:
    """Whether a row takes a claim's window away: what was observed late matters where its edge lies between.

    Such a claim asks what was there at a moment, and the records may have been there already.
    """
    since = row["since_ns"]
    begins = since is not None and about.from_ns is not None and since < about.from_ns <= row["ns"]
    if row["late"]:
        return begins or (about.to_ns is not None and (since is None or since <= about.to_ns < row["ns"]))
    return (about.to_ns is None or since is None or since <= about.to_ns) and (
        about.from_ns is None or row["ns"] >= about.from_ns
    )


def _in_place(row: Row, about: Citation) -> bool:
    if about.partitions and f"{row['topic']}/{row['partition']}" not in about.partitions:
        return False
    brokers = [source for source in about.sources if source.startswith("broker")]
    return not brokers or row["broker"] is None or f"broker{row['broker']}" in brokers


def decisive(rows: Iterable[Row], *, watched: bool) -> tuple[Row, ...]:
    """The rows without which nobody knows that nothing is wrong.

    The final logs decide what is lost. But what readers may have received, and what was committed in a
    ``watched`` topic, only observation shows.
    """
    return tuple(row for row in rows if row["source"] != "tail" or (watched and not row["late"]))

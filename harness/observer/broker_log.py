"""Events in the logs of brokers and controllers, as rows of `log_events`.

The wording is that of Kafka 0.10 to 4.x; the layout is log4j's `%d{ISO8601} %p %m (%c{1})%n`.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.clock import Anchor
from harness.lab.host_clock import Shifts

MOST_ERRORS = 500
"""How many errors to keep per host; a failing broker logs the same error over and over."""

_LINE = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)[,.](\d{3}) (TRACE|DEBUG|INFO|WARN|ERROR|FATAL) (.*)")
_NAME = r"(?P<topic>[\w.-]+)-(?P<partition>\d+)"
_DELETION_REPLAYED = r"Replayed RemoveTopicRecord for topic (?P<topic>[\w.-]+) with ID (?P<topic_id>[\w-]+)"
_OLD_NAME = r"\[(?P<topic>[\w.-]+),(?P<partition>\d+)\]"


@dataclass(frozen=True)
class _Rule:
    kind: str
    needle: str
    pattern: re.Pattern[str]


def _rule(kind: str, needle: str, pattern: str) -> _Rule:
    return _Rule(kind, needle, re.compile(pattern))


_RULES = (
    _rule("truncated", "Truncating to offset", rf"partition={_NAME},.*Truncating to offset (?P<offset>\d+)"),
    _rule("truncated", "Truncating log", rf"Truncating log {_NAME} to offset (?P<offset>\d+)"),
    _rule("truncated", "Truncate fully", rf"partition={_NAME},.*start at offset (?P<offset>\d+)"),
    _rule(
        # A copy in another log directory (`ReplicaAlterLogDirsThread`) is not yet the replica.
        "truncated_to_hw",
        "high watermark",
        rf"^(?!.*\[ReplicaAlterLogDirsThread).*partition {_NAME} .*to local high watermark (?P<offset>\d+)",
    ),
    _rule("isr_shrinking", "Shrinking ISR", rf"Partition {_OLD_NAME}.*Shrinking ISR"),
    _rule("isr_shrinking", "Shrinking ISR", rf"(?:Partition {_NAME} .*)?Shrinking ISR"),
    _rule("isr_expanding", "Expanding ISR", rf"Partition {_OLD_NAME}.*Expanding ISR"),
    _rule("isr_expanding", "Expanding ISR", rf"(?:Partition {_NAME} .*)?Expanding ISR"),
    _rule("isr_updated", "ISR updated", rf"Partition {_NAME} .*ISR updated"),
    _rule(
        "became_leader",
        "starts at ",
        rf"Leader {_NAME}[ ,].*starts at leader epoch (?P<epoch>\d+) from offset (?P<offset>\d+)",
    ),
    _rule(
        "became_leader",
        "starts at Leader Epoch",
        rf"{_NAME} starts at Leader Epoch (?P<epoch>\d+) from offset (?P<offset>\d+)",
    ),
    _rule(
        "became_follower",
        "starts at ",
        rf"Follower {_NAME}[ ,].*starts at leader epoch (?P<epoch>\d+)(?: from offset (?P<offset>\d+))?",
    ),
    _rule("unclean_election", "UNCLEAN partition change", rf"UNCLEAN partition change for {_NAME}"),
    _rule(
        "unclean_election", "potential data loss", rf"(?:for (?:partition )?\[?{_NAME})?.*potential data loss"
    ),
    _rule(
        "segment_expired",
        "retention time",
        rf"partition={_NAME},.*Deleting segment LogSegment\(baseOffset=(?P<offset>\d+).*retention time",
    ),
    _rule(
        "segment_oversized",
        "retention size",
        rf"partition={_NAME},.*Deleting segment LogSegment\(baseOffset=(?P<offset>\d+).*retention size",
    ),
    _rule(
        "records_deleted",
        "client delete records request",
        rf"partition={_NAME},.*ncrement(?:ed|ing) log start offset to (?P<offset>\d+)",
    ),
    _rule(
        "log_start",
        "log start offset to",
        rf"partition={_NAME},.*ncrement(?:ed|ing) log start offset to (?P<offset>\d+)",
    ),
    _rule("topic_deleted", "successfully completed", r"Deletion of topic (?P<topic>[\w.-]+) successfully"),
    _rule("topic_deleted", "RemoveTopicRecord", _DELETION_REPLAYED),
    _rule("session_expired", "xpired", r"ZooKeeperClient.*\] Session expired\.|state changed \(Expired\)"),
    _rule("session_connected", "Session establishment complete", r"Session establishment complete on server"),
    _rule("resigned", "esign", r"\] Resigned \(|transition to Resigned"),
    _rule("resigned", "Renouncing", r"Renouncing the leadership"),
    _rule("offsets_expired", " expired offsets in ", r"Removed [1-9]\d* expired offsets in "),
    _rule("offsets_expired", "cleaning up group", r"Generated [1-9]\d* tombstone records while cleaning up"),
    _rule("resigned", "Did not receive fetch", r"Did not receive fetch request from the majority"),
)


def wall_clock(zone: dt.tzinfo | None = None) -> Callable[[str, str], int]:
    """A converter from log4j's date and milliseconds, written in ``zone`` (None: local), to wall ns."""
    ns_by_second: dict[str, int] = {}

    def convert(second: str, millisecond: str) -> int:
        if second not in ns_by_second:
            stamp = dt.datetime.fromisoformat(second)
            ns_by_second[second] = int(stamp.replace(tzinfo=zone).timestamp()) * 1_000_000_000
        return ns_by_second[second] + int(millisecond) * 1_000_000

    return convert


def parse_line(line: str) -> tuple[str, dict[str, object]] | None:
    """The kind of event that a line reports, with topic, partition, offset and epoch; None if none."""
    for rule in _RULES:
        if rule.needle in line:
            match = rule.pattern.search(line)
            if match:
                groups = match.groupdict()
                numbers = ("partition", "offset", "epoch")
                row: dict[str, object] = {k: int(groups[k]) for k in numbers if groups.get(k) is not None}
                if groups.get("topic"):
                    row["topic"] = groups["topic"]
                return rule.kind, row
    return None


def read_log(
    file: Path, host: str, anchor: Anchor, zone: dt.tzinfo | None = None
) -> Iterator[dict[str, object]]:
    """Rows of `log_events` from one host's log. Their times are the machine's, whatever the host's clock."""
    convert, errors, end = wall_clock(zone), 0, 0
    shifts = Shifts.read(file.parent)
    with file.open("rb") as lines:
        for written in lines:
            begin, end = end, end + len(written)
            line = written.decode(errors="replace")
            head = line[24:30]
            if head.startswith(("TRACE", "DEBUG")):
                continue
            serious = head.startswith(("ERROR", "FATAL"))
            event = parse_line(line)
            if event is None and not serious:
                continue
            match = _LINE.match(line)
            if match is None:
                continue
            second, millisecond, level, text = match.groups()
            if event is None:
                errors += 1
                if errors > MOST_ERRORS:
                    continue
                event = (level.lower(), {})
            kind, row = event
            at = anchor.monotonic_from_wall(shifts.true_ns(convert(second, millisecond), begin))
            yield {"ns": at, "host": host, "kind": kind, "text": text[:2000], **row}


def read_logs(nodes: Path, anchor: Anchor, zone: dt.tzinfo | None = None) -> list[dict[str, object]]:
    """Rows of `log_events` from the logs of all hosts of a run (`nodes/<host>/server.log`), by time."""
    events = [
        row
        for file in sorted(nodes.glob("*/server.log"))
        for row in read_log(file, file.parent.name, anchor, zone)
    ]
    return list(_without_replays(sorted(events, key=lambda row: int(str(row["ns"])))))


def _without_replays(events: Iterable[dict[str, object]]) -> Iterator[dict[str, object]]:
    """Each deletion of a topic once, from events by time.

    Every KRaft controller logs it when it replays the record of the deletion, and again whenever it starts.
    """
    deleted: set[str] = set()
    for row in events:
        replayed = re.search(_DELETION_REPLAYED, str(row["text"])) if row["kind"] == "topic_deleted" else None
        if replayed is not None:
            if replayed["topic_id"] in deleted:
                continue
            deleted.add(replayed["topic_id"])
        yield row

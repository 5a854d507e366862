"""What the details of a finding say, by its class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harness.errors import json_object
from harness.history.time_zero import in_seconds
from report.words.lists import by_broker, named_offset
from report.words.stored import REMEDY, worded

FindingRow = Mapping[str, Any]


def details_of(row: FindingRow) -> FindingRow:
    """The facts in the details of a row of findings. Raises BadDataError if they are no JSON object."""
    return json_object(row.get("detail") or "{}", "detail", REMEDY)


def detail_in_words(row: FindingRow) -> str:
    """What the details of a row of findings say; empty if it has none.

    Raises BadDataError if they are not those of this class.
    """
    name = str(row.get("class"))
    if name == "undetermined":
        return "the final read did not reach the end of every log that could hold them"
    facts = details_of(row)
    said = SENTENCES.get(name)
    if not facts or said is None:
        return ""
    with worded(f"detail of a finding {name}"):
        return said(facts, row)


_DIFFERENCES = {
    "other_record": "another record stands there",
    "other_epoch": "the same record, written in another leader epoch",
    "record_missing": "the record is missing there",
    "record_extra": "a record that the reference log does not have",
    "log_ends_earlier": "its log ends earlier",
    "log_begins_later": "its log begins later",
    "reference_ends_earlier": "the reference log ends earlier",
}


def _diverged(facts: FindingRow, _row: FindingRow) -> str:
    if facts["difference"] != "aborted_transactions":
        return _DIFFERENCES.get(facts["difference"], str(facts["difference"]))
    return (
        f"broker{facts['broker']} tells readers of committed records to leave out what producer id "
        f"{facts['producer_id']} wrote from offset {facts['offset']} on, and broker{facts['other_broker']} "
        "does not"
    )


def _truncated(facts: FindingRow, row: FindingRow) -> str:
    last, epoch = facts["last_offset"], facts.get("epoch_there")
    upto = f"up to the one at offset {last}, " if last != row.get("offset") else ""
    there = "nothing is there now" if epoch is None else f"what is there now is of leader epoch {epoch}"
    return f"{upto}committed before; {there}"


def _outside(facts: FindingRow, _row: FindingRow) -> str:
    return (
        f"committed offset {facts['offset']}; the log of broker{facts['broker']} begins at "
        f"{facts['log_start']} and ends at {facts['leo']}"
    )


def _exited(facts: FindingRow, _row: FindingRow) -> str:
    status = f" with status {facts['status']}" if "status" in facts else ""
    return f"{facts['host']} ended by itself{status}"


def _not_converged(facts: FindingRow, _row: FindingRow) -> str:
    ends = ", ".join(f"broker {one['broker']} to {one['leo']}" for one in facts["log_ends"])
    return f"not in the ISR at the end; logs reach: {ends}"


def _mismatch(facts: FindingRow, _row: FindingRow) -> str:
    key = facts["key"]
    return (
        f"{facts['scope']} {facts['name']}: {key}={facts['asked']} was asked for, "
        f"{key}={facts['value']} took effect"
    )


def _commit(facts: FindingRow, _row: FindingRow) -> str:
    return (
        f"offset {facts['acknowledged']} was acknowledged{by_broker(facts.get('acknowledged_by'))}, offset "
        f"{named_offset(facts.get('answered'))} answered{by_broker(facts.get('answered_by'))}"
    )


def _transaction(facts: FindingRow, row: FindingRow) -> str:
    reported = {"unknown": "nothing reported", "open": "never asked to end"}.get(
        facts["reported"], f"reported that it {facts['reported']}"
    )
    asked = f"asked to {facts['asked']}, " if facts.get("asked") else ""
    counts = ", ".join(f"{count} {name}" for name, count in facts["messages"].items())
    return f"transaction {row.get('txn')}: {asked}{reported}; messages: {counts}"


def _hung(facts: FindingRow, _row: FindingRow) -> str:
    return (
        f"open on broker{facts['broker']} from {in_seconds(facts['from_s'])} to "
        f"{in_seconds(facts['until_s'])} or longer, while {facts.get('transactional_id')} "
        f"(producer id {facts['producer_id']}) is {facts['state']} on broker{facts['coordinator']}"
    )


def _circle(facts: FindingRow, _row: FindingRow) -> str:
    did = {"read": "read", "wrote_after": "wrote after"}
    return "; ".join(
        f"{one['transaction']} {did[one['step']]} {one['other']} "
        f"({one['partition']} at offset {one['offset']})"
        for one in facts["steps"]
    )


def _shared(facts: FindingRow, _row: FindingRow) -> str:
    count = facts["deliveries"]
    readers = f" (reader {', '.join(map(str, facts['readers']))})" if facts["readers"] else ""
    return f"delivered {count} {'time' if count == 1 else 'times'}{readers}"


def _counted(facts: FindingRow, _row: FindingRow) -> str:
    word = f"`{facts['word']}` in the store of instance {facts['instance']}: " if "word" in facts else ""
    return f"{word}counted {facts['counted']} of {facts['messages']} in {facts['written_to']}"


SENTENCES: Mapping[str, Callable[[FindingRow, FindingRow], str]] = {
    "diverged": _diverged,
    "truncated": _truncated,
    "offset_outside": _outside,
    "misrouted": lambda facts, _: f"sent to {facts['sent_to']}",
    "process_exit": _exited,
    "server_error": lambda facts, _: f"{facts['host']} {facts['level'].upper()}: {facts['text']}",
    "not_converged": _not_converged,
    "config_mismatch": _mismatch,
    **dict.fromkeys(("commit_lost", "stale_offset", "offset_expired"), _commit),
    "double_ownership": lambda facts, _: (
        f"readers {facts['readers'][0]} and {facts['readers'][1]} owned it together for "
        f"{facts['seconds']:.1f} s"
    ),
    **dict.fromkeys(
        ("accept_lost", "not_delivered", "over_delivered", "held_twice", "lock_outlived", "archived"), _shared
    ),
    **dict.fromkeys(("not_counted", "counted_twice", "store_differs"), _counted),
    "group_stalled": lambda facts, _: f"nobody owned it for {facts['seconds']:.1f} s",
    "group_reset": lambda facts, _: (
        f"reader {facts['reader']} was to continue at offset {facts['position']}, and continued at "
        f"{facts['continued']}"
    ),
    **dict.fromkeys(
        ("lost_transaction", "torn_transaction", "hanging_transaction", "fenced_write_read", "aborted_read"),
        _transaction,
    ),
    "hung_transaction": _hung,
    "precommitted_read": lambda facts, _: (
        f"transaction {facts['reader']}: it read its own message before it had committed it"
    ),
    "circular_read": _circle,
}

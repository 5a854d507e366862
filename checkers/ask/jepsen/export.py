"""Exporting a stored history: from its tables to a file of operations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from checkers.ask.jepsen.columns import load, numbers
from checkers.ask.jepsen.faults import fault_ops
from checkers.ask.jepsen.form import EDN, JSON, POLL, Form, concat, write
from checkers.ask.jepsen.reads import Audit, assign_ops, final_ops, poll_ops
from checkers.ask.jepsen.sends import read_sends, read_transactions, send_ops
from checkers.ask.sql import history_of
from checkers.tables.source import open_source, partitions
from harness.errors import UsageError
from harness.plain_files import output_file

_FORMS: Mapping[str, Form] = {".edn": EDN, ".json": JSON}


@dataclass(frozen=True, kw_only=True)
class Export:
    """What was written, and which records were left out because the form cannot express them."""

    operations: int
    """Events: each operation is invoked and completed."""
    sends: int
    polls: int
    foreign: int
    """Records read that nobody sent."""
    misrouted: int
    """Records read from another topic partition than the one they were sent to."""
    aborted: int
    """Records of aborted transactions, in the final log or read by a reader of uncommitted records."""
    keys: Mapping[str, int] = field(default_factory=dict)
    """The integer key of each `topic/partition`."""


def export(run_dir: Path | str, target: Path, *, final_log: bool = True) -> Export:
    """Write the history of a run (or of an imported folder) to a `.edn` or `.json` file.

    Two exports of one history are equal, byte for byte. Raises UsageError when the file has another ending or
    cannot be written, BadDataError for a bad history.
    """
    form = _FORMS.get(target.suffix)
    if form is None:
        raise UsageError(f"{target} ends in {target.suffix or 'nothing'!r}; exports are .edn or .json files.")
    source = open_source(history_of(Path(run_dir)))
    places = sorted(partitions(source))
    keys = {(place.topic, place.partition): number for number, place in enumerate(places)}
    transactions = read_transactions(source)
    sends = read_sends(source, keys, transactions)
    reads, groups = load(source, "reads"), load(source, "groups")
    columns = [sends.sent_ns, sends.done_ns, numbers(reads, "ns"), numbers(groups, "ns")]
    times = [int(column.max()) for column in columns if len(column)]
    end_ns = 1 + max([*times, *(transaction.end_ns for transaction in transactions.values())], default=0)
    audit = Audit(sends)
    parts = [*send_ops(sends, transactions, end_ns, form), *assign_ops(groups, reads, keys, form)]
    parts.append(poll_ops(reads, keys, audit, form))
    if final_log and keys:
        parts += final_ops(source, keys, audit, end_ns, form)
    faults, functions = fault_ops(source)
    ops = concat([*parts, faults])
    del parts  # the texts are large
    try:
        with output_file(target, "--to") as out:
            operations = write(ops, out, form, functions)
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror}.") from error
    return Export(
        operations=operations,
        sends=len(sends.key),
        polls=int((ops.function == POLL).sum()),
        foreign=audit.foreign,
        misrouted=audit.misrouted,
        aborted=audit.aborted,
        keys={f"{topic}/{partition}": key for (topic, partition), key in keys.items()},
    )

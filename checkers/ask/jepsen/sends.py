"""Messages and transactions as `:send` operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.ask.jepsen.columns import (
    MAX_WRITER,
    UNKNOWN,
    Keys,
    array,
    keys_of,
    load,
    numbers,
    values_of,
)
from checkers.ask.jepsen.form import (
    FAIL,
    INFO,
    OK,
    OPERATION_KINDS,
    SEND,
    Form,
    Longs,
    Operations,
    operations,
    text,
)
from checkers.partition.messages import Flags
from checkers.tables.source import Source
from harness.errors import BadDataError
from harness.history.imports.jepsen import WRITER_STEP


@dataclass(frozen=True, kw_only=True)
class SentMessages:
    """The messages, column by column."""

    key: Longs
    value: Longs
    writer: Longs
    seq: Longs
    sent_ns: Longs
    done_ns: Longs
    """Not before `sent_ns`; -1 if it is not known."""
    kind: Longs
    """Index in `OPERATION_KINDS`; `info` without an outcome."""
    offset: Longs
    """-1 if it is not known."""
    error: Longs
    """0 if there was none."""
    txn: Longs
    """The number of the writer's transaction; -1 without one."""
    aborted: Flags


@dataclass(frozen=True, kw_only=True)
class Transaction:
    """The times and the outcome of one transaction."""

    begin_ns: int
    end_ns: int
    kind: int
    """Index in `OPERATION_KINDS`."""


TransactionsByKey = Mapping[tuple[int, int], Transaction]
"""By writer and number."""


def read_sends(source: Source, keys: Keys, transactions: TransactionsByKey) -> SentMessages:
    """The table `sends`. Raises BadDataError for a message that has no value."""
    rows = load(source, "sends")
    value = values_of(rows)
    for row in np.flatnonzero(value < 0)[:1].tolist():
        raise BadDataError(
            f"Message {rows['writer'][row]}/{rows['seq'][row]} cannot be exported: writers go up to "
            f"{MAX_WRITER}, and sequence numbers stay below {WRITER_STEP}."
        )
    sent, done = numbers(rows, "sent_ns"), numbers(rows, "done_ns")
    outcome = pc.index_in(rows["outcome"], pa.array(OPERATION_KINDS[:INFO], pa.string()))
    writer, txn = numbers(rows, "writer"), numbers(rows, "txn")
    aborted = np.zeros(len(writer), np.bool_)
    for row in np.flatnonzero(txn >= 0).tolist():
        transaction = transactions.get((int(writer[row]), int(txn[row])))
        aborted[row] = transaction is not None and transaction.kind == FAIL
    return SentMessages(
        key=keys_of(rows, keys),
        value=value,
        writer=writer,
        seq=numbers(rows, "seq"),
        sent_ns=sent,
        done_ns=np.where(done < 0, UNKNOWN, np.maximum(sent, done)),
        kind=array(pc.fill_null(outcome, INFO)),
        offset=numbers(rows, "offset"),
        error=numbers(rows, "error", 0),
        txn=txn,
        aborted=aborted,
    )


def read_transactions(source: Source) -> dict[tuple[int, int], Transaction]:
    """Transactions by writer and number; the last event decides, and without one the outcome is unknown."""
    kinds = {"committed": OK, "aborted": FAIL, "unknown": INFO}
    transactions: dict[tuple[int, int], Transaction] = {}
    for row in sorted(load(source, "transactions").to_pylist(), key=lambda row: int(row["ns"])):
        name = (row["writer"], row["txn"])
        earlier = transactions.get(name, Transaction(begin_ns=row["ns"], end_ns=row["ns"], kind=INFO))
        transactions[name] = Transaction(
            begin_ns=earlier.begin_ns, end_ns=row["ns"], kind=kinds.get(row["event"], earlier.kind)
        )
    return transactions


def send_ops(
    sends: SentMessages, transactions: TransactionsByKey, end_ns: int, form: Form
) -> list[Operations]:
    """One operation for each message, and one for the messages of a transaction.

    Two kinds of messages are left out of their transaction, because its outcome is not theirs: messages that
    failed, and messages with an unknown outcome whose transaction committed.
    """
    members: dict[tuple[int, int], list[int]] = {}
    alone = np.ones(len(sends.key), np.bool_)
    for row in np.flatnonzero((sends.txn >= 0) & (sends.kind != FAIL)).tolist():
        name = (int(sends.writer[row]), int(sends.txn[row]))
        kind = transactions[name].kind if name in transactions else INFO
        if kind != OK or sends.kind[row] == OK:
            members.setdefault(name, []).append(row)
            alone[row] = False
    invocation, completion = _send_texts(sends, sends.kind, form)
    single = np.flatnonzero(alone)
    done = sends.done_ns[single]
    parts = [
        operations(
            function=SEND,
            owner=sends.writer[single] * 2,
            kind=sends.kind[single],
            invoked_ns=sends.sent_ns[single],
            completed_ns=np.where(done < 0, end_ns, done),
            ranks=(0, 1),
            invocation=form.vector(invocation.take(pa.array(single))),
            completion=text(
                form.vector(completion.take(pa.array(single))),
                _errors(sends.error[single], sends.kind[single], form),
            ),
        )
    ]
    if members:
        parts.append(_transaction_ops(sends, transactions, members, end_ns, form))
    return parts


def _transaction_ops(
    sends: SentMessages,
    transactions: TransactionsByKey,
    members: Mapping[tuple[int, int], Sequence[int]],
    end_ns: int,
    form: Form,
) -> Operations:
    lasting = Transaction(begin_ns=end_ns, end_ns=end_ns, kind=INFO)
    ended = [transactions.get(name, lasting) for name in members]
    kind = np.array([transaction.kind for transaction in ended], np.int64)
    rows = [
        np.array(sorted(member_rows, key=lambda row: int(sends.seq[row]))) for member_rows in members.values()
    ]
    sizes = np.array([len(member_rows) for member_rows in rows], np.int64)
    starts, every = np.concatenate([[0], np.cumsum(sizes)]), np.concatenate(rows)
    begun = np.array([transaction.begin_ns for transaction in ended], np.int64)
    over = np.array(
        [end_ns if transaction.kind == INFO else transaction.end_ns for transaction in ended], np.int64
    )
    whole = SentMessages(**{name: column[every] for name, column in vars(sends).items()})
    invocation, completion = _send_texts(whole, np.repeat(kind, sizes), form)
    return operations(
        function=SEND,
        owner=np.array([writer for writer, _ in members], np.int64) * 2,
        kind=kind,
        invoked_ns=np.minimum(begun, np.minimum.reduceat(whole.sent_ns, starts[:-1])),
        completed_ns=np.maximum(over, np.maximum.reduceat(whole.done_ns, starts[:-1])),
        ranks=(0, 1),
        invocation=form.vectors(invocation, starts),
        completion=form.vectors(completion, starts),
    )


def _send_texts(sends: SentMessages, kind: Longs, form: Form) -> tuple[pa.Array, pa.Array]:
    """Each message as it is invoked, and as it is completed: with its offset, unless it failed."""
    send, key, value = form.quoted("send"), pa.array(sends.key), pa.array(sends.value)
    offset = pa.array(sends.offset).cast(pa.large_string())
    stored_offset = pc.if_else(pa.array(sends.offset >= 0), offset, pa.scalar(form.null, pa.large_string()))
    invocation = form.vector(send, key, value)
    completion = form.vector(send, key, form.vector(stored_offset, value))
    return invocation, pc.if_else(pa.array(kind == FAIL), invocation, completion)


def _errors(error: Longs, kind: Longs, form: Form) -> pa.Array:
    shown = text(form.field("error"), pa.array(error))
    return pc.if_else(pa.array((error != 0) & (kind != OK)), shown, pa.scalar("", pa.large_string()))

"""Judging the partitions of a run while it lasts: windows are closed, compared again, and deleted.

A window is closed as soon as the leader and the followers in its ISR hold a range of offsets. It is compared
again with every replica after a fault, and at the end; if one differs there that was equal before, or leads,
the windows from there on are opened and closed anew. Records are deleted (DeleteRecords) only once every
assigned replica was found equal by such a comparison; no later truncation can be seen below that offset.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from checkers.partition.decisions import MARKERS
from checkers.partition.fate import FATES
from checkers.partition.fates import decide, recognise
from checkers.partition.ledger import UNKNOWN_COORDINATOR, columns_of
from checkers.partition.logs import CopyArrays, PartitionReplicas, Replica, logs_of
from checkers.partition.messages import FAIL, NO_HOMES, KeyIndex, no_reads
from checkers.partition.rolling import RollingPartition, Window, no_sends
from checkers.tables.rows import nullable
from checkers.tables.transactions import producer_records
from checkers.transactions.answers import ABORTED
from harness.clock import now_ns
from harness.errors import BadDataError, LabError, UnfitError
from harness.history.schema import OUTCOMES, TABLES
from harness.kafka.model import Endpoint, PartitionState, TopicPartition
from harness.kafka.wire.admin import delete_records
from harness.kafka.wire.dialect import Dialect
from harness.waiting import wait_until
from run.soak import checkpoint
from run.soak.deliveries import Deliveries
from run.soak.memory import return_free_memory
from run.soak.replicas import ENDS_EARLIER, Batches, Replicas, copies_of
from run.soak.streams import Streams
from run.soak.transactions import Transactions

_READ_BYTES = 4 << 20
"""Bytes of a replica that are read at a time, and so of a window."""
_HELD_BYTES = 24 << 20
"""Bytes that are read together, of the replicas of one partition at least."""
_MOST_WAITING = 150_000
"""As many messages wait for windows before the judge takes only those for which a window waits: the journals
hold the others."""
_WINDOW_S = 2.0
"""How often a window is closed, if not because so much was read."""
_PATIENCE_S = 30.0
"""How long a window waits for messages to end that it holds. Those that have not are part of the rest."""
_MARGIN_BYTES = 4096
_EVERY_S = 0.5
_COMPARING_S = 0.25
"""How long windows are compared again before new ones are looked at."""
_LIVE_S = 5.0
"""How often the rest is judged."""
_AGAIN_S = 120.0
"""How often all is compared again if no fault calls for it."""
_FINISH_S = 120.0
_MOST_ROUNDS = 8


@dataclass(frozen=True, kw_only=True)
class Live:
    """What is known so far."""

    ended: int = 0
    """Messages that have ended, as far as the journals were read."""
    acknowledged: int = 0
    received: int = 0
    """Records that consumers have received."""
    judged: int = 0
    """Messages with a fate that only a change of the log can change."""
    lost: Mapping[int, int] = field(default_factory=dict)
    """By writer."""
    duplicated: Mapping[int, int] = field(default_factory=dict)
    rest: int = 0
    """Messages that memory holds."""
    lag_s: float = 0.0
    """Age of the oldest acknowledged message that no closed window has reached."""
    longest_gap_s: float = 0.0
    windows: int = 0
    reopened: int = 0
    """Windows that were opened again, as a replica had changed."""
    compared: int = 0
    """Windows of replicas that were compared again."""
    deleted: int = 0
    """Records that were judged and deleted."""
    transactions: Mapping[str, int] = field(default_factory=dict)
    """Transactions that have ended, by what their applications were told."""


class Pending(NamedTuple):
    """A record in the next window of a partition whose message has not been taken."""

    offset: int
    writer: int
    seq: int


@dataclass(kw_only=True)
class Part:
    """One topic partition under judgement."""

    key: TopicPartition
    rolling: RollingPartition
    assigned: tuple[int, ...]
    due_s: float = 0.0
    """When its next window may be closed, by the monotonic clock."""
    sighted: dict[int, int] = field(default_factory=dict)
    """By replica, the end of what was noted of it because no other held it."""
    apart: dict[int, int] = field(default_factory=dict)
    """By replica, how far it was read: to the judged offset while in the ISR, and on its own since."""
    blocked_s: float = 0.0
    """Since when it has waited for a message to end; 0: it does not."""
    pending: Pending | None = None
    """For which."""
    compared: dict[int, int] = field(default_factory=dict)
    """By broker, the offset below which the present comparison has looked."""
    goal: int = 0
    """The offset up to which it looks."""
    proved: int = 0
    """The offset below which the last comparison found all assigned replicas equal."""


class RollingJudge:
    """Judges some topic partitions in a thread of its own, from `start` to `finish`."""

    def __init__(
        self,
        *,
        assignment: Mapping[TopicPartition, tuple[int, ...]],
        streams: Streams,
        transactions: Transactions,
        deliveries: Deliveries,
        replicas: Replicas,
        state_of: Callable[[TopicPartition], PartitionState | None],
        endpoints: Mapping[int, Endpoint],
        dialect: Dialect,
        folder: Path,
        delete: bool = True,
        readers: int = 0,
        seen: Callable[[Live], None] = lambda live: None,
    ) -> None:
        """``state_of`` states leader and ISR; ``seen`` is told how things stand, about twice a second.

        No record is deleted that any of the ``readers`` of its partition may read yet. ``folder`` keeps what
        is known of records that were deleted.
        """
        self._folder = folder
        self._streams = streams
        self._transactions = transactions
        self._deliveries = deliveries
        self._readers = readers
        self._replicas = replicas
        self._state_of = state_of
        self._endpoints = endpoints
        self._dialect = dialect
        self._delete = delete
        self._seen = seen
        self.parts = {
            key: Part(key=key, rolling=RollingPartition(sent=streams.of(key)), assigned=tuple(brokers))
            for key, brokers in assignment.items()
        }
        self._wanted = threading.Event()
        self._sightings: list[pa.Table] = []
        self._stop = threading.Event()
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="rolling judge", daemon=True)
        self._again_s = time.monotonic() + _AGAIN_S
        self._judged_s = 0.0
        self._lost: Counter[int] = Counter()
        self._duplicated: Counter[int] = Counter()
        self._reopened = self._compared = self._deleted = 0
        self.live = Live()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """Stop without a judgement. Safe to call twice."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._replicas.close()

    def compare_again(self) -> None:
        """Compare all windows with every replica once more: a fault may have changed them."""
        self._wanted.set()

    def finish(self) -> None:
        """Judge what is left; no client runs any more. Raises LabError, WaitTimeoutError."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        if self._problem is not None:
            raise LabError(
                f"The rolling judgement failed: {type(self._problem).__name__}: {self._problem}."
            ) from self._problem
        self._streams.look()
        while self._take(all_of_it=True):
            pass
        for _ in range(_MOST_ROUNDS):
            self._close_to_the_end()
            if self._all_equal():
                break
        self._transactions.take()
        while self._deliveries.take(all_of_it=True):
            pass
        self._single_out()
        self._judge_rest(waiting=True)
        self._tell()

    def _close_to_the_end(self) -> None:
        """Close windows up to the end of every leader's log, however far that is, as long as some are closed.

        Raises WaitTimeoutError.
        """
        reached = [-1]

        def closed_or_went_on() -> tuple[bool, bool]:
            closed = self._closed_to_the_end()
            reached.append(sum(part.rolling.judged for part in self.parts.values()))
            return closed, reached[-1] > reached[-2]

        while not wait_until(
            closed_or_went_on,
            accept=any,
            within_s=_FINISH_S,
            awaiting="the leaders of all partitions to show more of their logs",
            poll_s=0.05,
        )[0]:
            self._tell()

    def _single_out(self) -> None:
        """Make what must be judged together with the rest part of it."""
        parts = {key: part.rolling for key, part in self.parts.items()}
        for rolling in parts.values():
            rolling.keep_ends()
        self._transactions.single_out(parts)
        self._deliveries.single_out(parts)
        self._transactions.single_out(parts)  # of what is about a delivery

    # ---- what it has found

    def settled(self) -> list[dict[str, object]]:
        """Messages that are settled, by writer, outcome and fate."""
        counts = Counter[tuple[int, str, str]]()
        for part in self.parts.values():
            for writer, count in part.rolling.settled.items():
                counts[writer, "ok", "kept"] += count
            for (writer, outcome), count in part.rolling.absent.items():
                fate = "failed" if outcome == FAIL else "unknown_dropped"
                counts[writer, OUTCOMES[outcome], fate] += count
        return [
            {"writer": writer, "outcome": outcome, "fate": fate, "count": count}
            for (writer, outcome, fate), count in sorted(counts.items())
            if count
        ]

    def sends(self) -> pa.Table:
        """The messages of the rest, as rows of `sends`."""
        return sends_of_rest(self._streams, (part.rolling for part in self.parts.values()))

    def copies(self) -> pa.Table:
        """The records of the rest, as rows of `copies`."""
        tables = [TABLES["copies"].arrow().empty_table()]
        for key, part in self.parts.items():
            for broker, log in sorted(part.rolling.rest(part.assigned).copies.items()):
                tables.append(rows_of_copies(key, broker, log, part.rolling))
        return pa.concat_tables(tables)

    def reads(self) -> pa.Table:
        """The deliveries that are judged one by one, as rows of `reads`."""
        return self._deliveries.table({key: part.rolling for key, part in self.parts.items()})

    def sightings(self) -> pa.Table:
        """Where messages of the rest once stood and do not any more, as rows of `sightings`."""
        schema = TABLES["sightings"].arrow()
        seen = pa.concat_tables([schema.empty_table(), *self._sightings])
        named = seen.filter(pc.and_(pc.is_valid(seen["writer"]), pc.is_valid(seen["seq"])))
        rest = self.sends().select(["topic", "partition", "writer", "seq"])
        return named.join(rest, keys=rest.column_names, join_type="left semi").select(schema.names)

    def end(self, key: TopicPartition, broker: int) -> int | None:
        """Where a replica ends: the judged offset where it holds all of it; None if it does not."""
        rolling = self.parts[key].rolling
        whole = all(broker in window.equal or broker in window.records for window in rolling.windows)
        if not whole:
            return None
        if not rolling.windows or broker in rolling.windows[-1].equal:
            return rolling.judged
        log = rolling.rest([broker]).copies.get(broker)
        return int(log.offset[-1]) + 1 if log is not None and len(log.offset) else rolling.judged

    # ---- the thread

    def _run(self) -> None:
        closing = False
        try:
            while not self._stop.is_set():
                began = time.monotonic()
                self._streams.look()
                busy = self._take_some(closing=closing)
                self._transactions.take()
                busy |= self._deliveries.take()
                self._follow_apart()
                closing = self._close_windows(final=False)
                busy |= closing
                if self._wanted.is_set() or time.monotonic() >= self._again_s:
                    self._wanted.clear()
                    self._begin_comparison()
                busy |= self._compare(time.monotonic() + _COMPARING_S)
                self._delete_records()
                if began >= self._judged_s + _LIVE_S:
                    self._judge_rest()
                    return_free_memory()
                    self._judged_s = began
                self._tell()
                self._stop.wait(0.0 if busy else max(0.0, began + _EVERY_S - time.monotonic()))
        except BaseException as error:  # noqa: BLE001 - raised again by `finish`
            self._problem = error

    def _take_some(self, *, closing: bool) -> bool:
        """Take messages, if not enough wait for windows. Returns whether there may be many more."""
        parts = self.parts.values()
        if sum(part.rolling.waiting for part in parts) <= _MOST_WAITING:
            return self._take()
        needed = {part.pending.writer for part in parts if part.pending is not None}
        if closing and not needed:
            return True
        return self._take(only=needed or None)

    def _take(self, *, only: Collection[int] | None = None, all_of_it: bool = False) -> bool:
        """Take messages that have ended; returns whether there may be many more."""
        found = self._streams.take(only=only, all_of_it=all_of_it)
        taken = dict(self._streams.taken)
        for key, part in self.parts.items():
            part.rolling.take(found.get(key, ()), taken)
        return bool(found) if all_of_it else self._streams.more

    def _close_windows(self, *, final: bool) -> bool:
        """Close a window of each partition where one is due; returns whether there may be more to close."""
        due = [part for part in self.parts.values() if final or self._due(part)]
        return any([self._close(part, read, final=final) for part, read in self._read(due)])

    def _due(self, part: Part) -> bool:
        """Whether its next window may be closed; if the journals hold more, as soon as nothing blocks it."""
        if time.monotonic() >= part.due_s:
            return True
        pending = part.pending
        return (
            pending is not None
            and self._streams.more
            and self._streams.taken.get(pending.writer, 0) > pending.seq
        )

    def _read(self, parts: Sequence[Part]) -> Iterator[tuple[Part, dict[int, Batches]]]:
        """Partitions, with what each replica holds behind the judged offset; few at a time are in memory."""
        most = max((len(part.assigned) for part in parts), default=1) * _READ_BYTES
        together = max(1, _HELD_BYTES // most)
        for first in range(0, len(parts), together):
            some = parts[first : first + together]
            wanted: dict[int, dict[TopicPartition, int]] = {}
            for part in some:
                for broker in part.assigned:
                    wanted.setdefault(broker, {})[part.key] = part.rolling.judged
            answers = self._replicas.read(wanted, _READ_BYTES)
            for part in some:
                yield part, answers.pop(part.key, {})

    def _close(self, part: Part, answers: Mapping[int, Batches], *, final: bool) -> bool:
        state, rolling = self._state_of(part.key), part.rolling
        if state is None or state.leader not in answers:
            return False
        low, leading = rolling.judged, answers[state.leader]
        if leading.beyond and not part.goal:
            self._compare_part(part)  # it was truncated
        if len(leading.which) and int(leading.rows["offset"][0]) != low:
            self._rewind(part, min(low, int(leading.rows["offset"][0])))
            return False
        in_sync = {broker for broker in answers if final or broker in (state.leader, *state.isr)}
        ends = leading.ends
        for broker in () if final else in_sync:
            reached = answers[broker].ends
            ends = ends[ends <= (int(reached[-1]) if len(reached) else low)]
        if not len(ends):
            if len(leading.which):  # its followers do not fetch, so another may lead soon
                self._sight(part, state.leader, leading.rows[:0], leading)
            return False
        high = int(ends[-1])
        reference = leading.between(low, high)
        records = reference.decoded(self._replicas.decoder)
        copies = copies_of(records, part.key)
        if not final and time.monotonic() < (part.blocked_s or time.monotonic()) + _PATIENCE_S:
            pending = self._first_pending(copies)
            if pending is not None:
                ends = ends[ends <= pending.offset]
                if not len(ends):
                    part.blocked_s, part.pending = part.blocked_s or time.monotonic(), pending
                    part.due_s = time.monotonic() + _WINDOW_S / 2
                    return False
                high = int(ends[-1])
                reference = leading.between(low, high)
                below = np.flatnonzero(copies.offset < high)
                copies, records = copies.take(below), records.take(pa.array(below))
        logs = {state.leader: copies}
        equal, digest = [], reference.digest
        for broker, read in answers.items():
            if broker == state.leader:
                continue
            theirs = read.between(low, high)
            if digest and theirs.digest == digest:
                equal.append(broker)
            elif broker in in_sync:
                logs[broker] = theirs.copies(self._replicas.decoder, part.key)
        producers = producer_records(records)
        rolling.close(high, state.leader, logs, equal, digest, reference.size_bytes, producers)
        much = leading.log.positions[-1] >= _READ_BYTES // 2
        part.blocked_s, part.pending = 0.0, None
        part.due_s = time.monotonic() + (0.0 if much else _WINDOW_S)
        return bool(much)

    def _follow_apart(self) -> None:
        """Note what replicas outside of the ISR hold and the leader does not.

        An old leader may go on acknowledging with acks=1, at offsets that the new one has long passed.
        """
        wanted: dict[int, dict[TopicPartition, int]] = {}
        leaders: dict[TopicPartition, int] = {}
        for key, part in self.parts.items():
            state = self._state_of(key)
            if state is None or state.leader < 0:
                continue
            for broker in part.assigned:
                if broker in (state.leader, *state.isr):
                    part.apart[broker] = part.rolling.judged
                else:
                    wanted.setdefault(broker, {})[key] = part.apart.get(broker, part.rolling.judged)
                    leaders[key] = state.leader
        read = self._replicas.read(wanted, _READ_BYTES) if wanted else {}
        asked: dict[int, dict[TopicPartition, int]] = {}
        for key, leader in leaders.items():
            starts = [wanted[broker][key] for broker, one in read.get(key, {}).items() if len(one.which)]
            if starts:
                asked.setdefault(leader, {})[key] = min(starts)
        leading = self._replicas.read(asked, _READ_BYTES) if asked else {}
        for key, leader in leaders.items():
            part, held = self.parts[key], leading.get(key, {}).get(leader)
            for broker, one in read.get(key, {}).items():
                if one.beyond:
                    part.apart[broker] = part.rolling.judged
                elif held is not None and len(one.which):
                    self._sight(part, broker, held.rows, one)
                    part.apart[broker] = int(one.ends.max())

    def _first_pending(self, copies: CopyArrays) -> Pending | None:
        """The first record whose message was not taken yet; None: all were.

        Its message may have ended, but one that its stream sent earlier has not.
        """
        first = None
        if not np.isin(copies.writer[copies.writer >= 0], list(self._streams.taken)).all():
            self._streams.look()  # a stream has begun since the pass did
        for writer, taken in self._streams.taken.items():
            pending = (copies.writer == writer) & (copies.seq >= taken) & copies.intact & copies.at_home
            if pending.any():
                place = int(np.argmax(pending))
                one = Pending(int(copies.offset[place]), writer, int(copies.seq[place]))
                first = one if first is None else min(first, one)
        return first

    def _sight(self, part: Part, broker: int, elsewhere: npt.NDArray[np.void], read: Batches) -> None:
        """Note what a replica holds that stands nowhere ``elsewhere``: it may go."""
        rows = read.rows
        other = ~np.isin(rows["digest"], elsewhere["digest"])
        other &= rows["next_offset"] > part.sighted.get(broker, -1)
        if other.any():
            which = read.which[other]
            copies = Batches(read.log, which).copies(self._replicas.decoder, part.key)
            part.sighted[broker] = int(rows["next_offset"][other][-1])
            self._sightings.append(_sightings(part.key, broker, copies))

    def _rewind(self, part: Part, offset: int) -> None:
        """Open the windows from an offset on; the replica that they were read from held what was in them."""
        before = len(part.rolling.windows)
        offset = max(offset, part.rolling.frozen)
        for window in part.rolling.windows:
            if window.high > offset:
                for held in part.rolling.records_of(window):
                    self._sightings.append(_sightings(part.key, window.broker, held))
        part.sighted.clear()
        part.rolling.rewind(offset)
        self._reopened += before - len(part.rolling.windows)
        part.compared = {broker: min(at, part.rolling.judged) for broker, at in part.compared.items()}
        part.goal = min(part.goal, part.rolling.judged)
        part.proved = min(part.proved, part.rolling.judged)

    # ---- comparing again

    def _begin_comparison(self) -> None:
        for part in self.parts.values():
            self._compare_part(part)
        self._again_s = time.monotonic() + _AGAIN_S

    def _compare_part(self, part: Part) -> None:
        part.compared = dict.fromkeys(part.assigned, part.rolling.frozen)
        part.goal = part.rolling.judged

    def _digests(self, part: Part, broker: int, windows: Sequence[Window]) -> Iterator[tuple[Window, int]]:
        """Adjacent windows, with a replica's digests of them (`Replicas.digests`), as far as it answers."""
        size = sum(window.size_bytes for window in windows) + _MARGIN_BYTES
        ranges = [(window.low, window.high) for window in windows]
        digests = self._replicas.digests(broker, part.key, ranges, min(_READ_BYTES, size))
        for window, digest in zip(windows, digests, strict=False):
            if digest is None:
                return
            self._compared += 1
            yield window, digest

    def _compare(self, until_s: float) -> bool:
        """Go on with the comparison; returns whether something is left that can be compared now."""
        for part in self.parts.values():
            for broker in part.assigned:
                while windows := self._next(part, broker):
                    if time.monotonic() >= until_s:
                        return True
                    if not self._compare_some(part, broker, windows):
                        break  # it does not answer, or has less; later
            done = min(part.compared.values(), default=0)
            if part.goal and done >= part.goal:
                part.proved = self._equal_below(part, done)
                part.goal = 0
        return False

    def _next(self, part: Part, broker: int) -> list[Window]:
        """The next windows to compare with a replica, together about what is read at a time."""
        at, size, chosen = part.compared.get(broker, part.goal), 0, list[Window]()
        for window in part.rolling.windows:
            if window.low >= at and window.high <= part.goal and (not chosen or size < _READ_BYTES):
                size += window.size_bytes
                chosen.append(window)
        return chosen

    def _compare_some(self, part: Part, broker: int, windows: Sequence[Window]) -> bool:
        """Compare windows with a replica. Returns False if that must wait."""
        compared = False
        for window, digest in self._digests(part, broker, windows):
            if digest == window.digest and digest > 0:
                part.rolling.confirm(broker, window)
            else:
                state = self._state_of(part.key)
                if broker in window.equal or (state is not None and state.leader == broker):
                    self._rewind(part, window.low)
                    return True
                if digest == ENDS_EARLIER:
                    return False
            part.compared[broker] = window.high
            compared = True
        return compared

    def _equal_below(self, part: Part, offset: int) -> int:
        """The offset below which all assigned replicas hold the same."""
        end = part.rolling.frozen
        for window in part.rolling.windows:
            if window.high > offset or not window.equal >= set(part.assigned):
                break
            end = window.high
        return max(end, part.rolling.frozen)

    def _delete_records(self) -> None:
        """Delete what was judged and compared again, once it is stored what was found in it."""
        done = {key: self._done_below(part) for key, part in self.parts.items()}
        due = [part for key, part in self.parts.items() if done[key] > part.rolling.frozen]
        before = {part.key: part.rolling.frozen for part in due}
        for part in due:
            part.rolling.merge(done[part.key])
        if not due or not self._delete:
            return
        self._store()
        for part in due:
            state = self._state_of(part.key)
            if state is None or state.leader not in self._endpoints:
                continue  # the next deletion reaches farther
            with suppress(OSError, UnfitError):
                leader = self._endpoints[state.leader]
                if delete_records(leader, part.key, done[part.key], dialect=self._dialect).error == 0:
                    self._deleted += done[part.key] - before[part.key]

    def _done_below(self, part: Part) -> int:
        """The end of the last window below which all was judged, compared, decided, and committed by readers.

        Of a window that was deleted in part, no replica could show the rest again.
        """
        below = min(part.proved, part.rolling.undecided)
        if self._readers:
            below = min(below, self._deliveries.committed(part.key, self._readers))
        return max((window.high for window in part.rolling.windows if window.high <= below), default=0)

    def _store(self) -> None:
        rolling = {key: part.rolling for key, part in self.parts.items()}
        checkpoint.save(self._folder, rolling, self._streams.taken)

    def restore(self) -> None:
        """Begin where the judgement of a run that was killed was stored last. Raises BadDataError."""
        self._streams.look()
        stored = checkpoint.load(self._folder)
        if stored is None:
            return
        states, taken = stored
        self._streams.go_on(taken)
        for key, state in states.items():
            if key not in self.parts:
                raise BadDataError(f"{self._folder / checkpoint.FILE} is about {key}, which the run has not.")
            self.parts[key].rolling.restore(state, taken)

    # ---- the end

    def _closed_to_the_end(self) -> bool:
        """Close windows; returns whether every leader's log is closed to its end."""
        if self._close_windows(final=True):
            return False
        for part, read in self._read(list(self.parts.values())):
            state = self._state_of(part.key)
            if state is None or state.leader not in read or len(read[state.leader].which):
                return False
        return True

    def _all_equal(self) -> bool:
        """Compare every window with every replica; if a difference is new, open those from there on."""
        settled = True
        for part in self.parts.values():
            state = self._state_of(part.key)
            for broker in part.assigned:
                windows = [one for one in part.rolling.windows if one.high > part.rolling.frozen]
                for window, digest in self._digests(part, broker, windows):
                    if digest == window.digest and digest > 0:
                        part.rolling.confirm(broker, window)
                        continue
                    known = broker in window.records and broker not in window.equal
                    if known or (state is not None and broker not in state.isr and broker != state.leader):
                        continue
                    self._rewind(part, window.low)
                    settled = False
                    break
        return settled

    # ---- how things stand

    def _judge_rest(self, *, waiting: bool = False) -> None:
        """Fates of the rest as they are now, by the kernel that decides them at the end.

        ``waiting``: also of messages that no window has reached.
        """
        self._lost, self._duplicated = Counter(), Counter()
        for part in self.parts.values():
            rolling = part.rolling
            rest = rolling.rest(part.assigned, waiting=waiting)
            if not len(rest.sends):
                continue
            told = self._transactions.reported(rest.sends.writer, rest.sends.seq)
            rest = replace(rest, sends=replace(rest.sends, aborted=told == ABORTED))
            leader = rolling.windows[-1].broker if rolling.windows else -1
            partition = PartitionReplicas(
                topic=part.key.topic,
                number=part.key.partition,
                replicas={leader: Replica(broker=leader, log_start=0, leader=True)},
                reference=leader,
                spans={},
            )
            index = KeyIndex(rest.sends.writer, rest.sends.seq, str(part.key))
            logs = logs_of(partition, index, rest.copies, NO_HOMES)
            logs = recognise(partition, rest.sends, logs, no_reads())
            fates = decide(partition, rest.sends, logs, no_reads())
            for name, counts in (("loss", self._lost), ("duplicated", self._duplicated)):
                codes = [
                    code
                    for code, fate in enumerate(FATES)
                    if (fate.loss if name == "loss" else fate.name == name)
                ]
                counts.update(rest.sends.writer[np.isin(fates.fate, codes)].tolist())

    def _tell(self) -> None:
        parts = self.parts.values()
        settled = sum(row["count"] for row in self.settled())  # type: ignore[misc]
        waiting = [ns for part in parts if (ns := part.rolling.oldest_ns)]
        rest = sum(len(part.rolling) for part in parts)
        self.live = Live(
            ended=self._streams.ended,
            acknowledged=self._streams.acknowledged,
            received=self._deliveries.received,
            judged=settled + rest,
            lost=dict(self._lost),
            duplicated=dict(self._duplicated),
            rest=rest,
            lag_s=max(0.0, (now_ns() - min(waiting)) / 1e9) if waiting else 0.0,
            longest_gap_s=self._streams.longest_gap_ns / 1e9,
            windows=sum(len(part.rolling.windows) for part in parts),
            reopened=self._reopened,
            compared=self._compared,
            deleted=self._deleted,
            transactions=dict(self._transactions.ended),
        )
        self._seen(self.live)


def _sightings(key: TopicPartition, broker: int, log: CopyArrays) -> pa.Table:
    schema, count = TABLES["sightings"].arrow(), len(log.offset)
    named = (log.writer >= 0) & (log.seq >= 0)
    columns = {
        "topic": pa.repeat(key.topic, count),
        "partition": pa.repeat(key.partition, count),
        "broker": pa.repeat(broker, count),
        "offset": pa.array(log.offset),
        "seen_ns": pa.repeat(now_ns(), count),
        "epoch": pa.array(log.epoch, mask=log.epoch < 0),
        "writer": pa.array(log.writer, mask=~named),
        "seq": pa.array(log.seq, mask=~named),
    }
    absent = {one.name: pa.nulls(count, one.type) for one in schema if one.name not in columns}
    return pa.table({**columns, **absent}).select(schema.names).cast(schema)


def sends_of_rest(streams: Streams, parts: Iterable[RollingPartition]) -> pa.Table:
    """The messages of the rest of some partitions, as rows of `sends`."""
    rests = [part.rest(()).sends for part in parts]
    writer = np.concatenate([no_sends().writer, *(rest.writer for rest in rests)])
    seq = np.concatenate([no_sends().seq, *(rest.seq for rest in rests)])
    order = np.lexsort((seq, writer))
    return streams.table(writer[order], seq[order])


def rows_of_copies(key: TopicPartition, broker: int, log: CopyArrays, rolling: RollingPartition) -> pa.Table:
    """Records of the rest of a partition on one of its replicas, as rows of `copies`."""
    schema, count = TABLES["copies"].arrow(), len(log.offset)
    named = (log.writer >= 0) & (log.seq >= 0)
    txn = rolling.transactions_in(log)
    writer = np.where(txn >= 0, log.writer, -1)
    said = columns_of(rolling.ledger, log.offset, writer, txn, log.control)
    written = said.producer >= 0
    columns = {
        "topic": pa.repeat(key.topic, count),
        "partition": pa.repeat(key.partition, count),
        "broker": pa.repeat(broker, count),
        "offset": pa.array(log.offset),
        "epoch": pa.array(log.epoch, mask=log.epoch < 0),
        "writer": pa.array(log.writer, mask=~named),
        "seq": pa.array(log.seq, mask=~named),
        "intact": pa.array(log.intact),
        "home": pa.array(np.where(log.at_home, str(key), "another"), mask=~named),
        "control": pa.array(log.control),
        "producer_id": pa.array(said.producer, mask=~written),
        "producer_epoch": pa.array(said.epoch, mask=~written),
        "transactional": pa.array(written, mask=~written),
        "marker": pa.array(MARKERS).take(nullable(said.marker, pa.int32())),
        "coordinator_epoch": pa.array(
            said.coordinator_epoch, mask=said.coordinator_epoch == UNKNOWN_COORDINATOR
        ),
    }
    absent = {one.name: pa.nulls(count, one.type) for one in schema if one.name not in columns}
    return pa.table({**columns, **absent}).select(schema.names).cast(schema)

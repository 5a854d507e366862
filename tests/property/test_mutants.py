"""The tests can fail: a checker that is wrong in one place is caught by histories that are known.

Each mutant is one edit in the source of one function. It judges the hand-written histories and the damaged
ones that hypothesis makes, and the histories named with it must catch it.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings

from checkers.health import HEALTH_CLASSES
from checkers.judging import loading, worker
from checkers.partition import decisions, deliveries, fates, logs, removals, replicas
from checkers.partition.messages import KeyIndex
from checkers.tables import arrays, rows
from checkers.transactions import answers
from checkers.transactions import fates as transaction_fates
from harness.errors import BadDataError
from harness.history.schema import TABLES
from tests.anomalies.messages import CASES, LISTED
from tests.anomalies.readers import READERS
from tests.anomalies.transactions import TRANSACTIONS
from tests.blocks import blocks_of_rows
from tests.histories import History, together
from tests.independent.truth import truths_of
from tests.mutants import Mutant, mutated
from tests.property.test_checker import SETTINGS, DamagedHistory, damaged, findings_of, life_of, walked
from tests.property.transactions import planted
from tests.property.transactions_compared import check_model
from tests.sampling import every
from tests.transactions import judged, ordered

MUTANTS = {
    "a read loss is a plain loss": Mutant(
        fates.decide, "np.where(read[absent] > 0,", "np.where(read[absent] > 9,", ("written", "damaged")
    ),
    "two copies are no duplicate": Mutant(
        fates.decide, "fate[(outcome != FAIL) & (copies > 1)]", "fate[(outcome != FAIL) & (copies > 2)]",
        ("written", "damaged"),
    ),
    "an unknown outcome is never a duplicate": Mutant(
        fates.decide, "(outcome != FAIL) & (copies > 1)", "(outcome == OK) & (copies > 1)",
        ("written", "damaged"),
    ),
    "a phantom counts as failed": Mutant(
        fates.decide, '~sends.aborted] = CODE["phantom"]', '~sends.aborted] = CODE["failed"]',
        ("written", "damaged"),
    ),
    "what an aborted transaction left behind is a phantom": Mutant(
        fates.decide, "(good | damaged) & ~sends.aborted]", "(good | damaged)]", ("written",)
    ),
    "only what moved forward has moved": Mutant(
        fates.decide, "(found_offset != offset)", "(found_offset > offset)", ("written", "damaged")
    ),
    "what the leader lacks is lost": Mutant(
        fates.decide, "good = holders != 0", "good = copies > 0", ("written", "damaged")
    ),
    "a damaged copy is none": Mutant(
        fates._holders, "damaged[log.row[held & ~log.intact]] = True", "pass", ("fates",)
    ),
    "a longer log beats a newer epoch": Mutant(
        logs._most_advanced, "(*ends[broker], -broker)", "(ends[broker][1], -broker)", ("written",)
    ),
    "the final read is always whole": Mutant(
        logs.choose_reference, "conclusive = not leaders and", "conclusive = True or", ("written",)
    ),
    "unknown messages are taken for known ones": Mutant(
        KeyIndex._find, "return np.where(possible, candidates, np.int32(-1))", "return candidates",
        ("written", "damaged")
    ),
    "unreadable records belong to the oldest message": Mutant(
        fates.recognise, "owner[where] = newest", "owner[where[::-1]] = newest[::-1]", ("fates",)
    ),
    "replicas may differ in the writer": Mutant(
        replicas._against, "log.writer != reference.writer", "log.writer < -9", ("written",)
    ),
    "replicas may differ in the sequence": Mutant(
        replicas._against, "log.seq != reference.seq)", "log.seq < -9)", ("written",)
    ),
    "replicas may differ in epoch": Mutant(
        replicas._against, "_pick(EPOCH, log, renewed)]", "_pick(EPOCH, log, renewed[:0])]",
        ("written", "damaged"),
    ),
    "a short replica is reported record by record": Mutant(
        replicas._lacking, "LENGTH, reference, tail[:1], len(tail)", "MISSING, reference, tail, 1",
        ("written", "damaged"),
    ),
    "an empty log lacks nothing": Mutant(
        replicas._lacking, "offsets > end", "(offsets > end) & (end >= 0)", ("written",)
    ),
    "order is checked towards earlier messages": Mutant(
        fates.out_of_order, "np.minimum.accumulate", "np.maximum.accumulate", ("written", "damaged")
    ),
    "retention explains any loss": Mutant(
        removals.Removals.reasons, "(offsets < log_start) & (log_start > 0)", "(offsets < log_start + 99)",
        ("written", "damaged"),
    ),
    "readers may skip": Mutant(
        deliveries.suspicious_steps, "passed > 0", "passed > 9", ("written",)
    ),
    "readers may go back anywhere after an abort": Mutant(
        deliveries._pairs, ">= _floors(reads, streams, order)[before]", ">= 0", ("written",)
    ),
    "readers may go back within a transaction": Mutant(
        deliveries._pairs, "undone &= reads.undone[after] != reads.undone[before]", "pass", ("written",)
    ),
    "readers must not go back after an abort": Mutant(
        deliveries._repositioned, "(assigned | pairs.undone)", "assigned", ("written",)
    ),
    "readers may go back one aborted transaction only": Mutant(
        deliveries._floors, "floors[rows] = np.minimum.accumulate(floors[rows])", "pass", ("written",)
    ),
    "readers may go back over a commit": Mutant(
        arrays._undone, "transactions.reported_of(places) == COMMITTED", "places < 0", ("written",)
    ),
    "readers skip what was sent after they read": Mutant(
        deliveries.missed, "sends.sent_ns[rows] <= jumps.ns[number]", "rows >= 0", ("written",)
    ),
    "readers skip what they are handed later": Mutant(
        deliveries.missed, "due &= ~np.isin(rows, handed[run])", "pass", ("written",)
    ),
    "a group skips what its commit covers": Mutant(
        deliveries._repositioned, "np.maximum(pairs.low, start - 1)", "pairs.low", ("written",)
    ),
    "the first commit of a group counts": Mutant(
        deliveries._committed, 'side="right")', 'side="right").clip(max=1)', ("written",)
    ),
    "a member may commit what nobody received": Mutant(
        deliveries._stayed, "return any(", "return False and any(", ("written",)
    ),
    "a member that was moved commits what nobody received": Mutant(
        deliveries._stayed, " and all(\n        event.ns < since for event in own_events\n    )", "",
        ("written",)
    ),
    "whoever commits is a member": Mutant(
        deliveries._stayed, 'any(event.event == "assigned" for event in own_events)', "True", ("written",)
    ),
    "readers may be handed what was dropped": Mutant(
        deliveries.aborted_reads, "suspects = _first(np.flatnonzero(guilty | maybe)",
        "suspects = _first(np.flatnonzero(guilty)", ("written", "damaged"),
    ),
    "readers may be handed what nobody sent": Mutant(
        deliveries.unsent, "rows = np.flatnonzero(reads.row < 0)", "rows = np.flatnonzero(reads.row < -1)",
        ("written",),
    ),
    "any stray is foreign": Mutant(
        rows.of_records, '"misrouted", "foreign"', '"foreign", "foreign"', ("written", "damaged")
    ),
    "what is elsewhere is lost besides": Mutant(
        fates._explain, "if away is not None:", "if False:", ("written", "damaged")
    ),
    "a stray is reported beside the message it replaced": Mutant(
        rows.of_records, "~np.isin(distinct, reported)", "distinct >= 0", ("written", "damaged")
    ),
    "damage at another partition's name goes unseen": Mutant(
        arrays.at_home, "np.append(pc.equal(", "np.append(pc.not_equal(", ("written",)
    ),
    "what nobody sent is no finding": Mutant(
        replicas.odd_records, "log.origin != OWN", "(log.origin < 0)",
        ("written", "damaged"),
    ),
    "only the first block of messages has findings": Mutant(
        worker._of_messages, "_between(own, first, last)", "_between(own, first, last)[: not first]",
        ("blocks",),
    ),
    "sightings are those of the first block": Mutant(
        worker._SightingsOfBlocks.of, "self._order[low:high]", "self._order[: high - low]", ("blocks",)
    ),
    # ---- transactions
    "the last marker decides": Mutant(
        decisions._next_marker, "producer[rows], offset[rows])", "producer[rows], offset[rows] + 1)",
        ("planted",),
    ),
    "any producer's marker decides": Mutant(
        decisions._next_marker, "(log.producer[inside] == producer[rows])", "(log.producer[inside] >= 0)",
        ("planted",),
    ),
    "an abort marker commits": Mutant(
        decisions.decisions_of, "state[decided & (commit == ABORT)] = ABORTED",
        "state[decided & (commit == ABORT)] = READABLE", ("planted",),
    ),
    "nothing is blocked": Mutant(
        decisions.decisions_of, "below = offset < log.limit", "below = offset < log.limit + 99", ("planted",)
    ),
    "a log that was not read lacks markers": Mutant(
        decisions.decisions_of, "named & ~decided & log.conclusive &", "named & ~decided &", ("planted",)
    ),
    "what is not committed yet is undecided": Mutant(
        decisions.decisions_of, "(offset < log.high_watermark)", "(offset >= 0)", ("planted",)
    ),
    "undecided records block nobody": Mutant(
        decisions.undecided_from, "int(offset[open_].min()) if open_.any() else -1", "-1", ("planted",)
    ),
    "the recorded last stable offset is ignored": Mutant(
        decisions.transaction_log, "[high_watermark, last_stable_offset,", "[high_watermark,", ("planted",)
    ),
    "no epoch is outdated": Mutant(
        decisions.decisions_of, "_epoch_raised(log, producer, epoch) < offset", "offset < 0", ("planted",)
    ),
    "an unknown answer is a commit": Mutant(
        answers.transactions_of, "reported[any_of(\"unknown\") | (asked > 0)] = UNKNOWN",
        "reported[any_of(\"unknown\") | (asked > 0)] = COMMITTED", ("planted",),
    ),
    "an unanswered request is an open transaction": Mutant(
        answers.transactions_of, "| (asked > 0)]", "]", ("planted",)
    ),
    "a commit may come of any unknown end": Mutant(
        answers.may_commit, "(asked != ASKED_ABORT)", "(asked >= 0)", ("planted",)
    ),
    "nobody is fenced": Mutant(answers._fences, "fences[number] = spans", "pass", ("transactions",)),
    "a successor commits nothing": Mutant(
        answers.ReportedTransactions.sent_fenced, "(span.recorded | ~committed | (begun < span.from_ns))",
        "True", ("transactions",),
    ),
    "a producer that is given its id again stays fenced": Mutant(
        answers._spans, "until_ns=until_ns", "until_ns=FOREVER", ("transactions",)
    ),
    "a fence begins with the successor's first transaction": Mutant(
        answers._starts, "if not row[\"error\"]:", "if False:", ("transactions",)
    ),
    "a refused successor fences": Mutant(
        answers._starts, "if not row[\"error\"]:", "if True:", ("transactions",)
    ),
    "a fence by an answer whose request came earlier": Mutant(
        answers._spans, "other.asked_ns > start.ns", "other.ns > start.ns", ("transactions",)
    ),
    "torn is lost": Mutant(
        transaction_fates._findings, "code[(committed > 0) & (aborted > 0)] = 1", "pass", ("planted",)
    ),
    "lost transactions go unseen": Mutant(
        transaction_fates._findings, "code[(reported == COMMITTED) & (committed == 0) & (aborted > 0)] = 2",
        "pass", ("planted",),
    ),
    "time-outs end everything": Mutant(
        transaction_fates._findings, "(facts.overdue | (ended", "((ended", ("planted",)
    ),
    "a coordinator that is not done is none": Mutant(
        transaction_fates._findings, "(facts.owed < undecided)", "(undecided > 0)", ("transactions",)
    ),
    "an early marker is a marker": Mutant(
        transaction_fates._findings, "facts.early |", "", ("transactions",)
    ),
    "a message without an answer may be missing": Mutant(
        transaction_fates._findings, "| ((facts.dropped > 0) & facts.waits)", "", ("transactions",)
    ),
    "every client waits for answers": Mutant(
        transaction_fates.waits_for_answers, 'in WAITING_CLIENTS', '!= ""', ("transactions",)
    ),
    "retention removes no message without an answer": Mutant(
        decisions.with_losses, '(fates == CODE["unknown_dropped"]) & whole]',
        '(fates == CODE["unknown_dropped"])]', ("transactions",),
    ),
    "what is blocked can be read": Mutant(
        transaction_fates._visible, 'readable = counts["readable"]',
        'readable = counts["readable"] + counts["blocked"]', ("planted",),
    ),
    "readers may be handed what was aborted": Mutant(
        deliveries.aborted_reads, "sends.withheld[row] & reads.committed", "sends.withheld[row] & ~known",
        ("planted",),
    ),
    "what is reported as aborted is never to be read": Mutant(
        loading._as_decided,
        "(reported == REPORTED_ABORTED) & ~committed",
        "reported == REPORTED_ABORTED",
        ("planted",),
    ),
}  # fmt: skip


def written_differences() -> list[str]:
    """Hand-written histories that are judged in another way than their sentences say."""
    odd = []
    for cases in (CASES, READERS, LISTED):
        with tempfile.TemporaryDirectory() as scratch:
            histories = {name: history for name, (_, history, _) in cases.items()}
            try:
                findings = findings_of(together(histories, Path(scratch) / "history"))
            except BadDataError as error:
                odd.append(error.message)
                continue
        expected = Counter(
            (c, name, o)
            for name, (_, _, all_) in cases.items()
            for c, o, _ in all_
            if c not in HEALTH_CLASSES  # these are of the run, and no kernel's
        )
        seen = Counter((row[0], row[1], row[3]) for row in findings)
        odd += [f"{finding} is missing" for finding in (expected - seen).elements()]
        odd += [f"{finding} is too many" for finding in (seen - expected).elements()]
    return odd


def transaction_differences() -> list[str]:
    """Hand-written histories of transactions that are judged in another way than their sentences say."""
    odd = []
    for name, (_, history, expected) in TRANSACTIONS.items():
        with tempfile.TemporaryDirectory() as scratch:
            findings = judged(history, Path(scratch) / "history")["findings"]
        if {(row["class"], row["partition"], row["offset"], row["seq"]) for row in findings} != expected:
            odd.append(name)
    return odd


def fate_differences() -> list[str]:
    """Hand-written histories to whose messages the independent truth gives other fates."""
    odd = []
    for cases in (CASES, READERS, LISTED):
        for name, (_, history, _) in cases.items():
            with tempfile.TemporaryDirectory() as scratch:
                folder = history.write(Path(scratch) / "history")
                findings_of(folder)
                fates = {(row["writer"], row["seq"]): row["fate"] for row in life_of(folder)}
            rows = {
                table: [{one.name: row.get(one.name) for one in TABLES[table].columns} for row in some]
                for table, some in ({"sends": [], "copies": []} | history.rows).items()
            }
            if all(truth.fates != fates for truth in truths_of(rows)):
                odd.append(name)
    return odd


def damaged_differences(count: int = 1000) -> list[str]:
    """A damaged history, of ``count`` at most, that is judged in another way than by brute force."""

    @settings(SETTINGS, max_examples=count, database=None, phases=[Phase.generate])
    @given(damaged())
    def hunt(history: DamagedHistory) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            folder = history.write(Path(scratch) / "history")
            assert findings_of(folder) == history.model()

    try:
        hunt()
    except (AssertionError, BadDataError, IndexError) as error:
        return [f"{type(error).__name__}: {error}"]
    return []


def block_differences(count: int = 100) -> list[str]:
    """A history with readers, of ``count`` at most, that is judged in another way two rows at a time."""

    @settings(SETTINGS, max_examples=count, database=None, phases=[Phase.generate])
    @given(walked())
    def hunt(history: DamagedHistory) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            at_once, in_blocks = (history.write(Path(scratch) / name) for name in ("at-once", "blocks"))
            expected = findings_of(at_once)
            with blocks_of_rows(2):
                assert findings_of(in_blocks) == expected
            assert ordered(life_of(in_blocks)) == ordered(life_of(at_once))

    try:
        hunt()
    except AssertionError as error:
        return [f"{type(error).__name__}: {error}"]
    return []


def planted_differences(count: int = 2000) -> list[str]:
    """A planted history of transactions, of ``count`` at most, judged in another way than by brute force.

    Hypothesis generates other histories if other modules are loaded, because it uses their constants. The
    rarest mutants show in about one of 270.
    """

    @settings(SETTINGS, max_examples=count, database=None, phases=[Phase.generate])
    @given(planted())
    def hunt(history: History) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            check_model(history, Path(scratch) / "history")

    try:
        hunt()
    except (AssertionError, BadDataError, IndexError, ValueError) as error:
        return [f"{type(error).__name__}: {error}"]
    return []


LOOKS: dict[str, Callable[[], list[str]]] = {
    "written": written_differences,
    "fates": fate_differences,
    "damaged": damaged_differences,
    "blocks": block_differences,
    "planted": planted_differences,
    "transactions": transaction_differences,
}
FIRST: dict[str, Callable[[], list[str]]] = {
    "fates": fate_differences,
    "written": written_differences,
    "blocks": lambda: block_differences(8),
    "damaged": lambda: damaged_differences(15),
    "transactions": transaction_differences,
    "planted": lambda: planted_differences(10),
}
"""The same with the first histories of each, for the control."""


QUICK = (
    "an abort marker commits",
    "the last marker decides",
    "only the first block of messages has findings",
    "replicas may differ in the writer",
)
"""Mutants of `make test`; the others are caught only after several seconds each."""


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.long) for name in MUTANTS if name not in QUICK)]
)
def test_a_mutant_is_caught(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    mutant = MUTANTS[name]
    monkeypatch.setattr(mutant.function, "__code__", mutated(mutant).__code__)
    missed = [by for by in mutant.by if not LOOKS[by]()]
    assert not missed, f"not noticed by histories that are {missed}"


@pytest.mark.parametrize("look", every(3, FIRST))
def test_the_first_histories_catch_nothing_where_nothing_is_wrong(look: str) -> None:
    """The control: what mutants are caught by finds nothing in the checker as it is."""
    assert FIRST[look]() == []


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("look", LOOKS)
def test_nothing_is_caught_where_nothing_is_wrong(look: str) -> None:
    """The control with all histories."""
    assert LOOKS[look]() == []

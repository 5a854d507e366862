"""Random histories with known damage, exported for Jepsen's checker: a model of it finds what acked finds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from random import SystemRandom

import pytest

from checkers.ask.jepsen import reads, sends
from tests.independent.generate import KINDS
from tests.independent.readers import READ_DAMAGE
from tests.mutants import Mutant, mutated
from tests.property.exports_compared import JudgedHistories, disagreements, judged
from tests.sampling import every

SEED = 20261126
LAYOUTS = 6
ALONE = range(len(KINDS))
"""Histories with one kind of damage, each kind once."""
PAIRS_END = len(KINDS) + len(KINDS) * (len(KINDS) - 1) // 2
READERS = range(PAIRS_END - len(READ_DAMAGE) * (len(READ_DAMAGE) - 1) // 2, PAIRS_END)
"""Histories with two kinds of damage to what readers received, each pair once."""
MIXED = range(PAIRS_END, PAIRS_END + 20)
"""Histories with up to three kinds of damage."""


def agree(histories: Iterable[JudgedHistories], seed: int = SEED) -> None:
    differences = [text for one in histories for text in disagreements(one)]
    assert not differences, f"{len(differences)} differences, seed {seed}:\n" + "\n".join(differences[:20])


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> Sequence[JudgedHistories]:
    """Some hundred judged histories."""
    folder = tmp_path_factory.mktemp("histories")
    return [*judged(SEED, chain(ALONE, READERS, MIXED), folder, layouts=LAYOUTS)]


def test_the_export_of_a_history_shows_what_the_checker_finds(histories: Sequence[JudgedHistories]) -> None:
    agree(histories)
    assert sum(len(one.cases) for one in histories) > 90


# ---- the comparison can fail

MUTANTS = {
    "one record of the final log is left out": Mutant(
        reads.final_ops, "np.ones(len(records.key), np.bool_)))", "np.ones(len(records.key), np.bool_))[1:])"
    ),
    "the records of one poll stand one offset too high": Mutant(
        reads._poll_texts, "pa.array(records.offset)", "pa.array(records.offset + (poll == poll.max() // 2))"
    ),
    "every tenth delivery is left out": Mutant(
        reads.poll_ops,
        "kept = audit.kept(records, ~array(committed).astype(np.bool_))",
        "kept = np.delete(audit.kept(records, ~array(committed).astype(np.bool_)), np.s_[::10])",
    ),
    "the records of a poll are sorted": Mutant(
        reads.poll_ops, "np.lexsort((ns[kept], records.key", "np.lexsort((records.offset[kept], records.key"
    ),
    "seeks are left out": Mutant(
        reads.assign_ops, 'else ("assigned", "sought")', 'else ("assigned",)'
    ),
    "readers without a group are judged like members": Mutant(
        reads.assign_ops, 'if reader in members else ("assigned", "sought")', "if reader else ()"
    ),
    "the leader is taken for a follower": Mutant(
        reads._final_log, 'bool(row["leader"])', "False"
    ),
    "records of aborted transactions are exported": Mutant(
        reads.Audit.kept, "uncommitted & np.isin", "False & np.isin"
    ),
    "answers name no offset": Mutant(
        sends._send_texts, "sends.offset >= 0", "sends.offset < -1"
    ),
    "messages without an answer are acknowledged": Mutant(
        sends.read_sends, "pc.fill_null(outcome, INFO)", "pc.fill_null(outcome, OK)"
    ),
    "messages of aborted transactions are acknowledged": Mutant(
        sends.read_transactions, '"aborted": FAIL', '"aborted": OK'
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", every(3, MUTANTS))
def test_a_wrong_export_is_noticed(
    monkeypatch: pytest.MonkeyPatch, histories: Sequence[JudgedHistories], name: str
) -> None:
    mutant = MUTANTS[name]
    monkeypatch.setattr(mutant.function, "__code__", mutated(mutant).__code__)
    assert any(map(disagreements, histories))


# ---- many


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_histories(tmp_path: Path) -> None:
    agree(judged(SEED + 1, range(2_000), tmp_path, layouts=64), SEED + 1)


@pytest.mark.long
def test_histories_of_a_new_seed(tmp_path: Path) -> None:
    seed = SystemRandom().randrange(10**6)
    agree(judged(seed, range(PAIRS_END, PAIRS_END + 400), tmp_path, layouts=16), seed)

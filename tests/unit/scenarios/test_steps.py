"""What scenarios read from brokers' logs, in the words of several Kafka versions."""

from __future__ import annotations

import duckdb
import pytest

from harness.errors import ProcessDiedError, WaitTimeoutError
from scenarios.steps import awaited, updated_isr, updated_to
from scenarios.transactions.idempotent_first_sequence import REFUSED
from tests.runs.stored import translate


@pytest.mark.parametrize(
    ("line", "isr"),
    [
        ("[Partition t-0 broker=1] ISR updated from AlterIsr to 2,3,1 and version updated to [2]", {1, 2, 3}),
        ("[Partition t-0 broker=1] ISR updated to [1,2] and zkVersion updated to [5] (Partition)", {1, 2}),
        ("[Partition t-0 broker=1] ISR updated to 2,3,1  and version updated to 2 (Partition)", {1, 2, 3}),
        ("[Partition m-0 broker=1] ISR updated to 1 (under-min-isr) and version updated to 1", {1}),
        ("[Partition m-0 broker=1] ISR updated to nothing", set()),
    ],
)
def test_isr_that_a_leader_logs(line: str, isr: set[int]) -> None:
    assert updated_isr(line) == isr


@pytest.mark.parametrize(
    ("line", "matches"),
    [
        ("[Partition t-0 broker=1] ISR updated from AlterIsr to 1,3 and version updated to [1]", True),
        ("[Partition t-0 broker=1] ISR updated to 1,3 and version updated to [1]", True),
        ("[Partition t-0 broker=1] ISR updated to 1,3  and version updated to 1", True),
        ("[Partition t-0 broker=1] ISR updated to 1,3 (under-min-isr) and version updated to 1", True),
        ("[Partition t-0 broker=1] ISR updated to 1,3,2  and version updated to 2", False),
        ("[Partition t-0 broker=1] ISR updated to 1,2  and version updated to 1,3", False),
    ],
)
def test_a_claim_about_the_isr_that_a_leader_logs(line: str, matches: bool) -> None:
    query = translate(f"SELECT {updated_to('1,3')} AS matches FROM (SELECT '{line}' AS text)")
    assert duckdb.sql(query).fetchall() == [(matches,)]


@pytest.mark.parametrize("partition", ["t-0", "IM61X9u6RyOwrReOYD_AyQ:t-0"])
def test_a_refused_message_is_recognised_in_the_logs_of_all_versions(partition: str) -> None:
    """Kafka 4.0.1 and 4.3.1 log it so."""
    line = f"[ReplicaManager] Error processing append operation on partition {partition} (ReplicaManager)"
    assert all(words in line for words in REFUSED)
    assert not all(words in line.replace("t-0", "other-0") for words in REFUSED)


def test_a_scenario_goes_on_if_what_a_sentence_denies_does_not_happen() -> None:
    def in_vain() -> None:
        raise WaitTimeoutError("no election")

    def ended() -> None:
        raise ProcessDiedError("broker1 has ended")

    assert awaited(lambda: None)
    assert not awaited(in_vain)
    with pytest.raises(ProcessDiedError):
        awaited(ended)

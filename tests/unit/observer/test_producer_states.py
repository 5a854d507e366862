"""What leaders and coordinators know of transactions becomes a row when it changes, and now and then."""

from __future__ import annotations

from dataclasses import replace

from harness.kafka.model import TopicPartition
from harness.kafka.wire.transactions import ActiveProducer, CoordinatedTransaction, Producers
from harness.observer.producers import REPEATED_S, KnownStates

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
OPEN = ActiveProducer(
    producer_id=7, producer_epoch=1, coordinator_epoch=-1, transaction_start=4, last_sequence=2
)
ONGOING = CoordinatedTransaction(
    transactional_id="orders",
    producer_id=7,
    producer_epoch=1,
    state="Ongoing",
    timeout_ms=5000,
    partitions=(T0, T1),
)


def test_a_producer_s_state_is_a_row_when_it_changes() -> None:
    states = KnownStates(2)
    assert states.producers({T0: Producers(0, (OPEN,)), T1: Producers(6)}, ns=10) == [
        {
            "ns": 10,
            "topic": "t",
            "partition": 0,
            "broker": 2,
            "producer_id": 7,
            "producer_epoch": 1,
            "last_sequence": 2,
            "coordinator_epoch": -1,
            "transaction_start": 4,
        }
    ]
    assert states.producers({T0: Producers(0, (OPEN,))}, ns=20) == []
    (later,) = states.producers({T1: Producers(0, (OPEN,))}, ns=25)
    assert (later["partition"], later["ns"]) == (1, 25), "each partition has a state of its own"
    ended = replace(OPEN, coordinator_epoch=0, transaction_start=None)
    (row,) = states.producers({T0: Producers(0, (ended,))}, ns=30)
    assert "transaction_start" not in row and row["coordinator_epoch"] == 0


def test_a_transaction_s_state_is_a_row_when_it_changes() -> None:
    states = KnownStates(1)
    (row,) = states.transactions([ONGOING], ns=10)
    assert (row["broker"], row["state"], row["partitions"]) == (1, "Ongoing", "t/0,t/1")
    assert states.transactions([ONGOING], ns=20) == []
    repeated = 10 + int(REPEATED_S * 1e9)
    assert [row["ns"] for row in states.transactions([ONGOING], ns=repeated)] == [repeated]
    (row,) = states.transactions([replace(ONGOING, state="PrepareCommit", partitions=(T1,))], ns=repeated + 9)
    assert (row["ns"] - repeated, row["state"], row["partitions"]) == (9, "PrepareCommit", "t/1")

"""What scenarios read from brokers' logs, in the words of several Kafka versions."""

from __future__ import annotations

import pytest

from scenarios.steps import updated_isr


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

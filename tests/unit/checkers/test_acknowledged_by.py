"""Which broker acknowledged a message, if no answer and no look at a log says it."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from checkers.evidence import ClientCut, acknowledged_by

INSIDE, OUTSIDE = 7, 8
"""Writers in broker1's AZ and in another one."""
CUT = (100, 200)
"""broker1 is cut off; broker2 leads in epoch 1 from 150 on, and broker1 learns of it at 250."""


def view(ns: int, source: int, leader: int, epoch: int) -> dict[str, Any]:
    row = {"subject": "partition", "topic": "t", "partition": 0, "source": f"broker{source}"}
    return {**row, "ns": ns, "leader": leader, "epoch": epoch}


VIEWS = [
    *(view(source, source, 1, 0) for source in (1, 2, 3)),
    *(view(150, source, 2, 1) for source in (2, 3)),
    view(250, 1, 2, 1),
]


def acknowledging(
    sent: int, done: int, writer: int = INSIDE, replaced: int = -1, views: Sequence[Any] = VIEWS
) -> int:
    cuts = [
        ClientCut(broker=1, writers=(OUTSIDE,), from_ns=CUT[0], until_ns=CUT[1]),
        ClientCut(broker=2, writers=(INSIDE,), from_ns=CUT[0], until_ns=CUT[1]),
    ]
    evidence: Any = SimpleNamespace(rows_about=lambda table, where: views, client_cuts=cuts)
    nobody = np.array([-1])
    return int(
        acknowledged_by(
            evidence,
            "t",
            0,
            stated=nobody,
            first_seen=nobody,
            writer=np.array([writer]),
            sent_ns=np.array([sent]),
            done_ns=np.array([done]),
            replaced_epoch=np.array([replaced]),
        )[0]
    )


@pytest.mark.parametrize(
    ("sent", "done", "writer", "replaced", "broker"),
    [
        pytest.param(20, 30, INSIDE, -1, 1, id="before the cut"),
        pytest.param(120, 170, INSIDE, -1, 1, id="in the cut, from inside"),
        pytest.param(90, 170, INSIDE, -1, 1, id="sent before it: the new leader led only in the cut"),
        pytest.param(90, 170, OUTSIDE, -1, -1, id="from outside, by either"),
        pytest.param(120, 170, OUTSIDE, -1, 2, id="in the cut, from outside"),
        pytest.param(90, 220, INSIDE, -1, -1, id="answered after the cut, by either"),
        pytest.param(
            210, 220, INSIDE, -1, -1, id="sent after the cut, while the old leader knows of no other"
        ),
        pytest.param(210, 220, INSIDE, 1, 1, id="the new leader wrote another record at its offset"),
        pytest.param(210, 220, INSIDE, 0, 2, id="the old leader wrote another record at its offset"),
        pytest.param(260, 270, INSIDE, -1, 2, id="when all know the new leader"),
    ],
)
def test_who_can_have_acknowledged_a_message(
    sent: int, done: int, writer: int, replaced: int, broker: int
) -> None:
    assert acknowledging(sent, done, writer, replaced) == broker


def test_a_record_of_another_epoch_of_a_broker_excludes_nothing() -> None:
    later = [*VIEWS, view(300, 1, 1, 2), view(301, 2, 1, 2)]
    assert acknowledging(210, 220, replaced=2, views=later) == -1

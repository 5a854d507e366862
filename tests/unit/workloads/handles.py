"""Handles of producers as scenarios get them from their stage; brokers are named by their addresses."""

from __future__ import annotations

import pytest

from run.transactional import TransactionalProducer
from workloads.client.client import Client
from workloads.protocol.spec import ProducerSpec


def transactions(client: Client, spec: ProducerSpec, at: str = "") -> TransactionalProducer:
    """A transactional producer; the broker ``at`` leads and coordinates everything."""
    return TransactionalProducer(
        client=client,
        spec=spec,
        leader=lambda *_: at,
        hold=lambda _: pytest.fail("nothing is held here"),
        group_coordinator=lambda _: at,
        coordinator=at,
    )

"""Degraded links: loss, a rate limit, and delay if the kernel supports it."""

from __future__ import annotations

from typing import Any

from conformance_bench import FOUR, Bench, case

from harness.errors import UnfitError


@case
def loss(bench: Bench) -> Any:
    injection = bench.nemesis.degrade.lose("az1 <-> az2", percent=30)
    with injection:
        pass
    assert bench.moments(injection) == FOUR
    assert bench.chains_left() == []
    return injection.evidence


@case
def slight_loss(bench: Bench) -> Any:
    injection = bench.nemesis.degrade.lose("broker1 -> broker2", percent=1)
    with injection:
        pass
    return injection.evidence


@case
def rate_limit(bench: Bench) -> Any:
    injection = bench.nemesis.degrade.throttle("broker1", rate_kbit=400)
    with injection:
        pass
    assert bench.moments(injection) == FOUR
    assert not bench.watchdogs("acked-queue")
    return injection.evidence


@case
def delay(bench: Bench) -> Any:
    """If the kernel has no netem, the fault is unfit, with a sentence that says so."""
    injection = bench.nemesis.degrade.delay("broker1", delay_ms=50)
    try:
        with injection:
            return injection.evidence
    except UnfitError as error:
        assert "netem" in error.message
        assert bench.moments(injection) == ["injecting", "failed"]
        return {"unfit": error.message, "needs": "netem"}

"""Steps that many scenarios share: seeding, preconditions, and waits for what brokers log or believe."""

from __future__ import annotations

from scenarios.steps import (
    elect_preferred,
    high_watermark,
    log_end_offset,
    log_lines,
    pins,
    read_in_vain,
    require,
    require_controller,
    seed,
    settle,
    stand,
    try_create_topic,
    wait_elected,
    wait_for_controller,
    wait_log,
    wait_log_end_offset,
    wait_registered,
    wait_unregistered,
    wait_view,
)

__all__ = [
    "seed",
    "settle",
    "stand",
    "require",
    "require_controller",
    "pins",
    "elect_preferred",
    "wait_elected",
    "wait_for_controller",
    "wait_log",
    "log_lines",
    "wait_view",
    "wait_registered",
    "wait_unregistered",
    "wait_log_end_offset",
    "log_end_offset",
    "high_watermark",
    "read_in_vain",
    "try_create_topic",
]

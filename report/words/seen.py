"""What was seen to break in a recording of a cluster that acked did not start, as a sentence."""

from __future__ import annotations

from collections.abc import Mapping

from report.words.lists import listed

_EVENTS: Mapping[str, tuple[str, str]] = {
    "broker-silent": ("a broker stopped answering", "brokers stopped answering {} times"),
    "leader-changed": ("another leader was elected once", "other leaders were elected {} times"),
    "no-leader": ("a partition had no leader once", "partitions had no leader {} times"),
    "isr-shrunk": ("an ISR shrank once", "ISRs shrank {} times"),
    "topic-deleted": ("somebody deleted the topic", "somebody deleted the topic {} times"),
}
"""By event: what happened if it was seen once, and if it was seen several times."""


def seen_in_words(seen: Mapping[str, int] | None) -> str:
    """What was seen; empty for a run that is no recording."""
    if seen is None:
        return ""
    happened = [
        once if seen[event] == 1 else often.format(seen[event])
        for event, (once, often) in _EVENTS.items()
        if seen.get(event)
    ]
    if happened:
        return f"Seen meanwhile: {listed(happened)}."
    return "Nothing was seen to break: every broker answered, no leader changed, and no ISR shrank."


def limits_in_words(recording: object) -> tuple[str, ...]:
    """What is not known of a cluster that acked did not start, by `recording` of the manifest; else empty."""
    if not isinstance(recording, Mapping):
        return ()
    limits: tuple[str, ...] = (
        "Nobody can know from outside whether a process ended or was only cut off, what a disk lost, what an "
        "operator did, or what a broker logged. Findings that depend on it are of unknown promise.",
    )
    refused, throttled_ms = recording.get("replica_logs"), recording.get("throttled_ms")
    if refused:
        leaders = f"Only the leaders' logs were read: {refused}. A lost message is one not on the leader."
        limits = (*limits, leaders)
    if isinstance(throttled_ms, int) and throttled_ms > 0:
        delayed = f"Quotas of the cluster delayed answers to producers by {throttled_ms / 1000:.1f} s in all."
        limits = (*limits, delayed)
    return limits

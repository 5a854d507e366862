"""What was seen to break or to change in a recording of a cluster that acked did not start, as a sentence."""

from __future__ import annotations

from collections.abc import Mapping

from report.words.lists import listed

_EVENTS: Mapping[str, tuple[str, str]] = {
    "broker-silent": ("a broker stopped answering", "brokers stopped answering {} times"),
    "leader-changed": ("another leader was elected once", "other leaders were elected {} times"),
    "no-leader": ("a partition had no leader once", "partitions had no leader {} times"),
    "isr-shrunk": ("an ISR shrank once", "ISRs shrank {} times"),
    "topic-deleted": ("somebody deleted the topic", "somebody deleted the topic {} times"),
    "right-lost": ("the user lost a right", "the user lost rights {} times"),
    "config-changed": ("a setting of the topic changed", "settings of the topic changed {} times"),
    "throttled": ("quotas began to slow producers", "quotas began to slow producers {} times"),
    "interrupted": ("nobody looked for a while", "nobody looked for a while, {} times"),
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
    watched = recording.get("watched")
    if isinstance(watched, Mapping):
        read = "Batches were read from an offset near the end of each partition on, without keys and values."
        lost = "Nobody knows what was sent to the topic, so that no message can be said to be lost."
        return (*limits, read, lost, *(f"Note that {one}." for one in limits_of_watching(watched)))
    refused, throttled_ms = recording.get("replica_logs"), recording.get("throttled_ms")
    if refused:
        leaders = f"Only the leaders' logs were read: {refused}. A lost message is one not on the leader."
        limits = (*limits, leaders)
    if isinstance(throttled_ms, int) and throttled_ms > 0:
        delayed = f"Quotas of the cluster delayed answers to producers by {throttled_ms / 1000:.1f} s in all."
        limits = (*limits, delayed)
    return limits


def limits_of_watching(watched: Mapping[str, object]) -> tuple[str, ...]:
    """What cannot be compared of a watched topic, by `watched` of the manifest's `recording`."""
    cleanup, refusal = watched.get("cleanup"), watched.get("refusal")
    limits = []
    if not isinstance(cleanup, str):
        limits.append(
            "its replicas are not compared, because you lack DESCRIBE_CONFIGS on the topic, and those of a "
            "compacted topic differ by themselves"
        )
    elif "compact" in cleanup:
        limits.append("its replicas are not compared, because each compacts its log by itself")
    if refusal:
        limits.append(f"only the leaders' logs are read, because {refusal}")
    return tuple(limits)

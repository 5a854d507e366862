"""Findings `in every run, whatever it is about`: processes, complaints in logs, ISR at the end,
configuration.
"""

from __future__ import annotations

from collections import Counter

from tests.independent.model import Finding, History, place


def findings(history: History) -> Counter[Finding]:
    """Findings that need no message and no record.

    In histories made here, no fault explains the end of a process or a log line, and no line has a known
    wording. So every such row counts.
    """
    findings_of_run: Counter[Finding] = Counter()
    for row in history.get("processes", ()):
        if row["event"] == "exited":
            findings_of_run[Finding("process_exit")] += 1  # `ended although no fault ended it`
    # `one per host and wording`
    complaints = {
        (row["host"], row.get("text"))
        for row in history.get("log_events", ())
        if row["kind"] in ("error", "fatal")
    }
    findings_of_run[Finding("server_error")] += len(complaints)
    replicas = history.get("replicas", [])
    partly = {place(row) for row in replicas if not row["complete"]}
    outside = {place(row) for row in replicas if row.get("in_sync") is False and not row.get("leader")}
    for at in outside - partly:
        # `replicas were not in sync at the end, although all were read …; one finding per partition`
        findings_of_run[Finding("not_converged", *at)] += 1
    for row in history.get("configs", ()):
        if None not in (row.get("asked"), row.get("value")) and row["value"] != row["asked"]:
            findings_of_run[Finding("config_mismatch")] += 1  # `took effect than was asked for`
    return +findings_of_run

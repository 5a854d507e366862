"""A history whose losses have a cause, and a run folder around a history, as the harness leaves one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tests.anomalies.messages import kept
from tests.histories import History

FOUR_LOST = {
    "four were lost": "select count(*) = 4 as holds, string(count(*)) as observed "
    "from life where fate = 'lost'"
}
"""What `explained` should show: the query of each claim."""


def explained() -> History:
    """Losses with a cause: what broker 1 acknowledged alone was truncated when broker 2 had been elected."""
    history = kept(6).logs([(0, 0), (1, 1)], epoch=0)
    history.add("faults", ns=900, fault=1, name="isolate az1", kind="link", moment="injected", targets="[]")
    history.add("faults", ns=8000, fault=1, name="isolate az1", kind="link", moment="healed", targets="[]")
    told = {"subject": "partition", "topic": "t", "partition": 0}
    history.add("views", ns=1, source="broker1", leader=1, epoch=0, isr=[1, 2, 3], **told)
    history.add("views", ns=3200, source="broker2", leader=2, epoch=1, isr=[2, 3], **told)
    cut = {"ns": 9000, "host": "broker1", "kind": "truncated", "text": "Truncating to offset 2"}
    history.add("log_events", topic="t", partition=0, offset=2, epoch=0, **cut)
    seen = {"topic": "t", "partition": 0, "broker": 1, "epoch": 0, "writer": 1, "gone_ns": 9000}
    for seq in range(2, 6):
        history.add("sightings", offset=seq, seq=seq, seen_ns=seq * 1000 + 400, **seen)
    return history


def stored_run(folder: Path, history: History, claims: Mapping[str, str] = FOUR_LOST) -> Path:
    """A manifest, the queries of claims by name, an expected finding, and a history."""
    history.write(folder / "history")
    (folder / "run.json").write_text(json.dumps({"status": "complete", "scenario": "made-up"}))
    declared = [
        {"name": name, "says": "", "section": "", "given": None, "holds": holds, "erratum": None}
        for name, holds in claims.items()
    ]
    expected = {"finding": "lost", "where": "sent_during = 'isolate az1'", "because": ""}
    (folder / "claims.json").write_text(json.dumps({"claims": declared, "expected": [expected]}))
    return folder

"""How a soak stands, for people and for collectors."""

from __future__ import annotations

from report.soak import live_lines, openmetrics
from run.soak.judge import Live

LIVE = Live(
    ended=12_000,
    acknowledged=11_500,
    judged=9_000,
    lost={3: 7},
    lag_s=1.25,
    deleted=400,
    transactions={"committed": 90, "aborted": 1000},
)


def test_metrics_are_openmetrics() -> None:
    text = openmetrics(LIVE)
    assert text.endswith("# EOF\n")
    assert 'acked_soak_lost{writer="3"} 7\n' in text
    assert "acked_soak_records_deleted_total 400\n" in text and "acked_soak_lag_seconds 1.25\n" in text
    assert 'acked_soak_transactions_total{reported="aborted"} 1000\n' in text
    typed = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(typed) == len(set(typed))


def test_a_terminal_shows_what_is_lost_and_how_far_behind_it_is() -> None:
    text = " ".join(live_lines(LIVE))
    assert "12,000 messages have ended" in text and "1.2 s behind" in text and "lost 7" in text
    assert "transactions: 1,000 aborted, 90 committed" in text

"""What was not observed, from the history to verdict, claims and page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checkers.judge import judge
from report.page.write import write_page
from tests.spark.made_runs import FOUR_LOST, explained, stored_run

pytestmark = pytest.mark.spark

WHERE = {"topic": "t", "partition": 0, "broker": 1}
CLAIMS = FOUR_LOST | {
    "four were seen": "SELECT count(*) = 4 AS holds, string(count(*)) AS observed FROM sightings",
    "none was read": "SELECT count(*) = 0 AS holds, string(count(*)) AS observed FROM reads",
}


def test_it_reaches_verdict_claims_and_page(spark: Any, tmp_path: Path) -> None:
    """Without the rows of `unobserved` all three claims are confirmed."""
    told = {}
    for missed in (False, True):
        history = explained()
        if missed:
            history.add(
                "unobserved", ns=9500, source="tail", since_ns=8000, from_offset=6, to_offset=9, **WHERE
            )
        folder = tmp_path / str(missed)
        folder.mkdir()
        told[missed] = judge(spark, stored_run(folder, history, CLAIMS))
    assert (told[False].verdict, told[False].reasons, told[False].unobserved) == ("as declared", (), ())
    statuses = {claim.name: claim.status for claim in told[True].claims}
    assert statuses == {
        "four were lost": "confirmed",
        "four were seen": "unknown",
        "none was read": "confirmed",
    }
    clause = "the observer saw parts of replicas' logs late or never (t/0 on broker1, offsets 6 to 8)"
    assert (told[True].verdict, told[True].reasons[0]) == ("unknown", clause)
    assert [row["from_offset"] for row in told[True].unobserved] == [6]
    page = write_page(tmp_path / "True").read_text()
    assert "t/0 on broker1, offsets 6 to 8" in page
    assert "<td>the observer</td><td>t/0 on broker1</td>" in page and ">6–8<" in page

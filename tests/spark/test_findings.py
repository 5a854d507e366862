"""Each hand-written history has exactly the findings listed with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from checkers.judge import judge_import
from tests.anomalies.messages import CASES, FOUR, LISTED, Findings, kept
from tests.anomalies.readers import READERS
from tests.histories import History, together

pytestmark = pytest.mark.spark


def judged(
    spark: Any, cases: Mapping[str, tuple[str, History, Findings]], folder: Path
) -> dict[str, Findings]:
    together({name: history for name, (_, history, _) in cases.items()}, folder)
    judge_import(spark, folder)
    findings_by_case: dict[str, Findings] = {name: set() for name in cases}
    rows = pq.read_table(folder / "findings.parquet").to_pylist()
    for row in rows:
        case = row["topic"]
        key = (row["class"], row["offset"], row["seq"])
        assert key not in findings_by_case[case], f"{key} is reported twice"
        findings_by_case[case].add(key)
    return findings_by_case


@pytest.fixture(scope="module")
def findings_by_case(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Findings]:
    judged_plainly = (judged(spark, cases, tmp_path_factory.mktemp("plain")) for cases in (CASES, READERS))
    findings_by_case = {name: places for part in judged_plainly for name, places in part.items()}
    return findings_by_case | judged(spark, LISTED, tmp_path_factory.mktemp("listed"))


@pytest.mark.parametrize("name", [*CASES, *READERS, *LISTED])
def test_names_each_anomaly_once(findings_by_case: dict[str, Findings], name: str) -> None:
    sentence, _, expected = (CASES | READERS | LISTED)[name]
    assert findings_by_case[name] == expected, sentence


def test_right_record_in_the_wrong_partition(spark: Any, tmp_path: Path) -> None:
    """One finding where the record lies; its absence at home is not a loss besides."""
    history = kept(3).send(3, offset=3, partition=1, topic="t").logs([*FOUR[:3], (3, 3)]).write(tmp_path)
    judgement = judge_import(spark, history)
    assert judgement.findings_by_class == {"misrouted": 1}
    assert judgement.fates == {"kept": 3, "misrouted": 1}
    assert [(f["partition"], f["offset"], f["seq"]) for f in judgement.findings] == [(0, 3, 3)]


def test_an_empty_history_never_passes(spark: Any, tmp_path: Path) -> None:
    assert judge_import(spark, History().write(tmp_path)).verdict == "unknown"


def test_a_poll_that_returned_nothing_is_nothing(spark: Any, tmp_path: Path) -> None:
    history = kept().logs(FOUR)
    history.rows["reads"] = []
    assert judge_import(spark, history.write(tmp_path)).verdict == "as declared"

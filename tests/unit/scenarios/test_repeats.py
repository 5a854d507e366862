"""The tables of repeated runs in `docs/repeats.md` and `docs/repeats-kraft.md`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.errors import BadDataError
from scenarios import repeats
from studies.series.summary import AS_SAID, OTHERWISE, RunSummary

CLAIMS = {"a": "confirmed", "b": "confirmed", "c": "confirmed"}
GOOD = RunSummary(
    scenario="no-fault",
    version="2.7.1",
    mode="zookeeper",
    verdict="as declared",
    seconds=12.4,
    claims=CLAIMS,
    folder="runs/no-fault/1",
)


def test_rows_of_several_rounds_add_up() -> None:
    """There are three runs, and a claim that did not always hold is named."""
    other = replace(GOOD, folder="2", lost=4, ended="2026-01-02T00:00:00+00:00")
    third = replace(GOOD, folder="3", claims={**CLAIMS, "b": "refuted"})
    text = repeats.table([GOOD, other, third])
    assert "3 runs, 2026-01-02; 3 of them as declared." in text
    assert "| no-fault | 2.7.1 | zookeeper | 3 | 3/3 as declared | 2 | no: b | 2 / 1; 3 / 0 | 0–4 |" in text
    crashed = replace(GOOD, verdict="crashed", folder="4", claims={})
    assert "| 1 | crashed | 1 | – |" in repeats.table([crashed])


def test_which_of_two_outcomes_occurred_is_counted() -> None:
    """Both confirm the claim, so only this tells them apart; rows of earlier releases do not say it."""
    said = [replace(GOOD, folder=str(n), outcomes={"b": AS_SAID}) for n in range(2)]
    text = repeats.table([*said, replace(GOOD, folder="3", outcomes={"b": OTHERWISE}), GOOD])
    assert "| 4 | 4/4 as declared | 4 | yes; b as said 2, otherwise 1 | 3 / 0 |" in text


def test_lines_of_runs_that_no_file_has_stay() -> None:
    """The runs of earlier rounds count on, although their files are gone."""
    older = replace(
        GOOD, scenario="canary", verdict="violated", folder="5", ended="2026-01-01T00:00:00+00:00"
    )
    first = repeats.table([GOOD, replace(GOOD, folder="2"), older, replace(older, folder="6")])
    page = f"{repeats.BEGIN}\n\n{first}\n\n{repeats.END}"
    more = [replace(GOOD, folder=str(number), ended="2026-02-03T00:00:00+00:00") for number in (7, 8, 9)]
    text = repeats.table(more, repeats.kept(page, more))
    assert "5 runs, 2026-01-01 to 2026-02-03; 3 of them as declared." in text
    assert [line for line in text.splitlines() if line.startswith("| canary")] == [
        line for line in first.splitlines() if line.startswith("| canary")
    ]
    assert "| no-fault | 2.7.1 | zookeeper | 3 | 3/3 as declared |" in text
    again = repeats.kept(f"{repeats.BEGIN}\n\n{text}\n\n{repeats.END}", [replace(older, folder="x")])
    assert (again.runs, again.declared) == (3, 3)


def test_what_is_written_by_hand_around_a_table_stays() -> None:
    """Only the text between the marks is replaced, in both documents."""
    for file in (repeats.CATALOGUE, repeats.VERSIONS):
        text = file.read_text()
        fresh = repeats.with_table(text, "NEW", file.name)
        assert fresh.split(repeats.BEGIN)[0] == text.split(repeats.BEGIN)[0]
        assert fresh.split(repeats.END)[1] == text.split(repeats.END)[1]
        assert f"{repeats.BEGIN}\n\nNEW\n\n{repeats.END}" in fresh
    with pytest.raises(BadDataError, match="lacks the lines"):
        repeats.with_table("", "NEW", "x.md")


def test_runs_are_added_to_lines_whose_files_are_gone() -> None:
    said = [
        replace(GOOD, folder=str(n), lost=n, outcomes={"b": AS_SAID}, ended="2026-01-01T00:00:00+00:00")
        for n in (2, 3)
    ]
    page = f"{repeats.BEGIN}\n\n{repeats.table(said)}\n\n{repeats.END}"
    more = [
        replace(one, folder=f"{one.folder}b", lost=7, seconds=20.0, ended="2026-02-03T00:00:00+00:00")
        for one in said
    ]
    text = repeats.table(more, repeats.kept(page, more), add=True)
    assert "4 runs, 2026-01-01 to 2026-02-03; 4 of them as declared." in text
    assert "| 4 | 4/4 as declared | 4 | yes; b as said 4 | 3 / 0 | 2–7 | 0 | 0 | 12–20 |" in text, text


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (
            replace(GOOD, verdict="violated", lost=9),
            "| 3 | 2/3 as declared, 1/3 violated | 1+ | yes; b as said 2 | 3 / 0 | 2–9 |",
        ),
        (
            replace(GOOD, claims={**CLAIMS, "b": "refuted"}),
            "| 3 | 3/3 as declared | 1+ | no: not known which; b as said 2 | 3 / 0; 2 / 1 | 0–3 |",
        ),
        (
            replace(GOOD, outcomes={"b": OTHERWISE}),
            "| 3 | 3/3 as declared | 3 | yes; b as said 2, otherwise 1 | 3 / 0 | 0–3 |",
        ),
        (
            replace(GOOD, verdict="crashed", claims={}),
            "| 3 | 2/3 as declared, 1/3 crashed | 1+ | yes; b as said 2 | 3 / 0 | 2–3 |",
        ),
    ],
)
def test_runs_with_another_outcome_are_added(other: RunSummary, expected: str) -> None:
    """Nothing of the older runs is dropped."""
    said = [replace(GOOD, folder=str(n), lost=n, outcomes={"b": AS_SAID}) for n in (2, 3)]
    page = f"{repeats.BEGIN}\n\n{repeats.table(said)}\n\n{repeats.END}"
    more = [replace(other, folder="9", ended="2026-02-03T00:00:00+00:00")]
    assert expected in repeats.table(more, repeats.kept(page, more), add=True)


def test_runs_are_added_to_a_line_of_runs_that_differed() -> None:
    differing = replace(GOOD, claims={**CLAIMS, "b": "refuted"}, folder="3")
    page = f"{repeats.BEGIN}\n\n{repeats.table([GOOD, differing])}\n\n{repeats.END}"
    more = [replace(GOOD, folder=str(n), ended="2026-02-03T00:00:00+00:00") for n in (7, 8)]
    text = repeats.table(more, repeats.kept(page, more), add=True)
    assert "| 4 | 4/4 as declared | 2+ | no: b | 2 / 1; 3 / 0 |" in text, text
    again = f"{repeats.BEGIN}\n\n{text}\n\n{repeats.END}"
    assert "| 5 | 5/5 as declared | 1+ | no: b |" in repeats.table(
        [replace(GOOD, folder="10")], repeats.kept(again, [GOOD]), add=True
    )


def test_runs_with_another_number_of_claims_are_not_added() -> None:
    """The scenario is not the same any more."""
    page = f"{repeats.BEGIN}\n\n{repeats.table([GOOD, replace(GOOD, folder='2')])}\n\n{repeats.END}"
    more = [replace(GOOD, folder="9", claims={"a": "confirmed"})]
    text = repeats.table(more, repeats.kept(page, more), add=True)
    assert "| no-fault | 2.7.1 | zookeeper | 1 | as declared | 1 | yes | 1 / 0 |" in text, text

"""Findings about consumer groups: commits, positions and stalls of groups, partitions with two owners."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.independent import positions
from tests.independent.model import Finding, History, Row


def findings(history: History) -> Counter[Finding]:
    """Findings that rest on `groups` alone, because no history made here has views of the offsets topic."""
    places: dict[tuple[str, str, int], list[Row]] = {}
    for row in sorted(history.get("groups", ()), key=lambda row: int(row["ns"])):
        if row.get("topic") is not None and row.get("partition") is not None:
            places.setdefault((row["group"], row["topic"], row["partition"]), []).append(row)
    findings_of_groups: Counter[Finding] = Counter()
    for (group, topic, partition), rows in places.items():
        # `one finding for each cause`, and there are no views here that would tell causes apart
        answers = [*old_answers(rows, history)]
        for name in {name for name, _ in answers}:
            _, offset = max(commit for one, commit in answers if one == name)
            findings_of_groups[Finding(name, topic, partition, offset)] += 1
        for position, _ in positions.resets(history, (topic, partition), group):
            findings_of_groups[Finding("group_reset", topic, partition, position)] += 1
        findings_of_groups[Finding("group_stalled", topic, partition)] += positions.stalls(
            history, (topic, partition), group
        )
        findings_of_groups[Finding("double_ownership", topic, partition)] += sum(
            1 for _ in double_owners(rows)
        )
    return +findings_of_groups


def old_answers(rows: list[Row], history: History) -> Iterator[tuple[str, tuple[int, int]]]:
    """Answers that are too old: the class, and the newest commit that each does not know."""
    commits, answers = _commits_and_answers(rows)
    for answer in answers:
        if verdict := _old_answer(commits, answers, answer, history):
            yield verdict


def of_answer(rows: list[Row], answer: Row, history: History) -> str:
    """The class of what is wrong with one answer; empty if nothing is."""
    verdict = _old_answer(*_commits_and_answers(rows), answer, history)
    return verdict[0] if verdict else ""


def _commits_and_answers(rows: list[Row]) -> tuple[list[Row], list[Row]]:
    commits = [
        r for r in rows if r["event"] in ("committed", "commit_failed") and r.get("offset") is not None
    ]
    # `An answer without asked_ns, or with an error, proves nothing.`
    answers = [
        r
        for r in rows
        if r["event"] in ("fetched", "assigned") and r.get("asked_ns") is not None and not r.get("error")
    ]
    return commits, answers


def _old_answer(
    commits: list[Row], answers: list[Row], answer: Row, history: History
) -> tuple[str, tuple[int, int]] | None:
    value = -1 if answer.get("offset") is None else answer["offset"]
    same = [c for c in commits if c["offset"] == value and (c.get("asked_ns") or -1) <= answer["ns"]]
    missed = [
        commit
        for commit in commits
        if commit["event"] == "committed"
        and commit["offset"] > value
        and commit["ns"] < answer["asked_ns"]
        and all(certainly_later(commit, other) for other in same)
    ]
    if not missed:
        return None
    newest = max(missed, key=lambda commit: int(commit["ns"]))
    # `no later answer names the offset`
    again = [a for a in answers if a["asked_ns"] > answer["ns"] and a.get("offset") == newest["offset"]]
    gone = "offset_expired" if positions.expired(history, newest, answer) else "commit_lost"
    return "stale_offset" if again else gone, (newest["ns"], newest["offset"])


def certainly_later(commit: Row, other: Row) -> bool:
    """`if it was asked for after the other one's acknowledgement`; without one it may come at any time."""
    asked = commit.get("asked_ns")
    return other["event"] == "committed" and asked is not None and asked > other["ns"]


def double_owners(rows: list[Row]) -> Iterator[tuple[Row, Row]]:
    """`Each pair of assignments of different members that overlap`."""
    owned = []
    for number, row in enumerate(rows):
        if row["event"] != "assigned":
            continue
        end = row["ns"]
        for later in rows[number + 1 :]:
            if later["reader"] == row["reader"]:
                if later["event"] == "assigned":
                    break
                end = later["ns"]
                if later["event"] in ("revoked", "lost"):
                    break
        owned.append((row, end))
    for number, (one, end) in enumerate(owned):
        for other, _ in owned[number + 1 :]:
            if one["reader"] != other["reader"] and other["ns"] < end:
                yield one, other

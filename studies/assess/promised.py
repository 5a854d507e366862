"""What Kafka promised about the messages of a run, whether any was lost or not.

A fault that loses nothing keeps a promise only where there was one. The table of promises
(`checkers.promises`) judges findings. This module assumes that a message of each producer setting in each
partition, acknowledged just before the fault, is lost, and judges that finding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from checkers.evidence import Evidence, Row, gather
from checkers.promises.facts import RunFacts, facts_of
from checkers.promises.judging import PromiseJudgement, judge
from checkers.run_folder import read_manifest
from checkers.tables.output import FINDING
from checkers.tables.source import Source, read_small
from harness.errors import json_object

_OUTCOMES = {"broken": "kept", "not promised": "not promised", "unknown": "unknown"}
"""The judgement of a lost message → that of a message that is not lost."""
_WORST = ("not promised", "unknown", "kept")


def promised(run: str, folder: Path, source: Source) -> list[dict[str, Any]]:
    """A row for each topic, place of the leaders and producer setting: `promise` and `promise_row`.

    `promise` is `kept` where Kafka promises to keep a message that was acknowledged before this fault;
    `not promised` where it does not for some partition; `unknown` where the history does not decide.
    ``run`` names the run, and ``folder`` holds it.
    """
    evidence = gather(source)
    manifest = read_manifest(str(folder))
    facts = facts_of(evidence, kafka=manifest.kafka, mode=manifest.mode)
    by_place: dict[tuple[str, str, str], PromiseJudgement] = {}
    for place, finding in _hypotheses(read_small(source, "marks").to_pylist(), evidence, facts):
        judged = judge(finding, facts)
        first = by_place.setdefault(place, judged)
        if _rank(judged) < _rank(first):
            by_place[place] = judged
    return [
        {
            "run": run,
            "topic": topic,
            "led": led,
            "setting": setting,
            "promise": _OUTCOMES[judged.promise],
            "promise_row": judged.row,
        }
        for (topic, led, setting), judged in by_place.items()
    ]


def _rank(judged: PromiseJudgement) -> int:
    return _WORST.index(_OUTCOMES[judged.promise])


def _hypotheses(
    marks: Sequence[Row], evidence: Evidence, facts: RunFacts
) -> Iterator[tuple[tuple[str, str, str], Mapping[str, Any]]]:
    """Described topic, place of the leader and producer setting, with a finding that one message is lost."""
    begin = min((int(mark["ns"]) for mark in marks if mark["name"] == "begin"), default=0)
    writers: dict[str, int] = {}
    for number, writer in sorted(evidence.writers.items()):
        writers.setdefault(str(writer["name"]).rpartition("-")[2], number)
    for mark in marks:
        stated = json_object(mark["facts"] or "{}", "facts of marks")
        if "led" not in stated:
            continue
        led, topic, partition, described = (stated[key] for key in ("led", "topic", "partition", "described"))
        state = facts.state_at(topic, int(partition), begin)
        for setting, number in writers.items():
            yield (
                (described, led, setting),
                {
                    **dict.fromkeys(FINDING.names),
                    "class": "lost",
                    "topic": topic,
                    "partition": int(partition),
                    "writer": number,
                    "acked_by": None if state is None else state.leader,
                    "acked_ns": begin,
                },
            )

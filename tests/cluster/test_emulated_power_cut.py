"""An emulated power cut loses what a real one would, but no message flushed before its acknowledgement."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cluster.conftest import acked, left_on_machine

CASE = '''
"""Nodes that are broker and controller lose their power, all at once."""

from concurrent.futures import ThreadPoolExecutor

from checkers.claims.builders import both, messages, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.stage import Stage
from run.scenario import Claim, Expected, Scenario
from scenarios.steps import settle

NODES = ("broker1", "broker2", "broker3")
FLUSHED, CACHED = "flushed", "cached"


def body(stage: Stage) -> None:
    for topic in (FLUSHED, CACHED):
        producer = stage.producer("az1", topic, "broker1", acks=-1)
        for label in ("a", "b", "c"):
            producer.send(topic, label)
    stage.nemesis.storage.power_cut(*NODES, how="emulated")
    stage.mark("dark", "all nodes have lost their power")
    with ThreadPoolExecutor(len(NODES)) as starting:
        list(starting.map(stage.restart, NODES))
    for topic in (FLUSHED, CACHED):
        settle(stage, topic, mark=f"{topic}-converged")


SCENARIO = Scenario(
    name="combined-power-cut",
    title="Combined nodes lose their power",
    article="own",
    section="",
    kafka="3.9.1",
    mode="kraft-combined",
    body=body,
    setup=Setup(
        topics=(
            Topic(FLUSHED, (1, 2, 3), config={"flush.messages": "1"}),
            Topic(CACHED, (1, 2, 3)),
        ),
        stream_rate=0.0,
    ),
    claims=(
        Claim(
            name="topics-there",
            section="",
            says="The metadata survives: voters flush it before they acknowledge it.",
            holds=both(*(partition(t).has_isr(1, 2, 3, at=f"{t}-converged") for t in (FLUSHED, CACHED))),
        ),
        Claim(
            name="kept",
            section="",
            says="What was flushed survives.",
            holds=messages(FLUSHED).kept(at_least=3),
        ),
        Claim(
            name="lost",
            section="",
            says="What was only in memory does not.",
            holds=messages(CACHED).acknowledged_then_lost(at_least=3),
        ),
    ),
    expected=(Expected("lost", messages(CACHED).where, "it was in memory only"),),
    faults=("power cut of all nodes",),
    outcome="the metadata and the flushed topic survive",
)
'''

pytestmark = pytest.mark.cluster


@pytest.mark.long
def test_what_was_flushed_survives_and_nothing_else(tmp_path: Path) -> None:
    """Metadata of a KRaft quorum and a topic with `flush.messages=1`, beside a topic without as a control."""
    file = tmp_path / "case.py"
    file.write_text(CASE)
    done = acked("run", file, "--runs", tmp_path / "runs", "--json")
    judgement = json.loads(done.stdout)
    assert judgement["verdict"] == "as declared", (judgement["reasons"], done.stderr)
    assert {one["name"]: one["status"] for one in judgement["claims"]} == dict.fromkeys(
        ("topics-there", "kept", "lost"), "confirmed"
    )
    (fault,) = (one for one in {row["cause_facts"] for row in judgement["findings"]} if one)
    assert "(emulated)" in fault
    assert left_on_machine(tmp_path) == []

"""The dashboard of `examples/` asks for what acked tells collectors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

from harness.kafka.model import PartitionState, TopicPartition
from report.soak import openmetrics as of_soak
from run.metrics import Standing, openmetrics
from run.soak.judge import Live
from workloads.protocol.results import StreamCounts

FILE = Path(__file__).parents[3] / "examples" / "grafana.json"
DASHBOARD = json.loads(FILE.read_text(encoding="utf-8"))


STATE = PartitionState(leader=1, leader_epoch=2, isr=(1,), replicas=(1, 2))


def told() -> Mapping[str, set[str]]:
    """Names of samples, and the labels of each, as the endpoint of a run and a soak print them."""
    standing = Standing(
        outcomes={"p": StreamCounts(sent=9, ok=5, fail=1, info=2, running=True)},
        throttled_ms={"p": 70},
        answers=[({"broker": 1}, True)],
        partitions={TopicPartition("t", 0): STATE},
    )
    soak = Live(lost={1: 1}, duplicated={1: 1})
    lines = [*openmetrics({"canary/one": standing}).splitlines(), *of_soak(soak).splitlines()]
    samples = [re.fullmatch(r"(\w+)(\{.*\})? \S+", line) for line in lines if not line.startswith("#")]
    return {one[1]: set(re.findall(r'(\w+)="', one[2] or "")) for one in samples if one}


def expressions() -> Iterator[tuple[str, str]]:
    """Of each query its text, and the legend."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"], target["legendFormat"]


def test_every_query_names_metrics_and_labels_that_there_are() -> None:
    samples, asked = told(), set()
    for text, legend in expressions():
        names = set(re.findall(r"\backed_\w+", text))
        assert names and names <= samples.keys(), text
        asked |= names
        labels = set.intersection(*(samples[name] for name in names))
        wanted = re.findall(r"(\w+)(?:=~|!=|=)\"", text) + re.findall(r"\{\{(\w+)\}\}", legend)
        for grouped in re.findall(r"by \(([^)]*)\)", text):
            wanted += grouped.split(", ")
        assert set(wanted) <= labels, text
    unused = {name for name in samples if "windows" not in name} - asked
    assert unused == {"acked_soak_rest", "acked_soak_received_total", "acked_soak_records_deleted_total"}
    (variable,) = (one for one in DASHBOARD["templating"]["list"] if one["name"] == "run")
    assert variable["query"]["query"] == "label_values(acked_messages_total, run)"


def test_counters_of_runs_are_asked_for_their_rate() -> None:
    for text, _ in expressions():
        for name in re.findall(r"\backed_\w+", text):
            is_counter = name.endswith("_total") and not name.startswith("acked_soak_")
            assert is_counter == (f"rate({name}" in text), text


def overlap(one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    return all(
        one[at] < other[at] + other[size] and other[at] < one[at] + one[size]
        for at, size in (("x", "w"), ("y", "h"))
    )


def test_panels_have_their_own_places_and_one_data_source() -> None:
    panels: list[dict[str, Any]] = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [panel["gridPos"] for panel in panels]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    assert not any(overlap(*pair) for pair in combinations(places, 2))
    for panel in panels:
        sources = {json.dumps(one.get("datasource")) for one in (panel, *panel.get("targets", ()))}
        assert panel["type"] == "row" or sources == {'{"type": "prometheus", "uid": "${datasource}"}'}
        assert panel["type"] == "row" or panel["description"].endswith(".")

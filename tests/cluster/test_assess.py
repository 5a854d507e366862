"""A real assessment of two faults: one loses acks=1 messages and stops writes, the other costs nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import acked

pytestmark = [pytest.mark.cluster, pytest.mark.long]


def test_two_faults(tmp_path: Path) -> None:
    """On one cluster; what `acked sql` answers to a stored query is what the table says."""
    faults = "isolate-az1.roles-az2,kill-zookeeper1.roles-elsewhere,delay-broker1.*"
    done = acked("assess", "--faults", faults, "--parallel", "1", "--runs", tmp_path, "--json")
    assert done.status == 0, done.stderr
    document = json.loads(done.stdout)
    lines = {(line["case"], line["led"]): line for line in document["lines"]}
    isolated = lines["isolate-az1.roles-az2", "inside"]
    described, unsafe = isolated["settings"]["acks=all"], isolated["settings"]["acks=1"]
    assert (described["outcome"], unsafe["outcome"]) == ("kept", "lost")
    assert described["writes"]["az1"]["until_heal"]
    assert described["writes"]["az2"]["seconds"] > 1
    # The cut begins just after a ping, so that the session lasts for the whole of its 4 s.
    assert isolated["failover_s"] > 3 and isolated["recovery_s"] is not None
    killed = lines["kill-zookeeper1.roles-elsewhere", "outside"]
    assert all(setting["outcome"] == "kept" for setting in killed["settings"].values())
    assert {line["status"] for line in document["lines"]} <= {"measured", "unfit"}
    manifests = [json.loads(file.read_text()) for file in tmp_path.glob("assess/*/runs/*/latest/run.json")]
    assert len(manifests) == 2 and len({manifest["cluster"] for manifest in manifests}) == 1
    home = {f"broker{number}": [f"zookeeper{number}"] for number in (1, 2, 3)}
    assert [manifest["zookeeper_sessions"] for manifest in manifests] == [home, home]
    assert (described["promise"], unsafe["promise"]) == ("kept", "not promised")
    (folder,) = (tmp_path / "assess").iterdir()
    assert json.loads((folder / "assessment.json").read_text()) == document
    asked = acked("sql", document["queries"]["messages"], folder / "runs", "--json")
    lost = [
        row["lost"]
        for row in json.loads(asked.stdout)
        if row["run"] == isolated["runs"][0] and (row["led"], row["setting"]) == ("inside", "acks=1")
    ]
    assert lost == [unsafe["lost"]]
    _require_one_verdict(folder, document)


def _require_one_verdict(folder: Path, document: Mapping[str, Any]) -> None:
    """The losses of the comparison producer are not promised: terminal, page, check and list say the same."""
    assert (document["verdict"], document["exit_code"], document["not_as_declared"]) == ("as declared", 0, [])
    for run in folder.glob("runs/*/latest"):
        checked = acked("check", run, "--json")
        assert checked.status == 0, checked.stderr
        assert json.loads((run / "judgement.json").read_text())["verdict"] == "as declared"
        assert acked("report", run).status == 0
        page = (run / "report.html").read_text()
        assert "Kafka kept what it promises" in page
        assert "that the scenario does not declare" not in page


CLUSTER = """
[[az]]
name = "a"

[[az]]
name = "b"

[[az]]
name = "c"

[topic.orders]
partitions = 7

[topic.single]
partitions = 1

[topic.single-too]
partitions = 1
"""


def test_described_partitions(tmp_path: Path) -> None:
    """Topics have them, all brokers lead some, and topics that are described alike are one."""
    file = tmp_path / "cluster.toml"
    file.write_text(CLUSTER)
    done = acked("assess", file, "--faults", "isolate-a.roles-b", "--runs", tmp_path, "--json")
    assert done.status in (0, 2), done.stderr  # which broker acknowledged a message may stay unknown
    document = json.loads(done.stdout)
    assert document["header"]["topic orders"].startswith("7 partitions, ")
    assert document["header"]["topic single"].endswith("described alike: single-too")
    led = {line["led"]: line for line in document["lines"]}
    of_topics = {(topic["topic"], led): topic for led, line in led.items() for topic in line["topics"]}
    assert {key: topic["partitions"] for key, topic in of_topics.items()} == {
        ("orders", "inside"): 3,
        ("orders", "outside"): 4,
        ("single", "inside"): 1,
    }
    lost = of_topics["orders", "inside"]["settings"]["acks=1"]["lost"]
    assert lost > of_topics["single", "inside"]["settings"]["acks=1"]["lost"] > 0

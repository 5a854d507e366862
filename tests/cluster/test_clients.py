"""Client programs on a real cluster: liars are caught, honest ones pass, and a failing one is named."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cluster.conftest import acked

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "clients" / "python_client.py"
LIAR = HERE / "lying_client.py"
PROGRAM = HERE.parent / "unit" / "workloads" / "program.py"

pytestmark = [pytest.mark.cluster, pytest.mark.long]


def test_every_lie_of_a_client_is_caught(tmp_path: Path) -> None:
    """Five lies in five operations; the other operations, of the same honest code, are fine."""
    done = acked("client", "check", f"{sys.executable} {LIAR}", "--runs", tmp_path, "--json")
    assert done.status == 1, done.stderr
    lies = {(one["operation"], one["sentence"].partition(": ")[2]) for one in done.json()["objections"]}
    assert lies == {
        ("acks-one", "acknowledged, but in no log"),
        ("refused", "acknowledged, but in no log"),
        ("plain", "acknowledged with an offset at which the log holds something else"),
        ("stream", "sent, but the program never reported an outcome"),
        ("unanswered", "reported as definitely not written (`fail`), but in the log"),
    }


@pytest.mark.parametrize("client", ["java", f"{sys.executable} {EXAMPLE}"], ids=["java", "python"])
def test_honest_clients_pass(tmp_path: Path, client: str) -> None:
    done = acked("client", "check", client, "--runs", tmp_path, "--json")
    assert (done.status, done.json()["objections"]) == (0, []), done.stderr
    manifest = json.loads((tmp_path / "client-check" / "latest" / "run.json").read_text())["client"]
    assert manifest["ready_s"] < 20
    assert manifest["version"] == "3.9.1" or "python" in client
    assert done.json()["skipped"] == ([] if client == "java" else ["transactions", "offsets", "member"])


def test_a_client_that_breaks_off_makes_the_run_invalid(tmp_path: Path) -> None:
    done = acked("run", "canary", "--client", f"{sys.executable} {PROGRAM} dies", "--runs", tmp_path)
    assert done.status == 2, done.stderr
    assert "ended by itself (exit status 7)" in done.stderr + done.stdout

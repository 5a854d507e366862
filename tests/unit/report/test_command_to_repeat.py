"""The command on the page repeats the run that the page shows."""

from __future__ import annotations

import pytest

from cli.commands import loaded
from report.model import command
from report.model.command import command_to_repeat

FACTS = {"kafka": "2.7.1", "mode": "zookeeper", "lab": "embedded"}
PLACED = "--kafka 2.7.1 --mode zookeeper --lab embedded"


@pytest.mark.parametrize(
    ("given", "repeats"),
    [
        ("", f"acked run canary {PLACED}"),
        ("acked run canary --runs /tmp/x --json -q", f"acked run canary {PLACED}"),
        ("acked run canary --rate 500", f"acked run canary --rate 500 {PLACED}"),
        (
            "acked run canary --mode=zookeeper",
            "acked run canary --mode zookeeper --kafka 2.7.1 --lab embedded",
        ),
        (
            "acked run --all --filter 'c*' --repeat 10 --parallel 3 --set broker.a=1 --set 'topic.t.b=2 3'",
            f"acked run canary --set broker.a=1 --set 'topic.t.b=2 3' {PLACED}",
        ),
        ("acked run canary --force --client java", f"acked run canary --force --client java {PLACED}"),
        (
            "acked run canary --kafka-home /k",
            "acked run canary --kafka-home /k --mode zookeeper --lab embedded",
        ),
        ("acked matrix --filter canary --set broker.a=1", f"acked run canary {PLACED}"),
        ("acked run 'no end of quotes", f"acked run canary {PLACED}"),
    ],
)
def test_settings_stay_and_output_goes(given: str, repeats: str) -> None:
    assert command_to_repeat({**FACTS, "made_by": {"command": given}}, "canary") == repeats


def test_scenario_of_a_file_is_named_by_its_file() -> None:
    file = {"path": "/my folder/case.py", "sha256": "0", "module": ""}
    command = command_to_repeat({**FACTS, "scenario_file": file}, "my-case")
    assert command == f"acked run '/my folder/case.py:my-case' {PLACED}"
    of_a_package = command_to_repeat({**FACTS, "scenario_file": {**file, "module": "theirs"}}, "my-case")
    assert of_a_package == f"acked run my-case {PLACED}"


def test_every_flag_of_the_command_is_known() -> None:
    """The word after an unknown flag would be taken for its value."""
    run = loaded("run")
    flags = {
        name
        for param in run.params
        if getattr(param, "is_flag", False)
        for name in (*param.opts, *param.secondary_opts)
    }
    assert flags == command._FLAGS | command._FLAGS_OF_OUTPUT

"""The workflows of CI are valid, pin their actions, have few permissions, and no expressions in scripts."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
WRITES = {("nightly.yml", "report"): {"issues"}}
"""What jobs may write."""


def load(text: str) -> dict[str, Any]:
    """A workflow as data."""
    loaded: dict[str, Any] = YAML(typ="safe").load(text)
    return loaded


def problems(name: str, text: str) -> list[str]:
    """What is unsafe in a workflow."""
    found = []
    workflow = load(text)
    if workflow.get("permissions") != {"contents": "read"}:
        found.append("the workflow may do more than read")
    for job_name, job in workflow["jobs"].items():
        granted = {key for key, value in job.get("permissions", {}).items() if value == "write"}
        if granted - WRITES.get((name, job_name), set()):
            found.append(f"{job_name} may write {granted}")
        if "timeout-minutes" not in job:
            found.append(f"{job_name} has no limit of time")
        for step in job["steps"]:
            if "uses" in step and not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", step["uses"]):
                found.append(f"{step['uses']} is not pinned by hash")
            if "${{" in step.get("run", ""):
                found.append(f"a script of {job_name} contains an expression")
            target = re.match(r"make (\S+)", step.get("run", ""))
            if target and not re.search(rf"^{target[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE):
                found.append(f"there is no target {target[1]}")
    return found


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_workflows_are_safe(file: Path) -> None:
    assert problems(file.name, file.read_text()) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("@11bd71901bbe5b1630ceea73d27597364c9af683", "@v4", "actions/checkout@v4 is not pinned by hash"),
        ("run: make nightly\n", "run: make nightly S=${{ inputs.lab }}\n", "a script of run contains"),
        ("    timeout-minutes: 90\n", "", "run has no limit of time"),
        ("  contents: read\n\nconc", "  contents: write\n\nconc", "the workflow may do more than read"),
        ("      actions: read # to", "      actions: write # to", "run may write {'actions'}"),
        ("run: make nightly\n", "run: make night\n", "there is no target night"),
    ],
)
def test_unsafe_workflows_are_noticed(old: str, new: str, problem: str) -> None:
    text = (ROOT / ".github" / "workflows" / "nightly.yml").read_text()
    assert old in text
    assert any(one.startswith(problem) for one in problems("nightly.yml", text.replace(old, new)))


def check(*files: Path) -> subprocess.CompletedProcess[str]:
    """Check workflows by their schema, which the package holds."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
    return subprocess.run([*command, *map(str, files)], capture_output=True, text=True, check=False)


def test_workflows_follow_the_schema(tmp_path: Path) -> None:
    assert check(*WORKFLOWS).returncode == 0, check(*WORKFLOWS).stdout
    broken = tmp_path / "broken.yml"
    broken.write_text(WORKFLOWS[0].read_text().replace("runs-on:", "run-on:"))
    assert check(broken).returncode != 0

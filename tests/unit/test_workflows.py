"""The workflows of CI are valid, pin their actions, have few permissions, and no expressions in scripts."""

from __future__ import annotations

import json
import os
import re
import shutil
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


def check(*files: Path, schema: str = "vendor.github-workflows") -> subprocess.CompletedProcess[str]:
    """Check workflows by their schema, which the package holds."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema]
    return subprocess.run([*command, *map(str, files)], capture_output=True, text=True, check=False)


def test_workflows_follow_the_schema(tmp_path: Path) -> None:
    assert check(*WORKFLOWS).returncode == 0, check(*WORKFLOWS).stdout
    broken = tmp_path / "broken.yml"
    broken.write_text(WORKFLOWS[0].read_text().replace("runs-on:", "run-on:"))
    assert check(broken).returncode != 0


def recipe(language: str) -> str:
    """The block of a language in docs/ci.md."""
    (block,) = re.findall(rf"^```{language}\n(.*?)^```", (ROOT / "docs" / "ci.md").read_text(), re.M | re.S)
    return str(block)


def test_the_recipe_for_gitlab_follows_the_schema(tmp_path: Path) -> None:
    file = tmp_path / "gitlab.yml"
    file.write_text(recipe("yaml"))
    done = check(file, schema="vendor.gitlab-ci")
    assert done.returncode == 0, done.stdout
    file.write_text(recipe("yaml").replace("stage: night", "stages: night"))
    assert check(file, schema="vendor.gitlab-ci").returncode != 0


@pytest.mark.parametrize("language", ["yaml", "groovy"])
def test_recipes_run_targets_and_settings_that_there_are(language: str) -> None:
    """Each `make` target, each variable of the nightly job and each file that a recipe names."""
    text, makefile = recipe(language), (ROOT / "Makefile").read_text()
    script = (ROOT / "harness" / "nightly.sh").read_text()
    targets = re.findall(r"(?:^ *- |[A-Z]=\S+ |')make ([a-z-]+)", text, re.MULTILINE)
    assert "nightly" in targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    settings = re.findall(r"\b([A-Z_]{4,})=", text) + re.findall(r"name: '([A-Z_]+)'", text)
    assert "KEEP_MB" in settings
    for setting in settings:
        assert re.search(rf"\$\{{?{setting}\b", script), setting


FAKE_GH = """#!{python}
import json, os, subprocess, sys
words = sys.argv[1:]
with open(os.environ["CALLS"], "a") as calls:
    calls.write(json.dumps(words) + "\\n")
if words[:2] in (["issue", "list"], ["run", "list"]):
    query = words[words.index("--jq") + 1]
    sys.exit(subprocess.run(["jq", "-r", query], input=os.environ["ANSWER"].encode()).returncode)
if words[:2] == ["run", "download"]:
    if words[2] not in os.environ.get("KEPT", "").split(","):
        sys.exit("no artifact matches any of the names or patterns provided")
    with open(os.path.join(words[words.index("--dir") + 1], "runs.jsonl"), "w") as file:
        file.write("of " + words[2])
for name in ("--body-file",):
    if name in words:
        sys.stdout.write(open(words[words.index(name) + 1]).read())
"""


def script(
    tmp_path: Path, name: str, argument: Path, answer: object, **settings: str
) -> tuple[str, list[Any]]:
    """Run a script with a `gh` that answers ``answer``; returns the output and the calls of `gh`."""
    if shutil.which("jq") is None:
        pytest.skip("needs jq, to do what `gh --jq` does")
    gh = tmp_path / "bin" / "gh"
    gh.parent.mkdir(exist_ok=True)
    gh.write_text(FAKE_GH.format(python=sys.executable))
    gh.chmod(0o755)
    calls = tmp_path / "calls"
    calls.write_text("")
    done = subprocess.run(
        ["bash", ROOT / ".github" / name, argument],
        env={
            **os.environ,
            "PATH": f"{gh.parent}:{os.environ['PATH']}",
            "GITHUB_REPOSITORY": "an/acked",
            "PAGE": "https://night",
            "CALLS": str(calls),
            "ANSWER": json.dumps(answer),
            **settings,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, [json.loads(line) for line in calls.read_text().splitlines()]


NOTICE = {"number": 7, "title": "The nightly job fails"}
OTHER = {"number": 3, "title": "The nightly job fails on ARM"}


@pytest.mark.parametrize(
    ("outcome", "issues", "wanted"),
    [
        ("success", [], None),
        ("success", [OTHER], None),
        ("success", [OTHER, NOTICE], ["issue", "close", "7"]),
        ("failure", [OTHER], ["issue", "create", "--title"]),
        ("cancelled", [NOTICE], ["issue", "comment", "7"]),
    ],
)
def test_there_is_one_notice_as_long_as_the_night_fails(
    tmp_path: Path, outcome: str, issues: list[Any], wanted: list[str] | None
) -> None:
    """It is opened, gets a comment or is closed; other issues are left alone."""
    summary = tmp_path / "summary.md"
    summary.write_text("1 violated" + "x" * 100_000)
    said, calls = script(tmp_path, "notice.sh", summary, issues, OUTCOME=outcome)
    assert [call[:3] for call in calls[1:]] == ([] if wanted is None else [wanted])
    if outcome != "success":
        assert said.startswith("https://night\n\n1 violated")
        assert len(said) < 65_536, "GitHub takes no longer text"


def test_a_night_without_a_summary_is_noticed(tmp_path: Path) -> None:
    said, calls = script(tmp_path, "notice.sh", tmp_path / "none.md", [], OUTCOME="failure")
    assert calls[1][:2] == ["issue", "create"]
    assert "left no summary" in said


@pytest.mark.parametrize(("kept", "found"), [("9", "of 9"), ("8,7", "of 8"), ("", None)])
def test_the_runs_of_the_last_night_that_has_some_are_fetched(
    tmp_path: Path, kept: str, found: str | None
) -> None:
    nights = [{"databaseId": number} for number in (9, 8, 7)]
    said, _ = script(tmp_path, "earlier-runs.sh", tmp_path / "earlier", nights, KEPT=kept)
    file = tmp_path / "earlier" / "runs.jsonl"
    assert (file.read_text() if file.exists() else None) == found
    assert ("There are no runs" in said) == (found is None)


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_artefacts_hold_each_run_once_without_data(file: Path) -> None:
    """Uploads follow links, and the data folders of nodes are the largest part of a run."""
    steps = [step for job in load(file.read_text())["jobs"].values() for step in job["steps"]]
    paths = [step["with"]["path"].split() for step in steps if "upload-artifact" in step.get("uses", "")]
    whole = [path for path in paths if path[0].endswith("/")]
    assert whole
    assert all(path[1:] == [f"!{path[0]}**/data/", f"!{path[0]}**/latest/"] for path in whole)


def test_a_shard_that_failed_without_a_trace_counts_for_the_notice() -> None:
    """The merge does not know of it: the notice asks the job of the shards too."""
    steps = load((ROOT / ".github" / "workflows" / "nightly.yml").read_text())["jobs"]["report"]["steps"]
    (notice,) = [step for step in steps if "notice.sh" in step.get("run", "")]
    assert notice["env"]["OUTCOME"] == "${{ job.status == 'success' && needs.run.result || job.status }}"


def test_inputs_of_a_job_are_no_text_of_a_command(tmp_path: Path) -> None:
    """`make` hands them on unread: neither the shell nor make carries anything out."""
    evil = f"x'; touch {tmp_path}/shell; '$(shell touch {tmp_path}/make)"
    names = ("SCENARIOS", "VERSIONS", "REPEAT", "SHARD", "BUDGET", "LAB")
    done = subprocess.run(
        ["make", "--no-print-directory", "-o", "setup", "nightly"],
        cwd=ROOT,
        env={**os.environ, **dict.fromkeys(names, evil), "NIGHT": str(tmp_path / "night")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "acked" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["night"]

"""The training run for class-data archives: what fails in it is one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.artifacts import training_run
from harness.artifacts.training_run import TrainingCluster
from harness.errors import ProcessDiedError


@pytest.mark.parametrize(
    ("script", "sentence"),
    [("exec sleep 60", "Tool did not end within 0.2 s."), ("exit 3", "Tool ended with status 3.")],
)
def test_a_tool_that_fails(
    script: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that does not end is killed; its command line, which is long, is not in the message."""
    monkeypatch.setattr(training_run, "START_S", 0.2 if "sleep" in script else 10.0)
    java = tmp_path / "java"
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    (tmp_path / "run" / "broker1").mkdir(parents=True)
    cluster = TrainingCluster(folder=tmp_path, class_path="x.jar", java=str(java), log_syntax="log4j1")
    with pytest.raises(ProcessDiedError) as failed:
        cluster.tool("broker1", "Tool")
    assert failed.value.message == sentence

"""Class-data archives of Spark are kept as long as their installation exists."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from checkers.spark.class_data import prune


def test_archives_of_removed_installations_go(tmp_path: Path) -> None:
    installed = tmp_path / "checkout" / "pyspark.py"
    installed.parent.mkdir()
    installed.touch()
    for name, of in (("one", installed), ("two", installed), ("gone", tmp_path / "removed" / "pyspark.py")):
        (tmp_path / f"classes-4.0-{name}.jsa").touch()
        (tmp_path / f"classes-4.0-{name}.for").write_text(f"{of}\n")
    (tmp_path / "classes-4.0-unknown.jsa").touch()
    (tmp_path / f"classes-4.0-being-made.{os.getpid()}.new").touch()
    (tmp_path / f"classes-4.0-killed.{_an_ended_process()}.new").touch()
    (tmp_path / "log4j2.properties").touch()
    prune(tmp_path)
    left = sorted(path.name for path in tmp_path.iterdir() if path.is_file())
    assert left == [
        f"classes-4.0-being-made.{os.getpid()}.new",
        "classes-4.0-one.for",
        "classes-4.0-one.jsa",
        "classes-4.0-two.for",
        "classes-4.0-two.jsa",
        "log4j2.properties",
    ]


def _an_ended_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        return process.pid

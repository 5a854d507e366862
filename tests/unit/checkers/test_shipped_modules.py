"""What is shipped to the workers of a Spark cluster has every module that it imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from checkers.spark.cluster import pack_project

IMPORTS = """
import importlib, sys, zipfile
shipped = sys.argv[1]
sys.path.insert(0, shipped)
import checkers
assert checkers.__file__.startswith(shipped), checkers.__file__
names = [name for name in zipfile.ZipFile(shipped).namelist() if name.startswith("checkers/")]
for name in sorted(names):
    importlib.import_module(name.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
print(len(names))
"""


def test_every_module_of_the_checker_can_be_imported(tmp_path: Path) -> None:
    """From the archive alone: a package whose first part lies in it has no parts elsewhere."""
    command = [sys.executable, "-I", "-c", IMPORTS, str(pack_project(tmp_path))]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 50

"""Puts the commit into a built package, for `acked --version`. All else is in pyproject.toml."""

import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithCommit(build_py):
    """Writes `harness/COMMIT` where the package is built from a Git checkout."""

    def run(self) -> None:
        """Build, then write the file."""
        super().run()
        command = ("git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
        try:
            folder = Path(__file__).parent
            done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
        except (OSError, subprocess.CalledProcessError):
            return
        if not self.editable_mode:
            (Path(self.build_lib) / "harness" / "COMMIT").write_text(done.stdout)


setup(cmdclass={"build_py": BuildWithCommit})

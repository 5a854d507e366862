"""Executes the notebooks of `examples/notebooks`, about a stored run and a stored assessment.

`python -m tests.notebooks` stores their outputs.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from tests.runs.judged import judged_run

FOLDER = Path(__file__).parents[1] / "examples" / "notebooks"
ASSESSMENT = Path(__file__).parent / "unit" / "cli" / "assessment.json"
RUN = "kraft-leader-az-isolated"
CELL_S = 120
"""How long a cell may take."""


@contextmanager
def shown(scratch: Path) -> Iterator[None]:
    """What the notebooks are about, as the variables by which they find it."""
    run = judged_run(RUN, scratch / RUN / "2026-11-22T01-59-12")
    variables = {"RUN": str(run), "ASSESSMENT": str(ASSESSMENT), "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    variables["IPYTHONDIR"] = variables["MPLCONFIGDIR"] = str(scratch)
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def executed(file: Path) -> Any:
    """The notebook with its outputs. Raises nbclient's CellExecutionError."""
    notebook = nbformat.read(file, as_version=4)
    NotebookClient(notebook, timeout=CELL_S, resources={"metadata": {"path": str(file.parent)}}).execute()
    for cell in notebook.cells:
        cell.metadata.clear()
        for output in cell.get("outputs", ()):
            if "image/svg+xml" in output.get("data", {}):
                output.data = {"image/svg+xml": _same_each_time(output.data["image/svg+xml"])}
    return notebook


def _same_each_time(svg: str) -> str:
    """Without the moment and the program that drew it."""
    return re.sub(r"\s*<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)


def outputs(notebook: Any) -> list[list[Mapping[str, str]]]:
    """Of each cell of code what it printed and returned, by type; of pictures only that there is one."""
    return [
        [
            {"text": one.text}
            if one.output_type == "stream"
            else {kind: "" if kind.startswith("image/") else text for kind, text in one.data.items()}
            for one in cell.outputs
        ]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="acked-notebooks-") as folder, shown(Path(folder)):
        for notebook_file in sorted(FOLDER.glob("*.ipynb")):
            nbformat.write(executed(notebook_file), notebook_file)

"""Cases that share a run: article 001 tells cases of article 000 again, with sentences of its own.

Where body and set-up are the same, one cluster serves both. Each gets a run folder with the same history,
and is judged by its own claims.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from harness.kafka.versions import kafka_version
from harness.run.catalogue import all_scenarios
from harness.run.folder import CLAIMS, RunFolder, write_json
from harness.series.cell import Cell, Ran


def groups(cells: Iterable[Cell]) -> list[tuple[Cell, ...]]:
    """Cells that one run serves, in the order of their first; a repeat of a cell is a run of its own."""
    found: list[list[Cell]] = []
    for cell in cells:
        fitting = (group for group in found if _one_run(group[0], cell) and cell not in group)
        group = next(fitting, None)
        if group is None:
            found.append([cell])
        else:
            group.append(cell)
    return [tuple(group) for group in found]


def _one_run(cell: Cell, other: Cell) -> bool:
    known = all_scenarios()
    one, two = known.get(cell.scenario), known.get(other.scenario)
    return (
        (cell.version, cell.mode) == (other.version, other.mode)
        and one is not None
        and two is not None
        and one.body is two.body
        and one.setup == two.setup
    )


def hand_over(ran: Ran, cell: Cell, runs: Path) -> Ran:
    """A run folder of ``cell`` with the history of a run that serves it; the manifest names it (`run_of`)."""
    source, folder = RunFolder(ran.folder), RunFolder.create(runs, cell.scenario)
    for name in ("journal", "nodes"):
        (folder.path / name).rmdir()
    shutil.copytree(source.path / "history", folder.path / "history", copy_function=_link, dirs_exist_ok=True)
    scenario = all_scenarios()[cell.scenario]
    write_json(folder.path / CLAIMS, scenario.declared(kafka_version(cell.version, force=True).version))
    folder.update(**{**source.manifest(), "scenario": cell.scenario, "run_of": str(source.path)})
    return replace(ran, cell=cell, folder=folder.path)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        shutil.copyfile(source, target)

"""The process of one run of an assessment; the process that started it judges and measures the run.

`python -m harness.assess.cell CASE VERSION MODE LAB FOLDER SETTINGS [CLUSTER_FILE]` runs into a run folder
that exists already. SETTINGS are all that the user has set, as JSON.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

from harness.assess.battery import Case, battery
from harness.assess.body import run_case
from harness.assess.described import for_runs, producers, setup
from harness.cluster.cluster_file import read_cluster_file
from harness.cluster.settings import Settings
from harness.errors import AckedError
from harness.kafka.versions import kafka_version
from harness.lab.embedded.namespaces import die_with_parent
from harness.lab.layout import THREE_AZS, Layout
from harness.lab.model import Topology
from harness.run.folder import RunFolder
from harness.run.runner import RunOptions
from harness.scenario import Scenario
from harness.series.cell import run_in_lab


def scenario(case: Case, topology: Topology, mode: str, settings: Settings) -> Scenario:
    """A case as a scenario; it claims nothing."""
    return Scenario(
        name=case.name,
        title=case.says,
        article="assessment",
        section="",
        body=partial(run_case, case=case, producers=producers(settings)),
        setup=setup(case, topology, settings),
        modes=(mode,),
    )


def main(argv: list[str]) -> int:
    """Run one case; the arguments are those of the module. Returns the exit code."""
    die_with_parent()
    name, version, mode, lab, path, given, *file = argv
    folder = RunFolder.open(Path(path))
    try:
        layout: Layout = read_cluster_file(Path(file[0])).layout if file else THREE_AZS
        topology = layout.topology(mode)
        case = next(case for case in battery(topology, mode) if case.name == name)
        settings = Settings.from_json(json.loads(given))
        options = RunOptions(
            kafka_version(version, force=True), mode, lab, layout=layout, settings=for_runs(settings)
        )
        return run_in_lab(scenario(case, topology, mode, settings), options, folder)
    except AckedError as error:
        folder.update(status="crashed", problem=error.message)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

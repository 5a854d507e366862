"""The process of one run in a series: it runs a scenario; the process that started it judges the run.

`python -m studies.series.cell SCENARIO VERSION MODE LAB FOLDER SETTINGS [CLUSTER_FILE [CLIENT]]` runs into a
run folder that exists already. SETTINGS are all the user's settings, as JSON, or null. An empty CLUSTER_FILE
means none. CLIENT is the library of producers and consumers.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from types import FrameType

from harness.console import Progress
from harness.errors import EXIT_AS_DECLARED, EXIT_INTERRUPTED, AckedError
from harness.kafka.versions import kafka_version
from harness.lab.embedded.namespaces import die_with_parent, run_inside
from run.catalogue import find
from run.client_choice import LIBRDKAFKA, parse_client
from run.folder import RunFolder
from run.runner import RunOptions, run_scenario
from run.scenario import Scenario
from run.scenario_file import kept
from run.session import layout_of, settings_of, with_protocol


def main(argv: list[str]) -> int:
    """Run one cell; the arguments are those of the module. Returns the exit code."""
    die_with_parent()  # so that a killed series leaves no cluster behind
    name, version, mode, lab, path, *given = argv
    folder = RunFolder.open(Path(path))
    try:
        scenario = kept(folder, name) or find(name)
        settings = settings_of(json.loads(given[0]) if given else {})
        layout = layout_of(given[1] if len(given) > 1 and given[1] else None)
        client = parse_client(given[2]) if len(given) > 2 else LIBRDKAFKA
        spec = kafka_version(version, force=True)
        options = RunOptions(
            version=spec, mode=mode, lab=lab, layout=layout, settings=settings, client=client
        )
        return run_in_lab(scenario, options, folder)
    except AckedError as error:
        folder.update(status="crashed", problem=error.message)
        return error.exit_code


def run_in_lab(scenario: Scenario, options: RunOptions, folder: RunFolder) -> int:
    """Run a scenario in this process, without judging it; returns the exit code."""
    if options.lab == "embedded":
        return run_inside(lambda: _run(scenario, options, folder))
    return _run(scenario, options, folder)


def _run(scenario: Scenario, options: RunOptions, folder: RunFolder) -> int:
    signal.signal(signal.SIGTERM, interrupt)
    try:
        result = run_scenario(with_protocol(scenario, options.version), options, folder, Progress())
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    if result.problem is not None:
        sys.stderr.write(f"{result.problem.message}\n{result.problem.detail}\n")
    return EXIT_AS_DECLARED


def interrupt(_number: int, _frame: FrameType | None) -> None:
    """Handle SIGTERM as Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # one signal is enough: the hosts are being taken down
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

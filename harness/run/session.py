"""A whole run as the command line does it: checks beforehand, the run, the judgement, the report."""

from __future__ import annotations

import json
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING

from harness.console import Progress
from harness.errors import EXIT_CRASHED, AckedError, UnfitError
from harness.kafka.versions import kafka_version
from harness.run.folder import CLAIMS, RunFolder
from harness.run.runner import RunOptions, RunResult, run_scenario
from harness.scenario import Scenario
from report import terminal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_AFTER_SCENARIO = ("final logs", "taking down", "history", "judgement")


def prepare(
    scenario: Scenario,
    *,
    lab: str,
    kafka: str = "",
    mode: str = "",
    rate: float | None = None,
    force: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> RunOptions:
    """Check what can be checked before anything starts. Raises UsageError, UnfitError.

    ``force`` tries a Kafka version that is not known; ``say`` hears of a download.
    """
    from harness import artifacts, doctor

    version = kafka_version(kafka or scenario.kafka, force=force)
    wanted_mode = mode or (scenario.mode if scenario.mode in version.modes else version.default_mode)
    version.require_mode(wanted_mode)
    doctor.require(doctor.LABS[lab])
    artifacts.resolve(version, say=say)
    return RunOptions(version, wanted_mode, lab, rate)


def run_and_judge(
    scenario: Scenario, options: RunOptions, folder: RunFolder, progress: Progress, *, as_json: bool
) -> int:
    """Run, judge, report; returns the exit code. Errors are reported here: nothing above us is left.

    Raises KeyboardInterrupt, with everything ended that it had started.
    """
    from harness.cli.main import report_error

    try:
        spark = _Spark(folder)
        result = run_scenario(scenario, options, folder, progress, lab_is_up=spark.start)
        return _judge(result, spark, progress, as_json=as_json)
    except AckedError as error:
        report_error(error, progress.console)
        return error.exit_code
    except Exception as error:  # noqa: BLE001 - nothing above could tell the user more
        report = folder.path / "crash.txt"
        report.write_text(traceback.format_exc())
        folder.update(status="crashed", problem=f"{type(error).__name__}: {error}")
        report_error(
            AckedError(
                f"The harness itself failed ({type(error).__name__}: {error}); please report it together "
                f"with {report}."
            ),
            progress.console,
        )
        return EXIT_CRASHED


class _Spark:
    """The session that will judge: started and warmed up beside the run, from a thread of its own."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._session: Future[SparkSession] = Future()
        self._started = False

    def start(self) -> None:
        """Begin, once there are hosts: namespaces are made from a process that has one thread."""
        self._started = True
        # Nobody waits for this thread at the end: who interrupts a run need not wait for Spark to be warm.
        threading.Thread(target=self._fulfil, name="spark", daemon=True).start()

    def session(self) -> SparkSession:
        """The session, as soon as it is there."""
        if not self._started:
            self.start()
        return self._session.result()

    def _fulfil(self) -> None:
        try:
            self._session.set_result(self._start())
        except BaseException as error:  # noqa: BLE001 - raised again where the session is wanted
            self._session.set_exception(error)

    def _start(self) -> SparkSession:
        from checkers.spark.session import start_session
        from checkers.spark.warm import warm_up

        session = start_session()
        declared = json.loads((self._folder.path / CLAIMS).read_text())
        with suppress(AckedError):  # a claim that cannot be understood is reported by the judgement
            warm_up(session, declared)
        return session


def _judge(result: RunResult, spark: _Spark, progress: Progress, *, as_json: bool) -> int:
    from checkers.judge import judge
    from harness.cli.main import report_error

    if result.problem is not None:
        report_error(result.problem, progress.console)
        if isinstance(result.problem, UnfitError):
            return result.problem.exit_code
    with progress.phase("judgement", "Spark reconciles what was acknowledged with what was kept"):
        judgement = judge(spark.session(), result.folder.path)
    after = (progress.durations.get(name, 0.0) for name in _AFTER_SCENARIO)
    progress.durations["from its end to the verdict"] = sum(after)
    result.folder.update(durations=progress.durations)
    if as_json:
        print(json.dumps(judgement.as_json(), indent=2, default=str))  # noqa: T201
    else:
        terminal.show(judgement.as_json())
        terminal.show_durations(progress.durations)
    return judgement.exit_code

"""One run from start to verdict: checks beforehand, the run itself, and the judgement."""

from __future__ import annotations

import json
import threading
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.artifacts.java_client import APPLICATIONS_SINCE, has_applications
from harness.cluster.followed import UNCLEAN
from harness.cluster.settings import NO_SETTINGS, Settings
from harness.console import Progress
from harness.errors import EXIT_CRASHED, AckedError, UnfitError, UsageError
from harness.kafka.versions import INTER_BROKER_PROTOCOL, KafkaVersion, kafka_version, version_key
from harness.lab.layout import THREE_AZS, Layout
from run.client_choice import LIBRDKAFKA, ClientChoice, greet, program
from run.folder import CLAIMS, RunFolder, no_room
from run.placement import memory_gib, place, require_memory, start_s
from run.runner import RunOptions, RunResult, applied_to, run_scenario
from run.scenario import Scenario
from run.settings import AppliedSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from checkers.verdict import Judgement
    from harness.cluster.cluster_file import ClusterFile

_MESSAGE_FORMAT = "message.format.version"
_SERVER_SIDE_GROUPS = "group.consumer."
_AFTER_SCENARIO = ("final logs", "taking down", "history", "judgement")


@dataclass(frozen=True, kw_only=True)
class RunOutcome:
    """How a run ended and what it proves."""

    judgement: Judgement | None = None
    """None if the run left nothing to judge."""
    problem: AckedError | None = None
    """What ended the run early."""
    durations: Mapping[str, float] = field(default_factory=dict)
    """Seconds that each phase took."""

    @property
    def exit_code(self) -> int:
        """The exit code of the verdict, or else of the problem."""
        if self.judgement is not None:
            return self.judgement.exit_code
        return EXIT_CRASHED if self.problem is None else self.problem.exit_code


def plan_run(
    scenario: Scenario,
    *,
    lab: str,
    kafka: str = "",
    mode: str = "",
    rate: float | None = None,
    cluster: ClusterFile | None = None,
    settings: Settings = NO_SETTINGS,
    force: bool = False,
    client: ClientChoice = LIBRDKAFKA,
) -> tuple[RunOptions, AppliedSettings]:
    """What a run would be, without asking this machine whether it can carry it out. Raises UsageError.

    The arguments are those of `prepare`.
    """
    require_lab(lab)
    layout = cluster.layout if cluster else THREE_AZS
    version = kafka_version(kafka or (cluster and cluster.kafka) or scenario.kafka, force=force)
    wanted_mode = choose_mode(scenario, version, mode or (cluster.mode if cluster else ""))
    if ignored := ignores(scenario, version):
        raise UsageError(ignored)
    settings = settings.over(cluster.settings) if cluster else settings
    security = settings.security
    old_client = client.version and version_key(client.version) < version_key(security.oldest)
    if old_client and not security.plaintext:
        raise UsageError(
            f"{security.place}: {security} needs a Java client of {security.oldest} or newer, and "
            f"--client-version is {client.version}; use a newer one."
        )
    options = RunOptions(
        version=version,
        mode=wanted_mode,
        lab=lab,
        rate=rate,
        layout=layout,
        described=cluster is not None,
        settings=settings,
        client=client,
    )
    return options, applied_to(with_protocol(scenario, version), options)


def prepare(
    scenario: Scenario,
    *,
    lab: str,
    kafka: str = "",
    mode: str = "",
    rate: float | None = None,
    cluster: ClusterFile | None = None,
    settings: Settings = NO_SETTINGS,
    force: bool = False,
    client: ClientChoice = LIBRDKAFKA,
    make_archives: bool = True,
    say: Callable[[str], None] = lambda text: None,
) -> RunOptions:
    """Check what can be checked before anything starts. Raises UsageError, UnfitError.

    Empty ``kafka`` and ``mode`` mean those of the cluster file, else the scenario's own. ``force`` accepts a
    Kafka version that is not known. ``client`` is the library of producers and consumers, or a user's
    program, which must send its greeting. ``say`` is called when Kafka is downloaded. ``settings`` take
    precedence over those of the cluster file. With ``make_archives``, Kafka's class-data archives are made
    first, if there are none.
    """
    from harness import artifacts, doctor

    options, _ = plan_run(
        scenario,
        lab=lab,
        kafka=kafka,
        mode=mode,
        rate=rate,
        cluster=cluster,
        settings=settings,
        force=force,
        client=client,
    )
    doctor.require(doctor.required(lab))
    if cluster is not None:
        topology = options.layout.topology(options.mode)
        require_memory(topology)
        say(
            f"{cluster.path}: {len(topology.hosts)} hosts, about {memory_gib(topology):.1f} GiB of memory, "
            f"about {start_s(topology):.0f} s to start"
        )
    artifacts.resolve(options.version, say=say, make_archives=make_archives)
    if scenario.setup.upgrade_to:
        artifacts.resolve(scenario.setup.upgrade_to, say=say, make_archives=make_archives)
    streams = bool(scenario.setup.applications)
    client_program = program(client, options.version, say, streams=streams)
    if streams and client_program is None:
        program(ClientChoice(name="java"), options.version, say, streams=True)
    if client_program is not None and client_program.via == "program":
        greet(client_program)
    return options


def require_lab(lab: str) -> None:
    """Raise UsageError for an unknown lab."""
    from harness.lab.registry import lab_kind

    lab_kind(lab)


def require_settings(
    scenario: Scenario,
    settings: Settings,
    *,
    kafka: str = "",
    mode: str = "",
    layout: Layout = THREE_AZS,
    force: bool = False,
) -> tuple[str, ...]:
    """What the user should know before a scenario runs with these settings.

    Raises UsageError if it cannot run with them, or has a set-up that cannot work.
    """
    version = kafka_version(kafka or scenario.kafka, force=force)
    options = RunOptions(
        version=version, mode=choose_mode(scenario, version, mode), layout=layout, settings=settings
    )
    return applied_to(with_protocol(scenario, version), options).warnings


def ignores(scenario: Scenario, version: KafkaVersion) -> str:
    """Which setting that the scenario needs has no effect in this version, as a sentence; empty if none."""
    setup = scenario.setup
    configs = {topic.name: topic.config for topic in (*setup.topics, *setup.internal_topics)}
    old = [name for name, config in configs.items() if _MESSAGE_FORMAT in config]
    if old and not version.message_format_config:
        return (
            f"{scenario.name} sets {_MESSAGE_FORMAT} for the topic {old[0]}, which Kafka {version.label} "
            f"ignores (since 3.0, KIP-724); use an older version"
            + (f", or {version.name}@2.8, an older protocol." if "zookeeper" in version.modes else ".")
        )
    unclean = [name for name, config in configs.items() if config.get(UNCLEAN) == "true"]
    # A user's own scenario may set it without needing it, as those that a search writes do.
    if unclean and not version.unclean_config and not scenario.file:
        return (
            f"{scenario.name} sets {UNCLEAN}=true for the topic {unclean[0]}, which Kafka {version.label} "
            "ignores with KRaft (before 3.9, KAFKA-12670); use 3.9.1 or newer, or a version with ZooKeeper."
        )
    if (next_version := scenario.setup.upgrade_to) and version_key(next_version) <= version_key(
        version.version
    ):
        return (
            f"{scenario.name} upgrades to Kafka {next_version}; begin with an older version than "
            f"{version.label}."
        )
    groups = [key for key in scenario.setup.broker_config if key.startswith(_SERVER_SIDE_GROUPS)]
    if groups and not version.server_side_groups:
        return (
            f"{scenario.name} sets {groups[0]} for groups of KIP-848, which Kafka {version.label} does not "
            "have by default; use 4.0.1 or newer."
        )
    if scenario.setup.share_log and not version.share_groups:
        return (
            f"{scenario.name} needs share groups (KIP-932), which Kafka {version.label} does not have for "
            "production; use 4.2.0 or newer."
        )
    if scenario.setup.dynamic_quorum and not version.dynamic_quorum:
        return (
            f"{scenario.name} changes the voters of the KRaft quorum (KIP-853), and a static quorum of Kafka "
            f"{version.label} cannot be upgraded for that; use 4.1.0 or newer."
        )
    if scenario.setup.applications and not has_applications(version):
        return (
            f"{scenario.name} runs an application of Kafka Streams, which the harness has from Kafka "
            f"{APPLICATIONS_SINCE} on; use that or a newer one."
        )
    return ""


def misfit(scenario: Scenario, layout: Layout, *, kafka: str, mode: str) -> str:
    """Why a scenario cannot run on a layout in a mode: the role that is missing; empty if it can."""
    try:
        choose_mode(scenario, kafka_version(kafka, force=True), mode)
        place(scenario.setup, layout, mode, scenario.name)
    except UsageError as error:
        return error.message
    return ""


def choose_mode(scenario: Scenario, version: KafkaVersion, asked: str = "") -> str:
    """The requested metadata mode, else the scenario's own, else another one that both support.

    Raises UsageError.
    """
    supported = " or ".join(scenario.supported_modes)
    if asked:
        if asked not in scenario.supported_modes:
            raise UsageError(f"{scenario.name} runs in mode {supported}, not {asked!r}.")
        version.require_mode(asked)
        return asked
    fitting = [mode for mode in (scenario.mode, *scenario.supported_modes) if mode in version.modes]
    if not fitting:
        raise UsageError(
            f"{scenario.name} runs in mode {supported}, and Kafka {version.label} runs here in mode "
            f"{' or '.join(version.modes)}; use another Kafka version."
        )
    return fitting[0]


def settings_of(data: Mapping[str, Any] | None) -> Settings:
    """The user's settings from `Settings.as_json`; None: none."""
    return NO_SETTINGS if data is None else Settings.from_json(data)


def layout_of(cluster_file: str | None) -> Layout:
    """The layout that a cluster file describes; None: three AZs. Raises UsageError."""
    from harness.cluster.cluster_file import read_cluster_file

    return THREE_AZS if cluster_file is None else read_cluster_file(Path(cluster_file)).layout


def with_protocol(scenario: Scenario, version: KafkaVersion) -> Scenario:
    """The scenario with brokers that speak the version's protocol, where that is an older one."""
    if not version.protocol:
        return scenario
    config = {**scenario.setup.broker_config, INTER_BROKER_PROTOCOL: version.protocol}
    return replace(scenario, setup=replace(scenario.setup, broker_config=config))


def run_and_judge(
    scenario: Scenario, options: RunOptions, folder: RunFolder, progress: Progress
) -> RunOutcome:
    """Run a scenario and judge it. Errors become part of the outcome.

    Raises KeyboardInterrupt, after everything that was started has ended.
    """

    def run(lab_is_up: Callable[[], None]) -> RunResult:
        scenario_here = with_protocol(scenario, options.version)
        return run_scenario(scenario_here, options, folder, progress, lab_is_up=lab_is_up)

    return judged(folder, progress, run)


def judged(
    folder: RunFolder,
    progress: Progress,
    run: Callable[[Callable[[], None]], RunResult],
    *,
    frugal: bool = False,
) -> RunOutcome:
    """Carry out a run and judge it. Errors become part of the outcome.

    ``run`` may call its argument when no more processes are forked: then Spark starts beside it. A ``frugal``
    judgement needs less memory, and more time if there is much to judge.

    Raises KeyboardInterrupt, after everything that was started has ended.
    """
    try:
        return _judged(folder, progress, run, frugal)
    except AckedError as error:
        return RunOutcome(problem=error)
    except Exception as error:  # noqa: BLE001 - a mistake of the harness: kept for a report, shown as a sentence
        if (full := no_room(folder.path, error)) is not None:
            return RunOutcome(problem=full)
        report = folder.path / "crash.txt"
        report.write_text(traceback.format_exc())
        folder.update(status="crashed", problem=f"{type(error).__name__}: {error}")
        return RunOutcome(
            problem=AckedError(
                f"The harness itself failed ({type(error).__name__}: {error}); please report it and "
                f"attach {report}."
            )
        )


def _judged(
    folder: RunFolder, progress: Progress, run: Callable[[Callable[[], None]], RunResult], frugal: bool
) -> RunOutcome:
    spark = _Spark(folder, frugal)
    result = run(spark.start)
    if isinstance(result.problem, UnfitError):
        return RunOutcome(problem=result.problem)
    # Not earlier: the hosts' processes are forked from this one, and would carry NumPy and pandas along.
    from checkers.judge import judge
    from checkers.spark.session import session_lost

    try:
        with progress.phase("judgement", "Spark reconciles what was acknowledged with what was kept"):
            judgement = judge(spark.session(), folder.path)
    except Exception as error:
        unfit = error if isinstance(error, UnfitError) else session_lost()
        if result.problem is not None and (unfit or isinstance(error, AckedError)):
            return RunOutcome(problem=result.problem)
        if unfit is None:
            raise
        sentence = f"{unfit.message} The run is complete: `acked check {folder.path}` judges it."
        raise UnfitError(sentence, detail=unfit.detail) from error
    after = (progress.durations.get(name, 0.0) for name in _AFTER_SCENARIO)
    progress.durations["from its end to the verdict"] = sum(after)
    folder.update(durations=progress.durations)
    return RunOutcome(judgement=judgement, problem=result.problem, durations=progress.durations)


class _Spark:
    """The session that will judge: a thread starts it and warms it up while the scenario runs."""

    def __init__(self, folder: RunFolder, frugal: bool) -> None:
        self._folder = folder
        self._frugal = frugal
        self._session: Future[SparkSession] = Future()
        self._started = False

    def start(self) -> None:
        """Begin. Call it once the hosts exist, because namespaces are made from a process with one thread."""
        self._started = True
        # A daemon thread, so that an interrupted run does not wait until Spark is warm.
        threading.Thread(target=self._fulfil, name="spark", daemon=True).start()

    def session(self) -> SparkSession:
        """The session; waits until it has started."""
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

        session = start_session(frugal=self._frugal)
        # Loads NumPy and pandas, for which the start of the JVM need not wait.
        from checkers.spark.warm import warm_up

        declared = json.loads((self._folder.path / CLAIMS).read_text())
        with suppress(AckedError):  # the judgement reports a claim that cannot be understood
            warm_up(session, declared)
        return session

"""One run: lab, cluster, clients, the scenario's body, the final logs, and the history on disk."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC
from functools import partial
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from harness import artifacts
from harness.clock import Anchor, now_ns
from harness.cluster.model import Cluster, Distribution, StartedCluster
from harness.cluster.processes import Processes
from harness.cluster.settings import NO_SETTINGS, Settings
from harness.cluster.setup import Setup
from harness.cluster.upgrading import upgrade
from harness.cluster.zookeeper_start import StartedZooKeeperCluster
from harness.console import Progress
from harness.errors import (
    AckedError,
    InvalidRunError,
    LabError,
    ProcessDiedError,
    UnfitError,
    WaitTimeoutError,
)
from harness.history.assemble import assemble
from harness.history.final_read import acknowledged_after_final_read
from harness.history.journal import Journal
from harness.history.schema import SCHEMA_VERSION
from harness.history.tables import read_columns
from harness.kafka.model import Topic
from harness.kafka.versions import KafkaVersion
from harness.kafka.wire.dialect import dialect
from harness.lab import host_clock, host_names
from harness.lab.layout import THREE_AZS, Layout
from harness.lab.model import SECOND_DATA, Lab
from harness.lab.registry import EMBEDDED, lab_kind
from harness.observer.broker_log import read_logs
from harness.observer.targets import Targets
from harness.waiting import wait_until
from nemesis.nemesis import Nemesis
from nemesis.storage.disks import Disks
from run.client_choice import LIBRDKAFKA, ClientChoice, inside, program
from run.configs import record_broker_configs, record_features, record_topic_configs
from run.environment import environment
from run.folder import CLAIMS, RunFolder, write_json
from run.live import LiveState
from run.placement import hosts_of, place
from run.scenario import Scenario
from run.sessions import connected, place_sessions, steered
from run.settings import AppliedSettings, apply, check_took_effect, explained_refusal, producer_origins
from run.shares import note_stored
from run.stage import Stage
from run.standing import RunningCluster, StandingCluster
from run.watch import Watch
from workloads.client.client import Client, take_journals
from workloads.protocol.commands import DescribeProgram, ShowConfiguration
from workloads.protocol.java_names import producer_properties
from workloads.protocol.results import ReadResult
from workloads.protocol.spec import PROGRAMS, ClientProgram

if TYPE_CHECKING:
    from harness.cluster.secured import ClusterSecurity

_CATCH_UP_S = 15.0
"""How long followers may take to catch up after the last heal, with the base configuration."""
_READ_BACK_S, _READ_BACK_PER_S = 60.0, 50_000
"""How long the final reader may take to read everything: so long, and a second more for so many records."""
STREAM_PARTITIONS = 3
"""Each AZ's broker leads one partition of the background stream."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The parts of a scenario and its run that the command line may change."""

    version: KafkaVersion
    mode: str
    lab: str = EMBEDDED
    rate: float | None = None
    layout: Layout = THREE_AZS
    described: bool = False
    """Whether a cluster file describes the layout. Then all its hosts start, also those not needed."""
    settings: Settings = NO_SETTINGS
    client: ClientChoice = LIBRDKAFKA
    """The client library of producers and consumers."""
    upgrade_to: str = ""
    """The version of an assessment's rolling upgrade; empty: none."""


@dataclass(frozen=True)
class RunResult:
    """How the run itself ended; the checker decides what it proves."""

    folder: RunFolder
    status: str
    problem: AckedError | None


def run_scenario(
    scenario: Scenario,
    options: RunOptions,
    folder: RunFolder,
    progress: Progress,
    *,
    lab_is_up: Callable[[], None] = lambda: None,
    standing: StandingCluster | None = None,
    rolling: Rolling | None = None,
) -> RunResult:
    """Run a scenario and leave a run folder that can be judged, even if the run fails half-way.

    ``lab_is_up`` is called once the hosts exist; from then on other work may begin (starting Spark).
    ``standing`` holds a cluster that outlasts the run. ``rolling`` reads the logs while the run lasts.
    """
    applied = applied_to(scenario, options)
    anchor = Anchor.take()
    folder.update(
        schema_version=SCHEMA_VERSION,
        scenario=scenario.name,
        title=scenario.title,
        status="running",
        kafka=options.version.version,
        mode=options.mode,
        lab=options.lab,
        azs=dict(options.layout.topology(options.mode).az_names),
        anchor={"monotonic_ns": anchor.monotonic_ns, "wall_ns": anchor.wall_ns},
        settings=applied.manifest,
        made_by=environment(),
    )
    declared = applied.scenario.declared(options.version.version, options.client.library)
    write_json(folder.path / CLAIMS, declared)
    for sentence in applied.notes:
        progress.say(sentence)
    status = "complete"
    problem: AckedError | None = None
    try:
        _Run(applied, options, folder, progress, lab_is_up, standing, rolling).go()
    except UnfitError as error:
        status, problem = "unfit", error
    except InvalidRunError as error:
        status, problem = "invalid", error
    except AckedError as error:
        status, problem = "crashed", error
    except KeyboardInterrupt:
        folder.update(status="crashed", problem="interrupted")
        raise
    nodes = (folder.path if standing is None else standing.path) / "nodes"
    since = 0 if standing is None else anchor.monotonic_ns
    if rolling is not None:
        rolling.set_aside()
    return ended(
        folder,
        progress,
        status,
        problem,
        lambda: _log_events(nodes, anchor, since),
        (lambda: None) if rolling is None else rolling.write,
    )


def ended(
    folder: RunFolder,
    progress: Progress,
    status: str,
    problem: AckedError | None,
    log_events: Callable[[], Sequence[Mapping[str, object]]] = tuple,
    more: Callable[[], None] = lambda: None,
) -> RunResult:
    """Write the history of a run that has ended, and how it ended into its manifest.

    ``more`` writes tables that do not come from journals and final logs.
    """
    with progress.phase("history", "writing the history"):
        assemble(folder.path, log_events())
        more()
        late = acknowledged_after_final_read(folder.path)
        note_unobserved(folder)
    if late and problem is None:
        status, problem = "invalid", InvalidRunError(late)
    folder.update(durations=progress.durations)
    folder.ended(status, problem)
    return RunResult(folder, status, problem)


def note_unobserved(folder: RunFolder) -> None:
    """Note in the manifest how much the run did not observe, by `source` of that table."""
    rows = read_columns(folder.path, "unobserved", ("source", "from_offset", "to_offset")).to_pylist()
    noted: dict[str, dict[str, int]] = {}
    for row in rows:
        of_source = noted.setdefault(row["source"], {"ranges": 0, "offsets": 0})
        of_source["ranges"] += 1
        if row["from_offset"] is not None and row["to_offset"] is not None:
            of_source["offsets"] += max(0, row["to_offset"] - row["from_offset"])
    if noted:
        folder.update(unobserved=noted)


def _log_events(nodes: Path, anchor: Anchor, since: int) -> list[Mapping[str, object]]:
    return [row for row in read_logs(nodes, anchor, UTC) if int(str(row["ns"])) >= since]


def applied_to(scenario: Scenario, options: RunOptions) -> AppliedSettings:
    """The scenario on the layout and with the settings of the options. Raises UsageError."""
    setup = place(scenario.setup, options.layout, options.mode, scenario.name)
    setup = replace(
        setup,
        broker_config={**setup.internal_config, **setup.broker_config},
        quorum="every AZ" if options.described else setup.quorum,
    )
    return apply(
        replace(scenario, setup=setup),
        options.settings,
        topology=hosts_of(setup, options.layout, options.mode),
        mode=options.mode,
        version=options.version,
    )


class Rolling(Protocol):
    """Reads and judges the logs of a run while it lasts, in place of the tail and the final dump."""

    def start(self, stage: Stage, watch: Watch) -> None:
        """Begin, before the scenario's body."""

    def finish(self, watch: Watch) -> None:
        """Read the logs to their ends; no client runs any more. Raises AckedError."""

    def close(self) -> None:
        """End what it has started. Safe to call twice."""

    def set_aside(self) -> None:
        """Take the journals of the streams out of the run's journals."""

    def write(self) -> None:
        """Write what it has found into the history."""


class _Run:
    """The parts of one run, created one after the other and taken down in reverse order."""

    def __init__(
        self,
        applied: AppliedSettings,
        options: RunOptions,
        folder: RunFolder,
        progress: Progress,
        lab_is_up: Callable[[], None],
        standing: StandingCluster | None = None,
        rolling: Rolling | None = None,
    ) -> None:
        self.rolling = rolling
        self.applied = applied
        self.scenario = applied.scenario
        self.options = options
        self.setup = applied.scenario.setup
        self.folder = folder
        self.progress = progress
        self.lab_is_up = lab_is_up
        self.standing = standing
        self.dialect = dialect(options.version.version)
        self.rate = self.setup.stream_rate if options.rate is None else options.rate
        self.topics = self._topics()
        self._dumped = False

    def go(self) -> None:
        """Bring everything up, run the body, read the final logs, take everything down."""
        progress = self.progress
        with ExitStack() as stack:
            journal = stack.enter_context(Journal(self.folder.journal("harness")))
            running, clients = self._running_cluster(stack, journal)
            lab, cluster, processes = running.lab, running.cluster, running.processes
            self._note_kafka(processes.distribution)
            with progress.phase("boot", "creating topics"):
                cluster.create_topics(tuple(self._new_topics(cluster)))
            progress.say(f"Kafka {self.options.version.name} is up: {_roles(cluster)}")
            self.folder.update(roles=dict(cluster.roles()))
            if self.setup.zookeeper_sessions:
                self.folder.update(zookeeper_sessions=connected(lab.topology))
            watch = Watch(
                Targets.of(lab.topology, self.setup.brokers, lab.files),
                cluster,
                self.topics,
                journal,
                self.dialect,
                runs=lab.alive,
                transactions=bool(self.setup.transaction_log),
                share_groups=bool(self.setup.share_log),
                tail_logs=self.rolling is None,
            )
            stack.callback(watch.stop)
            watch.start()
            record_broker_configs(lab.topology, cluster.asked_config, journal, self.dialect, lab.files)
            record_topic_configs(lab.topology, self.topics, journal, self.dialect, lab.files)
            record_features(lab.topology, self.setup.format_features, journal, self.dialect)
            nemesis = stack.enter_context(
                Nemesis(
                    lab,
                    journal,
                    expect_end=processes.expect_end,
                    disks=running.disks,
                    flush_intervals=_flush_intervals(self.topics),
                )
            )
            nemesis.warm_up()
            stage = Stage(
                setup=self.setup,
                lab=lab,
                cluster=cluster,
                processes=processes,
                observer=watch.observer,
                nemesis=nemesis,
                clients=clients.ready(),
                journal=journal,
                progress=progress,
                dialect=self.dialect,
                topics=self.topics,
                user=self.applied.clients,
                timings=self.applied.timings,
                library=self.options.client.via,
                java=self._java,
            )
            self._describe_client(stage)
            self._check_clients(stage)
            if self.rolling is not None:
                stack.callback(self.rolling.close)
                self.rolling.start(stage, watch)
            try:
                live = LiveState(lab.topology, self.topics, watch.observer.views, lab.files)
                with progress.phase("scenario", "running the scenario", live.lines):
                    self._body(stage)
                with progress.phase("final logs", "reading every replica's final log"):
                    self._finish(stage, watch)
            except (AckedError, OSError) as error:
                if not self._dumped:
                    self._dump_after_failure(stage, watch, error)
                raise
            with progress.phase("taking down", "ending every process"):
                stack.pop_all().close()

    def _new_topics(self, cluster: Cluster) -> Iterator[Topic]:
        """The topics to create: an earlier run on the cluster may have made the internal ones."""
        for topic in (topic.at_creation for topic in self.topics):
            stands = self.standing is not None and topic.internal
            if not (stands and cluster.partition(topic.name) is not None):
                yield topic

    def _next_distribution(self) -> Distribution | None:
        version = self.setup.upgrade_to
        return artifacts.resolve(version, make_archives=False) if version else None

    def _note_kafka(self, distribution: Distribution) -> None:
        """Record which jars and which Java run: two builds of one version differ by their checksums."""
        build = self.options.version.build
        origin = {"build": build, **artifacts.sources_of(self.options.version)} if build else None
        self.folder.update(
            kafka_build=origin,
            java=artifacts.find_java().version,
            jars=dict(sorted(distribution.sums.items())),
        )

    def _running_cluster(self, stack: ExitStack, journal: Journal) -> tuple[RunningCluster, _Clients]:
        """The cluster, started unless it stands already, and the clients, which end with ``stack``."""
        standing = self.standing
        if standing is not None and standing.running is not None:
            running = standing.running
            running.processes.journal = journal
            for host in self.setup.upgraded:
                running.processes.ready(host)  # so that the history says which version it runs
            return running, self._start_clients(stack, running.lab, running.processes)
        lasting = stack if standing is None else standing.stack
        path = self.folder.path if standing is None else standing.path
        lab = make_lab(self.options, self.setup, path)
        disks = Disks(lab)
        lasting.callback(disks.close)
        lasting.callback(lab.down)
        with self.progress.phase("lab", "making hosts"):
            lab.up()
        self.lab_is_up()
        host_names.give_names(lab, self.setup.named)
        security = secure(lab, self.options)
        if security is not None:
            lasting.callback(security.close)
            security.start()
        for reason in disks.make_where_possible(self.setup.volatile_disks).values():
            self.progress.say(reason)
        for host in self.setup.second_log_dirs:
            disks.make(host, folder=SECOND_DATA)
        processes = Processes(
            lab=lab,
            distribution=artifacts.resolve(self.options.version, make_archives=False),
            journal=journal,
            next_distribution=self._next_distribution(),
            system_properties={} if security is None else security.system_properties,
            environments=host_clock.environments(lab, self.setup.own_clocks),
        )
        lasting.callback(processes.hide_secrets)
        clients = self._start_clients(stack, lab, processes)
        cluster = make_cluster(self.options, processes, self.setup, security)
        lasting.callback(cluster.close)
        with self.progress.phase("boot", "starting the cluster"):
            with steered(lab, self.setup.zookeeper_sessions):
                self._boot(cluster)
                if self.setup.upgraded:
                    upgrade(
                        cluster,
                        processes,
                        self.setup.upgraded,
                        self.setup.upgrade_to,
                        say=self.progress.say,
                    )
            place_sessions(lab, self.setup.zookeeper_sessions, cluster.check_alive)
        running = RunningCluster(lab=lab, disks=disks, processes=processes, cluster=cluster)
        if standing is not None:
            standing.running = running
        return running, clients

    def _boot(self, cluster: StartedCluster) -> None:
        """Start the cluster. Raises InvalidRunError if the user's settings prevent it."""
        try:
            cluster.boot()
        except ProcessDiedError as error:
            refusal = explained_refusal(error, self.applied.given.broker)
            if refusal is None:
                raise
            raise InvalidRunError(refusal, detail=error.detail) from error

    def _start_clients(self, stack: ExitStack, lab: Lab, processes: Processes) -> _Clients:
        """Start the agents, which end with ``stack``; from here on a failure names processes that died."""
        stack.enter_context(_explaining_failures(processes))
        clients = _Clients(
            lab,
            program(self.options.client, self.options.version, streams=bool(self.setup.applications)),
        )
        stack.callback(clients.close, self.folder)
        return clients

    def _java(self) -> ClientProgram:
        client_program = program(
            ClientChoice(name="java"),
            self.options.version,
            self.progress.say,
            streams=bool(self.setup.applications),
        )
        assert client_program is not None
        return client_program

    def _describe_client(self, stage: Stage) -> None:
        """Record which client library the run uses. For a program, wait until it is ready in every host."""
        choice = self.options.client
        if choice.via == "librdkafka":
            library = "confluent-kafka"
            self.folder.update(
                client={"name": choice.name, "library": library, "version": installed_version(library)}
            )
            return
        descriptions = [client.call(DescribeProgram(choice.via)) for client in stage.clients.values()]
        self.folder.update(
            client={
                "name": choice.name,
                "library": descriptions[0].client,
                "version": descriptions[0].version,
                "ready_s": max(one.ready_s for one in descriptions),
            }
        )
        self.progress.say(
            f"the clients are {descriptions[0].client} {descriptions[0].version} ({choice.label})"
        )

    def _note_memory(self, stage: Stage) -> None:
        """Record the most memory that a client program has taken."""
        via = self.options.client.via
        if via != "librdkafka":
            descriptions = [
                client.call(DescribeProgram(via)) for client in stage.clients.values() if client.alive
            ]
            recorded = self.folder.manifest()["client"]
            peak = max((one.memory_mib for one in descriptions), default=None)
            self.folder.update(client={**recorded, "memory_mib": peak})

    def _check_clients(self, stage: Stage) -> None:
        """Record how the background streams are configured.

        librdkafka confirms settings of the user; the Java client refuses those that it does not accept.
        """
        producer = self.applied.clients.producer
        spec = stage.stream_spec("settings", self.rate, writer=0)
        if spec.via in PROGRAMS:
            properties = producer_properties(spec)
            streams = producer_origins(properties, producer, self.applied.given.producer)
            self.folder.update(settings={**self.applied.manifest, "streams": streams})
            return
        config = spec.librdkafka_config()
        streams = producer_origins(config, producer, self.applied.given.producer)
        self.folder.update(settings={**self.applied.manifest, "streams": streams})
        if producer.given:
            client = next(iter(stage.clients.values()))
            check_took_effect(producer, client.call(ShowConfiguration(spec)), config)

    def _body(self, stage: Stage) -> None:
        if self.rate > 0:
            stage.start_streams(self.rate, self.setup.stream_topic, STREAM_PARTITIONS)
        try:
            self.scenario.body(stage)
        except BaseException as error:
            try:
                stage.nemesis.heal_all()
            except AckedError as second:
                error.add_note(f"Healing the faults failed as well: {second.message}")
            raise
        stage.nemesis.heal_all()

    def _finish(self, stage: Stage, watch: Watch) -> None:
        stage.cluster.check_alive()  # the scenario does not expect a broker to end by itself
        stage.stop_streams()
        if left := stage.nemesis.wait_delivered():
            self.progress.say(f"not delivered before the final logs are read: {', '.join(left)}")
        self._note_memory(stage)
        self._settle(stage)
        if self.setup.share_log:
            note_stored(stage)
        if self.rolling is not None:
            self._end_clients(stage)
            self.rolling.finish(watch)
            self._dumped = True
            return
        with ThreadPoolExecutor(1) as beside:
            reading = beside.submit(self._read_back, stage)
            if behind := watch.dump(self.folder.path, without=stage.nemesis.deleted_topics):
                self.progress.say(f"the observer did not see {behind} record(s) of the replicas' logs")
            self._dumped = True
            reading.result()
        self._end_clients(stage)

    def _end_clients(self, stage: Stage) -> None:
        with ThreadPoolExecutor(len(stage.clients)) as pool:
            for closed in [pool.submit(client.close) for client in stage.clients.values()]:
                closed.result()

    def _dump_after_failure(self, stage: Stage, watch: Watch, failure: AckedError | OSError) -> None:
        """Read the final logs as far as possible, to judge what was acknowledged before the failure."""
        with self.progress.phase("final logs", "reading the final logs, although the run has failed"):
            for step in (
                stage.stop_streams,
                stage.nemesis.wait_delivered,
                partial(self._settle, stage),
                partial(watch.dump, self.folder.path, without=stage.nemesis.deleted_topics)
                if self.rolling is None
                else partial(self.rolling.finish, watch),
            ):
                try:
                    step()
                except (AckedError, OSError) as second:
                    failure.add_note(f"Reading the final logs failed as well: {second}")

    def _settle(self, stage: Stage) -> None:
        """Give followers time to catch up after the last heal; one that does not is only a finding."""
        try:
            wait_until(
                stage.incomplete_isrs,
                accept=lambda incomplete: not incomplete,
                within_s=_CATCH_UP_S + self.applied.timings.recovery_s,
                awaiting="all replicas to be in sync again",
            )
        except WaitTimeoutError as error:
            self.progress.say(error.message)

    def _read_back(self, stage: Stage) -> None:
        if not self.setup.read_back:
            return
        topics = [topic for topic in stage.existing_topics() if not topic.internal]
        partitions = [key for topic in topics for key in topic.topic_partitions]
        az = "az2" if "az2" in stage.clients else next(iter(stage.clients))
        records = sum(stage.ends(partitions).values())
        result = stage.read_all(az, partitions, _READ_BACK_S + records / _READ_BACK_PER_S)
        if not result.complete:
            self.progress.say(f"the final reader did not reach the end: {result.errors or 'time-out'}")
            stage.journal.write_many("unobserved", list(unread(result)))

    def _topics(self) -> tuple[Topic, ...]:
        if self.rate <= 0:
            return (*self.setup.topics, *self.setup.own_topics, *self.setup.internal_topics)
        stream = Topic(
            self.setup.stream_topic,
            self.setup.brokers[:STREAM_PARTITIONS],
            partitions=STREAM_PARTITIONS,
            spread=True,
            config=self.setup.stream_config,
        )
        return (*self.setup.topics, stream, *self.setup.own_topics, *self.setup.internal_topics)


def unread(result: ReadResult) -> Iterator[dict[str, object]]:
    """Rows of `unobserved`: what the final reader has not read of each partition."""
    for part in result.partitions:
        if not part.complete:
            yield {
                "ns": now_ns(),
                "source": "read_back",
                **part.partition._asdict(),
                "from_offset": part.start if part.position is None else part.position,
                "to_offset": part.end,
                "error": result.errors[0][0] if result.errors else None,
            }


@contextmanager
def _explaining_failures(processes: Processes) -> Iterator[None]:
    """Report a process that has ended by itself, with its log, as the cause of whatever failed.

    An OSError of a connection says that the cluster does not answer; any other one, of a file or a command,
    comes from this machine.
    """
    try:
        yield
    except (AckedError, OSError) as error:
        processes.check_alive()
        if isinstance(error, AckedError):
            raise
        what = f"{type(error).__name__}: {error}"
        if isinstance(error, ConnectionError | TimeoutError):
            raise LabError(
                f"The cluster stopped answering the harness ({what}) although all its processes run; their "
                f"logs are below {processes.lab.run_dir / 'nodes'}."
            ) from error
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(frame.filename).name}:{frame.lineno}"
        raise LabError(
            f"The harness failed on this machine ({what}; {place}), not in the cluster, whose processes run; "
            "see whether the disk is full or the run folder is gone."
        ) from error


class _Clients:
    """The agents of all client hosts; they start in parallel while the cluster boots."""

    def __init__(self, lab: Lab, program: ClientProgram | None) -> None:
        """``program`` is started beside each agent."""
        self._lab = lab
        self._program = program
        self._hosts = lab.topology.role("client")
        with ThreadPoolExecutor(len(self._hosts)) as pool:
            self._starting: dict[str, Future[Client]] = {
                host.name: pool.submit(self._start, host.name) for host in self._hosts
            }

    def _start(self, host: str) -> Client:
        client = Client(self._lab, host)
        if self._program is not None:
            client.use(inside(self._program, self._lab, host))
        return client

    def ready(self) -> dict[str, Client]:
        """The first client of each AZ by the AZ, further ones by their host."""
        clients: dict[str, Client] = {}
        for host in self._hosts:
            clients[host.name if host.az in clients else host.az] = self._starting[host.name].result()
        return clients

    def close(self, folder: RunFolder) -> None:
        """End the agents and move their journals to the folder of all journals."""
        for future in self._starting.values():
            if future.exception() is None:
                future.result().close()
        for host in self._hosts:
            take_journals(self._lab.files(host.name), folder.journals, host.name)


def make_lab(options: RunOptions, setup: Setup, run_dir: Path) -> Lab:
    """The lab that the options name, with the hosts that the set-up needs; not up yet."""
    return lab_kind(options.lab).make(hosts_of(setup, options.layout, options.mode), run_dir)


def secure(lab: Lab, options: RunOptions) -> ClusterSecurity | None:
    """The security of a cluster in a lab that is up, as its hosts state it from now on; None without.

    Certificates and the token endpoint need addresses, which some labs choose when they come up.
    """
    if options.settings.security.plaintext:
        return None
    from harness.cluster.secured import ClusterSecurity  # loads a library of its own

    security = ClusterSecurity(options.settings.security, lab.topology, options.mode)
    lab.topology = security.topology
    return security


def make_cluster(
    options: RunOptions, processes: Processes, setup: Setup, security: ClusterSecurity | None = None
) -> StartedCluster:
    """The cluster of the options' metadata mode."""
    if options.mode == "zookeeper":
        return StartedZooKeeperCluster(processes, setup, security)
    if options.mode == "migration":
        from harness.cluster.migration import MigratingCluster

        return MigratingCluster(processes, setup, security)
    from harness.cluster.kraft_start import StartedKRaftCluster

    return StartedKRaftCluster(processes, setup, options.mode, security)


def _roles(cluster: Cluster) -> str:
    return ", ".join(f"{role} {who}" for role, who in cluster.roles().items())


def _flush_intervals(topics: Iterable[Topic]) -> dict[str, int]:
    """`flush.messages` of the topics that set it."""
    set_by = {topic.name: topic.config.get("flush.messages") for topic in topics}
    return {name: int(value) for name, value in set_by.items() if value}

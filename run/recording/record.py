"""One recording: clients and observer on somebody else's cluster, the final logs, and the history on disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from harness.clock import now_ns
from harness.cluster.attached import AttachedCluster
from harness.console import Progress
from harness.errors import (
    AckedError,
    InvalidRunError,
    ProcessDiedError,
    UsageError,
    WaitTimeoutError,
    json_object,
)
from harness.history.assemble import lines_of
from harness.history.journal import Journal
from harness.host_files import Folder
from harness.kafka.model import Endpoint, TopicPartition, broker_name
from harness.kafka.wire.dialect import Dialect
from harness.lab.here import HERE, Here
from harness.observer.targets import Targets
from harness.observer.views import View
from harness.waiting import wait_until
from run.clients import CALM_FETCHES, UserClients, stream_spec
from run.folder import RunFolder
from run.live import LiveState
from run.metrics import openmetrics
from run.metrics import standing as known
from run.recording.changes import Changes
from run.recording.disk import Room
from run.recording.marks import Marks, listening
from run.recording.plan import RecordingPlan, settings_of
from run.recording.preflight import Presence, idempotence, shows_its_log
from run.recording.reading import unreceived
from run.recording.seen import Incarnations, Seen, seen_in
from run.recording.stages import (
    LOOK_S,
    EndRequests,
    began,
    carried_out,
    ids_by_broker,
    note_configs,
    signals_end,
    standing,
)
from run.recording.stored import KEY, StoredRecording, boot, delete_topics, keep, note
from run.runner import RunResult
from run.watch import Watch
from workloads.client.background import BackgroundConsumer, Stream
from workloads.client.client import Client, take_journals
from workloads.protocol.spec import ConsumerSpec, ProducerSpec, StreamLoad

WARM_S = 60.0
_DRAIN_S = 15.0
"""How long producers may take to stop."""
_SETTLE_S = 60.0
"""How long followers may take to catch up at the end; one that does not is only a finding."""
_KNOWN_S = 10.0
"""How long a broker may take to know of a new replica of its own."""
_COMMITTED_S = 1.0
"""How long a transaction is open."""
_TRANSACTION_S = 30.0
"""transaction.timeout.ms, and how long its producer may take to end the last one."""
_PRODUCERS_OF_AN_ATTEMPT = 10
"""Numbers of producers and consumers that one process may use."""


class Disturbance(Protocol):
    """What breaks the cluster while it is recorded."""

    @property
    def lasts_s(self) -> float:
        """How long the recording goes on at most, once all clients work."""

    @property
    def over(self) -> bool:
        """Whether it may end."""

    def on(self, journal: Journal) -> AbstractContextManager[None]:
        """Entered when all clients work; at its end nothing is left of it."""

    def look(self) -> None:
        """Do what is due; called several times a second. Raises InvalidRunError to end the recording."""


@dataclass(kw_only=True)
class Recording:
    """One process's work on a recording."""

    cluster: AttachedCluster
    folder: RunFolder
    progress: Progress
    user: UserClients
    listen: tuple[str, int] = ("127.0.0.1", 0)
    """Where marks are taken; port 0: any that is free."""
    disturbance: Disturbance | None = None
    """None: somebody else breaks it."""
    title: str = "A cluster that acked did not start"

    def begin(self, plan: RecordingPlan, bootstrap: str) -> RunResult:
        """Record from the beginning. The folder can be judged, even if the recording fails half-way."""
        cluster = self.cluster
        began(self.folder, cluster, self.title, settings_of(self.user)[0].name)
        stored = StoredRecording(
            plan=plan,
            bootstrap=bootstrap,
            cluster_id=cluster.cluster_id,
            began_ns=now_ns(),
            boot=boot(),
            listeners=cluster.listeners,
        )
        keep(self.folder, stored)
        return self._carried_out(stored)

    def go_on(self) -> RunResult:
        """Carry on what another process began, to its planned end. Raises UsageError after a restart."""
        stored = StoredRecording.of(self.folder)
        stored.require_same_boot(self.folder.path)
        if stored.read:
            return carried_out(self.folder, self.progress, self._finish)
        stored = replace(stored, attempt=stored.attempt + 1)
        self._put_journals_aside(stored.attempt)
        keep(self.folder, stored)
        return self._carried_out(stored)

    def _finish(self) -> None:
        """What a process that had read the final logs did not come to."""
        note(self.folder, seen=seen_in(self.folder.journals.glob("harness*.jsonl")))
        _remove_topic(self.cluster, self.folder, self.progress)
        _take_journals(self.folder, HERE)

    def _put_journals_aside(self, attempt: int) -> None:
        """The last line of a killed process may be half a line, which must stay the last of its file."""
        _take_journals(self.folder, f"{HERE}-{attempt - 1}")
        harness = self.folder.journal("harness")
        if harness.exists():
            harness.rename(self.folder.journal(f"harness-{attempt - 1}"))

    def _carried_out(self, stored: StoredRecording) -> RunResult:
        return carried_out(self.folder, self.progress, _Attempt(self, stored).go)


class _Attempt:
    """The parts of one process's work, created one after the other and taken down in reverse order."""

    def __init__(self, recording: Recording, stored: StoredRecording) -> None:
        self.cluster, self.folder = recording.cluster, recording.folder
        self.progress, self.user = recording.progress, recording.user
        self.listen = recording.listen
        self.disturbance = recording.disturbance
        self.stored, self.plan = stored, stored.plan
        self.dialect: Dialect = self.cluster.dialect
        self.partitions = [key for topic in self.plan.topics for key in topic.topic_partitions]
        self.incarnations = Incarnations(topic=self.plan.topic)
        self._throttled_before_ms = int(self.folder.manifest()[KEY].get("throttled_ms") or 0)
        """Of earlier processes."""
        self._throttled_noted_ms = self._throttled_before_ms
        self._unwatched_s: float | None = None
        """How long nobody looked before this process; None for the first one."""

    def go(self) -> None:
        """Record until the time is over or the user ends it, read the final logs, and remove the topic."""
        with ExitStack() as stack:
            here = Here(self.cluster.topology, self.folder.path)
            stack.callback(here.down)
            end_requests = stack.enter_context(signals_end())
            journal = stack.enter_context(Journal(self.folder.journal("harness")))
            client = Client(here, HERE)
            stack.callback(self._end_client, client)
            with self.progress.phase("boot", "creating the topic"):
                self._make_topics()
            self.dialect = self._dialect_of_logs()
            watch = Watch(
                self._targets(),
                self.cluster,
                self.plan.topics,
                journal,
                self.dialect,
                transactions=self.plan.transactions,
                transactional_id=self.plan.topic,
            )
            stack.callback(watch.stop)
            self._note_interruption(journal)
            watch.start()
            configs = note_configs(self.cluster, self.plan.topics, journal, self.progress)
            seen = Seen(
                views=watch.observer.views,
                journal=journal,
                brokers=sorted({one for replicas in self.plan.assignment for one in replicas}),
                partitions=self.partitions,
                incarnations=self.incarnations,
                ask_ids=ids_by_broker(stack, self.cluster, self.plan.topic),
                watermarks=watch.observer.watermarks,
            )
            if self._unwatched_s is not None:
                seen.mark(
                    "interrupted", f"the recording goes on; nobody looked for {self._unwatched_s:.1f} s"
                )
            hosts = [host.name for host in self.cluster.brokers]
            first = _faults_before(self.folder.path) + 1
            marks = Marks(journal, hosts, self.progress.say, first=first)
            streams: list[Stream] = []
            changes = Changes(
                cluster=self.cluster,
                topic=self.plan.topic,
                journal=journal,
                mark=seen.mark,
                say=self.progress.say,
                config=configs.get(self.plan.topic, {}),
                throttled_ms=lambda: self._throttled_ms(streams),
            )
            changes.begin()
            try:
                address = stack.enter_context(
                    listening(
                        self.folder.path,
                        marks,
                        self.listen,
                        lambda: openmetrics(
                            {
                                "": known(
                                    {one.producer.name: one.counts() for one in streams},
                                    watch.observer.views,
                                    self.partitions,
                                    self.cluster.topology,
                                )
                            }
                        ),
                    )
                )
                self._say_where(address)
                readers = self._start_clients(client, streams, end_requests)
                live = LiveState(self.cluster.topology, self.plan.topics, watch.observer.views, here.files)
                disturbed = nullcontext() if self.disturbance is None else self.disturbance.on(journal)
                with self.progress.phase("scenario", "recording", live.lines), disturbed:
                    self._stand(watch, seen, changes, journal, end_requests)
                with self.progress.phase("final logs", "reading every replica's final log"):
                    for stream in streams:
                        stream.stop(_DRAIN_S)
                    with suppress(WaitTimeoutError):
                        self._throttled_ms(streams)
                    if self._throttled_noted_ms:
                        delayed_s = self._throttled_noted_ms / 1000
                        self.progress.say(f"quotas delayed answers to producers by {delayed_s:.1f} s in all")
                    journal.mark("drained", "the producers have stopped")
                    for processor in readers[1:]:
                        processor.stop(_TRANSACTION_S)
                    self._settle(seen)
                    self._note_unreceived(readers[0], journal)
                    readers[0].stop()
                    self._dump(watch)
                    self.stored = replace(self.stored, read=True)
                    keep(self.folder, self.stored)
            except (AckedError, OSError) as error:
                self._after_failure(watch, streams, error)
                raise
            finally:
                with suppress(OSError):  # on a full disk
                    self._note_seen(seen)
            with self.progress.phase("taking down", "removing the topic"):
                self._remove_topic()
                stack.pop_all().close()

    def _note_interruption(self, journal: Journal) -> None:
        """Nobody knows whether brokers have answered while no process looked: they count as silent.

        What the logs hold now is seen late, and what vanished meanwhile nobody has seen.
        """
        before = self.folder.journal(f"harness-{self.stored.attempt - 1}")
        if self.stored.attempt == 1 or not before.exists():
            return
        rows = (json_object(line, str(before)) for _, line in lines_of(before))
        last_ns = max((int(row["ns"]) for row in rows if "ns" in row), default=self.stored.began_ns)
        now = now_ns()
        self._unwatched_s = (now - last_ns) / 1e9
        silent = [
            View(source=host.name, subject="reachable", error="nobody looked")
            for host in self.cluster.brokers
        ]
        journal.write_many("views", [view.row(now, last_ns) for view in silent])
        missed = {"ns": now, "source": "tail", "since_ns": last_ns, "late": True}
        journal.write_many("unobserved", [{**missed, **key._asdict()} for key in self.partitions])

    def _make_topics(self) -> None:
        """Create the topics, unless an earlier process has, and keep their ids."""
        names = self.stored.names
        there = self.cluster.topic_ids(names)
        taken = next((name for name in names if name in there), "")
        if not self.stored.made:
            if taken:
                raise InvalidRunError(f"The topic {taken} exists already; choose another name with --topic.")
            self.stored = replace(self.stored, made=True)
            keep(self.folder, self.stored)
            self.cluster.create_topics(self.plan.topics)
            there = wait_until(
                lambda: self.cluster.topic_ids(names),
                accept=lambda stated: set(names) <= stated.keys(),
                within_s=_SETTLE_S,
                awaiting=f"the id of the topic {self.plan.topic}",
                ignoring=(UsageError,),
            )
        for name in names:
            if name not in there or there[name] != (self.stored.uuid(name) or there[name]):
                raise InvalidRunError(f"Somebody has deleted the topic {name}; record anew.")
        ids = {name: str(topic_id) for name, topic_id in there.items() if topic_id is not None}
        self.stored = replace(self.stored, topic_ids=ids)
        keep(self.folder, self.stored)
        if (own := self.stored.uuid(self.plan.topic)) is not None:
            self.incarnations.ids.add(own)

    def _look(self, seen: Seen) -> None:
        """Look; a topic that somebody has deleted is not acked's any more, whatever has its name now."""
        seen.look()
        if seen.counts["topic-deleted"] and not self.stored.deleted:
            self.stored = replace(self.stored, deleted=True)
            keep(self.folder, self.stored)
            self.progress.say(
                f"somebody has deleted the topic {self.plan.topic}; one that has its name now is left alone"
            )

    def _dialect_of_logs(self) -> Dialect:
        """The dialect, without reading replicas' own logs if a broker does not show them."""
        pairs = zip(self._own_partitions, self.plan.assignment, strict=True)
        for broker, key in {broker: key for key, replicas in pairs for broker in replicas}.items():
            endpoint = self.cluster.topology.host(broker_name(broker)).broker_endpoint
            presence, why = _settled(partial(shows_its_log, self.cluster, endpoint, key))
            if presence == "no":
                self.progress.say(f"only the leaders' logs can be read: {why}")
                note(self.folder, replica_logs=why)
                return replace(self.cluster.dialect, own_log_by_fetch=False)
        return self.cluster.dialect

    def _targets(self) -> Targets:
        return Targets.of(self.cluster.topology)

    def _say_where(self, address: tuple[str, int]) -> None:
        host, port = address
        self.progress.say(
            f"marks: acked mark 'text' --run {self.folder.path}, or curl -H @{self.folder.path}/mark.header "
            f"-d 'text' http://{host}:{port}/mark; metrics: http://{host}:{port}/metrics"
        )

    def _start_clients(
        self, client: Client, streams: list[Stream], end_requests: EndRequests
    ) -> list[BackgroundConsumer]:
        """Start the producers, which are added to ``streams``, and the consumer; wait until all work.

        Returns the consumer, and behind it the one whose transactions copy messages, if there is to be one.
        """
        settings = settings_of(self.user)
        may_be_idempotent = idempotence(self.cluster).presence == "yes"
        brokers = tuple(host.broker_endpoint for host in self.cluster.brokers)
        number = (self.stored.attempt - 1) * _PRODUCERS_OF_AN_ATTEMPT
        rate = self.plan.rate / len(settings)
        load = StreamLoad(
            topic=self.plan.topic,
            partitions=tuple(range(len(self.plan.assignment))),
            rate=rate,
            size_bytes=self.plan.size_bytes,
            max_s=self.plan.for_s + WARM_S,
            renewed=True,
        )
        reader = client.start_consumer(
            ConsumerSpec(
                reader=number + 1,
                name="acked-reader",
                brokers=brokers,
                partitions=tuple(self.partitions),
                config={**CALM_FETCHES, **self.user.consumer.librdkafka("consumer")},
            )
        )
        for setting in settings:
            number += 1
            spec = stream_spec(
                f"acked-{setting.name}",
                rate,
                writer=number,
                brokers=brokers,
                user=self.user,
                fixed={"request.timeout.ms": 30_000, **_own(self.user), **setting.fixed},
                idempotence=may_be_idempotent,
            )
            streams.append(client.start_stream(spec, load))
        readers = [reader]
        if self.plan.transactions:
            readers.append(self._start_processor(client, brokers))

        def idle() -> list[str]:
            """Clients that have neither written nor read yet."""
            without = [one.producer.name for one in streams if not one.counts().ok]
            return without + [one.consumer.name for one in readers if not one.progress().count]

        try:
            wait_until(
                idle,
                accept=lambda names: not names or bool(end_requests()),
                within_s=WARM_S,
                poll_s=0.2,
                awaiting="every producer to write and the consumer to read",
            )
        except WaitTimeoutError:
            raise WaitTimeoutError(
                f"Within {WARM_S:.0f} s, {', '.join(idle())} had no message acknowledged or read; see "
                "whether the brokers are up, and whether the settings in --client-config fit them."
            ) from None
        return readers

    def _start_processor(self, client: Client, brokers: tuple[Endpoint, ...]) -> BackgroundConsumer:
        """A member of a group that copies messages in transactions, which commit its offsets as well."""
        number = self.stored.attempt * _PRODUCERS_OF_AN_ATTEMPT
        consumer = ConsumerSpec(
            reader=number,
            name="acked-processor",
            brokers=brokers,
            partitions=tuple(self._own_partitions),
            group=self.plan.topic,
            config={**CALM_FETCHES, **self.user.consumer.librdkafka("consumer")},
        )
        producer = ProducerSpec(
            writer=number,
            name="acked-processor",
            brokers=brokers,
            via="librdkafka",
            idempotent=True,
            transactional_id=self.plan.topic,
            transaction_timeout_s=_TRANSACTION_S,
            request_timeout_s=5.0,
            delivery_timeout_s=_TRANSACTION_S,
            retries=1_000_000,
            config={"batch.num.messages": 1000},
        )
        return client.start_processor(consumer, producer, output=self.plan.output, every_s=_COMMITTED_S)

    @property
    def _own_partitions(self) -> tuple[TopicPartition, ...]:
        """Those that the producers write to."""
        return self.plan.topics[0].topic_partitions

    def _stand(
        self, watch: Watch, seen: Seen, changes: Changes, journal: Journal, end_requests: EndRequests
    ) -> None:
        """Look until the end, also at what changes apart from brokers and at the room for the run folder."""
        end_ns = self.stored.end_ns
        disturbance = self.disturbance
        if disturbance is not None:
            end_ns = now_ns() + round(disturbance.lasts_s * 1e9)
        room = Room(folder=self.folder.path, most_bytes=self.plan.most_own_bytes)

        def lacking() -> str:
            changes.look(watch.observer.views.answers)
            return room.lacking()

        def look() -> None:
            self._look(seen)
            if disturbance is not None:
                disturbance.look()

        def over() -> bool:
            return disturbance is not None and disturbance.over

        if reason := standing(watch, look, end_requests, end_ns, self.progress, lacking, over):
            journal.mark("room-lacking", reason)

    def _settle(self, seen: Seen) -> None:
        """Give followers time to catch up; one that does not is only a finding."""

        def complete() -> bool:
            self._look(seen)
            states = self.cluster.partitions(self.partitions)
            return self.incarnations.gone or all(
                key in states and states[key].leader >= 0 and states[key].isr_is_full
                for key in self.partitions
            )

        try:
            wait_until(
                complete,
                within_s=_SETTLE_S,
                poll_s=LOOK_S,
                awaiting="all replicas to be in sync",
            )
        except WaitTimeoutError as error:
            self.progress.say(error.message)

    def _note_unreceived(self, reader: BackgroundConsumer, journal: Journal) -> None:
        """Record what the consumer does not receive of what the producers have written."""
        rows = [] if self.incarnations.gone else unreceived(self.cluster, reader, self._own_partitions)
        if rows:
            journal.write_many("unobserved", rows)
            self.progress.say(f"the consumer has not received everything of {len(rows)} partition(s)")

    def _dump(self, watch: Watch) -> None:
        watch.observer.check()
        gone = (self.plan.topic,) if self.incarnations.gone else ()
        watch.dump(self.folder.path, without=gone, leaders_only=not self.dialect.own_log_by_fetch)

    def _after_failure(self, watch: Watch, streams: Sequence[Stream], failure: AckedError | OSError) -> None:
        """Read the final logs as far as possible, and remove the topic: it cannot be recorded any longer.

        Logs that are read while producers still write would lack what these write afterwards.
        """
        try:
            for stream in streams:
                with suppress(ProcessDiedError, InvalidRunError):  # its process or its journal is no more
                    stream.stop(_DRAIN_S)
            self._dump(watch)
        except (AckedError, OSError) as second:
            failure.add_note(str(second))
        self._remove_topic()

    def _remove_topic(self) -> None:
        _remove_topic(self.cluster, self.folder, self.progress)

    def _throttled_ms(self, streams: Sequence[Stream]) -> Mapping[str, int]:
        """By how much quotas have delayed answers to each producer; the sum is kept in the manifest."""
        each = {stream.producer.name: stream.counts().throttled_ms for stream in streams}
        if (throttled_ms := self._throttled_before_ms + sum(each.values())) > self._throttled_noted_ms:
            self._throttled_noted_ms = throttled_ms
            note(self.folder, throttled_ms=throttled_ms)
        return each

    def _note_seen(self, seen: Seen) -> None:
        before = seen_in(self.folder.journals.glob("harness-*.jsonl"))
        note(self.folder, seen={name: count + before[name] for name, count in seen.as_json().items()})

    def _end_client(self, client: Client) -> None:
        """End the agent and move its journals to the folder of all journals."""
        client.close()
        _take_journals(self.folder, HERE)


def _take_journals(folder: RunFolder, name: str) -> None:
    """Move those of the clients to the folder of all journals."""
    take_journals(Folder(folder.path / "nodes" / HERE), folder.journals, name)


def _remove_topic(cluster: AttachedCluster, folder: RunFolder, progress: Progress) -> None:
    """Remove the topic; if that fails, the recording is complete all the same."""
    try:
        delete_topics(cluster, folder)
    except (AckedError, OSError) as error:
        topic = StoredRecording.of(folder).plan.topic
        progress.say(f"the topic {topic} is left; acked record --clean removes it ({error})")


def _settled(ask: Callable[[], tuple[Presence, str]]) -> tuple[Presence, str]:
    """The last answer: a follower refuses its log for a moment until it knows that it is one."""
    last: list[tuple[Presence, str]] = []

    def shown() -> bool:
        last[:] = [ask()]
        return last[0][0] == "yes"

    with suppress(WaitTimeoutError):
        wait_until(shown, within_s=_KNOWN_S, poll_s=LOOK_S, awaiting="a follower to show its log")
    return last[0]


def _own(user: UserClients) -> dict[str, str | int | float | bool]:
    """The user's time-outs, which must not be overridden by those that follow from a fixed one."""
    given = user.producer.given
    return {key: given[key] for key in ("request.timeout.ms", "delivery.timeout.ms") if key in given}


def _faults_before(run_dir: Path) -> int:
    """The highest number of a fault that earlier processes of a recording have written."""
    numbers = [0]
    for file in (run_dir / "journal").glob("harness-*.jsonl"):
        rows = (json_object(line, str(file)) for table, line in lines_of(file) if table == "faults")
        numbers += [int(row["fault"]) for row in rows]
    return max(numbers)

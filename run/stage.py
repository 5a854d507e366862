"""What a scenario's body works with: clients, faults, and waits for observed conditions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace

from harness.clock import now_ns
from harness.cluster.client_settings import NONE
from harness.cluster.model import StartedCluster, first_answer, known_states
from harness.cluster.processes import Processes
from harness.cluster.setup import Setup
from harness.cluster.timings import BASE, Timings
from harness.console import Progress
from harness.errors import InvalidRunError, WaitTimeoutError
from harness.history.journal import Journal
from harness.kafka.model import (
    OFFSET_OUT_OF_RANGE,
    Endpoint,
    Generation,
    PartitionState,
    Topic,
    TopicPartition,
    broker_name,
)
from harness.kafka.segments import read_own_log
from harness.kafka.wire.dialect import Dialect
from harness.kafka.wire.logs import FetchResult, fetch_own_log
from harness.kafka.wire.offsets import EARLIEST, end_offsets
from harness.lab.model import DATA, Lab
from harness.observer.observer import Observer
from harness.waiting import wait_until
from nemesis.fault import Injection
from nemesis.nemesis import Nemesis
from nemesis.operator import Operator
from run.client_choice import inside
from run.clients import NO_CLIENTS, UserClients, choose, stream_spec, transactional
from run.group_offsets import GroupOffsets
from run.producer import Producer
from run.transactional import TransactionalProducer
from workloads.client.client import ApplicationInstance, BackgroundConsumer, Client, ShareMember, Stream
from workloads.protocol.commands import DescribeProgram
from workloads.protocol.results import ReadResult
from workloads.protocol.spec import (
    ApplicationSpec,
    ClientProgram,
    ConsumerSpec,
    Guarantee,
    Isolation,
    ProducerSpec,
    ShareAnswer,
    StreamLoad,
    Via,
)

_NEWS_S = 8.0
"""How long the news of a new ISR may take to reach every broker: below IBP 2.7 a leader collects changes of
the ISR for 5 s and checks every 2.5 s (`ReplicaManager.IsrChangePropagationBlackOut` and `-Interval`)."""
_LOOK_S = 0.5
"""How long a mark waits for the observer's next look at each node: a node that does not answer has 1 s."""


@dataclass(kw_only=True)
class Stage:
    """One running cluster with its clients, observer and nemesis."""

    setup: Setup
    """The scenario's set-up, on the layout of the run."""
    lab: Lab
    """The hosts."""
    cluster: StartedCluster
    """The Kafka cluster."""
    processes: Processes
    observer: Observer
    nemesis: Nemesis
    """The faults."""
    clients: Mapping[str, Client]
    journal: Journal
    progress: Progress
    dialect: Dialect
    """The versions of requests that this Kafka speaks, for `Nemesis.operator`."""
    topics: Sequence[Topic]
    """All topics of the run, including that of the background stream."""
    user: UserClients = NO_CLIENTS
    """The user's settings of producers and consumers."""
    timings: Timings = BASE
    """Times that follow from the effective settings."""
    library: Via = "librdkafka"
    """The client library of producers and consumers in this run."""
    java: Callable[[], ClientProgram] | None = None
    """Finds the Java client, for scenarios that use it although the run's library is another one."""
    streams: dict[str, Stream] = field(default_factory=dict)
    """The background streams by name, such as `az1-stream`."""
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def mark(self, name: str, text: str = "", **facts: object) -> int:
        """Write a narrative mark that claims can refer to, show it, and return its time in ns.

        ``facts`` are what the text says to people, as data: claims ask for them with `acked.claims.noted`.

        It returns when the observer has looked once more at every node that answers, usually within 0.2 s:
        what comes next, such as a heal, then changes nothing that claims about the mark rely on.
        """
        self.progress.say(text or name)
        mark_ns = self.journal.mark(name, text, **facts)
        views = self.observer.views
        views.confirm(mark_ns)
        with suppress(WaitTimeoutError):
            wait_until(
                lambda: not views.look_is_due(),
                within_s=_LOOK_S,
                awaiting=f"the observer to look at every node after {name}",
                poll_s=0.01,
            )
        return mark_ns

    def producer(
        self,
        az: str,
        name: str,
        *to: str,
        acks: int | None = None,
        via: Via = "raw",
        retries: int | None = None,
        idempotent: bool | None = None,
        request_timeout_s: float | None = None,
        delivery_timeout_s: float | None = None,
        event_age_s: float = 0.0,
        config: Mapping[str, str | int | float | bool] | None = None,
    ) -> Producer:
        """A producer in one AZ's client host; it knows the brokers ``to`` (all of them if none is named).

        ``raw`` sends one ProduceRequest per message to exactly one broker, whether it leads or not.
        ``librdkafka`` (or the library that `--client` names in its place) and ``java``, the official Java
        client, find the leader from the bootstrap list, and get the user's producer settings where the
        scenario gives none. Defaults: acks=all, no retries, not idempotent, 2 s for a request. A ``raw``
        idempotent producer sends each message with the sequence number that the scenario names.

        ``event_age_s`` makes the timestamps of its records so much older than the time of sending, as those
        of a producer that replays events are; below 0: newer.
        """
        via = self._through(az, via)
        fixed = {
            "acks": acks,
            "retries": retries,
            "enable.idempotence": idempotent,
            "request.timeout.ms": None if request_timeout_s is None else round(request_timeout_s * 1000),
            "delivery.timeout.ms": None if delivery_timeout_s is None else round(delivery_timeout_s * 1000),
        }
        choice = choose(
            NONE if via == "raw" else self.user.producer,
            {key: value for key, value in fixed.items() if value is not None},
        )
        if choice.kept:
            self.progress.say(f"{name} keeps the scenario's {', '.join(choice.kept)}")
        spec = ProducerSpec(
            writer=next(self._numbers),
            name=name,
            brokers=self.endpoints(to),
            via=via,
            produce_version=self.dialect.produce,
            event_age_s=event_age_s,
            config={**choice.config, **(config or {})},
            **choice.fields,
        )
        return Producer(self.clients[az], spec)

    def transactional(
        self,
        az: str,
        transactional_id: str,
        *,
        name: str = "",
        via: Via = "raw",
        protocol: Generation = "v1",
        timeout_s: float = 60.0,
        coordinator: str = "",
        request_timeout_s: float = 2.0,
        delivery_timeout_s: float | None = None,
        config: Mapping[str, str | int | float | bool] | None = None,
    ) -> TransactionalProducer:
        """A transactional producer in one AZ's client host; prepare it before its first transaction.

        ``raw`` sends each request to exactly one broker, once, with the given ``protocol`` (v2 needs Kafka
        4.0). The others are complete clients, which find coordinator and leaders, repeat requests, and choose
        the protocol themselves. ``timeout_s`` is transaction.timeout.ms; ``coordinator`` the host that a raw
        producer asks, by default the one that FindCoordinator names.
        """
        via = self._through(az, via)
        spec = ProducerSpec(
            writer=next(self._numbers),
            name=name or transactional_id,
            brokers=self.endpoints(),
            via=via,
            transactional_id=transactional_id,
            transaction_timeout_s=timeout_s,
            transaction_protocol=protocol,
            request_timeout_s=request_timeout_s,
            delivery_timeout_s=delivery_timeout_s,
            config=dict(config or {}),
        )
        if via == "raw":
            coordinator = coordinator or self.coordinator(transactional_id)
        return TransactionalProducer(
            client=self.clients[az],
            spec=spec,
            leader=self.leader,
            hold=self.nemesis.add,
            group_coordinator=self.group_coordinator,
            coordinator=coordinator,
        )

    def coordinator(self, transactional_id: str, *, not_on: str = "", within_s: float = 20.0) -> str:
        """Wait until a broker names a transaction coordinator, other than ``not_on``; returns its host.

        The harness asks from an address that no fault affects. Raises WaitTimeoutError.
        """
        what = f"the transactional id {transactional_id}"
        return self._coordinator(transactional_id, what, group=False, not_on=not_on, within_s=within_s)

    def group_coordinator(self, group: str, *, not_on: str = "", within_s: float = 20.0) -> str:
        """Wait until a broker names the coordinator of a consumer group, as `coordinator` does."""
        return self._coordinator(group, f"the group {group}", group=True, not_on=not_on, within_s=within_s)

    def _coordinator(self, name: str, what: str, *, group: bool, not_on: str, within_s: float) -> str:
        from harness.kafka.wire.transactions import find_coordinator

        def named() -> str:
            for broker in self._all_brokers():
                if broker == not_on:
                    continue
                try:
                    error, node = find_coordinator(
                        self.lab.topology.host(broker).broker_endpoint, name, timeout_s=2.0, group=group
                    )
                except OSError:
                    continue
                if not error and broker_name(node) != not_on:
                    return broker_name(node)
            return ""

        return wait_until(
            named,
            within_s=within_s,
            awaiting=f"a coordinator of {what}" + (f" other than {not_on}" if not_on else ""),
            abort=self.cluster.check_alive,
        )

    @property
    def operator(self) -> Operator:
        """What an operator does to the cluster: elections, reassignments, topics, voters, features."""
        return self.nemesis.operator(self.cluster, self.dialect)

    def group_offsets(self, az: str, group: str) -> GroupOffsets:
        """Commits and fetches of a group's offsets from one AZ's client host, each at a named broker."""
        return GroupOffsets(
            client=self.clients[az],
            group=group,
            reader=next(self._numbers),
            check_alive=self.cluster.check_alive,
        )

    def alter_offsets(
        self, az: str, group: str, topic: str, offset: int, *, partition: int = 0, within_s: float = 30.0
    ) -> Injection:
        """Set a group's committed offset, as an operator does with `kafka-consumer-groups --reset-offsets`.

        It is recorded as a fault, and as a commit of the group: what the group receives again or leaves out
        because of it is no finding. Raises InvalidRunError if the coordinator refuses, as it does while the
        group has members.
        """
        client, coordinator = self.group_offsets(az, group), self.group_coordinator(group)
        return self.operator.act(
            f"set the offset of group {group} in {topic}/{partition} to {offset}",
            mechanism="alter_offsets",
            targets={"partitions": [f"{topic}/{partition}"], "groups": [group], "offset": offset},
            action=lambda: client.must_commit(topic, offset, at=coordinator, partition=partition),
            observe=lambda: client.fetch(topic, at=coordinator, partition=partition).offset,
            accept=lambda committed: committed == offset,
            within_s=within_s,
        )

    def start_streams(self, rate: float, topic: str, partitions: int) -> None:
        """Start every client's background stream: idempotent, acks=all, through all brokers it can reach.

        The user's producer settings take precedence. Each of the user's own topics gets a stream as well.
        """
        loads = {"stream": StreamLoad(topic=topic, partitions=tuple(range(partitions)), rate=rate)}
        for own in self.setup.own_topics:
            loads[own.name] = StreamLoad(topic=own.name, partitions=tuple(range(own.partitions)), rate=rate)
        for name, load in loads.items():
            for az, client in self.clients.items():
                spec = self.stream_spec(f"{az}-{name}", rate)
                self.streams[f"{az}-{name}"] = client.start_stream(spec, self.user.shaped(load))

    def stream_spec(
        self,
        name: str,
        rate: float,
        fixed: Mapping[str, str | int | float | bool] | None = None,
        *,
        writer: int | None = None,
    ) -> ProducerSpec:
        """The producer of a background stream; ``fixed`` settings override the user's.

        ``writer`` is its number in the history; None: the next one.
        """
        return stream_spec(
            name,
            rate,
            writer=next(self._numbers) if writer is None else writer,
            brokers=self.endpoints(),
            user=self.user,
            fixed=fixed or {},
            via=self.library,
            idempotence=self.dialect.idempotence,
        )

    def start_stream(
        self,
        az: str,
        name: str,
        load: StreamLoad,
        fixed: Mapping[str, str | int | float | bool] | None = None,
    ) -> Stream:
        """Start one background stream in an AZ; ``fixed`` settings (Java's names) override the user's.

        The user's `[load]` says what its messages are like.
        """
        if load.transaction:  # its messages come together, whatever the rate
            spec = transactional(self.stream_spec(name, math.inf, fixed), name)
        else:
            spec = self.stream_spec(name, load.rate, fixed)
        self.streams[name] = self.clients[az].start_stream(spec, self.user.shaped(load))
        return self.streams[name]

    def start_reader(
        self,
        az: str,
        partitions: Sequence[TopicPartition],
        defaults: Mapping[str, str | int | float | bool] | None = None,
        *,
        via: Via = "librdkafka",
    ) -> BackgroundConsumer:
        """Start a consumer in one AZ that reads these partitions from their leaders until it is stopped.

        ``via`` is its library, as in `producer`. ``defaults`` are properties by librdkafka's names; the
        user's properties override them.
        """
        consumer = ConsumerSpec(
            reader=next(self._numbers),
            name=f"{az}-reader",
            brokers=self.endpoints(),
            via=self._through(az, via),
            partitions=tuple(partitions),
            config={**(defaults or {}), **self.user.consumer.librdkafka("consumer")},
        )
        return self.clients[az].start_consumer(consumer)

    def start_member(
        self,
        az: str,
        group: str,
        topic: str,
        *,
        partitions: int = 1,
        name: str = "",
        config: Mapping[str, str | int | float | bool] | None = None,
        commit_every_s: float = 0.0,
    ) -> BackgroundConsumer:
        """Start a member of a consumer group in one AZ; it commits what it has read after each poll.

        ``config`` has properties by librdkafka's names, such as `group.instance.id`. A member that commits
        only every ``commit_every_s`` seconds is one of librdkafka.
        """
        member = self._member(az, group, topic, partitions, name or f"{az}-member", config)
        if commit_every_s:
            member = replace(member, via="librdkafka", commit_every_s=commit_every_s)
        return self.clients[az].start_consumer(member)

    def start_share_member(
        self,
        az: str,
        group: str,
        topic: str,
        *,
        partitions: int = 1,
        name: str = "",
        answers: Sequence[ShareAnswer] = ("accept",),
        config: Mapping[str, str | int | float | bool] | None = None,
        via: Via = "java",
    ) -> ShareMember:
        """Start a member of a share group (KIP-932) in one AZ.

        It acknowledges each record after the poll that returned it: one that is delivered for the first time
        by ``answers``, by its offset in turn, and all others with `accept`. ``config`` has properties by
        librdkafka's names. ``via`` is its library, as in `producer`, if the run has no user's program.
        """
        spec = self._member(az, group, topic, partitions, name or f"{az}-share", config)
        via = self._through(az, "program" if self.library == "program" else via)
        self.observer.watch_share_group(group)
        return self.clients[az].start_share_member(replace(spec, via=via, answers=tuple(answers)))

    def start_application(
        self,
        az: str,
        application: str,
        *,
        source: str,
        output: str,
        guarantee: Guarantee = "exactly_once_v2",
        standbys: int = 0,
        commit_every_s: float = 1.0,
        name: str = "",
        config: Mapping[str, str | int | float | bool] | None = None,
    ) -> ApplicationInstance:
        """Start an instance of an application of Kafka Streams in one AZ: the Java client, or the user's.

        It counts the words of each partition of ``source``, and writes each message to ``output``. Its state
        directory belongs to its ``name``: an instance with a new name begins with an empty one. ``config``
        has properties of Kafka Streams.
        """
        name = name or f"{az}-instance"
        client = self.clients[az]
        spec = ApplicationSpec(
            reader=next(self._numbers),
            name=name,
            brokers=self.endpoints(),
            via=self._through(az, "program" if self.library == "program" else "java"),
            application=application,
            source=source,
            output=output,
            guarantee=guarantee,
            state_dir=self.lab.inside(client.host, f"streams-{name}"),
            standbys=standbys,
            commit_every_s=commit_every_s,
            config=dict(config or {}),
        )
        return client.start_application(spec)

    def start_processor(
        self,
        az: str,
        group: str,
        *,
        source: str,
        output: str,
        partitions: int = 1,
        transactional: bool = True,
        every_s: float = 1.0,
        timeout_s: float = 15.0,
        config: Mapping[str, str | int | float | bool] | None = None,
    ) -> BackgroundConsumer:
        """Start an instance of an application in one AZ: it reads ``source`` in a group to write ``output``.

        It writes one message for each that it receives, to the same partition number, with the label
        `writer/seq` of that message. It commits every ``every_s`` seconds. With ``transactional``, one
        transaction holds output and offsets, and transaction.timeout.ms is ``timeout_s``. Otherwise it
        commits the offsets after the output. ``config`` has properties of the consumer by librdkafka's names.
        """
        producer = ProducerSpec(
            writer=next(self._numbers),
            name=f"{az}-processor",
            brokers=self.endpoints(),
            via="librdkafka",
            idempotent=True,
            transactional_id=f"{az}-processor" if transactional else "",
            transaction_timeout_s=timeout_s,
            request_timeout_s=2.0,
            delivery_timeout_s=timeout_s,
            retries=1_000_000,
            # A request for each message, as with other producers, would not keep up on a busy machine.
            config={"batch.num.messages": 1000},
        )
        consumer = self._member(az, group, source, partitions, f"{az}-processor", config)
        return self.clients[az].start_processor(consumer, producer, output=output, every_s=every_s)

    def _member(
        self,
        az: str,
        group: str,
        topic: str,
        partitions: int,
        name: str,
        config: Mapping[str, str | int | float | bool] | None,
    ) -> ConsumerSpec:
        return ConsumerSpec(
            reader=next(self._numbers),
            name=name,
            brokers=self.endpoints(),
            via=self.library,
            partitions=tuple(TopicPartition(topic, number) for number in range(partitions)),
            group=group,
            config={**self.user.consumer.librdkafka("consumer"), **(config or {})},
        )

    def stop_streams(self, flush_s: float = 5.0) -> None:
        """Stop the background streams; messages without an answer by then have an unknown outcome."""
        with ThreadPoolExecutor(max(1, len(self.streams))) as pool:
            for stopped in [pool.submit(stream.stop, flush_s) for stream in self.streams.values()]:
                stopped.result()
        self.streams.clear()

    def read(
        self, az: str, topic: str, *brokers: str, partition: int = 0, within_s: float = 5.0
    ) -> ReadResult:
        """Have a consumer in one AZ read a topic to its high watermark.

        If one broker is named, it fetches only from that broker, whether it leads or not; otherwise from the
        leader.
        """
        consumer = ConsumerSpec(
            reader=next(self._numbers),
            name=f"{az}-reader",
            brokers=self.endpoints(brokers),
            partitions=(TopicPartition(topic, partition),),
            pinned=len(brokers) == 1,
            config={} if len(brokers) == 1 else self.user.consumer.librdkafka("consumer"),
        )
        return self.clients[az].read(consumer, within_s)

    def read_all(
        self,
        az: str,
        partitions: Sequence[TopicPartition],
        within_s: float = 10.0,
        *,
        isolation: Isolation = "read_committed",
    ) -> ReadResult:
        """Have a consumer in one AZ read partitions from start to end, from their leaders."""
        consumer = ConsumerSpec(
            reader=next(self._numbers),
            name=f"{az}-final-reader",
            brokers=self.endpoints(),
            partitions=tuple(partitions),
            isolation_level=isolation,
            config=self.user.consumer.librdkafka("consumer"),
        )
        return self.clients[az].read(consumer, within_s)

    def _through(self, az: str, via: Via) -> Via:
        """The library of a producer in an AZ, ready to be used there."""
        if via == "librdkafka":
            return self.library
        if via == "java" and self.library != "java":
            if self.java is None:
                raise InvalidRunError("This run has no Java client.")
            client = self.clients[az]
            client.use(inside(self.java(), self.lab, client.host))
            client.call(DescribeProgram(via))  # a first command would not wait as long as it takes to start
        return via

    def endpoints(self, brokers: Iterable[str] = ()) -> tuple[Endpoint, ...]:
        """Where clients reach these brokers, or all of them."""
        topology = self.lab.topology
        hosts = map(topology.host, brokers or self._all_brokers())
        return tuple(map(topology.client_endpoint, hosts))

    def _all_brokers(self) -> tuple[str, ...]:
        return tuple(broker_name(number) for number in self.setup.brokers)

    def state(self, topic: str, partition: int = 0) -> PartitionState | None:
        """A partition's state in the metadata store; None if the store does not answer within 5 s."""
        return first_answer(lambda: self.cluster.partition(topic, partition), f"{topic}/{partition}")

    def leader(self, topic: str, partition: int = 0) -> str:
        """Host that leads the partition in the metadata store. Raises InvalidRunError if none does."""
        state = self.state(topic, partition)
        if state is None or state.leader < 0:
            raise InvalidRunError(f"{topic}/{partition} has no leader, but the scenario needs one here.")
        return broker_name(state.leader)

    def active_controller(self) -> str:
        """Host of the active controller: a broker, or on KRaft the node that leads the quorum."""
        number = first_answer(self.cluster.controller, "a controller")
        for host in self.lab.topology.hosts:
            if host.node_id == number and host.role in ("broker", "controller"):
                return host.name
        raise InvalidRunError("There is no active controller, but the scenario needs one here.")

    def wait_for_leader(
        self, topic: str, *, on: str = "", not_on: str = "", partition: int = 0, within_s: float | None = None
    ) -> PartitionState:
        """Wait until the metadata store names the leader ``on``, or any leader other than ``not_on``."""
        leader_id = self.lab.topology.host(on).node_id if on else None
        unwanted = self.lab.topology.host(not_on).node_id if not_on else None

        def fits(state: PartitionState | None) -> bool:
            if state is None or state.leader < 0:
                return False
            return state.leader == leader_id if leader_id is not None else state.leader != unwanted

        awaited = f"{on} to lead" if on else f"a leader other than {not_on} for"
        return self._wait_state(topic, partition, fits, f"{awaited} {topic}/{partition}", within_s)

    def wait_for_no_leader(self, topic: str, *, partition: int = 0) -> PartitionState:
        """Wait until the partition has no leader in the metadata store."""
        return self._wait_state(
            topic,
            partition,
            lambda state: state is not None and state.leader == -1,
            f"{topic}/{partition} to be without a leader",
            None,
        )

    def wait_for_isr(
        self, topic: str, *members: int, partition: int = 0, within_s: float | None = None
    ) -> PartitionState:
        """Wait until the ISR in the metadata store consists of exactly these brokers."""
        expected = set(members)
        return self._wait_state(
            topic,
            partition,
            lambda state: state is not None and set(state.isr) == expected,
            f"the ISR of {topic}/{partition} to be {sorted(expected)}",
            within_s,
        )

    def wait_until_serving(self, topic: str, broker: str, *, az: str = "az2", partition: int = 0) -> None:
        """Wait until a broker accepts writes as leader; it learns of its election later than the store."""
        probe = self.producer(az, f"{az}-probe-{next(self._numbers)}", broker, acks=1)
        probe.wait_writable(topic, partition=partition, within_s=15.0 + self.timings.recovery_s)

    def existing_topics(self) -> list[Topic]:
        """All topics of the run that an operator action has not deleted."""
        deleted = self.nemesis.deleted_topics
        return [topic for topic in self.topics if topic.name not in deleted]

    def incomplete_isrs(self) -> list[TopicPartition]:
        """Partitions whose replicas all run but are not all in the ISR.

        Raises WaitTimeoutError if the metadata store does not answer.
        """
        incomplete = []
        keys = [key for topic in self.existing_topics() for key in topic.topic_partitions]
        states = known_states(self.cluster, keys)
        for key in keys:
            state = states.get(key)
            if state is None:
                raise WaitTimeoutError(f"The metadata store does not state the ISR of {key}.")
            alive = all(self.lab.alive(broker_name(member)) for member in state.replicas or ())
            if alive and state.leader >= 0 and not state.isr_is_full:
                incomplete.append(key)
        return incomplete

    def unhealthy(
        self, partitions: Iterable[TopicPartition]
    ) -> Iterator[tuple[TopicPartition, PartitionState | None]]:
        """Those without a leader or a full ISR, with their state; None if the metadata store states none."""
        keys = list(partitions)
        states = self.cluster.partitions(keys)
        for key in keys:
            state = states.get(key)
            if state is None or state.leader < 0 or not state.isr_is_full:
                yield key, state

    def silent_replicas(self, partitions: Iterable[TopicPartition]) -> Iterator[str]:
        """Replicas of the current assignment that do not answer for their log, each as a sentence.

        After all brokers have ended at once, the metadata store still states the old leaders and full ISRs.
        """
        for key in partitions:
            state = self.cluster.partition(*key)
            if state is None:
                yield f"nothing is known of {key}"
                continue
            for broker in map(broker_name, state.replicas or ()):
                try:
                    error = self.own_log(broker, *key).error
                except OSError as failure:
                    yield f"{broker} does not answer ({failure})"
                else:
                    if error:
                        yield f"{broker} answers for {key} with error {error}"

    def own_log(self, broker: str, topic: str, partition: int = 0) -> FetchResult:
        """One replica's own log up to 1 MiB, read without a client and without side effects."""
        if not self.dialect.own_log_by_fetch:
            return read_own_log(self.lab.files(broker).below(DATA), TopicPartition(topic, partition))
        endpoint, key = self.lab.topology.host(broker).broker_endpoint, TopicPartition(topic, partition)
        fetched = fetch_own_log(endpoint, *key, dialect=self.dialect, timeout_s=2.0)
        if fetched.error != OFFSET_OUT_OF_RANGE:
            return fetched
        start = end_offsets(endpoint, [key], at=EARLIEST, dialect=self.dialect, timeout_s=2.0)[key].offset
        return fetch_own_log(endpoint, *key, max(start, 0), dialect=self.dialect, timeout_s=2.0)

    def ends(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The highest log end offset that any broker states now of each partition; 0 if none does."""
        highest = dict.fromkeys(partitions, 0)
        for host in self._all_brokers():
            endpoint = self.lab.topology.host(host).broker_endpoint
            with suppress(OSError):  # the others may state it
                stated = end_offsets(endpoint, partitions, dialect=self.dialect, timeout_s=2.0)
                for key, end in stated.items():
                    highest[key] = max(highest[key], end.offset)
        return highest

    def wait_replicated(self, topic: str, partition: int = 0) -> None:
        """Wait until all in-sync replicas hold the same log and have its end as their high watermark.

        By then the history also has the records of each replica. Claims rely on that, and a fault may follow.
        """
        wait_until(
            lambda: self._disagreement(topic, partition, full_isr=False, recorded=True),
            accept=lambda disagreement: disagreement == "",
            within_s=15.0 + self.timings.recovery_s,
            awaiting=f"the in-sync replicas of {topic}/{partition} to agree",
            poll_s=0.1,
            abort=self.cluster.check_alive,
        )

    def wait_converged(self, topic: str, partition: int = 0, within_s: float | None = None) -> None:
        """Wait until the ISR is complete and all replicas hold the same log and know all of it committed.

        The replicas are those of the current assignment: a reassignment under way must end, too. First it
        waits for everything that clients sent over cut links to arrive.
        """
        self.nemesis.wait_delivered()
        limit_s = 30.0 + self.timings.recovery_s if within_s is None else within_s
        wait_until(
            lambda: self._disagreement(topic, partition, full_isr=True),
            accept=lambda disagreement: disagreement == "",
            within_s=limit_s,
            awaiting=f"the replicas of {topic}/{partition} to converge",
            poll_s=max(0.1, self.cluster.poll_s),
            abort=self.cluster.check_alive,
        )
        state = self.state(topic, partition)
        if state is not None:
            self._wait_recorded(topic, partition, state)
            key = TopicPartition(topic, partition)
            self._give_nodes_time("broker", key, state, within_s=_NEWS_S + self.timings.recovery_s)

    def _disagreement(self, topic: str, partition: int, *, full_isr: bool, recorded: bool = False) -> str:
        state = self.cluster.partition(topic, partition)
        if state is None:
            return "not known in the metadata store, or it does not answer"
        if full_isr and not state.isr_is_full:
            moving = f", being moved: {state.moving}" if state.moving else ""
            return f"ISR {state.isr} of {state.replicas}{moving}"
        contents, ends = {}, {}
        for member in state.isr:
            broker = broker_name(member)
            fetched = self.own_log(broker, topic, partition)
            records = [(r.offset, r.epoch, r.crc) for r in fetched.records]
            end = records[-1][0] + 1 if records else fetched.log_start
            if fetched.error or fetched.high_watermark != end:
                return f"{broker}: error {fetched.error}, HW {fetched.high_watermark}, LEO {end}"
            contents[member], ends[member] = records, fetched.log_end_offset
        first = next(iter(contents.values()))
        different = [member for member, records in contents.items() if records != first]
        if different:
            return f"logs of brokers {different} differ"
        return self._unrecorded(TopicPartition(topic, partition), ends) if recorded else ""

    def _unrecorded(self, key: TopicPartition, ends: Mapping[int, int]) -> str:
        """Which replica the observer has not followed to its end; empty if it has followed all."""
        for member, end in ends.items():
            seen = self.observer.recorded_end(member, key)
            if seen is not None and seen < end:
                return f"broker{member}: followed to offset {seen} of {end}"
        return ""

    def kill(self, *hosts: str) -> None:
        """SIGKILL processes as a recorded fault; `restart` brings them back."""
        self.nemesis.kill(*hosts)

    def restart(self, host: str, *, kafka: str = "", properties: Mapping[str, str] | None = None) -> None:
        """Start a process again and wait until the cluster knows it.

        ``kafka`` is the version that it runs from now on, that of the run or the set-up's `upgrade_to`;
        ``properties`` are those that it alone gets from then on.
        """
        if kafka or properties is not None:
            version = kafka or self.processes.version_of(host).name
            self.cluster.upgrade(host, version, properties or {})
        self.cluster.start(host)
        self.progress.say(f"{host} is back" + (f" with Kafka {kafka}" if kafka else ""))

    def since(self, mark_ns: int) -> float:
        """Seconds since a mark."""
        return (now_ns() - mark_ns) / 1e9

    def _wait_state(
        self,
        topic: str,
        partition: int,
        fits: Callable[[PartitionState | None], bool],
        awaiting: str,
        within_s: float | None,
    ) -> PartitionState:
        state = wait_until(
            lambda: self.cluster.partition(topic, partition),
            accept=fits,
            within_s=self.timings.change_s if within_s is None else within_s,
            awaiting=awaiting,
            poll_s=self.cluster.poll_s,
            abort=self.cluster.check_alive,
        )
        assert state is not None
        self._wait_recorded(topic, partition, state)
        return state

    def _wait_recorded(self, topic: str, partition: int, state: PartitionState) -> None:
        """Wait until the history holds the state: claims look back from the mark that comes next.

        A node that lags behind may still record an older state after another one has recorded the new state.
        """
        key = TopicPartition(topic, partition)
        kind = "zookeeper" if self.cluster.mode == "zookeeper" else "broker"
        if kind == "zookeeper":
            self._give_nodes_time(kind, key, state, within_s=2)

        def recorded() -> bool:
            return self._recorded([self.observer.views.of(kind).partition(*key)], key, state)

        try:
            wait_until(
                recorded,
                within_s=5,
                poll_s=self.cluster.poll_s / 2,
                awaiting=f"the observer to record leader {state.leader}, epoch {state.leader_epoch}, "
                f"ISR {state.isr} of {key}",
            )
        except WaitTimeoutError:
            now = self.state(topic, partition)
            if now is None or _comparable(now) == _comparable(state):
                raise
            self.progress.say(f"{key} has changed before the observer recorded ISR {state.isr}")

    def _give_nodes_time(
        self, kind: str, key: TopicPartition, state: PartitionState, *, within_s: float
    ) -> None:
        """Wait until every node of a kind that answers reports the state; go on after ``within_s`` seconds.

        It is no error if a node does not learn of the state: the claims judge that.
        """
        views = self.observer.views
        try:
            wait_until(
                lambda: self._recorded(
                    (
                        view.state
                        for view in views.select(kind, "partition", key)
                        if views.of(view.source).reachable()
                    ),
                    key,
                    state,
                ),
                within_s=within_s,
                poll_s=0.02,
                awaiting=f"every {kind} that answers to report the new state of {key}",
            )
        except WaitTimeoutError:
            self.progress.say(f"not every {kind} reports the new state of {key} yet")

    def _recorded(
        self, states: Iterable[PartitionState | None], key: TopicPartition, state: PartitionState
    ) -> bool:
        """Whether all of these are the state, or the one that has followed it.

        A store's node that lags behind may answer with an older state now. Within an epoch, states have no
        order, so only a later epoch follows.
        """
        others = {None if one is None else _comparable(one) for one in states} - {_comparable(state)}
        if not others:
            return True
        newest = self.cluster.partition(*key)
        if newest is None or (newest.leader_epoch or 0) <= (state.leader_epoch or 0):
            return False
        return others == {_comparable(newest)}


def _comparable(state: PartitionState) -> tuple[int, int | None, frozenset[int]]:
    return state.leader, state.leader_epoch, frozenset(state.isr)

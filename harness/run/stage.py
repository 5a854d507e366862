"""What a scenario's body works with: clients, faults, and waits on observed conditions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from harness.clock import now_ns
from harness.cluster.model import Cluster, PartitionState, told
from harness.cluster.processes import Processes
from harness.console import Progress
from harness.errors import InvalidRunError, WaitTimeoutError
from harness.history.journal import Journal
from harness.kafka.model import TopicPartition
from harness.kafka.wire.dialect import Dialect
from harness.kafka.wire.logs import Fetched, fetch_own_log
from harness.lab.model import Lab
from harness.observer.files import own_log_of
from harness.observer.observer import Observer
from harness.observer.views import View
from harness.run.writers import BoundWriter
from harness.scenario import Setup, Topic
from harness.waiting import wait_until
from nemesis.nemesis import Nemesis
from workloads.client.client import Client, Stream
from workloads.protocol.results import ReadResult
from workloads.protocol.spec import ConsumerSpec, ProducerSpec, StreamLoad, Via

_CALM = {"batch.num.messages": 4}
"""An idempotent librdkafka producer polls without pause, on a core of its own, as long as five messages of a
partition wait for their answer and more are queued: during a cut that is for seconds. Smaller requests keep
it below five, and are enough up to `_CALM_RATE`."""
_CALM_RATE = 200.0


@dataclass
class Stage:
    """One running cluster with its clients, observer and nemesis."""

    setup: Setup
    lab: Lab
    cluster: Cluster
    processes: Processes
    observer: Observer
    nemesis: Nemesis
    clients: Mapping[str, Client]
    journal: Journal
    progress: Progress
    dialect: Dialect
    topics: Sequence[Topic]
    """All topics of the run, that of the background stream too."""
    streams: dict[str, Stream] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def mark(self, name: str, text: str = "") -> int:
        """Write a narrative mark that claims can refer to, show it, and return its time in ns."""
        self.progress.say(text or name)
        return self.journal.mark(name, text)

    def writer(
        self,
        az: str,
        name: str,
        *to: str,
        acks: int = -1,
        via: Via = "raw",
        retries: int = 0,
        idempotent: bool = False,
        request_timeout_s: float = 2.0,
        delivery_timeout_s: float | None = None,
        config: Mapping[str, str | int | float | bool] | None = None,
    ) -> BoundWriter:
        """A producer in one AZ's client host that sends to the brokers ``to`` (all of them if none is named).

        ``raw`` sends one ProduceRequest per message to exactly one broker, whoever leads; ``librdkafka``
        finds the leader from the bootstrap list.
        """
        spec = ProducerSpec(
            writer=next(self._numbers),
            name=name,
            brokers=to or self._all_brokers(),
            via=via,
            acks=acks,
            idempotent=idempotent,
            retries=retries,
            request_timeout_s=request_timeout_s,
            delivery_timeout_s=delivery_timeout_s,
            produce_version=self.dialect.produce,
            config=config or {},
        )
        return BoundWriter(self.clients[az], spec)

    def start_streams(self, rate: float, topic: str, partitions: int) -> None:
        """Start the background stream of every AZ: idempotent, acks=all, over all brokers it can reach."""
        for az, client in self.clients.items():
            spec = ProducerSpec(
                writer=next(self._numbers),
                name=f"{az}-stream",
                brokers=self._all_brokers(),
                via="librdkafka",
                acks=-1,
                role="stream",
                idempotent=self.dialect.produce >= 3,  # producer ids came with message format 2
                retries=1_000_000,
                # A message that times out makes librdkafka start a new producer epoch and send the others
                # again: duplicates. And the first broker that answers takes any sequence number of a
                # producer it does not know, so that with several requests in flight an early one that was
                # refused is missing for ever, though it is reported as written.
                delivery_timeout_s=120.0,
                config={"max.in.flight.requests.per.connection": 1, **(_CALM if rate <= _CALM_RATE else {})},
            )
            load = StreamLoad(topic=topic, partitions=tuple(range(partitions)), rate=rate)
            self.streams[az] = client.start_stream(spec, load)

    def stop_streams(self, flush_s: float = 5.0) -> None:
        """Stop the background streams; what is unanswered then ends as unknown."""
        with ThreadPoolExecutor(max(1, len(self.streams))) as pool:
            for stopped in [pool.submit(stream.stop, flush_s) for stream in self.streams.values()]:
                stopped.result()
        self.streams.clear()

    def read(
        self, az: str, topic: str, *brokers: str, partition: int = 0, within_s: float = 5.0
    ) -> ReadResult:
        """A consumer in one AZ reads a topic to its high watermark.

        With one broker named it asks that one alone, whoever leads; otherwise it finds the leader.
        """
        consumer = ConsumerSpec(
            reader=next(self._numbers),
            name=f"{az}-reader",
            brokers=brokers or self._all_brokers(),
            partitions=(TopicPartition(topic, partition),),
            pinned=len(brokers) == 1,
        )
        return self.clients[az].read(consumer, within_s)

    def read_all(self, az: str, places: Sequence[tuple[str, int]], within_s: float = 10.0) -> ReadResult:
        """A consumer in one AZ reads (topic, partition) places from start to end, from their leaders."""
        consumer = ConsumerSpec(
            reader=next(self._numbers),
            name=f"{az}-final-reader",
            brokers=self._all_brokers(),
            partitions=tuple(TopicPartition(*place) for place in places),
        )
        return self.clients[az].read(consumer, within_s)

    def _all_brokers(self) -> tuple[str, ...]:
        return tuple(f"broker{number}" for number in self.setup.brokers)

    def state(self, topic: str, partition: int = 0) -> PartitionState | None:
        """What the metadata store says about a partition; None where it does not answer for some seconds."""
        return told(lambda: self.cluster.partition(topic, partition), f"{topic}/{partition}")

    def leader(self, topic: str, partition: int = 0) -> str:
        """Host that leads the partition, as the metadata store says. Raises InvalidRunError for none."""
        state = self.state(topic, partition)
        if state is None or state.leader < 0:
            raise InvalidRunError(f"{topic}/{partition} has no leader, but the scenario needs one here.")
        return f"broker{state.leader}"

    def active_controller(self) -> str:
        """Host of the active controller: a broker, or with KRaft the node that leads the quorum."""
        number = told(self.cluster.controller, "a controller")
        for host in self.lab.topology.hosts:
            if host.node_id == number and host.role in ("broker", "controller"):
                return host.name
        raise InvalidRunError("There is no active controller, but the scenario needs one here.")

    def wait_for_leader(
        self, topic: str, *, on: str = "", not_on: str = "", partition: int = 0, within_s: float = 15.0
    ) -> PartitionState:
        """Wait until the metadata store names a leader on ``on``, or any that is ``not_on``."""
        wanted = self.lab.topology.host(on).node_id if on else None
        unwanted = self.lab.topology.host(not_on).node_id if not_on else None

        def fits(state: PartitionState | None) -> bool:
            if state is None or state.leader < 0:
                return False
            return state.leader == wanted if wanted is not None else state.leader != unwanted

        awaited = f"{on} to lead" if on else f"a leader other than {not_on} for"
        return self._wait_state(topic, partition, fits, f"{awaited} {topic}/{partition}", within_s)

    def wait_for_no_leader(self, topic: str, *, partition: int = 0, within_s: float = 15.0) -> PartitionState:
        """Wait until the metadata store says that nobody leads the partition."""
        return self._wait_state(
            topic,
            partition,
            lambda state: state is not None and state.leader == -1,
            f"{topic}/{partition} to be without a leader",
            within_s,
        )

    def wait_for_isr(
        self, topic: str, *members: int, partition: int = 0, within_s: float = 15.0
    ) -> PartitionState:
        """Wait until the metadata store lists exactly these brokers as in sync."""
        wanted = set(members)
        return self._wait_state(
            topic,
            partition,
            lambda state: state is not None and set(state.isr) == wanted,
            f"the ISR of {topic}/{partition} to be {sorted(wanted)}",
            within_s,
        )

    def wait_until_serving(
        self, topic: str, broker: str, *, az: str = "az2", partition: int = 0, within_s: float = 15.0
    ) -> None:
        """Wait until a broker accepts writes as leader: it learns of its election after the store does."""
        probe = self.writer(az, f"{az}-probe-{next(self._numbers)}", broker, acks=1)
        self.clients[az].wait_writable(topic, probe.spec, partition=partition, within_s=within_s)

    def incomplete_isrs(self) -> list[tuple[str, int]]:
        """Partitions whose replicas all run and are not all in sync, as the metadata store says."""
        found = []
        for topic in self.topics:
            for partition, replicas in enumerate(topic.assignment):
                if not all(self.lab.alive(f"broker{member}") for member in replicas):
                    continue
                state = self.cluster.partition(topic.name, partition)
                if state is not None and state.leader >= 0 and set(state.isr) != set(replicas):
                    found.append((topic.name, partition))
        return found

    def own_log(self, broker: str, topic: str, partition: int = 0) -> Fetched:
        """One replica's own log up to 1 MiB, read beside all clients and without side effects."""
        if not self.dialect.own_log_by_fetch:
            return own_log_of(self.lab.data_dir(broker) / "data", topic, partition)
        address = self.lab.topology.host(broker).address
        return fetch_own_log((address, 9092), topic, partition, dialect=self.dialect, timeout_s=2.0)

    def wait_replicated(self, topic: str, partition: int = 0, within_s: float = 15.0) -> None:
        """Wait until every in-sync replica holds the same log and knows that all of it is committed."""
        wait_until(
            lambda: self._disagreement(topic, partition, full_isr=False),
            accept=lambda disagreement: disagreement == "",
            within_s=within_s,
            awaiting=f"the in-sync replicas of {topic}/{partition} to agree",
            poll_s=0.1,
            abort=self.cluster.check_alive,
        )

    def wait_converged(self, topic: str, partition: int = 0, within_s: float = 30.0) -> None:
        """Wait until the ISR is full, all replicas hold the same log and every high watermark is its end."""
        wait_until(
            lambda: self._disagreement(topic, partition, full_isr=True),
            accept=lambda disagreement: disagreement == "",
            within_s=within_s,
            awaiting=f"the replicas of {topic}/{partition} to converge",
            poll_s=max(0.1, self.cluster.look_s),
            abort=self.cluster.check_alive,
        )
        state = self.state(topic, partition)
        if state is not None:
            self._wait_recorded(topic, partition, state)

    def _disagreement(self, topic: str, partition: int, *, full_isr: bool) -> str:
        state = self.cluster.partition(topic, partition)
        if state is None:
            return "unknown to the metadata store"
        wanted = next(
            (spec.assignment[partition] for spec in self.setup.topics if spec.name == topic), state.isr
        )
        if full_isr and set(state.isr) != set(wanted):
            return f"ISR {state.isr} of {wanted}"
        contents = {}
        for member in wanted if full_isr else state.isr:
            fetched = self.own_log(f"broker{member}", topic, partition)
            records = [(r.offset, r.epoch, r.crc) for r in fetched.records]
            end = records[-1][0] + 1 if records else fetched.log_start
            if fetched.error or fetched.high_watermark != end:
                return f"broker{member}: error {fetched.error}, HW {fetched.high_watermark}, LEO {end}"
            contents[member] = records
        first = next(iter(contents.values()))
        different = [member for member, records in contents.items() if records != first]
        return f"logs of brokers {different} differ" if different else ""

    def kill(self, *hosts: str) -> None:
        """SIGKILL processes as a recorded fault; `restart` brings them back."""
        self.nemesis.kill(*hosts)

    def restart(self, host: str) -> None:
        """Start a process again and wait until the cluster knows it."""
        self.cluster.start(host)
        self.progress.say(f"{host} is back")

    def since(self, mark_ns: int) -> float:
        """Seconds since a mark."""
        return (now_ns() - mark_ns) / 1e9

    def _wait_state(
        self,
        topic: str,
        partition: int,
        fits: Callable[[PartitionState | None], bool],
        awaiting: str,
        within_s: float,
    ) -> PartitionState:
        state = wait_until(
            lambda: self.cluster.partition(topic, partition),
            accept=fits,
            within_s=within_s,
            awaiting=awaiting,
            poll_s=self.cluster.look_s,
            abort=self.cluster.check_alive,
        )
        assert state is not None
        self._wait_recorded(topic, partition, state)
        return state

    def _wait_recorded(self, topic: str, partition: int, state: PartitionState) -> None:
        """The history must know it before the next mark is set: claims look back from marks.

        One node lags behind another, and its late word of an earlier state must not come last.
        """
        kind = "zookeeper" if self.cluster.mode == "zookeeper" else "broker"
        views = self.observer.views

        def shown(said: Iterable[View | None]) -> bool:
            newest = self.cluster.partition(topic, partition) or state
            known = {(one.leader, one.epoch, frozenset(one.isr)) for one in (state, newest)}
            return all(
                view is not None and (view.leader, view.epoch, frozenset(view.isr or ())) in known
                for view in said
            )

        if kind == "zookeeper":
            try:
                wait_until(
                    lambda: shown(
                        view
                        for view in views.select(kind, "partition", topic, partition)
                        if views.of(view.source).reachable()
                    ),
                    within_s=2,
                    poll_s=0.02,
                    awaiting=f"all nodes that answer to show the new state of {topic}/{partition}",
                )
            except WaitTimeoutError:
                self.progress.say(f"not every node shows the new state of {topic}/{partition} yet")
        wait_until(
            lambda: shown([views.of(kind).partition(topic, partition)]),
            within_s=5,
            poll_s=self.cluster.look_s / 2,
            awaiting=f"the observer to see leader {state.leader}, epoch {state.epoch}, ISR {state.isr} of "
            f"{topic}/{partition}",
        )

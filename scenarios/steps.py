"""Steps that several scenarios share: seeding, preconditions, and waits for what brokers log or believe."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping

from harness.errors import InvalidRunError, UnfitError, WaitTimeoutError
from harness.host_files import text_of_file
from harness.kafka.model import Topic, TopicPartition, broker_id
from harness.kafka.wire.admin import create_topics
from harness.kafka.wire.metadata import describe_topic_partitions
from harness.lab.model import SERVER_LOG
from harness.waiting import wait_until
from harness.zookeeper.four_letter import clients
from run.producer import Producer
from run.stage import Stage
from workloads.client.client import BackgroundConsumer
from workloads.protocol.spec import Via

_SEED_S = 10.0
"""Followers of a cluster that has just started on a busy machine may need seconds for the first fetch."""


def pins(*brokers: int, to: Iterable[int]) -> Mapping[str, tuple[str, ...]]:
    """Brokers that may use only these ZooKeeper nodes, so that a cut elsewhere leaves their session alone."""
    nodes = tuple(f"zookeeper{number}" for number in to)
    return {f"broker{number}": nodes for number in brokers}


def one_or_two_in_sync(one: str, two: str) -> tuple[Topic, Topic]:
    """The same topic twice: with min.insync.replicas=1 and with 2."""
    first, second = (
        Topic(name, (1, 2, 3), config={"min.insync.replicas": least})
        for name, least in ((one, "1"), (two, "2"))
    )
    return first, second


def require(holds: bool, sentence: str) -> None:
    """Check a precondition. Raises InvalidRunError if it does not hold, because the run would judge another case."""
    if not holds:
        raise InvalidRunError(f"A precondition does not hold: {sentence}; the run proves nothing.")


def seed(stage: Stage, *topics: str, leader: str = "broker1", labels: Iterable[str] = ("a", "b")) -> None:
    """Check who leads, then have messages acknowledged and replicated everywhere before anything breaks."""
    az = stage.lab.topology.host(leader).az
    writer = stage.producer(az, f"{az}-seed", leader, acks=-1, request_timeout_s=_SEED_S)
    for topic in topics:
        require(stage.leader(topic) == leader, f"{leader} leads {topic}")
        for label in labels:
            writer.must_send(topic, label)
    for topic in topics:
        # On a busy machine, a follower may have left the ISR while the cluster started.
        stage.wait_for_isr(topic, *next(spec.replicas for spec in stage.setup.topics if spec.name == topic))
        stage.wait_replicated(topic)
    stage.mark("seeded", f"messages {', '.join(labels)} are on every replica")


def durable_producer(
    stage: Stage, az: str, name: str, *to: str, via: Via = "librdkafka", delivery_timeout_s: float = 60.0
) -> Producer:
    """A producer that should lose nothing: acks=all, idempotent, and it retries until a new leader answers.

    It is told of the brokers ``to`` only, if any.
    """
    return stage.producer(
        az,
        name,
        *to,
        via=via,
        acks=-1,
        retries=1000,
        idempotent=True,
        delivery_timeout_s=delivery_timeout_s,
    )


def require_controller(stage: Stage, host: str) -> None:
    """The controller is where the case needs it."""
    actual = stage.active_controller()
    require(actual == host, f"{host} is controller ({actual} is)")


def wait_for_controller(stage: Stage, *, not_on: str) -> int:
    """Wait until another broker is controller; no claim depends on which one it is."""
    unwanted = stage.lab.topology.host(not_on).node_id

    def settled() -> int | None:
        number = stage.cluster.controller()
        seen = stage.observer.views.of("zookeeper").controller()
        return number if number is not None and number != unwanted and seen == number else None

    active = wait_until(
        settled,
        within_s=stage.timings.session_end_s,
        awaiting=f"a controller other than {not_on}",
        abort=stage.cluster.check_alive,
    )
    assert active is not None
    return active


def wait_unregistered(stage: Stage, *hosts: str) -> None:
    """Wait until brokers are no longer registered in the metadata store (their session ended)."""
    numbers = {stage.lab.topology.host(host).node_id for host in hosts}
    wait_until(
        lambda: (registered := stage.cluster.registered()) is not None and not numbers & registered,
        within_s=stage.timings.session_end_s,
        awaiting=f"{', '.join(hosts)} to lose their registration",
        abort=stage.cluster.check_alive,
    )


def wait_registered(stage: Stage, *hosts: str) -> None:
    """Wait until brokers are registered in the metadata store."""
    numbers = {stage.lab.topology.host(host).node_id for host in hosts}
    wait_until(
        lambda: numbers <= (stage.cluster.registered() or frozenset()),
        within_s=stage.timings.session_end_s,
        awaiting=f"{', '.join(hosts)} to be registered",
        abort=stage.cluster.check_alive,
    )


def move_sessions(stage: Stage, node: str, *brokers: str) -> None:
    """Let brokers connect to this ZooKeeper node, by rejecting connections to all others for a moment.

    Their sessions last: the connections are reset, so the brokers look for another node at once.
    """
    zookeepers = stage.lab.topology.role("zookeeper")
    endpoint = stage.lab.topology.host(node).zookeeper_endpoint
    addresses = {stage.lab.topology.host(broker).address for broker in brokers}
    refused = (
        f"{broker} -> {other.name}:zookeeper"
        for broker in brokers
        for other in zookeepers
        if other.name != node
    )
    with stage.nemesis.cut(*refused, action="reject"):
        wait_until(
            lambda: addresses <= clients(endpoint),
            within_s=10.0 + stage.timings.recovery_s,
            awaiting=f"{', '.join(brokers)} to connect to {node}",
            abort=stage.cluster.check_alive,
        )
    stage.mark("moved", f"{' and '.join(brokers)} are connected to {node}", connected_to=node)


def wait_elected(stage: Stage, topic: str, leader: str) -> bool:
    """Wait for an election that the settings under test may forbid; false if there was none."""
    return awaited(lambda: stage.wait_for_leader(topic, on=leader, within_s=stage.timings.session_end_s))


def awaited(wait: Callable[[], object]) -> bool:
    """Wait for what a sentence of an article denies; false if it did not happen in time.

    The scenario goes on without it, so that the claims can say that the sentence holds.
    """
    try:
        wait()
    except WaitTimeoutError:
        return False
    return True


def wait_view(stage: Stage, broker: str, topic: str, *, leader: int, epoch: int | None = None) -> None:
    """Wait until a broker's own Metadata names this leader (and leader epoch)."""
    views = stage.observer.views.of(broker)

    def believes() -> bool:
        belief = views.partition(topic)
        return belief is not None and belief.leader == leader and epoch in (None, belief.leader_epoch)

    wait_until(
        believes,
        within_s=10.0 + stage.timings.recovery_s,
        awaiting=f"{broker} to believe that broker{leader} leads {topic}",
    )


def log_lines(stage: Stage, host: str, *needles: str) -> list[str]:
    """Lines of a broker's log so far that contain all needles."""
    lines = text_of_file(stage.lab.files(host), SERVER_LOG).split("\n")
    return [line.rstrip() for line in lines if all(needle in line for needle in needles)]


def wait_log(
    stage: Stage, host: str, *needles: str, more_than: int = 0, within_s: float | None = None
) -> str:
    """Wait until a broker has logged such a line more than ``more_than`` times; returns the newest.

    By default it waits as long as a leader may need until it wants a smaller ISR.
    """
    lines = wait_until(
        lambda: log_lines(stage, host, *needles),
        accept=lambda entries: len(entries) > more_than,
        within_s=stage.timings.shrink_s if within_s is None else within_s,
        poll_s=0.1,
        awaiting=f"{host} to log {' … '.join(needles)!r}",
        abort=stage.cluster.check_alive,
    )
    return lines[-1]


_ISR_UPDATED = re.compile(r"ISR updated (?:from AlterIsr )?to \[?([\d, ]*\d)")
"""Since 3.5, `(under-min-isr)` may follow the ids."""


def updated_isr(line: str) -> frozenset[int]:
    """The broker ids of a leader's line `ISR updated to …`; empty if the line names none."""
    match = _ISR_UPDATED.search(line)
    return frozenset(int(number) for number in match[1].split(",")) if match else frozenset()


def updated_to(ids: str) -> str:
    """SQL about a row of `log_events`: the leader's line `ISR updated to …` has these ids, in this order.

    ``ids`` is a regular expression such as `1,3`. Since 3.5, a space or `(under-min-isr)` follows the ids.
    """
    return f"text RLIKE ' to {ids} ( |[(]under-min-isr[)] )?and '"


def shrinking_to(ids: str) -> str:
    """SQL about a row of `log_events`: the leader's line `Shrinking ISR …` says that these ids would remain.

    ``ids`` is a regular expression such as `1,3`.
    """
    return f"text RLIKE ' to {ids}[.] '"


def isr_updates(stage: Stage, leader: str, topic: str, isr: Iterable[int]) -> int:
    """How often the leader has logged that the ISR is this one."""
    members = set(isr)
    lines = log_lines(stage, leader, f"[Partition {topic}-0 ", "ISR updated")
    return sum(updated_isr(line) == members for line in lines)


def wait_isr_updates(stage: Stage, leader: str, topic: str, isr: Iterable[int], *, at_least: int) -> None:
    """Wait until the leader has logged ``at_least`` times that the ISR is this one."""
    members = set(isr)
    wait_until(
        lambda: isr_updates(stage, leader, topic, members),
        accept=lambda count: count >= at_least,
        within_s=stage.timings.shrink_s,
        poll_s=0.1,
        awaiting=f"{leader} to log {at_least} times that the ISR of {topic} is {sorted(members)}",
        abort=stage.cluster.check_alive,
    )


def wait_isr_committed(stage: Stage, leader: str, topic: str, isr: Iterable[int]) -> None:
    """Wait until the leader itself works with a changed ISR, as its log says.

    It does so some milliseconds after the metadata store changed. A single write in between is appended under
    the old ISR, and nothing completes it when the new ISR arrives (KAFKA-13091).
    """
    members = set(isr)

    def committed() -> bool:
        for line in reversed(log_lines(stage, leader, f"[Partition {topic}-0 ", "ISR updated")):
            return updated_isr(line) == members
        return False

    wait_until(
        committed,
        within_s=5,
        awaiting=f"{leader} to work with the ISR {sorted(members)} of {topic}",
        abort=stage.cluster.check_alive,
    )


def wait_answered(stage: Stage, producer: Producer, topic: str, error: int) -> None:
    """Send messages with a raw producer until its broker answers with this error, 0 for none.

    The answer shows the leader's own state: the metadata store may have a new ISR before the leader does.
    """
    wait_until(
        lambda: producer.send(topic, "probe"),
        accept=lambda result: result.error == error,
        within_s=15.0 + stage.timings.recovery_s,
        awaiting=f"{', '.join(broker.label for broker in producer.spec.brokers)} to answer a message to {topic} with error {error}",
        abort=stage.cluster.check_alive,
    )


def stand(stage: Stage, since: int, for_s: float) -> None:
    """Let a situation last until ``for_s`` seconds have passed since a mark (its time in ns).

    This is for events that must not happen: the window must be longer than the time in which they would
    happen.
    """
    wait_until(
        lambda: stage.since(since) >= for_s,
        within_s=for_s + 5,
        awaiting=f"the situation to have stood for {for_s:g} s",
        abort=stage.cluster.check_alive,
    )


def give_time(stage: Stage, happened: Callable[[], bool], within_s: float, awaiting: str) -> None:
    """Wait until something has happened, but go on without it after ``within_s``."""
    awaited(
        lambda: wait_until(
            happened, accept=bool, within_s=within_s, awaiting=awaiting, abort=stage.cluster.check_alive
        )
    )


def read_in_vain(stage: Stage, az: str, topic: str, *brokers: str, mark: str, within_s: float = 4.0) -> None:
    """Let a consumer in one AZ try to read a topic; a mark says how many records it received, and why.

    Give at least two ``brokers`` to bootstrap from, because it would also fetch records from a single one.
    """
    result = stage.read(az, topic, *brokers, within_s=within_s)
    why = "; ".join(text for _, text in result.errors) or "no answer"
    stage.mark(mark, f"{result.count} records for a consumer in {az}: {why}", records=result.count)


def wait_read(stage: Stage, readers: Collection[BackgroundConsumer], count: int, within_s: float) -> None:
    """Wait until each reader has received ``count`` records."""
    wait_until(
        lambda: min(reader.progress().count for reader in readers),
        accept=lambda least: least >= count,
        within_s=within_s,
        awaiting=f"each reader to have received {count} records",
        abort=stage.cluster.check_alive,
    )


def elect_preferred(stage: Stage, topic: str, leader: str) -> None:
    """Elect the preferred replica, which is on ``leader``; returns when the observer has seen it lead."""
    stage.operator.elect(topic, leader=leader)
    stage.wait_for_leader(topic, on=leader)


def high_watermark(stage: Stage, broker: str, topic: str) -> int:
    """A replica's own high watermark."""
    return stage.own_log(broker, topic).high_watermark


def log_end_offset(stage: Stage, broker: str, topic: str) -> int:
    """A replica's log end offset (LEO)."""
    return stage.own_log(broker, topic).log_end_offset


def wait_truncated_to_hw(stage: Stage, follower: str, topic: str, *, leader: int) -> None:
    """Wait until a follower has logged that it truncated a topic to its high watermark, for this leader."""
    needles = f"Truncating partition {topic}-0 ", "to local high watermark"  # 3.x puts more between them
    wait_log(stage, follower, f"leaderId={leader}", *needles)


def wait_log_end_offset(stage: Stage, topic: str, offset: int, *brokers: str) -> None:
    """Wait until the log end offset of each of these replicas is ``offset``, and the history has its records.

    Claims about the records of a replica rest on what the observer has seen, and a fault may come next.
    """

    def ends() -> list[tuple[int, int]]:
        log_ends = []
        for broker in brokers:
            end = log_end_offset(stage, broker, topic)
            seen = stage.observer.recorded_end(broker_id(broker), TopicPartition(topic, 0))
            log_ends.append((end, end if seen is None else seen))
        return log_ends

    wait_until(
        ends,
        accept=lambda log_ends: set(log_ends) == {(offset, offset)},
        within_s=15.0 + stage.timings.recovery_s,
        awaiting=f"the log end offset of {topic} on {', '.join(brokers)} to be {offset}, and to be recorded",
        abort=stage.cluster.check_alive,
    )


def note_eligible(stage: Stage, broker: str, topic: str, mark: str) -> None:
    """Set a mark with the replicas that may lead a topic's partition 0, as a running broker reports them.

    Sets none if the version has no eligible leader replicas (KIP-966).
    """
    endpoint = stage.lab.topology.host(broker).broker_endpoint
    try:
        seen = describe_topic_partitions(endpoint, [topic], timeout_s=2.0)[TopicPartition(topic, 0)]
    except UnfitError as error:
        stage.progress.say(error.message)
        return
    stage.mark(
        mark,
        f"leader {seen.state.leader}, ISR {list(seen.state.isr)}, eligible {list(seen.eligible)}, "
        f"last known {list(seen.last_known_eligible)}",
        eligible=list(seen.eligible),
        last_known=list(seen.last_known_eligible),
    )


def try_create_topic(stage: Stage, broker: str, topic: str, replicas: tuple[int, ...], mark: str) -> None:
    """Ask one broker, as if it were the controller, for a new topic; a mark records its answer.

    The observer sees whether the topic is created: see `partition(topic).exists` of the claims' builders.
    """
    stage.observer.watch([topic])
    endpoint = stage.lab.topology.host(broker).broker_endpoint
    new = Topic(topic, replicas)
    error: int | None = None
    try:
        answers = create_topics(endpoint, [new], wait_ms=1500, dialect=stage.dialect, timeout_s=2.5)
        error = answers[topic].error
    except OSError:
        last_answer = "no answer"
    else:
        last_answer = f"answered with error {error}"
    exists = stage.cluster.partition(topic) is not None
    stage.mark(
        mark,
        f"{broker} asked to create {topic}: {last_answer}; {'it exists' if exists else 'no such topic'}",
        answered=int(error is not None),
        exists=int(exists),
    )


def settle(stage: Stage, *topics: str, mark: str = "converged") -> None:
    """Wait until the replicas of these topics (all, if none is named) hold the same log, and set a mark."""
    for topic in topics or tuple(spec.name for spec in stage.setup.topics):
        stage.wait_converged(topic, within_s=stage.timings.converge_s)
    stage.mark(mark, "all replicas hold the same log and are in sync")

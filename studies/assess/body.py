"""What every run of an assessment does: clients in every AZ, a fault, the heal, and the recovery.

In every AZ, a producer of each setting writes to all partitions of each topic at a steady rate, and a
consumer reads them, from before the fault until after the recovery. Marks say what is measured later:

| mark | text |
|---|---|
| `led-inside`, `led-outside` | a partition and its topic's described name, `orders-2/0/orders`, by where its
first leader is |
| `reader-az1` | the number of the AZ's consumer |
| `begin`, `injected` | the fault is about to be injected; it is in force |
| `heal`, `healed` | it is about to be healed; it is over |
| `operator` | what an operator had to do |
| `recovered` | every partition has a leader and a full ISR, and all replicas answer; absent if not in time |
| `drained` | the producers have stopped |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext

from harness.clock import now_ns
from harness.errors import InvalidRunError, WaitTimeoutError
from harness.kafka.config import BASE_ZOOKEEPER
from harness.kafka.model import TopicPartition, broker_name
from harness.waiting import wait_until
from nemesis.fault import Injection
from run.sessions import after_heartbeat, steered
from run.stage import Stage
from studies.assess.battery import DELAY_MS, RATE_KBIT, Case
from studies.assess.described import (
    CALM_FETCHES,
    DRAIN_S,
    RATE_PER_PARTITION,
    ProducerSetting,
    default_times,
    hold_s,
    led_inside,
    recovery_s,
)
from workloads.client.client import BackgroundConsumer
from workloads.protocol.spec import StreamLoad

_WARM_S = 30.0
_STEADY_S = 2.0
_HEARD_S = 5.0
"""How much longer than its session a broker may take to send a ping."""
_RELAYED_S = 0.05 + float(BASE_ZOOKEEPER["tickTime"]) / 2000
"""A node of ZooKeeper tells its leader about pings when the leader pings it, which is every half tick."""
_FLAP_PERIOD_S = 2.0


def run_case(stage: Stage, case: Case, producers: Sequence[ProducerSetting], names: Sequence[str]) -> None:
    """Run one case. ``names`` are the described names of the set-up's topics, in the same order.

    Raises InvalidRunError if it proves nothing.
    """
    readers = _start_clients(stage, case, producers, names)
    with stage.lab.run_first():
        _measure(stage, case)
    for reader in readers:
        reader.stop()


def _measure(stage: Stage, case: Case) -> None:
    """Inject the fault, heal it, and wait for the recovery."""
    since = stage.mark("begin", f"{case.says} in a moment")
    if case.session_hit:
        _stand(stage, since, _STEADY_S / 2)
        _await_heartbeat(stage, case.session_hit, case.sessions[case.session_hit])
    else:
        _stand(stage, since, _STEADY_S)
    with _fault(stage, case):
        injected = stage.mark("injected", case.says)
        if case.mechanism != "rolling-restart":
            _stand(stage, injected, hold_s(stage.timings))
        stage.mark("heal", "the fault is healed")
    healed = stage.mark("healed", "the fault is over")
    _recover(stage)
    _stand(stage, healed, _STEADY_S)
    stage.stop_streams(DRAIN_S)
    stage.mark("drained", "the producers have stopped")


def _await_heartbeat(stage: Stage, broker: str, node: str) -> None:
    """Wait until the broker's session at a ZooKeeper node, which the fault may end, has been prolonged.

    It lasts between two thirds of its time-out and the whole of it after the fault, and for as long nobody
    notices that its broker is gone. So a fault that began at any moment would cost a time of its own.
    """
    after_heartbeat(
        stage.lab.topology,
        broker,
        node,
        within_s=stage.timings.session_s + _HEARD_S,
        abort=stage.cluster.check_alive,
    )
    _stand(stage, now_ns(), _RELAYED_S)


def _start_clients(
    stage: Stage, case: Case, producers: Sequence[ProducerSetting], names: Sequence[str]
) -> list[BackgroundConsumer]:
    """Start producers and consumers in every AZ, and wait until all of them work."""
    topics = stage.setup.topics
    for topic, name in zip(topics, names, strict=True):
        for key, replicas in zip(topic.topic_partitions, topic.assignment, strict=True):
            inside = led_inside(case, replicas[0])
            stage.journal.mark("led-inside" if inside else "led-outside", f"{key}/{name}")
    partitions = _partitions(stage)
    own = default_times(stage.user.producer.given, stage.timings)
    readers: list[BackgroundConsumer] = []
    due: list[tuple[Callable[[], int], int]] = []
    for az in (az for az in stage.lab.topology.azs if az in stage.clients):
        for topic in topics:
            load = StreamLoad(
                topic=topic.name,
                partitions=tuple(range(topic.partitions)),
                rate=RATE_PER_PARTITION * topic.partitions,
            )
            for one in producers:
                stream = stage.start_stream(az, f"{az}-{topic.name}-{one.name}", load, {**own, **one.fixed})
                due.append((lambda stream=stream: stream.counts().ok, 2 * topic.partitions))  # type: ignore[misc]
        readers.append(stage.start_reader(az, partitions, CALM_FETCHES))
        stage.journal.mark(f"reader-{az}", str(readers[-1].consumer.reader))
        due.append((lambda reader=readers[-1]: reader.progress().count, 2 * len(partitions)))  # type: ignore[misc]
    wait_until(
        lambda: [count() for count, _ in due],
        accept=lambda counts: all(count >= enough for count, (_, enough) in zip(counts, due, strict=True)),
        within_s=_WARM_S,
        poll_s=0.2,
        awaiting="every producer and every consumer to work",
        abort=stage.cluster.check_alive,
    )
    wait_until(
        lambda: _unhealthy(stage),
        accept=lambda found: not found,
        within_s=_WARM_S,
        awaiting="every partition to have a full ISR before the fault",
        abort=stage.cluster.check_alive,
    )
    return readers


@contextmanager
def _fault(stage: Stage, case: Case) -> Iterator[None]:
    """Inject the fault of a case; heal it at the end."""
    if case.mechanism in _PROCESSES:
        _PROCESSES[case.mechanism](stage, case)
        yield
        _start_together(stage, case.targets)
        return
    if case.mechanism == "rolling-restart":
        with stage.nemesis.cut(_link(case, "<->")) if case.targets else nullcontext():
            with steered(stage.lab, case.sessions):
                brokers = [broker_name(number) for number in stage.setup.brokers]
                stage.nemesis.rolling_restart(*brokers, restart=stage.cluster.start)
            yield
        return
    with _LASTING[case.mechanism](stage, case):
        yield


def _link(case: Case, arrow: str) -> str:
    return f"{case.targets[0]} {arrow} {case.targets[1]}"


def _cut_power(stage: Stage, case: Case) -> None:
    """Brokers lose what they had not flushed; nodes of the quorum flush everything, and are killed."""
    topology = stage.lab.topology
    brokers = [name for name in case.targets if topology.host(name).role == "broker"]
    others = [name for name in case.targets if name not in brokers]
    if others:
        stage.nemesis.kill(*others)
    stage.nemesis.storage.power_cut(*brokers)


def _fill(stage: Stage, case: Case) -> Injection:
    (host,) = case.targets
    stage.processes.expect_end(host)  # Kafka stops when its only log directory fails
    return stage.nemesis.storage.fill_disk(host)


_PROCESSES: dict[str, Callable[[Stage, Case], object]] = {
    "kill": lambda stage, case: stage.nemesis.kill(*case.targets),
    "kill-az": lambda stage, case: stage.nemesis.kill(*case.targets),
    "kill-roles": lambda stage, case: stage.nemesis.kill(*case.targets),
    "no-quorum": lambda stage, case: stage.nemesis.kill(*case.targets),
    "power-az": _cut_power,
    "power-all": _cut_power,
}
"""Faults that end processes, which are started again at the end."""

_LASTING: dict[str, Callable[[Stage, Case], Injection]] = {
    "isolate": lambda stage, case: stage.nemesis.isolate(case.targets[0]),
    "cut": lambda stage, case: stage.nemesis.cut(_link(case, "<->")),
    "one-way": lambda stage, case: stage.nemesis.cut(_link(case, "->")),
    "flap": lambda stage, case: stage.nemesis.flapping(_link(case, "<->"), period_s=_FLAP_PERIOD_S),
    "pause": lambda stage, case: stage.nemesis.pause(*case.targets),
    "rate": lambda stage, case: stage.nemesis.degrade.throttle(case.targets[0], rate_kbit=RATE_KBIT),
    "delay": lambda stage, case: stage.nemesis.degrade.delay(case.targets[0], delay_ms=DELAY_MS),
    "disk-full": _fill,
}


def _start_together(stage: Stage, hosts: Sequence[str]) -> None:
    """Start ended processes again: nodes of the quorum one after the other, then all brokers at once."""
    topology = stage.lab.topology
    brokers = [name for name in hosts if topology.host(name).role == "broker"]
    for name in hosts:
        if name not in brokers:
            stage.cluster.start(name)
    if brokers:
        with ThreadPoolExecutor(len(brokers)) as pool:
            for started in [pool.submit(stage.cluster.start, name) for name in brokers]:
                started.result()


def _recover(stage: Stage) -> None:
    """Wait until every partition has a leader and a full ISR; do what an operator would, if need be."""
    dead = [name for name in _cluster_hosts(stage) if not stage.lab.alive(name)]
    for name in dead:
        stage.mark("operator", f"start {name}")
        stage.cluster.start(name)
    for action in (None, _act):
        if action is not None and not action(stage):
            return
        try:
            wait_until(
                lambda: [*map(str, _unhealthy(stage))] or [*stage.silent_replicas(_partitions(stage))],
                accept=lambda found: not found,
                within_s=recovery_s(stage.timings),
                poll_s=max(0.1, stage.cluster.poll_s),
                awaiting="every partition to have a leader and a full ISR",
                abort=stage.cluster.check_alive,
            )
        except WaitTimeoutError as error:
            stage.progress.say(error.message)
        else:
            stage.mark("recovered", "every partition has a leader and a full ISR")
            return


def _act(stage: Stage) -> bool:
    """Do what an operator would about partitions that do not recover; False if there is nothing to do."""
    acted = False
    restarted: set[int] = set()
    for key in _unhealthy(stage):
        state = stage.state(*key)
        if state is None:
            continue
        try:
            if state.leader < 0:
                stage.mark("operator", f"elect an unclean leader of {key}")
                stage.nemesis.operator(stage.cluster, stage.dialect).elect(*key, kind="unclean")
            elif state.leader not in restarted:
                leader = broker_name(state.leader)
                restarted.add(state.leader)
                stage.mark("operator", f"restart {leader}")
                stage.nemesis.stop(leader)
                stage.cluster.start(leader)
        except InvalidRunError as error:
            stage.progress.say(error.message)
        acted = True
    return acted


def _partitions(stage: Stage) -> list[TopicPartition]:
    return [key for topic in stage.setup.topics for key in topic.topic_partitions]


def _unhealthy(stage: Stage) -> list[TopicPartition]:
    """Partitions without a leader or without a full ISR, or about which the metadata store says nothing."""
    return [key for key, _ in stage.unhealthy(_partitions(stage))]


def _cluster_hosts(stage: Stage) -> list[str]:
    return [host.name for host in stage.lab.topology.hosts if host.role != "client"]


def _stand(stage: Stage, since: int, for_s: float) -> None:
    """Change nothing until ``for_s`` seconds have passed since a mark."""
    wait_until(
        lambda: stage.since(since) >= for_s,
        within_s=for_s + 5,
        poll_s=0.2,
        awaiting=f"{for_s:g} s to pass since the last step",
        abort=stage.cluster.check_alive,
    )

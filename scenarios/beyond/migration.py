"""The metadata moves from ZooKeeper to KRaft, and half-way the AZ of the active controller is cut off.

The steps are those of Kafka's documentation (3.9, Operations, "ZooKeeper to KRaft Migration"); what happens in
between is described in KIP-866.
"""

from __future__ import annotations

from checkers.claims.builders import (
    both,
    broker,
    messages,
    opposite,
    partition,
    quorum_elects,
)
from checkers.claims.builders.migration import (
    zookeeper_epoch_rises,
    zookeeper_has,
    zookeeper_has_topic,
    zookeeper_names,
    zookeeper_registers,
)
from harness.cluster.migration import MigratingCluster, Phase
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.kafka.wire.admin import create_topics
from harness.waiting import wait_until
from run.scenario import Claim, Scenario
from run.stage import Stage
from scenarios.steps import require, seed, settle, stand, wait_view

T, U = "t", "u"
"""Broker 2 leads both after the brokers have been restarted in the order 2, 3, 1."""
DUAL, FINAL = "created-in-the-cut", "created-at-the-end"
PT, PU = partition(T), partition(U)


def _cluster(stage: Stage) -> MigratingCluster:
    assert isinstance(stage.cluster, MigratingCluster)
    return stage.cluster


def _roll(stage: Stage, phase: Phase, *hosts: str) -> None:
    """Stop nodes one by one, and start them again in another phase of the migration."""
    for host in hosts:
        stage.nemesis.stop(host)
        _cluster(stage).configure(host, phase)
        stage.restart(host)
        if host.startswith("broker"):
            for topic in (T, U):
                stage.wait_for_isr(topic, 1, 2, 3, within_s=stage.timings.converge_s)


def _half_way(stage: Stage) -> None:
    """Enter the migration, restart one broker in KRaft mode, and cut off the AZ of the active controller."""
    cluster = _cluster(stage)
    stage.observer.watch([DUAL, FINAL])
    seed(stage, T)
    cluster.start_controllers()
    stage.mark("provisioned", "the KRaft controllers run, and wait for the brokers")
    _roll(stage, "migrating", "broker2", "broker3", "broker1")
    number = cluster.wait_migrated()
    wait_until(
        lambda: stage.observer.views.of("zookeeper").controller(),
        accept=lambda seen: seen == number,
        within_s=20,
        awaiting=f"the observer to see controller {number} in ZooKeeper",
    )
    stage.mark("migrated", f"controller {number} has taken over; it writes to ZooKeeper too")
    _roll(stage, "kraft", "broker1")
    require(stage.active_controller() == "controller2", "controller2 is the active controller")
    for topic in (T, U):
        require(stage.leader(topic) == "broker2", f"broker2 leads {topic}")
        stage.producer("az1", "az1-before", "broker2", acks=-1).must_send(topic, "before")
    stage.mark("half-way", "one broker runs in KRaft mode, two in ZooKeeper mode")
    with stage.nemesis.isolate("az2"):
        cut = stage.mark("cut", "the AZ of the active controller and of both leaders is cut off")
        isolated = stage.producer("az2", "az2-acks-all", "broker2", acks=-1)
        waiting = [isolated.send_later(topic, "isolated") for topic in (T, U)]
        for topic, leader in ((T, 1), (U, 3)):
            stage.wait_for_leader(topic, on=f"broker{leader}", within_s=stage.timings.quorum_cut_s + 15)
            stage.wait_for_isr(topic, 1, 3)
        endpoint = stage.lab.topology.host("broker1").broker_endpoint
        create_topics(endpoint, [Topic(DUAL, (1, 3))], wait_ms=10_000, timeout_s=15.0)
        stage.mark("moved", "both partitions have leaders on the other side")
        for topic, leader in ((T, 1), (U, 3)):
            stage.wait_until_serving(topic, f"broker{leader}", az=f"az{leader}")
            stage.producer(f"az{leader}", f"az{leader}-acks-all", f"broker{leader}", acks=-1).must_send(
                topic, "during"
            )
        stand(stage, cut, stage.timings.quorum_cut_s)
        stage.mark("standing", "the last moment of the cut")
    stage.mark("healed", "the links are back")
    for sent in waiting:
        sent.result(timeout=60)
    for topic in (T, U):
        stage.wait_converged(topic, within_s=stage.timings.converge_s)
    stage.mark("recovered", "all replicas are in sync again")


def _go_on(stage: Stage) -> None:
    """Half-way, then the remaining brokers and the controllers."""
    _half_way(stage)
    _roll(stage, "kraft", "broker3", "broker2")
    stage.mark("all-kraft", "every broker runs in KRaft mode")
    _roll(stage, "kraft", "controller1", "controller3", "controller2")
    wait_until(lambda: stage.cluster.controller() is not None, within_s=20, awaiting="a controller")
    stage.mark("final", "the controllers no longer write to ZooKeeper")
    endpoint = stage.lab.topology.host("broker1").broker_endpoint
    create_topics(endpoint, [Topic(FINAL, (1, 2, 3))], wait_ms=10_000, timeout_s=15.0)
    for topic in (T, U):
        stage.producer("az1", "az1-after", stage.leader(topic), acks=-1).must_send(topic, "after")
    wait_view(stage, "broker1", FINAL, leader=1)
    settle(stage)


_HALF_WAY = (
    Claim(
        name="taken-over",
        section="beyond the articles",
        says="Once every broker has registered with the KRaft controllers, their leader takes the "
        "controller's role from the broker that had it, in a higher epoch: it forces a write to `/controller` "
        "and `/controller_epoch` (KIP-866).",
        holds=both(
            zookeeper_names(1, 2, 3, at="provisioned"),
            zookeeper_names(12, at="migrated"),
            zookeeper_epoch_rises(since="provisioned", until="migrated"),
        ),
    ),
    Claim(
        name="next-controller",
        section="beyond the articles",
        says="With its AZ cut off, another KRaft controller is elected, and ZooKeeper names it, too (KIP-866).",
        holds=both(
            quorum_elects(after="cut", within_s=30),
            zookeeper_names(11, 13, at="moved"),
        ),
    ),
    Claim(
        name="leaders-move",
        section="beyond the articles",
        says="It elects leaders on the other side of the cut: a broker in KRaft mode, and one in ZooKeeper "
        "mode, which acknowledge acks=all without the replica that is cut off.",
        holds=both(
            PT.is_led_by(1, isr=(1, 3), at="moved"),
            PU.is_led_by(3, isr=(1, 3), at="moved"),
            messages(("az1-acks-all", "az3-acks-all")).acknowledged(at_least=2),
        ),
    ),
    Claim(
        name="written-twice",
        section="beyond the articles",
        says="What it decides during the cut is in ZooKeeper too: the leaders, the ISRs, and a new topic "
        "(dual write, KIP-866).",
        holds=both(
            zookeeper_has(PT, leader=1, isr=(1, 3), at="standing"),
            zookeeper_has(PU, leader=3, isr=(1, 3), at="standing"),
            zookeeper_has_topic(DUAL, at="standing"),
        ),
    ),
    Claim(
        name="old-leader-waits",
        section="beyond the articles",
        says="The leader that is cut off acknowledges no acks=all, because it cannot shrink its ISR.",
        holds=messages("az2-acks-all").not_acknowledged(at_least=2),
    ),
    Claim(
        name="nothing-lost",
        section="beyond the articles",
        says="Nothing that was acknowledged with acks=all is lost, in any phase.",
        holds=messages(acks=-1).none_lost(at_risk_after="cut", at_least=50),
    ),
)
_ENDS = (
    Claim(
        name="goes-on",
        section="beyond the articles",
        says="The migration continues after the heal: all brokers run in KRaft mode, so none is registered in ZooKeeper, and every replica is in sync.",
        holds=both(
            zookeeper_registers(at="all-kraft"),
            PT.has_isr(1, 2, 3, at="converged"),
            PU.has_isr(1, 2, 3, at="converged"),
        ),
    ),
    Claim(
        name="epochs-go-on",
        section="beyond the articles",
        says="Leader epochs continue from those in ZooKeeper.",
        holds=both(
            PT.epoch_rises(since="provisioned", until="moved"),
            PT.epoch_rises(since="moved", until="converged"),
        ),
    ),
    Claim(
        name="written-once",
        section="beyond the articles",
        says="After the controllers have left migration mode, a new topic is known to brokers alone: "
        "a finalized migration no longer writes metadata to ZooKeeper (documentation of 3.9).",
        holds=both(
            broker(1).knows(FINAL, at="converged"),
            opposite(zookeeper_has_topic(FINAL, at="converged")),
        ),
    ),
    Claim(
        name="serves-on",
        section="beyond the articles",
        says="The migrated cluster acknowledges acks=all with every replica in sync.",
        holds=messages("az1-after").kept(at_least=2),
    ),
)
_SETUP = Setup(
    topics=tuple(
        Topic(name, replicas, config={"min.insync.replicas": "2"})
        for name, replicas in ((T, (1, 2, 3)), (U, (3, 2, 1)))
    ),
    controller="broker2",
    zookeeper_leader="zookeeper3",
    exactly=("broker", "controller"),
    stream_rate=5.0,
)

SCENARIOS = (
    Scenario(
        name="migration-az-cut",
        title="ZooKeeper to KRaft: the active controller's AZ is cut off half-way, then the migration goes on",
        article="beyond",
        section="migration",
        body=_go_on,
        setup=_SETUP,
        claims=(*_HALF_WAY, *_ENDS),
        faults=("stop each broker and controller in turn", "isolate az2"),
        kafka="3.9.1",
        mode="migration",
        outcome="the next KRaft controller takes over, in ZooKeeper too; nothing acknowledged is lost",
    ),
)

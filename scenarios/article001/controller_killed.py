"""Article 001, consensus: the controller dies; another broker takes over when its session has ended."""

from __future__ import annotations

from checkers.claims.builders import (
    about,
    both,
    broker,
    controller_changes,
    controller_is,
    controller_stays,
    mark,
    messages,
    messages_where,
    partition,
)
from harness.cluster.setup import Setup
from harness.cluster.timings import BASE, Timings
from harness.kafka.model import Topic
from run.scenario import Claim, Scenario
from run.stage import Stage
from scenarios.steps import require_controller, seed, settle, stand, wait_for_controller, wait_view

APART, BESIDE, ITS_OWN = "a", "b", "c"
"""Replicas (1,2), (1,2,3) with the controller as a follower, and (3,1,2) with the controller as leader."""


def body(stage: Stage) -> None:
    """Kill the controller; write to partitions that others lead; wait for its successor; start it again."""
    seed(stage, APART, BESIDE)
    seed(stage, ITS_OWN, leader="broker3")
    require_controller(stage, "broker3")
    apart = stage.producer("az1", "az1-apart", "broker1", acks=-1)
    one = stage.producer("az1", "az1-acks1", "broker1", acks=1)
    patient = stage.producer(
        "az1", "az1-patient", "broker1", acks=-1, request_timeout_s=stage.timings.patience_s
    )
    stage.kill("broker3")
    killed = stage.mark("killed", "the controller is dead")
    going_on = apart.keep_writing(APART, every_s=0.1)
    waiting = patient.send_later(BESIDE, "waits")
    for number in range(3):
        one.send(BESIDE, f"m{number}")
    # After the last ping before the kill, a session lasts at least two thirds of its time-out. This is
    # shorter.
    stand(stage, killed, 0.375 * stage.timings.session_s)
    stage.mark("headless", "its session still lasts, and nobody else is controller")
    wait_for_controller(stage, not_on="broker3")
    stage.mark("succession", "another broker is controller")
    stage.wait_for_leader(ITS_OWN, not_on="broker3")
    stage.wait_for_isr(BESIDE, 1, 2)
    stage.wait_until_serving(ITS_OWN, "broker1", az="az1")
    stage.mark("elected", "the partition that the dead controller led has a leader again")
    waiting.result(timeout=stage.timings.patience_s + 10)
    going_on.stop()
    stage.producer("az1", "az1-after", "broker1", acks=-1).send(ITS_OWN, "n")
    for host in ("broker1", "broker2"):
        wait_view(stage, host, ITS_OWN, leader=1)
    stage.mark("before-return", "the old controller is still dead")
    stage.restart("broker3")
    settle(stage)


A, B, C = partition(APART), partition(BESIDE), partition(ITS_OWN)
_PATIENT = messages("az1-patient", after="killed")


def _after_the_session(timings: Timings) -> Claim:
    session_s, limit_s = timings.session_s, 2.5 * timings.session_s
    return Claim(
        name="after-the-session",
        section="001, consensus",
        quote="如果在一定时间内zookeeper不能再接收到broker发送过来的心跳信息,那么zookeeper就会认为这个broker已经死掉或失效",
        says="ZooKeeper regards a broker as dead when it has had no heartbeat for some time: not at once, and with "
        f"sessions of {session_s:g} s within {limit_s:g} s.",
        holds=both(
            controller_stays(since="seeded", until="headless"),
            broker(3).is_registered(at="headless"),
            C.becomes(leader=1, after="killed", within_s=limit_s),
        ),
    )


def _nobody_elects(timings: Timings) -> Claim:
    # After the last ping before the kill, a session lasts at least two thirds of its time-out.
    at_least_s = timings.session_s * 2 / 3
    killed = mark("killed")
    state = "concat(leader, ' ', epoch, ' ', cast(isr AS string))"
    before = (
        f"SELECT max_by({state}, struct(epoch, ns)) AS stood FROM truth WHERE {C.where} AND ns <= {killed}"
    )
    changed = (
        f"SELECT min(ns) AS changed FROM truth CROSS JOIN ({before}) "
        f"WHERE {C.where} AND ns > {killed} AND {state} != stood"
    )
    elected = (
        f"SELECT min(ns) AS elected FROM controllers "
        f"CROSS JOIN (SELECT max(epoch) AS old FROM controllers WHERE ns <= {killed}) "
        f"WHERE ns > {killed} AND controller IN (1, 2) AND epoch > old"
    )
    return Claim(
        name="nobody-elects-meanwhile",
        section="001, consensus",
        quote="控制节点是kafka broker节点中其中的一个节点,它负责选举出每个复制分区的leader副本",
        says="The controller elects the leaders: until there is another controller, for at least "
        f"{at_least_s:.1f} s, the state of the partition that the dead one led does not change; then it has "
        "another leader.",
        holds=both(
            about(
                f"SELECT CASE WHEN changed < coalesce(elected, changed + 1) THEN false "
                f"WHEN elected IS NOT NULL THEN elected - {killed} >= {int(at_least_s * 1e9)} END AS holds, "
                f"concat('after the kill, another controller {_after('elected')}, another state {_after('changed')}') "
                f"AS observed FROM ({changed}) CROSS JOIN ({elected})",
                C,
                since="killed",
                tables=("truth", "controllers"),
            ),
            C.is_led_by(1, isr=(1, 2), at="elected"),
        ),
    )


def _after(moment: str) -> str:
    """Closes an SQL literal, says how long after the kill a moment was, and opens another literal."""
    return f"', coalesce(concat(round(({moment} - {mark('killed')}) / 1e9, 1), ' s'), 'never'), '"


CLAIMS = (
    Claim(
        name="successor",
        section="001, consensus",
        quote="当控制节点失效时zookeeper触发控制节点切换,重新选举出新的控制节点",
        says="When the controller fails, ZooKeeper triggers the election of another one.",
        holds=both(
            controller_changes(since="headless", until="succession"), controller_is(1, 2, at="succession")
        ),
    ),
    _after_the_session(BASE),
    _nobody_elects(BASE),
    Claim(
        name="tells-the-replicas",
        section="001, consensus",
        quote="向分区中的每个数据副本所在broker节点发送LeaderAndISRCommand,通知相关的ISR及leader信息",
        says="The new controller tells the replicas who leads and who is in sync.",
        holds=both(
            broker(1).logged("became_leader", of=C, after="killed", before="before-return"),
            *(broker(number).believes(C, leader=1, isr=(1, 2), at="before-return") for number in (1, 2)),
        ),
    ),
    Claim(
        name="epoch-rises-by-two",
        section="000 §3.2",
        quote="这里 leaderEpoch 增加 2，是因为有两次增加 leaderEpoch 的操作：一次是…OnlinePartition 时的 leader 选举，"
        "一次是…OfflineReplica 时的 removeReplicasFromIsr",
        says="The leader epoch rises by 2: by the election of a leader and by the removal of the replica from the ISR. "
        "This is so if the leader that died was the controller.",
        holds=C.epoch_rises(by=2, since="seeded", until="elected"),
    ),
    Claim(
        name="others-go-on",
        section="beyond 001, consensus",
        says="Partitions that others lead work without a controller, acks=all included, if all in-sync replicas live.",
        holds=both(
            messages("az1-apart", after="killed", before="headless").acknowledged(at_least=5),
            messages("az1-apart", after="killed", before="before-return").kept(at_least=10),
            A.stays(since="seeded", until="before-return"),
        ),
    ),
    Claim(
        name="acks-1-goes-on",
        section="beyond 001, consensus",
        says="If the dead controller was a follower, acks=1 still works.",
        holds=messages("az1-acks1", after="killed", before="headless").acknowledged(at_least=3),
    ),
    Claim(
        name="acks-all-waits",
        section="beyond 001, consensus",
        says="In that partition acks=all waits until the new controller removes the dead replica from the ISR, and then succeeds.",
        holds=both(
            messages_where(
                f"{_PATIENT.where} AND done_ns > {mark('headless')}", of=_PATIENT, since="headless"
            ).acknowledged(),
            B.is_led_by(1, isr=(1, 2), epoch=1, at="elected"),
        ),
    ),
    Claim(
        name="no-way-back",
        section="beyond 001, consensus",
        says="When the old controller returns, it follows: its successor stays controller, and it joins the ISRs.",
        holds=both(
            controller_stays(since="succession", until="converged"),
            broker(3).names_controller(1, 2, at="converged"),
            C.is_led_by(1, isr=(1, 2, 3), at="converged"),
        ),
    ),
    Claim(
        name="nothing-lost",
        section="beyond 001, consensus",
        says="Nothing that was acknowledged is lost, not even with acks=1: no partition lost a leader with unreplicated data.",
        holds=messages().none_lost(at_risk_after="killed", at_least=15),
    ),
)

SCENARIO = Scenario(
    name="controller-killed",
    title="The controller dies",
    article="001",
    section="consensus",
    body=body,
    setup=Setup(
        topics=(Topic(APART, (1, 2)), Topic(BESIDE, (1, 2, 3)), Topic(ITS_OWN, (3, 1, 2))),
        controller="broker3",
        zookeeper_leader="zookeeper2",
        exactly=("broker",),
        stream_rate=0.0,
    ),
    claims=CLAIMS,
    timed=(_after_the_session, _nobody_elects),
    faults=("kill broker3",),
    outcome="nothing lost; another controller within the session, partitions led by others go on",
)

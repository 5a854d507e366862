"""Article 000, sections 3.1 to 4.2, in KRaft: an AZ is cut off, with followers, leaders or the controller.

One cut judges several partitions at once: some are led in the AZ that is cut off, some have a follower
there, and each comes with min.insync.replicas 1 and 2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from checkers.claims.builders import (
    both,
    broker,
    controller_changes,
    controller_epoch_rises,
    controller_is,
    controller_stays,
    messages,
    partition,
)
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.waiting import wait_until
from run.scenario import Claim, Erratum, Expected, Scenario
from run.stage import Stage
from scenarios.steps import require, stand

LED_1, LED_2 = "led-inside-min1", "led-inside-min2"
FOLLOWED_1, FOLLOWED_2 = "led-outside-min1", "led-outside-min2"


@dataclass(frozen=True)
class IsolatedAz:
    """Which AZ is cut off: ``inside`` is its number; ``outside`` leads the other partitions."""

    inside: int
    outside: int
    third: int

    @property
    def az(self) -> str:
        """The AZ that is cut off."""
        return f"az{self.inside}"

    @property
    def topics(self) -> tuple[Topic, ...]:
        """Partitions led inside and outside of the cut, each with both settings of min.insync.replicas."""
        led, followed = (self.inside, self.outside, self.third), (self.outside, self.third, self.inside)
        return tuple(
            Topic(name, replicas, config={"min.insync.replicas": least})
            for name, replicas, least in (
                (LED_1, led, "1"),
                (LED_2, led, "2"),
                (FOLLOWED_1, followed, "1"),
                (FOLLOWED_2, followed, "2"),
            )
        )


LEADER_AZ = IsolatedAz(inside=1, outside=3, third=2)
CONTROLLER_AZ = IsolatedAz(inside=2, outside=1, third=3)


def _body(case: IsolatedAz) -> Callable[[Stage], None]:
    def body(stage: Stage) -> None:
        """Write on both sides of the cut, acks 1 and all; heal; let the old leader rejoin."""
        az, old, other = case.az, f"broker{case.inside}", f"broker{case.outside}"
        for topic in (LED_1, LED_2):
            stage.producer(az, f"{az}-seed-{topic}", old, acks=-1).must_send(topic, "a")
            stage.wait_replicated(topic)
        inside = {topic: stage.producer(az, f"inside-acks1-{topic}", old, acks=1) for topic in (LED_1, LED_2)}
        inside_all = stage.producer(az, "inside-acks-all", old, acks=-1)
        outside = stage.producer(f"az{case.outside}", "outside-acks-all", other, acks=-1)
        active = stage.active_controller()
        require(
            stage.lab.topology.host(active).az == "az2", f"the active controller is in az2 ({active} is it)"
        )
        with stage.nemesis.isolate(az):
            cut = stage.mark("cut", f"{az} can no longer reach the others")
            going_on = [writer.keep_writing(topic, every_s=0.25) for topic, writer in inside.items()]
            pending = [inside_all.send_later(topic, f"all-{topic}") for topic in (LED_1, LED_2)]
            for topic in (LED_1, LED_2):
                stage.wait_for_leader(topic, not_on=old, within_s=stage.timings.patience_s)
            stage.mark("failover", f"the majority elected new leaders; {old} still believes it leads")
            for topic in (FOLLOWED_1, FOLLOWED_2):
                stage.wait_for_isr(topic, case.outside, case.third)
                for number in range(3):
                    outside.send(topic, f"f{number}")
            for topic in (LED_1, LED_2):
                leader = stage.leader(topic)
                az_of_leader = stage.lab.topology.host(leader).az
                stage.wait_until_serving(topic, leader, az=az_of_leader)
                new = stage.producer(az_of_leader, f"new-acks-all-{topic}", leader, acks=-1)
                for number in range(3):
                    new.send(topic, f"n{number}")
            for answer in pending:
                answer.result(timeout=10)
            stand(stage, cut, stage.timings.quorum_cut_s)
            stage.mark("standing", "the last moment of the cut")
        stage.mark("healed", "the links are back")
        for series in going_on:
            series.wait_refused(within_s=20 + stage.timings.recovery_s)
        for spec in stage.setup.topics:
            stage.wait_converged(spec.name, within_s=stage.timings.converge_s)
        stage.mark("converged", "all replicas hold the same log and are in sync")
        _one_controller(stage)
        stage.mark("agreed", "all controllers follow one leader")

    return body


def _one_controller(stage: Stage) -> None:
    names = [f"controller{number}" for number in (1, 2, 3)]
    wait_until(
        lambda: {stage.observer.view(name).controller() for name in names},
        accept=lambda leaders: len(leaders) == 1 and not leaders & {-1, None},
        within_s=18 + stage.timings.quorum_cut_s,
        awaiting="all controllers to follow one leader",
        abort=stage.cluster.check_alive,
    )


LED, FOLLOWED = [partition(LED_1), partition(LED_2)], [partition(FOLLOWED_1), partition(FOLLOWED_2)]
INSIDE_ACKS1, INSIDE_ALL = messages("inside-acks1-%", after="cut"), messages("inside-acks-all")


def _claims(case: IsolatedAz) -> tuple[Claim, ...]:
    old, others = broker(case.inside), (case.outside, case.third)
    return (
        _controller(case),
        Claim(
            name="failover",
            section="000 §3.2",
            quote="集群感知到 broker-0 下线，触发 leader 切换，broker-1 成为新的 leader",
            says="The majority elects a new leader for each partition led inside.",
            holds=both(*(place.is_led_by(others, at="standing") for place in LED)),
        ),
        Claim(
            name="epoch-rises",
            section="000 §3.2",
            quote="这里 leaderEpoch 增加 2",
            says="The leader epoch rises by 2.",
            holds=both(*(place.epoch_rises(by=2, since="cut", until="standing") for place in LED)),
            erratum=Erratum(
                says="It rises by 1.",
                because="one record of the quorum removes the fenced broker from the ISR and elects the leader",
                holds=both(*(place.epoch_rises(by=1, since="cut", until="standing") for place in LED)),
            ),
        ),
        Claim(
            name="old-leader-unaware",
            section="000 §3.2",
            quote="无法感知节点变化，且无法更新 isr，metadata 不变，leader 和 isr 都不变",
            says="The isolated leader sees neither the election nor a smaller ISR: it wants to shrink the ISR, "
            "and cannot.",
            holds=both(
                *(old.believes(place, leader=case.inside, isr=(1, 2, 3), at="standing") for place in LED),
                *(old.never_logged("isr_updated", of=p, after="cut", before="standing") for p in LED),
            ),
            given=both(*(old.logged("isr_shrinking", of=p, after="cut", before="standing") for p in LED)),
        ),
        Claim(
            name="acks1-lost",
            section="000 §3.2",
            quote="若两个隔离域内的客户端都生产了消息，就会出现数据不一致的情况",
            says="What the isolated leader acknowledges with acks=1 during the cut is lost, even with min.insync.replicas=2.",
            holds=both(
                *(
                    messages("inside-acks1-%", topic=topic, after="cut", before="standing").became(
                        "lost", "lost_after_read", "overwritten", at_least=20
                    )
                    for topic in (LED_1, LED_2)
                )
            ),
        ),
        Claim(
            name="acks-all-refused-inside",
            section="000 §3.2",
            quote="若 az1 内的客户端 acks=-1，retries=3，会发现生产消息失败…而数据目录中有消息",
            says="With acks=all the isolated leader acknowledges nothing (error 7); what it appended is "
            "truncated after the heal.",
            holds=both(
                INSIDE_ALL.refused_with(7, at_least=2),
                INSIDE_ALL.seen_on(case.inside, until="standing", at_least=2),
                INSIDE_ALL.in_final_log(copies=0, at_least=2),
            ),
        ),
        Claim(
            name="follower-isolated",
            section="000 §3.1",
            quote="感知到 broker-0 下线，metadata 更新，且不发生 leader 切换…az2 和 az3 内的客户端可正常生产消费",
            says="A partition that only lost a follower keeps its leader and continues with a smaller ISR.",
            holds=both(
                *(place.is_led_by(case.outside, isr=others, at="standing") for place in FOLLOWED),
                *(place.stays(since="cut", until="standing", what="leader") for place in FOLLOWED),
                messages("outside-acks-all").kept(at_least=6),
            ),
        ),
        Claim(
            name="new-leader-keeps",
            section="000 §3.2",
            quote="az2/3 内的客户端可以向 broker-1 生产消费",
            says="What the new leaders acknowledge stays.",
            holds=messages("new-acks-all-%").kept(at_least=6),
        ),
        Claim(
            name="acks-all-safe",
            section="000 §3.2",
            quote="因此，考虑此种情况，建议客户端 acks=-1",
            says="With acks=all nothing that was acknowledged is lost.",
            holds=messages(acks=-1).none_lost(at_risk_after="cut", at_least=10),
        ),
        _return(case),
    )


def _controller(case: IsolatedAz) -> Claim:
    if case is LEADER_AZ:
        return Claim(
            name="quorum-stays",
            section="000 §3",
            quote="不会发生 controller 选举，controller 还是在 broker-1",
            says="No controller election happens while the cut lasts; the controller stays where it was.",
            holds=controller_stays(since="cut", until="standing"),
        )
    return Claim(
        name="quorum-moves",
        section="000 §4",
        quote="broker-2（原 controller）从 zk 集群断开，broker-0 和 broker-1 重新竞选 controller",
        says="Another controller is elected.",
        holds=both(controller_changes(since="cut", until="standing"), controller_is(1, 3, at="standing")),
    )


def _return(case: IsolatedAz) -> Claim:
    follower = case is LEADER_AZ
    role = "The returning controller, a follower all the time," if follower else "The returning controller"
    why = (
        "cut off, it stood for election again and again and raised its epoch; before 4.0 there is no pre-vote"
        if follower
        else "since 3.7.0 it resigns when cut off and stands for election again and again, and before 4.0 there "
        "is no pre-vote"
    )
    return Claim(
        name="quiet-return",
        section="beyond 000 §3" if follower else "000 §4",
        quote=""
        if follower
        else "再尝试竞选 controller，发现 broker-0 已经是 controller 了，放弃竞选 controller",
        says="The controller that returns disturbs nobody: the quorum's leader and epoch stay.",
        holds=controller_stays(since="standing", until="agreed"),
        erratum=Erratum(
            says=f"{role} deposes the healthy leader.",
            because=f"{why} (KIP-996)",
            since="" if follower else "3.7.0",
            before="4.0.0",
            holds=controller_epoch_rises(since="standing", until="agreed"),
        ),
    )


def _scenario(name: str, title: str, section: str, case: IsolatedAz, outcome: str) -> Scenario:
    return Scenario(
        name=name,
        title=title,
        article="000",
        section=section,
        body=_body(case),
        setup=Setup(
            topics=case.topics,
            controller="broker2",
            exactly=("broker", "controller") if case is CONTROLLER_AZ else (),
        ),
        claims=_claims(case),
        expected=(
            Expected(
                "lost",
                INSIDE_ACKS1.where,
                "acknowledged by the isolated leader alone, truncated when it rejoins",
            ),
        ),
        faults=(f"isolate {case.az}",),
        kafka="3.9.1",
        mode="kraft-combined",
        outcome=outcome,
        versions=("3.6.2", "3.9.1", "4.3.1"),
        modes=("kraft", "kraft-combined"),
    )


SCENARIOS = (
    _scenario(
        "kraft-leader-az-isolated",
        "KRaft: the AZ of a leader and of a follower is cut off; the active controller is elsewhere",
        "3.2 in KRaft",
        LEADER_AZ,
        "acks=1 writes inside are lost, even with min.insync.replicas=2; acks=all loses nothing",
    ),
    _scenario(
        "kraft-controller-az-isolated",
        "KRaft: the AZ of the active controller is cut off, with the leader of some partitions",
        "4 in KRaft",
        CONTROLLER_AZ,
        "another controller takes over; acks=1 writes inside are lost, acks=all loses nothing",
    ),
)

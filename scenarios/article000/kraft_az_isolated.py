"""Article 000, sections 3.1 to 4.2, in KRaft: an AZ is cut off, with followers, leaders or the controller.

One cut judges several partitions at once: some are led in the AZ that is cut off, some have a follower
there, and each comes with min.insync.replicas 1 and 2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from checkers.claims.former import condition, fates, mark, none_lost, truth, view
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.run.stage import Stage
from harness.scenario import Claim, Erratum, Expected, Scenario
from harness.waiting import wait_until
from scenarios.steps import require

LED_1, LED_2 = "led-inside-min1", "led-inside-min2"
FOLLOWED_1, FOLLOWED_2 = "led-outside-min1", "led-outside-min2"
CUT_S = 12.0


@dataclass(frozen=True)
class Case:
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


LEADER_AZ = Case(inside=1, outside=3, third=2)
CONTROLLER_AZ = Case(inside=2, outside=1, third=3)


def _body(case: Case) -> Callable[[Stage], None]:
    def body(stage: Stage) -> None:
        """Write on both sides of the cut, acks 1 and all; heal; let the old leader rejoin."""
        az, broker, other = case.az, f"broker{case.inside}", f"broker{case.outside}"
        for topic in (LED_1, LED_2):
            stage.writer(az, f"{az}-seed-{topic}", broker, acks=-1).must_send(topic, "a")
            stage.wait_replicated(topic)
        inside = {
            topic: stage.writer(az, f"inside-acks1-{topic}", broker, acks=1) for topic in (LED_1, LED_2)
        }
        inside_all = stage.writer(az, "inside-acks-all", broker, acks=-1)
        outside = stage.writer(f"az{case.outside}", "outside-acks-all", other, acks=-1)
        active = stage.active_controller()
        require(
            stage.lab.topology.host(active).az == "az2", f"the active controller is in az2 ({active} is it)"
        )
        with stage.nemesis.isolate(az):
            cut = stage.mark("cut", f"{az} can no longer reach the others")
            going_on = [writer.keep_writing(topic, every_s=0.25) for topic, writer in inside.items()]
            pending = [inside_all.send_later(topic, f"all-{topic}") for topic in (LED_1, LED_2)]
            for topic in (LED_1, LED_2):
                stage.wait_for_leader(topic, not_on=broker, within_s=20)
            stage.mark("failover", f"the majority elected new leaders; {broker} still believes it leads")
            for topic in (FOLLOWED_1, FOLLOWED_2):
                stage.wait_for_isr(topic, case.outside, case.third)
                for number in range(3):
                    outside.send(topic, f"f{number}")
            for topic in (LED_1, LED_2):
                leader = stage.leader(topic)
                az_of_leader = stage.lab.topology.host(leader).az
                stage.wait_until_serving(topic, leader, az=az_of_leader)
                new = stage.writer(az_of_leader, f"new-acks-all-{topic}", leader, acks=-1)
                for number in range(3):
                    new.send(topic, f"n{number}")
            for answer in pending:
                answer.result(timeout=10)
            _stand(stage, cut)
            stage.mark("standing", "the last moment of the cut")
        stage.mark("healed", "the links are back")
        for series in going_on:
            series.wait_refused(within_s=20)
        for spec in stage.setup.topics:
            stage.wait_converged(spec.name, within_s=40)
        stage.mark("converged", "all replicas hold the same log and are in sync")
        _one_controller(stage)
        stage.mark("agreed", "all controllers follow one leader")

    return body


def _stand(stage: Stage, since: int) -> None:
    wait_until(
        lambda: stage.since(since) >= CUT_S,
        within_s=CUT_S + 5,
        awaiting="the cut to have lasted long enough",
        abort=stage.cluster.check_alive,
    )


def _one_controller(stage: Stage) -> None:
    names = [f"controller{number}" for number in (1, 2, 3)]
    wait_until(
        lambda: {stage.observer.view(name).controller() for name in names},
        accept=lambda leaders: len(leaders) == 1 and not leaders & {-1, None},
        within_s=30,
        awaiting="all controllers to follow one leader",
        abort=stage.cluster.check_alive,
    )


def _quorum(column: str, until: str) -> str:
    return f"(SELECT max_by({column}, epoch) FROM controllers WHERE ns <= {until})"


_QUORUM_SAID = (
    f"concat('node ', {_quorum('controller', mark('standing'))}, ' led in epoch ', "
    f"{_quorum('epoch', mark('standing'))}, '; after the heal node ', "
    f"{_quorum('controller', mark('agreed'))}, ' in epoch ', {_quorum('epoch', mark('agreed'))})"
)
_QUIET = condition(f"{_quorum('epoch', mark('standing'))} = {_quorum('epoch', mark('agreed'))}", _QUORUM_SAID)
_DEPOSED = condition(
    f"{_quorum('epoch', mark('standing'))} < {_quorum('epoch', mark('agreed'))}", _QUORUM_SAID
)
_INSIDE = "writer_name LIKE 'inside-acks1-%' AND outcome = 'ok'"


def _claims(case: Case) -> tuple[Claim, ...]:
    broker = f"broker{case.inside}"
    unaware = " AND ".join(
        f"{view('leader', broker, topic, until=mark('standing'))} = {case.inside} AND "
        f"size({view('isr', broker, topic, until=mark('standing'))}) = 3"
        for topic in (LED_1, LED_2)
    )
    controller_stays = case is LEADER_AZ
    return (
        Claim(
            name="quorum-moves" if not controller_stays else "quorum-stays",
            section="000 §4" if not controller_stays else "000 §3",
            says="Another controller is elected."
            if not controller_stays
            else "No controller election happens while the cut lasts; the controller stays where it was.",
            holds=condition(
                f"{_quorum('controller', mark('standing'))} % 10 {'=' if controller_stays else '<>'} 2",
                f"concat('the quorum is led by node ', {_quorum('controller', mark('standing'))})",
            ),
        ),
        Claim(
            name="failover",
            section="000 §3.2",
            says="The majority elects a new leader for each partition led inside; its epoch rises by 1.",
            holds=condition(
                " AND ".join(
                    f"{truth('leader', topic, until=mark('standing'))} <> {case.inside} AND "
                    f"{truth('epoch', topic, until=mark('standing'))} = 1"
                    for topic in (LED_1, LED_2)
                ),
                f"concat('leaders ', {truth('leader', LED_1, until=mark('standing'))}, ' and ', "
                f"{truth('leader', LED_2, until=mark('standing'))}, ', epochs ', "
                f"{truth('epoch', LED_1, until=mark('standing'))}, ' and ', "
                f"{truth('epoch', LED_2, until=mark('standing'))}, ', ', "
                f"round(({mark('failover')} - {mark('cut')}) / 1e9, 1), ' s after the cut')",
            ),
        ),
        Claim(
            name="old-leader-unaware",
            section="000 §3.2",
            says="The isolated leader sees neither the election nor a smaller ISR.",
            holds=condition(
                unaware,
                f"concat('{broker} names leader ', {view('leader', broker, LED_1, until=mark('standing'))}, "
                f"' and ISR ', cast({view('isr', broker, LED_1, until=mark('standing'))} AS string))",
            ),
        ),
        Claim(
            name="acks1-lost",
            section="000 §3.2",
            says="What the isolated leader acknowledges with acks=1 during the cut is lost, "
            "min.insync.replicas=2 or not.",
            holds=fates(
                f"{_INSIDE} AND sent_ns > {mark('cut')} AND sent_ns < {mark('healed')}",
                "lost",
                "lost_after_read",
                "overwritten",
                at_least=40,
            ),
        ),
        Claim(
            name="acks-all-refused-inside",
            section="000 §3.2",
            says="With acks=all the isolated leader acknowledges nothing; what it appended is cut off later.",
            holds=(
                "SELECT count(*) = 2 AND count_if(coalesce(outcome, 'info') = 'info') = 2 AND "
                "count_if(fate LIKE '%kept') = 0 AS holds, concat(count(*), ' messages with error ', "
                "array_join(collect_set(error), ',')) AS observed "
                "FROM life WHERE writer_name = 'inside-acks-all'"
            ),
        ),
        Claim(
            name="follower-isolated",
            section="000 §3.1",
            says="A partition that only lost a follower keeps its leader and goes on with a smaller ISR.",
            holds=condition(
                " AND ".join(
                    f"{truth('leader', topic, until=mark('standing'))} = {case.outside} AND "
                    f"NOT array_contains({truth('isr', topic, until=mark('standing'))}, {case.inside})"
                    for topic in (FOLLOWED_1, FOLLOWED_2)
                )
                + " AND (SELECT count(*) = 6 AND count_if(fate = 'kept') = 6 FROM life "
                "WHERE writer_name = 'outside-acks-all')",
                f"concat('leader ', {truth('leader', FOLLOWED_2, until=mark('standing'))}, ', ISR ', "
                f"cast({truth('isr', FOLLOWED_2, until=mark('standing'))} AS string), ', ', "
                "(SELECT count_if(fate = 'kept') FROM life WHERE writer_name = 'outside-acks-all'), "
                "' of 6 messages kept')",
            ),
        ),
        Claim(
            name="new-leader-keeps",
            section="000 §3.2",
            says="What the new leaders acknowledge stays.",
            holds=fates("writer_name LIKE 'new-acks-all-%' AND outcome = 'ok'", "kept", at_least=6),
        ),
        Claim(
            name="acks-all-safe",
            section="000 §3.2",
            says="With acks=all nothing that was acknowledged is lost.",
            holds=none_lost("acks = -1 AND outcome = 'ok'", at_least=10),
        ),
        _heal(controller_stays),
    )


def _heal(follower_returns: bool) -> Claim:
    says = "The controller that returns disturbs nobody: the quorum's leader and epoch stay."
    if follower_returns:
        return Claim(
            name="quiet-return",
            section="000 §3",
            says=says,
            holds=_QUIET,
            erratum=Erratum(
                says="The returning controller, a follower all the time, deposes the healthy leader.",
                because="cut off, it stood for election again and again and raised its epoch; "
                "before 4.0 there is no pre-vote (KIP-996)",
                before="4.0.0",
                holds=_DEPOSED,
            ),
        )
    return Claim(
        name="quiet-return",
        section="000 §4",
        says=says,
        holds=_QUIET,
        erratum=Erratum(
            says="The returning controller deposes the healthy leader.",
            because="since 3.7.0 it resigns when cut off and stands for election again and again, and before "
            "4.0 there is no pre-vote (KIP-996)",
            since="3.7.0",
            before="4.0.0",
            holds=_DEPOSED,
        ),
    )


def _scenario(name: str, title: str, section: str, case: Case, outcome: str) -> Scenario:
    return Scenario(
        name=name,
        title=title,
        article="000",
        section=section,
        body=_body(case),
        setup=Setup(topics=case.topics, controller="broker2", stream_rate=20.0),
        claims=_claims(case),
        expected=(
            Expected(
                "lost",
                f"writer_name LIKE 'inside-acks1-%' AND sent_ns > {mark('cut')}",
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
        "acks=1 writes inside are lost, min.insync.replicas or not; acks=all loses nothing",
    ),
    _scenario(
        "kraft-controller-az-isolated",
        "KRaft: the AZ of the active controller is cut off, with the leader of some partitions",
        "4 in KRaft",
        CONTROLLER_AZ,
        "another controller takes over; acks=1 writes inside are lost, acks=all loses nothing",
    ),
)

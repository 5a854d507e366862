"""Operators remove a controller from the voters of the KRaft quorum, and add it again (KIP-853).

A controller that was removed follows the quorum when it returns, but its vote does not count until it is added again.
"""

from __future__ import annotations

from functools import partial

from checkers.claims.builders import (
    both,
    controller_changes,
    controller_stays,
    messages,
    noted,
    opposite,
    quorum_controller,
    quorum_elects,
)
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.waiting import wait_until
from run.producer import Producer
from run.scenario import Claim, Scenario
from run.stage import Stage
from scenarios.steps import require_controller, stand

TOPIC = "t"
SECTION = "beyond the articles"
THREE, TWO = [11, 12, 13], [11, 12]
"""Node ids of the voters: the first two controllers, and the third one."""


def _mark(stage: Stage, name: str, text: str) -> int:
    """A mark with the voters as the quorum's leader describes them."""
    voters = stage.operator.voters()
    return stage.mark(name, f"{text}; voters {', '.join(map(str, voters))}", voters=list(voters))


def _write(writer: Producer, label: str, count: int = 5) -> None:
    for number in range(count):
        writer.must_send(TOPIC, f"{label}{number}")


def _wait_follows(stage: Stage, controller: str, *leaders: int) -> None:
    """Wait until a controller names one of these leaders."""
    wait_until(
        lambda: stage.observer.view(controller).controller(),
        accept=lambda leader: leader in leaders,
        within_s=stage.timings.quorum_cut_s + 15,
        awaiting=f"{controller} to follow the quorum's leader",
        abort=stage.cluster.check_alive,
    )


def _wait_elected(stage: Stage) -> None:
    """Wait until a controller leads, and the observer has seen that it does."""
    names = {host.node_id: host.name for host in stage.lab.topology.role("controller")}

    def elected() -> bool:
        leader = stage.cluster.controller()
        return leader is not None and stage.observer.view(names[leader]).controller() == leader

    wait_until(
        elected,
        within_s=8 + stage.timings.quorum_cut_s,
        awaiting="the controllers to elect a leader",
        abort=stage.cluster.check_alive,
    )


def _begin(stage: Stage) -> Producer:
    """The producer, whose first messages are on every replica, while three controllers vote and the second leads."""
    require_controller(stage, "controller2")
    writer = stage.producer("az1", "az1-acks-all", "broker1", acks=-1)
    _write(writer, "before")
    stage.wait_replicated(TOPIC)
    _mark(stage, "begin", "all controllers vote")
    return writer


def _removed_while_isolated(stage: Stage) -> None:
    """Cut a follower's AZ off, remove its controller, heal, add it again; then the leader dies."""
    writer, operator = _begin(stage), stage.operator
    with stage.nemesis.isolate("az3"):
        stage.mark("cut", "az3 with controller3 is cut off")
        stage.wait_for_isr(TOPIC, 1, 2, within_s=stage.timings.shrink_s)
        operator.remove_voter("controller3")
        removed = _mark(stage, "removed", "controller3, which is cut off, is removed")
        _write(writer, "during")
        stand(stage, removed, stage.timings.quorum_cut_s)
        stage.mark("standing", "the last moment of the cut")
    healed = stage.mark("healed", "the links are back")
    _wait_follows(stage, "controller3", 12)
    stand(stage, healed, stage.timings.quorum_cut_s)
    _mark(stage, "returned", "controller3 follows")
    operator.add_voter("controller3")
    _mark(stage, "added", "controller3 votes again")
    stage.wait_for_isr(TOPIC, 1, 2, 3, within_s=stage.timings.converge_s)
    _write(writer, "added")
    stage.nemesis.kill("controller2")
    stage.mark("leader-dead", "the active controller is dead")
    _wait_elected(stage)
    stage.mark("elected", "another controller is active")
    _write(writer, "elected")
    stage.restart("controller2")
    stage.wait_converged(TOPIC, within_s=stage.timings.converge_s)
    stage.mark("converged", "all replicas hold the same log and are in sync")


def _removed_then_another_lost(stage: Stage) -> None:
    """Remove a controller that works, so that two vote; then the leader dies, returns, and the third is added."""
    writer, operator = _begin(stage), stage.operator
    operator.remove_voter("controller3")
    _mark(stage, "removed", "controller3 is removed, and runs")
    stage.nemesis.kill("controller2")
    dead = stage.mark("leader-dead", "the active controller is dead")
    _write(writer, "without")
    stand(stage, dead, 2 * stage.timings.quorum_cut_s)
    stage.mark("standing", "the last moment without a leader of the quorum")
    stage.restart("controller2")
    _wait_elected(stage)
    stage.mark("elected", "a controller is active again")
    operator.add_voter("controller3")
    _mark(stage, "added", "controller3 votes again")
    _write(writer, "added")
    stage.wait_converged(TOPIC, within_s=stage.timings.converge_s)
    stage.mark("converged", "all replicas hold the same log and are in sync")


_LOST = (
    Claim(
        name="none-elected",
        section=SECTION,
        says="Two voters need both of them: the one that is left, which has the whole log, is not elected, and neither "
        "is the removed one, which runs.",
        holds=both(
            noted("removed", voters=TWO),
            opposite(quorum_controller(1).leads(at="standing")),
            opposite(quorum_controller(3).leads(at="standing")),
        ),
    ),
    Claim(
        name="writes-go-on",
        section=SECTION,
        says="As long as leaders and ISRs stay as they are, producers go on with acks=all.",
        holds=messages("az1-acks-all", after="leader-dead", before="standing").acknowledged(at_least=5),
    ),
    Claim(
        name="returns",
        section=SECTION,
        says="The quorum works again when the lost voter is back; then the third one can be added.",
        holds=both(
            noted("added", voters=THREE),
            quorum_elects(after="standing", within_s=45.0),
        ),
    ),
    Claim(
        name="kept",
        section=SECTION,
        says="Nothing acknowledged with acks=all is lost.",
        holds=messages("az1-acks-all").kept(at_least=15),
    ),
)
_ISOLATED = (
    Claim(
        name="removed",
        section=SECTION,
        says="A controller that is cut off is removed: the two that are left agree on it.",
        holds=both(
            noted("begin", voters=THREE),
            noted("removed", voters=TWO),
            controller_stays(since="begin", until="removed"),
        ),
    ),
    Claim(
        name="asks-in-vain",
        section=SECTION,
        says="The removed one, which does not know of it, asks for pre-votes (KIP-996): its epoch stays.",
        holds=quorum_controller(3).epoch_stays(since="cut", until="returned"),
    ),
    Claim(
        name="undisturbed",
        section=SECTION,
        says="Neither its removal nor its return changes the leader of the quorum or its epoch.",
        holds=controller_stays(since="begin", until="added"),
    ),
    Claim(
        name="stays-out",
        section=SECTION,
        says="When it returns it follows the quorum, and is no voter until an operator adds it.",
        holds=both(
            noted("returned", voters=TWO),
            noted("added", voters=THREE),
            controller_stays(since="returned", until="added"),
        ),
    ),
    Claim(
        name="tolerates-one-again",
        section=SECTION,
        says="With three voters again, the quorum survives the loss of its leader.",
        holds=controller_changes(since="leader-dead", until="elected"),
    ),
    Claim(
        name="kept",
        section=SECTION,
        says="Nothing acknowledged with acks=all is lost.",
        holds=messages("az1-acks-all").kept(at_least=20),
    ),
)

_scenario = partial(
    Scenario,
    article="003",
    section="beyond",
    setup=Setup(
        topics=(Topic(TOPIC, (1, 2, 3)),),
        controller="broker2",
        exactly=("controller",),
        dynamic_quorum=True,
    ),
    kafka="4.4.0",
    mode="kraft",
)
SCENARIOS = (
    _scenario(
        name="kraft-voter-removed-while-isolated",
        title="A controller is removed from the quorum while its AZ is cut off, and added again",
        body=_removed_while_isolated,
        claims=_ISOLATED,
        faults=("isolate az3", "remove and add voter controller3", "kill controller2"),
        outcome="it does not disturb the quorum, which it follows again, and votes once it is added; nothing is lost",
    ),
    _scenario(
        name="kraft-voter-removed-then-another-lost",
        title="A controller that works is removed from the quorum, and then another one dies",
        body=_removed_then_another_lost,
        claims=_LOST,
        faults=("remove and add voter controller3", "kill controller2"),
        outcome="two voters tolerate the loss of none: no leader until it is back; producers go on, nothing is lost",
    ),
)

"""Nodes are upgraded one by one, and half-way a fault hits those that are still old.

The steps are those of Kafka's documentation ("Upgrading"): every node is stopped and started with the new
version, and only then the cluster is told to use what the new version offers (`metadata.version` on KRaft,
`inter.broker.protocol.version` with ZooKeeper).
"""

from __future__ import annotations

from checkers.claims.builders import (
    both,
    controller_changes,
    messages,
    noted,
    partition,
)
from harness.cluster.setup import Setup
from harness.kafka.model import Endpoint, Topic
from harness.kafka.versions import INTER_BROKER_PROTOCOL
from harness.kafka.wire.admin import update_feature
from harness.kafka.wire.metadata import finalized_features, supported_features
from harness.waiting import wait_until
from run.scenario import Claim, Expected, Scenario
from run.stage import Stage
from scenarios.steps import require, require_controller, seed, settle, stand, wait_for_controller

T = "t"
PT = partition(T)
_FEATURE = "metadata.version"
_ISOLATED = messages("az2-acks1")


def _roll(stage: Stage, kafka: str, *hosts: str, properties: dict[str, str] | None = None) -> None:
    """Stop nodes one by one, and start them again with a version of Kafka."""
    for host in hosts:
        stage.nemesis.stop(host)
        stage.restart(host, kafka=kafka, properties=properties)
        if host.startswith("broker"):
            stage.wait_for_isr(T, 1, 2, 3, within_s=stage.timings.converge_s)


def _isolated_leader(stage: Stage) -> None:
    """With az2 cut off: its leader acknowledges acks=1 alone, and another one is elected."""
    alone = stage.producer("az2", "az2-acks1", "broker2", acks=1)
    for number in range(5):
        alone.must_send(T, f"alone{number}")
    stage.wait_for_leader(T, on="broker1", within_s=stage.timings.quorum_cut_s + 15)
    stage.wait_for_isr(T, 1, 3)
    stage.mark("moved", "broker1 leads")
    stage.wait_until_serving(T, "broker1", az="az1")
    stage.producer("az1", "az1-acks-all", "broker1", acks=-1).must_send(T, "during")


class _Levels:
    """The levels of `metadata.version` of an upgrade on KRaft."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._names = {self.finalized("broker2"): "old"}

    def finalized(self, broker: str) -> int:
        """What a broker states as finalized."""
        return finalized_features(self._endpoint(broker), timeout_s=5.0)[_FEATURE]

    def newest(self, broker: str) -> int:
        """The highest level that a broker supports."""
        level = supported_features(self._endpoint(broker), timeout_s=5.0)[_FEATURE][1]
        self._names[level] = "new"
        return level

    def mark(self, name: str, text: str, broker: str) -> None:
        """A mark with the level that a broker states, `old` or `new`."""
        self._stage.mark(name, text, level=self._names.get(self.finalized(broker), "another"))

    def wait_told(self, broker: str) -> None:
        """Wait until a broker that was cut off states the new level: it may be in sync a little before."""
        wait_until(
            lambda: self._names.get(self.finalized(broker)),
            accept=lambda level: level == "new",
            within_s=self._stage.timings.converge_s,
            awaiting=f"{broker} to state the new {_FEATURE}",
            abort=self._stage.cluster.check_alive,
        )

    def ask(self, broker: str) -> None:
        """Ask a broker for the new level, and note the answer."""
        answer = update_feature(self._endpoint(broker), _FEATURE, self.newest(broker))
        self._stage.mark("asked", answer.message or "the new level was accepted", error=answer.error)

    def _endpoint(self, broker: str) -> Endpoint:
        return self._stage.lab.topology.host(broker).broker_endpoint


def _az_cut(stage: Stage) -> None:
    """Two controllers and one broker are new when the AZ of the old controller and leader is cut off."""
    new, levels = stage.setup.upgrade_to, _Levels(stage)
    seed(stage, T, leader="broker2")
    _roll(stage, new, "controller1", "controller3", "broker1")
    require_controller(stage, "controller2")
    require(stage.leader(T) == "broker2", "broker2 leads")
    levels.mark("half-way", f"two controllers and one broker run {new}", "broker1")
    with stage.nemesis.isolate("az2"):
        cut = stage.mark(
            "cut", "the AZ of the active controller and of the leader, which are old, is cut off"
        )
        _isolated_leader(stage)
        levels.ask("broker1")
        stand(stage, cut, stage.timings.quorum_cut_s)
        stage.mark("standing", "the last moment of the cut")
    stage.mark("healed", "the links are back")
    stage.wait_converged(T, within_s=stage.timings.converge_s)
    _roll(stage, new, "broker3", "broker2", "controller2")
    levels.mark("upgraded", f"every node runs {new}", "broker2")
    _finalize(stage, levels)
    stage.producer("az1", "az1-after", stage.leader(T), acks=-1).must_send(T, "after")
    settle(stage)


def _finalize(stage: Stage, levels: _Levels) -> None:
    stage.operator.set_feature(_FEATURE, levels.newest("broker1"))
    levels.mark("finalized", "the new metadata.version is in force", "broker1")


def _finalized_in_cut(stage: Stage) -> None:
    """Every node is new when the new level is finalized, which an AZ that is cut off does not learn."""
    new, levels = stage.setup.upgrade_to, _Levels(stage)
    seed(stage, T, leader="broker2")
    _roll(stage, new, "controller1", "controller3", "broker1", "broker3", "broker2", "controller2")
    stage.wait_for_leader(T)
    levels.mark("upgraded", f"every node runs {new}", "broker2")
    with stage.nemesis.isolate("az3"):
        cut = stage.mark("cut", "an AZ is cut off")
        stage.wait_for_isr(T, 1, 2, within_s=stage.timings.quorum_cut_s + 15)
        levels.ask("broker1")
        levels.mark("finalized", "the new level is in force", "broker1")
        levels.mark("not-told", "the broker that is cut off does not know of it", "broker3")
        stage.producer("az1", "az1-acks-all", stage.leader(T), acks=-1).must_send(T, "during")
        stand(stage, cut, stage.timings.quorum_cut_s)
        stage.mark("standing", "the last moment of the cut")
    stage.mark("healed", "the links are back")
    stage.wait_converged(T, within_s=stage.timings.converge_s)
    levels.wait_told("broker3")
    levels.mark("told", "the broker that was cut off has learnt of it", "broker3")
    stage.producer("az1", "az1-after", stage.leader(T), acks=-1).must_send(T, "after")
    settle(stage)


def _back(stage: Stage) -> None:
    """Every node is new, the AZ of controller and leader is cut off, and the operator goes back."""
    old, new, levels = stage.processes.distribution.version, stage.setup.upgrade_to, _Levels(stage)
    nodes = ("controller1", "controller3", "broker1", "broker3", "broker2", "controller2")
    seed(stage, T, leader="broker2")
    _roll(stage, new, *nodes)
    levels.mark("upgraded", f"every node runs {new}", "broker2")
    stage.producer("az1", "az1-new", stage.leader(T), acks=-1).must_send(T, "new")
    with stage.nemesis.isolate("az1"):
        cut = stage.mark("cut", "an AZ is cut off")
        stage.wait_for_isr(T, 2, 3, within_s=stage.timings.quorum_cut_s + 15)
        stand(stage, cut, stage.timings.quorum_cut_s)
        stage.mark("standing", "the last moment of the cut")
    stage.mark("healed", "the links are back")
    stage.wait_converged(T, within_s=stage.timings.converge_s)
    _roll(stage, old, *nodes)
    levels.mark("back", f"every node runs {old} again", "broker2")
    stage.producer("az1", "az1-after", stage.leader(T), acks=-1).must_send(T, "after")
    settle(stage)


def _zookeeper(stage: Stage) -> None:
    """One broker is new, with the old protocol, when the AZ of the controller and leader is cut off."""
    new = stage.setup.upgrade_to
    spoken = {INTER_BROKER_PROTOCOL: stage.processes.distribution.spec.own_protocol}
    seed(stage, T, leader="broker2")
    _roll(stage, new, "broker1", properties=spoken)
    require_controller(stage, "broker2")
    require(stage.leader(T) == "broker2", "broker2 leads")
    stage.mark("half-way", f"one broker runs {new}, and speaks as before")
    with stage.nemesis.isolate("az2"):
        cut = stage.mark("cut", "the AZ of the controller and of the leader, which are old, is cut off")
        _isolated_leader(stage)
        wait_for_controller(stage, not_on="broker2")
        stand(stage, cut, stage.timings.cut_s)
        stage.mark("standing", "the last moment of the cut")
    stage.mark("healed", "the links are back")
    stage.wait_converged(T, within_s=stage.timings.converge_s)
    _roll(stage, new, "broker3", "broker2", properties=spoken)
    stage.mark("upgraded", f"every broker runs {new}")
    _roll(stage, new, "broker1", "broker3", "broker2")
    stage.mark("finalized", "every broker speaks the new protocol")
    stage.producer("az1", "az1-after", stage.leader(T), acks=-1).must_send(T, "after")
    settle(stage)


def _claim(name: str, says: str, holds: str) -> Claim:
    return Claim(name=name, section="beyond the articles", says=says, holds=holds)


_NOTHING_LOST = _claim(
    "nothing-lost",
    "Nothing that was acknowledged with acks=all is lost, whichever version led.",
    messages(acks=-1).none_lost(at_risk_after="cut", at_least=50),
)
_SERVES_ON = _claim(
    "serves-on",
    "At the end all replicas are in sync, and acks=all is acknowledged.",
    both(messages("az1-after").kept(), PT.has_isr(1, 2, 3, at="converged")),
)
_MOVES = _claim(
    "new-version-leads",
    "A broker with the new version is elected leader, and acknowledges acks=all with a follower of the old one.",
    both(PT.is_led_by(1, isr=(1, 3), at="moved"), messages("az1-acks-all").acknowledged()),
)
_ALONE_LOST = _claim(
    "isolated-leader-loses",
    "What the old leader, which is cut off, acknowledges with acks=1 is lost, as without an upgrade.",
    _ISOLATED.acknowledged_then_lost(at_least=5),
)
_EXPECTED = Expected(
    "lost", _ISOLATED.where, "acknowledged by the isolated leader alone, truncated when it rejoins"
)


_TOPICS = (Topic(T, (2, 1, 3), config={"min.insync.replicas": "2"}),)
_KRAFT = Setup(
    topics=_TOPICS,
    controller="broker2",
    exactly=("broker", "controller"),
    upgrade_to="4.4.0",
    stream_rate=5.0,
)


SCENARIOS = (
    Scenario(
        name="upgrade-az-cut",
        title="An upgrade from 3.9 to 4.4: half-way, the AZ of the active controller and the leader is cut off",
        article="beyond",
        section="upgrade",
        body=_az_cut,
        setup=_KRAFT,
        claims=(
            _claim(
                "next-controller",
                "A controller of the new version takes over the quorum, whose other voters are one new and one old.",
                controller_changes(since="cut", until="standing"),
            ),
            _MOVES,
            _ALONE_LOST,
            _claim(
                "refused-while-mixed",
                "The cluster refuses the new metadata.version while a broker does not support it, even one that "
                "is cut off: it is still registered (INVALID_UPDATE_VERSION).",
                both(noted("asked", error=95), PT.is_led_by(1, isr=(1, 3), at="standing")),
            ),
            _claim(
                "finalized-by-hand",
                "The new version alone changes no metadata.version: it is the old one until the operator "
                "finalizes another.",
                both(
                    noted("half-way", level="old"),
                    noted("upgraded", level="old"),
                    noted("finalized", level="new"),
                    PT.has_isr(1, 2, 3, at="finalized"),
                ),
            ),
            _NOTHING_LOST,
            _SERVES_ON,
        ),
        expected=(_EXPECTED,),
        faults=("stop each node in turn, and start it with the new version", "isolate az2"),
        kafka="3.9.1",
        mode="kraft",
        outcome="acks=1 writes of the isolated leader are lost, nothing else; the upgrade goes on",
    ),
    Scenario(
        name="upgrade-finalized-in-cut",
        title="An upgrade from 4.3 to 4.4: the new metadata.version is finalized while an AZ is cut off",
        article="beyond",
        section="upgrade",
        body=_finalized_in_cut,
        setup=_KRAFT,
        claims=(
            _claim(
                "accepted-in-the-cut",
                "The cluster finalizes the new metadata.version although a broker and a controller are cut off: "
                "they are registered with a version that supports it.",
                both(
                    noted("asked", error=0), noted("finalized", level="new"), PT.has_isr(1, 2, at="standing")
                ),
            ),
            _claim(
                "learnt-after-the-heal",
                "The broker that is cut off keeps the old one, and has the new one once it has caught up.",
                both(
                    noted("not-told", level="old"), noted("told", level="new"), PT.has_isr(1, 2, 3, at="told")
                ),
            ),
            _NOTHING_LOST,
            _SERVES_ON,
        ),
        faults=("stop each node in turn, and start it with the new version", "isolate az3"),
        kafka="4.3.1",
        mode="kraft",
        outcome="nothing is lost; the broker that was cut off learns the new level when it is back",
    ),
    Scenario(
        name="upgrade-taken-back",
        title="An upgrade from 3.9 to 4.4 is taken back before its metadata.version is finalized",
        article="beyond",
        section="upgrade",
        body=_back,
        setup=_KRAFT,
        claims=(
            _claim(
                "way-back",
                "As long as the old metadata.version is in force, every node can go back to the old version.",
                both(
                    noted("upgraded", level="old"), noted("back", level="old"), PT.has_isr(1, 2, 3, at="back")
                ),
            ),
            _claim(
                "kept-by-the-old",
                "What was acknowledged by the new version is in the logs of the old one.",
                messages("az1-new").kept(),
            ),
            _NOTHING_LOST,
            _SERVES_ON,
        ),
        faults=(
            "stop each node in turn, and start it with the new version",
            "isolate az1",
            "the same with the old version",
        ),
        kafka="3.9.1",
        mode="kraft",
        outcome="nothing is lost on the way to the new version and back",
    ),
    Scenario(
        name="upgrade-zookeeper-az-cut",
        title="An upgrade from 2.7 to 3.9 with ZooKeeper: half-way, the AZ of controller and leader is cut off",
        article="beyond",
        section="upgrade",
        body=_zookeeper,
        setup=Setup(
            topics=_TOPICS,
            controller="broker2",
            zookeeper_leader="zookeeper3",
            exactly=("broker",),
            upgrade_to="3.9.1",
            stream_rate=5.0,
        ),
        claims=(
            _claim(
                "next-controller",
                "Another broker becomes controller.",
                controller_changes(since="cut", until="standing"),
            ),
            _MOVES,
            _ALONE_LOST,
            _NOTHING_LOST,
            _SERVES_ON,
        ),
        expected=(_EXPECTED,),
        faults=("stop each broker in turn, and start it with the new version", "isolate az2"),
        kafka="2.7.1",
        mode="zookeeper",
        outcome="acks=1 writes of the isolated leader are lost, nothing else; the upgrade goes on",
    ),
)

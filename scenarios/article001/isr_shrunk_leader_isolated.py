"""Article 001, scenario 6, variant: the ISR has shrunk to the leader before the leader is isolated.

Three topics with three settings suffer the same faults in one cluster.
"""

from __future__ import annotations

from checkers.claims.former import (
    after,
    by,
    errors,
    fates,
    logged,
    mark,
    none_lost,
    outcomes,
    state,
)
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.run.stage import Stage
from harness.scenario import Claim, Erratum, Expected, Scenario
from harness.waiting import wait_until
from scenarios.steps import SHRINK_S, pins, seed, settle, wait_isr_committed

CLEAN, UNCLEAN, TWO = "t", "u", "m"
TOPICS = (CLEAN, UNCLEAN, TWO)
_SEEDED = 2


def shrink_then_isolate(stage: Stage, *, early_heal: bool) -> None:
    """Leave the leader alone in the ISR, isolate it while it writes on, and heal."""
    seed(stage, *TOPICS)
    waiting = stage.writer("az1", "az1-waiting", "broker1", acks=1)
    alone = stage.nemesis.cut("broker1 <-> broker2", "broker1 <-> broker3").inject()
    stage.mark("cut", "the leader, which is the controller, sees no follower")
    for topic in TOPICS:
        waiting.must_send(topic, "w")
    for topic in TOPICS:
        stage.wait_for_isr(topic, 1, within_s=SHRINK_S)
        wait_isr_committed(stage, "broker1", topic, (1,))
    stage.mark("shrunk", "the leader is alone in the ISR")
    before = stage.writer("az1", "az1-before", "broker1", acks=-1)
    for topic in TOPICS:
        before.send(topic, "x1")
    isolated = stage.nemesis.isolate("az1").inject()
    stage.mark("isolated", "az1 is isolated from everything")
    inside = stage.writer("az1", "az1-inside", "broker1", acks=-1)
    for topic in TOPICS:
        inside.send(topic, "x2")
    stage.wait_for_leader(UNCLEAN, on="broker2")
    stage.wait_for_no_leader(CLEAN)
    stage.mark("elected", "the unclean topics have another leader, the clean one has none")
    if early_heal:
        # The follower has fetched from the new leader, which then asks for a larger ISR: of the controller
        # that it knows, and that is the isolated one.
        stage.wait_until_serving(UNCLEAN, "broker2")
        wait_until(
            lambda: stage.own_log("broker3", UNCLEAN).records,
            accept=lambda records: len(records) > _SEEDED,
            within_s=SHRINK_S,
            awaiting="broker3 to follow broker2",
        )
    else:
        stage.wait_for_isr(UNCLEAN, 2, 3, within_s=SHRINK_S)
        for topic in TOPICS:
            inside.send(topic, "x3")
        stage.read("az1", CLEAN, "broker1")
        stage.writer("az2", "az2-to-clean", "broker2", acks=-1).send(CLEAN, "n")
        stage.mark("before-heal")
    alone.heal()  # changes nothing yet: the isolation holds these links too, and then all come back at once
    isolated.heal()
    stage.mark("healed", "the links are back")


def body(stage: Stage) -> None:
    """Heal once the new leader has its followers, so that the only question is that of the data."""
    shrink_then_isolate(stage, early_heal=False)
    settle(stage)


_ALONE = "writer_name IN ('az1-waiting', 'az1-before', 'az1-inside')"
_ACKED_ALL = "writer_name IN ('az1-before', 'az1-inside') AND outcome = 'ok'"
CLAIMS = (
    Claim(
        name="accepts-alone",
        section="001 scenario 6, variant",
        says="The old leader still accepts writes, even with acks=all, since the ISR is itself alone.",
        holds=outcomes(f"writer_name IN ('az1-before', 'az1-inside') AND topic != '{TWO}'", "ok", at_least=6),
    ),
    Claim(
        name="new-leader",
        section="001 scenario 6, variant",
        says="A new leader is elected.",
        holds=state(CLEAN, leader=2, until=mark("elected")),
        erratum=Erratum(
            says="With unclean.leader.election.enable=false, the default, nobody is: leader -1, ISR [0].",
            because="unclean election is off by default since 0.11 (KIP-106); nobody else is in the ISR",
            holds=state(CLEAN, leader=-1, isr=(1,), until=mark("elected")),
        ),
    ),
    Claim(
        name="lost",
        section="001 scenario 6, variant, loss cause 4",
        says="What is written from then on is lost.",
        holds=fates(f"{_ACKED_ALL} AND topic = '{CLEAN}'", "lost", "lost_after_read", at_least=3),
        erratum=Erratum(
            says="With unclean.leader.election.enable=false all of it is kept: broker-0 leads again after the heal.",
            because="nobody else was electable, so that nobody truncates",
            holds=fates(f"{_ACKED_ALL} AND topic = '{CLEAN}'", "kept", at_least=3),
        ),
    ),
    Claim(
        name="unclean-new-leader",
        section="001 scenario 6, variant",
        says="With unclean.leader.election.enable=true a new leader is elected.",
        holds=state(UNCLEAN, leader=2, isr=(2, 3), epoch=2, until=mark("before-heal")),
    ),
    Claim(
        name="unclean-lost",
        section="001 scenario 6, variant, loss cause 4",
        says="With unclean.leader.election.enable=true acknowledged acks=all writes are lost.",
        holds=fates(f"{_ACKED_ALL} AND topic = '{UNCLEAN}'", "lost", "lost_after_read", at_least=3),
    ),
    Claim(
        name="min-insync-refuses",
        section="001 scenario 6, variant",
        says="min.insync.replicas=2 prevents it: acks=all is refused (error 19).",
        holds=errors(f"writer_name IN ('az1-before', 'az1-inside') AND topic = '{TWO}'", 19, at_least=3),
    ),
    Claim(
        name="min-insync-safe",
        section="001 conclusion",
        says="With min.insync.replicas=2 no acks=all write that was acknowledged is lost.",
        holds=none_lost(f"topic = '{TWO}' AND acks = -1 AND outcome = 'ok'"),
    ),
    Claim(
        name="min-insync-acks-1",
        section="beyond 001 scenario 6",
        says="It does not help acks=1: that write is lost.",
        holds=fates(f"{by('az1-waiting', topic=TWO)} AND outcome = 'ok'", "lost", "lost_after_read"),
    ),
    Claim(
        name="clean-unavailable",
        section="beyond 001 scenario 6",
        says="The price of unclean=false: az2 cannot write while the leader is away.",
        holds=errors(by("az2-to-clean"), 3, 5, 6),
    ),
    Claim(
        name="clean-leads-again",
        section="beyond 001 scenario 6",
        says="After the heal broker-0 leads the clean topic again.",
        holds=state(CLEAN, leader=1, isr=(1, 2, 3), epoch=2, until=mark("converged")),
    ),
    Claim(
        name="truncates",
        section="beyond 001 scenario 6",
        says="In the unclean topic it truncates to what the new leader has.",
        holds=logged("broker1", "truncated", topic=UNCLEAN, where=f"offset = 2 AND ns > {mark('isolated')}"),
    ),
)

_LOST = (
    Expected(
        "lost",
        f"{_ALONE} AND topic = '{UNCLEAN}' AND {after('cut')}",
        "unclean election: a replica outside of the ISR became leader",
    ),
    Expected(
        "lost",
        f"writer_name = 'az1-waiting' AND topic = '{TWO}' AND {after('cut')}",
        "acks=1, and a replica outside of the ISR became leader",
    ),
    Expected(
        "lost_after_read",
        f"{_ALONE} AND topic = '{UNCLEAN}' AND {after('cut')}",
        "unclean election: a replica outside of the ISR became leader",
    ),
)

SETUP = Setup(
    topics=(
        Topic(CLEAN, (1, 2, 3), config={"unclean.leader.election.enable": "false"}),
        Topic(UNCLEAN, (1, 2, 3), config={"unclean.leader.election.enable": "true"}),
        Topic(
            TWO,
            (1, 2, 3),
            config={"unclean.leader.election.enable": "true", "min.insync.replicas": "2"},
        ),
    ),
    controller="broker1",
    zookeeper_leader="zookeeper2",
    zookeeper_pins=pins(2, 3, to=(2, 3)),
)

SCENARIO = Scenario(
    name="isr-shrunk-leader-isolated",
    title="The leader is isolated after the ISR has shrunk to it: three settings side by side",
    article="001",
    section="6v",
    body=body,
    setup=SETUP,
    claims=CLAIMS,
    expected=_LOST,
    faults=("cut broker1 <-> broker2, broker1 <-> broker3", "isolate az1"),
    outcome="unclean loses acks=all writes, clean loses nothing, min.insync.replicas=2 refuses",
)
EXPECTED_LOSS = _LOST

"""Article 001, scenarios 1, 5 and 6, and loss cause 2: cases of article 000, judged by this article's words.

Scenario 1 cuts the two brokers only, where article 000 cuts their AZs.
"""

from __future__ import annotations

from dataclasses import replace

from checkers.claims.former import (
    after,
    by,
    condition,
    controller,
    equals,
    fates,
    logged,
    mark,
    none_lost,
    outcomes,
    state,
    unchanged,
)
from harness.run.stage import Stage
from harness.scenario import Claim, Erratum, Scenario
from scenarios.article000 import (
    follower_az_isolated,
    follower_cut_from_leader,
    leader_az_isolated,
    unclean_election,
)
from scenarios.steps import SHRINK_S, seed, settle, wait_isr_committed

_NOTHING_LOST = Claim(
    name="nothing-lost",
    section="001 conclusion",
    says="If followers are affected, no data are lost; only redundancy is.",
    holds=none_lost("outcome = 'ok'", at_least=3),
)
_T = follower_cut_from_leader.TOPIC


def _same(base: Scenario, name: str, section: str, claims: tuple[Claim, ...], title: str = "") -> Scenario:
    return replace(
        base,
        name=name,
        article="001",
        section=section,
        claims=claims,
        title=title or f"As {base.name}",
        versions=(),
        modes=(),
    )


def _cut_between_brokers(stage: Stage) -> None:
    """Cut a follower from its leader alone; ZooKeeper, the controller and all clients see both."""
    seed(stage, _T)
    with stage.nemesis.cut("broker1 <-> broker2"):
        stage.mark("cut", "leader and follower do not see each other; everybody else sees both")
        stage.writer("az1", "az1-acks1", "broker1", acks=1).must_send(_T, "m1")
        stage.wait_for_isr(_T, 1, 3, within_s=SHRINK_S)
        wait_isr_committed(stage, "broker1", _T, (1, 3))
        stage.mark("shrunk", "broker2 has left the ISR")
        stage.writer("az2", "az2-acks-all", "broker1", acks=-1).must_send(_T, "m2")
        stage.mark("before-heal")

    stage.mark("healed", "the link is back")
    settle(stage, _T)


_REGISTERED = (
    f"(SELECT max_by(brokers, ns) FROM views WHERE source LIKE 'zookeeper%' AND subject = 'brokers' "
    f"AND ns <= {mark('before-heal')})"
)
FOLLOWER_CUT = _same(
    replace(
        follower_cut_from_leader.SCENARIO,
        body=_cut_between_brokers,
        expected=(),
        faults=("cut broker1 <-> broker2",),
        outcome="nothing lost; the follower leaves the ISR and comes back",
    ),
    "partition-1-follower-cut",
    "1",
    (
        Claim(
            name="leaves-isr",
            section="001 scenario 1",
            says="The follower cannot fetch; after replica.lag.time.max.ms it is removed from the ISR.",
            holds=state(_T, leader=1, isr=(1, 3), until=mark("shrunk")),
        ),
        Claim(
            name="still-registered",
            section="001 scenario 1",
            says="It still reaches ZooKeeper, so that it counts as alive.",
            holds=condition(
                f"array_contains({_REGISTERED}, 2)",
                f"concat('registered ', cast({_REGISTERED} AS string), ' before the heal')",
            ),
        ),
        Claim(
            name="no-split-brain",
            section="001 scenario 1",
            says="There is no split brain, and nobody takes the follower's node for dead.",
            holds=unchanged(_T, since=mark("seeded"), until=mark("converged"), columns="leader, epoch"),
        ),
        Claim(
            name="rejoins",
            section="001 scenario 1",
            says="After the partition it fetches again, catches up and is added to the ISR.",
            holds=state(_T, leader=1, isr=(1, 2, 3), until=mark("converged")),
        ),
        _NOTHING_LOST,
    ),
    "Scenario 1: a follower does not reach the leader, but ZooKeeper and everybody else",
)

_R = follower_az_isolated.RETRIED
FOLLOWER_ISOLATED = _same(
    follower_az_isolated.SCENARIO,
    "partition-5-follower-isolated",
    "5",
    (
        Claim(
            name="leaves-isr",
            section="001 scenario 5",
            says="The follower is merely removed from the ISR.",
            holds=state(_R, leader=2, isr=(2, 3), until=mark("shrunk")),
        ),
        Claim(
            name="no-further-action",
            section="001 scenario 5",
            says="ZooKeeper marks it as failed, and nothing else follows: leader and controller stay.",
            holds=equals(controller(until=mark("converged")), "2", "controller is broker"),
        ),
        Claim(
            name="rejoins",
            section="001 scenario 5",
            says="After the partition it joins the cluster again and catches up.",
            holds=state(_R, leader=2, isr=(1, 2, 3), until=mark("converged")),
        ),
        _NOTHING_LOST,
    ),
    "Scenario 5: a follower is isolated from everything (as follower-az-isolated)",
)

_L = leader_az_isolated.TOPIC
_INSIDE = by("az1-acks1")
LEADER_ISOLATED = _same(
    leader_az_isolated.SCENARIO,
    "partition-6-leader-isolated",
    "6",
    (
        Claim(
            name="new-leader",
            section="001 scenario 6",
            says="ZooKeeper marks the isolated broker as failed; the controller elects a new leader.",
            holds=state(_L, leader=2, isr=(2, 3), until=mark("split")),
        ),
        Claim(
            name="accepts-acks-1-briefly",
            section="001 scenario 6",
            says="For a short time the old leader still accepts acks=1 writes, but soon stops.",
            holds=outcomes(f"{_INSIDE} AND {after('failover')} AND sent_ns < {mark('split')}", "fail"),
            erratum=Erratum(
                says="It does not stop: it accepts them until it is told after the heal that it is no leader.",
                because="KIP-497: from 2.7 on an ISR change that cannot be sent blocks nothing (with "
                "inter.broker.protocol.version 2.6 it hangs)",
                holds=outcomes(f"{_INSIDE} AND {after('failover')} AND sent_ns < {mark('split')}", "ok"),
            ),
        ),
        Claim(
            name="acknowledged-lost",
            section="001 scenario 6",
            says="What is written to the old leader and acknowledged after the partition began is lost.",
            holds=fates(
                f"{_INSIDE} AND outcome = 'ok' AND {after('cut')}", "lost", "lost_after_read", at_least=3
            ),
        ),
        Claim(
            name="truncates",
            section="001 scenario 6",
            says="It truncates its log to the high watermark that the new leader had at the failover.",
            holds=logged("broker1", "truncated_to_hw", topic=_L, where=f"ns > {mark('split')}"),
            erratum=Erratum(
                says="It truncates to the end offset of its leader epoch.",
                because="KIP-101, from 0.11 on",
                holds=logged("broker1", "truncated", topic=_L, where=f"offset = 2 AND ns > {mark('split')}"),
            ),
        ),
        Claim(
            name="acks-all-safe",
            section="001 scenario 6",
            says="It is a matter of acks=1: acks=all loses nothing.",
            holds=none_lost("acks = -1 AND outcome = 'ok'", at_least=5),
        ),
    ),
    "Scenario 6: the leader is isolated from everything (as leader-az-isolated)",
)

_U = unclean_election.UNCLEAN
UNCLEAN = _same(
    unclean_election.SCENARIO,
    "loss-2-unclean-failover",
    "cause 2",
    (
        Claim(
            name="unclean-loses",
            section="001 loss cause 2",
            says="Even with acks=all data are lost if an unclean failover is allowed.",
            holds=fates(by("az1-alone", topic=_U), "lost", "lost_after_read"),
            given=outcomes(by("az1-alone", topic=_U), "ok"),
        ),
        Claim(
            name="clean-avoids",
            section="001 conclusion",
            says="unclean.leader.election.enable=false avoids it.",
            holds=fates(by("az1-alone", topic=unclean_election.CLEAN), "kept"),
        ),
        Claim(
            name="at-a-price",
            section="001 conclusion",
            says="The price is availability: while the leader is away nobody can write.",
            holds=fates(by("az2-late", topic=unclean_election.CLEAN), "failed", "unknown_dropped"),
        ),
    ),
    "Loss cause 2: an unclean failover loses acks=all writes (as unclean-election)",
)

SCENARIOS = (FOLLOWER_CUT, FOLLOWER_ISOLATED, LEADER_ISOLATED, UNCLEAN)

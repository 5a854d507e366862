"""Article 000, section 3.2: the AZ of a partition leader is cut off, and the controller lives elsewhere."""

from __future__ import annotations

from checkers.claims.former import (
    condition,
    controller,
    equals,
    fates,
    mark,
    none_lost,
    outcomes,
    truth,
    view,
)
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.run.stage import Stage
from harness.scenario import Claim, Erratum, Expected, Scenario
from scenarios.steps import elect_preferred, seed

TOPIC = "t"
_AZ1_ACKS1 = "az = 'az1' AND acks = 1 AND role = 'scripted'"
_AFTER_CUT = f"sent_ns >= {mark('cut')}"
_EPOCH_RISE = (
    f"({truth('epoch', TOPIC, until=mark('split'))} - {truth('epoch', TOPIC, until=mark('seeded'))})"
)


def body(stage: Stage) -> None:
    """Cut az1 off, write on both sides, heal, and let the old leader rejoin."""
    seed(stage, TOPIC)
    old_side = stage.writer("az1", "az1-acks1", "broker1", acks=1)
    new_side = stage.writer("az2", "az2-acks-all", "broker2", acks=-1)

    with stage.nemesis.isolate("az1"):
        stage.mark("cut", "az1 can no longer reach az2 and az3")
        for message in ("c", "d", "e"):
            old_side.send(TOPIC, message)
        going_on = old_side.keep_writing(TOPIC, every_s=0.1)
        stage.wait_for_leader(TOPIC, not_on="broker1", within_s=15)
        stage.mark("failover", "the majority elected a new leader; broker1 still believes it leads")
        stage.wait_until_serving(TOPIC, "broker2")
        for message in ("f", "g"):
            new_side.send(TOPIC, message)
        old_side.send(TOPIC, "late")
        stage.read("az1", TOPIC, "broker1")
        stage.mark("split", "two leaders: broker1 in az1, broker2 in az2")

    stage.mark("healed", "the links are back")
    going_on.wait_refused(within_s=20)
    stage.wait_converged(TOPIC)
    stage.mark("converged", "all replicas hold the same log and are in sync")
    elect_preferred(stage, TOPIC, "broker1")
    stage.mark("preferred", "the preferred leader leads again")


_LEADER_AT_END = truth("leader", TOPIC, until=mark("preferred"))
_EPOCH_AT_END = truth("epoch", TOPIC, until=mark("preferred"))
_EPOCH_BEFORE = truth("epoch", TOPIC, until=mark("converged"))
_LEADS_AGAIN = f"{_LEADER_AT_END} = 1"
_SEEN_AT_END = f"concat('leader broker', {_LEADER_AT_END}, ' at epoch ', {_EPOCH_AT_END})"
CLAIMS = (
    Claim(
        name="controller-stays",
        section="000 §3",
        says="No controller election happens; the controller stays where it was.",
        holds=equals(controller(until=mark("split")), "2", "controller is broker"),
    ),
    Claim(
        name="old-leader-unaware",
        section="000 §3.2",
        says="broker-0 cannot see node changes nor update the ISR: its metadata keeps leader and ISR.",
        holds=condition(
            f"{view('leader', 'broker1', TOPIC, until=mark('split'))} = 1 AND "
            f"size({view('isr', 'broker1', TOPIC, until=mark('split'))}) = 3",
            f"concat('broker1 names leader ', {view('leader', 'broker1', TOPIC, until=mark('split'))}, "
            f"' and ISR ', cast({view('isr', 'broker1', TOPIC, until=mark('split'))} AS string))",
        ),
    ),
    Claim(
        name="zombie-accepts",
        section="000 §3.2",
        says="Clients in az1 can go on producing to broker-0.",
        holds=outcomes(
            f"{_AZ1_ACKS1} AND sent_ns BETWEEN {mark('cut')} AND {mark('split')}", "ok", at_least=3
        ),
    ),
    Claim(
        name="zombie-serves-reads",
        section="000 §3.2",
        says="Clients in az1 can go on consuming from broker-0.",
        holds=(
            f"SELECT count_if(offset >= 2) > 0 AS holds, concat(count(*), ' records read in az1, ', "
            f"count_if(offset >= 2), ' of them written after the cut') AS observed "
            f"FROM reads WHERE topic = '{TOPIC}' AND ns < {mark('healed')}"
        ),
        erratum=Erratum(
            says="What is written after the cut cannot be consumed in az1: the high watermark stands still.",
            because="the committed ISR still names three replicas, so the high watermark stays at 2",
            holds=(
                f"SELECT count(*) >= 2 AND count_if(offset >= 2) = 0 AS holds, "
                f"concat(count(*), ' records read in az1, none above offset 1') AS observed "
                f"FROM reads WHERE topic = '{TOPIC}' AND ns < {mark('healed')}"
            ),
        ),
    ),
    Claim(
        name="failover",
        section="000 §3.2",
        says="The cluster notices that broker-0 is gone; broker-1 becomes leader and the ISR is updated "
        "(how soon depends on zookeeper.session.timeout.ms).",
        holds=condition(
            f"{truth('leader', TOPIC, until=mark('split'))} = 2 AND "
            f"NOT array_contains({truth('isr', TOPIC, until=mark('split'))}, 1)",
            f"concat('leader broker', {truth('leader', TOPIC, until=mark('split'))}, ', ISR ', "
            f"cast({truth('isr', TOPIC, until=mark('split'))} AS string), ', ', "
            f"round(({mark('failover')} - {mark('cut')}) / 1e9, 1), ' s after the cut')",
        ),
    ),
    Claim(
        name="both-sides-write",
        section="000 §3.2",
        says="The partition has two leaders, and both take writes.",
        holds=(
            f"SELECT count_if({_AZ1_ACKS1}) > 0 AND count_if(az = 'az2' AND role = 'scripted') > 0 AS holds, "
            f"concat(count_if({_AZ1_ACKS1}), ' acknowledged in az1 and ', "
            f"count_if(az = 'az2' AND role = 'scripted'), ' in az2 while both led') AS observed "
            f"FROM life WHERE topic = '{TOPIC}' AND outcome = 'ok' "
            f"AND sent_ns BETWEEN {mark('failover')} AND {mark('split')}"
        ),
    ),
    Claim(
        name="epoch-rises",
        section="000 §3.2",
        says="The leader epoch rises by 2.",
        holds=equals(
            _EPOCH_RISE,
            "2",
            "leader epoch rose by",
        ),
        erratum=Erratum(
            says="It rises by 1.",
            because="a live controller elects with the dead replica already out of the ISR, so the later "
            "OfflineReplica step has nothing to remove; +2 is what happens when the controller died too",
            holds=equals(
                _EPOCH_RISE,
                "1",
                "leader epoch rose by",
            ),
        ),
    ),
    Claim(
        name="truncates-to-epoch-end",
        section="000 §3.2",
        says="After the heal broker-0 asks for the end offset of its leader epoch and truncates to it.",
        holds=(
            f"SELECT count_if(offset = 2) > 0 AS holds, concat('broker1 truncated {TOPIC} to offset ', "
            f"coalesce(cast(max_by(offset, ns) AS string), 'unknown')) AS observed FROM log_events "
            f"WHERE host = 'broker1' AND kind = 'truncated' AND topic = '{TOPIC}' AND ns >= {mark('cut')}"
        ),
    ),
    Claim(
        name="zombie-writes-lost",
        section="000 §3.2",
        says="What az1 wrote with acks=1 after the cut is gone once the logs agree (c, d, e).",
        holds=fates(
            f"{_AZ1_ACKS1} AND outcome = 'ok' AND {_AFTER_CUT}", "lost", "lost_after_read", at_least=3
        ),
    ),
    Claim(
        name="majority-writes-kept",
        section="000 §3.2",
        says="What az2 wrote to the new leader stays (f, g).",
        holds=fates(f"writer_name = 'az2-acks-all' AND outcome = 'ok' AND {_AFTER_CUT}", "kept", at_least=2),
    ),
    Claim(
        name="acks-all-safe",
        section="000 §3.2",
        says="With acks=all nothing that was acknowledged is lost.",
        holds=none_lost("acks = -1 AND outcome = 'ok'", at_least=10),
    ),
    Claim(
        name="rejoins",
        section="000 §3.2",
        says="broker-0 catches up and joins the ISR again.",
        holds=condition(
            f"size({truth('isr', TOPIC, until=mark('converged'))}) = 3",
            f"concat('ISR ', cast({truth('isr', TOPIC, until=mark('converged'))} AS string), ' ', "
            f"round(({mark('converged')} - {mark('healed')}) / 1e9, 1), ' s after the heal')",
        ),
    ),
    Claim(
        name="preferred-epoch",
        section="000 §3.2",
        says="A preferred leader election gives broker-0 the leadership again, at leader epoch 3.",
        holds=condition(f"{_LEADS_AGAIN} AND {_EPOCH_AT_END} = 3", _SEEN_AT_END),
        erratum=Erratum(
            says="It leads again at one epoch more than that of the failover: 2.",
            because="the failover raised the epoch by 1, not by 2",
            holds=condition(f"{_LEADS_AGAIN} AND {_EPOCH_AT_END} = {_EPOCH_BEFORE} + 1", _SEEN_AT_END),
        ),
    ),
)

SCENARIO = Scenario(
    name="leader-az-isolated",
    title="The leader's AZ is cut off; the controller is elsewhere",
    article="000",
    section="3.2",
    body=body,
    setup=Setup(
        topics=(Topic(TOPIC, (1, 2, 3)),),
        controller="broker2",
        zookeeper_leader="zookeeper2",
        zookeeper_pins={
            "broker2": ("zookeeper2", "zookeeper3"),
            "broker3": ("zookeeper2", "zookeeper3"),
        },
    ),
    claims=CLAIMS,
    expected=(
        Expected(
            "lost",
            f"{_AZ1_ACKS1} AND {_AFTER_CUT}",
            "acknowledged by the old leader alone, truncated when it rejoins",
        ),
    ),
    faults=("isolate az1",),
    versions=("2.7.1", "2.7.1@2.6", "3.9.1"),
    modes=("zookeeper", "kraft", "kraft-combined"),
    outcome="every acks=1 write acknowledged in az1 after the cut is lost, nothing else",
)

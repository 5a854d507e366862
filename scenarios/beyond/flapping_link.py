"""Beyond the articles: the link between the leader's AZ and a follower's comes and goes."""

from __future__ import annotations

from checkers.claims.builders import about, both, broker, controller_stays, mark, messages, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.scenario import Claim, Either, Scenario
from run.stage import Stage
from scenarios.steps import pins, seed, settle, stand

TOPIC = "t"


def body(stage: Stage) -> None:
    """Flap the link every second while an idempotent producer writes with acks=all."""
    seed(stage, TOPIC)
    writer = stage.producer(
        "az1",
        "az1-idempotent",
        via="librdkafka",
        idempotent=True,
        retries=1000,
        delivery_timeout_s=30,
        config={"max.in.flight.requests.per.connection": 1},
    ).prepare(TOPIC)
    with stage.nemesis.flapping("az1 <-> az2", period_s=2.0):
        cut = stage.mark("cut", "the link between az1 and az2 flaps")
        waiting = [writer.send_later(TOPIC, f"m{number}") for number in range(5)]
        for sent in waiting:
            sent.result(timeout=40)
        for number in range(5):
            writer.send(TOPIC, f"n{number}")
        stand(stage, cut, stage.timings.lagged_s)  # a plain cut would have shrunk the ISR
        writer.send(TOPIC, "last")
        stage.mark("before-heal", "the last moment of the flapping")

    stage.mark("healed", "the link stays up")
    settle(stage)


T = partition(TOPIC)
_LED_BY_BROKER1 = partition("stream")
_FLAPPED = messages(role="stream", az="az2", after="cut", before="before-heal")
_FLIPS = "size(from_json(evidence, 'flips array<struct<up_ns: bigint, down_ns: bigint>>').flips)"
_STALL_S = 0.6
"""Longer than a record takes to a follower and until it is seen there; shorter than half a period."""
_FLAPS_S = 60
"""Longer than the link flaps: the first five writes, sent together, have 40 s."""


def _stalls(at_least: int) -> str:
    """While the link flaps, broker2 waits so often for records of broker1's that broker3 has at once.

    Records that broker3 waited for as well do not count, because something else than the link stopped them.
    With such records, fewer stalls are unknown.
    """
    seen = ", ".join(
        f"min(CASE WHEN broker = {number} THEN seen_ns END) AS on{number}" for number in (1, 2, 3)
    )
    stall_ns = int(_STALL_S * 1e9)
    waited = f"count_if(on2 - on1 > {stall_ns} AND on2 - before > {stall_ns} AND on3 - on1 <= {stall_ns})"
    beside = f"count_if(on3 - on1 > {stall_ns})"
    return about(
        f"SELECT CASE WHEN {{tailed:broker2}} < {mark('before-heal')} THEN NULL "
        f"WHEN {waited} >= {at_least} THEN true WHEN {beside} = 0 THEN false END AS holds, "
        f"concat('broker2 waited ', {waited}, ' times for records that broker3 had at once; broker3 waited for ', "
        f"{beside}) AS observed "
        f"FROM (SELECT *, lag(on2) OVER (ORDER BY offset) AS before FROM (SELECT offset, {seen} "
        f"FROM sightings WHERE {_LED_BY_BROKER1.where} GROUP BY offset)) "
        f"WHERE on1 > {mark('seeded')} AND on1 <= {mark('before-heal')}",
        _LED_BY_BROKER1,
        broker(2),
        since="seeded",
        until="before-heal",
        tables=("sightings",),
    )


_STALLS = _stalls(at_least=3)
CLAIMS = (
    Claim(
        name="flapped",
        section="beyond the articles",
        says="The link came back at least twice and was cut again, and each change was verified.",
        precondition=True,
        holds=about(
            f"SELECT max({_FLIPS}) >= 4 AS holds, concat(max({_FLIPS}), ' changes') AS observed "
            "FROM faults WHERE moment = 'healed'",
            tables=("faults",),
        ),
    ),
    Claim(
        name="fetches-stop",
        section="beyond the articles",
        says="The follower across the link again and again gets nothing of the leader's for more than "
        f"{_STALL_S:g} s, while the other follower gets the same records at once.",
        holds=_STALLS,
    ),
    Claim(
        name="isr-stays",
        section="beyond the articles",
        says="The follower nevertheless stays in the ISR, for longer than a cut link would leave it there. "
        "Leader and controller stay as well, but are not at risk: the brokers' sessions and the controller's "
        "requests cross other links.",
        given=_STALLS,
        holds=both(
            T.stays(since="cut", until="converged"),
            controller_stays(since="cut", until="converged"),
        ),
        either=Either(
            says="The leader takes the follower out of the ISR, and back again. Leader and controller stay.",
            because="TCP repeats what was lost at growing intervals, which may miss the moments at which the "
            "link is up for longer than replica.lag.time.max.ms",
            holds=both(
                T.stays(since="cut", until="converged", what="leader, epoch"),
                T.becomes(leader=1, isr=(1, 3), after="cut", within_s=_FLAPS_S),
                T.has_isr(1, 2, 3, at="converged"),
                controller_stays(since="cut", until="converged"),
            ),
        ),
    ),
    Claim(
        name="all-acknowledged",
        section="beyond the articles",
        says="An idempotent producer that may retry gets every message written, exactly once, also one whose "
        "own link to the leader flaps.",
        holds=both(
            messages("az1-idempotent").kept(at_least=11),
            messages("az1-idempotent").in_final_log(copies=1, at_least=11),
            _FLAPPED.kept(at_least=30),
            _FLAPPED.in_final_log(copies=1, at_least=30),
        ),
    ),
    Claim(
        name="recovers",
        section="beyond the articles",
        says="Afterwards the ISR is full.",
        holds=T.has_isr(1, 2, 3, at="converged"),
    ),
    Claim(
        name="nothing-lost",
        section="beyond the articles",
        says="Nothing that was acknowledged is lost.",
        holds=messages().none_lost(at_risk_after="cut", at_least=11),
    ),
)

SCENARIO = Scenario(
    name="flapping-link",
    title="The link between two AZs comes and goes every second",
    article="beyond",
    section="flapping",
    body=body,
    setup=Setup(
        topics=(Topic(TOPIC, (1, 2, 3)),),
        controller="broker3",
        zookeeper_leader="zookeeper3",
        zookeeper_pins=pins(1, 2, 3, to=(3,)),
    ),
    claims=CLAIMS,
    faults=("flap az1 <-> az2",),
    outcome="nothing lost, nothing duplicated by an idempotent producer",
)

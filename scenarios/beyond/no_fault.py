"""Control: no fault at all. Any finding here is an error of the harness, or of Kafka."""

from __future__ import annotations

from checkers.claims.builders import about, both, controller_stays, messages, messages_where, partition
from checkers.claims.builders.sql import TOO_BUSY
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.waiting import wait_until
from run.scenario import Claim, Erratum, Scenario
from run.stage import Stage
from scenarios.steps import seed, settle
from workloads.protocol.spec import Via

TOPIC = "t"


def body(stage: Stage) -> None:
    """Write with all three settings of acks, and read."""
    seed(stage, TOPIC)
    for acks, name in ((0, "zero"), (1, "one"), (-1, "all")):
        # Each raw write has its own connection. Without answers, nothing would keep their order.
        via: Via = "librdkafka" if acks == 0 else "raw"
        writer = stage.producer("az1", f"az1-acks-{name}", "broker1", acks=acks, via=via)
        for number in range(20):
            writer.send(TOPIC, f"{name}{number}")
    wait_until(
        lambda: sum(stream.counts().ok for stream in stage.streams.values()),
        accept=lambda count: count >= 100 or not stage.streams,
        within_s=20,
        awaiting="the background streams to have a hundred messages acknowledged",
    )
    settle(stage)
    stage.read("az3", TOPIC)
    stage.mark("read", "a consumer has read everything")


T = partition(TOPIC)
_PROMPT_MS = 50
"""Half of the acks=1 writes take 1 to 5 ms on a machine that has processors to spare."""
_POLLED_MS = 250
"""Each write follows the acknowledgement of the previous one, and so a fetch.

If followers asked every 500 ms, an acks=all write would wait for nearly all of this time, and would take about
that much longer than an acks=1 write.
"""


def _waits(comparison: str) -> str:
    # Compared with acks=1, because a busy machine delays both. Where it delays even acks=1, a long
    # difference says nothing: an acks=all write waits for three processes, an acks=1 write for one.
    delay = "median(CASE WHEN writer_name = 'az1-acks-{}' THEN (done_ns - sent_ns) / 1e6 END)"
    busy = f"ms_all - ms_one >= {_POLLED_MS} AND ms_one >= {_PROMPT_MS}"
    return about(
        f"SELECT CASE WHEN least(n_all, n_one) >= 20 AND NOT ({busy}) "
        f"THEN ms_all - ms_one {comparison} {_POLLED_MS} END AS holds, "
        "concat('half of ', n_all, ' acks=all writes were acknowledged within ', round(ms_all, 1), "
        "' ms, half of ', n_one, ' acks=1 writes within ', round(ms_one, 1), ' ms', "
        f"if({busy}, '; {TOO_BUSY}', '')) AS observed "
        "FROM (SELECT count_if(writer_name = 'az1-acks-all') AS n_all, count_if(writer_name = 'az1-acks-one') AS n_one, "
        f"{delay.format('all')} AS ms_all, {delay.format('one')} AS ms_one FROM life WHERE outcome = 'ok')",
        messages(("az1-acks-all", "az1-acks-one")),
        tables=("life",),
    )


SCENARIO = Scenario(
    name="no-fault",
    title="No fault at all: nothing may be lost, duplicated or moved",
    article="beyond",
    section="control",
    body=body,
    setup=Setup(topics=(Topic(TOPIC, (1, 2, 3)),), controller="broker2", zookeeper_leader="zookeeper2"),
    claims=(
        Claim(
            name="all-acknowledged",
            section="control",
            says="Every message is acknowledged.",
            holds=messages_where("role = 'scripted' AND acks != 0").acknowledged(at_least=42),
        ),
        Claim(
            name="fetch-interval",
            section="001, replication",
            quote="follower会定期向leader发送fetch请求。缺省间隔是500ms",
            says="Followers send fetch requests every 500 ms by default, so acks=all writes wait for the next request.",
            holds=_waits(">="),
            erratum=Erratum(
                says="Each fetch follows the previous one at once: a message is fetched as soon as it is written.",
                because="500 ms (replica.fetch.wait.max.ms) is how long a fetch waits at the leader when there is "
                "nothing to fetch",
                holds=_waits("<"),
            ),
        ),
        Claim(
            name="nothing-amiss",
            section="control",
            says="Each is in the log once, at the acknowledged offset.",
            holds=both(
                messages().became("kept", "unknown_kept", at_least=100),
                messages(topic=TOPIC).in_final_log(copies=1, at_least=62),
            ),
        ),
        Claim(
            name="replicated-is-read",
            section="004, an example",
            quote="此时消息已经成功地被复制到leader和follower的log中且分区HW是1，表明consumer能够消费offset = 0的这条消息",
            says="What has been replicated to leader and followers can be consumed: a consumer that starts then receives "
            "every message.",
            holds=both(
                messages(topic=TOPIC).held_by(1, 2, 3, at_least=62),
                messages(topic=TOPIC).consumed(since="converged", until="read", at_least=62),
            ),
        ),
        Claim(
            name="nothing-changes",
            section="control",
            says="Controller, leader, leader epoch and ISR stay as they are.",
            holds=both(T.stays(since="seeded", until="read"), controller_stays(since="seeded", until="read")),
            given=T.is_led_by(1, isr=(1, 2, 3), epoch=0, at="seeded"),
        ),
    ),
    outcome="nothing happens, and nothing is found",
)

"""Articles 002 and 004 on the brokers of their own time: truncation to the high watermark, then its cure.

There are two quick leader changes. The follower that leads at the end was cut from the first new leader. So
before leader epochs (KIP-101, Kafka 0.11) it truncated its log to its own high watermark, which lags behind
by one fetch. The fetch that an idle topic holds back makes that gap as long as `replica.fetch.wait.max.ms`.
"""

from __future__ import annotations

from dataclasses import replace

from checkers.claims.builders import both, broker, messages, messages_where, noted, partition
from harness.cluster.setup import Setup
from harness.errors import WaitTimeoutError
from harness.kafka.model import Topic
from harness.waiting import wait_until
from run.scenario import Claim, Erratum, Expected, Scenario
from run.stage import Stage
from scenarios.article002.hw_truncation import BECAUSE, GONE
from scenarios.steps import (
    log_end_offset,
    require,
    require_controller,
    wait_log_end_offset,
    wait_view,
)

TOPIC = "t"
FIRST, SECOND, LATE = "broker1", "broker2", "broker3"
_LONG_FETCH = {
    "replica.fetch.wait.max.ms": "20000",
    "replica.socket.timeout.ms": "30000",
    "request.timeout.ms": "30000",
    "replica.lag.time.max.ms": "60000",
    "num.replica.fetchers": "2",
    "min.insync.replicas": "2",
}


def body(stage: Stage) -> None:
    """m1 and m2 on three replicas; the late follower is cut off; two leaders die; it leads and writes m3."""
    require_controller(stage, SECOND)
    require(stage.leader(TOPIC) == FIRST, f"{FIRST} leads {TOPIC}")
    for host in (FIRST, SECOND, LATE):
        wait_view(stage, host, TOPIC, leader=1)
    writer = stage.producer("az1", "az1-acks-all", FIRST, acks=-1)
    for message in ("m1", "m2"):
        writer.must_send(TOPIC, message)
    wait_log_end_offset(stage, TOPIC, 2, FIRST, SECOND, LATE)
    _note_window(stage)

    with stage.nemesis.cut(f"{LATE} -> {SECOND}:kafka", action="reject"):
        stage.mark("cut", f"{LATE} can no longer fetch from {SECOND}")
        stage.kill(FIRST)
        stage.wait_for_leader(TOPIC, on=SECOND)
        wait_view(stage, LATE, TOPIC, leader=2)
        stage.mark(
            "second-leads", f"{SECOND} leads; {LATE} has log end offset {log_end_offset(stage, LATE, TOPIC)}"
        )
        stage.kill(SECOND)
        stage.wait_for_leader(TOPIC, on=LATE)
        stage.mark("late-leads", f"{LATE} leads with log end offset {log_end_offset(stage, LATE, TOPIC)}")

    last = stage.producer("az3", "az3-acks1", LATE, acks=1)
    last.wait_writable(TOPIC, label="m3", within_s=15)
    stage.mark("m3", f"{LATE} acknowledged m3")
    stage.restart(FIRST)
    stage.wait_for_isr(TOPIC, 1, 3, within_s=stage.timings.converge_s)
    stage.restart(SECOND)
    stage.wait_for_isr(TOPIC, 1, 2, 3, within_s=stage.timings.converge_s)
    after = stage.producer("az3", "az3-acks-all", LATE, acks=-1)
    after.must_send(TOPIC, "m4")
    lengths = {host: log_end_offset(stage, host, TOPIC) for host in (FIRST, SECOND, LATE)}
    wait_log_end_offset(stage, TOPIC, max(lengths.values()), FIRST, SECOND, LATE)
    stage.mark("rejoined", "all three are in sync again, as the metadata store sees it")


def _note_window(stage: Stage) -> None:
    """The schedule shows something only if the late follower does not know yet that m2 is committed.

    Below 2.3 the watermark is read from the checkpoint file, which is written twice a second.
    """
    try:
        wait_until(
            lambda: stage.own_log(LATE, TOPIC).high_watermark,
            accept=lambda watermark: watermark >= 2,
            within_s=1.5,
            awaiting="the watermark that closes the window",
        )
    except WaitTimeoutError:
        watermark = stage.own_log(LATE, TOPIC).high_watermark
        stage.mark("window-open", f"high watermark {watermark} at {LATE}, which holds 2 messages")
    else:
        stage.mark("window-closed", f"high watermark 2 at {LATE}: it knows that all is committed")


T = partition(TOPIC)
M2 = messages(label="m2")
M3, LATE_WRITES = (
    messages_where(f"label IN ({labels}) AND outcome = 'ok'") for labels in ("'m3'", "'m3', 'm4'")
)
"""The write of m3 is repeated until the new leader accepts it; only the accepted one counts."""
_OPEN = both(noted("window-open"), T.is_led_by(3, at="late-leads"))
_EPOCHS = "since 0.11.0 followers ask for the end of their leader epoch instead (KIP-101)"

CLAIMS = (
    Claim(
        name="truncated",
        section="002 case 1, 004 §1",
        quote="若在这个过程中Leader发生变更,那么成为新Leader的Follower的HW值就有可能是过期的,"
        "导致生产者本是成功提交的消息被删除",
        says="A follower truncates its log to its own high watermark before it follows the new leader. This removes m2, although it was committed.",
        given=_OPEN,
        holds=both(M2.seen_on(3, until="cut"), broker(3).truncated(T, to=1, after="cut")),
        erratum=Erratum(
            says="It keeps m2.",
            because=_EPOCHS,
            since="0.11.0",
            holds=both(
                M2.seen_on(3, until="cut"),
                broker(3).never_logged(
                    "truncated", of=T, after="cut", before="late-leads", where="offset < 2"
                ),
                M2.held_by(1, 2, 3),
                T.is_led_by(3, at="late-leads"),
            ),
        ),
    ),
    Claim(
        name="m2-lost",
        section="002 case 1, 004 §1",
        quote="offset=1的消息就从两个副本的log中被删除,也就是说这条已经被生产者认为发送成功的数据丢失",
        says="m2, acknowledged with acks=all under min.insync.replicas=2 and on three replicas, is lost.",
        given=_OPEN,
        holds=both(M2.seen_on(1, 2, 3, until="cut"), M2.became(*GONE)),
        erratum=Erratum(
            says="m2 is kept.",
            because=_EPOCHS,
            since="0.11.0",
            holds=both(M2.kept(), T.is_led_by(3, at="late-leads")),
        ),
    ),
    Claim(
        name="diverged",
        section="002 case 2, 004 §2",
        quote="A和B的Log中保存在offset = 1的消息是不同的记录,从而引发不一致的情形出现",
        says="The first leader comes back with m2 where the others have m3, and is taken into the ISR: the "
        "replicas differ for ever.",
        given=_OPEN,
        holds=both(
            M2.held_by(1),
            M3.held_by(2, 3),
            T.replicas_differ(at_offset=1),
            T.has_isr(1, 2, 3, at="rejoined"),
        ),
        erratum=Erratum(
            says="All replicas hold the same messages.",
            because=_EPOCHS,
            since="0.11.0",
            holds=both(M2.held_by(1, 2, 3), M3.held_by(1, 2, 3), T.logs_agree(replicas=3, at_least=4)),
        ),
    ),
    Claim(
        name="late-write-kept",
        section="beyond 002",
        says="What the late follower acknowledged as leader stays.",
        holds=LATE_WRITES.kept(at_least=2),
    ),
)
_CLOSED = (
    Claim(
        name="window-closed",
        section="beyond 002",
        says="These versions answer a waiting fetch as soon as the high watermark moves, so no follower lags behind, and the schedule proves nothing.",
        since="2.4.0",
        before="2.6.0",
        precondition=True,
        holds=noted("window-closed"),
    ),
    Claim(
        name="kept-anyhow",
        section="beyond 002",
        says="m2 is kept on all three replicas, as in the versions in which the window opens.",
        since="2.4.0",
        before="2.6.0",
        holds=both(M2.kept(), M2.held_by(1, 2, 3), T.is_led_by(3, at="late-leads")),
    ),
)


def _where_open(claims: tuple[Claim, ...]) -> tuple[Claim, ...]:
    """The claims for the versions in which the window opens; `_CLOSED` has the claim for the others."""
    early = tuple(replace(claim, before="2.4.0") for claim in claims)
    return early + tuple(replace(claim, since="2.6.0") for claim in claims)


SCENARIO = Scenario(
    name="hw-truncation-by-version",
    title="Two quick leader changes on real 0.10.2.2 and later: truncation to the high watermark",
    article="002",
    section="scenario 1",
    body=body,
    setup=Setup(
        topics=(Topic(TOPIC, (1, 2, 3)),),
        controller=SECOND,
        quorum="one node",
        broker_config=_LONG_FETCH,
        stream_rate=0.0,
    ),
    claims=(*_where_open(CLAIMS), *_CLOSED),
    expected=(
        Expected("lost", f"topic = '{TOPIC}'", BECAUSE, before="0.11.0"),
        Expected("overwritten", f"topic = '{TOPIC}'", BECAUSE, before="0.11.0"),
        Expected("diverged", f"topic = '{TOPIC}'", BECAUSE, before="0.11.0"),
    ),
    faults=(f"cut {LATE} -> {SECOND}:kafka", f"kill {FIRST}", f"kill {SECOND}"),
    kafka="0.10.2.2",
    mode="zookeeper",
    outcome="0.10.2.2 loses m2 and diverges; from 0.11.0.3 on it is kept (2.4.1 never opens the window)",
    versions=("0.10.2.2", "0.11.0.3", "1.1.1", "2.4.1", "2.7.1", "2.7.1@2.6"),
    modes=("zookeeper",),
)

"""Articles 002 and 004: truncation to the high watermark, and leader epochs as its cure, side by side.

One topic keeps the message format of 0.10.2, which has no leader epochs, so Kafka 2.7.1 truncates it like
Kafka before 0.11. The other topic has today's format. Both suffer the same faults in one cluster.
"""

from __future__ import annotations

from collections.abc import Mapping

from checkers.claims.builders import both, broker, messages, messages_where, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic, TopicPartition
from harness.kafka.segments import high_watermarks
from harness.lab.model import DATA
from harness.waiting import wait_until
from run.producer import Producer
from run.scenario import Claim, Erratum, Expected, Scenario
from run.stage import Stage
from scenarios.steps import (
    elect_preferred,
    log_end_offset,
    require,
    settle,
    wait_log_end_offset,
    wait_truncated_to_hw,
    wait_unregistered,
    wait_view,
)

OLD, NEW = "old", "new"
TOPICS = (OLD, NEW)
_OLD_FORMAT = {"message.format.version": "0.10.2"}


def restarted_follower(stage: Stage) -> None:
    """The article's own case: B restarts, A dies before B can ask it, B leads."""
    two_messages(stage, "broker1", "broker2")
    for topic in TOPICS:
        watermark = wait_written_down(stage, "broker2", topic, 1)
        require(watermark == 1, f"broker2 wrote down high watermark 1 of {topic} ({watermark})")
    stage.kill("broker2")
    stage.mark("killed", "B is dead")
    for topic in TOPICS:
        stage.wait_for_isr(topic, 1)
    with stage.nemesis.cut("broker2 -> broker1:kafka", action="reject"):
        stage.restart("broker2")
        wait_truncated_to_hw(stage, "broker2", OLD, leader=1)
        stage.mark("restarted", "B is back, and cannot reach A")
        stage.kill("broker1")
        for topic in TOPICS:
            stage.wait_for_leader(topic, on="broker2")
        stage.mark("elected", "A is dead, B leads")
    stage.restart("broker1")
    settle(stage, *TOPICS, mark="end")


def diverging(stage: Stage) -> None:
    """Both crash; B comes back without m2, leads, and writes m3; A comes back."""
    two_messages(stage, "broker1", "broker2")
    for topic in TOPICS:
        stage.wait_replicated(topic)
        wait_written_down(stage, "broker1", topic, 2)
    stage.kill("broker3", "broker1")
    stage.nemesis.storage.power_cut(
        "broker2", how="emulated", flushed={TopicPartition(topic, 0): 1 for topic in TOPICS}
    )
    stage.mark("dark", "A and B are down at the same time; what B had not flushed is gone: m2")
    wait_unregistered(stage, "broker1", "broker2", "broker3")
    stage.restart("broker2")
    for topic in TOPICS:
        stage.wait_for_leader(topic, on="broker2")
    stage.mark("elected", "B is back first, and leads")
    write(stage, stage.producer("az2", "az2-m3", "broker2", acks=1), "m3")
    stage.restart("broker1")
    rejoin(stage, 1, 2)
    stage.read("az2", OLD, "broker2")
    stage.read("az2", NEW, "broker2")
    stage.mark("end", "A is back and in sync, as ZooKeeper sees it")
    for topic in TOPICS:
        elect_preferred(stage, topic, "broker1")
        stage.wait_until_serving(topic, "broker1", az="az1")
    stage.read("az1", OLD, "broker1")
    stage.read("az1", NEW, "broker1")
    wait_equal_lengths(stage, 1, 2)


def two_messages(stage: Stage, leader: str, *followers: str) -> None:
    writer = stage.producer("az1", "az1-acks-all", leader, acks=-1)
    for topic in TOPICS:
        require(stage.leader(topic) == leader, f"{leader} leads {topic}")
        for follower in followers:
            wait_view(stage, follower, topic, leader=1)
    for label in ("m1", "m2"):
        for topic in TOPICS:
            writer.must_send(topic, label)
    for topic in TOPICS:
        for host in (leader, *followers):
            wait_log_end_offset(stage, topic, 2, host)
    stage.mark("written", "m1 and m2 are acknowledged by every replica")


def write(stage: Stage, writer: Producer, label: str) -> None:
    """Write until a newly elected leader accepts it; the first write that it accepts is the message."""
    for topic in TOPICS:
        writer.wait_writable(topic, label=label, within_s=15)


def rejoin(stage: Stage, *members: int) -> None:
    for topic in TOPICS:
        stage.wait_for_isr(topic, *members, within_s=stage.timings.converge_s)


def wait_written_down(stage: Stage, host: str, topic: str, watermark: int) -> int:
    """Wait for a high watermark on disk: a killed broker restarts from it, and truncates to it."""
    data = stage.lab.files(host).below(DATA)
    sighting = wait_until(
        lambda: high_watermarks(data).get(TopicPartition(topic, 0)),
        accept=lambda written: written is not None and written >= watermark,
        within_s=10,
        awaiting=f"{host} to write down high watermark {watermark} of {topic}",
    )
    assert sighting is not None
    return sighting


def wait_equal_lengths(stage: Stage, *brokers: int) -> None:
    for topic in TOPICS:
        wait_until(
            lambda topic=topic: {log_end_offset(stage, f"broker{number}", topic) for number in brokers},  # type: ignore[misc]
            accept=lambda lengths: len(lengths) == 1,
            within_s=15,
            awaiting=f"the replicas of {topic} to be equally long",
            abort=stage.cluster.check_alive,
        )


GONE = ("lost", "lost_after_read", "overwritten", "diverged")
"""Acknowledged messages that are not in the log that consumers read."""
T_OLD, T_NEW = partition(OLD), partition(NEW)
M2_OLD, M2_NEW = messages(topic=OLD, label="m2"), messages(topic=NEW, label="m2")
M3_OLD, M3_NEW = (
    messages_where(f"topic = '{topic}' AND label = 'm3' AND outcome = 'ok'") for topic in TOPICS
)
"""The write of m3 is repeated until the new leader accepts it; only the accepted one counts."""


def old_diverges(*, m2_on: tuple[int, ...], m3_on: tuple[int, ...]) -> Claim:
    return Claim(
        name="old-diverges",
        section="002 case 2, 004 §2",
        quote="A和B的Log中保存在offset = 1的消息是不同的记录,从而引发不一致的情形出现",
        says="A has m2 and B has m3 at offset 1, for ever; both are in sync.",
        holds=both(
            M2_OLD.held_by(*m2_on),
            M3_OLD.held_by(*m3_on),
            T_OLD.replicas_differ(at_offset=1),
            T_OLD.has_isr(*m2_on, *m3_on, at="end"),
        ),
    )


def new_consistent(*, m2_on: tuple[int, ...], m3_on: tuple[int, ...]) -> Claim:
    return Claim(
        name="new-consistent",
        section="004, leader epochs",
        quote="同样的道理，依靠leader epoch的信息可以有效地规避数据不一致的问题",
        says="With leader epochs the logs of A and B agree.",
        holds=both(
            M2_NEW.held_by(*m2_on), M3_NEW.held_by(*m3_on), T_NEW.logs_agree(replicas=len(m3_on), at_least=2)
        ),
    )


def old_lost(leader: int, at: str) -> Claim:
    return Claim(
        name="old-lost",
        section="002 case 1, 004 §1",
        quote="offset=1的消息就从两个副本的log中被删除,也就是说这条已经被生产者认为发送成功的数据丢失",
        says="m2, which the producer regards as written, is lost.",
        holds=M2_OLD.became(*GONE),
        given=T_OLD.is_led_by(leader, at=at),
    )


def new_kept(leader: int, at: str) -> Claim:
    return Claim(
        name="new-kept",
        section="004, leader epochs",
        quote="获取出对应leader版本的位移，这就不会发生数据不一致和丢失的情况",
        says="With leader epochs (0.11 and later) m2 is kept.",
        holds=M2_NEW.kept(),
        given=T_NEW.is_led_by(leader, at=at),
    )


def two_topics(
    replicas: tuple[int, ...], controller: str, config: Mapping[str, str], topic: Mapping[str, str]
) -> Setup:
    return Setup(
        topics=(Topic(OLD, replicas, config={**topic, **_OLD_FORMAT}), Topic(NEW, replicas, config=topic)),
        controller=controller,
        zookeeper_leader="zookeeper3",
        quorum="one node",
        broker_config={"replica.lag.time.max.ms": "60000", "num.replica.fetchers": "2", **config},
        stream_rate=0.0,
    )


PARKED = {
    # A leader holds back an idle follower's fetch for this long, and with it the new high watermark.
    "replica.fetch.wait.max.ms": "20000",
    "replica.socket.timeout.ms": "30000",
    "request.timeout.ms": "30000",
}


def expected_of(*classes: str, topic: str = OLD, because: str) -> tuple[Expected, ...]:
    return tuple(Expected(name, f"topic = '{topic}'", because) for name in classes)


BECAUSE = "truncation to the high watermark, before leader epochs"
RESTARTED = Scenario(
    name="hw-truncation-restarted-follower",
    title="The follower restarts and leads: old message format against leader epochs",
    article="002",
    section="case 1",
    body=restarted_follower,
    aliases={"A": "broker1", "B": "broker2"},
    setup=two_topics(
        (1, 2),
        "broker3",
        PARKED,
        {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"},
    ),
    claims=(
        Claim(
            name="restart-truncates",
            section="002 case 1, 004 §1",
            quote="重启后B会自动把LEO调整到之前的HW值1,故副本B会做日志截断(log truncation),"
            "将offset = 1的那条消息从log中删除",
            says="B restarts, truncates its log to its high watermark 1 and removes m2.",
            holds=both(M2_OLD.seen_on(2, until="killed"), broker(2).truncated(T_OLD, to=1, after="killed")),
        ),
        Claim(
            name="b-leads",
            section="002 case 1, 004 §1",
            quote="若A所在broker机器在此时宕机,那么Kafka会令B成为新的Leader",
            says="A dies before B could fetch from it; B becomes leader.",
            holds=T_OLD.is_led_by(2, isr=(2,), epoch=2, at="elected"),
        ),
        Claim(
            name="clean-election",
            section="002 case 1",
            quote="若A所在broker机器在此时宕机,那么Kafka会令B成为新的Leader",
            says="B is in the ISR when A dies (the article speaks of no unclean election).",
            holds=T_OLD.has_isr(1, 2, at="restarted"),
            erratum=Erratum(
                says="B is out of the ISR: the case needs unclean.leader.election.enable=true, which was the default before 0.11.",
                because="a broker that restarts was removed from the ISR when its session ended",
                holds=both(
                    T_OLD.is_led_by(1, isr=(1,), at="restarted"), T_OLD.is_led_by(2, isr=(2,), at="elected")
                ),
            ),
        ),
        Claim(
            name="a-truncates",
            section="002 case 1, 004 §1",
            quote="当A重启回来后也会执行日志截断,将HW调整回1",
            says="A comes back and truncates as well: m2 is removed from both.",
            holds=both(broker(1).truncated(T_OLD, to=1, after="elected"), M2_OLD.held_by()),
        ),
        Claim(
            name="a-truncates-to-hw",
            section="002 case 1, 004 §1",
            quote="当A重启回来后也会执行日志截断,将HW调整回1",
            says="What cuts A's log to 1 is the high watermark.",
            holds=broker(1).logged("truncated_to_hw", of=T_OLD, after="elected", where="offset = 1"),
            erratum=Erratum(
                says="A truncates to its own high watermark 2, which removes nothing. Its fetch from 2 is beyond the end of B's log, and this truncates it.",
                because="B has no message at offset 1 yet; if it had one, nothing would truncate A (see the case of two quick leader changes)",
                holds=both(
                    broker(1).logged("truncated_to_hw", of=T_OLD, after="elected", where="offset = 2"),
                    broker(1).never_logged(
                        "truncated_to_hw", of=T_OLD, after="elected", before="end", where="offset = 1"
                    ),
                    broker(1).truncated(T_OLD, to=1, after="elected"),
                ),
            ),
        ),
        old_lost(2, "elected"),
        new_kept(2, "elected"),
    ),
    expected=expected_of("lost", "lost_after_read", "overwritten", because=BECAUSE),
    faults=("kill broker2", "cut broker2 -> broker1:kafka", "kill broker1"),
    outcome="the topic of the old format loses m2 on both replicas, that of the new one keeps it",
)

DIVERGE = Scenario(
    name="hw-truncation-diverges",
    title="Both crash, one without its last message: old message format against leader epochs",
    article="002",
    section="case 2",
    body=diverging,
    aliases={"A": "broker1", "B": "broker2"},
    setup=two_topics((1, 2), "broker3", {}, {"min.insync.replicas": "1"}),
    claims=(
        Claim(
            name="b-leads",
            section="002 case 2, 004 §2",
            quote="B先重启回来,因此B成为Leader",
            says="B comes back first, and therefore becomes leader.",
            holds=both(*(place.is_led_by(2, isr=(2,), at="elected") for place in (T_OLD, T_NEW))),
        ),
        old_diverges(m2_on=(1,), m3_on=(2,)),
        Claim(
            name="no-truncation",
            section="002 case 2, 004 §2",
            quote="之后A重启回来,需要执行日志截断,但发现此时分区HW=2而A之前的HW值也是2,故不做任何调整",
            says="A finds that its high watermark is 2, like the partition's, and changes nothing.",
            holds=broker(1).never_logged(
                "truncated", of=T_OLD, after="elected", before="end", where="offset < 2"
            ),
            given=broker(1).logged("truncated_to_hw", of=T_OLD, after="elected", where="offset = 2"),
        ),
        new_consistent(m2_on=(), m3_on=(1, 2)),
        Claim(
            name="new-truncates",
            section="004, leader epochs",
            quote="在恢复的时候完全使用这些信息而非水位来判断是否需要截断日志",
            says="With leader epochs A asks B where its epoch ended, and truncates m2.",
            holds=broker(1).truncated(T_NEW, to=1, after="elected"),
        ),
        Claim(
            name="new-not-durable",
            section="004, leader epochs",
            quote="0.11.0.0版本的Kafka通过引入leader epoch解决了原先依赖水位表示副本进度可能造成的数据丢失",
            says="With leader epochs nothing is lost any more.",
            holds=M2_NEW.kept(),
            erratum=Erratum(
                says="The logs agree, but m2 is lost there as well.",
                because="leader epochs give consistency, not durability: the elected leader had lost m2",
                holds=both(T_NEW.is_led_by(2, isr=(2,), at="elected"), M2_NEW.became(*GONE)),
            ),
        ),
    ),
    expected=(
        *expected_of(
            "lost",
            "lost_after_read",
            "overwritten",
            "diverged",
            "offset_conflict",
            "aborted_read",
            "skip",
            because=BECAUSE,
        ),
        *expected_of(
            "lost",
            "lost_after_read",
            "overwritten",
            topic=NEW,
            because="one of two replicas lost its page cache and was elected",
        ),
    ),
    faults=("kill broker3, broker1", "power cut broker2 (emulated)"),
    outcome="the old format diverges for ever; with leader epochs the replicas agree, though m2 is lost",
)

SCENARIOS = (RESTARTED, DIVERGE)

"""Article 001, leader failover and rejoining: where do new leader, follower and old leader truncate?

The high watermark, the end of the leader epoch and the log end offset differ on every replica, so that the
offset of a truncation tells which of them decided. A topic with the message format of 0.10.2, which has no
leader epochs, goes through the same faults. There the article is right.

| offset | message | on | |
|---|---|---|---|
| 0..2 | m1, m2, m3 | all | committed; broker3 still has high watermark 2 |
| 3 | m4 | broker1, broker2 | acks=1; broker1 and broker2 have high watermark 3 |
| 4..7 | z1..z4 | broker1 | acks=1, written while its AZ is cut off |
| 4, 5 | n1, n2 | broker2, broker3 | acks=all, written to the new leader |
"""

from __future__ import annotations

from checkers.claims.builders import both, broker, messages, noted, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.waiting import wait_until
from run.scenario import Claim, Erratum, Expected, Scenario
from run.stage import Stage
from scenarios.steps import (
    high_watermark,
    log_end_offset,
    pins,
    require,
    wait_log_end_offset,
    wait_truncated_to_hw,
    wait_view,
)

OLD, NEW = "old", "new"
TOPICS = (OLD, NEW)


def body(stage: Stage) -> None:
    """Make the replicas uneven, cut the leader's AZ off, write on both sides, heal."""
    writer = stage.producer("az1", "az1-acks-all", "broker1", acks=-1)
    for topic in TOPICS:
        require(stage.leader(topic) == "broker1", f"broker1 leads {topic}")
        for host in ("broker1", "broker2", "broker3"):
            wait_view(stage, host, topic, leader=1)
    for label in ("m1", "m2", "m3"):
        for topic in TOPICS:
            writer.must_send(topic, label)
    for topic in TOPICS:
        wait_log_end_offset(stage, topic, 3, "broker1", "broker2", "broker3")
    stage.mark("written", _ends(stage))

    with stage.nemesis.cut("broker1 <-> broker3"):
        stage.mark("follower-cut", "broker3 can no longer fetch from broker1")
        acks_1 = stage.producer("az1", "az1-acks1", "broker1", acks=1)
        for topic in TOPICS:
            acks_1.must_send(topic, "m4")
        for topic in TOPICS:
            wait_log_end_offset(stage, topic, 4, "broker1", "broker2")
        marks = [high_watermark(stage, f"broker{number}", NEW) for number in (1, 2, 3)]
        ends = [log_end_offset(stage, f"broker{number}", NEW) for number in (1, 2, 3)]
        stage.mark("uneven", _ends(stage), high_watermarks=marks, log_ends=ends)
        for topic in TOPICS:
            marks = [high_watermark(stage, f"broker{number}", topic) for number in (1, 2, 3)]
            require(marks == [3, 3, 2], f"the high watermarks of {topic} are 3, 3 and 2 ({marks})")
        with stage.nemesis.isolate("az1"):
            stage.mark("cut", "az1 can no longer reach az2 and az3")
            zombie = stage.producer("az1", "az1-zombie", "broker1", acks=1)
            for label in ("z1", "z2", "z3", "z4"):
                for topic in TOPICS:
                    zombie.must_send(topic, label)
            for topic in TOPICS:
                stage.read("az1", topic, "broker1")
            stage.mark("read", "a consumer in az1 read what broker1 shows")
            _new_leader(stage)
            stage.mark("before-heal", _ends(stage))

    stage.mark("healed", "the links are back")
    for topic in TOPICS:
        stage.wait_for_isr(topic, 1, 2, 3, within_s=stage.timings.converge_s)
        wait_until(
            lambda topic=topic: {log_end_offset(stage, f"broker{number}", topic) for number in (1, 2, 3)},  # type: ignore[misc]
            accept=lambda lengths: len(lengths) == 1,
            within_s=15,
            awaiting=f"the replicas of {topic} to be equally long",
            abort=stage.cluster.check_alive,
        )
    stage.mark("rejoined", "all replicas are in sync, and equally long")


def _new_leader(stage: Stage) -> None:
    """Wait until broker2 leads and broker3 follows it, and write to it."""
    for topic in TOPICS:
        stage.wait_for_leader(topic, on="broker2")
        wait_view(stage, "broker3", topic, leader=2)
    wait_truncated_to_hw(stage, "broker3", OLD, leader=2)
    for topic in TOPICS:
        wait_log_end_offset(stage, topic, 4, "broker2", "broker3")
    stage.mark("failover", _ends(stage))
    new_side = stage.producer("az2", "az2-acks-all", "broker2", acks=-1)
    for label in ("n1", "n2"):
        for topic in TOPICS:
            new_side.must_send(topic, label)


def _ends(stage: Stage) -> str:
    """High watermark and log end offset of every replica that answers, for the marks."""
    return "; ".join(
        f"{topic}: "
        + ", ".join(
            f"broker{number} HW {high_watermark(stage, f'broker{number}', topic)} "
            f"LEO {log_end_offset(stage, f'broker{number}', topic)}"
            for number in (1, 2, 3)
        )
        for topic in TOPICS
    )


T_OLD, T_NEW = partition(OLD), partition(NEW)
M3_NEW, M4_NEW = messages(topic=NEW, label="m3"), messages(topic=NEW, label="m4")
ZOMBIE, NEW_SIDE = messages("az1-zombie"), messages("az2-acks-all")
_EPOCH_END = "since 0.11.0 a follower asks for the end of its leader epoch (KIP-101)"
_NO_CUT = {"after": "follower-cut", "before": "before-heal"}

CLAIMS = (
    Claim(
        name="uneven",
        section="beyond 001 failover",
        says="Before the failover high watermarks and log ends differ: 3 and 4, 3 and 4, 2 and 3.",
        precondition=True,
        holds=noted("uneven", high_watermarks=[3, 3, 2], log_ends=[4, 4, 3]),
    ),
    Claim(
        name="consumers-below-hw",
        section="001 HW and LEO, 002",
        quote="对于消费者来说只能消费HW之前的数据",
        says="Consumers read only what is below the high watermark.",
        holds=T_NEW.consumers_see_nothing_from(3, since="cut", until="read"),
    ),
    Claim(
        name="hw-is-the-last-offset",
        section="004",
        quote="HW值是7，表示位移是0~7的所有消息都已经处于“已备份状态”",
        says="A high watermark of 3 means that offsets 0 to 3 are replicated.",
        holds=both(M4_NEW.seen_on(1, 2, 3, until="cut"), T_NEW.consumers_read(4, since="cut", until="read")),
        erratum=Erratum(
            says="It means offsets 0 to 2: it is the next offset, that of the first message not replicated yet.",
            because="the high watermark is the smallest log end offset in the ISR, and that is an exclusive bound",
            holds=both(
                M3_NEW.seen_on(1, 2, 3, until="cut"),
                M4_NEW.seen_on(1, 2, until="cut"),
                M4_NEW.not_seen_on(3, until="cut"),
                T_NEW.consumers_read(3, since="cut", until="read"),
                broker(1).starts(
                    "follower", T_NEW, epoch=1, log_end_offset=8, high_watermark=3, after="before-heal"
                ),
            ),
        ),
    ),
    Claim(
        name="leader-advances-hw",
        section="001, replication",
        quote="只有leader可以推进HW,同时也负责让所有follower在每次fetch请求中获知当前最新的HW值",
        says="Only the leader advances the high watermark; a follower learns it with each fetch. broker3, cut off when it "
        "had fetched m3, still has 2, although every replica has m3; broker2, which fetched once more, has 3.",
        holds=both(
            M3_NEW.seen_on(1, 2, 3, until="follower-cut"),
            M4_NEW.seen_on(2, until="cut"),
            M4_NEW.not_seen_on(3, until="cut"),
            broker(3).starts("follower", T_NEW, epoch=1, log_end_offset=3, high_watermark=2, after="cut"),
            broker(2).starts("leader", T_NEW, epoch=1, log_end_offset=4, high_watermark=3, after="cut"),
        ),
    ),
    Claim(
        name="hw-follows-fetches",
        section="004, HW of the leader",
        quote="leader处理follower FETCH请求时：当leader处理follower的FETCH请求时首先会从底层的log读取数据，之后会尝试更新分区HW值",
        says="The leader advances the high watermark when followers fetch: to 3 for m1 to m3, which both have and "
        "which it acknowledged with acks=all. It stays at 3 once broker3 fetches no more, though m4 and z1 to z4 are written.",
        holds=both(
            messages("az1-acks-all", topic=NEW).kept(at_least=3),
            M3_NEW.seen_on(1, 2, 3, until="follower-cut"),
            M4_NEW.not_seen_on(3, until="cut"),
            messages(("az1-acks1", "az1-zombie"), topic=NEW).acknowledged(at_least=5),
            broker(1).starts(
                "follower", T_NEW, epoch=1, log_end_offset=8, high_watermark=3, after="before-heal"
            ),
        ),
    ),
    Claim(
        name="new-leader-cuts-to-hw",
        section="001 failover",
        quote="新的leader将使用新的HW作为当前自己的LEO",
        says="The new leader makes its high watermark its log end offset: it drops m4.",
        holds=broker(2).truncated(T_NEW, to=3, after="follower-cut"),
        erratum=Erratum(
            says="It keeps its whole log, and leads from offset 4 with high watermark 3.",
            because="a new leader never truncates; its high watermark rises once its followers have fetched",
            holds=both(
                broker(2).starts("leader", T_NEW, epoch=1, log_end_offset=4, high_watermark=3, after="cut"),
                broker(2).never_logged("truncated", of=T_NEW, **_NO_CUT),
                M4_NEW.still_on(2, at="failover"),
                M4_NEW.kept(),
            ),
        ),
    ),
    Claim(
        name="follower-cuts-to-hw",
        section="001 failover",
        quote="每个follower必须根据新leader的HW截断自身的数据",
        says="A follower truncates to the high watermark: broker3 drops m3, the end of its log.",
        given=broker(3).starts("follower", T_NEW, epoch=1, log_end_offset=3, high_watermark=2, after="cut"),
        holds=broker(3).truncated(T_NEW, to=2, after="follower-cut"),
        erratum=Erratum(
            says="It truncates nothing, and fetches on from its log end offset 3: epoch 0 ends at 4.",
            because=_EPOCH_END,
            holds=both(
                broker(3).never_logged("truncated", of=T_NEW, **_NO_CUT),
                M3_NEW.still_on(3, at="failover"),
                M4_NEW.seen_on(3, until="before-heal"),
            ),
        ),
    ),
    Claim(
        name="old-leader-cuts-to-own-hw",
        section="001 rejoining, scenarios 4 and 6",
        quote="将自己的日志截断到新leader发生故障切换时自己保存的HW所指示的位置",
        says="The old leader truncates to the high watermark that it had when the new leader took over: 3.",
        given=broker(1).starts(
            "follower", T_NEW, epoch=1, log_end_offset=8, high_watermark=3, after="before-heal"
        ),
        holds=broker(1).truncated(T_NEW, to=3, after="cut"),
        erratum=Erratum(
            says="It truncates to the end of its leader epoch in the new leader's log, 4, and keeps m4.",
            because=_EPOCH_END,
            holds=both(
                broker(1).truncated(T_NEW, to=4, after="cut"),
                broker(1).truncated_to_end_of(T_NEW, 0, after="cut"),
                M4_NEW.held_by(1, 2, 3),
            ),
        ),
    ),
    Claim(
        name="old-leader-cuts-to-new-hw",
        section="001 failover",
        quote="先向leader发出一个请求,获知当前最新的HW,然后根据这个HW截断本地的日志",
        says="It asks the new leader for its high watermark, which is 6 by then, and truncates to it.",
        given=NEW_SIDE.acknowledged(at_least=4),
        holds=broker(1).truncated(T_NEW, to=6, after="cut"),
        erratum=Erratum(
            says="It asks for the end of its leader epoch: 4.",
            because=_EPOCH_END,
            holds=broker(1).truncated(T_NEW, to=4, after="cut"),
        ),
    ),
    Claim(
        name="hw-before-epochs",
        section="001 failover",
        quote="根据已知的HW截断本地的日志,然后以新的偏移为开始向新leader发出fetch请求",
        says="Without leader epochs both truncate to their own high watermark, broker3 to 2 and broker1 to 3, "
        "and fetch from there.",
        holds=both(
            broker(3).logged("truncated_to_hw", of=T_OLD, after="cut", where="offset = 2"),
            broker(3).truncated(T_OLD, to=2, after="follower-cut"),
            broker(1).logged("truncated_to_hw", of=T_OLD, after="cut", where="offset = 3"),
            broker(1).truncated(T_OLD, to=3, after="cut"),
        ),
    ),
    Claim(
        name="no-fork",
        section="001 scenario 4",
        quote="这避免了日志的分叉",
        says="The logs agree in the end.",
        holds=both(
            T_NEW.logs_agree(replicas=3, at_least=6),
            T_OLD.logs_agree(replicas=3, at_least=6),
            T_NEW.is_led_by(2, isr=(1, 2, 3), epoch=1, at="rejoined"),
        ),
    ),
    Claim(
        name="only-unreplicated-lost",
        section="001 scenario 4",
        quote="所有写往原leader而没有复制到新leader的数据都将丢失",
        says="What the old leader had not replicated to the new one is lost (z1 to z4); m4, which it had, is kept.",
        holds=both(ZOMBIE.acknowledged_then_lost(at_least=8), messages(label="m4").kept(at_least=2)),
    ),
    Claim(
        name="epoch-cache",
        section="004, leader epochs",
        quote="所谓leader epoch实际上是一对值：(epoch, offset)…epoch表示leader的版本号…"
        "而offset则对应于该epoch版本的leader写入第一条消息的位移",
        says="Every replica keeps pairs of a leader epoch and the offset of its first message: (0, 0) and (1, 4).",
        holds=T_NEW.epoch_cache_is((0, 0), (1, 4), replicas=3),
    ),
)

SCENARIO = Scenario(
    name="truncation-hw-vs-epoch",
    title="High watermark, epoch end and log end all differ when the leader's AZ is cut off and returns",
    article="001",
    section="failover",
    body=body,
    setup=Setup(
        topics=(
            Topic(OLD, (1, 2, 3), config={"message.format.version": "0.10.2"}),
            Topic(NEW, (1, 2, 3)),
        ),
        controller="broker2",
        zookeeper_leader="zookeeper2",
        zookeeper_pins=pins(2, 3, to=(2, 3)),
        broker_config={
            # A leader holds back an idle follower's fetch for this long, and with it the new high watermark.
            "replica.fetch.wait.max.ms": "20000",
            "replica.socket.timeout.ms": "30000",
            "request.timeout.ms": "30000",
            "replica.lag.time.max.ms": "60000",
            "num.replica.fetchers": "2",
        },
        stream_rate=0.0,
    ),
    claims=CLAIMS,
    expected=(
        Expected("lost", ZOMBIE.where, "acknowledged by the old leader alone, truncated when it rejoins"),
    ),
    faults=("cut broker1 <-> broker3", "isolate az1"),
    outcome="by leader epoch each replica keeps all that the new leader has; only z1 to z4 are lost",
)

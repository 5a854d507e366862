"""Articles 002 and 004, two quick leader changes: the old message format against leader epochs.

Nobody restarts, and no election is unclean. This is KAFKA-1211, which led to KIP-101.
"""

from __future__ import annotations

from checkers.claims.builders import both, broker, messages, opposite, topic_is_set
from run.scenario import Claim, Erratum, Scenario
from run.stage import Stage
from scenarios.article002.hw_truncation import (
    BECAUSE,
    GONE,
    M2_OLD,
    OLD,
    PARKED,
    T_NEW,
    T_OLD,
    TOPICS,
    expected_of,
    new_consistent,
    new_kept,
    old_diverges,
    old_lost,
    rejoin,
    two_messages,
    two_topics,
    wait_equal_lengths,
    wait_written_down,
    write,
)
from scenarios.steps import high_watermark, require, wait_log, wait_truncated_to_hw, wait_view


def fast_failovers(stage: Stage) -> None:
    """Two leaders die one after the other; the third never reached the second."""
    two_messages(stage, "broker1", "broker2", "broker3")
    for topic in TOPICS:
        watermark = high_watermark(stage, "broker3", topic)
        require(watermark == 1, f"broker3 does not know yet that m2 of {topic} is committed (HW {watermark})")
        wait_written_down(stage, "broker1", topic, 2)
    with stage.nemesis.cut("broker3 -> broker2:kafka", action="reject"):
        stage.mark("cut", "broker3 could not fetch from broker2, were it leader")
        stage.kill("broker1")
        for topic in TOPICS:
            stage.wait_for_leader(topic, on="broker2")
            wait_view(stage, "broker3", topic, leader=2)
        wait_truncated_to_hw(stage, "broker3", OLD, leader=2)
        for topic in TOPICS:  # the store names a leader before the leader has started
            wait_log(stage, "broker2", f"{topic}-0 ", "starts at ", "poch 1 from offset")
        stage.mark("second", "broker2 leads; broker3 knows it, and cannot reach it")
        stage.kill("broker2")
        for topic in TOPICS:
            stage.wait_for_leader(topic, on="broker3")
        stage.mark("third", "broker3 leads")
    last = stage.producer("az3", "az3-acks1", "broker3", acks=1)
    write(stage, last, "m3")
    stage.restart("broker1")
    stage.restart("broker2")
    rejoin(stage, 1, 2, 3)
    write(stage, stage.producer("az3", "az3-acks-all", "broker3", acks=-1), "m4")
    wait_equal_lengths(stage, 1, 2, 3)
    stage.mark("end", "all replicas are in sync, as ZooKeeper sees it")


SCENARIO = Scenario(
    name="hw-truncation-fast-failovers",
    title="Two quick leader changes: old message format against leader epochs",
    article="002",
    section="case 1 (clean)",
    body=fast_failovers,
    aliases={"A": "broker1", "B": "broker3"},
    setup=two_topics((1, 2, 3), "broker2", PARKED, {"min.insync.replicas": "2"}),
    claims=(
        Claim(
            name="old-truncates",
            section="002 case 1, 004 §1",
            quote="若在这个过程中Leader发生变更,那么成为新Leader的Follower的HW值就有可能是过期的,"
            "导致生产者本是成功提交的消息被删除",
            says="A follower whose high watermark is out of date removes m2 when the leader changes, then leads.",
            holds=both(
                M2_OLD.seen_on(3, until="cut"),
                broker(3).truncated(T_OLD, to=1, after="cut"),
                T_OLD.is_led_by(3, at="third"),
            ),
        ),
        old_lost(3, "third"),
        Claim(
            name="needs-min-insync-1",
            section="002 case 1, 004 §1",
            quote="丢失数据的前提是min.insync.replicas=1",
            says="This presupposes min.insync.replicas=1: with 2 and clean elections m2 is kept.",
            holds=M2_OLD.kept(),
            given=topic_is_set(OLD, "min.insync.replicas", "2"),
            erratum=Erratum(
                says="m2 is lost with min.insync.replicas=2, from three in-sync replicas, in clean elections.",
                because="two quick leader changes are enough (KAFKA-1211, which led to KIP-101)",
                holds=both(
                    M2_OLD.seen_on(1, 2, 3, until="cut"),
                    T_OLD.is_led_by(1, isr=(1, 2, 3), at="cut"),
                    T_OLD.is_led_by(2, isr=(2, 3), at="second"),
                    T_OLD.is_led_by(3, at="third"),
                    M2_OLD.became(*GONE),
                ),
            ),
        ),
        Claim(
            name="table-rows-2-and-3",
            section="002 table, 004 §1",
            quote="Leader和Follower的Log虽都写入了2条消息且分区HW已经被更新到2,但Follower HW尚未被更新还是1",
            says="Leader and follower hold two messages and the partition's high watermark is 2, but the "
            "follower's is still 1.",
            holds=both(
                M2_OLD.seen_on(1, 2, 3, until="cut"),
                broker(2).starts("leader", T_OLD, epoch=1, log_end_offset=2, high_watermark=1, after="cut"),
                broker(1).starts(
                    "follower", T_OLD, epoch=3, log_end_offset=2, high_watermark=2, after="third"
                ),
            ),
        ),
        Claim(
            name="a-truncates",
            section="002 case 1, 004 §1",
            quote="当A重启回来后也会执行日志截断,将HW调整回1",
            says="A comes back and truncates to high watermark 1 as well, though m3 was written meanwhile.",
            given=opposite(messages(topic=OLD, label="m3").not_acknowledged()),
            holds=broker(1).truncated(T_OLD, to=1, after="third"),
            erratum=Erratum(
                says="A truncates to its own high watermark, which is 2, and so removes nothing: m2 stays beside "
                "m3.",
                because="it starts from the high watermark on its disk, and without leader epochs it asks nobody for another offset",
                holds=both(
                    broker(1).logged("truncated_to_hw", of=T_OLD, after="third", where="offset = 2"),
                    broker(1).never_logged(
                        "truncated", of=T_OLD, after="third", before="end", where="offset < 2"
                    ),
                    M2_OLD.held_by(1),
                ),
            ),
        ),
        old_diverges(m2_on=(1,), m3_on=(2, 3)),
        new_kept(3, "third"),
        new_consistent(m2_on=(1, 2, 3), m3_on=(1, 2, 3)),
        Claim(
            name="epoch-cache",
            section="004, leader epochs",
            quote="所谓leader epoch实际上是一对值：(epoch, offset)",
            says="At the end every replica has the pairs of the leaders that wrote: (0, 0) and (3, 2).",
            holds=T_NEW.epoch_cache_is((0, 0), (3, 2), replicas=3),
        ),
        Claim(
            name="epoch-plus-one",
            section="004, leader epochs",
            quote="epoch表示leader的版本号，从0开始，当leader变更过1次时epoch就会+1",
            says="The epoch starts at 0 and rises by 1 with each change of the leader.",
            holds=both(
                T_NEW.is_led_by(1, epoch=0, at="cut"),
                T_NEW.is_led_by(2, epoch=1, at="second"),
                T_NEW.is_led_by(3, epoch=2, at="third"),
            ),
            erratum=Erratum(
                says="It rises by 2 if the leader was also the controller.",
                because="the new controller first takes the leadership away (epoch +1), then elects (+1)",
                holds=both(
                    T_NEW.is_led_by(1, epoch=0, at="cut"),
                    T_NEW.is_led_by(2, epoch=1, at="second"),
                    T_NEW.is_led_by(3, epoch=3, at="third"),
                ),
            ),
        ),
        Claim(
            name="epochs",
            section="beyond 002",
            says="The leader epochs are 1 and 3, because the controller dies in the second failover, too.",
            holds=both(
                T_NEW.is_led_by(2, epoch=1, at="second"),
                T_NEW.is_led_by(3, isr=(1, 2, 3), epoch=3, at="end"),
            ),
        ),
    ),
    expected=expected_of("lost", "lost_after_read", "overwritten", "diverged", because=BECAUSE),
    faults=("cut broker3 -> broker2:kafka", "kill broker1", "kill broker2"),
    outcome="the topic of the old format loses m2 and diverges, that of the new one keeps it",
)

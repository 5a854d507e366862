"""Steps that the scenarios about transactions and consumer groups share."""

from __future__ import annotations

from harness.errors import InvalidRunError
from harness.kafka.model import TRANSACTION_LOG, TopicPartition
from harness.waiting import wait_until
from nemesis.fault import Action, Evidence
from run.group_offsets import GroupOffsets
from run.stage import Stage
from workloads.client.client import BackgroundConsumer
from workloads.protocol.spec import StreamLoad

SECTION = "beyond the articles: transactions"
GROUPS_SECTION = "beyond the articles: consumer groups"
HANDED_S = 60.0
"""Time until a member receives messages: a rebalance, and coordinators that move."""
TAKEN_OVER_S = 60.0
"""Time until others have processed what a member left: its session, a rebalance, and open transactions."""


def feed(stage: Stage, topic: str, partitions: int, rate: float) -> None:
    """Start a stream of messages to the partitions that a group reads."""
    stage.start_stream("az3", "feed", StreamLoad(topic=topic, partitions=tuple(range(partitions)), rate=rate))


def wait_handed(stage: Stage, member: BackgroundConsumer, who: str) -> None:
    """Wait until a member of a group receives more messages than until now."""
    before = member.progress().count
    wait_until(
        lambda: member.progress().count > before,
        within_s=HANDED_S,
        awaiting=f"{who} to be handed messages",
        abort=stage.cluster.check_alive,
    )


def wait_processed(
    stage: Stage, group: str, topic: str, partitions: int, coordinator: str, *, not_on: str = ""
) -> None:
    """Wait until a group has committed all present input, as seen by leaders other than ``not_on``."""
    client = stage.group_offsets("az2", group)
    for number in range(partitions):
        leader = f"broker{stage.wait_for_leader(topic, not_on=not_on, partition=number).leader}"
        end = stage.own_log(leader, topic, number).high_watermark

        _wait_committed(stage, client, coordinator, TopicPartition(topic, number), end)


def _wait_committed(
    stage: Stage, client: GroupOffsets, coordinator: str, where: TopicPartition, end: int
) -> None:
    def committed() -> int:
        answer = client.fetch(where.topic, at=coordinator, partition=where.partition)
        return -1 if answer.offset is None else answer.offset

    wait_until(
        committed,
        accept=lambda offset: offset >= end,
        within_s=TAKEN_OVER_S + stage.timings.recovery_s,
        awaiting=f"the group to commit offset {end} of {where}",
        abort=stage.cluster.check_alive,
    )


def uncommitted(
    stage: Stage, offsets: GroupOffsets, source: str, target: str, number: int, *, at: str
) -> int:
    """How many messages of a partition of ``source`` are in ``target``, and the group has not committed them.

    ``at`` is the group's coordinator.
    """
    committed = offsets.fetch(source, at=at, partition=number).offset or 0
    return stage.own_log(stage.leader(target, number), target, number).high_watermark - committed


def held_back(stage: Stage, topic: str, number: int) -> int:
    """How many records of a partition an open transaction holds back."""
    log = stage.own_log(stage.leader(topic, number), topic, number)
    return 0 if log.last_stable_offset is None else log.high_watermark - log.last_stable_offset


def wait_ended(stage: Stage, topic: str, partitions: int) -> None:
    """Wait until no transaction in a topic is open."""
    wait_until(
        lambda: all(held_back(stage, topic, number) == 0 for number in range(partitions)),
        within_s=TAKEN_OVER_S,
        awaiting=f"all transactions in {topic} to end",
        abort=stage.cluster.check_alive,
    )


def logged_state(stage: Stage, transactional_id: str, coordinator: str) -> str:
    """The state of a transaction in its coordinator's log, as far as that is replicated; empty for none."""
    from harness.kafka.transaction_log import newest

    log = stage.own_log(coordinator, TRANSACTION_LOG)
    entry = newest(log.records, transactional_id)
    return entry.state if entry is not None and entry.offset < log.high_watermark else ""


def wait_logged(
    stage: Stage, transactional_id: str, *states: str, coordinator: str, within_s: float = 10.0
) -> None:
    """Wait until the coordinator's log says that a transaction is in one of these states."""
    wait_until(
        lambda: logged_state(stage, transactional_id, coordinator),
        accept=lambda state: state in states,
        within_s=within_s + stage.timings.recovery_s,
        awaiting=f"the transaction of {transactional_id} to be {' or '.join(states)} on {coordinator}",
        abort=stage.cluster.check_alive,
    )


def wait_complete(stage: Stage, transactional_id: str, coordinator: str, *, within_s: float = 10.0) -> None:
    """Wait until the coordinator has ended a transaction everywhere, which is later than its answer."""
    states = ("CompleteCommit", "CompleteAbort")
    wait_logged(stage, transactional_id, *states, coordinator=coordinator, within_s=within_s)


def wait_markers(stage: Stage, broker: str, topic: str, count: int = 1, *, within_s: float = 10.0) -> None:
    """Wait until a broker's log of a topic holds ``count`` transaction markers."""
    wait_until(
        lambda: sum(record.marker is not None for record in stage.own_log(broker, topic).records),
        accept=lambda markers: markers >= count,
        within_s=within_s + stage.timings.recovery_s,
        awaiting=f"{count} transaction markers in {topic} on {broker}",
        abort=stage.cluster.check_alive,
    )


def abort_by_operator(stage: Stage, broker: str, topic: str) -> None:
    """Abort the transaction that hangs in a partition, as `kafka-transactions.sh abort` does.

    ``broker`` leads the partition. Raises InvalidRunError if nothing hangs there, or nothing was aborted.
    """
    from harness.kafka.wire.transactions import ActiveProducer, describe_producers, write_abort_marker

    endpoint, place = stage.lab.topology.host(broker).broker_endpoint, TopicPartition(topic, 0)

    def hanging() -> list[ActiveProducer]:
        producers = describe_producers(endpoint, [place])[place].producers
        return [producer for producer in producers if producer.transaction_start is not None]

    def act() -> None:
        for one in hanging():
            error = write_abort_marker(endpoint, place, one)
            if error:
                raise InvalidRunError(f"The operator's abort in {place} ended with error {error}.")

    def verify() -> Evidence:
        if left := hanging():
            ids = [one.producer_id for one in left]
            raise InvalidRunError(f"Transactions of the producers {ids} still hang in {place}.")
        return {"aborted": before}

    before = [one.producer_id for one in hanging()]
    if not before:
        raise InvalidRunError(f"No transaction hangs in {place}, so there is nothing to abort.")
    stage.nemesis.add(
        Action(
            f"operator aborts in {place}",
            kind="operator",
            mechanism="other",
            targets={"hosts": [broker], "partitions": [str(place)]},
            act=act,
            verify=verify,
        )
    ).inject()

"""What share coordinators have stored, read from the log of `__share_group_state`, as scenarios use it."""

from __future__ import annotations

from collections.abc import Iterator

from harness.clock import now_ns
from harness.errors import BadDataError, InvalidRunError
from harness.kafka.model import SHARE_LOG, TopicPartition
from harness.kafka.share_state import ShareState, StoredState, folded, stored_states
from harness.kafka.wire.admin import alter_group_config
from harness.kafka.wire.logs import fetch_own_log
from harness.kafka.wire.metadata import topic_ids
from harness.kafka.wire.offsets import end_offsets
from harness.waiting import wait_until
from run.stage import Stage

_ASK_WITHIN_S = 2.0


def configure_share_group(stage: Stage, group: str, **properties: str) -> None:
    """Set properties of a share group (`share_auto_offset_reset` is share.auto.offset.reset).

    Raises InvalidRunError if a broker refuses it.
    """
    values = {name.replace("_", "."): value for name, value in properties.items()}
    broker = stage.lab.topology.role("broker")[0].broker_endpoint
    answer = alter_group_config(broker, group, values, dialect=stage.dialect, timeout_s=10.0)
    if answer.error:
        raise InvalidRunError(f"The share group {group} cannot be configured: {answer.message.rstrip('.')}.")
    rows = [{"scope": "group", "name": group, "key": key, "asked": value} for key, value in values.items()]
    stage.journal.write_many("configs", [dict(row) for row in rows])


def stored(stage: Stage) -> list[StoredState]:
    """All records of the log, from its leader. Raises OSError, InvalidRunError."""
    leader = stage.lab.topology.host(stage.leader(SHARE_LOG)).broker_endpoint
    states: list[StoredState] = []
    offset = 0
    while True:
        fetched = fetch_own_log(leader, SHARE_LOG, 0, offset, dialect=stage.dialect, timeout_s=_ASK_WITHIN_S)
        if fetched.error == 1 and offset < fetched.log_start:
            offset = fetched.log_start
            continue
        if fetched.error:
            raise InvalidRunError(f"{SHARE_LOG} cannot be read: error {fetched.error}.")
        try:
            states += stored_states(fetched.records)
        except ValueError as error:
            raise BadDataError(f"A record of {SHARE_LOG} cannot be read: {error}.") from error
        following = fetched.next_offset
        if following is None or following <= offset:
            return states
        offset = following


def wait_until_done(stage: Stage, group: str, topic: str, *, within_s: float = 60.0) -> None:
    """Wait until a share group is done with every record of a topic, as its stored states say."""
    leader = stage.lab.topology.role("broker")[0].broker_endpoint
    topic_id = topic_ids(leader, [topic], timeout_s=_ASK_WITHIN_S)[topic]
    assert topic_id is not None
    partitions = next(spec for spec in stage.topics if spec.name == topic).topic_partitions

    def behind() -> list[str]:
        try:
            states = folded(stored(stage))
            ends = {part: _end(stage, part) for part in partitions}
        except OSError as error:
            return [str(error)]
        reached = {
            part: states.get((group, topic_id, part.partition), ShareState()).done_until
            for part in partitions
        }
        return [f"{part} at {reached[part]} of {end}" for part, end in ends.items() if reached[part] < end]

    wait_until(
        behind,
        accept=lambda left: not left,
        within_s=within_s,
        awaiting=f"share group {group} to be done with {topic}",
        poll_s=0.5,
        ignoring=(InvalidRunError,),
        abort=stage.cluster.check_alive,
    )


def _end(stage: Stage, part: TopicPartition) -> int:
    leader = stage.lab.topology.host(stage.leader(*part)).broker_endpoint
    return end_offsets(leader, [part], dialect=stage.dialect, timeout_s=_ASK_WITHIN_S)[part].offset


def note_stored(stage: Stage) -> None:
    """Write rows of `share_states`, of what the log holds now about the topics of the run.

    A log that cannot be read, for instance because a fault has left it without a leader, is a row of
    `unobserved` instead: then nothing about stored states is a finding.
    """
    broker = stage.lab.topology.role("broker")[0].broker_endpoint
    read_ns = now_ns()
    try:
        ids = topic_ids(broker, [topic.name for topic in stage.topics], timeout_s=_ASK_WITHIN_S)
        states = stored(stage)
    except (OSError, InvalidRunError) as error:
        reason = getattr(error, "message", str(error)).rstrip(".")
        stage.progress.say(f"the stored states of share groups were not read: {reason}")
        unread = {"source": "share_states", "topic": SHARE_LOG, "partition": 0}
        stage.journal.write("unobserved", ns=now_ns(), **unread)
        return
    names = {number: name for name, number in ids.items()}
    for state in states:
        if (topic := names.get(state.topic_id)) is not None:
            stage.journal.write_many("share_states", [{"ns": read_ns, **row} for row in _rows(state, topic)])


def _rows(state: StoredState, topic: str) -> Iterator[dict[str, object]]:
    row: dict[str, object] = {
        "group": state.group,
        "topic": topic,
        "partition": state.partition,
        "log_offset": state.log_offset,
        "timestamp_ms": state.timestamp_ms,
        "snapshot": state.snapshot,
        "snapshot_epoch": state.snapshot_epoch,
        "state_epoch": state.state_epoch,
        "leader_epoch": state.leader_epoch,
        "start_offset": state.start_offset,
    }
    if not state.batches:
        yield row
    for batch in state.batches:
        yield {
            **row,
            "first_offset": batch.first,
            "last_offset": batch.last,
            "state": batch.state,
            "delivery_count": batch.delivery_count,
        }

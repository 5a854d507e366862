"""Commits and fetches a group's offsets at a named broker, and records its answers as rows of `groups`."""

from __future__ import annotations

from collections.abc import Callable

from harness.clock import now_ns
from harness.history.journal import Journal
from harness.kafka.model import TopicPartition
from harness.kafka.wire.connection import Connection, NoAnswerError, NotSentError
from harness.kafka.wire.group_offsets import CommittedOffset, commit_offset, fetch_offset
from workloads.agent.producers.outcomes import connection_error
from workloads.protocol.commands import CommitOffset, FetchOffset
from workloads.protocol.results import OffsetAnswer


def commit(journal: Journal, command: CommitOffset) -> OffsetAnswer:
    """Commit an offset once; a commit without a positive answer may still have been written."""

    def ask(connection: Connection, place: TopicPartition) -> CommittedOffset:
        error = commit_offset(connection, command.group, place, command.offset, command.within_s)
        return CommittedOffset(error, command.offset)

    asked_ns = now_ns()
    answer = _ask(command, ask)
    event = "commit_failed" if answer.error else "committed"
    return _record(journal, command, event, asked_ns, OffsetAnswer(answer.error, command.offset))


def fetch(journal: Journal, command: FetchOffset) -> OffsetAnswer:
    """Fetch the committed offset once."""
    asked_ns = now_ns()
    answer = _ask(
        command,
        lambda connection, place: fetch_offset(
            connection, command.group, place, command.within_s, stable=command.stable
        ),
    )
    return _record(journal, command, "fetched", asked_ns, OffsetAnswer(answer.error, answer.offset))


def _ask(
    command: CommitOffset | FetchOffset, ask: Callable[[Connection, TopicPartition], CommittedOffset]
) -> CommittedOffset:
    try:
        with Connection(command.coordinator) as connection:
            return ask(connection, TopicPartition(command.topic, command.partition))
    except (NotSentError, NoAnswerError) as error:
        return CommittedOffset(connection_error(error))


def _record(
    journal: Journal, command: CommitOffset | FetchOffset, event: str, asked_ns: int, answer: OffsetAnswer
) -> OffsetAnswer:
    journal.write(
        "groups",
        ns=now_ns(),
        group=command.group,
        reader=command.reader,
        event=event,
        topic=command.topic,
        partition=command.partition,
        offset=answer.offset,
        broker=command.coordinator.node_id,
        error=answer.error,
        asked_ns=asked_ns,
    )
    return answer

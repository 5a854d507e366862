"""Sentences about what only ZooKeeper holds while a cluster's metadata moves to KRaft."""

from __future__ import annotations

from collections.abc import Callable

from checkers.claims.builders.cluster import Partition
from checkers.claims.builders.sql import (
    FRESH_NS,
    STATE_TEXT,
    Clock,
    answer,
    array_of,
    is_in,
    mark,
    sentence,
    settled,
    text_of,
)


@sentence("views", hosts=("zookeeper1",))
def zookeeper_names(*node_ids: int, at: str) -> str:
    """At a mark `/controller` names one of these nodes; dedicated KRaft controllers are 11 to 13."""
    return _holds(
        "max_by(controller, struct(epoch, ns)) AS controller, max(epoch) AS epoch",
        is_in("controller", node_ids),
        f"concat('/controller names node ', {text_of('controller')}, ', epoch ', {text_of('epoch')})",
        "subject = 'controller' AND controller >= 0",
        at,
    )


@sentence("views", hosts=("zookeeper1",))
def zookeeper_epoch_rises(*, since: str, until: str) -> str:
    """Between two marks the epoch in `/controller_epoch` rises."""
    return _holds(
        lambda time: f"max(epoch) AS later, max(epoch) FILTER (WHERE ns <= {time(since)}) AS earlier",
        "later > earlier",
        f"concat('/controller_epoch is ', {text_of('earlier')}, ', then ', {text_of('later')})",
        "subject = 'controller'",
        until,
    )


@sentence("views", hosts=("zookeeper1",))
def zookeeper_has(place: Partition, *, leader: int, isr: tuple[int, ...], at: str) -> str:
    """At a mark the partition's znode has this leader and this ISR."""
    return _holds(
        "max_by(leader, struct(epoch, ns)) AS leader, max(epoch) AS epoch, "
        "sort_array(max_by(isr, struct(epoch, ns))) AS isr",
        f"leader = {leader} AND isr = {array_of(isr)}",
        f"concat('ZooKeeper has ', {STATE_TEXT})",
        f"subject = 'partition' AND {place.where}",
        at,
    )


@sentence("views", hosts=("zookeeper1",))
def zookeeper_has_topic(topic: str, *, at: str) -> str:
    """At a mark the topic has a znode. The observer must watch the topic."""
    return _holds(
        "count(*) AS known",
        "known > 0",
        f"if(known > 0, 'ZooKeeper has {topic}', 'ZooKeeper does not have {topic}')",
        f"subject = 'partition' AND topic = '{topic}'",
        at,
    )


@sentence("views", hosts=("zookeeper1",))
def zookeeper_registers(*brokers: int, at: str) -> str:
    """At a mark exactly these brokers are registered in ZooKeeper; a broker in KRaft mode is not."""
    return _holds(
        "sort_array(max_by(brokers, ns)) AS brokers",
        f"brokers = {array_of(brokers) if brokers else 'cast(array() AS array<int>)'}",
        "concat('registered in ZooKeeper: ', coalesce(nullif(array_join(brokers, ', '), ''), 'nobody'))",
        "subject = 'brokers'",
        at,
    )


def _holds(columns: str | Callable[[Clock], str], condition: str, observed: str, where: str, at: str) -> str:
    def sentence(time: Clock) -> str:
        chosen = columns if isinstance(columns, str) else columns(time)
        return answer(
            f"CASE WHEN {{heard:zookeeper1}} >= {mark(at)} - {FRESH_NS} THEN {condition} END",
            observed,
            f"(SELECT {chosen} FROM views WHERE source LIKE 'zookeeper%' AND {where} AND ns <= {time(at)})",
        )

    return settled("zookeeper", at, sentence)

"""Request versions and message formats of Kafka versions, as data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from harness.errors import UnfitError, UsageError


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """Request versions that one Kafka version understands; None if it lacks the request."""

    produce: int = 7
    fetch: int = 11
    list_offsets: int = 5
    metadata: int = 8
    create_topics: int = 2
    create_partitions: int | None = 1
    log_dirs: int | None = 1
    """DescribeLogDirs and AlterReplicaLogDirs."""
    delete_topics: int = 1
    delete_records: int | None = 0
    describe_configs: int | None = 1
    incremental_alter_configs: int | None = 0
    elect_leaders: int | None = 1
    alter_partition_reassignments: int | None = 0
    describe_quorum: int | None = None
    raft_voters: int | None = None
    """AddRaftVoter and RemoveRaftVoter (KIP-853)."""
    describe_topic_partitions: int | None = None
    describe_transactions: int | None = None
    """DescribeProducers, ListTransactions and DescribeTransactions."""
    magic: int = 2
    """Newest message format."""
    own_log_by_fetch: bool = True
    """FETCH with replica id -3 reads any replica's own log; if not, its files must be read."""

    @property
    def idempotence(self) -> bool:
        """Producers can be idempotent: producer ids came with message format 2."""
        return self.magic >= 2


_SINCE: tuple[tuple[tuple[int, int], Dialect], ...]
_4_0 = Dialect(describe_quorum=0, raft_voters=0, describe_topic_partitions=0, describe_transactions=0)
_3_0 = Dialect(describe_quorum=0, describe_transactions=0)
_2_8 = Dialect(describe_quorum=0)
_2_4 = Dialect()
_2_3 = replace(_2_4, elect_leaders=None, alter_partition_reassignments=None)
_2_1 = replace(_2_3, fetch=10, list_offsets=4, metadata=7, incremental_alter_configs=None)
_2_0 = replace(_2_1, produce=6, fetch=8, list_offsets=3, metadata=6)
_1_1 = replace(_2_0, produce=5, fetch=7, list_offsets=2, metadata=5, create_partitions=0, log_dirs=None)
_1_0 = replace(_1_1, fetch=6, describe_configs=0, own_log_by_fetch=False)
_0_11 = replace(_1_0, produce=3, fetch=5, metadata=4, create_partitions=None)
_0_10_2 = replace(
    _0_11,
    produce=2,
    fetch=3,
    list_offsets=1,
    metadata=2,
    create_topics=1,
    delete_topics=0,
    delete_records=None,
    describe_configs=None,
    magic=1,
)
_SINCE = (
    ((3, 9), _4_0),
    ((3, 0), _3_0),
    ((2, 8), _2_8),
    ((2, 4), _2_4),
    ((2, 3), _2_3),
    ((2, 1), _2_1),
    ((2, 0), _2_0),
    ((1, 1), _1_1),
    ((1, 0), _1_0),
    ((0, 11), _0_11),
    ((0, 10), _0_10_2),
)

MODERN = _2_4
"""What every version from 2.4 to 4.x understands."""
_NEWEST = replace(_4_0, fetch=18)
"""The newest version of each request that acked can send."""


def dialect(kafka_version: str) -> Dialect:
    """The dialect of a Kafka version such as `2.7.1`. Raises UsageError for one older than 0.10.2."""
    match = re.match(r"(\d+)\.(\d+)", kafka_version)
    if match is not None:
        number = (int(match[1]), int(match[2]))
        for since, candidate in _SINCE:
            if number >= since:
                return candidate
    raise UsageError(f"Kafka {kafka_version!r} is not supported; use 0.10.2.2 or later.")


_KEYS: Mapping[str, tuple[int, ...]] = {
    "produce": (0,),
    "fetch": (1,),
    "list_offsets": (2,),
    "metadata": (3,),
    "create_topics": (19,),
    "create_partitions": (37,),
    "log_dirs": (34, 35),
    "delete_topics": (20,),
    "delete_records": (21,),
    "describe_configs": (32,),
    "incremental_alter_configs": (44,),
    "elect_leaders": (43,),
    "alter_partition_reassignments": (45, 46),
    "describe_quorum": (55,),
    "raft_voters": (80, 81),
    "describe_topic_partitions": (75,),
    "describe_transactions": (61, 65, 66),
}
"""API keys of the requests of each field of `Dialect`."""
_NEEDED = ("produce", "fetch", "list_offsets", "metadata", "create_topics", "delete_topics")
_OWN_LOG_FETCH = 7
"""Brokers that know this version of FETCH (Kafka 1.1) show a replica's own log."""


def common(stated: Iterable[Mapping[int, tuple[int, int]]]) -> dict[int, tuple[int, int]]:
    """The versions that all of several brokers state, which differ while a cluster is upgraded."""
    ranges = list(stated)
    return {
        key: (max(one[key][0] for one in ranges), min(one[key][1] for one in ranges))
        for key in set.intersection(*(set(one) for one in ranges))
    }


def spoken(ranges: Mapping[int, tuple[int, int]]) -> Dialect:
    """The dialect of a broker that states these versions (`harness.kafka.wire.metadata.api_versions`).

    Of each request it has the newest version that both sides know; for several brokers, ask with `common`.
    Raises UnfitError if there is none of a request without which nothing can be recorded.
    """
    chosen: dict[str, Any] = {}
    for field in fields(Dialect):
        if field.name not in _KEYS:
            continue
        ours = getattr(_NEWEST, field.name)
        theirs = [ranges.get(key, (0, -1)) for key in _KEYS[field.name]]
        newest = min(ours, *(most for _, most in theirs))
        if newest >= max(least for least, _ in theirs):
            chosen[field.name] = newest
        elif field.name not in _NEEDED:
            chosen[field.name] = None
        else:
            least, most = theirs[0]
            if most < 0:
                raise UnfitError(
                    f"The node does not know the request {field.name}; name a broker's listener for clients, "
                    "and not that of a controller."
                )
            raise UnfitError(
                f"The broker knows versions {least} to {most} of the request {field.name}, and acked sends "
                f"version {ours} or older; use Kafka 0.10.2 to 4.x."
            )
    magic = 2 if chosen["produce"] >= _0_11.produce else 1
    return Dialect(**chosen, magic=magic, own_log_by_fetch=chosen["fetch"] >= _OWN_LOG_FETCH)

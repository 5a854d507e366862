"""Whether the consumer that reads all the time has received everything when a recording ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from harness.clock import now_ns
from harness.cluster.attached import AttachedCluster
from harness.errors import WaitTimeoutError
from harness.kafka.model import TopicPartition, broker_name
from harness.kafka.wire.offsets import CONSUMER, end_offsets
from harness.waiting import wait_until
from workloads.client.background import BackgroundConsumer
from workloads.protocol.results import ReadResult

_CATCH_UP_S = 20.0


def unreceived(
    cluster: AttachedCluster, reader: BackgroundConsumer, keys: Sequence[TopicPartition]
) -> list[dict[str, object]]:
    """Rows of `unobserved` with the source `reader`: what it does not get within some seconds.

    Nobody writes any more. In the partitions no transaction may be open.
    """
    ends = {key: _end(cluster, key) for key in keys}

    def behind() -> list[dict[str, object]]:
        return list(_behind(reader.progress(), ends))

    with suppress(WaitTimeoutError):
        wait_until(
            behind,
            within_s=_CATCH_UP_S,
            accept=lambda rows: not rows,
            awaiting="the consumer to receive everything",
        )
    return behind()


def _behind(progress: ReadResult, ends: Mapping[TopicPartition, int | None]) -> Iterator[dict[str, object]]:
    positions = {part.partition: part.position for part in progress.partitions}
    for key, end in ends.items():
        position = positions.get(key)
        if end is None or (position or 0) < end:
            row: dict[str, object] = {"ns": now_ns(), "source": "reader", **key._asdict()}
            error = progress.errors[0][0] if progress.errors else None
            yield row | {"from_offset": position or 0, "to_offset": end, "error": error}


def _end(cluster: AttachedCluster, key: TopicPartition) -> int | None:
    """The leader's high watermark; None if it does not state one, or there is no leader."""
    state = cluster.partition(*key)
    if state is None or state.leader < 0:
        return None
    leader = cluster.topology.host(broker_name(state.leader)).broker_endpoint
    try:
        end = end_offsets(leader, [key], replica_id=CONSUMER, dialect=cluster.dialect)[key]
    except OSError:
        return None
    return None if end.error else end.offset

"""What each node stated over time, and when the nodes disagreed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from harness.kafka.model import node_host
from report.model.model import Belief, Lane, Split
from report.model.tables import Row

ToSeconds = Callable[[int], float]
"""Turns a time of the history into seconds since the beginning of the run."""
SHORTEST_SPLIT_S = 0.5
"""The observer asks each node about four times a second, so shorter disagreements mean nothing."""
_ORDER = ("zookeeper", "controller", "broker")


@dataclass
class _Node:
    beliefs: list[Belief] = field(default_factory=list)
    stated: tuple[int | None, int | None, tuple[int, ...]] = (None, None, ())
    error: str = ""

    def change(self, s: float) -> None:
        now = Belief(
            from_s=s,
            to_s=s,
            leader=self.stated[0],
            epoch=self.stated[1],
            isr=self.stated[2],
            error=self.error,
        )
        if self.beliefs:
            last = self.beliefs[-1]
            if replace(last, from_s=0, to_s=0) == replace(now, from_s=0, to_s=0):
                return
            self.beliefs[-1] = replace(last, to_s=s)
        self.beliefs.append(now)


def lanes(
    views: Iterable[Row], seconds: ToSeconds, end_s: float, place: tuple[str, int] | None
) -> tuple[Lane, ...]:
    """A lane for each node that made a statement about a topic partition.

    Without ``place`` the lanes are about the controller. ``views`` are sorted by time.
    """
    nodes: dict[str, _Node] = {}
    spoke: set[str] = set()
    for row in views:
        source, subject = row["source"], row["subject"]
        node = nodes.setdefault(source, _Node())
        if subject == "reachable":
            node.error = row["error"] or ""
        elif place is not None and subject == "partition" and (row["topic"], row["partition"]) == place:
            node.stated = (row["leader"], row["epoch"], tuple(row["isr"] or ()))
            spoke.add(source)
        elif place is None and subject == "controller" and row["controller"] is not None:
            node.stated = (row["controller"], row["epoch"], ())
            spoke.add(source)
        else:
            continue
        node.change(seconds(int(row["ns"])))
    return tuple(
        Lane(
            source, (*node.beliefs[:-1], replace(node.beliefs[-1], to_s=max(end_s, node.beliefs[-1].from_s)))
        )
        for source, node in sorted(nodes.items(), key=lambda item: node_order(item[0]))
        if source in spoke
    )


def node_order(source: str) -> tuple[int, str]:
    """ZooKeeper's nodes first, then controllers, then brokers."""
    kind = source.rstrip("0123456789")
    return (_ORDER.index(kind) if kind in _ORDER else len(_ORDER), source)


def splits(lanes: Sequence[Lane], from_s: float, to_s: float) -> tuple[Split, ...]:
    """Times of at least `SHORTEST_SPLIT_S` in which nodes that answer name different leaders."""
    times = sorted(
        {from_s, to_s, *(b.from_s for lane in lanes for b in lane.beliefs if from_s < b.from_s < to_s)}
    )
    merged: list[list[Split]] = []
    for start, end in zip(times, times[1:], strict=False):
        says: dict[int, list[str]] = {}
        for lane in lanes:
            belief = believed_at(lane, start)
            if belief is not None and not belief.error and belief.leader is not None:
                says.setdefault(belief.leader, []).append(lane.source)
        if len(says) < 2:
            continue
        now = Split(start, end, {leader: tuple(sources) for leader, sources in sorted(says.items())})
        if merged and merged[-1][-1].to_s == start and set(merged[-1][-1].says) == set(now.says):
            merged[-1].append(now)
        else:
            merged.append([now])
    joined = [_joined(parts) for parts in merged]
    return tuple(one for one in joined if one.to_s - one.from_s >= SHORTEST_SPLIT_S)


def _joined(parts: Sequence[Split]) -> Split:
    """One disagreement in which each node names the leader that it named for the longest time."""
    named: dict[str, dict[int, float]] = {}
    for part in parts:
        for leader, sources in part.says.items():
            for source in sources:
                times = named.setdefault(source, {})
                times[leader] = times.get(leader, 0.0) + part.to_s - part.from_s
    says: dict[int, list[str]] = {leader: [] for leader in parts[0].says}
    for source in sorted(named, key=node_order):
        says[max(named[source], key=lambda leader: named[source][leader])].append(source)
    return Split(
        parts[0].from_s,
        parts[-1].to_s,
        {leader: tuple(sources) for leader, sources in says.items() if sources},
    )


def believed_at(lane: Lane, s: float) -> Belief | None:
    """What a node stated at a moment."""
    for belief in reversed(lane.beliefs):
        if belief.from_s <= s:
            return belief
    return None


def leaders_by_epoch(lanes: Iterable[Lane]) -> dict[int, int]:
    """The leader of each epoch, by what the nodes stated."""
    leaders: dict[int, int] = {}
    for lane in lanes:
        for belief in lane.beliefs:
            if belief.epoch is not None and belief.leader is not None and belief.leader >= 0:
                leaders.setdefault(belief.epoch, belief.leader)
    return dict(sorted(leaders.items()))


@dataclass(frozen=True, kw_only=True)
class Zombie:
    """A node that believed that it led, or was the controller, although another had been elected."""

    node: int
    """Its node id."""
    source: str
    elected: str
    """The host of the other node."""
    from_s: float
    to_s: float


def controller_host(lanes: Sequence[Lane]) -> Callable[[int], str]:
    """Names the host of a node id, in lanes about the controller."""
    sources = frozenset(lane.source for lane in lanes)
    return lambda node_id: node_host(node_id, sources)


def zombies(lanes: Sequence[Lane], host_of: Callable[[int], str]) -> tuple[Zombie, ...]:
    """Nodes that named themselves after another node had been elected in a later epoch.

    ``host_of`` returns the host of a node id, by which a lane is named.
    """
    first: dict[int, tuple[float, int]] = {}
    for lane in lanes:
        for belief in lane.beliefs:
            if (
                belief.epoch is not None
                and belief.leader is not None
                and belief.leader >= 0
                and not belief.error
            ):
                earliest = first.get(belief.epoch)
                if earliest is None or belief.from_s < earliest[0]:
                    first[belief.epoch] = (belief.from_s, belief.leader)
    zombie = []
    for lane in lanes:
        for belief in lane.beliefs:
            own = belief.leader
            if own is None or host_of(own) != lane.source or belief.epoch is None or belief.error:
                continue
            later = [at for epoch, at in first.items() if epoch > belief.epoch and at[1] != own]
            if not later:
                continue
            at_s, elected = min(later)
            since = max(at_s, belief.from_s)
            if belief.to_s - since >= SHORTEST_SPLIT_S:
                zombie.append(
                    Zombie(
                        node=own,
                        source=lane.source,
                        elected=host_of(elected),
                        from_s=since,
                        to_s=belief.to_s,
                    )
                )
    return tuple(zombie)

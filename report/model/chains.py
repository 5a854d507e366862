"""How acknowledged messages of one partition were lost: which brokers held them, lost them, and led."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from checkers.records import NOT_KNOWN
from harness.history.time_zero import in_seconds
from harness.kafka.model import broker_name
from report.model.beliefs import ToSeconds, Zombie
from report.model.messages import LOST
from report.model.model import Fault, Lane
from report.model.removals import MESSAGES, power_cut
from report.model.tables import Row, RunTables
from report.words.causes import CauseFacts, facts_of
from report.words.lists import listed

PLACES = 6
"""Number of topic partitions whose losses are traced, beginning with those that lost the most."""
NAMED = 3
"""At most this many messages are named one by one."""
_WHEN_S = 0.6
"""By how much a view may be later than the change that it shows."""
_DEPOSED = ("deposed_leader", "zombie_after_heal")
"""Kinds of causes that name an old leader and a new one."""
CAUSE_UNKNOWN = "unknown"
"""Stands for all kinds of causes that say that the history does not show one."""


@dataclass(frozen=True, kw_only=True)
class Chain:
    """What the history shows of the messages of one topic partition that were lost for one cause."""

    place: str
    kind: str
    """The kind of the cause, or `CAUSE_UNKNOWN`; empty if the checker names none."""
    facts: tuple[CauseFacts, ...]
    """The different facts of the cause of these messages."""
    count: int
    labels: tuple[str, ...]
    """How the page names the messages, if they are few."""
    acked_from_s: float | None
    acked_to_s: float | None
    acked_by: tuple[int, ...]
    held: Mapping[int, int]
    """By broker: on how many of the messages the observer saw there."""
    power: Mapping[int, float]
    """By broker that lost its copies in a power cut: when."""
    elected_s: float | None = None
    """When a view first showed the new leader."""
    gone: str = ""
    """Why the old leader was replaced, if the history shows it; else empty."""
    unaware: str = ""
    """Why the old leader did not learn that it was replaced, if the history shows it; else empty."""
    instead: Mapping[int, str] | None = None
    """If replicas have different messages at the offset: what each of them has there at the end."""
    also: Mapping[int, str] | None = None
    """By broker: what it had at that offset before it lost power."""
    leader: int | None = None
    offset: int | None = None

    @property
    def brokers(self) -> tuple[int, int] | None:
        """The old leader and the new one, if the cause names them."""
        return leaders_of(self.kind, self.facts[0]) if self.facts else None


def kind_of(cause: str | None) -> str:
    """The kind of a cause as chains and sentences distinguish it; empty without a cause."""
    return CAUSE_UNKNOWN if cause in NOT_KNOWN else cause or ""


def leaders_of(kind: str, facts: CauseFacts) -> tuple[int, int] | None:
    """The old leader and the new one, if a cause names them."""
    if kind not in _DEPOSED or facts["broker"] < 0:  # not known which broker acknowledged it
        return None
    return facts["broker"], facts["leader"]


def chains(
    tables: RunTables,
    findings: pa.Table,
    seconds: ToSeconds,
    *,
    life: pa.Table,
    faults: Sequence[Fault],
    lanes: Mapping[str, Sequence[Lane]],
    replaced: Sequence[Zombie],
    views: Sequence[Row],
    log_events: Sequence[Row],
) -> tuple[Chain, ...]:
    """A chain for each topic partition and cause of a loss, the largest first.

    ``lanes`` are by the name of the topic partition; ``replaced`` are controllers that continued after
    another had been elected.
    """
    if not findings.num_rows:
        return ()
    lost = findings.filter(pc.is_in(findings["class"], pa.array(LOST, findings["class"].type)))
    groups: dict[tuple[str, str, tuple[int, ...]], list[Row]] = {}
    for row in lost.slice(0, MESSAGES).to_pylist():
        if row["topic"] is None or row["writer"] is None:
            continue
        kind = kind_of(row["cause"])
        place = f"{row['topic']}/{row['partition']}"
        groups.setdefault((place, kind, leaders_of(kind, facts_of(row)) or ()), []).append(row)
    if sum(len(rows) for rows in groups.values()) < lost.num_rows:
        return ()
    chosen = sorted(groups, key=lambda key: (-len(groups[key]), key))
    history = _History(
        tables=tables,
        seconds=seconds,
        life=life,
        faults=faults,
        lanes=lanes,
        replaced=replaced,
        views=views,
        log_events=log_events,
    )
    return tuple(
        history.chain(key[0], key[1], groups[key], deep=number < PLACES) for number, key in enumerate(chosen)
    )


@dataclass(frozen=True, kw_only=True)
class _History:
    tables: RunTables
    seconds: ToSeconds
    life: pa.Table
    faults: Sequence[Fault]
    lanes: Mapping[str, Sequence[Lane]]
    replaced: Sequence[Zombie]
    views: Sequence[Row]
    log_events: Sequence[Row]

    def chain(self, place: str, kind: str, rows: Sequence[Row], *, deep: bool) -> Chain:
        different = {row["cause_facts"]: facts_of(row) for row in rows}
        labels = self._names(rows)
        times = sorted(self.seconds(row["acked_ns"]) for row in rows if row["acked_ns"] is not None)
        at = (rows[0]["topic"], rows[0]["partition"])
        sightings = self.tables.table("sightings", None, at) if deep else None
        held, power = self._held(sightings, rows, times) if sightings is not None else ({}, {})
        chain = Chain(
            place=place,
            kind=kind,
            facts=tuple(different.values()),
            count=len(rows),
            labels=labels if len(labels) <= NAMED else (),
            acked_from_s=times[0] if times else None,
            acked_to_s=times[-1] if times else None,
            acked_by=tuple(sorted({row["acked_by"] for row in rows if row["acked_by"] is not None})),
            held=held,
            power=power,
        )
        if rows[0]["class"] == "diverged" and len(rows) == 1 and sightings is not None:
            return self._apart(chain, rows[0], sightings)
        return self._elected(chain)

    def _names(self, rows: Iterable[Row]) -> tuple[str, ...]:
        """How the page names the message of each row."""
        keys = [(row["writer"], row["seq"]) for row in rows]
        own_keys = set(keys)
        labelled = self.life.filter(pc.is_valid(self.life["label"])) if self.life.num_rows else self.life
        labels = {
            key: row["label"]
            for row in labelled.select(["writer", "seq", "label"]).to_pylist()
            if (key := (row["writer"], row["seq"])) in own_keys
        }
        return tuple(labels.get(key) or f"{key[0]}/{key[1]}" for key in keys)

    def _held(
        self, sightings: pa.Table, rows: Sequence[Row], times: Sequence[float]
    ) -> tuple[dict[int, int], dict[int, float]]:
        messages = {(row["writer"], row["seq"]) for row in rows}
        near = sightings.filter(
            pc.is_in(sightings["writer"], pa.array({one for one, _ in messages}, sightings["writer"].type))
        )
        seen: dict[int, set[tuple[int, int]]] = {}
        power: dict[int, float] = {}
        for row in near.to_pylist():
            key = (row["writer"], row["seq"])
            if key not in messages:
                continue
            seen.setdefault(row["broker"], set()).add(key)
            cut = power_cut(row, self.faults, self.seconds)
            if cut is not None:
                power[row["broker"]] = cut
        return {broker: len(keys) for broker, keys in sorted(seen.items())}, power

    def _apart(self, chain: Chain, finding: Row, sightings: pa.Table) -> Chain:
        """Which replica has which message at the offset of a message that the leader lacks."""
        here = [row for row in sightings.to_pylist() if row["offset"] == finding["offset"]]
        instead: dict[int, str] = {}
        also: dict[int, str] = {}
        power: dict[int, float] = {}
        for row, name in zip(here, self._names(here), strict=True):
            cut = power_cut(row, self.faults, self.seconds)
            if row["gone_ns"] is None:
                instead[row["broker"]] = name
            elif cut is not None:
                also[row["broker"]], power[row["broker"]] = name, cut
        beliefs = [lane.beliefs[-1] for lane in self.lanes.get(chain.place, ()) if lane.beliefs]
        newest = max(
            (one for one in beliefs if one.epoch is not None and one.leader is not None),
            key=lambda one: one.epoch or 0,
            default=None,
        )
        own = self.life.filter(
            pc.and_(
                pc.equal(self.life["writer"], finding["writer"]), pc.equal(self.life["seq"], finding["seq"])
            )
        ).to_pylist()
        done = own[0]["done_ns"] if own else None
        by = own[0]["acked_by"] if own else None
        return replace(
            chain,
            acked_from_s=None if done is None else self.seconds(done),
            acked_by=() if by is None else (by,),
            instead=instead,
            also=also,
            power=power,
            leader=newest.leader if newest else None,
            offset=finding["offset"],
        )

    def _elected(self, chain: Chain) -> Chain:
        """The chain with what the history shows of the election that the cause names."""
        pair = chain.brokers
        if pair is None:
            return chain
        (old, new), epoch = pair, chain.facts[0]["epoch"]
        at = [
            belief.from_s
            for lane in self.lanes.get(chain.place, ())
            for belief in lane.beliefs
            if not belief.error and belief.epoch == epoch and belief.leader == new
        ]
        if not at:
            return chain
        elected_s = min(at)
        return replace(
            chain,
            elected_s=elected_s,
            gone=self._gone(old, new, elected_s),
            unaware=self._unaware(chain.place, old, elected_s),
        )

    def _gone(self, old: int, new: int, elected_s: float) -> str:
        """A clause that says that the old leader was no longer registered, by ZooKeeper or the new leader."""
        before: dict[str, set[int]] = {}
        unregistered: tuple[str, float] | None = None
        successor = broker_name(new)
        for row in self.views:
            if row["subject"] != "brokers" or self.seconds(row["ns"]) > elected_s + _WHEN_S:
                continue
            source, now = row["source"], set(row["brokers"] or ())
            if source.startswith("zookeeper") or source == successor:
                if old in before.get(source, ()) and old not in now:
                    unregistered = unregistered or (source, self.seconds(row["ns"]))
                elif old in now:
                    unregistered = None
            before[source] = now
        if unregistered is None:
            return ""
        if unregistered[0].startswith("zookeeper"):
            return f"broker{old}'s ZooKeeper session had ended by {in_seconds(unregistered[1])}"
        return f"broker{old} was fenced: {successor}'s metadata no longer listed it as alive"

    def _unaware(self, place: str, number: int, elected_s: float) -> str:
        """A clause that says that the old leader followed a replaced controller.

        The broker's metadata log shows this: it was truncated when the broker left that controller.
        """
        old = broker_name(number)
        until = [
            belief.to_s
            for lane in self.lanes.get(place, ())
            if lane.source == old
            for belief in lane.beliefs
            if belief.from_s <= elected_s < belief.to_s
        ]
        cuts = [
            self.seconds(row["ns"])
            for row in self.log_events
            if (row["kind"], row["topic"], row["host"]) == ("truncated", "__cluster_metadata", old)
        ]
        for one in self.replaced:
            if (
                until
                and one.from_s <= elected_s <= one.to_s
                and any(elected_s < cut <= until[0] for cut in cuts)
            ):
                return (
                    f"{old} still followed {one.source}, which {one.elected} had replaced at "
                    f"{in_seconds(one.from_s)}, so it learned of the election only at {in_seconds(until[0])}"
                )
        return ""


def most_held(held: Mapping[int, int], count: int) -> str:
    """The brokers on which messages were seen: those that held all of them, and others with their counts."""
    return listed(
        [
            f"broker{broker}" + (f" ({seen} of them)" if seen < count else "")
            for broker, seen in sorted(held.items(), key=lambda one: (-one[1], one[0]))
        ]
    )

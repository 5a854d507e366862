"""What an acknowledged message is promised, setting by setting and fault by fault, as the table decides it.

Each cell of the matrix is a finding `lost` in a small made-up run, judged like any other finding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from checkers.evidence import FaultSpan
from checkers.partition.messages import FOREVER
from checkers.promises.facts import IsrState, RunFacts, Span
from checkers.promises.judging import PromiseJudgement, judge
from checkers.tables.output import FINDING

_PARTITION = ("t", 0)
_ACKED_NS, _FAULT_NS, _LATER_NS, _BACK_NS = 10, 20, 30, 100


@dataclass(frozen=True, kw_only=True)
class PromiseSettings:
    """Settings of a producer, a topic and a cluster; the topic has a replica in each of three AZs."""

    name: str
    acks: int
    min_insync: int = 2
    unclean: bool = False
    flush: bool = False
    kafka: str = "3.9.1"


SETTINGS: tuple[PromiseSettings, ...] = (
    PromiseSettings(name="`acks=0`", acks=0),
    PromiseSettings(name="`acks=1`", acks=1),
    PromiseSettings(name="`acks=all`, `min.insync.replicas=1`", acks=-1, min_insync=1),
    PromiseSettings(name="`acks=all`, `min.insync.replicas=2`", acks=-1),
    PromiseSettings(name="the same, unclean election enabled", acks=-1, unclean=True),
    PromiseSettings(name="the same, `flush.messages=1`, clean election", acks=-1, flush=True),
    PromiseSettings(name="the same, eligible leader replicas, no flush", acks=-1, kafka="4.1.0"),
)


@dataclass(frozen=True, kw_only=True)
class Disaster:
    """What happens to brokers 1 (the leader), 2 and 3, which form the ISR, after the acknowledgement."""

    name: str
    crashed: tuple[int, ...] = ()
    lost_data: tuple[int, ...] = ()
    mechanism: str = "power_cut"
    """How they lost data."""
    isolated: bool = False
    """The leader's AZ is cut off from the others."""
    shrunk: bool = False
    """Before that, the ISR had shrunk to the leader."""


DISASTERS: tuple[Disaster, ...] = (
    Disaster(name="leader crashes", crashed=(1,)),
    Disaster(name="two of three crash", crashed=(1, 2)),
    Disaster(name="all crash", crashed=(1, 2, 3)),
    Disaster(name="leader's AZ is isolated", isolated=True),
    Disaster(name="leader's AZ loses power or its disks", crashed=(1,), lost_data=(1,)),
    Disaster(name="all lose power", crashed=(1, 2, 3), lost_data=(1, 2, 3)),
    Disaster(name="ISR shrunk to the leader, which is then isolated", isolated=True, shrunk=True),
    Disaster(
        name="ISR shrunk to the leader, which then loses power", crashed=(1,), lost_data=(1,), shrunk=True
    ),
    Disaster(
        name="ISR shrunk to the leader, which then loses its disk",
        crashed=(1,),
        lost_data=(1,),
        mechanism="wipe",
        shrunk=True,
    ),
)


def cell(setting: PromiseSettings, disaster: Disaster) -> PromiseJudgement:
    """The judgement of a message that was lost in this disaster under these settings."""
    finding: dict[str, Any] = dict.fromkeys(FINDING.names)
    topic, partition = _PARTITION
    finding |= {"class": "lost", "topic": topic, "partition": partition, "writer": 1, "seq": 0, "offset": 0}
    return judge(finding | {"acked_ns": _ACKED_NS, "acked_by": 1, "brokers": []}, facts_of(setting, disaster))


def facts_of(setting: PromiseSettings, disaster: Disaster) -> RunFacts:
    """The facts of the run."""
    faults = [*_faults(disaster)]
    eligible = setting.kafka >= "4.1"
    return RunFacts(
        kafka=setting.kafka,
        mode="kraft",
        configs={
            ("topic", "t", "min.insync.replicas"): str(setting.min_insync),
            ("topic", "t", "unclean.leader.election.enable"): str(setting.unclean).lower(),
            ("topic", "t", "flush.messages"): "1" if setting.flush else str(FOREVER),
            ("cluster", "features", "eligible.leader.replicas.version"): str(int(eligible)),
        },
        writers={
            1: {"acks": setting.acks, "idempotent": False, "client": "raw", "retries": 0, "config": None}
        },
        faults=tuple(replace(fault, fault=number) for number, fault in enumerate(faults, 1)),
        down={broker: (Span(_FAULT_NS, _BACK_NS),) for broker in disaster.crashed},
        ended_uncleanly={broker: (_FAULT_NS,) for broker in disaster.crashed},
        states={_PARTITION: tuple(_states(setting, disaster))},
    )


def _faults(disaster: Disaster) -> list[FaultSpan]:
    kinds: list[tuple[str, str, tuple[int, ...]]] = []
    if disaster.crashed:
        kinds.append(("process", "kill", disaster.crashed))
    if disaster.lost_data:
        kinds.append(("storage", disaster.mechanism, disaster.lost_data))
    if disaster.isolated:
        kinds.append(("link", "cut", ()))
    return [
        FaultSpan(
            fault=0,
            name=f"{mechanism} {', '.join(f'broker{broker}' for broker in brokers)}".strip(),
            kind=kind,
            mechanism=mechanism,
            hosts=frozenset(f"broker{broker}" for broker in brokers),
            partitions=frozenset(),
            from_ns=_FAULT_NS,
            until_ns=_BACK_NS,
            moment="injected",
        )
        for kind, mechanism, brokers in kinds
    ]


def _states(setting: PromiseSettings, disaster: Disaster) -> list[IsrState]:
    full = IsrState(0, 1, 0, (1, 2, 3))
    states = [full]
    if disaster.shrunk:
        # With a minimum of one, the leader alone acknowledged it. Otherwise all did, before the ISR shrank.
        shrunk_ns = _ACKED_NS - 1 if setting.min_insync == 1 else _ACKED_NS + 1
        states.append(IsrState(shrunk_ns, 1, 0, (1,)))
        if setting.unclean:
            return [*states, IsrState(_LATER_NS, 2, 1, (2,)), IsrState(_BACK_NS, 2, 1, (1, 2, 3))]
        return [*states, IsrState(_LATER_NS, -1, 1, (1,)), IsrState(_BACK_NS, 1, 2, (1,))]
    alive = tuple(broker for broker in full.isr if broker not in disaster.crashed)
    if disaster.isolated:
        alive = (2, 3)
    if alive and len(alive) < len(full.isr):
        states.append(IsrState(_LATER_NS, alive[0], 1, alive))
    elif not alive:
        states.append(IsrState(_BACK_NS, 1, 1, (1,)))
    return states


def matrix() -> Mapping[tuple[str, str], PromiseJudgement]:
    """The judgements by the names of setting and disaster."""
    return {(s.name, d.name): cell(s, d) for s in SETTINGS for d in DISASTERS}

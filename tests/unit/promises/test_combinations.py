"""Every combination of settings, versions and faults is judged as the documentation says, in a few rules.

The rules are written down here once more, without the table of promises.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import pytest

from tests.sampling import every
from tests.unit.promises.runs import Run

UNFLUSHED = str(2**63 - 1)


class Settings(NamedTuple):
    """A combination of what decides."""

    acks: int
    idempotent: bool
    min_insync: int
    unclean: bool
    flushes: bool
    replicas: tuple[int, ...]
    kafka: str
    mode: str
    eligible: bool
    """Eligible leader replicas are enabled."""

    def run(self) -> Run:
        """A run with these settings, without any fault."""
        run = Run(kafka=self.kafka, mode=self.mode).writer(self.acks, idempotent=self.idempotent)
        run.config("min.insync.replicas", str(self.min_insync))
        run.config("unclean.leader.election.enable", str(self.unclean).lower())
        run.config("flush.messages", "1" if self.flushes else UNFLUSHED)
        run.config("eligible.leader.replicas.version", str(int(self.eligible)), "cluster", "features")
        return run.state(1, 1, 0, *self.replicas)


class Fault(NamedTuple):
    """A fault after the acknowledgement, and whether a message of a setting is promised to survive it."""

    happens: Callable[[Settings], Run]
    keeps_all: Callable[[Settings], bool]
    """With acks=all."""
    keeps_one: Callable[[Settings], bool]
    """With acks=1."""
    replicas: int = 1
    """How many replicas it needs at least."""


def always(_: Settings) -> bool:
    return True


def never(_: Settings) -> bool:
    return False


def flushed(settings: Settings) -> bool:
    return settings.flushes


def _targets(*brokers: int) -> str:
    return '{"hosts": [' + ", ".join(f'"broker{number}"' for number in brokers) + "]}"


def _others(settings: Settings) -> tuple[int, ...]:
    return settings.replicas[1:]


def _crash(settings: Settings, *brokers: int) -> Run:
    """Brokers are killed; the first other one leads, or broker 1 once it is back."""
    run = settings.run()
    for number in brokers:
        run.down(number, 15, 40)
    left = [number for number in settings.replicas if number not in brokers]
    return run.state(18, left[0], 1, *left) if left else run.state(18, -1, 1, 1).state(45, 1, 2, 1)


def _shrunk(settings: Settings) -> Run:
    """The ISR shrinks to the leader, which is killed and leads again."""
    run = settings.run().state(12, 1, 0, 1).down(1, 15, 40)
    return run.state(18, -1, 1, 1).state(45, 1, 2, 1)


def _deposed(settings: Settings) -> Run:
    run = settings.run().fault("cut", 11, 30, name="isolate az1")
    return run.state(15, 2, 1, *_others(settings)).state(35, 2, 1, *settings.replicas)


def _unclean(settings: Settings) -> Run:
    """The ISR shrinks to the leader, which is cut off; a broker outside the ISR is elected."""
    return settings.run().state(12, 1, 0, 1).fault("cut", 11, 30).state(15, 2, 1, 2)


def _protected(settings: Settings) -> bool:
    """Fewer than min.insync.replicas replicas were lost: one, that is."""
    return settings.eligible and settings.min_insync > 1


FAULTS = {
    "none": Fault(lambda one: one.run(), always, always),
    "leader killed": Fault(lambda one: _crash(one, 1), always, never, 2),
    "follower killed": Fault(lambda one: one.run().down(one.replicas[-1], 15, 40), always, always, 2),
    "all but one killed": Fault(lambda one: _crash(one, *one.replicas[:-1]), always, never, 2),
    "all killed": Fault(lambda one: _crash(one, *one.replicas), always, never),
    "leader's AZ isolated": Fault(_deposed, always, never, 2),
    "leader loses power": Fault(
        lambda one: _crash(one, 1).fault("power_cut", 15, targets=_targets(1)), always, never, 2
    ),
    "all lose power": Fault(
        lambda one: _crash(one, *one.replicas).fault("power_cut", 15, targets=_targets(*one.replicas)),
        lambda one: flushed(one) or (_protected(one) and len(one.replicas) == 1),
        never,
    ),
    "last in-sync replica killed": Fault(_shrunk, always, never, 2),
    "last in-sync replica loses power": Fault(
        lambda one: _shrunk(one).fault("power_cut", 15, targets=_targets(1)),
        lambda one: flushed(one) or _protected(one),
        never,
        2,
    ),
    "last in-sync replica loses its disk": Fault(
        lambda one: _shrunk(one).fault("wipe", 16, targets=_targets(1)), _protected, never, 2
    ),
    "another replica elected": Fault(_unclean, lambda one: not one.unclean, never, 2),
}
PRODUCERS = ((0, False), (1, False), (-1, False), (-1, True))
VERSIONS = (
    ("0.10.2.1", "zookeeper", False),
    ("0.11.0.3", "zookeeper", False),
    ("2.7.1", "zookeeper", False),
    ("3.9.1", "kraft", False),
    ("4.1.0", "kraft", False),
    ("4.1.0", "kraft", True),
)
REPLICAS = ((1,), (1, 2, 3), (1, 2, 3, 4, 5, 6))


def combinations() -> list[Settings]:
    return [
        Settings(*producer, min_insync, unclean, flushes, replicas, *version)
        for producer, min_insync, unclean, flushes, replicas, version in itertools.product(
            PRODUCERS, (1, 2), (False, True), (False, True), REPLICAS, VERSIONS
        )
        if min_insync <= len(replicas) and not (producer[1] and version[0] < "0.11")
    ]


@pytest.mark.parametrize("name", every(3, FAULTS))
def test_a_loss_breaks_a_promise_in_just_these_combinations(name: str) -> None:
    fault = FAULTS[name]
    wrong = []
    for settings in combinations():
        if len(settings.replicas) < fault.replicas:
            continue
        keeps = {0: never, 1: fault.keeps_one, -1: fault.keeps_all}[settings.acks]
        judged = fault.happens(settings).judge()
        if judged.promise != ("broken" if keeps(settings) else "not promised"):
            wrong.append((settings, judged))
    assert wrong == []

"""The messages of a stream, but for their numbers: partition, size and key of each, in a cycle.

All that is random is drawn here, so that every client only repeats the cycle.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from kafka.partitioner import murmur2

from harness.history.identity import ValueTemplate
from workloads.protocol.spec import StreamLoad

_LENGTH = 1 << 14


@dataclass(frozen=True)
class Planned:
    """One message: index of its target, size of its value, and its key."""

    target: int
    size_bytes: int
    key: str | None = None


def cycle(load: StreamLoad, writer: int) -> tuple[Planned, ...]:
    """The messages of a writer's stream, which are sent again and again in this order.

    Without keys they go to the targets in turn. A key has one partition, which Java's default partitioner
    would choose among the load's (`BuiltInPartitioner.partitionForKey`).
    """
    targets = len(load.partitions)
    if not load.shaped:
        return tuple(Planned(target, load.size_bytes) for target in range(targets))
    draw = random.Random(writer)
    length = _LENGTH if load.keys else -(-_LENGTH // targets) * targets
    sizes = draw.choices(load.sizes or (load.size_bytes,), k=length)
    if not load.keys:
        return tuple(Planned(number % targets, size) for number, size in enumerate(sizes))
    keys = [f"key-{number}" for number in range(load.keys)]
    weights = [(number + 1) ** -load.skew for number in range(load.keys)]
    target_of = {key: (murmur2(key.encode()) & 0x7FFFFFFF) % targets for key in keys}
    return tuple(
        Planned(target_of[key], size, key)
        for key, size in zip(draw.choices(keys, weights, k=length), sizes, strict=True)
    )


class Messages:
    """The messages of one stream."""

    def __init__(self, load: StreamLoad, writer: int) -> None:
        """Draw the cycle."""
        self._load, self._writer = load, writer
        self.cycle = cycle(load, writer)
        self._templates = (
            [] if load.sizes else [self._template(n, load.size_bytes) for n in range(len(load.targets))]
        )
        self.head, _ = ValueTemplate.unpadded(writer, *load.targets[0])
        """What every value begins with; the number follows."""

    def _template(self, target: int, size_bytes: int) -> ValueTemplate:
        return ValueTemplate.of(self._writer, *self._load.targets[target], size_bytes)

    def planned(self, seq: int) -> Planned:
        """Target, size and key of a message."""
        return self.cycle[seq % len(self.cycle)]

    def value(self, seq: int, planned: Planned) -> bytes:
        """The value of a message."""
        if self._templates:
            return self._templates[planned.target].value(seq)
        return self._template(planned.target, planned.size_bytes).value(seq)

"""Faults as operations of the nemesis, by the names that Jepsen's own nemeses use where they have one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from checkers.ask.jepsen.columns import load
from checkers.ask.jepsen.form import INFO, NEMESIS, OPERATION_FUNCTIONS, Operations
from checkers.tables.source import Source

_AS_JEPSEN: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "cut": ("start-partition", "stop-partition"),
        "kill": ("kill", "start"),
        "pause": ("pause", "resume"),
    }
)
"""Functions that begin and end a fault, by mechanism, as in `jepsen.nemesis.combined`."""
_BEGINS, _BEGUN, _ENDS, _ENDED, _FAILED = "injecting", "injected", "healing", "healed", "failed"


def fault_ops(source: Source) -> tuple[Operations, Sequence[str]]:
    """An operation for the beginning and one for the end of each fault, and the functions they use.

    The process `nemesis` does one thing at a time: an operation that began while another lasted begins when
    that is complete. One whose completion is not recorded completes at once.
    """
    rows = sorted(load(source, "faults").to_pylist(), key=lambda row: (row["ns"], row["fault"]))
    healed = {row["fault"] for row in rows if row["moment"] in (_ENDS, _ENDED)}
    times: dict[tuple[int, bool], list[int]] = {}
    named: dict[tuple[int, bool], tuple[str, str]] = {}
    for row in rows:
        ends = row["moment"] in (_ENDS, _ENDED) or (
            row["moment"] == _FAILED and (row["fault"], True) in times
        )
        key = row["fault"], ends
        times.setdefault(key, []).append(row["ns"])
        named[key] = _function(row["mechanism"] or "other", ends, row["fault"] in healed), row["name"]
    functions = sorted({function for function, _ in named.values()})
    number = {name: len(OPERATION_FUNCTIONS) + at for at, name in enumerate(functions)}
    invoked, completed, idle_ns = [], [], 0
    ordered = sorted(times, key=lambda key: (min(times[key]), key))
    for key in ordered:
        invoked.append(max(min(times[key]), idle_ns))
        idle_ns = max(max(times[key]), invoked[-1])
        completed.append(idle_ns)
    texts = pa.array([json.dumps(named[key][1]) for key in ordered], pa.large_string())
    found = Operations(
        owner=np.full(len(ordered), NEMESIS),
        function=np.array([number[named[key][0]] for key in ordered], np.int64),
        kind=np.full(len(ordered), INFO),
        invoked_ns=np.array(invoked, np.int64),
        completed_ns=np.array(completed, np.int64),
        invoked_rank=np.full(len(ordered), _RANK),
        completed_rank=np.full(len(ordered), _RANK),
        invocation=texts,
        completion=texts,
    )
    return found, functions


_RANK = -1
"""Before the clients' events of the same moment."""


def _function(mechanism: str, ends: bool, is_healed: bool) -> str:
    if mechanism in _AS_JEPSEN:
        return _AS_JEPSEN[mechanism][ends]
    name = mechanism.replace("_", "-")
    return f"{'stop' if ends else 'start'}-{name}" if is_healed else name

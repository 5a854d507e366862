"""Whether every producer had stopped before the replicas' final logs were read."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc

from harness.history.tables import read_columns

_PLACE = ["topic", "partition"]


def acknowledged_after_final_read(run_dir: Path) -> str:
    """A sentence if a message was acknowledged after its partition's log had been read; otherwise empty.

    Such a message may be missing from the log as it was read, and yet not be lost. Both times are of the
    same clock.
    """
    sends = read_columns(run_dir, "sends", (*_PLACE, "writer", "outcome", "done_ns"))
    replicas = read_columns(run_dir, "replicas", (*_PLACE, "ns"))
    first = (
        replicas.filter(pc.is_valid(replicas["ns"]))
        .group_by(_PLACE, use_threads=False)
        .aggregate([("ns", "min")])
    )
    acknowledged = sends.filter(pc.equal(sends["outcome"], "ok"))
    joined = acknowledged.join(first, keys=_PLACE, join_type="inner")
    late = joined.filter(pc.greater(joined["done_ns"], joined["ns_min"]))
    if not late.num_rows:
        return ""
    after_s = pc.max(pc.subtract(late["done_ns"], late["ns_min"])).as_py() / 1e9
    row = late.slice(0, 1).to_pylist()[0]
    return (
        f"Producers went on although they were asked to stop: {late.num_rows} message(s) were acknowledged "
        f"up to {after_s:.1f} s after the final log of their partition had been read, such as one of "
        f"producer {row['writer']} in {row['topic']}/{row['partition']}."
    )

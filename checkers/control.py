"""Two controls of a scenario's claims: judge a stored run without the observations that they should need.

`silence` empties every table except `marks`, `configs` and `writers`: nothing was sent and nothing observed.
`deaf` removes what was sent or observed after the first fault began, and the records of those sends. A claim
that is still confirmed, or whose erratum still holds, does not depend on the events that it describes.
Nothing is written into the run folder: a reduced copy of the history is judged in a temporary folder.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checkers.claims.evaluate import ClaimResult
from checkers.evidence import first_injection
from checkers.judge import judge_history
from checkers.run_folder import read_declared, read_manifest
from checkers.tables.files import inside
from checkers.tables.source import Source, open_source, read_small
from harness.errors import UsageError
from harness.history.schema import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONTROLS = ("silence", "deaf")

_KEPT_BY_SILENCE = ("marks", "configs", "writers")
_KEPT_BY_DEAF = ("marks", "configs", "writers", "faults")
_TIME = {"sends": "sent_ns", "sightings": "seen_ns"}
"""Column that says when a row was recorded, if it is not `ns`."""
_LATER: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "sends": ("done_ns", ("done_ns", "outcome", "error", "offset", "attempts", "broker")),
    "sightings": ("gone_ns", ("gone_ns",)),
}
"""Column with the time of a later observation in the same row, and the columns that it filled."""
_IDENTITY = ("topic", "partition", "writer", "seq")

Filter = Callable[[pa.Table], pa.Table]


@dataclass(frozen=True, kw_only=True)
class HeldClaim:
    """A claim that holds although the control removed the events that it describes."""

    name: str
    says: str
    section: str
    by: str
    """`confirmed`: the article's sentence holds; `erratum`: our correction of it holds."""
    observed: str


@dataclass(frozen=True, kw_only=True)
class ControlResult:
    """What one control found in one run."""

    run: str
    scenario: str | None
    control: str
    claims: int = 0
    """Number of claims that were asked, without declared preconditions."""
    held: tuple[HeldClaim, ...] = ()
    skipped: str = ""
    """Why the control cannot be applied to this run; empty when it was applied."""

    def as_json(self) -> dict[str, Any]:
        """The result as plain values, ready to be written as JSON."""
        return asdict(self)


def require_control(control: str) -> None:
    """Raise UsageError for a control that does not exist."""
    if control not in CONTROLS:
        raise UsageError(f"There is no control {control!r}; choose one of {', '.join(CONTROLS)}.")


def run_control(session: SparkSession, run_dir: Path | str, control: str) -> ControlResult:
    """Judge a stored run under one of `CONTROLS`; returns the claims that hold all the same.

    Raises UsageError for an unknown control, BadDataError when the run folder is damaged.
    """
    require_control(control)
    folder = str(run_dir)
    scenario = read_manifest(folder).scenario
    declared = read_declared(folder)
    source = open_source(inside(folder, "history"))
    with tempfile.TemporaryDirectory(prefix="acked-control-") as scratch:
        reduced = Path(scratch)
        if control == "silence":
            write_silence(source, reduced)
        else:
            since_ns = first_injection_ns(source)
            if since_ns is None:
                why = "no fault was injected"
                return ControlResult(run=folder, scenario=scenario, control=control, skipped=why)
            write_deaf(source, since_ns, reduced)
        judgement = judge_history(session, reduced, None, declared)
    preconditions = {claim["name"] for claim in declared["claims"] if claim.get("precondition") is True}
    counted = [claim for claim in judgement.claims if claim.name not in preconditions]
    return ControlResult(
        run=folder, scenario=scenario, control=control, claims=len(counted), held=held_claims(counted)
    )


def held_claims(claims: Sequence[ClaimResult]) -> tuple[HeldClaim, ...]:
    """The claims that are confirmed, or whose erratum holds."""
    held = []
    for claim in claims:
        erratum = claim.erratum or {}
        if claim.status == "confirmed":
            by, says = "confirmed", claim.says
        elif erratum.get("holds") is True:
            by, says = "erratum", str(erratum["says"])
        else:
            continue
        held.append(
            HeldClaim(name=claim.name, says=says, section=claim.section, by=by, observed=claim.observed)
        )
    return tuple(held)


def first_injection_ns(source: Source) -> int | None:
    """When the first fault began to be injected; None when there was none."""
    return first_injection(read_small(source, "faults").to_pylist())


def write_silence(source: Source, target: Path) -> None:
    """Write every table of the schema to ``target``: marks, configs and writers as they are, others empty."""
    for name, table in TABLES.items():
        if name in _KEPT_BY_SILENCE:
            _copy(source, name, target, lambda rows: rows)
        else:
            pq.write_table(table.arrow().empty_table(), target / f"{name}.parquet")


def write_deaf(source: Source, since_ns: int, target: Path) -> None:
    """Write the history to ``target`` as it was known at ``since_ns``; absent tables stay absent.

    `copies` has no times: the records of the removed sends are removed from it. `replicas` describes the end
    of the run, so it is empty. A send that was acknowledged later has no outcome.
    """
    removed = _sends_after(source, since_ns)
    for name in TABLES:
        if name in _KEPT_BY_DEAF:
            _copy(source, name, target, lambda rows: rows)
        elif name == "copies":
            _copy(source, name, target, lambda rows: _without(rows, removed))
        else:
            _copy(source, name, target, _until(name, since_ns, removed))


def _until(name: str, since_ns: int, removed: pa.Table) -> Filter:
    time = _TIME.get(name, "ns")

    def keep(rows: pa.Table) -> pa.Table:
        times = rows[time] if time in rows.column_names else pa.nulls(rows.num_rows, pa.int64())
        rows = rows.filter(pc.fill_null(pc.less_equal(times, since_ns), False))
        if name == "sightings":
            rows = _without(rows, removed)
        return _forget_later(name, rows, since_ns)

    return keep


def _forget_later(name: str, rows: pa.Table, since_ns: int) -> pa.Table:
    column, filled = _LATER.get(name, ("", ()))
    if column not in rows.column_names:
        return rows
    later = pc.fill_null(pc.greater(rows[column], since_ns), False)
    for changed in filled:
        if changed in rows.column_names:
            kind = rows.schema.field(changed).type
            values = pc.if_else(later, pa.scalar(None, kind), rows[changed])
            rows = rows.set_column(rows.column_names.index(changed), rows.schema.field(changed), values)
    return rows


def _sends_after(source: Source, since_ns: int) -> pa.Table:
    """Identities of the messages that were sent after a time."""
    parts = [_identities(TABLES["sends"].arrow().empty_table())]
    for path in source.paths("sends"):
        rows = pq.read_table(path, columns=[*_IDENTITY, "sent_ns"])
        parts.append(_identities(rows.filter(pc.greater(rows["sent_ns"], since_ns))))
    return pa.concat_tables(parts)


def _identities(rows: pa.Table) -> pa.Table:
    """The columns that name a message, with the schema's types."""
    schema = pa.schema([TABLES["sends"].arrow().field(name).with_nullable(True) for name in _IDENTITY])
    columns = {
        field.name: rows[field.name].cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    }
    return pa.table(columns, schema=schema)


def _without(rows: pa.Table, removed: pa.Table) -> pa.Table:
    """Rows of records whose message is not among ``removed``, in their order."""
    if not rows.num_rows or not removed.num_rows:
        return rows
    numbered = _identities(rows).append_column("row", pa.array(range(rows.num_rows)))
    kept = numbered.join(removed, keys=list(_IDENTITY), join_type="left anti")
    return rows.take(kept["row"].combine_chunks().sort())


def _copy(source: Source, name: str, target: Path, keep: Filter) -> None:
    """Write one table's files to the folder ``target``; ``keep`` selects the rows of each."""
    paths = source.paths(name)
    if not paths:
        return
    folder = target / f"{name}.parquet"
    folder.mkdir()
    for number, path in enumerate(paths):
        to = folder / f"{number:05}.parquet"
        with pq.ParquetFile(path) as file, pq.ParquetWriter(to, file.schema_arrow) as out:
            for batch in file.iter_batches(batch_size=1 << 18):
                out.write_table(keep(pa.Table.from_batches([batch], file.schema_arrow)))

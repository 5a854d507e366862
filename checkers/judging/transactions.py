"""The last step of judging transactions: sums of all partitions, fates, and findings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from checkers.evidence import Evidence
from checkers.tables.files import inside, parquet_files, read_parquet, write_parquet
from checkers.tables.output import FINDING, TALLY, TRANSACTION_PARTS, TRANSACTION_RECORD, build
from checkers.tables.source import Source
from checkers.tables.transactions import PARTS_FOLDER, RECORDS_FOLDER
from checkers.transactions import isolation
from checkers.transactions.fates import fates_of, suspects
from checkers.transactions.findings import findings_of
from checkers.transactions.isolation import reads_in_transactions

FATES_FILE, ANOMALIES_FILE = "fates.parquet", "anomalies.parquet"


def conclude(
    source: Source, evidence: Evidence, folder: Path | str, findings: Path | str, tallies: pa.Table
) -> pa.Table:
    """Write the fates of transactions into ``folder`` and their findings into ``findings``.

    ``folder`` is `JudgingContext.transactions`. Returns the tallies with the findings. Without
    transactions it writes nothing.
    """
    parts = [read_parquet(path, TRANSACTION_PARTS) for path in parquet_files(inside(folder, PARTS_FOLDER))]
    if not parts and not len(evidence.transactions):
        return tallies
    fates = fates_of(pa.concat_tables([TRANSACTION_PARTS.empty_table(), *parts]), evidence)
    write_parquet(inside(folder, FATES_FILE), fates)
    odd, records = suspects(fates), parquet_files(inside(folder, RECORDS_FOLDER))
    findings_table = (
        findings_of(odd, _records(records, odd), evidence) if odd.num_rows else FINDING.empty_table()
    )
    reads = reads_in_transactions(source)
    if reads.num_rows:
        anomalies = isolation.anomalies_of(reads, _read(records, None))
        write_parquet(inside(folder, ANOMALIES_FILE), anomalies)
        findings_table = pa.concat_tables([findings_table, isolation.findings_of(anomalies)])
    if not findings_table.num_rows:
        return tallies
    write_parquet(inside(findings, "transactions.parquet"), findings_table)
    counts = findings_table.group_by(["class", "topic", "partition"], use_threads=False).aggregate(
        [([], "count_all")]
    )
    columns = {
        "kind": "finding",
        "topic": counts["topic"],
        "partition": counts["partition"],
        "name": counts["class"],
        "count": counts["count_all"],
    }
    return pa.concat_tables([tallies, build(TALLY, columns, counts.num_rows)])


def _records(paths: Sequence[str], odd: pa.Table) -> pa.Table:
    """The records of these transactions, and those that the same markers decided."""
    writers, numbers = (pc.unique(odd[name]) for name in ("writer", "txn"))
    own = pc.field("writer").isin(writers) & pc.field("txn").isin(numbers)
    markers = pc.unique(_read(paths, own)["marker_offset"]).drop_null()
    return _read(paths, own | pc.field("marker_offset").isin(markers))


def _read(paths: Sequence[str], condition: pc.Expression | None) -> pa.Table:
    parts = [read_parquet(path, TRANSACTION_RECORD, condition) for path in paths]
    return pa.concat_tables([TRANSACTION_RECORD.empty_table(), *parts])

"""`python -m tests.runs.store RUN_FOLDER...`: keeps runs as small histories, for tests of the claims.

A stored run is one file, `tests/runs/<scenario>.zip`: a run folder without logs, journals and claims. Store a
new one when the scenario's body or the history's schema changes. Its tables are complete except for the
columns in `UNUSED`. For each claim, the command also finds a mutant that makes it false
(`tests.runs.turning`).
"""

from __future__ import annotations

import io
import json
import re
import sys
import zipfile
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.tables.source import Source, open_source
from harness.history.schema import TABLES
from run.catalogue import find

STORED = Path(__file__).parent
OTHERS = "versions"
"""Folder of the runs on another Kafka version than the scenario's own: `<scenario>@<version>.zip`."""
COMMAND = "python -m tests.runs.store RUN_FOLDER"
UNUSED = {"copies": ("batch_offset", "crc", "timestamp_ms", "producer_id", "producer_epoch", "sequence")}
"""Columns that the checker does not read in a history without transactions; kept if a claim names them."""
OF_TRANSACTIONS = ("producer_id", "producer_epoch")
"""Those of them that decide transactions."""
MANIFEST = ("scenario", "kafka", "mode", "lab", "status", "schema_version", "anchor", "roles")
_WORD = re.compile(r"\w+")
_OLD = (1980, 1, 1, 0, 0, 0)
"""A fixed time for the members, so that the same run gives the same file."""


def store(run: Path, target: Path = STORED) -> Path:
    """Write a run folder to ``target``; returns the file. Raises ValueError for an unsuitable run."""
    manifest = json.loads((run / "run.json").read_text())
    judgement = json.loads((run / "judgement.json").read_text())
    scenario = find(manifest["scenario"])
    if manifest["status"] != "complete" or judgement["verdict"] != "as declared":
        raise ValueError(f"{run} is {manifest['status']} and {judgement['verdict']}, not as declared")
    if manifest["mode"] not in scenario.supported_modes:
        raise ValueError(f"{run} is of a mode that {scenario.name} does not name")
    source = open_source(run / "history")
    version = manifest["kafka"]
    other = f"{OTHERS}/{scenario.name}@{version}"
    file = target / f"{scenario.name if version == scenario.kafka else other}.zip"
    file.parent.mkdir(exist_ok=True)
    named = set(_WORD.findall(" ".join(claim.holds for claim in scenario.claims)))
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
        kept = {key: manifest[key] for key in MANIFEST if key in manifest}
        out.writestr(zipfile.ZipInfo("run.json", _OLD), json.dumps(kept, indent=1) + "\n")
        for name in TABLES:
            if source.paths(name):
                member = zipfile.ZipInfo(f"history/{name}.parquet", _OLD)
                rows = _whole(source, name, named)
                out.writestr(member, _compact(rows, name), zipfile.ZIP_DEFLATED)
    return file


def _whole(source: Source, name: str, named: AbstractSet[str]) -> pa.Table:
    rows = pa.concat_tables([pq.read_table(path) for path in source.paths(name)], promote_options="default")
    transactions = "marker" in rows.column_names and rows["marker"].null_count < len(rows)
    kept = named | set(OF_TRANSACTIONS if transactions else ())
    return rows.drop_columns(
        [name for name in UNUSED.get(name, ()) if name in rows.column_names and name not in kept]
    )


def _compact(rows: pa.Table, name: str) -> bytes:
    schema = rows.schema
    numbers = [field.name for field in schema if pa.types.is_integer(field.type)]
    out = io.BytesIO()
    options: dict[str, Any] = {
        "compression": "zstd",
        "compression_level": 19,
        "use_dictionary": [field.name for field in schema if pa.types.is_string(field.type)],
        "column_encoding": dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
        "store_schema": False,
    }
    fitting = pa.schema([field for field in TABLES[name].arrow() if field.name in schema.names])
    pq.write_table(rows.select(fitting.names).cast(fitting), out, **options)
    return out.getvalue()


def main(folders: list[str]) -> int:
    """Store each folder; returns 1 if one could not be stored, or has a claim that no mutant turns."""
    if not folders:
        print(f"usage: {COMMAND}...", file=sys.stderr)
        return 2
    from tests.runs.turning import renew

    failed = False
    for folder in folders:
        try:
            file = store(Path(folder))
        except (ValueError, OSError) as error:
            print(f"{folder}: {error}", file=sys.stderr)
            failed = True
        else:
            print(f"{file} ({file.stat().st_size / 1000:.0f} kB)")
            name = file.relative_to(STORED).with_suffix("").as_posix()
            failed = not renew([name]) or failed
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

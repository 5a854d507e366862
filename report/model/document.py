"""Writes `docs/report.schema.json`, the JSON Schema of a report: `python -m report.model.document`.

`docs/results.schema.json` describes the documents of results that consist of several runs.

It refuses a schema in which a property has gone or has another type while `SCHEMA` is what it was, because
programs that read reports rely on that number.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from report.kinds import KINDS
from report.model.compare import RunComparison
from report.model.compare_assessments import AssessmentComparison
from report.model.model import SCHEMA, ReportModel
from report.model.night import Night

FILE = Path(__file__).parents[2] / "docs" / "report.schema.json"
RESULTS = FILE.with_name("results.schema.json")
DOCUMENTS: Mapping[str, Any] = {
    **{kind.file: kind.shape for kind in KINDS},
    "night.json": Night,
    "acked compare --json, of runs": RunComparison,
    "acked compare --json, of assessments": AssessmentComparison,
}
"""By the file that holds the document, or the command that prints it."""


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of `ReportModel.as_json`, which writes every property."""
    shapes: dict[str, Any] = json.loads(json.dumps(msgspec.json.schema(ReportModel)))
    for one in shapes["$defs"].values():
        if "description" in one:
            one["description"] = inspect.cleandoc(one["description"])
        one["required"] = list(one["properties"])
        for kind in one["properties"].values():
            kind.pop("default", None)
    shapes["$defs"]["ReportModel"]["properties"]["schema"] = {"const": SCHEMA}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "acked report", **shapes}


def results_schema() -> dict[str, Any]:
    """The JSON Schema of `DOCUMENTS`; what a document has besides may be anything."""
    shapes, definitions = msgspec.json.schema_components(
        list(DOCUMENTS.values()), ref_template="#/$defs/{name}"
    )
    for one in definitions.values():
        if "description" in one:
            one["description"] = inspect.cleandoc(one["description"])
    documents = dict(zip(DOCUMENTS, shapes, strict=True))
    told: dict[str, Any] = json.loads(json.dumps({"properties": documents, "$defs": definitions}))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "results of acked that consist of several runs, by the file that holds them",
        **told,
    }


def broken(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What a reader of the old schema would miss in a report of the new one, as `Class.property`."""
    return sorted(_missing(old["$defs"], new["$defs"]))


def _missing(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for name, one in old.items():
        now = new.get(name, {}).get("properties", {})
        for key, kind in one.get("properties", {}).items():
            if (name, key) != ("ReportModel", "schema") and now.get(key) != kind:
                yield f"{name}.{key}"


def version(of: Mapping[str, Any]) -> int:
    """The version that a schema describes."""
    return int(of["$defs"]["ReportModel"]["properties"]["schema"]["const"])


def main(file: Path = FILE) -> int:
    """Write the schema; returns 1 and explains if `SCHEMA` has to rise first."""
    new = schema()
    old = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else new
    lost = broken(old, new) if version(old) == version(new) else []
    if lost:
        sys.stderr.write(
            f"{', '.join(lost)}: gone or of another type; raise SCHEMA in report/model/model.py\n"
        )
        return 1
    file.write_text(json.dumps(new, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    results = json.dumps(results_schema(), indent=1, ensure_ascii=False)
    file.with_name(RESULTS.name).write_text(results + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

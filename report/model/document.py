"""Writes `docs/report.schema.json`, the JSON Schema of a report: `python -m report.model.document`.

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

from report.model.model import SCHEMA, ReportModel

FILE = Path(__file__).parents[2] / "docs" / "report.schema.json"


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
    return 0


if __name__ == "__main__":
    sys.exit(main())

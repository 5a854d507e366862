"""Prints the table of formats in `docs/import.md`: `python -m harness.history.imports.document`."""

from __future__ import annotations

from harness.history.imports.formats import FORMATS


def table() -> str:
    """The formats as a table in Markdown."""
    lines = [
        "| format | what writes it | files | what it gives | what stays unknown |",
        "|---|---|---|---|---|",
    ]
    for form in FORMATS.values():
        lines.append(f"| `{form.name}` | {form.source} | {form.files} | {form.gives} | {form.lacks} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())  # noqa: T201

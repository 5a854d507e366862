"""The results of `acked check --control` in a terminal: claims that hold without their evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.markup import escape

from harness.console import Console


def show_controls(results: Sequence[Mapping[str, Any]], totals: Mapping[str, int], console: Console) -> None:
    """Print what a control found in each run, and the totals over all runs."""
    for result in results:
        name = escape(str(result["scenario"] or result["run"]))
        held = result["held"]
        if result["skipped"]:
            console.paragraph(f"[bold]{name}[/]: skipped, {escape(result['skipped'])}")
            continue
        style = "bold red" if held else "green"
        console.paragraph(f"[bold]{name}[/]: [{style}]{len(held)} of {result['claims']} claims hold[/]")
        for claim in held:
            by = "confirmed" if claim["by"] == "confirmed" else "erratum holds"
            console.paragraph(
                f"{escape(claim['name'])}: {escape(claim['says'])} [dim]({escape(claim['section'])})[/]",
                lead=f"  [red]{by:<14}[/] ",
            )
            console.paragraph(escape(claim["observed"]), lead="     [dim]observed:[/] ")
    skipped = f", {totals['skipped']} skipped" if totals["skipped"] else ""
    console.print()
    console.paragraph(
        f"Control {results[0]['control']}: {totals['runs']} runs{skipped}, {totals['claims']} claims; "
        f"{totals['confirmed']} confirmed and {totals['errata']} errata hold although nothing supports them."
    )

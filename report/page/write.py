"""`report.html` in a run folder, and beside it the histograms of latencies."""

from __future__ import annotations

from pathlib import Path

from harness.plain_files import write_output, write_plain
from report.model.gather import model_and_latencies
from report.model.latency import FILE
from report.page.render import page

PAGE = "report.html"


def write_page(folder: Path, target: Path | None = None) -> Path:
    """Write the page of a judged run into its folder, or to ``target``; returns the file.

    Raises BadDataError if the folder is damaged or holds no run.
    """
    model, latencies = model_and_latencies(folder)
    text = page(model)
    if target is not None:
        write_output(target, text, "--output")
        return target
    write_plain(folder / FILE, latencies)
    write_plain(folder / PAGE, text)
    return folder / PAGE

"""Runs as JUnit XML, which CI systems show as tests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from xml.etree import ElementTree

from report.series import Cell, Run, cell_name

_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ELEMENTS = {"violated": "failure", "unfit": "skipped"}
"""The JUnit element of some verdicts. Other verdicts except `as declared` are an `error`."""


def junit(runs: Sequence[Run], not_run: Iterable[Cell] = ()) -> str:
    """A test suite with a test case for each run.

    `violated` is a failure; `unknown`, `invalid` and `crashed` are errors; `unfit` runs, and runs that did
    not take place, are skipped.
    """
    suite = ElementTree.Element("testsuite", name="acked")
    kinds = []
    for run in runs:
        case = _case(suite, run)
        case.set("time", f"{run.seconds:.1f}")
        if run.verdict != "as declared":
            kind = _ELEMENTS.get(run.verdict, "error")
            kinds.append(kind)
            message = _clean("; ".join(run.reasons) or run.verdict)
            found = ElementTree.SubElement(case, kind, message=message)
            if kind != "skipped":
                found.set("type", run.verdict)
                found.text = _clean("\n".join((*run.reasons, f"run folder: {run.folder}")))
    for cell in not_run:
        kinds.append("skipped")
        ElementTree.SubElement(_case(suite, cell), "skipped", message="not run: the series ended before")
    suite.set("tests", str(len(suite)))
    for kind, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(name, str(kinds.count(kind)))
    suite.set("time", f"{sum(run.seconds for run in runs):.1f}")
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ElementTree.Element, cell: Cell) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", classname=f"acked.{cell.mode}", name=cell_name(cell))


def _clean(text: str) -> str:
    return _NOT_IN_XML.sub("?", text)

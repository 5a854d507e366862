"""JUnit XML, which CI systems show as tests: a series run by run, one run claim by claim, others by part."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from report.model.model import Claim, FindingGroup, ReportModel, Tone
from report.model.night import CaseRun, Night
from report.night import Link, no_link
from report.words.claims import deviation_of

_ELEMENTS_BY_TONE: Mapping[Tone, str] = {"broken": "failure", "undecided": "error", "void": "error"}
_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ELEMENTS = {"violated": "failure", "unfit": "skipped"}
"""The JUnit element of some verdicts. Other verdicts except `as declared` are an `error`."""


def junit(night: Night, *, link: Link = no_link) -> str:
    """A test suite with a test case for each run of a series.

    `violated` is a failure; `unknown`, `invalid` and `crashed` are errors; `unfit` runs, and runs that did
    not take place, are skipped. Failures and errors name each claim that is not as declared, the commit, the
    duration, and the page, relative to the document.
    """
    suite = ElementTree.Element("testsuite", name="acked")
    kinds = []
    for run in night.runs:
        case = _case(suite, run.name, run.mode)
        case.set("time", f"{run.seconds:.1f}")
        if run.verdict != "as declared":
            kind = _ELEMENTS.get(run.verdict, "error")
            kinds.append(kind)
            reasons = "; ".join(run.reasons) or run.verdict
            message = _clean(". ".join((reasons, " ".join(run.claims))) if run.claims else reasons)
            element = ElementTree.SubElement(case, kind, message=message)
            if kind != "skipped":
                element.set("type", run.verdict)
                element.text = _clean("\n".join((*run.reasons, *run.claims, *_facts(run, link))))
    for planned in night.not_run:
        for _ in range(planned.runs):
            kinds.append("skipped")
            case = _case(suite, planned.name, planned.mode)
            ElementTree.SubElement(case, "skipped", message="not run: the series ended before")
    return _document(suite, kinds, sum(run.seconds for run in night.runs))


def run_junit(model: ReportModel) -> str:
    """A test suite of one run, with a test case for its verdict, for each claim, and for its findings.

    A claim with another result than declared is a failure, and one that was left open is an error. Findings
    that the scenario does not expect are failures, a test case for each class and cause.
    """
    suite = ElementTree.Element("testsuite", name=_clean(model.run.scenario))
    kinds: list[str] = []

    def case(name: str, kind: str, message: str) -> None:
        named = {"classname": _clean(f"acked.{model.run.scenario}"), "name": _clean(name)}
        element = ElementTree.SubElement(suite, "testcase", named)
        if kind:
            kinds.append(kind)
            ElementTree.SubElement(element, kind, message=_clean(message))

    verdict = model.verdict
    kind = "" if verdict.verdict == "as declared" else _ELEMENTS.get(verdict.verdict, "error")
    case("verdict", kind, "; ".join(verdict.reasons) or verdict.verdict)
    for claim in model.claims:
        case(f"claim {claim.name}", _kind_of(claim), deviation_of(claim))
    imported = model.run.imported
    unexpected_by = "nobody expects" if imported else "the scenario does not expect"
    unexpected = [group for group in model.groups if not group.expected]
    for group in unexpected:
        case(_title(group), "failure", f"{group.count} that {unexpected_by}")
    if not unexpected:
        case("no finding" if imported else "no finding but those that the scenario expects", "", "")
    return _document(suite, kinds, model.run.duration_s)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A part of a result of several runs that a CI system shows as a test."""

    name: str
    tone: Tone
    """`broken` is a failure; `undecided` and `void` are errors."""
    text: str
    skipped: bool = False


def outcomes_junit(kind: str, outcomes: Iterable[Outcome]) -> str:
    """A test suite with a test case for each outcome of a result of this kind."""
    suite = ElementTree.Element("testsuite", name=_clean(kind))
    kinds = []
    for one in outcomes:
        case = _case(suite, _clean(one.name), _clean(kind).replace(" ", "-"))
        element = "skipped" if one.skipped else _ELEMENTS_BY_TONE.get(one.tone, "")
        if element:
            kinds.append(element)
            ElementTree.SubElement(case, element, message=_clean(one.text))
    return _document(suite, kinds, 0.0)


def _facts(run: CaseRun, link: Link) -> Iterator[str]:
    yield f"duration: {run.seconds:.1f} s"
    if run.commit:
        yield f"commit: {run.commit}"
    yield f"run folder: {run.folder}"
    if page := link(run.folder):
        yield f"page: {page}"


def _kind_of(claim: Claim) -> str:
    """The JUnit element of a claim's result; empty if it is as declared."""
    if claim.as_declared:
        return ""
    return "failure" if claim.status in ("confirmed", "refuted") else "error"


def _title(group: FindingGroup) -> str:
    return f"finding {group.name.replace('_', ' ')}" + (f": {group.cause}" if group.cause else "")


def _document(suite: ElementTree.Element, kinds: Sequence[str], seconds: float) -> str:
    """The XML of one suite; ``kinds`` are the elements of its cases that did not pass."""
    suite.set("tests", str(len(suite)))
    for kind, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(name, str(kinds.count(kind)))
    suite.set("time", f"{seconds:.1f}")
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ElementTree.Element, name: str, mode: str) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", classname=f"acked.{mode}", name=name)


def _clean(text: str) -> str:
    return _NOT_IN_XML.sub("?", text)

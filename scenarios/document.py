"""Writes `docs/catalogue.md` from the scenarios: `python -m scenarios.document [--check]`."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from checkers.partition.fate import LOSSES
from checkers.verdict import TRANSACTIONS_AND_GROUPS
from nemesis.operator import Operator
from run.scenario import Claim, Scenario, speaks_of
from run.stage import Stage
from scenarios.catalogue import all_scenarios

FILE = Path(__file__).parent.parent / "docs" / "catalogue.md"
PICTURES = "images/catalogue"
"""Beside the page: pictures of stored runs, which `python -m tests.runs.pictures` makes."""
_NONE = "none"
_CLIENTS = {"librdkafka": "librdkafka", "java": "the Java client"}
_ARTICLES = {
    "000": "Article 000: network failures and partitions of Kafka 2.7.1, AZ by AZ",
    "001": "Article 001: eight network partitions and five causes of loss",
    "002": "Articles 002 and 004: the high watermark and leader epochs",
    "003": "Article 003: two controllers in KRaft",
    "beyond": "Beyond the articles",
    "transactions": "Transactions, consumer groups and idempotence",
}
_QUESTIONS = {
    f"operator.{name}"
    for name, method in inspect.getmembers(Operator, inspect.isfunction)
    if method.__annotations__.get("return") != "Injection"
}
"""An operator's methods that change nothing."""
_INTRO = """\
# Catalogue

`python -m scenarios.document` generates this page from `scenarios/`. `acked list` lists the scenarios,
`acked run NAME` runs one, and `acked run --all` runs all of them. [Repeats](repeats.md) shows how often each was
run and with what result. [The articles](articles.md) lists what the articles say, sentence by sentence. Articles
count brokers from 0 and acked from 1, so their broker-0 is `broker1`.

## Overview

| column | meaning |
|---|---|
| *lost* | which acknowledged messages a correct run loses, and why |
| *transactions and groups* | the [findings](findings.md#transactions) about them in a correct run |
| *as said* | how many claims a run must confirm |
| *otherwise* | how many claims a run must refute. Kafka does something else, and a run must confirm that |
"""
_DETAILS = """\
# Details

A claim is a sentence of the article, or one that acked adds. *As said* means that a run on real Kafka must confirm
it. If Kafka does something else, a run must refute the claim and confirm what Kafka does instead, which is in
italics. If Kafka may do one or the other, the table has both, and one of them must hold. A *precondition* only
establishes the situation for the other claims. Scenarios run with librdkafka; if the outcome differs with the Java
client (`--client java`), the table has both outcomes.

The pictures show stored runs: what each AZ sent, which leader each node named, and when the fault was in force.
[The page of a run](page.md#reading-the-pictures) explains how to read them. `python -m tests.runs.pictures` draws them.
"""


def document() -> str:
    """The whole catalogue as Markdown: an overview, then each scenario in detail."""
    scenarios = list(all_scenarios().values())
    articles = [name for name in _ARTICLES if any(scenario.article == name for scenario in scenarios)]
    others = sorted({scenario.article for scenario in scenarios} - set(_ARTICLES))
    groups = [
        (name, [scenario for scenario in scenarios if scenario.article == name])
        for name in (*articles, *others)
    ]
    parts = [_INTRO, *(_overview(name, chosen) for name, chosen in groups), _DETAILS]
    for name, chosen in groups:
        parts.append(f"## {_heading(name)}\n")
        parts += [_section(one) for one in chosen]
    return "\n".join(parts)


def _heading(article: str) -> str:
    return _ARTICLES.get(article, "Others")


def _overview(article: str, scenarios: Sequence[Scenario]) -> str:
    lines = [f"### {_heading(article)}, in short\n"]
    headings = ["scenario", "Kafka", "outcome", "lost", "as said", "otherwise"]
    shows_findings = any(_of_transactions_and_groups(scenario) != _NONE for scenario in scenarios)
    if shows_findings:
        headings.insert(4, "transactions and groups")
    lines.append(f"| {' | '.join(headings)} |")
    lines.append("|" + "---|" * len(headings))
    for one in scenarios:
        claims = [claim for claim in one.claims if speaks_of(claim, one.kafka) and not claim.precondition]
        otherwise = sum(_erratum_of(claim, one.kafka) for claim in claims)
        cells = (
            f"[{one.name}](#{one.name})<br>{one.title}",
            f"{one.kafka} ({one.mode})",
            one.outcome or "see the claims",
            _lost(one),
            *([_of_transactions_and_groups(one)] if shows_findings else []),
            str(len(claims) - otherwise),
            str(otherwise),
        )
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return "\n".join((*lines, ""))


def _erratum_of(claim: Claim, version: str) -> bool:
    return claim.erratum is not None and speaks_of(claim.erratum, version)


def _lost(scenario: Scenario) -> str:
    reasons = [
        entry.because
        for entry in scenario.expected
        if entry.finding in LOSSES and speaks_of(entry, scenario.kafka)
    ]
    return "; ".join(dict.fromkeys(reasons)) or "nothing"


def _of_transactions_and_groups(scenario: Scenario) -> str:
    """The classes of findings about transactions and groups that a correct run has."""
    findings = (entry.finding for entry in scenario.expected if speaks_of(entry, scenario.kafka))
    return ", ".join(f"`{name}`" for name in _unique(findings) if name in TRANSACTIONS_AND_GROUPS) or _NONE


def _section(scenario: Scenario) -> str:
    lines = [f"### {scenario.name}\n", f"{scenario.title}. {_about(scenario)}\n"]
    anchor = " §".join(part for part in (scenario.article, scenario.section) if part not in ("", "-"))
    about = f"{anchor or 'beyond the articles'} · Kafka {scenario.kafka} ({scenario.mode})"
    lines.append(f"*{about}*  ")
    lines.append(f"Outcome: {scenario.outcome or 'see the claims'}.\n")
    if (FILE.parent / PICTURES / f"{scenario.name}.svg").is_file():
        lines.append(
            f"![A run of {scenario.name}: sends, leaders and faults]({PICTURES}/{scenario.name}.svg)\n"
        )
    setup = scenario.setup
    topics = "; ".join(_topic(scenario, name) for name in dict.fromkeys(topic.name for topic in setup.topics))
    lines.append(f"Set-up: controller {setup.controller}; {_quorum(scenario)}{topics}{_config(scenario)}.\n")
    if scenario.aliases:
        named = ", ".join(f"{name} is {host}" for name, host in scenario.aliases.items())
        lines.append(f"Of the names in the sentences, {named}.\n")
    steps = list(_steps(scenario.body))
    if steps:
        lines.append("Sequence:\n")
        lines += [f"{number}. {step}" for number, step in enumerate(steps, 1)]
        lines.append("")
    if scenario.claims:
        lines.append("| claim | what the article (or acked) says | what Kafka did | why |")
        lines.append("|---|---|---|---|")
        lines += [f"| {' | '.join(map(_cell, _claim(claim)))} |" for claim in scenario.claims]
        lines.append("")
    expected = (
        f"{one.finding.replace('_', ' ')}: {one.because}"
        + (f" (with {_CLIENTS[one.client]})" if one.client else "")
        for one in scenario.expected
    )
    for entry in _unique(expected):
        lines.append(f"* expected finding, {entry}")
    lines.append(f"\nRun it: `acked run {scenario.name}`\n")
    return "\n".join(lines)


def _claim(claim: Claim) -> tuple[str, str, str, str]:
    """Name, sentence (with the article's own), what Kafka did, and why."""
    only = "precondition" if claim.precondition else _CLIENTS[claim.client] if claim.client else ""
    name = f"{claim.name} ({only})" if only else claim.name
    says = f"{claim.says} ({claim.section})" + (f"<br>“{claim.quote}”" if claim.quote else "")
    if claim.erratum:
        client = claim.erratum.client
        only = f"with {_CLIENTS[client]}: *{claim.erratum.says}*; else as said" if client else ""
        return name, says, only or f"*{claim.erratum.says}*", claim.erratum.because
    if claim.either:
        return name, says, f"as said, or: *{claim.either.says}*", claim.either.because
    return name, says, "as said", ""


def _about(scenario: Scenario) -> str:
    module = inspect.getmodule(scenario.body)
    text = inspect.getdoc(scenario.body) or inspect.getdoc(module) or ""
    return " ".join(text.split("\n\n")[0].split())


def _topic(scenario: Scenario, name: str) -> str:
    topic = next(one for one in scenario.setup.topics if one.name == name)
    replicas = ", ".join(map(str, topic.replicas))
    config = "".join(f", {key}={value}" for key, value in topic.config.items())
    return f"topic `{name}` on brokers {replicas}{config}"


def _quorum(scenario: Scenario) -> str:
    if scenario.setup.quorum == "every AZ" or scenario.mode not in ("zookeeper", "kraft"):
        return ""
    return "one ZooKeeper node; " if scenario.mode == "zookeeper" else "one controller; "


def _config(scenario: Scenario) -> str:
    given = scenario.setup.broker_config
    return "; brokers with " + ", ".join(f"{key}={value}" for key, value in given.items()) if given else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _unique(texts: Iterator[str]) -> list[str]:
    return list(dict.fromkeys(texts))


def _steps(body: Callable[[Stage], None], depth: int = 0) -> Iterator[str]:
    """Marks, faults and an operator's actions in the order of the body's source, with its module's helpers'."""
    function = ast.parse(textwrap.dedent(inspect.getsource(body))).body[0]
    names = body.__globals__
    for call in _calls(function):
        name = _called(call.func)
        if name == "stage.mark" and len(call.args) > 1:
            yield _text(call.args[1], names)
        elif name == "stage.nemesis.add" or name.endswith(").inject"):
            continue  # what it does has a line of its own
        elif name.removeprefix("stage.") in _QUESTIONS:
            continue
        elif name.startswith(("stage.nemesis.", "stage.operator.", "operator.")) or name in (
            "stage.kill",
            "stage.restart",
        ):
            words = re.sub(r"^(stage\.)?(nemesis\.)?(operator\.)?(act$)?", "", name)
            words = words.replace("_", " ").replace(".", " ").strip()
            arguments = ", ".join(_text(arg, names) for arg in call.args)
            yield f"**{words} {arguments}**" if words else f"**{arguments}**"
        elif depth < 2 and call.args and ast.unparse(call.args[0]) == "stage":
            helper = names.get(name)
            if inspect.isfunction(helper) and helper.__module__ == body.__module__:
                yield from _steps(helper, depth + 1)


def _called(function: ast.expr) -> str:
    """The name of what is called; of `a.x if ... else a.y`, `a.x or y`."""
    if isinstance(function, ast.IfExp):
        return f"{_called(function.body)} or {_called(function.orelse).rpartition('.')[2]}"
    return ast.unparse(function)


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    calls = [child for child in ast.walk(node) if isinstance(child, ast.Call)]
    yield from sorted(calls, key=lambda call: (call.lineno, call.col_offset))


def _text(node: ast.expr, names: Mapping[str, object]) -> str:
    """An argument in words; names of the module's constants become their texts."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.Name) and isinstance(value := names.get(node.id), str):
        return value
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.FormattedValue) else part for part in node.values)
        texts = ((part, _text(part, names)) for part in parts)
        return "".join("…" if text == ast.unparse(part) else text for part, text in texts)
    if isinstance(node, ast.Starred):
        return "all of them"
    if isinstance(node, ast.Call):
        return "…"  # known only when it runs
    return ast.unparse(node)


def main(argv: list[str]) -> int:
    """Write the page; with `--check`, only say whether it is up to date."""
    text = document()
    if argv == ["--check"]:
        current = FILE.read_text() if FILE.exists() else ""
        if current != text:
            sys.stderr.write(f"{FILE} is out of date; run `python -m scenarios.document`.\n")
            return 1
        return 0
    FILE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

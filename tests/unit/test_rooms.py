"""Which room may import which: in one direction only, and without circles (`docs/architecture.md`)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = (
    "acked",
    "harness",
    "nemesis",
    "workloads",
    "checkers",
    "scenarios",
    "report",
    "compose",
    "benchmarks",
    "tests",
)

HARNESS_BASE = (
    *("harness.errors", "harness.clock", "harness.privileges", "harness.processors", "harness.secrets"),
    *("harness.texts", "harness.version", "harness.waiting"),
    "harness.plain_files",
)
MAY_IMPORT: Mapping[str, tuple[str, ...]] = {
    "acked": ("acked", "harness", "nemesis", "workloads", "checkers.claims.builders", "scenarios.steps"),
    "harness": ("harness",),
    "harness/artifacts": (
        *("harness.artifacts", "harness.console", "harness.extras", "harness.kafka"),
        *("harness.lab.embedded.namespaces", *HARNESS_BASE),
    ),
    "harness/cluster": (
        *("harness.cluster", "harness.artifacts", "harness.history.journal", "harness.kafka", "harness.lab"),
        *("harness.zookeeper", *HARNESS_BASE),
    ),
    "harness/observer": (
        *("harness.observer", "harness.history", "harness.kafka", "harness.lab.model"),
        *("harness.zookeeper", *HARNESS_BASE),
    ),
    "harness/zookeeper": ("harness.zookeeper", "harness.kafka.config", "harness.kafka.model", *HARNESS_BASE),
    "harness/lab": (
        *(
            "harness.lab",
            "harness.artifacts.cache",
            "harness.fork_server",
            "harness.kafka.model",
            *HARNESS_BASE,
        ),
    ),
    "harness/lab/docker": (
        *("harness.lab.model", "harness.lab.layout", "harness.lab.docker", "harness.artifacts.cache"),
        *HARNESS_BASE,
    ),
    "harness/lab/embedded": (
        *("harness.lab.model", "harness.lab.layout", "harness.lab.embedded", "harness.fork_server"),
        *HARNESS_BASE,
    ),
    "harness/kafka": ("harness.kafka", *HARNESS_BASE),
    "harness/history": ("harness.history", *HARNESS_BASE),
    "harness/run": (
        *("harness.artifacts", "harness.cluster", "harness.console", "harness.doctor", "harness.history"),
        *("harness.kafka", "harness.lab", "harness.observer", "harness.run", "harness.scenario"),
        *("harness.zookeeper.four_letter", "nemesis", "workloads", "checkers", "scenarios", *HARNESS_BASE),
    ),
    "harness/series": (
        *(
            "harness.doctor",
            "harness.series",
            "harness.run",
            "harness.scenario",
            "harness.console",
            "harness.fork_server",
        ),
        *("harness.kafka", "harness.lab", "checkers", *HARNESS_BASE),
    ),
    "harness/series/rejudge.py": ("harness.series", "harness.run", "checkers", "report", *HARNESS_BASE),
    "harness/assess": (
        *("harness.assess", "harness.cluster", "harness.console", "harness.doctor"),
        *("harness.history.schema", "harness.kafka", "harness.lab"),
        *("harness.run", "harness.scenario", "harness.series", "nemesis", "workloads", "checkers"),
        *HARNESS_BASE,
    ),
    "harness/search": (
        *("harness.search", "harness.assess", "harness.cluster", "harness.console", "harness.doctor"),
        *("harness.kafka", "harness.lab", "harness.run", "harness.scenario", "harness.series"),
        *("harness.zookeeper.four_letter", "nemesis", "workloads", "checkers", *HARNESS_BASE),
    ),
    "harness/cli": ROOMS[1:7],
    "nemesis": ("nemesis", "harness"),
    "nemesis/network": (
        *("nemesis.network", "nemesis.proof", "nemesis.context", "nemesis.fault", "nemesis.registry"),
        *("harness.lab.model", *HARNESS_BASE),
    ),
    "nemesis/processes": (
        *("nemesis.processes", "nemesis.context", "nemesis.fault"),
        *("harness.history.journal", "harness.lab.model", *HARNESS_BASE),
    ),
    "nemesis/storage": (
        *("nemesis.storage", "nemesis.processes", "nemesis.fault", "nemesis.registry"),
        *("harness.kafka", "harness.kernel_probes", "harness.lab", "harness.tools", *HARNESS_BASE),
    ),
    "nemesis/proof": ("nemesis", "harness.lab.model", *HARNESS_BASE),
    "workloads": ("workloads", "harness"),
    "workloads/java": (),
    "workloads/protocol": ("workloads.protocol", "harness.kafka.model", "harness.errors"),
    "workloads/client": (
        *("workloads.client", "workloads.protocol", "harness.lab.model", "harness.kafka.model"),
        *HARNESS_BASE,
    ),
    "workloads/agent": (
        *("workloads.agent", "workloads.protocol", "harness.history.journal", "harness.history.identity"),
        *("harness.kafka.model", "harness.kafka.wire", *HARNESS_BASE),
    ),
    "checkers": (
        *("checkers", "harness.history.schema", "harness.kafka.model", "harness.kafka.versions"),
        *("harness.errors", "harness.plain_files"),
    ),
    "checkers/partition": ("checkers.partition", "harness.errors"),
    "checkers/fast": (
        *("checkers.fast", "checkers.claims", "checkers.evidence", "checkers.health", "checkers.partition"),
        *("checkers.promises", "checkers.spark", "checkers.tables", "checkers.transactions"),
        *("harness.history.schema", "harness.kafka.model", "harness.errors"),
    ),
    "checkers/groups": (
        *("checkers.groups", "checkers.causes", "checkers.evidence", "checkers.partition", "checkers.tables"),
        *("harness.kafka.model", "harness.errors"),
    ),
    "checkers/tables": (
        *("checkers.tables", "checkers.causes", "checkers.evidence", "checkers.groups", "checkers.removals"),
        *("checkers.partition", "checkers.transactions"),
        *("harness.history.schema", "harness.kafka.model", "harness.errors", "harness.plain_files"),
    ),
    "checkers/transactions": (
        *("checkers.transactions", "checkers.causes", "checkers.evidence", "checkers.partition"),
        *("checkers.tables", "harness.errors"),
    ),
    "checkers/claims": (
        *("checkers.claims", "checkers.spark", "checkers.tables", "checkers.partition.fate"),
        *("harness.history.schema", "harness.errors"),
    ),
    "checkers/ask": (
        *("checkers.ask", "checkers.claims", "checkers.evidence", "checkers.partition", "checkers.spark"),
        *("checkers.tables", "harness.history.schema", "harness.errors", "harness.plain_files"),
    ),
    "checkers/ask/jepsen": (
        *("checkers.ask.jepsen", "checkers.ask.sql", "checkers.partition.logs", "checkers.tables"),
        *("harness.history.schema", "harness.errors", "harness.plain_files"),
    ),
    "checkers/spark": (
        *("checkers.spark", "checkers.evidence", "checkers.promises", "checkers.run_folder"),
        *("checkers.tables", "checkers.transactions", "harness.history.schema", "harness.errors"),
    ),
    "checkers/spark/cluster.py": ("checkers", "harness.errors"),
    "checkers/spark/warm.py": ("checkers", "harness.history.schema", "harness.errors"),
    "checkers/promises": (
        *("checkers.promises", "checkers.convergence", "checkers.evidence", "checkers.partition"),
        "checkers.verdict",
        *(
            "checkers.tables",
            "harness.kafka.bugs",
            "harness.kafka.model",
            "harness.kafka.versions",
            "harness.errors",
        ),
    ),
    "checkers/promises/table.py": (),
    "checkers/verdict.py": ("checkers.claims.evaluate", "harness.errors"),
    "checkers/claims/builders": (
        *("checkers.claims.builders", "checkers.partition.fate", "harness.processors.BUSY_PERCENT"),
    ),
    "scenarios": ("scenarios", "harness", "nemesis", "workloads", "checkers.claims"),
    "scenarios/document.py": ("scenarios", "harness", "checkers"),
    "scenarios/repeats.py": ("scenarios", "harness", "report"),
    "report": (
        *("report", "checkers.verdict.NOT_JUDGED", "checkers.verdict.VERDICTS"),
        *("harness.console.Console", "harness.errors"),
    ),
    "report/model": (
        *("report.model", "checkers.partition.fate.LOSSES", "harness.history.schema", "harness.errors"),
        "harness.plain_files",
    ),
    "report/page": (
        *("report.page", "report.model", "checkers.verdict.NOT_JUDGED", "checkers.verdict.VERDICTS"),
        *("harness.errors", "harness.plain_files"),
    ),
    "compose": ("compose",),
}
"""Folder or module → what it may import of this project; the longest entry that fits counts."""

NOT_IN: Mapping[str, tuple[str, ...]] = {
    "checkers/partition": ("pyspark", "pyarrow", "pandas"),
    "checkers/groups": ("pyspark",),
    "checkers/tables": ("pyspark",),
    "checkers/transactions": ("pyspark",),
    "checkers/promises": ("pyspark",),
    "checkers/promises/table.py": ("pyspark", "pyarrow", "pandas", "numpy"),
    "checkers/verdict.py": ("pyspark", "pyarrow", "pandas", "numpy"),
    "nemesis/proof/agent.py": ("harness", "kazoo", "confluent_kafka"),
    "nemesis/proof/half_open.py": ("harness", "kazoo", "confluent_kafka"),
    "nemesis/proof/sockets.py": ("harness", "kazoo", "confluent_kafka"),
    "workloads/agent": ("pyspark", "pyarrow", "pandas", "numpy"),
    "workloads/protocol": ("pyspark", "pyarrow", "pandas", "numpy", "confluent_kafka"),
    "report": ("pyspark", "pyarrow", "pandas", "numpy"),
    "report/model": ("pyspark", "pandas"),
}
"""Folder or module → packages it must do without at any depth of its code; the longest entry counts."""


def _modules() -> list[Path]:
    return sorted(path for room in ROOMS[:8] for path in (ROOT / room).rglob("*.py"))


def imports(source: str) -> Iterator[str]:
    """Dotted names of all imports in ``source``, at any depth of the code."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _is_or_is_in(name: str, place: str, separator: str) -> bool:
    return name == place or name.startswith(place + separator)


def allowed(module: str) -> tuple[str, ...]:
    """The parts of this project that a module (its path relative to the checkout) may import."""
    fitting = [place for place in MAY_IMPORT if _is_or_is_in(module, place, "/")]
    return MAY_IMPORT[max(fitting, key=len)]


def forbidden(module: str, source: str) -> list[str]:
    """Imports in ``source`` that its room does not allow."""
    names = allowed(module)
    without = max(
        ((place, left) for place, left in NOT_IN.items() if _is_or_is_in(module, place, "/")),
        key=lambda rule: len(rule[0]),
        default=("", ()),
    )[1]
    return [
        found
        for found in imports(source)
        if (found.split(".")[0] in ROOMS and not any(_is_or_is_in(found, name, ".") for name in names))
        or any(_is_or_is_in(found, name, ".") for name in without)
    ]


@pytest.mark.parametrize("path", _modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_only_what_its_room_may(path: Path) -> None:
    module = str(path.relative_to(ROOT))
    assert forbidden(module, path.read_text()) == [], f"{module} may import {', '.join(allowed(module))}"


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("harness/lab/model.py", "from nemesis.network.links import Link"),
        ("harness/lab/model.py", "from harness.cluster.model import Cluster"),
        ("harness/lab/model.py", "def late():\n    import checkers.judge"),
        ("harness/run/runner.py", "from harness.cli.commands import app"),
        ("harness/run/runner.py", "from harness.series.cell import Cell"),
        ("harness/run/session.py", "from report import terminal"),
        ("harness/series/cell.py", "from harness.cli.commands import app"),
        ("harness/series/summary.py", "from report.series import table"),
        ("harness/search/hunt.py", "from report.search import findings"),
        ("harness/search/grammar.py", "from scenarios.steps import seed"),
        ("harness/series/standing.py", "from harness.search.fleet import Fleet"),
        ("nemesis/network/cut.py", "from nemesis.nemesis import Nemesis"),
        ("nemesis/processes/killing.py", "from nemesis.network.cut import Cut"),
        ("harness/artifacts/ivy.py", "from harness.cluster.model import Cluster"),
        ("harness/lab/embedded/lab.py", "from harness.lab.docker.lab import DockerLab"),
        ("checkers/fast/run.py", "from checkers.judge import judge"),
        ("checkers/claims/evaluate.py", "from checkers.judge import judge"),
        ("nemesis/nemesis.py", "from workloads.client.client import Client"),
        ("nemesis/proof/agent.py", "from harness.errors import AckedError"),
        ("workloads/agent/main.py", "from workloads.client.client import Client"),
        ("workloads/agent/main.py", "import numpy"),
        ("workloads/client/client.py", "from workloads.agent.dispatcher import Dispatcher"),
        ("workloads/protocol/spec.py", "from workloads.agent import main"),
        ("checkers/judge.py", "from harness.lab import model"),
        ("checkers/judge.py", "import harness.waiting"),
        ("checkers/verdict.py", "from checkers.judge import judge"),
        ("checkers/verdict.py", "import pyarrow as pa"),
        ("checkers/promises/judging.py", "from pyspark.sql import SparkSession"),
        ("checkers/promises/judging.py", "from checkers.judge import judge"),
        ("checkers/promises/table.py", "import pyarrow as pa"),
        ("checkers/promises/table.py", "from checkers.evidence import Evidence"),
        ("checkers/partition/fates.py", "import pyarrow as pa"),
        ("checkers/partition/fates.py", "def late():\n    from pyspark.sql import SparkSession"),
        ("checkers/partition/fates.py", "from checkers.tables import source"),
        ("checkers/tables/source.py", "from pyspark.sql import SparkSession"),
        ("scenarios/article000/bridge.py", "from checkers.judge import judge"),
        ("report/terminal.py", "from harness.scenario import Claim"),
        ("report/terminal.py", "import numpy as np"),
        ("report/model/gather.py", "from checkers.verdict import decide"),
        ("report/model/gather.py", "from pyspark.sql import SparkSession"),
        ("report/page/render.py", "import pyarrow as pa"),
        ("workloads/agent/main.py", "from tests.unit import fake"),
    ],
)
def test_a_forbidden_import_is_seen(module: str, source: str) -> None:
    assert forbidden(module, source)


def test_only_one_console_prints_values_of_others() -> None:
    """`harness.console` makes their control characters visible."""
    sources = {path: path.read_text() for path in _modules()}
    assert [path for path, text in sources.items() if "rich.console.Console" in set(imports(text))] == []
    assert [path for path, text in sources.items() if "typer.echo" in text and "cli" in path.parts] == []


def test_an_import_in_a_comment_or_text_is_none() -> None:
    source = '# import nemesis\ntext = "import nemesis"\nimport nemesis_of_others\n'
    assert forbidden("harness/lab/model.py", source) == []


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _graph() -> dict[str, set[str]]:
    """Module → modules of this project that it imports, those imported for type checking included."""
    sources = {_name(path): path.read_text() for path in _modules()}
    graph: dict[str, set[str]] = {}
    for name, source in sources.items():
        found = {
            max((m for m in sources if _is_or_is_in(i, m, ".")), key=len, default="") for i in imports(source)
        }
        graph[name] = found - {name, ""}
    return graph


def circles(graph: Mapping[str, set[str]]) -> list[frozenset[str]]:
    """Sets of modules that import each other, directly or indirectly."""
    reach: dict[str, set[str]] = {}
    for start in graph:
        seen: set[str] = set()
        ahead = list(graph[start])
        while ahead:
            one = ahead.pop()
            if one not in seen:
                seen.add(one)
                ahead += graph.get(one, ())
        reach[start] = seen
    return list(
        {frozenset(m for m in reach[name] if name in reach[m]) for name in graph if name in reach[name]}
    )


def test_no_circle_of_imports() -> None:
    assert circles(_graph()) == []


def test_a_circle_is_seen() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == [frozenset({"b", "c"})]


def test_every_package_says_what_it_holds_where_it_runs_and_what_it_may_import() -> None:
    silent = []
    for path in (path for path in _modules() if path.name == "__init__.py"):
        text = " ".join((ast.get_docstring(ast.parse(path.read_text())) or "").split()).lower()
        silent += [
            f"{path.relative_to(ROOT)}: {word}"
            for word in ("run", "import")
            if not re.search(rf"\b{word}s?\b", text)
        ]
    assert silent == []

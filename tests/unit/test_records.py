"""Records of many fields are built by keyword, constants are defined once, and groups keep their order."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping

from tests.floors import ROOT
from tests.unit.test_floors import PACKAGES

MOST_BY_POSITION = 4
BUILT_OFTEN = {("harness/kafka/batches.py", name) for name in ("Batch", "Record", "_Message")}
"""Named tuples, because one is built for each record or batch of a log. They are built by keyword too."""
LOCAL = {
    *("ANSWER_S", "ANSWER_WITHIN_S", "END_S", "MARGIN_S", "POLL_S"),
    "INFO",
    "WIDTH",
}
"""Names that mean another thing in each module (time-outs, a state of TCP and an outcome, widths of texts);
equal values are chance."""


def _sources(*rooms: str) -> dict[str, str]:
    return {
        str(path.relative_to(ROOT)): path.read_text()
        for room in rooms
        for path in sorted((ROOT / room).rglob("*.py"))
    }


def _fields_by_position(record: ast.ClassDef) -> int:
    """How many fields of a data class, struct or named tuple may come by position; 0 for other classes."""
    kinds = [*record.decorator_list, *record.bases]
    if not any(word in ast.unparse(kind) for kind in kinds for word in ("dataclass", "NamedTuple", "Struct")):
        return 0
    calls = [kind for kind in kinds if isinstance(kind, ast.Call)]
    keywords = [*record.keywords, *(word for call in calls for word in call.keywords)]
    if any(word.arg == "kw_only" and ast.unparse(word.value) == "True" for word in keywords):
        return 0
    found = 0
    for field in record.body:
        if isinstance(field, ast.AnnAssign):
            if "KW_ONLY" in ast.unparse(field.annotation):
                break
            found += "ClassVar" not in ast.unparse(field.annotation)
    return found


def positional(sources: Mapping[str, str]) -> Iterator[str]:
    """Records that take more than four fields by position."""
    for module, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef):
                many = _fields_by_position(node) > MOST_BY_POSITION
                if many and (module, node.name) not in BUILT_OFTEN:
                    yield f"{module}: {node.name}"


def _defined(source: str) -> Iterator[tuple[str, str]]:
    """Names and values of a module's constants; a leading underscore does not count."""
    for node in ast.parse(source).body:
        target, value = None, None
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
        elif isinstance(node, ast.AnnAssign):
            target, value = node.target, node.value
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=True))
        for name, held in pairs:
            if isinstance(name, ast.Name) and held is not None and name.id.isupper():
                yield name.id.strip("_"), ast.unparse(held)


def twice(sources: Mapping[str, str]) -> list[str]:
    """Constants of the same name and value in several modules."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for module, source in sources.items():
        for name, value in _defined(source):
            if not value.startswith(("TypeVar(", "ParamSpec(")):
                found[name, value].append(module)
    return [
        f"{name} = {value}: {', '.join(modules)}"
        for (name, value), modules in found.items()
        if len(modules) > 1 and name not in LOCAL
    ]


def test_records_of_many_fields_are_built_by_keyword() -> None:
    assert list(positional(_sources(*PACKAGES))) == []


def test_named_tuples_of_many_fields_are_called_by_keyword() -> None:
    names = {name for _, name in BUILT_OFTEN}
    calls = [
        (module, node)
        for module, source in _sources("harness/kafka").items()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names
    ]
    assert len(calls) >= len(names)
    assert [f"{module}:{node.lineno}" for module, node in calls if node.args] == []


def test_a_record_by_position_is_seen() -> None:
    fields = "".join(f"    {name}: int\n" for name in "abcde")
    records = {
        "plain.py": f"@dataclass\nclass R:\n{fields}",
        "frozen.py": f"@dataclass(frozen=True)\nclass R:\n{fields}",
        "named.py": f"class R(NamedTuple):\n{fields}",
        "struct.py": f"class R(msgspec.Struct):\n{fields}",
        "keyword.py": f"@dataclass(kw_only=True)\nclass R:\n{fields}",
        "keyword_struct.py": f"class R(msgspec.Struct, kw_only=True):\n{fields}",
        "mixed.py": f"@dataclass\nclass R:\n    first: int\n    _: KW_ONLY\n{fields}",
        "other.py": f"class R:\n{fields}",
    }
    assert [line.split(".")[0] for line in positional(records)] == ["plain", "frozen", "named", "struct"]


def test_a_constant_is_defined_once() -> None:
    """Scenarios are left out: each names its own topics, brokers and times."""
    assert twice(_sources(*(room for room in PACKAGES if room != "scenarios"))) == []


def test_a_constant_that_is_defined_twice_is_seen() -> None:
    assert twice({"a.py": "LIMIT_S = 3.0", "b.py": "_LIMIT_S: float = 3.0"}) == ["LIMIT_S = 3.0: a.py, b.py"]
    assert twice({"a.py": "LOW, HIGH = 1, 2", "b.py": "HIGH = 2"}) == ["HIGH = 2: a.py, b.py"]
    assert twice({"a.py": "LIMIT_S = 3.0", "b.py": "LIMIT_S = 4.0", "c.py": 'T = TypeVar("T")'}) == []
    assert twice({"a.py": "POLL_S = 0.2", "b.py": "POLL_S = 0.2"}) == []


def grouped_in_any_order(source: str) -> list[int]:
    """Lines on which Arrow groups rows with threads, which puts the groups in another order each time."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "group_by"
        and not any(word.arg == "use_threads" for word in node.keywords)
    ]


def test_groups_keep_the_order_of_their_rows() -> None:
    assert grouped_in_any_order("life.group_by(columns).aggregate([])") == [1]
    sources = _sources(*PACKAGES, "tests", "benchmarks")
    grouping = {at: source for at, source in sources.items() if ".group_by(" in source}
    assert grouping
    assert {at: lines for at, source in grouping.items() if (lines := grouped_in_any_order(source))} == {}

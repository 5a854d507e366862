"""Annotations of the checker say something: `Any` is the exception."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import checkers

MOST = 0.03
"""Share of annotations that may name `Any`: JSON of run folders, and objects of the JVM."""


def annotations(source: str) -> Iterator[ast.expr]:
    """Annotations of parameters, results and variables."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            parameters = node.args
            arguments = [
                *parameters.posonlyargs,
                *parameters.args,
                *parameters.kwonlyargs,
                parameters.vararg,
                parameters.kwarg,
            ]
            yield from (one.annotation for one in arguments if one is not None and one.annotation is not None)
            if node.returns is not None:
                yield node.returns
        elif isinstance(node, ast.AnnAssign):
            yield node.annotation


def names_any(annotation: ast.expr) -> bool:
    """Whether `Any` stands anywhere in an annotation."""
    return any(isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(annotation))


def test_any_is_the_exception() -> None:
    folder = Path(str(checkers.__file__)).parent
    annotated = [one for path in folder.rglob("*.py") for one in annotations(path.read_text())]
    share = sum(map(names_any, annotated)) / len(annotated)
    assert share < MOST, f"{share:.1%} of {len(annotated)} annotations in checkers/ name Any"


def test_any_is_seen_inside_other_types() -> None:
    source = "def f(a: dict[str, Any], *b: int, c: Any = 0) -> list[Any]: ...\nx: int = 1\n"
    assert [names_any(one) for one in annotations(source)] == [True, True, False, True, False]

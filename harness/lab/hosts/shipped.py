"""Modules of this project as one text that the Python of a host runs, which may be 3.6.

Annotations are left out, because older versions do not understand them; the rest of a module that is shipped
uses the grammar and the standard library of 3.6 (a test asks a parser of that version).
"""

from __future__ import annotations

import ast
import importlib.util
import json
import threading
from functools import cache
from pathlib import Path

OLDEST = (3, 6)
_OWN = ("harness", "nemesis")
_ONE_AT_A_TIME = threading.Lock()
"""In Python 3.11 and 3.12, several threads that parse at once may raise SystemError."""
_FOR_ANNOTATIONS = ("__future__", "typing", "collections.abc")


class _Bare(ast.NodeTransformer):
    """Leaves out what only type checkers read."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        for one in (*every, arguments.vararg, arguments.kwarg):
            if one is not None:
                one.annotation = None
        node.returns = None
        self.generic_visit(node)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        self.generic_visit(node)
        if node.value is None:
            return None if isinstance(node.target, ast.Name) else ast.Pass()
        return ast.copy_location(ast.Assign(targets=[node.target], value=node.value), node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        return None if node.module in _FOR_ANNOTATIONS else node


def bare(source: str) -> str:
    """A module's text without annotations and what serves only them."""
    return ast.unparse(ast.fix_missing_locations(_Bare().visit(ast.parse(source)))) + "\n"


def shipped(module: str) -> str:
    """A program that calls `main` of the module, with those of this project that it imports."""
    with _ONE_AT_A_TIME:
        return _shipped(module)


@cache
def _shipped(module: str) -> str:
    texts: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in texts:
            continue
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.origin is not None, name
        texts[name] = bare(Path(spec.origin).read_text())
        for node in ast.walk(ast.parse(texts[name])):
            if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] in _OWN:
                waiting.append(str(node.module))
    packages = {name.rpartition(".")[0] for name in texts} | {name.partition(".")[0] for name in texts}
    order = [*sorted(packages), *reversed(texts)]  # what is imported comes before what imports it
    return (
        "import json, sys, types\n"
        f"texts = json.loads({json.dumps(json.dumps(texts))})\n"
        f"for name in {order!r}:\n"
        "    module = sys.modules[name] = types.ModuleType(name)\n"
        "    module.__path__ = []\n"
        "    exec(compile(texts.get(name, ''), name, 'exec'), module.__dict__)\n"
        f"sys.modules[{module!r}].main()\n"
    )


def reader(source: str) -> str:
    """A text for `python -c` that takes a program from its standard input, and runs it on the rest."""
    return f"import sys; exec(compile(sys.stdin.buffer.read({len(source.encode())}), 'acked', 'exec'))"

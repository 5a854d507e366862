"""Edits of the checker's source that tests must notice."""

from __future__ import annotations
import __future__

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any


@dataclass(frozen=True)
class Mutant:
    """An edit of a function's source, and the kinds of histories that must notice it."""

    function: Callable[..., Any]
    was: str
    becomes: str
    by: tuple[str, ...] = ()
    """`written`: hand-written (`fates`: of which the fates are looked at); `damaged`: made by hypothesis;
    `blocks`: with readers, judged together and two rows at a time;
    `planted`: transactions made by hypothesis; `transactions`: hand-written ones."""


def mutated(mutant: Mutant) -> FunctionType:
    """The function with its edit; its globals are those of the original."""
    source = textwrap.dedent(inspect.getsource(mutant.function))
    assert source.count(mutant.was) == 1, f"{mutant.was!r} must stand once in {mutant.function.__name__}"
    made: dict[str, Any] = {}
    edited = source.replace(mutant.was, mutant.becomes)
    code = compile(edited, "<mutant>", "exec", flags=__future__.annotations.compiler_flag)
    exec(code, mutant.function.__globals__, made)
    function = made[mutant.function.__name__]
    assert isinstance(function, FunctionType)
    return function

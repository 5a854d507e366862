"""Options of one concern as one object: commands declare parameters that are dataclasses of options.

Typer has no such parameters. `spread` gives it a function with an option for each field instead, and passes
the objects to the command, which can hand them on whole.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the fields of its dataclasses as parameters, in their place.

    A field is declared like a parameter of a command (`Annotated[..., typer.Option(...)]`), with its default.
    """
    parameters: dict[str, inspect.Parameter] = {}
    bundles: dict[str, type] = {}
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        bundle = parameter.annotation
        if not (isinstance(bundle, type) and is_dataclass(bundle)):
            parameters[parameter.name] = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            continue
        bundles[parameter.name] = bundle
        hints = get_type_hints(bundle, include_extras=True)
        for field in fields(bundle):
            assert field.name not in parameters, f"two options {field.name}"
            parameters[field.name] = inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=hints[field.name],
            )

    def run(**values: Any) -> None:
        for name, bundle in bundles.items():
            values[name] = bundle(**{field.name: values.pop(field.name) for field in fields(bundle)})
        command(**values)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
    run.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
    return run

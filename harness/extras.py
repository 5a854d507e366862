"""The optional parts of an installation: what each installs, and the message if one is missing."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path

EXTRAS: Mapping[str, tuple[str, ...]] = {
    "check": (
        *("pyspark", "pandas", "pyarrow", "numpy", "jinja2", "msgspec", "sqlglot", "prompt_toolkit"),
        *("fsspec", "requests", "starlette", "uvicorn", "hdrh"),
    ),
    "lab": (
        *("confluent_kafka", "kafka", "aiokafka", "kazoo", "docker", "mfusepy", "javaproperties", "yaml"),
        *("cryptography",),
        "cramjam",
    ),
}
"""The modules that each extra of `pyproject.toml` installs; `lab` installs those of `check` as well."""

OF_STORED_RUNS = (
    "check",
    "story",
    "sql",
    "import",
    "export",
    "report",
    "compare",
    "runs",
    "serve",
    "summary",
)
"""The commands for which the extra `check` is enough."""


def extra_of(module: str) -> str:
    """The extra that installs a module, given with its dotted name; empty if none does."""
    top = module.partition(".")[0]
    return next((extra for extra, modules in EXTRAS.items() if top in modules), "")


PREPARED = ".ready"
"""The file in an environment that `make setup` has prepared (`harness/setup.sh`)."""


def install(extra: str) -> str:
    """The command that installs an extra: in an environment that `make setup` made, that one."""
    return "make setup" if Path(sys.prefix, PREPARED).exists() else f"pip install 'acked[{extra}]'"


def missing(extra: str) -> list[str]:
    """The modules of an extra, and of those that it contains, that are not installed."""
    modules = (*EXTRAS["check"], *EXTRAS["lab"]) if extra == "lab" else EXTRAS[extra]
    return [module for module in modules if importlib.util.find_spec(module) is None]


def lacks(module: str, command: str) -> str:
    """The message for a command that needs a module of a missing extra; empty for any other module."""
    if not extra_of(module):
        return ""
    extra = extra_of(module) if command in OF_STORED_RUNS else "lab"
    return (
        f"This command needs the Python package {module.partition('.')[0]} of the extra {extra!r}, which is "
        f"not installed; run `{install(extra)}`."
    )

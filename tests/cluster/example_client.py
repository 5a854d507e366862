"""The example client in Python, loaded from its file, for client programs beside this one that change it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).parents[2] / "examples" / "clients" / "python_client.py"
_spec = importlib.util.spec_from_file_location("python_client", EXAMPLE)
assert _spec is not None
assert _spec.loader is not None
honest: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(honest)

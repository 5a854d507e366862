"""The formats of recordings that `acked import` reads."""

from __future__ import annotations

from collections.abc import Mapping

from harness.history.imports.column_map import ColumnMap
from harness.history.imports.dump_log import DumpLog
from harness.history.imports.format import Format
from harness.history.imports.jepsen import Jepsen
from harness.history.imports.kgo_verifier import KgoVerifier
from harness.history.imports.openchaos import OpenChaos
from harness.history.imports.verifiable import Verifiable

FORMATS: Mapping[str, type[Format]] = {
    form.name: form for form in (Jepsen, Verifiable, KgoVerifier, OpenChaos, DumpLog, ColumnMap)
}

"""Judging stored runs: one, many, or a folder of them; the worst verdict decides the exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from harness.errors import BadDataError
from harness.run.folder import MANIFEST, RunFolder
from report import terminal

_WORST_FIRST = ("crashed", "invalid", "violated", "unknown", "as declared")


def judge_folders(paths: Sequence[Path], *, as_json: bool) -> int:
    """Judge every run folder at or below ``paths``; returns the exit code of the worst."""
    from checkers.judge import judge
    from checkers.session import start_session

    folders = [folder for path in paths for folder in _runs_below(path)]
    session = start_session()
    judgements = [judge(session, folder.path) for folder in folders]
    shown: list[dict[str, Any]] = [judgement.as_json() for judgement in judgements]
    if as_json:
        print(json.dumps(shown[0] if len(shown) == 1 else shown, indent=2, default=str))  # noqa: T201
    else:
        for one in shown:
            terminal.show(one)
    worst = min(judgements, key=lambda judgement: _WORST_FIRST.index(judgement.verdict))
    return worst.exit_code


def judge_imported(path: Path, *, as_json: bool) -> int:
    """Judge a history that another program laid down; returns the exit code."""
    from checkers.judge import judge_import
    from checkers.session import start_session

    judgement = judge_import(start_session(), path)
    if as_json:
        print(json.dumps(judgement.as_json(), indent=2, default=str))  # noqa: T201
    else:
        terminal.show(judgement.as_json())
    return judgement.exit_code


def _runs_below(path: Path) -> Iterator[RunFolder]:
    if (path / MANIFEST).is_file():
        yield RunFolder.open(path)
        return
    if not path.is_dir():
        raise BadDataError(f"{path} does not exist, so there is no run to judge; `ls runs` shows the runs.")
    found = sorted(
        file.parent for file in path.rglob(MANIFEST) if "latest" not in file.relative_to(path).parts[:-1]
    )
    if not found:
        raise BadDataError(f"No run folder lies in {path}: none of its folders has a {MANIFEST}.")
    yield from (RunFolder.open(folder) for folder in found)

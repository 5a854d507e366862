"""Judging stored runs: one, many, or a folder of them; the worst verdict decides the exit code."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import BadDataError
from harness.run.folder import MANIFEST, RunFolder
from report import terminal

if TYPE_CHECKING:
    from checkers.judge import Judgement

_WORST_FIRST = ("crashed", "invalid", "violated", "unknown", "as declared")


def judge_folders(paths: Sequence[Path], *, as_json: bool, master: str = "") -> int:
    """Judge every run folder at or below ``paths``; returns the exit code of the worst.

    ``master`` is a Spark cluster that reaches the folders; without one they are judged here.
    """
    from checkers.judge import judge
    from checkers.session import start_session

    folders = [folder for path in paths for folder in _runs_below(path)]
    judgements: list[Judgement]
    if master:
        judgements = list(_judged_elsewhere(judge, [folder.path for folder in folders], master))
    else:
        session = start_session()
        judgements = [judge(session, folder.path) for folder in folders]
    shown: list[dict[str, Any]] = [judgement.as_json() for judgement in judgements]
    if as_json:
        print(json.dumps(shown[0] if len(shown) == 1 else shown, indent=2, default=str))  # noqa: T201
    else:
        for one in shown:
            terminal.show(one)
    worst = min(judgements, key=lambda judgement: _WORST_FIRST.index(judgement.verdict))
    status: int = worst.exit_code
    return status


def judge_imported(path: Path, *, as_json: bool, master: str = "") -> int:
    """Judge a history that another program laid down; returns the exit code."""
    from checkers.judge import judge_import
    from checkers.session import start_session

    judgement: Judgement
    if master:
        (judgement,) = _judged_elsewhere(judge_import, [path], master)
    else:
        judgement = judge_import(start_session(), path)
    if as_json:
        print(json.dumps(judgement.as_json(), indent=2, default=str))  # noqa: T201
    else:
        terminal.show(judgement.as_json())
    status: int = judgement.exit_code
    return status


def _judged_elsewhere(judge: Callable[..., Any], folders: Sequence[Path], master: str) -> Iterator[Any]:
    from checkers.cluster import cluster_session, scratch_beside

    with cluster_session(master) as session:
        for folder in folders:
            with scratch_beside(folder):
                yield judge(session, folder.resolve())


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

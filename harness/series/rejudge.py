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


def judge_folders(
    places: Sequence[Path | str], *, as_json: bool, master: str = "", plan: str = "auto"
) -> int:
    """Judge every run folder at or below ``places``; returns the exit code of the worst.

    A place with a scheme (`hdfs://…`) is the URI of one run. ``master`` is a Spark cluster that reaches the
    folders; without one they are judged here.
    """
    from checkers.judge import judge
    from checkers.spark.session import start_session

    folders: list[Path | str] = []
    for place in places:
        uri = isinstance(place, str) and "://" in place
        folders += [place] if uri else [folder.path for folder in _runs_below(Path(place))]
    judgements: list[Judgement]
    if master:
        judgements = list(_judged_elsewhere(judge, folders, master, plan))
    else:
        session = start_session()
        judgements = [judge(session, folder, plan=plan) for folder in folders]
    shown: list[dict[str, Any]] = [judgement.as_json() for judgement in judgements]
    if as_json:
        print(json.dumps(shown[0] if len(shown) == 1 else shown, indent=2, default=str))  # noqa: T201
    else:
        for one in shown:
            terminal.show(one)
    worst = min(judgements, key=lambda judgement: _WORST_FIRST.index(judgement.verdict))
    status: int = worst.exit_code
    return status


def judge_imported(place: Path | str, *, as_json: bool, master: str = "", plan: str = "auto") -> int:
    """Judge a history that another program laid down, by path or URI; returns the exit code."""
    from checkers.judge import judge_import
    from checkers.spark.session import start_session

    judgement: Judgement
    if isinstance(place, str) and "://" not in place:
        place = Path(place)
    if master:
        (judgement,) = _judged_elsewhere(judge_import, [place], master, plan)
    else:
        judgement = judge_import(start_session(), place, plan=plan)
    if as_json:
        print(json.dumps(judgement.as_json(), indent=2, default=str))  # noqa: T201
    else:
        terminal.show(judgement.as_json())
    status: int = judgement.exit_code
    return status


def _judged_elsewhere(
    judge: Callable[..., Any], places: Sequence[Path | str], master: str, plan: str
) -> Iterator[Any]:
    from checkers.spark.cluster import cluster_session, scratch_beside

    with cluster_session(master) as session:
        for place in places:
            if isinstance(place, str):
                yield judge(session, place, plan=plan)
            else:
                with scratch_beside(place):
                    yield judge(session, place.resolve(), plan=plan)


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

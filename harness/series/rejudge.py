"""Judging stored runs again: one, many, or a folder of them, here or on a Spark cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import DAMAGED, BadDataError, UsageError
from harness.run.folder import MANIFEST, RunFolder

if TYPE_CHECKING:
    from checkers.control import ControlResult
    from checkers.verdict import Judgement

Place = Path | str
"""A run folder, or the URI of one (`hdfs://…`)."""


def judge_folders(places: Sequence[Place], *, master: str = "", plan: str = "auto") -> list[Judgement]:
    """Judge every run folder at or below ``places``; a place with a scheme is the URI of one run.

    ``master`` is a Spark cluster that reaches the folders; without one they are judged here.
    """
    from checkers.judge import judge, require_run
    from checkers.run_folder import read_declared
    from checkers.spark.session import start_session

    folders: list[Place] = []
    for place in places:
        folders += [place] if _is_uri(place) else [folder.path for folder in _runs_below(Path(place))]
    for folder in folders:
        if not _is_uri(folder):
            require_run(str(folder))  # before Spark starts, which takes seconds
            read_declared(str(folder))
    if master:
        return list(_judged_on(master, judge, folders, plan))
    session = start_session()
    return [judge(session, folder, plan=plan) for folder in folders]


def judge_by(places: Sequence[Place], reference: str, *, plan: str = "auto") -> list[Judgement]:
    """Judge every run folder at or below ``places`` by what a scenario declares now; nothing is written.

    Raises UsageError for runs of another scenario, and for SQL that Spark does not understand.
    """
    from checkers.claims.understood import make_empty_tables, refused
    from checkers.judge import judge
    from checkers.spark.session import start_session
    from harness.run.catalogue import find
    from harness.run.claims import refuse
    from harness.run.client_choice import ClientChoice

    scenario = find(reference)
    declared = []
    folders = [folder for place in places for folder in _runs_below(Path(place))]
    for folder in folders:
        manifest = folder.manifest()
        if manifest.get("scenario") != scenario.name:
            raise UsageError(
                f"{folder.path} is a run of {manifest.get('scenario')!r}, and {reference} declares "
                f"{scenario.name!r}; name runs of that scenario."
            )
        recorded = manifest.get("client", {})
        if not isinstance(recorded, dict):
            raise BadDataError(f"{folder.path / MANIFEST} has a client that is no JSON object; {DAMAGED}.")
        client = ClientChoice(name=str(recorded.get("name", "librdkafka")))
        declared.append(scenario.declared(str(manifest.get("kafka") or ""), client.library))
    session = start_session()
    make_empty_tables(session)
    for one in declared:
        refuse(scenario, refused(session, one))
    return [
        judge(
            session,
            folder.path,
            write=False,
            plan=plan,
            by={
                "claims": one["claims"],
                "expected": one["expected"],
                "judged_by": one["judged_by"],
            },
        )
        for folder, one in zip(folders, declared, strict=True)
    ]


def judge_imported(place: Place, *, master: str = "", plan: str = "auto") -> Judgement:
    """Judge a history that another program laid down, by path or URI."""
    from checkers.judge import judge_import
    from checkers.spark.session import start_session

    place = place if _is_uri(place) else Path(place)
    if master:
        (judgement,) = _judged_on(master, judge_import, [place], plan)
        return judgement
    return judge_import(start_session(), place, plan=plan)


def run_controls(places: Sequence[Place], control: str, *, plan: str = "auto") -> list[ControlResult]:
    """Judge every run folder at or below ``places`` under a control (`checkers.control`)."""
    from checkers.control import require_control, run_control
    from checkers.spark.session import start_session

    require_control(control)
    for place in places:
        if _is_uri(place):
            raise UsageError(f"--control judges run folders of this machine; {place} is a URI.")
    folders = [folder.path for place in places for folder in _runs_below(Path(place))]
    session = start_session()
    return [run_control(session, folder, control, plan) for folder in folders]


def _is_uri(place: Place) -> bool:
    return isinstance(place, str) and "://" in place


def _judged_on(
    master: str, judge: Callable[..., Judgement], places: Sequence[Place], plan: str
) -> Iterator[Judgement]:
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

"""Judging stored runs again: one, many, or a folder of them, here or on a Spark cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import DAMAGED, BadDataError, UsageError
from harness.plain_files import folders_with
from run.folder import MANIFEST, RunFolder

if TYPE_CHECKING:
    from checkers.control import ControlResult
    from checkers.verdict import Judgement

RunLocation = Path | str
"""A run folder, or the URI of one (`s3://…`)."""


def judge_folders(places: Sequence[RunLocation], *, master: str = "") -> list[Judgement]:
    """Judge every run folder at or below ``places``; a place with a scheme is the URI of one run.

    ``master`` is a Spark cluster that reaches the folders; without one they are judged here.
    """
    from checkers.judge import judge, require_run
    from checkers.run_folder import read_declared
    from checkers.spark.session import start_session
    from checkers.tables.files import is_uri

    folders: list[RunLocation] = []
    for place in places:
        folders += [place] if is_uri(place) else [folder.path for folder in _runs_below(Path(place))]
    for folder in folders:
        require_run(str(folder))  # before Spark starts, which takes seconds
        read_declared(str(folder))
    if master:
        return list(_judged_on(master, judge, folders))
    session = start_session()
    return [judge(session, folder) for folder in folders]


def judge_by(places: Sequence[RunLocation], reference: str) -> list[Judgement]:
    """Judge every run folder at or below ``places`` by what a scenario declares now; nothing is written.

    Raises UsageError for runs of another scenario, and for SQL that Spark does not understand.
    """
    from checkers.claims.understood import make_empty_tables, refused
    from checkers.judge import judge
    from checkers.spark.session import start_session
    from run.catalogue import find
    from run.claims import refuse
    from run.client_choice import ClientChoice

    scenario = find(reference)
    declared = []
    _refuse_uris(places, "--claims")
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
            by={
                "claims": one["claims"],
                "expected": one["expected"],
                "judged_by": one["judged_by"],
                "described": one["described"],
            },
        )
        for folder, one in zip(folders, declared, strict=True)
    ]


def judge_imported(place: RunLocation, *, master: str = "") -> Judgement:
    """Judge a history that another program laid down, by path or URI."""
    from checkers.judge import judge_import
    from checkers.spark.session import start_session
    from checkers.tables.files import is_uri

    place = place if is_uri(place) else Path(place)
    if master:
        (judgement,) = _judged_on(master, judge_import, [place])
        return judgement
    return judge_import(start_session(), place)


def run_controls(places: Sequence[RunLocation], control: str) -> list[ControlResult]:
    """Judge every run folder at or below ``places`` under a control (`checkers.control`)."""
    from checkers.control import require_control, run_control
    from checkers.spark.session import start_session

    require_control(control)
    _refuse_uris(places, "--control")
    folders = [folder.path for place in places for folder in _runs_below(Path(place))]
    session = start_session()
    return [run_control(session, folder, control) for folder in folders]


def _refuse_uris(places: Sequence[RunLocation], option: str) -> None:
    from checkers.tables.files import is_uri

    for place in places:
        if is_uri(place):
            raise UsageError(
                f"{option} judges run folders of this machine; {place} is a URI, so give a path."
            )


def _judged_on(
    master: str, judge: Callable[..., Judgement], places: Sequence[RunLocation]
) -> Iterator[Judgement]:
    from checkers.spark.cluster import cluster_session, scratch_beside
    from checkers.tables.files import is_uri, local_path

    with cluster_session(master) as session:
        for place in places:
            path = local_path(place)
            with nullcontext() if path is None else scratch_beside(path):
                yield judge(session, place if is_uri(place) else Path(place).resolve())


def _runs_below(path: Path) -> Iterator[RunFolder]:
    if (path / MANIFEST).is_file():
        yield RunFolder.open(path)
        return
    if not path.is_dir():
        raise BadDataError(f"{path} does not exist, so there is no run to judge; `ls runs` shows the runs.")
    folders = folders_with(MANIFEST, path)
    if not folders:
        raise BadDataError(f"No run folder lies in {path}: none of its folders has a {MANIFEST}.")
    yield from (RunFolder.open(folder) for folder in folders)

"""`acked assess --hosts` and `acked search --hosts`: many runs on a cluster that acked did not set up."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cli.attach import confirm
from cli.attached_run import HostsOptions, commands, how_it_ends, read_hosts
from cli.record import answering, require_rights
from harness.console import Console, Progress, echo
from harness.errors import UnfitError, UsageError

if TYPE_CHECKING:
    from run.attached.hosts import AttachedHosts
    from studies.attached.assessment import HostsAssessment
    from studies.attached.search import HostsSearch

LAB = "hosts"
"""In the place of a lab's name, in stored plans."""


def assessment_on_hosts(
    options: HostsOptions,
    *,
    faults: str | None,
    repeat: int,
    rate: float | None,
    list_only: bool,
    resume: Path | None,
    runs: Path,
    progress: Progress,
    as_json: bool,
) -> HostsAssessment | None:
    """The assessment that the options ask for, after the user has agreed; None if it was only to be shown.

    Raises UsageError, UnfitError.
    """
    from harness.cluster.attached import guarded
    from harness.cluster.settings import NO_SETTINGS
    from studies.assess.battery import select
    from studies.assess.series import Assessment, AssessmentPlan
    from studies.attached.assessment import (
        HostsAssessment,
        cases_of,
        header_of,
        mode_of,
        unfit,
        version_of,
    )

    with guarded(), answering():
        hosts = _hosts(options, rate, progress)
        if resume is not None:
            before = Assessment.resume(resume)
            _plan(hosts, options, before.plan.cases, progress)
            return HostsAssessment(before.series, before.plan, hosts=hosts)
        hosts = hosts.asked()
        cases = cases_of(hosts)
        if faults is not None:
            cases = select(cases, [glob.strip() for glob in faults.split(",")])
        lacking = unfit(hosts, cases)
        version, mode = version_of(hosts.cluster), mode_of(hosts.file.topology, hosts.cluster.mode)
        header = header_of(hosts, version, mode, lacking)
        fitting = [case.name for case in cases if case.name not in lacking]
        if list_only:
            _show(
                header,
                [(case.name, case.says, lacking.get(case.name, "")) for case in cases],
                as_json=as_json,
            )
            return None
        if not fitting:
            raise UnfitError(f"No fault is possible there: {next(iter(lacking.values()))}.")
        if _plan(hosts, options, fitting, progress):
            return None
        plan = AssessmentPlan(
            cases=tuple(fitting),
            version=version,
            mode=mode,
            lab=LAB,
            settings=NO_SETTINGS.as_json(),
            repeat=repeat,
            unfit=lacking,
            header=header,
        )
        return HostsAssessment.begin(runs, plan, hosts)


def search_on_hosts(
    options: HostsOptions,
    *,
    seed: int,
    rate: float | None,
    resume: Path | None,
    runs: Path,
    progress: Progress,
) -> HostsSearch | None:
    """The search that the options ask for, after the user has agreed; None if it was only to be shown.

    Raises UsageError, UnfitError.
    """
    from msgspec.structs import replace

    from harness.cluster.attached import guarded
    from studies.attached.search import HostsSearch, described, plan_of

    with guarded(), answering():
        hosts = _hosts(options, rate, progress).asked()
        before = None if resume is None else HostsSearch.resumed(resume, hosts)
        plan = replace(plan_of(hosts, seed=before.plan.seed if before else seed), lab=LAB)
        if before is not None and before.plan != plan:
            raise UsageError(
                f"{resume} was searched on Kafka {before.plan.version} ({before.plan.mode}), and the cluster "
                f"of {hosts.file.given} is Kafka {plan.version} ({plan.mode}); name another file."
            )
        lines = [*described(hosts, plan), *how_it_ends(hosts.file, *hosts.times_to_live_s())]
        for line in lines:
            echo(line, err=not options.plan)
        if options.plan:
            return None
        _require(hosts, options, progress)
        return before or HostsSearch.begin(runs, plan, hosts)


def require_no_lab(lab: str, folder: Path) -> None:
    """Raise UsageError if a stored plan is one for hosts, which only --hosts names."""
    if lab == LAB:
        raise UsageError(f"{folder} was made on hosts; also name their file, with --hosts.")


def _hosts(options: HostsOptions, rate: float | None, progress: Progress) -> AttachedHosts:
    from dataclasses import replace

    from run.recording.plan import plan_recording

    if options.compose_project:
        raise UsageError(
            "--compose-project is for a single run; write a hosts file that names the project as [compose] "
            "(docs/attach.md), and give it with --hosts."
        )
    hosts = read_hosts(options, rate=None, progress=progress)
    if rate is None:
        return hosts
    partitions = len(plan_recording(hosts.cluster, for_s=1, rate=1, size_bytes=100).assignment)
    return replace(hosts, rate=rate * partitions * 2)


def _plan(hosts: AttachedHosts, options: HostsOptions, cases: Sequence[str], progress: Progress) -> bool:
    """Show the plan, and ask. Returns whether it was only to be shown."""
    lines = [
        f"acked will run {len(cases)} faults, one after the other, on hosts that it did not set up:",
        *(f"  {name}" for name in cases),
        *how_it_ends(hosts.file, *hosts.times_to_live_s()),
        "  wait before each until every ISR is full, and end if that does not happen",
    ]
    for line in lines:
        echo(line, err=not options.plan)
    if options.plan:
        for line in _commands(hosts, cases):
            echo(line)
    else:
        _require(hosts, options, progress)
    return options.plan


def _commands(hosts: AttachedHosts, cases: Sequence[str]) -> Iterator[str]:
    """What each case would run in the hosts. Raises UnfitError."""
    from studies.attached.assessment import cases_of
    from studies.attached.steps import Aims

    aims = Aims(file=hosts.file, cluster=hosts.cluster, topic="")
    try:
        hosts.lab.up()
        for case in cases_of(hosts):
            if case.name in cases:
                yield f"{case.name}:"
                every = [act.aim() for act in aims.acts(case.steps, hosts.fault_s())]
                yield from (f"  {line}" for line in commands(hosts, every, *hosts.times_to_live_s()))
    finally:
        hosts.lab.down()


def _require(hosts: AttachedHosts, options: HostsOptions, progress: Progress) -> None:
    from run.attached.guard import Guard
    from run.attached.hosts import NOTHING

    Guard(hosts.cluster).require_whole()
    require_rights(hosts.cluster, "", None, progress)
    confirm(hosts.cluster.cluster_id, NOTHING, yes=options.yes)


def _show(header: dict[str, str], rows: Iterable[tuple[str, str, str]], *, as_json: bool) -> None:
    if as_json:
        faults = [{"case": name, "says": says, "unfit": why or None} for name, says, why in rows]
        echo(json.dumps({"header": header, "faults": faults}, indent=2))
        return
    from report.assessment import show_header
    from report.console import NONE, Column, RowTable

    console = Console(highlight=False)
    show_header({key: text for key, text in header.items() if key != "unfit"}, console)
    console.print()
    headings = ("fault", "name", "unfit")
    columns = [Column(heading=heading, prose=heading != "name") for heading in headings]
    RowTable(columns=columns, rows=[(says, name, why or NONE) for name, says, why in rows]).show(console)

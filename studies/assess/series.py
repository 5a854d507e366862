"""Running a battery: the plan, the runs side by side, and the resulting document."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.cluster.cluster_file import ClusterFile
from harness.cluster.compression import compress
from harness.cluster.settings import NO_SETTINGS, Settings, values
from harness.cluster.timings import Timings, effective_times
from harness.doctor import diagnose
from harness.errors import UsageError
from harness.kafka.versions import DEFAULT, LASTING, KafkaVersion, kafka_version, version_key
from harness.lab.layout import THREE_AZS
from harness.lab.model import Topology
from nemesis.scheduled import ScheduledFault
from report.model.shapes import ASSESSMENT
from run.session import plan_run, prepare
from run.settings import AppliedSettings
from studies.assess.battery import Case, battery
from studies.assess.described import assessed_topics, for_runs, header, hold_s, producers
from studies.assess.measure import PROMISED, QUERIES, MeasureRow, Measures, measure, name_of
from studies.assess.outcome import failed, outcome, repeated_failure
from studies.assess.process import scenario
from studies.assess.table import CaseEnd, CaseLine, consequences, lines
from studies.series import planned
from studies.series.capacity import starting_s
from studies.series.fleet import Fleet, JobKind
from studies.series.folder import SeriesFolder
from studies.series.forecast import Forecast
from studies.series.job import Job, Place
from studies.series.plan import remaining
from studies.series.summary import RunSummary

_AROUND_S = 8.0
"""A run without its fault, on a cluster that is up: clients, recovery, final logs."""
_PER_HOST_S = 0.6
"""Seconds that each host beyond `_USUAL_HOSTS` adds to a run."""
_USUAL_HOSTS = 9
_UPGRADE_S = 5.0
"""Until a node has ended and runs the newer version; once for each cluster, which mostly serves few runs."""
_AGAIN_S = 5.0
"""Until the roles are back at their hosts, and no node logs anything more."""
_START_S = 5.0
"""Until a broker that starts again is in every ISR."""
_REST_S, _MEASURE_S = 8.0, 0.4
"""The session that judges, the last judgement and the measures, and what each run adds to the measures."""
_START_POWER = 2 / 3


@dataclass(frozen=True, kw_only=True)
class Target:
    """The cluster to assess."""

    version: KafkaVersion
    mode: str
    topology: Topology
    file: ClusterFile | None
    settings: Settings
    """Settings of the file and of the options; options take precedence."""
    upgrade_to: str = ""
    """The version of a rolling upgrade; empty: none."""


def describe(
    file: ClusterFile | None,
    kafka: str,
    mode: str,
    settings: Settings,
    *,
    force: bool = False,
    upgrade_to: str = "",
) -> Target:
    """What is to be assessed; options take precedence over the file. ``force`` accepts unknown versions.

    Raises UsageError.
    """
    version = kafka_version(kafka or (file.kafka if file else "") or DEFAULT, force=force)
    mode = mode or (file.mode if file else "") or next(one for one in LASTING if one in version.modes)
    if mode not in LASTING:
        raise UsageError(f"There is no mode {mode!r} here; use {', '.join(LASTING)}.")
    version.require_mode(mode)
    topology = (file.layout if file else THREE_AZS).topology(mode)
    settings = settings.over(file.settings) if file else settings
    if upgrade_to:
        later = kafka_version(upgrade_to, force=force)
        later.require_mode(mode)
        if version_key(later.version) <= version_key(version.version):
            raise UsageError(
                f"--upgrade-to {upgrade_to}: the upgrade begins with Kafka {version.label}; name a newer "
                "version."
            )
        upgrade_to = later.version
    return Target(
        version=version,
        mode=mode,
        topology=topology,
        file=file,
        settings=settings,
        upgrade_to=upgrade_to,
    )


def understood(target: Target, case: Case, lab: str) -> AppliedSettings:
    """What a run of the case would be. Raises UsageError for everything that it would be refused for."""
    _, applied = plan_run(
        scenario(case, target.topology, target.mode, target.settings), **_arguments(target, lab)
    )
    return applied


def header_of(target: Target, applied: AppliedSettings) -> dict[str, str]:
    """What is assessed, for people, with what the runs do not follow."""
    return header(
        target.version.label,
        target.mode,
        target.topology,
        target.settings,
        timings(target.settings, target.mode),
        applied.not_followed,
        applied.consequences,
        target.upgrade_to,
    )


def check(target: Target, case: Case, lab: str, say: Callable[[str], None]) -> None:
    """Check what can be checked before anything starts. Raises UsageError, UnfitError."""
    prepare(scenario(case, target.topology, target.mode, target.settings), **_arguments(target, lab), say=say)


def _arguments(target: Target, lab: str) -> dict[str, Any]:
    return {
        "lab": lab,
        "kafka": target.version.label,
        "mode": target.mode,
        "cluster": target.file and replace(target.file, settings=NO_SETTINGS),
        "settings": for_runs(target.settings),
        "force": True,
    }


class AssessmentPlan(planned.Plan, frozen=True, kw_only=True):
    """What an assessment runs; stored in its folder, so that it can be resumed."""

    cases: tuple[str, ...]
    """Names of the cases, in the order in which they are run."""
    repeat: int = 1
    left_out: tuple[str, ...] = ()
    """Names of the cases that the budget leaves out."""
    unfit: Mapping[str, str] = {}
    """Names of the cases that this machine cannot run, and why."""
    header: Mapping[str, str] = {}
    """What is assessed, for people: a text for each heading."""
    upgrade_to: str = ""
    """The version of a rolling upgrade; empty: none."""

    def place(self, folder: Path) -> Place:
        """Where the cases are run."""
        return replace(super().place(folder), upgrade_to=self.upgrade_to)

    def jobs(self) -> list[Job]:
        """All runs, in rounds."""
        return [self.job(name) for name in self.cases] * self.repeat


@dataclass(frozen=True)
class Assessment:
    """An assessment in its folder."""

    series: SeriesFolder
    plan: AssessmentPlan
    _measured: dict[str, list[MeasureRow]] = field(
        default_factory=lambda: {name: [] for name in (*QUERIES, PROMISED)}
    )
    """The measures of `_seen`, by query."""
    _seen: set[str] = field(default_factory=set)
    """Run folders that were measured."""

    @classmethod
    def create(cls, runs: Path, plan: AssessmentPlan, cluster: Path | None) -> Assessment:
        """Make the folder `<runs>/assess/<UTC time>`. Raises UsageError if it cannot be made."""
        return cls(planned.create(runs, "assess", plan, cluster), plan)

    @classmethod
    def resume(cls, path: Path) -> Assessment:
        """An assessment that was interrupted; runs that failed are made again.

        Raises BadDataError if the folder holds none.
        """
        plan = planned.read_plan(path, AssessmentPlan, what="assessment", kind="assess")
        series = SeriesFolder(path)
        series.runs = [run for run in series.runs if not failed(run)]
        return cls(series, plan)

    def place(self) -> Place:
        """Where the cases are run."""
        return self.plan.place(self.series.path)

    def topology(self) -> Topology:
        """The cluster's hosts."""
        return self.place().topology(self.plan.mode)

    def cases(self) -> dict[str, Case]:
        """All cases of the cluster by name."""
        cases = battery(self.topology(), self.plan.mode, self.plan.upgrade_to)
        return {case.name: case for case in cases}

    def left(self) -> list[Job]:
        """The runs that have not ended yet."""
        return remaining(self.plan.jobs(), [run.job for run in self.series.runs])

    def run(
        self,
        parallel: int,
        ended: Callable[[RunSummary], None],
        may_start: Callable[[Job], bool] = lambda job: True,
    ) -> bool:
        """Run and judge what is left, and record each run. Returns whether Ctrl-C ended it early.

        ``may_start`` is asked just before a run would start.
        """
        kind, place = kind_of(self.cases()), self.place()
        runs = self.series.path / "runs"
        try:
            with (
                planned.alone(self.series.path),
                Fleet(kind, place, runs, parallel, may_start) as fleet,
            ):
                fleet.submit(*self.left())
                for run in fleet.judged_runs():
                    self.series.add(run.summary)
                    ended(run.summary)
        except KeyboardInterrupt:
            return True
        return False

    def timings(self) -> Timings:
        """Times that follow from the settings."""
        return timings(self.settings(), self.plan.mode)

    def settings(self) -> Settings:
        """What the user has set."""
        return Settings.from_json(self.plan.settings)

    def _measures(self) -> Measures:
        """The measures of all judged runs; each run is measured once."""
        judged = [run.folder for run in self.series.runs if run.judged and run.folder not in self._seen]
        if judged:
            from checkers.spark.session import start_session

            for name, rows in measure(start_session(), [Path(folder) for folder in judged]).items():
                self._measured[name] += rows
            self._seen.update(judged)
        return self._measured

    def document(self, parallel: int) -> dict[str, Any]:
        """What `assessment.json` holds of the runs that have ended; ``parallel`` are side by side."""
        measures = self._measures()
        all_cases = self.cases()
        planned = [all_cases[name] for name in (*self.plan.cases, *self.plan.unfit, *self.plan.left_out)]
        compared = [producer.name for producer in producers(self.settings())]
        ended = _ended(self.series.runs)
        table = lines(planned, ended, measures, self.plan.unfit, described=compared[0])
        topology = self.topology()
        judged_as, failure = outcome(self.series.runs), repeated_failure(self.series.runs)
        return {
            "verdict": judged_as.verdict,
            "exit_code": judged_as.exit_code,
            "not_as_declared": judged_as.runs,
            "repeated_failure": failure.as_json() if failure else None,
            "kafka": self.plan.version,
            "upgrade_to": self.plan.upgrade_to,
            "mode": self.plan.mode,
            "header": self.plan.header
            or header(self.plan.version, self.plan.mode, topology, self.settings(), self.timings()),
            "topics": [asdict(topic) for topic in assessed_topics(self.settings())],
            "azs": {az: topology.az_name(az) for az in topology.azs},
            "hosts": {host.name: topology.az_name(host.az) for host in topology.hosts},
            "clients": sorted({host.az for host in topology.role("client")}),
            "producers": compared,
            "hold_s": hold_s(self.timings()),
            "lines": [line_as_json(line) for line in table],
            "parallel": parallel,
            "consequences": consequences(table, topology.az_names, parallel),
            "queries": dict(QUERIES),
            "runs": str(self.series.path / "runs"),
            "ended": len(self.series.runs),
            "planned": len(self.plan.jobs()),
        }

    def keep(self, document: Mapping[str, Any], reports: Mapping[str, str]) -> None:
        """Write `assessment.json`, and reports of it by the names of their files."""
        self.series.keep(ASSESSMENT, json.dumps(document, indent=2))
        for name, text in reports.items():
            self.series.keep(name, text)


def kind_of(cases: Mapping[str, Case]) -> JobKind[Any]:
    """Cases as jobs: a cluster serves those that need the same roles and connections.

    A fault whose cluster must be prepared has one for itself.
    """

    def needs(job: Job) -> tuple[object, ...]:
        case = cases[job.scenario]
        roles = case.controller, case.quorum_leader, tuple(sorted(case.pins.items()))
        return *roles, case.preparations, case.upgraded

    return JobKind(
        program="studies.assess.process",
        needs=needs,
        alone=lambda job: bool(cases[job.scenario].preparations),
    )


def timings(settings: Settings, mode: str) -> Timings:
    """Times that follow from the settings that the user has set."""
    compressed, _ = compress(settings, effective_times({}, mode))
    return Timings.of(values(compressed.broker), mode)


def seconds(case: Case, topology: Topology, timings: Timings) -> float:
    """About how many seconds a run of a case takes on a cluster that is up, if the machine is not busy."""
    around = _AROUND_S + _PER_HOST_S * max(0, len(topology.hosts) - _USUAL_HOSTS)
    if case.upgraded is not None:
        around += _UPGRADE_S * len(case.upgraded.hosts)
    if not case.faults[-1].lasts:
        return around + _START_S * len(topology.role("broker"))
    return around + case.lasting_s(hold_s(timings)) + _START_S * bool(case.preparations)


def forecast(
    cases: Mapping[str, Case], topology: Topology, timings: Timings, parallel: int, slowdown: float = 1.0
) -> Forecast:
    """How long runs of these cases take, with ``parallel`` clusters side by side.

    ``slowdown`` says how many times as long a thread takes now as on an idle machine. So do judgements and
    measures. The start of a cluster waits for other things, too: it took about 2.3 times as long at 4, and 7
    times at 13 (two processors, three clusters of six nodes). Runs take hardly longer: they mostly wait for
    time-outs, and the processes of their clusters go first (`Lab.run_first`).
    """
    slowdown = max(1.0, slowdown)
    return Forecast(
        kind=kind_of(cases),
        parallel=parallel,
        start_s=starting_s(topology, parallel) * slowdown**_START_POWER,
        again_s=_AGAIN_S,
        run_s=lambda job: seconds(cases[job.scenario], topology, timings),
        rest_s=_REST_S * slowdown,
        each_s=_MEASURE_S * slowdown,
    )


def unfit(cases: Sequence[Case]) -> dict[str, str]:
    """Cases that this machine cannot run, by name, and why."""
    reasons = unfit_faults(fault for case in cases for fault in case.faults)
    return {
        case.name: reasons[fault.mechanism]
        for case in cases
        for fault in case.faults
        if fault.mechanism in reasons
    }


def unfit_faults(kinds: Iterable[type[ScheduledFault]]) -> dict[str, str]:
    """The kinds of faults that this machine cannot inject, by name, and why."""
    needy = {kind.mechanism: kind.needs for kind in kinds if kind.needs}
    lacking = {need for need in sorted(set(needy.values())) for check in diagnose([need]) if not check.ok}
    return {
        name: f"this machine has no {need}, which the fault {name} needs"
        for name, need in needy.items()
        if need in lacking
    }


def _ended(runs: Sequence[RunSummary]) -> Iterator[CaseEnd]:
    for run in runs:
        status = "measured" if run.judged else run.verdict
        reason = "" if run.judged else next(iter(run.reasons), "")
        with suppress(OSError):
            yield CaseEnd(case=run.scenario, run=name_of(Path(run.folder)), status=status, reason=reason)


def line_as_json(line: CaseLine) -> dict[str, Any]:
    """A line of the table as `assessment.json` has it."""
    return {
        **asdict(line),
        "settings": {name: {**asdict(one), "outcome": one.outcome} for name, one in line.settings.items()},
        "topics": [line_as_json(topic) for topic in line.topics],
        "topics_differ": line.topics_differ,
    }

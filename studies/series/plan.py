"""Which jobs a series runs, and in which order."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from harness.errors import UsageError
from harness.kafka.versions import MODES, KafkaVersion, kafka_version, version_key
from run.scenario import Scenario
from studies.series.job import Job


def parse_versions(text: str, *, force: bool = False) -> tuple[KafkaVersion, ...]:
    """Versions from a comma-separated list, oldest first.

    Raises UsageError for a version that is not known, and for an empty list.
    """
    names = sorted(set(_names(text, "Kafka version")), key=version_order)
    return tuple(kafka_version(name, force=force) for name in names)


def parse_modes(text: str) -> tuple[str, ...]:
    """Metadata modes from a comma-separated list.

    Raises UsageError for a mode that does not exist, and for an empty list.
    """
    modes = _names(text, "metadata mode")
    for mode in modes:
        if mode not in MODES:
            raise UsageError(f"{mode!r} is not a metadata mode; use {', '.join(MODES[:-1])} or {MODES[-1]}.")
    return modes


def _names(text: str, what: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise UsageError(f"{text!r} names no {what}; name one or more, or leave the option out.")
    return names


def version_order(label: str) -> tuple[tuple[int, ...], str]:
    """Sort key of version labels; a version that speaks an older protocol follows the version itself."""
    return version_key(label), label


def own_jobs(
    scenarios: Sequence[Scenario], repeat: int = 1, kafka: str = "", mode: str = "", client: str = ""
) -> list[Job]:
    """Each scenario ``repeat`` times, in rounds, on this version and in this mode; by default, on its own."""
    return [
        Job(
            scenario=one.name, version=kafka or one.kafka, mode=mode or one.mode, file=one.file, client=client
        )
        for one in scenarios
    ] * repeat


def as_before(before: Sequence[Job], chosen: Iterable[Job]) -> tuple[list[Job], int]:
    """The plan of an earlier series with the jobs that are chosen now; and its largest number of repeats.

    ``chosen`` has one job for each scenario in ``before``.
    """
    now = {job.scenario: job for job in chosen}
    planned = [now[job.scenario] for job in before]
    return planned, max(Counter(planned).values())


def plan(
    scenarios: Iterable[Scenario],
    versions: Sequence[KafkaVersion] = (),
    modes: Sequence[str] = (),
    repeat: int = 1,
    clients: Sequence[str] = (),
) -> list[Job]:
    """Every combination that can run, ``repeat`` times, in rounds.

    Without ``versions`` or ``modes``, those between which a scenario shows a difference; without ``clients``,
    librdkafka. Raises UsageError if no combination can run.
    """
    jobs: list[Job] = []
    tried: dict[str, None] = {}
    scenarios = list(scenarios)
    for scenario in scenarios:
        chosen = versions or tuple(kafka_version(name) for name in scenario.versions or (scenario.kafka,))
        for version in chosen:
            for mode in modes or scenario.supported_modes:
                tried[f"{version.label} {mode}"] = None
                if mode in version.modes and mode in scenario.supported_modes:
                    jobs += [
                        Job(
                            scenario=scenario.name,
                            version=version.label,
                            mode=mode,
                            file=scenario.file,
                            client=client,
                        )
                        for client in clients or ("",)
                    ]
    if not jobs:
        supported = [f"{one.name} runs in mode {' or '.join(one.supported_modes)}" for one in scenarios[:3]]
        raise UsageError(
            f"None of these can be run: {', '.join(tried)}; {', '.join(supported)}; `acked versions` shows "
            f"the modes of each Kafka version."
        )
    return jobs * repeat


def remaining(jobs: Sequence[Job], done: Iterable[Job]) -> list[Job]:
    """The jobs that have not run yet; for a job that is planned several times, its missing runs."""
    count = Counter(done)
    left: list[Job] = []
    for job in jobs:
        if count[job]:
            count[job] -= 1
        else:
            left.append(job)
    return left


def longest_first(jobs: Iterable[Job], seconds: Mapping[Job, float]) -> list[Job]:
    """Jobs in rounds, in each round the longest first, so that no long run is left to run alone.

    ``seconds`` holds durations of earlier runs; jobs without one come first, in the order given.
    """
    rounds: list[tuple[int, float, Job]] = []
    seen: Counter[Job] = Counter()
    for job in jobs:
        rounds.append((seen[job], -seconds.get(job, math.inf), job))
        seen[job] += 1
    return [job for _, _, job in sorted(rounds, key=lambda entry: entry[:2])]

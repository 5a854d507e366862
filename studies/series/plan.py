"""Which cells a series runs, and in which order."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.errors import UsageError
from harness.kafka.versions import MODES, KafkaVersion, kafka_version, version_key
from run.scenario import Scenario, ScenarioFile


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One scenario on one Kafka version (`2.7.1@2.6`: with an older protocol) in one metadata mode."""

    scenario: str
    version: str
    mode: str
    file: ScenarioFile | None = field(default=None, compare=False, repr=False)
    """Where the scenario was read from; None for the catalogue."""
    client: str = ""
    """The client library of producers and consumers, as `--client` names it; empty: librdkafka."""

    def __str__(self) -> str:
        return f"{self.scenario} on {self.version} {self.mode}" + (f" with {self.client}" * bool(self.client))


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
    found = tuple(name.strip() for name in text.split(",") if name.strip())
    if not found:
        raise UsageError(f"{text!r} names no {what}; name one or more, or leave the option out.")
    return found


def version_order(label: str) -> tuple[tuple[int, ...], str]:
    """Sort key of version labels; a version that speaks an older protocol follows the version itself."""
    return version_key(label), label


def own_cells(
    scenarios: Sequence[Scenario], repeat: int = 1, kafka: str = "", mode: str = "", client: str = ""
) -> list[Cell]:
    """Each scenario ``repeat`` times, in rounds, on this version and in this mode; by default, on its own."""
    return [
        Cell(
            scenario=one.name, version=kafka or one.kafka, mode=mode or one.mode, file=one.file, client=client
        )
        for one in scenarios
    ] * repeat


def as_before(before: Sequence[Cell], chosen: Iterable[Cell]) -> tuple[list[Cell], int]:
    """The plan of an earlier series with the cells that are chosen now; and its largest number of repeats.

    ``chosen`` has one cell for each scenario in ``before``.
    """
    now = {cell.scenario: cell for cell in chosen}
    planned = [now[cell.scenario] for cell in before]
    return planned, max(Counter(planned).values())


def plan(
    scenarios: Iterable[Scenario],
    versions: Sequence[KafkaVersion] = (),
    modes: Sequence[str] = (),
    repeat: int = 1,
    clients: Sequence[str] = (),
) -> list[Cell]:
    """Every combination that can run, ``repeat`` times, in rounds.

    Without ``versions`` or ``modes``, those between which a scenario shows a difference; without ``clients``,
    librdkafka. Raises UsageError if no combination can run.
    """
    cells: list[Cell] = []
    tried: dict[str, None] = {}
    scenarios = list(scenarios)
    for scenario in scenarios:
        wanted = versions or tuple(kafka_version(name) for name in scenario.versions or (scenario.kafka,))
        for version in wanted:
            for mode in modes or scenario.supported_modes:
                tried[f"{version.label} {mode}"] = None
                if mode in version.modes and mode in scenario.supported_modes:
                    cells += [
                        Cell(
                            scenario=scenario.name,
                            version=version.label,
                            mode=mode,
                            file=scenario.file,
                            client=client,
                        )
                        for client in clients or ("",)
                    ]
    if not cells:
        supported = [f"{one.name} runs in mode {' or '.join(one.supported_modes)}" for one in scenarios[:3]]
        raise UsageError(
            f"None of these can be run: {', '.join(tried)}; {', '.join(supported)}; `acked versions` shows "
            f"the modes of each Kafka version."
        )
    return cells * repeat


def remaining(cells: Sequence[Cell], done: Iterable[Cell]) -> list[Cell]:
    """The cells that have not run yet; for a cell that is planned several times, its missing runs."""
    count = Counter(done)
    left: list[Cell] = []
    for cell in cells:
        if count[cell]:
            count[cell] -= 1
        else:
            left.append(cell)
    return left


def longest_first(cells: Iterable[Cell], seconds: Mapping[Cell, float]) -> list[Cell]:
    """Cells in rounds, in each round the longest first, so that no long run is left to run alone.

    ``seconds`` holds durations of earlier runs; cells without one come first, in the order given.
    """
    rounds: list[tuple[int, float, Cell]] = []
    seen: Counter[Cell] = Counter()
    for cell in cells:
        rounds.append((seen[cell], -seconds.get(cell, math.inf), cell))
        seen[cell] += 1
    return [cell for _, _, cell in sorted(rounds, key=lambda entry: entry[:2])]

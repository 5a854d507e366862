"""Arguments and options that several commands share: one name, one help text and one check for each."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cluster.settings import NO_SETTINGS, Settings
from harness.errors import AckedError, UsageError
from harness.kafka.security import NO_LISTENER_SECURITY, ListenerSecurity
from harness.lab.registry import EMBEDDED

if TYPE_CHECKING:
    from run.client_choice import ClientChoice

LAB = EMBEDDED
RUNS = Path("runs")


MOST_PARALLEL = 64
"""Clusters side by side; each takes 1.5 GB of memory or more."""
MOST_RUNS = 100_000
FASTEST = 100_000.0
"""Messages per second, which no laptop reaches."""
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST_H = 365 * 24


def count(option: str, *, least: int, most: int) -> Callable[[str | int], int]:
    """A parser of whole numbers from ``least`` to ``most``. It raises UsageError."""

    def parse(text: str | int) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise UsageError(f"{option} {text}: give a whole number from {least} to {most}.")
        return number

    return parse


def duration(option: str, text: str, *, least_s: int = 1, most_h: int = _LONGEST_H) -> float:
    """Seconds, from `90s`, `45m` or `8h`. Raises UsageError."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([smh])", text.strip())
    seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if not least_s <= seconds <= most_h * 3600:
        raise UsageError(
            f"{option} {text}: give a time with its unit, such as 90s, 45m or 8h, from {least_s}s to "
            f"{most_h}h."
        )
    return seconds


def message_rate(text: str | float) -> float:
    """Messages per second. Raises UsageError."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= FASTEST:
        raise UsageError(f"--rate {text}: give a number of messages per second, from 0 to {FASTEST:.0f}.")
    return number


PartitionRate = Annotated[
    float | None,
    typer.Option(
        parser=message_rate,
        metavar="<float>",
        help="Messages per second that each producer writes to each partition. Default: 5.",
    ),
]


def with_rate(settings: Settings, rate: float | None) -> Settings:
    """The settings with the rate of an assessment's or a search's producers. Raises UsageError."""
    if rate == 0:
        raise UsageError("--rate 0: without messages nothing is measured; give a rate above 0.")
    return settings if rate is None else replace(settings, rate=rate)


def divisor(text: str | float) -> float:
    """The factor by which times are divided. Raises UsageError."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 1 <= number <= 1000:
        raise UsageError(f"--compress-time {text}: give a number from 1 to 1000.")
    return number


def run_root(text: str | Path) -> Path:
    """The folder for run folders. Raises UsageError for an empty name, usually an unset variable."""
    if not str(text).strip():
        raise UsageError("--runs is empty; name a folder, or leave the option out for `runs`.")
    return Path(text)


def scenarios_that_begin(incomplete: str) -> list[str]:
    """The names that complete the beginning of one in the shell; the shell completes files itself."""
    with suppress(AckedError, ModuleNotFoundError):
        from run.catalogue import known_scenarios

        return [name for name in known_scenarios() if name.startswith(incomplete)]
    return []


_SCENARIO = "A scenario, as `acked list` shows it, or its file: ./my_case.py, ./my_case.py:NAME."
ScenarioName = Annotated[str, typer.Argument(help=_SCENARIO, autocompletion=scenarios_that_begin)]
OneScenario = Annotated[str | None, typer.Argument(help=_SCENARIO, autocompletion=scenarios_that_begin)]
Trust = Annotated[bool, typer.Option("--trust", help="Start the client program that the folder names.")]
LabOption = Annotated[str, typer.Option(help="Where the hosts run: embedded (no daemon) or compose.")]
Runs = Annotated[
    Path, typer.Option("--runs", parser=run_root, metavar="<path>", help="Folder for run folders.")
]
Repeat = Annotated[
    int,
    typer.Option(
        "--repeat",
        parser=count("--repeat", least=1, most=MOST_RUNS),
        metavar="<int>",
        help="Number of runs of each.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the outcome, and no progress.")]
Index = Annotated[
    Path | None,
    typer.Option("--index", metavar="<path>", help="Write the page of the series, with links to their runs."),
]
Junit = Annotated[
    Path | None, typer.Option("--junit", metavar="<path>", help="Write the runs as JUnit XML, for a CI job.")
]
SummaryOption = Annotated[
    Path | None,
    typer.Option("--summary", metavar="<path>", help="Write a summary in Markdown, for a CI job."),
]
Earlier = Annotated[
    list[Path] | None,
    typer.Option(
        "--earlier", metavar="<path>", help="`runs.jsonl` of an earlier night, for --budget and --summary."
    ),
]
Parallel = Annotated[
    int,
    typer.Option(
        "--parallel",
        parser=count("--parallel", least=0, most=MOST_PARALLEL),
        metavar="<int>",
        help="Number of clusters to run side by side; 0: as many as this machine carries.",
    ),
]
From = Annotated[
    list[Path] | None,
    typer.Option(
        "--from",
        metavar="<path>",
        help="Also choose from the scenarios in this file, or in the files of this folder. May be repeated.",
    ),
]
_FILE = "File (properties, YAML, JSON, Spring) with settings of "


@dataclass(frozen=True, kw_only=True)
class PlaceOptions:
    """Where runs are made, and where their folders go."""

    lab: LabOption = LAB
    runs: Runs = RUNS


@dataclass(frozen=True, kw_only=True)
class SettingOptions:
    """What the user sets for brokers, topics and clients."""

    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="TABLE.KEY=VALUE",
            help="A property, such as topic.flush.ms=500; also of broker, producer, consumer.",
        ),
    ] = None
    broker_config: Annotated[Path | None, typer.Option(help=f"{_FILE}the brokers.")] = None
    topic_config: Annotated[Path | None, typer.Option(help=f"{_FILE}every topic.")] = None
    producer_config: Annotated[Path | None, typer.Option(help=f"{_FILE}the producers.")] = None
    consumer_config: Annotated[Path | None, typer.Option(help=f"{_FILE}the consumers.")] = None
    secure: Annotated[
        str,
        typer.Option(
            metavar="<protocol>",
            help="What the listeners of the brokers and controllers speak: ssl, sasl_plaintext or sasl_ssl.",
        ),
    ] = ""
    mechanism: Annotated[
        str,
        typer.Option(
            metavar="<name>",
            help="With SASL, that of the clients: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 (the default) or "
            "OAUTHBEARER.",
        ),
    ] = ""
    compress_time: Annotated[
        float,
        typer.Option(
            parser=divisor, metavar="<float>", help="Divide the time settings that you set by this."
        ),
    ] = 1.0

    def read(self) -> Settings:
        """The settings of all options together; `--set` takes precedence. Raises UsageError."""
        files = {
            "broker": self.broker_config,
            "topic": self.topic_config,
            "producer": self.producer_config,
            "consumer": self.consumer_config,
        }
        settings = replace(NO_SETTINGS, compress_time=self.compress_time, security=self._security())
        if not self.sets and not any(files.values()):
            return settings
        from harness.cluster.settings_files import read_options, read_properties

        for table, file in files.items():
            if file is not None:
                settings = read_properties(file, table).over(settings)
        return read_options(self.sets or []).over(settings)

    def _security(self) -> ListenerSecurity:
        if self.secure:
            return ListenerSecurity.asked(self.secure, self.mechanism, f"--secure {self.secure}")
        if self.mechanism:
            raise UsageError(f"--mechanism {self.mechanism} belongs to --secure; add --secure sasl_ssl.")
        return NO_LISTENER_SECURITY


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """Which builds of Kafka may run, besides the releases."""

    kafka_home: Annotated[
        Path | None,
        typer.Option(metavar="<path>", help="Folder of an unpacked Kafka release, or of your own build."),
    ] = None
    kafka_jars: Annotated[
        str | None,
        typer.Option(
            metavar="<path,...>", help="Jars, or folders of jars, whose classes replace those of Kafka."
        ),
    ] = None
    force: Annotated[bool, typer.Option(help="Accept a Kafka version that has not been tested.")] = False

    @property
    def given(self) -> bool:
        """Whether the user names a build."""
        return self.kafka_home is not None or self.kafka_jars is not None

    def version(self, kafka: str | None, default: str, say: Callable[[str], None]) -> str:
        """The Kafka version of `--kafka`, or the label of the user's build.

        Without `--kafka` and `--kafka-home`, jars go in front of the release ``default``. Returns an empty
        string if no option chooses a version. Raises UsageError.
        """
        if not self.given:
            return kafka or ""
        return self.label(kafka or ("" if self.kafka_home else default), say)

    def label(self, base: str, say: Callable[[str], None]) -> str:
        """Copy the user's build into the cache; returns its label, a Kafka version. Raises UsageError.

        ``base`` is the release that jars go in front of. With `--kafka-home` it is empty, or the version of
        that build.
        """
        from harness.artifacts.builds import take_in

        parts = [part.strip() for part in (self.kafka_jars or "").split(",")]
        paths = [Path(part).expanduser() for part in parts if part]
        if self.kafka_jars is not None and not paths:
            raise UsageError("--kafka-jars is empty; name jars, or folders of jars, separated by commas.")
        home = self.kafka_home.expanduser() if self.kafka_home else None
        return take_in(home=home, jars=paths, base=base, say=say)


@dataclass(frozen=True, kw_only=True)
class ClientOptions:
    """What producers and consumers are."""

    client: Annotated[
        str,
        typer.Option(
            help="What the producers and consumers are: librdkafka, java, or a program that speaks the "
            "client protocol."
        ),
    ] = "librdkafka"
    client_version: Annotated[
        str, typer.Option(help="Version of the Java client. Default: that of the brokers.")
    ] = ""

    def read(self) -> ClientChoice:
        """The client library. Raises UsageError."""
        from run.client_choice import parse_client

        return parse_client(self.client, self.client_version)


@dataclass(frozen=True, kw_only=True)
class SeriesOptions:
    """How many runs are made and recorded, alone or on a CI system."""

    repeat: Repeat = 1
    parallel: Parallel = 0
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="<time>",
            help="Start no run that would end later than this, such as 45m. Scenarios that have not run for "
            "longest come first.",
        ),
    ] = None
    shard: Annotated[
        str | None, typer.Option(metavar="<k/n>", help="Run only one of n equal shares: 2/4.")
    ] = None
    earlier: Earlier = None
    junit: Junit = None
    summary: SummaryOption = None
    keep_failed: Annotated[
        bool, typer.Option("--keep-failed", help="Remove the run folders of runs that are as declared.")
    ] = False

    @property
    def given(self) -> bool:
        """Whether any of them asks for more than one run."""
        return replace(self, parallel=0) != SeriesOptions()

"""Arguments and options that several commands share: one name, one help text and one check for each."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from harness.cluster.settings import NO_SETTINGS, Settings
from harness.errors import AckedError, UsageError

LAB = "embedded"
RUNS = Path("runs")


MOST_PARALLEL = 64
"""Clusters side by side; each takes 1.5 GB of memory or more."""
MOST_RUNS = 100_000
FASTEST = 100_000.0
"""Messages per second, which no laptop reaches."""


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


def message_rate(text: str | float) -> float:
    """Messages per second. Raises UsageError."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= FASTEST:
        raise UsageError(f"--rate {text}: give a number of messages per second, from 0 to {FASTEST:.0f}.")
    return number


def divisor(text: str | float) -> float:
    """The factor by which times are divided. Raises UsageError."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 1 <= number <= 1000:
        raise UsageError(f"--compress-time {text}: give a number from 1 to 1000.")
    return number


def given_settings(
    sets: list[str] | None,
    *,
    broker: Path | None,
    topic: Path | None,
    producer: Path | None,
    consumer: Path | None,
    compress_time: float,
) -> Settings:
    """The settings of all options together; `--set` takes precedence. Raises UsageError."""
    files = {"broker": broker, "topic": topic, "producer": producer, "consumer": consumer}
    settings = replace(NO_SETTINGS, compress_time=compress_time)
    if not sets and not any(files.values()):
        return settings
    from harness.cluster.settings_files import read_options, read_properties

    for table, file in files.items():
        if file is not None:
            settings = read_properties(file, table).over(settings)
    return read_options(sets or []).over(settings)


def chosen_kafka(
    kafka: str | None, home: Path | None, jars: str | None, default: str, say: Callable[[str], None]
) -> str:
    """The Kafka version of `--kafka`, or the label of the build of `--kafka-home` and `--kafka-jars`.

    Without `--kafka` and `--kafka-home`, jars go in front of the release ``default``. Returns an empty string
    if no option chooses a version. Raises UsageError.
    """
    if home is None and jars is None:
        return kafka or ""
    return build_label(home, jars, kafka or ("" if home else default), say)


def build_label(home: Path | None, jars: str | None, base: str, say: Callable[[str], None]) -> str:
    """Copy the user's build of Kafka into the cache; returns its label, a Kafka version. Raises UsageError.

    ``base`` is the release that ``jars`` go in front of. With ``home`` it is empty or the version of
    ``home``.
    """
    from harness.artifacts.builds import take_in

    paths = [Path(part.strip()).expanduser() for part in (jars or "").split(",") if part.strip()]
    if jars is not None and not paths:
        raise UsageError("--kafka-jars is empty; name jars, or folders of jars, separated by commas.")
    return take_in(home=home.expanduser() if home else None, jars=paths, base=base, say=say)


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
Lab = Annotated[str, typer.Option(help="Where the hosts run: embedded (no daemon) or compose.")]
Runs = Annotated[
    Path, typer.Option("--runs", parser=run_root, metavar="<path>", help="Folder for run folders.")
]
Rate = Annotated[
    float | None,
    typer.Option(
        "--rate",
        parser=message_rate,
        metavar="<float>",
        help="Background messages per second in each AZ; 0: none. Default: the scenario's own.",
    ),
]
_FILE = "Java properties file with settings of "
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="TABLE.KEY=VALUE",
        help="A property, such as broker.request.timeout.ms=30000; also of topic, producer, consumer.",
    ),
]
BrokerConfig = Annotated[Path | None, typer.Option("--broker-config", help=f"{_FILE}the brokers.")]
TopicConfig = Annotated[Path | None, typer.Option("--topic-config", help=f"{_FILE}every topic.")]
ProducerConfig = Annotated[Path | None, typer.Option("--producer-config", help=f"{_FILE}the producers.")]
ConsumerConfig = Annotated[Path | None, typer.Option("--consumer-config", help=f"{_FILE}the consumers.")]
CompressTime = Annotated[
    float,
    typer.Option(
        "--compress-time",
        parser=divisor,
        metavar="<float>",
        help="Divide the time settings that you set by this.",
    ),
]
KafkaHome = Annotated[
    Path | None,
    typer.Option(
        "--kafka-home", metavar="<path>", help="Folder of an unpacked Kafka release, or of your own build."
    ),
]
KafkaJars = Annotated[
    str | None,
    typer.Option(
        "--kafka-jars",
        metavar="<path,...>",
        help="Jars, or folders of jars, whose classes replace those of Kafka.",
    ),
]
ClientName = Annotated[
    str,
    typer.Option(
        "--client",
        help="What the producers and consumers are: librdkafka, java, or a program that speaks the client "
        "protocol.",
    ),
]
ClientVersion = Annotated[
    str, typer.Option("--client-version", help="Version of the Java client. Default: that of the brokers.")
]
Force = Annotated[bool, typer.Option(help="Accept a Kafka version that has not been tested.")]
Repeat = Annotated[
    int,
    typer.Option(
        "--repeat",
        parser=count("--repeat", least=1, most=MOST_RUNS),
        metavar="<int>",
        help="Number of runs of each.",
    ),
]
Junit = Annotated[
    Path | None, typer.Option("--junit", metavar="<path>", help="Write the runs as JUnit XML, for a CI job.")
]
Summary = Annotated[
    Path | None,
    typer.Option("--summary", metavar="<path>", help="Write a summary in Markdown, for a CI job."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the outcome, and no progress.")]
Index = Annotated[
    Path | None,
    typer.Option("--index", metavar="<path>", help="Write the page of the series, with links to their runs."),
]
BudgetOption = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="<time>",
        help="Start no run that would end later than this, such as 45m. Scenarios that have not run for "
        "longest come first.",
    ),
]
ShardOption = Annotated[
    str | None, typer.Option("--shard", metavar="<k/n>", help="Run only one of n equal shares: 2/4.")
]
KeepFailed = Annotated[
    bool, typer.Option("--keep-failed", help="Remove the run folders of runs that are as declared.")
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
        help="Number of clusters to run side by side; 0: three, or fewer on a small machine.",
    ),
]

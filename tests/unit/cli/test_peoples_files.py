"""Files as people have them: each is accepted as it is, or refused with the sentence that makes it work."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.commands import loaded
from harness.cluster.cluster_file import read_cluster_file
from harness.cluster.settings import Settings
from harness.cluster.settings_files import read_properties
from harness.errors import LONGEST_SENTENCE, UsageError
from harness.kafka.versions import VERSIONS
from run.runner import RunOptions, applied_to
from studies.assess.battery import battery
from studies.assess.process import choose
from studies.assess.series import describe, understood
from studies.series.serving import RunOrder

FILES = Path(__file__).parents[2] / "peoples-files"
ACCEPTED = [
    (table, file)
    for table in ("broker", "producer", "consumer")
    for file in sorted((FILES / table).iterdir())
]
NEWEST = list(VERSIONS)[-1]
SOURCES = {
    "apache-single.yml": (3, "kraft-combined", "3.9.1"),
    "bitnami-kraft.yml": (3, "kraft-combined", "3.9.2"),
    "combined-cluster": (3, "kraft-combined", NEWEST),
    "configmap.yaml": (3, "kraft-combined", NEWEST),
    "cp-three-brokers.yml": (3, "zookeeper", "3.5.2"),
    "dedicated": (3, "kraft", NEWEST),
    "strimzi-folder": (6, "kraft", "3.9.2"),
    "strimzi-kraft.yaml": (6, "kraft", "3.9.2"),
    "strimzi-zookeeper.yaml": (3, "zookeeper", "3.5.2"),
    "variables.env": (3, "kraft-combined", NEWEST),
    "with-env-file": (3, "kraft-combined", "4.1.0"),
    "wurstmeister.yml": (3, "zookeeper", "2.8.2"),
    "zookeeper-cluster": (3, "zookeeper", "2.7.1"),
}
"""Brokers, mode and Kafka version of each source of a cluster file."""
REFUSED = (
    (
        "broker",
        "../producer/apache.properties",
        "configures a client; name the file with --producer-config or",
    ),
    (
        "broker",
        "../producer/spring-application.yml",
        "configures a client; name the file with --producer-conf",
    ),
    (
        "broker",
        "../cluster/cp-three-brokers.yml",
        "Compose file; `acked cluster from` makes a cluster file of",
    ),
    (
        "broker",
        "../cluster/strimzi-kraft.yaml",
        "`acked cluster from` makes a cluster file of those of Strimzi",
    ),
    ("broker", "aiven-user-config.json", "name a file with Kafka's own names, such as min.insync.replicas=2"),
    ("broker", "ansible-variables.yml", "name a file with Kafka's own names, such as min.insync.replicas=2"),
    ("broker", "ansible-inventory.yml", "name the server.properties that the role writes on a broker"),
    ("broker", "comment-behind-a-value.properties", "num.partitions=3   # per topic: give a whole number of"),
    ("broker", "configure.sh", "this is a script; name the file of properties that it writes"),
    ("broker", "context.xml", "this is XML; name a file of properties"),
    ("broker", "game-server.properties", "none of its properties, such as 'level-name'; name a file with"),
    ("broker", "helm-values.yaml", "name the server.properties in `kubectl get configmap`"),
    ("broker", "log4j.properties", "name a file with Kafka's own names"),
    ("broker", "msk.tf", "Terraform; name a file that holds the lines of server_properties"),
    (
        "broker",
        "rendered-by-envsubst.properties",
        "log.retention.hours=${RETENTION_HOURS}: this is a placeholder",
    ),
    ("broker", "server.properties.j2", "this is a template; name the file that results from it"),
    ("broker", "two-values.properties", "2 sets it to '24' already; keep one of the lines"),
    ("broker", "units.properties", "log.retention.minutes=3days: give a whole number"),
    ("broker", "zookeeper.properties", "name a file with Kafka's own names"),
    (
        "producer",
        "../broker/apache-zookeeper.properties",
        "configures a broker; name the file with --broker-conf",
    ),
    ("producer", "constants.properties", "name a file with Kafka's own names, such as acks=all"),
    (
        "producer",
        "getting-started.ini",
        "INI file with sections; name a file that holds the lines of one section",
    ),
    ("producer", "micronaut.yml", "name a file with Kafka's own names, such as acks=all"),
    (
        "producer",
        "misspelt.properties",
        "enable.idempotance: Kafka has no such producer property; did you mean",
    ),
    ("producer", "quarkus-application.properties", "name a file with Kafka's own names, such as acks=all"),
    ("producer", "spring-without-kafka.yml", "name a file with Kafka's own names, such as acks=all"),
    ("producer", "vector.yaml", "name a file with Kafka's own names, such as acks=all"),
    ("consumer", "getting-started.ini", "INI file with sections"),
    ("consumer", "../broker/msk.properties", "configures a broker; name the file with --broker-config"),
    (
        "cluster",
        "../producer/apache.properties",
        "configures a client; name the file with --producer-config or",
    ),
    (
        "cluster",
        "../producer/spring-application.yml",
        "name it with --producer-config or --consumer-config of",
    ),
    ("cluster", "confluent-operator.yaml", "none of Strimzi's; name a server.properties, a Compose file or"),
    ("cluster", "helm-values.yaml", "name the server.properties in `kubectl get configmap`"),
    ("cluster", "redpanda.yaml", "is not Kafka; describe a cluster of Apache Kafka in a cluster file"),
    ("cluster", "redpanda-compose.yml", "describe one in a cluster file"),
    ("cluster", "strimzi-connect.yaml", "none of Strimzi's"),
    (
        "cluster",
        "strimzi-topic-alone.yaml",
        "None of the sources describes a broker; name the brokers' server",
    ),
    ("cluster", "server.properties.j2", "this is a template; name the file that results from it"),
)
"""What is refused: as what it was named, the file, and the remedy that the sentence has."""
SECRET = re.compile(r"\w-(secret|pass|pw)\b|not-for-you|keystorepass|SECRETSECRET|AAAABBBB|MIID|user_\w+=")
"""The secrets in the files."""


def _assess(*arguments: str | Path) -> Result:
    return CliRunner().invoke(loaded("assess"), ["--list", *map(str, arguments)])


def _listed(result: Result) -> str:
    assert result.exit_code == 0, result.exception
    assert not SECRET.search(result.output)
    return result.output


def _sentence(result: Result, file: Path) -> str:
    assert isinstance(result.exception, UsageError), (result.output, result.exception)
    message = result.exception.message
    assert "\n" not in message
    assert len(message.replace(str(FILES), "")) <= LONGEST_SENTENCE
    assert file.name in message or "None of the sources" in message
    assert not SECRET.search(message)
    return message


@pytest.mark.parametrize(("table", "file"), ACCEPTED, ids=lambda part: getattr(part, "name", part))
def test_a_file_is_accepted_as_it_is(table: str, file: Path) -> None:
    _listed(_assess(f"--{table}-config", file))


@pytest.mark.parametrize("source", SOURCES)
def test_a_cluster_file_is_made_of_it_that_can_be_assessed(source: str, tmp_path: Path) -> None:
    out = tmp_path / "cluster.toml"
    made = CliRunner().invoke(loaded("cluster"), ["from", str(FILES / "cluster" / source), "--out", str(out)])
    assert made.exit_code == 0, made.exception
    described = read_cluster_file(out)
    assert (sum(az.brokers for az in described.layout.azs), described.mode, described.kafka) == SOURCES[
        source
    ]
    _listed(_assess(out))


def test_every_source_is_tried() -> None:
    assert {file.name for file in (FILES / "cluster").iterdir()} == set(SOURCES)
    assert {file.name for file in (FILES / "refused").iterdir()} <= {
        Path(name).name for _, name, _ in REFUSED
    }


@pytest.mark.parametrize(("table", "name", "remedy"), REFUSED, ids=lambda part: str(part)[:40])
def test_another_file_is_refused_with_what_makes_it_work(table: str, name: str, remedy: str) -> None:
    file = (FILES / "refused" / name).resolve()
    if table == "cluster":
        result = CliRunner().invoke(loaded("cluster"), ["from", str(file)])
    else:
        result = _assess(f"--{table}-config", file)
    assert remedy in _sentence(result, file)


@pytest.mark.parametrize(("table", "file"), ACCEPTED, ids=lambda part: getattr(part, "name", part))
def test_runs_accept_what_the_list_accepts(table: str, file: Path) -> None:
    """The process of a cluster gets the settings as JSON, and applies them to each of its cases."""
    target = describe(None, "", "", read_properties(file, table))
    settings = Settings.from_json(json.loads(json.dumps(target.settings.as_json())))
    options = RunOptions(version=target.version, mode=target.mode, settings=settings)
    cases = battery(target.topology, target.mode)
    listed = understood(target, cases[0], "embedded")
    for number, case in enumerate(cases[::10], start=1):
        scenario, as_run = choose(options, RunOrder(scenario=case.name, folder=""), number)
        applied = applied_to(scenario, as_run)
        assert applied.not_followed == listed.not_followed
        assert applied.given == listed.given


@pytest.mark.parametrize(
    ("table", "name"),
    [(table, name) for table, name, _ in REFUSED if table != "cluster"],
    ids=lambda part: str(part)[:40],
)
def test_runs_refuse_what_the_list_refuses(table: str, name: str, tmp_path: Path) -> None:
    file = (FILES / "refused" / name).resolve()
    arguments = [f"--{table}-config", str(file), "--runs", str(tmp_path / "runs")]
    run = CliRunner().invoke(loaded("assess"), arguments)
    assert _sentence(run, file) == _sentence(_assess(*arguments), file)
    assert not (tmp_path / "runs").exists()

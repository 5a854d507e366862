"""Which properties hold secrets, and that nothing that was typed or written in a file appears again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import cast

import msgspec
import pytest

from harness.cluster.cluster_file import read_cluster_file
from harness.cluster.settings import NO_SETTINGS, Settings
from harness.cluster.settings_files import read_options, read_properties
from harness.cluster.setup import Setup
from harness.errors import EXIT_UNFIT, EXIT_USAGE, UsageError
from harness.history.journal import Journal
from harness.kafka.model import Endpoint, TopicPartition
from harness.kafka.security import ClientSecurity
from harness.kafka.versions import kafka_version
from harness.lab.layout import THREE_AZS
from harness.secrets import (
    HIDDEN,
    Secret,
    holds_secret,
    names_secret,
    recorded_arguments,
    redacted,
    shown,
    shown_arguments,
    shown_comments,
    shown_text,
)
from run.client_choice import parse_client
from run.scenario import Scenario
from run.settings import AppliedSettings, apply
from workloads.agent.producers.recorder import Recorder
from workloads.agent.programs.producers import described
from workloads.protocol.commands import Read
from workloads.protocol.java_names import producer_properties
from workloads.protocol.lines import Failure
from workloads.protocol.spec import ConsumerSpec, ProducerSpec, Via

SECRET = "Pl4nted-S3cr3t"

SECRET_NAMES = [
    *("ssl.keystore.password", "ssl.key.password", "ssl.truststore.password", "ssl.keystore.key"),
    *(
        "ssl.key.pem",
        "sasl.jaas.config",
        "sasl.password",
        "sasl.username",
        "SSL_KEY_PASSWORD",
        "ssl-key-password",
    ),
    *("listener.name.internal.scram-sha-256.sasl.jaas.config", "listener.name.x.ssl.keystore.password"),
    *("zookeeper.ssl.keystore.password", "password.encoder.secret", "password.encoder.old.secret"),
    *("delegation.token.master.key", "delegation.token.secret.key", "basic.auth.user.info"),
    *("schema.registry.basic.auth.user.info", "sasl.oauthbearer.client.secret", "sasl.oauthbearer.config"),
    *("confluent.metrics.reporter.sasl.jaas.config", "aws.secret.access.key", "AWS_SECRET_ACCESS_KEY"),
    *("my.credentials", "my.api.key", "api_key", "vault.token", "tls.private.key", "ssl.something.new"),
    *("producer.override.sasl.jaas.config", "broker.my.plugin.passphrase", "--password", "--api-key"),
    *("confluent.license", "my.plugin.license.key", "keytab", "connection.string", "request.signature"),
    *("ldap.bind.pw", "x.pwd", "auth", "--auth", "--pass", "--key", "http.authorization", "session.cookie"),
]
PUBLIC_NAMES = [
    *("ssl.keystore.type", "ssl.keystore.location", "ssl.truststore.location", "ssl.client.auth"),
    *("ssl.enabled.protocols", "ssl.cipher.suites", "ssl.endpoint.identification.algorithm", "ssl.provider"),
    *("sasl.mechanism", "sasl.mechanisms", "sasl.enabled.mechanisms", "sasl.login.refresh.window.factor"),
    *("sasl.oauthbearer.token.endpoint.url", "sasl.login.callback.handler.class", "security.protocol"),
    *("delegation.token.expiry.time.ms", "delegation.token.max.lifetime.ms", "password.encoder.iterations"),
    *("password.encoder.key.length", "basic.auth.credentials.source", "key.serializer", "log.dirs"),
    *("min.insync.replicas", "transactional.id", "client.id", "partition.assignment.strategy", "acks"),
    *("partitioner.ignore.keys", "key.deserializer", "my.private.key.file"),
]


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_names_of_secrets(name: str) -> None:
    assert names_secret(name)
    assert shown(name, SECRET) == HIDDEN
    assert shown_text(f"{name}={SECRET}") == f"{name}={HIDDEN}"


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_names_of_other_properties(name: str) -> None:
    assert not holds_secret(name, "value")
    assert shown_text(f"{name} = 7") == f"{name} = 7"


@pytest.mark.parametrize(
    ("value", "rest"),
    [
        (f"https://user:{SECRET}@host:8081/x", "https://[hidden]@host:8081/x"),
        (f"https://{SECRET}@host", "https://[hidden]@host"),
        (str(Path(f"https://user:{SECRET}@host/x")), "https:/[hidden]@host/x"),
        (f"http://a:{SECRET}/@h,http://b:{SECRET}@i", "http://[hidden]@i"),
        (f'org.x.ScramLoginModule required username="u" password="{SECRET}";', None),
        (f"-----BEGIN PRIVATE KEY-----{SECRET}", "[hidden]"),
        (64 * "A" + "==", "[hidden]"),
        ("1@198.18.0.1:9093,2@198.18.0.2:9093", "1@198.18.0.1:9093,2@198.18.0.2:9093"),
        ("PLAINTEXT://198.18.0.1:9092", "PLAINTEXT://198.18.0.1:9092"),
        ("/" + 70 * "a", "/" + 70 * "a"),
    ],
)
def test_secrets_inside_values(value: str, rest: str | None) -> None:
    assert SECRET not in shown("some.setting", value)
    assert rest is None or shown("some.setting", value) == rest
    assert holds_secret("some.setting", value) == (shown("some.setting", value) != value)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        (f"ssl.key.password {SECRET}", "ssl.key.password [hidden]"),
        (f'"ssl.key.password" = "{SECRET}', '"ssl.key.password" = "[hidden]'),
        (f'{{"acks": "1", "sasl.password": "{SECRET}"}}', '{"acks": "1", "sasl.password": "[hidden]'),
        (f'  password="{SECRET}";', '  password="[hidden]'),
        (f"https://u:{SECRET}@h password={SECRET}", "https://[hidden]@h password=[hidden]"),
        ("[topic.secret-orders]", "[topic.secret-orders]"),
        ("password.encoder.iterations = 4096", "password.encoder.iterations = 4096"),
        ("ssl.key.password", "ssl.key.password"),
    ],
)
def test_secrets_in_malformed_lines(text: str, rest: str) -> None:
    assert shown_text(text) == rest


@pytest.mark.parametrize(
    ("arguments", "rest"),
    [
        (["--set", f"broker.ssl.key.password={SECRET}"], ["--set", "broker.ssl.key.password=[hidden]"]),
        (["agent", "--password", SECRET, "-v"], ["agent", "--password", "[hidden]", "-v"]),
        (["agent", f"--api-key={SECRET}"], ["agent", "--api-key=[hidden]"]),
        (["--client", f"agent --token {SECRET}"], ["--client", "agent --token [hidden]"]),
        (["--token-file", "/t", "--set", "broker.x=1"], ["--token-file", "/t", "--set", "broker.x=1"]),
        (["run", "secret-scenario", "-q"], ["run", "secret-scenario", "-q"]),
    ],
)
def test_secrets_in_arguments(arguments: list[str], rest: list[str]) -> None:
    assert shown_arguments(arguments) == rest


@pytest.mark.parametrize(
    ("argument", "rest"),
    [
        ("./agent -u me:hunter2", "./agent -u me:[hidden]"),
        ("./agent -phunter2 -v", "./agent -p[hidden] -v"),
        ("./agent -v --port 8080", "./agent -v --port 8080"),
        ("-p", "-p"),
    ],
)
def test_short_options_of_a_program_are_recorded_without_what_may_be_a_secret(
    argument: str, rest: str
) -> None:
    assert recorded_arguments([argument]) == [rest]


def test_secrets_in_the_comments_of_a_file_that_is_kept() -> None:
    text = f"# ssl.key.password={SECRET}\n[topic.secret-orders]\nretention.ms = 5 # was token {SECRET}\n"
    assert shown_comments(text) == text.replace(SECRET, HIDDEN)


def test_texts_of_a_library_that_was_given_secrets() -> None:
    config = {"sasl.password": SECRET, "acks": -1, "ssl.key.password": ""}
    assert (
        redacted(f'Invalid value "{SECRET}" for acks=-1', config) == f'Invalid value "{HIDDEN}" for acks=-1'
    )


PROPERTIES = [
    *(f"{name}={SECRET}" for name in SECRET_NAMES if not name.startswith("-")),
    f"ssl.keystore.password={SECRET}\nssl.keystore.password={SECRET}2",
    f"ssl.keystore.password {SECRET}",
    f"={SECRET}",
    f"ssl.keystore.password=\\u00zz{SECRET}",
    f"sasl.jaas.config=X required\n  username=u\n  password={SECRET};",
    f"bad key/password={SECRET}",
    f"min.insync.replicas=https://u:{SECRET}@h",
    f"ssl.keystore.key=-----BEGIN PRIVATE KEY-----\\n{SECRET}",
]
CLUSTER_FILES = [
    f'[broker]\nssl.keystore.password = "{SECRET}"\n[[az]]\nname = "a"\n',
    f'broker = "ssl.keystore.password={SECRET}"\n[[az]]\nname = "a"\n',
    f"[broker]\nssl.keystore.password = {SECRET}\n",
    f'[broker]\nssl.keystore.password = "{SECRET}\n',
    f'[broker]\n"ssl.keystore.password" = ["{SECRET}", {{ a = 1 }}]\n[[az]]\nname = "a"\n',
    f'[broker]\nssl.keystore.password = {{ value = "{SECRET}" }}\n[[az]]\nname = "a"\n',
    f'[producer]\nsasl.jaas.config = "X required password=\\"{SECRET}\\";"\n[[az]]\nname = "a"\n',
    f'[consumer]\nbasic.auth.user.info = "u:{SECRET}"\n[[az]]\nname = "a"\n',
    f'kafka = {{ password = "{SECRET}" }}\n[[az]]\nname = "a"\n',
    f'password = "{SECRET}"\n[[az]]\nname = "a"\n',
    f'az = {{ password = "{SECRET}" }}\n',
    f'az = [{{ name = "a", brokers = {{ password = "{SECRET}" }} }}]\n',
    f'[topic.orders]\npassword = "{SECRET}"\n[[az]]\nname = "a"\n',
    f'[broker]\nzookeeper.my.password = "{SECRET}"\n[[az]]\nname = "a"\n',
]
OPTIONS = [
    *(
        f"{table}.{name}={SECRET}"
        for table in ("broker", "producer", "topic")
        for name in SECRET_NAMES[::7]
        if not name.startswith("-")
    ),
    f"brokr.ssl.keystore.password={SECRET}",
    f"broker.ssl.keystore.password {SECRET}",
    f"ssl.keystore.password={SECRET}",
    f"broker.x.url=https://u:{SECRET}@host",
    f"broker.bad key.password={SECRET}",
]
CLIENTS = [
    f"{sys.executable} --password {SECRET}",
    f"{sys.executable} -Dssl.key.password={SECRET}",
    f"{sys.executable} https://u:{SECRET}@host",
    f"no-such-program --token={SECRET}",
    f"no-such-program -u user:{SECRET}",
    f"no-such-program -p{SECRET}",
    f"'{sys.executable} --password {SECRET}",
]


def commands(folder: Path) -> Iterator[list[str]]:
    """Command lines, each with a secret in one of the places that can hold one.

    Brokers' secrets are left out, so that some of the lines would start a run on a machine that is fit.
    """
    for number, text in enumerate(PROPERTIES):
        for table in ("broker", "producer", "consumer", "topic"):
            file = folder / f"{table}{number}.properties"
            file.write_text(text + "\n")
            yield ["assess", "--list", f"--{table}-config", str(file)]
    for number, text in enumerate(CLUSTER_FILES):
        file = folder / f"cluster{number}.toml"
        file.write_text(text)
        yield ["assess", str(file), "--list"]
        yield ["run", "no-fault", "--cluster", str(file)]
    for option in OPTIONS:
        yield ["run", "no-fault", "--set", option]
        yield ["assess", "--list", "--set", option, "--set", option]
    for client in CLIENTS:
        yield ["run", "no-fault", "--client", client]
        yield ["client", "check", client]
        yield ["run", "no-fault", "--client", client, "--client-version", "3.9.1"]


def readings(folder: Path) -> Iterator[Callable[[], object]]:
    """What reads each of these places; the first code that sees the secret."""
    for number, text in enumerate((*PROPERTIES, *CLUSTER_FILES)):
        (folder / str(number)).write_text(text + "\n")
    for number in range(len(PROPERTIES)):
        yield partial(read_properties, folder / str(number), "broker")
        yield partial(read_properties, folder / str(number), "producer")
    for number in range(len(CLUSTER_FILES)):
        yield partial(read_cluster_file, folder / str(len(PROPERTIES) + number))
    for option in OPTIONS:
        yield partial(read_options, [option])
        yield partial(read_options, [option, option])
    for client in CLIENTS:
        yield partial(parse_client, client)
        yield partial(parse_client, client, "3.9.1")


def test_what_is_read_has_no_secret(tmp_path: Path) -> None:
    read, refused = 0, 0
    for reading in readings(tmp_path):
        try:
            text = repr(reading())
            read += 1
        except UsageError as error:
            text = f"{error.message} {error.detail}"
            refused += 1
        assert SECRET not in text
    assert min(read, refused) > 20


def test_a_secret_never_reaches_a_broker() -> None:
    """Not even one that only a setting of another metadata mode would hold."""
    for option in ("zookeeper.my.password", "password.encoder.secret", "metrics.reporter.token"):
        settings = read_options([f"broker.{option}={SECRET}"])
        outcome = applied(settings)
        assert option in {left_out.setting.key for left_out in outcome.not_followed}
        assert option not in outcome.scenario.setup.broker_config
    with pytest.raises(UsageError, match=r"sets ssl.key.password=\[hidden\] of its brokers"):
        applied(NO_SETTINGS, {"ssl.key.password": SECRET})


def applied(settings: Settings, broker_config: Mapping[str, str] | None = None) -> AppliedSettings:
    scenario = Scenario(
        name="s",
        title="t",
        body=lambda stage: None,
        setup=Setup(topics=(), broker_config=broker_config or {}),
    )
    topology = THREE_AZS.topology("kraft")
    return apply(scenario, settings, topology=topology, mode="kraft", version=kafka_version("3.9.1"))


def test_a_producers_secrets_are_not_recorded(tmp_path: Path) -> None:
    for writer, via in enumerate(("librdkafka", "program", "java")):
        config = {"sasl.password": SECRET, "linger.ms": 5, "a.url": f"https://u:{SECRET}@h"}
        spec = ProducerSpec(
            writer=writer, name="p", brokers=(Endpoint("b", 1),), via=cast(Via, via), config=config
        )
        with Journal(tmp_path / "journal.jsonl") as journal:
            Recorder(journal, "client1", "az1").register(spec)
    written = (tmp_path / "journal.jsonl").read_text()
    assert SECRET not in written
    assert [json.loads(row["config"])["sasl.password"] for row in map(json.loads, written.splitlines())] == [
        HIDDEN,
        HIDDEN,
        HIDDEN,
    ]
    failure = Failure(exception="E", text=f"{150 * 'x'} {SECRET} is wrong")
    assert SECRET[:6] not in described(failure, spec.config)


def test_a_secret_shows_itself_to_nobody_but_who_asks() -> None:
    secret = Secret(SECRET)
    security = ClientSecurity(
        protocol="SASL_SSL",
        mechanism="PLAIN",
        username=SECRET,
        password=secret,
        certificate=SECRET,
        key=secret,
    )
    endpoint = Endpoint("b", 1, security=security)
    spec = ProducerSpec(writer=1, name="p", brokers=(endpoint,), via="librdkafka")
    given = [secret, security, endpoint, spec, asdict(security)["password"], Read(consumer(endpoint), 1.0)]
    for text in [form(one) for one in given for form in (str, repr, ascii, "{}".format)]:
        assert SECRET not in text
    for encode in (json.dumps, msgspec.json.encode):
        with pytest.raises(TypeError):
            encode(asdict(security))
    assert secret.reveal() == SECRET
    assert (secret == Secret(SECRET), secret == SECRET, bool(Secret())) == (True, False, False)


def test_the_security_of_a_client_is_not_recorded(tmp_path: Path) -> None:
    security = ClientSecurity(
        protocol="SASL_SSL", mechanism="PLAIN", username="u", password=Secret(SECRET), key=Secret(SECRET)
    )
    security = replace(security, certificate="certificate", username=SECRET, ca="ca")
    for writer, via in enumerate(("librdkafka", "program", "java", "raw")):
        brokers = (Endpoint("b", 1, security=security),)
        spec = ProducerSpec(writer=writer, name="p", brokers=brokers, via=cast(Via, via))
        assert via == "raw" or SECRET in str({**spec.librdkafka_config(), **producer_properties(spec)})
        with Journal(tmp_path / "journal.jsonl") as journal:
            Recorder(journal, "client1", "az1").register(spec)
        failure = Failure(exception="E", text=f"{150 * 'x'} {SECRET} is wrong")
        assert SECRET[:6] not in described(failure, spec.librdkafka_config())
    written = (tmp_path / "journal.jsonl").read_text()
    assert written.count('\\"security.protocol\\": \\"SASL_SSL\\"') == 3
    assert SECRET not in written


def consumer(broker: Endpoint) -> ConsumerSpec:
    return ConsumerSpec(reader=1, name="c", brokers=(broker,), partitions=(TopicPartition("t", 0),))


RUNNER = """
import json, os, sys
from typer.testing import CliRunner
from cli.commands import app
from run.environment import COMMAND_LINE, note_command
for arguments in json.load(sys.stdin):
    os.environ.pop(COMMAND_LINE, None)
    note_command(arguments)
    done = CliRunner().invoke(app, arguments)
    code = getattr(done.exception, "exit_code", done.exit_code)
    print(json.dumps({"code": code, "noted": os.environ[COMMAND_LINE], "error": str(done.exception)}))
    print(done.output)
"""


@pytest.mark.parametrize(
    "step", [23, pytest.param(1, marks=[pytest.mark.long])], ids=["a few places", "every place"]
)
def test_no_refused_secret_is_printed_or_written(tmp_path: Path, step: int) -> None:
    given, work = tmp_path / "given", tmp_path / "work"
    for folder in (given, work):
        folder.mkdir()
    lines = list(commands(given))[::step]
    places = {"TMPDIR": str(work), "ACKED_CACHE": str(work / "cache"), "PATH": str(given)}
    environment = {**os.environ, **places}  # the path has no Java and no `ip`: no run starts
    environment.pop("JAVA_HOME", None)
    done = subprocess.run(
        [sys.executable, "-c", RUNNER],
        input=json.dumps(lines),
        capture_output=True,
        text=True,
        cwd=work,
        env=environment,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    codes = [json.loads(line)["code"] for line in done.stdout.splitlines() if line.startswith('{"code"')]
    assert len(codes) == len(lines)
    assert HIDDEN in done.stdout
    leaks = [line for line in (done.stdout + done.stderr).splitlines() if SECRET in line]
    assert leaks == []
    written = [path for path in work.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert written == []
    assert not list(work.glob("runs/*"))
    listed = {code for line, code in zip(lines, codes, strict=True) if "--list" in line}
    of_clients = {code for line, code in zip(lines, codes, strict=True) if {"--client", "client"} & {*line}}
    of_runs = {code for line, code in zip(lines, codes, strict=True) if "--list" not in line}
    assert listed <= {0, EXIT_USAGE}
    assert of_clients == {EXIT_USAGE}
    assert of_runs and of_runs <= {EXIT_USAGE, EXIT_UNFIT}


def test_the_runner_would_see_a_secret() -> None:
    """The search above finds what is printed: the same commands with a word that is no secret."""
    option = f"broker.min.insync.replicas={SECRET}"
    done = subprocess.run(
        [sys.executable, "-c", RUNNER],
        input=json.dumps([["run", "no-fault", "--set", option, "--set", option]]),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert len(re.findall(SECRET, done.stdout)) >= 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SASL_SSL://broker1:9093,SSL://broker1:9094", "SASL_SSL://broker1:9093,SSL://broker1:9094"),
        ("CLIENTS:SASL_SSL,SSL:SSL", "CLIENTS:SASL_SSL,SSL:SSL"),
        ("SASL_SSL://ann:hunter2@broker1:9093", f"SASL_SSL://{HIDDEN}@broker1:9093"),
        ("SASL_SSL://broker1:9093 sasl.password=hunter2", f"SASL_SSL://broker1:9093 sasl.password={HIDDEN}"),
        ("sasl_ssl: hunter2", f"sasl_ssl: {HIDDEN}"),
    ],
)
def test_addresses_of_secured_listeners_are_no_secrets(text: str, told: str) -> None:
    assert shown_text(text) == told

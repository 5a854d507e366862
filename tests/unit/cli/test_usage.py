"""Invalid options are rejected with exit code 254 and one sentence that names the option and its value."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path

import pytest
import typer.main

from cli import commands
from cli.main import main
from harness import artifacts, doctor
from tests.unit.cluster.malformed import AZ, BROKER_PROPERTIES, CLUSTER_FILES, TABLES

BUILT = typer.main.get_command(commands.app)
"""Built once: that takes longer than to refuse a command."""


@pytest.fixture(autouse=True)
def _nothing_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test in this file may get as far as a download, the machine's examination or a run folder."""

    def started(*_: object, **__: object) -> None:
        pytest.fail("the command started to work")

    monkeypatch.setattr(typer.main, "get_command", lambda _: BUILT)
    monkeypatch.setattr(doctor, "require", started)
    monkeypatch.setattr(artifacts, "resolve", started)
    monkeypatch.setattr(artifacts, "resolve_all", started)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.chdir(tmp_path)


def refusal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    """The sentence with which `acked WORDS` is rejected."""
    monkeypatch.setattr(sys, "argv", ["acked", *words])
    with pytest.raises(SystemExit) as end:
        main()
    said = capsys.readouterr()
    assert end.value.code == 254, said
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert list(Path.cwd().iterdir()) == []
    return line


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("record", "Give one of --check-only, --for, --resume and --clean"),
        ("record --for 10m --check-only", "Give one of --check-only"),
        ("record --for 10m", "Name the cluster with --bootstrap host:port"),
        ("record --for ten --bootstrap h:1", "--for ten: .* such as 90s"),
        ("record --for 1s --bootstrap h:1", "--for 1s: .* from 5s"),
        ("record --for 10m --bootstrap h", "bootstrap 'h': give host:port"),
        ("record --for 10m --bootstrap h:70000", "bootstrap 'h:70000': give host:port"),
        ("record --for 10m --bootstrap 127.0.0.1:1", "bootstrap 127.0.0.1:1: no broker answers .*refused"),
        ("record --for 10m --bootstrap h:1 --rate 1", "--rate 1: .* from 2 to"),
        ("record --for 10m --bootstrap h:1 --listen 0.0.0.0:80", "--listen '0.0.0.0:80': give 127.0.0.1"),
        ("record --check-only --bootstrap h:1 --client-config no", "--client-config no"),
        ("mark text --fault earthquake", "--fault 'earthquake' is no kind of fault"),
        ("mark text --fault cut --healed", "begins .--fault. or ends"),
        ("mark text", "No recording is under way in runs/record/latest"),
        ("matrix --lab mars", "no lab 'mars'; use embedded or compose"),
        ("run no-fault --lab mars", "no lab 'mars'"),
        ("run --all --lab mars", "no lab 'mars'"),
        ("bisect kraft-zombie-controller --claim split-brain --lab mars", "no lab 'mars'"),
        ("run no-fault --rate -5", "--rate -5: "),
        ("run no-fault --rate nan", "--rate nan: "),
        ("run no-fault --rate inf", "--rate inf: "),
        ("run no-fault --rate fast", "--rate fast: "),
        ("run no-fault --parallel -3", "--parallel -3: .* from 0 to 64"),
        ("run --all --parallel many", "--parallel many: "),
        ("matrix --parallel -1", "--parallel -1: "),
        ("run no-fault --repeat two", "--repeat two: .* from 1 to"),
        ("matrix --repeat 0", "--repeat 0: "),
        ("run no-fault --runs=", "--runs is empty"),
        ("run --all --budget 45", "--budget 45: .* its unit"),
        ("run --all --shard 5/4", "--shard 5/4: "),
        ("matrix --shard one", "--shard one: "),
        ("run --all --junit no/such/folder.xml", "--junit no/such/folder.xml: .* a folder that exists"),
        ("run --all --summary .", "--summary .: "),
        ("run --all --earlier no-such.jsonl", "--earlier no-such.jsonl: no such file"),
        ("summary no-such.jsonl", "FILES no-such.jsonl: no such file"),
        ("run --keep-failed", "Name a scenario"),
        ("matrix --runs=", "--runs is empty"),
        ("matrix --versions ,", "',' names no Kafka version"),
        ("matrix --versions=", "'' names no Kafka version"),
        ("matrix --modes ,", "',' names no metadata mode"),
        ("matrix --modes zookeeper,mars", "'mars' is not a metadata mode; use zookeeper, kraft, "),
        ("run leader-az-isolated --kafka 3.9.1 --mode mars", "'mars'"),
        ("run no-fault --mode kraft", "no-fault runs in mode zookeeper, not 'kraft'"),
        ("run no-fault --kafka 3.9.1 --mode kraft", "no-fault runs in mode zookeeper, not 'kraft'"),
        ("run no-fault --kafka 3.8.1", "no-fault runs in mode zookeeper, .* Kafka 3.8.1 .* kraft or"),
        ("run leader-az-isolated --mode kraft", "Kafka 2.7.1 runs here in mode zookeeper, not 'kraft'"),
        ("matrix no-fault --versions 3.9.1 --modes kraft", "3.9.1 kraft.* no-fault runs in mode zookeeper"),
        ("run", "Name a scenario"),
        ("run no-fault --all", "'no-fault' or --all"),
        ("run --filter ,", "'' matches no scenario of the catalogue"),
        ("run --filter=", "--filter is empty"),
        ("run no-fault --set nonsense", "--set nonsense: write TABLE.KEY=VALUE"),
        (
            "run no-fault --set broker.default.replication.factor=4",
            "--set: default.replication.factor=4: default.replication.factor .4. must be at most",
        ),
        (
            "run --all --set broker.min.insync.replicas=4",
            "--set: min.insync.replicas=4: min.insync.replicas .4. must be at most the number of brokers",
        ),
        (
            "matrix --set broker.transaction.state.log.replication.factor=1",
            "--set: transaction.state.log.replication.factor=1: transaction.state.log.min.isr .2. must be",
        ),
        (
            "search --count 1 --set broker.offsets.topic.replication.factor=4",
            "--set: offsets.topic.replication.factor=4: offsets.topic.replication.factor .4. must be at most",
        ),
        (
            "assess --set topic.o.replication-factor=1 --set topic.o.min.insync.replicas=2",
            "--set: topic 'o': min.insync.replicas=2, but the replication factor is 1",
        ),
        ("matrix canary --set producer.acks=7", "--set: acks=7: use all, -1, 0 or 1"),
        ("run no-fault --broker-config none", "--broker-config none cannot be read: No such file"),
        ("run no-fault --topic-config none", "--topic-config none cannot be read: No such file"),
        ("run no-fault --producer-config none", "--producer-config none cannot be read: No such file"),
        ("run no-fault --consumer-config none", "--consumer-config none cannot be read: No such file"),
        ("run no-fault --compress-time 0", "--compress-time 0: give a number from 1 to 1000"),
        ("run no-fault --compress-time fast", "--compress-time fast: give a number"),
        ("run no-fault --compress-time 5", "--compress-time 5 divides time settings of yours, and you set"),
        ("run --from .", "--from .: the folder holds no scenario file"),
        ("run no-fault --from .", "Use either the scenario .no-fault. or --all, --filter and --from"),
        ("run --all --from nowhere", "--from nowhere: there is no such file or folder"),
        ("run ./nowhere.py", "nowhere.py cannot be read: No such file .*`acked new NAME`"),
        ("run .", r"There is no scenario '\.'"),
        ("run ./", r"\. is a folder; name a file in it, or use --from \."),
        ("bisect ./nowhere.py --claim x", "nowhere.py cannot be read: No such file"),
        (
            "check x --claims no-fault --control silence",
            "--claims judges run folders on this machine, without",
        ),
        ("new My_Case", "'My_Case' is not a name for a scenario"),
        ("new no-fault", "There is a scenario 'no-fault' already"),
        ("search --lab mars", "no lab 'mars'"),
        ("search --seed x", "--seed x: give a whole number from 0 to"),
        ("search --count 0", "--count 0: .* from 1 to"),
        ("search --budget 45", "--budget 45: .* its unit"),
        ("search --parallel 0", "--parallel 0: .* from 1 to"),
        (
            "search --faults meteor",
            "--faults 'meteor' matches no fault of Kafka 2.7.1 in mode zookeeper; use cut, flap",
        ),
        ("search --producers meteor", "--producers 'meteor' matches no kind of producer .*; use idempotent,"),
        ("search --client nowhere", "--client: 'nowhere' is neither a file nor on the path"),
        ("search --compare 2.7.1,4.3.1", "no metadata mode is common to these versions"),
        ("search --compare 3.6.2", "name two or more different versions, or clients"),
        ("search --mode mars", "no mode 'mars'"),
        ("search --cluster nowhere.toml", "nowhere.toml cannot be read"),
        ("search --resume . --seed 1", "--resume continues a search as it was planned"),
        ("replay --repeat 0 x", "--repeat 0: .* from 1 to"),
        ("shrink", "Name a run to shrink, or --resume"),
        ("run --nonsense", "No such option: --nonsense"),
        ("nonsense", "No such command 'nonsense'"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    command: str, sentence: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = refusal(capsys, monkeypatch, *command.split())
    assert line.startswith("acked: ")
    assert re.search(sentence, line), line


@pytest.mark.parametrize(
    "words", ["run", "run --repeat 2", "matrix", "list", "bisect --claim x", "run --lab compose"]
)
def test_a_scenario_file_with_a_mistake_is_refused(
    words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With file and line, by every command that takes a scenario."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    file = tmp_path / "elsewhere" / "case.py"
    file.write_text("x = 1\nSCENARIO = y\n")
    line = refusal(capsys, monkeypatch, *words.split(), str(file))
    assert line == f"acked: {file}:2: NameError: name 'y' is not defined; correct the declaration."


def test_an_option_of_another_type_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the option has no check of its own."""
    assert "--limit" in refusal(capsys, monkeypatch, "sql", "select 1", "--limit", "all")


@pytest.mark.parametrize("words", [("run", "no-fault", "--repeat", "2"), ("matrix", "no-fault")])
def test_a_damaged_series_cannot_be_resumed(
    words: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Exit code 4, with file and line; nothing is run or written."""
    line = '{"scenario": "no-fault", "version": "2.7.1", "mode": "zookeeper", "verdict": 7}\n'
    (tmp_path / "runs.jsonl").write_text(line)
    monkeypatch.setattr("run.session.prepare", lambda *_, **__: None)
    monkeypatch.setattr(sys, "argv", ["acked", *words, "--resume", "."])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 4
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("acked: runs.jsonl, line 1: verdict is 7, not one of crashed, ")
    assert (tmp_path / "runs.jsonl").read_text() == line
    assert not (tmp_path / "runs").exists()


_AZS = "".join(f'[[az]]\nname = "az{number}"\n' for number in (1, 2, 3))


@pytest.mark.parametrize(
    ("option", "content", "sentence"),
    [
        ("--cluster", "[broker]\na = 1\n", "FILE: az is missing"),
        (
            "--cluster",
            f"{_AZS}[broker]\noffsets.topic.replication.factor = 4\n",
            "FILE:8: offsets.topic.replication.factor=4: ",
        ),
        ("--cluster", f"{_AZS}[broker]\nx = [[1]]\n", r"FILE:8: x = \[\[1\]\]: a property is text"),
        (
            "--cluster",
            f"{_AZS}[topic]\nretention = 1\n",
            "FILE:8: 'retention' does not end in a topic property",
        ),
        ("--cluster", f"{_AZS}[topic.t]\npartitions = 2\n", "FILE:8: the scenario assigns the replicas"),
        ("--cluster", f"{_AZS}[topic.o]\nassignment = [[4]]\n", "FILE:8: topic 'o': partition 0 is assigned"),
        ("--cluster", f"{_AZS}[producer]\nacks = 2\n", "FILE:8: acks=2: use all, -1, 0 or 1"),
        (
            "--cluster",
            f"{_AZS}[consumer]\nsession.timeout.ms = 10\n",
            "FILE:8: session.timeout.ms=10: ",
        ),
        ("--broker-config", "min.insync.replicas=9\n", "FILE:1: min.insync.replicas=9: "),
        ("--broker-config", "a=1\na=2\n", "FILE:2: a=2: FILE:1 sets it to '1' already"),
        ("--broker-config", "num.io.threads\n", "FILE:1: 'num.io.threads' has no value"),
        ("--topic-config", "min.isr=2\n", "FILE:1: 'min.isr' does not end in a topic property of Kafka"),
        ("--producer-config", "a=\\u00\n", "FILE:1: .* is not a Unicode escape"),
        ("--producer-config", "lingerms=5\n", "FILE:1: lingerms: .* did you mean linger.ms"),
        ("--consumer-config", "isolation.level=none\n", "FILE:1: isolation.level=none: use read_committed"),
    ],
)
def test_a_malformed_file_starts_nothing(
    option: str,
    content: str,
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    file = tmp_path_factory.mktemp("settings") / "given"
    file.write_text(content)
    line = refusal(capsys, monkeypatch, "run", "canary", option, str(file))
    assert re.search(sentence, line.replace(str(file), "FILE")), line


MALFORMED: tuple[tuple[str | bytes, str], ...] = (
    *CLUSTER_FILES,
    *((f"{text}{AZ}", sentence) for text, sentence in TABLES),
)


@pytest.mark.parametrize(("content", "sentence"), MALFORMED)
def test_every_malformed_cluster_file_starts_nothing(
    content: str | bytes,
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    file = tmp_path_factory.mktemp("cluster") / "given"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    line = refusal(capsys, monkeypatch, "assess", str(file))
    assert line.replace(str(file), "FILE").startswith(f"acked: {sentence}")


@pytest.mark.parametrize(("content", "sentence"), BROKER_PROPERTIES)
def test_every_malformed_properties_file_starts_nothing(
    content: bytes,
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    file = tmp_path_factory.mktemp("settings") / "given"
    file.write_bytes(content)
    line = refusal(capsys, monkeypatch, "assess", "--broker-config", str(file))
    assert line.replace(str(file), "FILE").startswith(f"acked: {sentence}")

"""The user's own scenarios: found by their file, kept with the run, and refused in one sentence."""

from __future__ import annotations

import hashlib
import importlib
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from cli.catalogue import new
from harness.errors import AckedError, UsageError
from run import catalogue
from run.catalogue import find, known_scenarios, select
from run.folder import RunFolder
from run.scenario_file import kept, read_places
from studies.series.job import Job
from studies.series.plan import own_jobs, plan, remaining
from tests.unit.run.own import CLAIM, TEXT, write


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


def test_a_file_works_like_a_name(tmp_path: Path) -> None:
    file = write(tmp_path)
    for reference in ("my_case.py", "./my_case.py", str(file), "./my_case.py:my-case"):
        assert find(reference).name == "my-case"
    assert [one.name for one in select(["no-fault", "./my_case.py"])] == ["no-fault", "my-case"]


def test_one_of_several_is_named(tmp_path: Path) -> None:
    many = TEXT.format(claims=CLAIM, more="").replace("SCENARIO =", "ONE =")
    write(
        tmp_path,
        text=f"{many}\nfrom dataclasses import replace\nSCENARIOS = (ONE, replace(ONE, name='other'))\n",
    )
    assert find("my_case.py:other").name == "other"
    with pytest.raises(
        UsageError, match=r"holds 2 scenarios \(my-case, other\); name one.*my_case.py:my-case"
    ):
        find("my_case.py")
    with pytest.raises(UsageError, match="holds no scenario 'third'"):
        find("my_case.py:third")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = 1\nbody = (\n", r"^my_case.py:2: syntax error in `body = \(`: '\(' was never closed; "),
        ("\0", "^my_case.py cannot be read: it is not text; "),
        ("x = 1\nraise GeneratorExit\n", "^my_case.py:2: GeneratorExit; "),
        ("raise BaseException('no')\n", "^my_case.py:1: BaseException: no; "),
        ("raise MemoryError\n", "^my_case.py:1: MemoryError; "),
        ("def f():\n    f()\nf()\n", "^my_case.py:2: RecursionError: maximum recursion depth"),
        (f"x = {'[' * 9000}{']' * 9000}\n", "^my_case.py:1: "),
        (f"x = {'-' * 9999}1\n", "^my_case.py:1: "),
        (f"x = {'9' * 5000}\n", "^my_case.py:1: "),
        (
            "import os\n\nimport no_such_module\n",
            "^my_case.py:3: ModuleNotFoundError: .*no_such_module.*; install",
        ),
        ("from acked import Claims\n", "^my_case.py:1: ImportError: cannot import name 'Claims'"),
        ("x = 1\n\n\nx / 0\n", "^my_case.py:4: ZeroDivisionError: division by zero; correct"),
        ("import sys\nsys.exit(3)\n", "^my_case.py:2: SystemExit: 3; "),
        ("x = 1\n", "^my_case.py holds no scenario; declare SCENARIO = "),
        ("SCENARIO = 5\n", "^my_case.py declares int as its scenarios; "),
        ("SCENARIOS = ()\n", "^my_case.py declares tuple as its scenarios; "),
        ("from acked import Scenario\nSCENARIO = Scenario(name='x')\n", "^my_case.py:2: TypeError: .*title"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    write(tmp_path, text=text)
    with pytest.raises(UsageError, match=sentence) as refused:
        find("my_case.py")
    assert "\n" not in refused.value.message
    assert refused.value.message.endswith(".")


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ("kafka='latest'", "'latest' is not a Kafka version"),
        ("mode='raft'", "'raft' is not a metadata mode; use zookeeper"),
        (
            "expected=(Expected('lost', '', '', client='jvaa'),)",
            "client is 'jvaa', but must be 'librdkafka' or 'java', or left out",
        ),
        ("mode='kraft'", "Kafka 2.7.1 runs here in mode zookeeper, not 'kraft'"),
        ("versions='2.7.1'", "versions is '2.7.1', but must be a tuple; add a comma"),
        ("faults=['x']", "faults is a list, but must be a tuple of str"),
        ("aliases='A'", "aliases is 'A', but must map names to hosts"),
        ("outcome=5", "outcome is 5, but must be a text"),
        (
            "expected=(Expected(finding='lots', where='true', because=''),)",
            "no finding 'lots'; use one of .*lost",
        ),
        (
            "expected=(Expected(finding='lost', where='true', because='', since='x'),)",
            "'x' is not a Kafka version",
        ),
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused(tmp_path: Path, more: str, sentence: str) -> None:
    write(tmp_path, more=more)
    with pytest.raises(UsageError, match=rf"^my_case.py:(8|11): .*{sentence}"):
        find("my_case.py")


@pytest.mark.parametrize(
    ("old", "new_text", "sentence"),
    [
        ('name="my-case"', 'name="../up"', r"the name '\.\./up' cannot be used"),
        ('name="my-case"', 'name="matrix"', "the name 'matrix' cannot be used"),
        ("body=body", "body=5", "body is 5, but must be a function"),
        ("def body(stage)", "def body()", "the body must take one argument"),
        ("(1, 2, 3)", "(1, 2, 4)", "a replica on broker 4"),
        ('Topic("t", (1, 2, 3)),', "", "setup names no topic"),
        ('Topic("t"', 'Topic("stream"', "the topic 'stream' is that of the background stream"),
        ("3)),)", "3)),), controller='broker9'", "setup.controller names 'broker9'; use one of the hosts"),
        ("3)),)", "3)),), quorum='one'", "setup.quorum is 'one'; use 'every AZ' or 'one node'."),
        (
            "3)),)",
            "3)),), quorum='one node', zookeeper_pins={'broker1': ('zookeeper1',)}",
            "setup.zookeeper_pins names 'zookeeper1', which does not start with quorum='one node'",
        ),
    ],
)
def test_a_setup_that_makes_no_sense_is_refused(
    tmp_path: Path, old: str, new_text: str, sentence: str
) -> None:
    text = TEXT.format(claims=CLAIM, more="")
    assert old in text
    write(tmp_path, text=text.replace(old, new_text, 1))
    with pytest.raises(UsageError, match=rf"^my_case.py:8: .*{sentence}"):
        find("my_case.py")


@pytest.mark.parametrize(
    ("claims", "sentence"),
    [
        (f"{CLAIM},\n    {CLAIM}", r"^my_case.py:10: 2 claims have the name 'true'"),
        ("5", "^my_case.py:8: claims has 5, but must hold Claim only"),
        ("Claim(name='a', says=' ', holds='x')", "^my_case.py:10: a claim has an empty says"),
        ("Claim(name='a', says='b', holds=5)", "^my_case.py:10: holds of a claim is 5, but must be a text"),
        ("Claim(name='a', says='b', holds='c', erratum='d')", "erratum of claim 'a' is 'd'; write Erratum"),
    ],
)
def test_a_claim_that_makes_no_sense_is_refused(tmp_path: Path, claims: str, sentence: str) -> None:
    write(tmp_path, claims=claims)
    with pytest.raises(UsageError, match=sentence):
        find("my_case.py")


def test_a_name_is_used_once(tmp_path: Path) -> None:
    """Neither a name of the catalogue nor two files of one name."""
    text = TEXT.format(claims=CLAIM, more="")
    write(tmp_path, "mine.py", text=text.replace("my-case", "no-fault"))
    with pytest.raises(UsageError, match="'no-fault': .*mine.py:8 and the catalogue; rename one"):
        find("mine.py")
    write(tmp_path, "a.py")
    write(tmp_path, "b.py")
    with pytest.raises(UsageError, match=r"'my-case': .*b.py:8 and .*a.py:8"):
        select(["./a.py", "./b.py"])


def test_a_folder_of_scenarios(tmp_path: Path) -> None:
    """All its files, except those whose names begin with an underscore; none is left out silently."""
    write(tmp_path, "a.py")
    write(tmp_path, "_helper.py", text="x = 1\n")
    own = read_places([tmp_path])
    assert [one.name for one in own] == ["my-case"]
    assert [one.name for one in read_places([tmp_path / "a.py"])] == ["my-case"], "a file instead of a folder"
    write(tmp_path, "typo.py", text="SCENARO = 1\n")
    with pytest.raises(UsageError, match="typo.py holds no scenario"):
        read_places([tmp_path])
    with pytest.raises(UsageError, match="--from nowhere: there is no such file or folder"):
        read_places([Path("nowhere")])


def test_globs_choose_from_the_catalogue_and_from_own_scenarios_together(tmp_path: Path) -> None:
    write(tmp_path, "a.py")
    own = read_places([tmp_path, tmp_path / "a.py"])
    assert [one.name for one in select(["my-*", "no-fault"], own)] == ["no-fault", "my-case"]
    assert len(select(["*"], own)) == len(known_scenarios()) + 1
    with pytest.raises(UsageError) as caught:
        select(["my-cise"], own)
    assert str(caught.value).startswith(
        f"'my-cise' matches no scenario of the catalogue ({len(known_scenarios())}"
    )
    assert " or of --from (my-case); did you mean 'my-case'?" in str(caught.value)
    with pytest.raises(UsageError, match="--from adds scenarios of your own"):
        select(["my-case"])


def test_a_module_beside_the_file_can_be_imported(tmp_path: Path) -> None:
    write(tmp_path, "_claims_of_mine.py", text=f"from acked import Claim\nMINE = {CLAIM}\n")
    write(tmp_path, claims="MINE", more="")
    text = (tmp_path / "my_case.py").read_text()
    write(tmp_path, text=f"from _claims_of_mine import MINE\n{text}")
    assert find("my_case.py").claims[0].name == "true"


def test_a_run_keeps_the_file_and_runs_the_copy(tmp_path: Path) -> None:
    """The process of a run reads what was read when the series began, whatever became of the file."""
    file = write(tmp_path)
    (job,) = own_jobs([find("my_case.py")])
    before = file.read_text()
    write(tmp_path, text="broken (")
    folder = RunFolder.create(tmp_path / "runs", job.scenario, job.file)
    assert (folder.path / "scenario.py").read_text() == before
    assert folder.manifest()["scenario_file"] == {
        "path": str(file),
        "sha256": hashlib.sha256(before.encode()).hexdigest(),
        "module": "",
    }
    scenario = kept(folder, "my-case")
    assert scenario is not None
    assert (scenario.name, scenario.claims[0].name) == ("my-case", "true")


def test_jobs_know_their_file_and_compare_without_it(tmp_path: Path) -> None:
    """A resumed series compares what it planned with what `runs.jsonl` names."""
    write(tmp_path)
    (job,) = plan([find("my_case.py")])
    assert job.file is not None
    assert remaining([job], [Job(scenario="my-case", version="2.7.1", mode="zookeeper")]) == []


def test_a_mistake_in_the_body_names_its_line(tmp_path: Path) -> None:
    text = TEXT.format(claims=CLAIM, more="").replace("    pass", "    x = {}\n    x['az9']")
    write(tmp_path, text=text)
    with pytest.raises(
        AckedError, match=r"my_case.py:6: the scenario's body failed: KeyError: 'az9'; correct it"
    ):
        find("my_case.py").body(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["open('/none')"], "my_case.py:5: the scenario's body failed: FileNotFoundError: .*'/none'"),
        (["raise TimeoutError('late')"], "my_case.py:5: the scenario's body failed: TimeoutError: late;"),
        (["raise SystemExit(3)"], "my_case.py:5: the scenario's body failed: SystemExit: 3;"),
        (
            ["from concurrent.futures import Future", "Future().result(timeout=0)"],
            "my_case.py:6: the scenario's body failed: TimeoutError; correct it.",
        ),
        (
            ["from harness.waiting import wait_until", "wait_until(lambda: 1 / 0, within_s=1, awaiting='x')"],
            "my_case.py:6: the scenario's body failed: ZeroDivisionError: division by zero;",
        ),
        (
            ["from beside import fail", "fail()"],
            "beside.py:2: the scenario's body failed: OSError: beside the file;",
        ),
        (["raise OSError(40 * 'words ')"], r"failed: OSError: (words ){19}\.\.\.; correct it\.$"),
    ],
)
def test_an_error_of_the_scenario_s_own_code_names_its_line(
    tmp_path: Path, lines: list[str], said: str
) -> None:
    """Its class does not decide: a file that is not there is no cluster that does not answer."""
    (tmp_path / "beside.py").write_text("def fail():\n    raise OSError('beside the file')\n")
    body = "".join(f"    {line}\n" for line in lines)
    write(tmp_path, text=TEXT.format(claims=CLAIM, more="").replace("    pass\n", body))
    with pytest.raises(AckedError, match=said) as raised:
        find("my_case.py").body(None)  # type: ignore[arg-type]
    assert raised.value.exit_code == 255
    assert len(raised.value.message.replace(str(tmp_path), "")) <= 300


def test_an_os_error_that_acked_raises_is_not_the_scenario_s(tmp_path: Path) -> None:
    text = TEXT.format(claims=CLAIM, more="").replace(
        "    pass",
        "    from acked import Endpoint\n    from harness.kafka.wire.metadata import metadata\n"
        "    metadata(Endpoint('127.0.0.1', 1), timeout_s=0.1)",
    )
    write(tmp_path, text=text)
    with pytest.raises(ConnectionError, match="cannot be reached"):
        find("my_case.py").body(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["SystemExit(1)", "GeneratorExit()", "BaseException()", "MemoryError()"])
def test_a_body_that_ends_the_process_is_a_mistake_in_it(tmp_path: Path, name: str) -> None:
    """An exit code of its own would be taken for a verdict."""
    write(tmp_path, text=TEXT.format(claims=CLAIM, more="").replace("pass", f"raise {name}"))
    with pytest.raises(AckedError, match=rf"my_case.py:5: the scenario's body failed: {name[:8]}"):
        find("my_case.py").body(None)  # type: ignore[arg-type]


def test_a_failure_of_the_run_passes_through_the_body(tmp_path: Path) -> None:
    text = TEXT.format(claims=CLAIM, more="").replace(
        "pass", "from acked import InvalidRunError as E; raise E('no')"
    )
    write(tmp_path, text=text)
    with pytest.raises(AckedError) as raised:
        find("my_case.py").body(None)  # type: ignore[arg-type]
    assert raised.value.message == "no"


def _install(monkeypatch: pytest.MonkeyPatch, folder: Path, value: str) -> None:
    point = EntryPoint("mine", value, catalogue.GROUP)
    monkeypatch.setattr(catalogue, "entry_points", lambda group: [point] if group == catalogue.GROUP else [])
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()


@pytest.mark.parametrize("value", ["their_cases", "their_cases:SCENARIO"])
def test_an_installed_package_offers_scenarios(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    write(tmp_path, "their_cases.py")
    _install(monkeypatch, tmp_path, value)
    sys.modules.pop("their_cases", None)
    scenario = find("my-case")
    assert scenario.file is not None
    assert scenario.file.module == "their_cases"
    assert "my-case" in known_scenarios()
    folder = RunFolder.create(tmp_path / "runs", "my-case", scenario.file)
    assert kept(folder, "my-case") is None  # it is found by its name


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("import no_such_module\n", "installed package other_cases .* cannot be loaded .*no_such_module"),
        ("SCENARIO = 5\n", "installed package other_cases offers a wrong scenario: .*declares int"),
    ],
)
def test_a_broken_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, sentence: str
) -> None:
    write(tmp_path, "other_cases.py", text=text)
    _install(monkeypatch, tmp_path, "other_cases")
    sys.modules.pop("other_cases", None)
    with pytest.raises(UsageError, match=sentence):
        find("no-fault")


def test_new_writes_a_file_that_declares_a_scenario(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new("first-case")
    assert capsys.readouterr().out == "first_case.py is written; run it with: acked run ./first_case.py\n"
    scenario = find("./first_case.py")
    assert (scenario.name, len(scenario.claims)) == ("first-case", 3)
    before = (tmp_path / "first_case.py").read_text()
    with pytest.raises(UsageError, match="first_case.py exists already"):
        new("first-case")
    assert (tmp_path / "first_case.py").read_text() == before
    for name, sentence in (
        ("First Case", "not a name for a scenario"),
        ("no-fault", "a scenario 'no-fault' already"),
    ):
        with pytest.raises(UsageError, match=sentence):
            new(name)

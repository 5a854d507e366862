"""`acked sql`, `acked export` and `acked story` on a small stored run; the examples of docs/analysis.md."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import checkers.spark.session
from checkers.judge import judge
from cli.commands import app
from harness.errors import BadDataError, UsageError
from harness.extras import EXTRAS
from tests.spark.made_runs import explained, stored_run
from tests.unit.run.own import write

pytestmark = pytest.mark.spark

PAGE = (Path(__file__).parents[2] / "docs" / "analysis.md").read_text()
Run = Callable[..., str]


@pytest.fixture(scope="module")
def run(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six messages, of which broker 1 acknowledged the last four alone while az1 was cut off; judged."""
    history = explained()
    for number, row in enumerate(history.rows["sends"]):
        row["label"] = "abcdef"[number]
    history.add("writers", writer=1, name="az1-script", host="client1", az="az1", acks=1, role="stream")
    history.add("marks", ns=850, name="cut", text="az1 is cut off")
    history.read(0, 0, 9500, poll=0).read(1, 1, 9501, poll=0)
    folder = stored_run(tmp_path_factory.mktemp("runs") / "made-up" / "one", history)
    judge(spark, folder)
    return folder


@pytest.fixture
def acked(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in the session that the tests share; its standard output, when it went well."""
    monkeypatch.setattr(checkers.spark.session, "start_session", lambda **_: spark)

    def call(*arguments: object) -> str:
        done = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == 0, done.output
        return done.stdout

    return call


def asked(acked: Run, query: str, *runs: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(acked("sql", query, *runs, "--json"))
    return rows


VIEWS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "lost": (
        "select label, offset, az, acks, acked_by, acked_during, last_broker from lost "
        "order by offset limit 2",
        [
            {"label": label, "offset": offset, "az": "az1", "acks": 1, "acked_by": 1}
            | {"acked_during": "isolate az1", "last_broker": 1}
            for label, offset in (("c", 2), ("d", 3))
        ],
    ),
    "availability": (
        "select second, az, sent, ok, fail, info, share from availability",
        [{"second": 0, "az": "az1", "sent": 6, "ok": 6, "fail": 0, "info": 0, "share": 1.0}],
    ),
    "latency": (
        "select az, acks, sum(acknowledged) n, max(max_ms) < 1 quick from latency group by az, acks",
        [{"az": "az1", "acks": 1, "n": 6, "quick": True}],
    ),
    "leaders": (
        "select epoch, leader, named_by from leaders order by epoch",
        [
            {"epoch": 0, "leader": 1, "named_by": ["broker1"]},
            {"epoch": 1, "leader": 2, "named_by": ["broker2"]},
        ],
    ),
    "timeline": (
        "select kind, what from timeline order by ns",
        [
            {"kind": "mark", "what": "cut"},
            {"kind": "fault", "what": "isolate az1: injected"},
            {"kind": "fault", "what": "isolate az1: healed"},
            {"kind": "log", "what": "broker1 truncated"},
        ],
    ),
    "truth": (
        "select source, leader, epoch from truth order by epoch",
        [
            {"source": "broker1", "leader": 1, "epoch": 0},
            {"source": "broker2", "leader": 2, "epoch": 1},
        ],
    ),
    "life": (
        "select fate, count(*) n from life group by fate order by fate",
        [{"fate": "kept", "n": 2}, {"fate": "lost", "n": 4}],
    ),
    "findings": ("select count(*) n from findings where expected", [{"n": 4}]),
}


@pytest.mark.parametrize("view", VIEWS)
def test_views_answer_the_common_questions(acked: Run, run: Path, view: str) -> None:
    query, expected = VIEWS[view]
    assert asked(acked, query, run) == expected


def test_many_runs_are_told_apart(acked: Run, run: Path) -> None:
    """A folder of runs, and one of them once more, are each run once."""
    assert asked(acked, "select distinct run from sends", run.parent, run) == [{"run": "made-up/one"}]


@pytest.mark.parametrize("table", ["sends", "truth"])
def test_a_query_sees_only_its_own_runs(acked: Run, run: Path, tmp_path: Path, table: str) -> None:
    """After a query about another run."""
    other = stored_run(tmp_path / "other" / "two", explained())
    query = f"select distinct run from {table}"
    assert asked(acked, query, run) == [{"run": "made-up/one"}]
    assert asked(acked, query, other) == [{"run": "other/two"}]


def test_rows_beyond_the_limit_are_said_to_be_there(acked: Run, run: Path) -> None:
    shown = acked("sql", "select label, fate from life order by seq", run, "--limit", "2")
    assert [line.split() for line in shown.splitlines()[:3]] == [
        ["label", "fate"],
        ["a", "kept"],
        ["b", "kept"],
    ]


def test_sql_that_nobody_understands(acked: Run, run: Path) -> None:
    with pytest.raises(UsageError, match=r"no table 'nowhere'.* docs/history.md"):
        acked("sql", "select nothing from nowhere", run)
    with pytest.raises(BadDataError, match="holds no history"):
        acked("sql", "select 1", run / "nodes")


def test_the_story_of_a_lost_message(acked: Run, run: Path) -> None:
    lines = json.loads(acked("story", "c", run, "--json"))
    text = "\n".join(lines)
    assert lines[0] == "Message 1/2 (c) of az1-script to t/0: lost"
    chain = [
        "az1 is cut off",
        "fault `isolate az1` injected",
        "sent with acks=1 from client1",
        "seen on broker1 at offset 2, epoch 0",
        "acknowledged by broker1 at offset 2",
        "broker2 says: leader 2, epoch 1",
        "broker1 logged: truncated to offset 2",
        "gone from broker1 at offset 2",
    ]
    places = [text.find(part) for part in chain]
    assert -1 not in places, f"{chain[places.index(-1)]} is not in {text}"
    in_order = [text.find(part) for part in chain if part not in ("gone from broker1 at offset 2",)]
    assert in_order == sorted(in_order)
    assert "on no replica; last seen on broker1" in lines[-2]
    assert "cause  old leader truncated on rejoin" in lines[-1]
    assert "nothing went wrong with it" in acked("story", "1/0", run)
    with pytest.raises(UsageError, match="has no message"):
        acked("story", "nobody", run)


def test_no_broker_acknowledges_a_message_with_acks_0(spark: Any, acked: Run, tmp_path: Path) -> None:
    history = explained()
    history.add("writers", writer=1, name="az1-script", host="client1", az="az1", acks=0, role="stream")
    folder = stored_run(tmp_path / "made-up" / "acks-0", history)
    judge(spark, folder)
    story = acked("story", "1/0", folder)
    assert "sent with acks=0" in story and "no broker answers" in story
    assert "acknowledged by" not in story


def test_a_run_is_judged_by_the_claims_of_a_file(acked: Run, run: Path, tmp_path: Path) -> None:
    """Instead of those that it recorded: claims are corrected without another run. Nothing is written."""
    folder = tmp_path / "my-case"
    shutil.copytree(run, folder)
    (folder / "run.json").write_text(
        json.dumps({"status": "complete", "scenario": "my-case", "kafka": "2.7.1"})
    )
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    counted = "SELECT count(*) = {} AS holds, concat(count(*), ' messages') AS observed FROM {}"
    claims = "Claim(name='six', says='There are six.', holds=\"{}\")"
    expected = "expected=(Expected(finding='lost', where='true', because=''),),"

    def judged(query: str) -> dict[str, Any]:
        file = write(tmp_path, claims=claims.format(query), more=expected)
        answer: dict[str, Any] = json.loads(acked("check", folder, "--claims", file, "--json"))
        return answer

    assert judged(counted.format(6, "life"))["verdict"] == "as declared"
    with pytest.raises(AssertionError, match="refuted"):
        judged(counted.format(7, "life"))
    with pytest.raises(UsageError, match=r"my_case.py:10: the SQL of claim 'six' .*liefe"):
        judged(counted.format(6, "liefe"))
    with pytest.raises(UsageError, match="is a run of 'my-case', and no-fault declares 'no-fault'"):
        acked("check", folder, "--claims", "no-fault")
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before


def test_export_as_json_is_a_history_of_invocations_and_completions(
    acked: Run, run: Path, tmp_path: Path
) -> None:
    told = json.loads(acked("export", run, "--to", tmp_path / "history.json", "--json"))
    ops = json.loads((tmp_path / "history.json").read_text())
    assert told["operations"] == len(ops) and told["sends"] == 6 and told["keys"] == {"t/0": 0}
    assert [op["index"] for op in ops] == list(range(len(ops)))
    assert [op["time"] for op in ops] == sorted(op["time"] for op in ops)
    busy: set[int] = set()
    assert {op["type"] for op in ops if op["process"] == "nemesis"} == {"info"}
    for op in ops:  # a process does one thing at a time, and completes what it began
        if op["process"] == "nemesis":
            continue
        if op["type"] == "invoke":
            assert op["process"] not in busy
            busy.add(op["process"])
        else:
            busy.remove(op["process"])
    assert not busy
    done = [op["value"] for op in ops if op["f"] == "send" and op["type"] == "ok"]
    assert done == [[["send", 0, [seq, 10**12 + seq]]] for seq in range(6)]
    polled = [op["value"] for op in ops if op["f"] == "poll" and op["type"] == "ok"]
    assert str(polled).count(str(10**12 + 1)) == 2, "once by the reader, once from the final log"
    assert str(10**12 + 5) not in str(polled), "what was lost is in no poll"


def test_export_as_edn_is_one_operation_a_line(acked: Run, run: Path, tmp_path: Path) -> None:
    shown = acked("export", run, "--to", tmp_path / "history.edn")
    lines = (tmp_path / "history.edn").read_text().splitlines()
    assert lines[0].startswith("{:index 0, :type :invoke, :f :send, :value [[:send 0 1000000000000]]")
    assert all(
        re.fullmatch(r"\{:index \d+, :type :(invoke|ok|fail|info), :f :[\w-]+, .*\}", line) for line in lines
    )
    assert f"{len(lines)} operations (6 sends" in re.sub(r"\s+", " ", shown)
    with pytest.raises(UsageError, match=r"\.edn or \.json"):
        acked("export", run, "--to", tmp_path / "history.csv")


WITHOUT_THE_LAB = """
import sys
from importlib.machinery import PathFinder

class WithoutTheLab(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {modules} else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = WithoutTheLab
from cli.main import main
main()
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("check", "{run}"), "Verdict: "),
        (("sql", "select count(*) as n from sends", "{run}"), "n\n6"),
        (("export", "{run}", "--to", "history.edn"), "6 sends"),
    ],
    ids=lambda words: words[0] if isinstance(words, tuple) else "",
)
def test_the_extra_check_is_enough(words: tuple[str, ...], shown: str, run: Path, tmp_path: Path) -> None:
    """Stored runs are judged, queried and exported without any package of the extra `lab`."""
    code = WITHOUT_THE_LAB.format(modules=set(EXTRAS["lab"]))
    given = [word.format(run=run) for word in words]
    command = [sys.executable, "-c", code, *given]
    root = Path(__file__).parents[2]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    assert shown in done.stdout, done.stdout + done.stderr


def blocks(language: str, heading: str) -> list[str]:
    """Code of a language under a heading of the page."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", section, flags=re.DOTALL)


def test_the_sql_of_the_page_runs(acked: Run, run: Path) -> None:
    queries = re.findall(r'\$ acked sql "(.*?)" RUN', PAGE)
    assert len(queries) >= 4
    for query in queries:
        asked(acked, query, run)


def test_the_queries_of_the_page_about_groups_and_transactions_run(acked: Run, run: Path) -> None:
    """The run has no groups; `tests/runs` compares the answers with the findings of runs that have."""
    queries = blocks("sql", "Groups and transactions")
    assert len(queries) == 4
    for query in queries:
        assert asked(acked, query, run) == []


def test_the_pyspark_and_notebook_code_of_the_page_runs(
    spark: Any, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (pyspark_code,) = blocks("python", "PySpark")
    (notebook_code,) = blocks("python", "Notebook")
    names: dict[str, Any] = {}
    for code in (pyspark_code, notebook_code):
        exec(code.replace("RUN/", f"{run}/"), names)
    shown = capsys.readouterr().out
    assert re.search(r"\|\s*t\|\s*0\|\s*4\|\s*2\|\s*5\|", shown), shown
    assert list(names["slowest"].columns) == ["az1"]

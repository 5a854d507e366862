"""EDN as Jepsen prints it, and files that are none: each is refused in one sentence with its line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.errors import BadDataError
from harness.history.imports.edn import forms_of
from harness.history.imports.lines import LONGEST_IMPORTED

OP = "{:type :ok, :f :poll, :value [[:poll {0 [[0 1] [1 2]]}]], :process 3}"
READ: Mapping[str, Any] = {
    "type": "ok",
    "f": "poll",
    "value": [["poll", {0: [[0, 1], [1, 2]]}]],
    "process": 3,
}


def read(folder: Path, text: str | bytes) -> list[Any]:
    file = folder / "history.edn"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return [form for _, form in forms_of(file)]


@pytest.mark.parametrize(
    "text",
    [
        f"{OP}\n{OP}\n",
        f"[{OP}\n {OP}]",
        f"#jepsen.history.Op{OP}\n#jepsen.history.Op{OP}",
        f"; a comment\n{OP} #_ {{:left out}} {OP}",
        OP.replace(", ", "\n") + OP.replace("{:type", "{\n:type"),
    ],
    ids=["a line each", "a vector", "tagged", "comments", "printed prettily"],
)
def test_all_forms_of_a_file(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == [READ, READ]


def test_scalars(tmp_path: Path) -> None:
    text = r'[nil true false 12 -5N 1.5 "a\"b\n" :a/b sym \a #{1 2} (3 4)]'
    scalars = [None, True, False, 12, -5, 1.5, 'a"b\n', "a/b", "sym", "a"]
    assert read(tmp_path, f"{text[:-1]}]") == [*scalars, [1, 2], [3, 4]]


def test_what_clojure_prints_of_errors_and_nodes(tmp_path: Path) -> None:
    """A trace, an object with its address, a ratio, keys that are collections: of no use here."""
    text = (
        '{:via [{:at [org.apache.kafka.Futures valueOrError "F.java" 97]}], '
        ':trace [[jepsen.client$poll_BANG_$fn__123 <init> "client.clj" -2]], '
        ':data #object[clojure.lang.Atom 0x1f "foo"], :offset 1/2, :rate ##NaN, :var #\'a/b, {:n 1} [2]}'
    )
    assert read(tmp_path, text) == [
        {
            "via": [{"at": ["org.apache.kafka.Futures", "valueOrError", "F.java", 97]}],
            "trace": [["jepsen.client$poll_BANG_$fn__123", "<init>", "client.clj", -2]],
            "data": ["clojure.lang.Atom", "0x1f", "foo"],
            "offset": "1/2",
            "rate": "##NaN",
            "var": "#'a/b",
            "{'n': 1}": [2],
        }
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{:a 1", "line 1: the file ends within a form"),
        ("\n{:a 1]", "line 2: ']' closes '{'"),
        ("]", "closes nothing"),
        ("{:a}", "a key without a value"),
        ("{:a " + "[" * 40, "nested 32 levels deep"),
        ('{:a "b', "cannot be read"),
        ("{:a 99999999999999999999}", "does not fit 64 bits"),
        ("{:a 1} \x00", "cannot be read"),
        (b"{:a \xff\xfe}", "byte 5 is not UTF-8"),
        ("[1] [2]", "text follows the vector"),
        (b" " * (LONGEST_IMPORTED + 2), "more than 16 MiB"),
    ],
    ids=ascii,
)
def test_what_is_no_edn(tmp_path: Path, text: str | bytes, says: str) -> None:
    with pytest.raises(BadDataError) as refusal:
        read(tmp_path, text)
    assert says in refusal.value.message
    assert len(refusal.value.message) < 300

"""Stored JSON may hold half a surrogate pair, which no UTF-8 text can hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import json_file, json_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'["a\ud800b"]', ["a?b"]),
        (r'{"\uDC00": "\ud83d"}', {"?": "?"}),
        (r'"\ud83d\ude00"', "\N{GRINNING FACE}"),
        (r'"C:\\udder"', r"C:\udder"),
        (
            r'{"a": [1, 2.5, null, true, 12345678901234567890]}',
            {"a": [1, 2.5, None, True, 12345678901234567890]},
        ),
    ],
)
def test_half_a_surrogate_pair_is_replaced(text: str, value: object) -> None:
    assert json_value(text, "it") == value
    assert json_value(text.encode(), "it") == value


def test_a_surrogate_in_the_bytes_of_a_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(b'{"name": "a\xed\xa0\x80b", "other": "\xed\x95\x9c"}')
    assert json_file(tmp_path / "run.json") == {"name": "a?b", "other": "\N{HANGUL SYLLABLE HAN}"}

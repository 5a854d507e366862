"""Lines that no honest client program writes: each is the program's fault, in one short sentence."""

from __future__ import annotations

import json

import pytest

from workloads.protocol.lines import (
    LONGEST_LINE,
    OutcomeEvent,
    ProblemEvent,
    ProgramAnswer,
    RecordsEvent,
    parse_hello,
    parse_line,
)

HUGE = b"1" + 30 * b"0"


def outcome(fields: bytes) -> bytes:
    return b'{"outcome": {"producer": 1, "seq": 0, ' + fields + b"}}"


def records(rows: bytes) -> bytes:
    return b'{"records": {"consumer": 1, "records": [' + rows + b"]}}"


def group(partitions: bytes, more: bytes = b"") -> bytes:
    return (
        b'{"group": {"consumer": 1, "event": "assigned", "partitions": [' + partitions + b"]" + more + b"}}"
    )


NOT_JSON = [
    b"",
    b"\n",
    b"Exception in thread main",
    b"\x00" * 40,
    b"\xff\xfe\x00",
    b'\xef\xbb\xbf{"id": 1, "result": {}}',
    b'{"id": 1, "result": {}',
    b'{"id": 1, "result": {}} {"id": 2, "result": {}}',
    b"{'id': 1, 'result': {}}",
    b'{"id": 1, "result": {},}',
    b'{"id": NaN, "result": {}}',
    b'{"id": Infinity, "result": {}}',
    b'{"id": -Infinity, "result": {}}',
    b'{"id": 1e999, "result": {}}',
    b'{"id": 0x1, "result": {}}',
    b'{"id": ' + 5000 * b"1" + b', "result": {}}',
    b'{"problem": {"consumer": 1, "error": {"text": "\xff"}}}',
    b'{"problem": {"consumer": 1, "error": {"text": "\\ud800"}}}',
    b'{"problem": {"consumer": 1, "error": {"text": "\\udc00\\ud800"}}}',
    b'{"problem": {"consumer": 1, "error": {"text": "\x1b[2J"}}}',
    records(b'["a\x00b", 0, 1, 0, "v"]'),
]
NESTED = [
    100_000 * b"[",
    100_000 * b'{"result":',
    b'{"id": 1, "result": ' + 100_000 * b'{"a":' + b"1" + 100_000 * b"}" + b"}",
    b'{"id": 1, "result": {"a": ' + 50_000 * b"[" + 50_000 * b"]" + b"}}",
    records(3000 * b"[" + 3000 * b"]"),
]
TWICE = [
    b'{"id": 1, "id": 2, "result": {}}',
    b'{"id": 1, "result": {}, "result": {}}',
    outcome(b'"outcome": "fail", "outcome": "ok"'),
    outcome(b'"outcome": "ok", "offset": 1, "offset": 2'),
    outcome(b'"outcome": "ok", "\\u0073eq": 1'),
    b'{"problem": {"consumer": 1, "error": {"text": "a: \\"b", "text": "c"}}}',
]
ODD = [
    (b"[1]", "not a JSON object"),
    (b"null", "not a JSON object"),
    (b'"id"', "not a JSON object"),
    (b"{}", "an answer, with an id, or one event"),
    (b'{"hi": 1}', "there is no event 'hi'"),
    (b'{"' + 9000 * b"h" + b'": 1}', "there is no event 'hhh"),
    (b'{"\\u001b[31m": 1}', "there is no event '\u241b[31m'"),
    (b'{"outcome": {"producer": 1, "seq": 0}, "records": {}}', "one event"),
    (b'{"outcome": null}', "OutcomeEvent: Expected `object`, got `null`"),
    (b'{"outcome": [1, 0]}', "OutcomeEvent: Expected `object`, got `array`"),
    (b'{"hello": {"protocol": 2, "client": "c", "version": "1"}}', "there is no event 'hello'"),
    (b'{"id": 1}', "either a result or an error"),
    (b'{"id": 1, "result": null}', "either a result or an error"),
    (b'{"id": 1, "error": null}', "either a result or an error"),
    (b'{"id": 1, "result": {}, "error": {}}', "either a result or an error"),
    (b'{"id": 1, "result": {}, "extra": 1}', "unknown field `extra`"),
    (b'{"id": 1, "result": []}', "`$.result`"),
    (b'{"id": 1, "error": "no"}', "`$.error`"),
    (b'{"id": 1, "error": {"code": "7"}}', "`$.error.code`"),
    (b'{"id": 1, "error": {"code": 4294967296}}', "`$.error.code`"),
    (b'{"id": 1, "error": {"text": 5}}', "`$.error.text`"),
    (b'{"id": 1, "error": {"why": "x"}}', "unknown field `why`"),
    (b'{"id": 1, "error": {"' + 9000 * b"w" + b'": "x"}}', "unknown field `www"),
    (b'{"id": 1, "error": {"exception": "' + 9000 * b"E" + b'"}}', "`$.error.exception`"),
    (b'{"id": 1, "error": {"abortable": 1}}', "`$.error.abortable`"),
    (b'{"id": true, "result": {}}', "Expected `int`, got `bool` - at `$.id`"),
    (b'{"id": "1", "result": {}}', "Expected `int`, got `str` - at `$.id`"),
    (b'{"id": 1.5, "result": {}}', "Expected `int`, got `float` - at `$.id`"),
    (b'{"id": 1.0, "result": {}}', "Expected `int`, got `float` - at `$.id`"),
    (b'{"id": null, "result": {}}', "Expected `int`, got `null` - at `$.id`"),
    (b'{"id": ' + HUGE + b', "result": {}}', "`$.id`"),
    (b'{"outcome": {"producer": 1, "outcome": "ok"}}', "missing required field `seq`"),
    (b'{"outcome": {"producer": true, "seq": 0, "outcome": "ok"}}', "`$.producer`"),
    (b'{"outcome": {"producer": -1, "seq": 0, "outcome": "ok"}}', "`$.producer`"),
    (b'{"outcome": {"producer": 1, "seq": ' + HUGE + b', "outcome": "ok"}}', "`$.seq`"),
    (outcome(b'"outcome": "good"'), "'good' - at `$.outcome`"),
    (outcome(b'"outcome": "' + 9000 * b"o" + b'"'), "Invalid enum value 'ooo"),
    (outcome(b'"outcome": "ok", "offset": ' + HUGE), "`$.offset`"),
    (outcome(b'"outcome": "ok", "offset": -' + HUGE), "`$.offset`"),
    (outcome(b'"outcome": "ok", "offset": "17"'), "`$.offset`"),
    (outcome(b'"outcome": "ok", "offset": 9223372036854775808'), "`$.offset`"),
    (outcome(b'"outcome": "ok", "broker": 2147483648'), "`$.broker`"),
    (outcome(b'"outcome": "ok", "attempts": -1'), "`$.attempts`"),
    (outcome(b'"outcome": "ok", "attempts": ' + HUGE), "`$.attempts`"),
    (outcome(b'"outcome": "ok", "ns": ' + HUGE), "`$.ns`"),
    (outcome(b'"outcome": "ok", "ns": -1'), "`$.ns`"),
    (outcome(b'"outcome": "ok", "partition": 0'), "unknown field `partition`"),
    (records(b'["t", 0, 1, 0]'), "`$.records[0]`"),
    (records(b'["t", 0, 1, 0, "v"], {}'), "`$.records[1]`"),
    (records(b'["t", 0, 1, 0, "v", 1]'), "`$.records[0]`"),
    (records(b'["t", -1, 1, 0, "v"]'), "`$.records[0][1]`"),
    (records(b'["t", 2147483648, 1, 0, "v"]'), "`$.records[0][1]`"),
    (records(b'["t", 0, -1, 0, "v"]'), "`$.records[0][2]`"),
    (records(b'["t", 0, ' + HUGE + b', 0, "v"]'), "`$.records[0][2]`"),
    (records(b'["t", 0, true, 0, "v"]'), "`$.records[0][2]`"),
    (records(b'["t", 0, 1, ' + HUGE + b', "v"]'), "`$.records[0][3]`"),
    (records(b'["t", 0, 1, 0, 5]'), "`$.records[0][4]`"),
    (records(b'[null, 0, 1, 0, "v"]'), "`$.records[0][0]`"),
    (b'{"records": {"consumer": 1, "records": {}}}', "`$.records`"),
    (group(b'["t", 0]'), "`$.partitions[0]`"),
    (group(b'["t", 0, ' + HUGE + b"]"), "`$.partitions[0][2]`"),
    (group(b'["t", 0, null]', b', "generation": ' + HUGE), "`$.generation`"),
    (group(b'["t", 0, null]', b', "member_id": "' + 9000 * b"m" + b'"'), "`$.member_id`"),
    (b'{"group": {"consumer": 1, "event": "joined", "partitions": []}}', "'joined' - at `$.event`"),
    (b'{"problem": {"consumer": 1}}', "missing required field `error`"),
    (b'{"problem": {"consumer": 1, "error": null}}', "`$.error`"),
]
HOSTILE = [
    *((line, "it is not") for line in NOT_JSON),
    *((line, "nested too deeply") for line in NESTED),
    *((line, "the same key twice") for line in TWICE),
    *ODD,
    (b" " * LONGEST_LINE + b"{}", "longer than 16 MiB"),
]


@pytest.mark.parametrize(("line", "why"), HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_line_is_refused_in_one_short_sentence(line: bytes, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_line(line)
    sentence = str(caught.value)
    assert why in sentence
    assert len(sentence) <= 190
    assert sentence.isprintable()
    with pytest.raises(ValueError):  # none of them is a greeting either
        parse_hello(line)


GREETINGS = [
    (b"hello", "not JSON"),
    (b'{"outcome": {}}', "the first line"),
    (b'{"hello": {"protocol": 1, "client": "c", "version": "1", "features": ["magic"]}}', "'magic'"),
    (b'{"hello": {"protocol": 1, "client": "c", "version": "1", "lacks": ["groups"]}}', "'groups'"),
    (b'{"hello": {"protocol": ' + HUGE + b', "client": "c", "version": "1"}}', "version 1000"),
    (b'{"hello": {"protocol": true, "client": "c", "version": "1"}}', "`$.protocol`"),
    (b'{"hello": {"protocol": 1, "client": "' + 9000 * b"c" + b'", "version": "1"}}', "`$.client`"),
    (b'{"hello": {"protocol": 1, "client": "c"}}', "missing required field `version`"),
    (
        b'{"hello": {"protocol": 1, "client": "c", "version": "1", "features": ["' + 9000 * b"f" + b'"]}}',
        "'fff",
    ),
    (b'{"hello": {"protocol": 1, "client": "c", "client": "d", "version": "1"}}', "the same key twice"),
    (100_000 * b"[", "nested too deeply"),
]


@pytest.mark.parametrize(("line", "why"), GREETINGS, ids=range(len(GREETINGS)))
def test_greetings_that_make_no_sense(line: bytes, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_hello(line)
    assert why in str(caught.value)
    assert len(str(caught.value)) <= 190


@pytest.mark.parametrize(
    "fields",
    ["", '"code": 7', '"exception": "E"', '"text": "x: \\"y\\": {"', '"abortable": true', '"code": null'],
)
def test_all_fields_of_an_error_are_optional(fields: str) -> None:
    answer = parse_line(f'{{"id": 1, "error": {{{fields}}}}}'.encode())
    assert isinstance(answer, ProgramAnswer)
    assert answer.error is not None
    problem = parse_line(f'{{"problem": {{"consumer": 1, "error": {{{fields}}}}}}}'.encode())
    assert isinstance(problem, ProblemEvent)


def test_odd_lines_that_the_document_allows() -> None:
    assert parse_line(b' {"id":1,"result":{},"error":null}\r\n') == parse_line(b'{"result": {}, "id": 1}')
    event = parse_line(outcome(b'"outcome": "ok", "offset": -1, "broker": -1, "error": {}'))
    assert isinstance(event, OutcomeEvent)
    assert event.offset == -1
    highest = parse_line(records(b'["t", 2147483647, 9223372036854775807, null, null]'))
    assert isinstance(highest, RecordsEvent)
    assert highest.records == (("t", 2147483647, 9223372036854775807, None, None),)


@pytest.mark.parametrize(
    "topic", ["../x", "a/b", 300 * "t", "\0", "", "\u00fc\u4e2d\U0001f600", ".", "a: {\\"]
)
def test_topic_names_are_values(topic: str) -> None:
    line = json.dumps(
        {"records": {"consumer": 1, "records": [[topic, 0, 1, 0, 'a": "b']]}}, ensure_ascii=False
    )
    event = parse_line(line.encode())
    assert isinstance(event, RecordsEvent)
    assert event.records[0][0] == topic

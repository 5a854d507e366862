"""Java names of client properties: mapped, without effect, refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cluster.client_settings import (
    CONSUMER,
    OWNED,
    PRODUCER,
    WITHOUT,
    Kind,
    check_client,
)
from harness.cluster.compression import declared_times
from harness.cluster.followed import in_words
from harness.cluster.librdkafka_names import WHY_ALONE
from harness.cluster.settings import Setting
from harness.errors import UsageError


def _given(**properties: str) -> dict[str, Setting]:
    keys = {key.replace("__", "."): value for key, value in properties.items()}
    return {key: Setting(key=key, value=value, place="FILE:1") for key, value in keys.items()}


def test_names_and_values_of_the_libraries() -> None:
    checked = check_client(
        "producer",
        _given(acks="all", linger__ms="5", compression__type="GZIP", buffer__memory="33554432", retries="3"),
    )
    assert checked.librdkafka("producer") == {
        "acks": -1,
        "linger.ms": 5,
        "compression.type": "gzip",
        "queue.buffering.max.kbytes": 32768,
        "retries": 3,
    }
    reading = check_client("consumer", _given(fetch__max__wait__ms="500"))
    assert reading.librdkafka("consumer") == {"fetch.wait.max.ms": 500}


def test_what_has_no_effect_is_named() -> None:
    checked = check_client("producer", _given(max__block__ms="60000", acks="1"))
    assert checked.given == {"acks": 1}
    assert in_words(checked.not_followed) == (
        "max.block.ms=60000 (a message that finds the queue full fails at once)"
    )


def test_what_the_harness_sets_may_be_said_again() -> None:
    assert not check_client("consumer", _given(auto__offset__reset="earliest")).given
    assert not check_client("producer", _given(security__protocol="PLAINTEXT")).given


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        ("producer", "bootstrap.servers", "a:1"),
        ("producer", "client.id", "orders"),
        ("producer", "transactional.id", "t"),
        ("producer", "ssl.key.password", "x-secret"),
        ("producer", "security.protocol", "SSL"),
        ("producer", "metadata.broker.list", "a:1"),
        ("consumer", "group.id", "g-7"),
        ("consumer", "auto.offset.reset", "latest"),
        ("consumer", "enable.auto.commit", "true"),
    ],
)
def test_what_the_harness_sets_of_its_clients_is_left_out_and_named(kind: Kind, key: str, value: str) -> None:
    checked = check_client(kind, {key: Setting(key=key, value=value, place="FILE:1")})
    assert not checked.given
    assert in_words(checked.not_followed) == f"{key} (acked sets these properties of its clients)"


def test_names_of_librdkafka_are_translated() -> None:
    """Values too: it counts its queue in kilobytes, and has two names for some properties."""
    checked = check_client(
        "producer",
        _given(
            request__required__acks="all",
            message__send__max__retries="3",
            queue__buffering__max__ms="5",
            queue__buffering__max__kbytes="400000",
            compression__codec="lz4",
            retry__backoff__ms="10000",
        ),
    )
    assert checked.librdkafka("producer") == {
        "acks": -1,
        "retries": 3,
        "linger.ms": 5,
        "queue.buffering.max.kbytes": 400000,
        "compression.type": "lz4",
        "retry.backoff.ms": 10000,
    }
    assert set(checked.given) >= {"acks", "retries", "linger.ms", "buffer.memory"}
    reading = check_client("consumer", _given(fetch__message__max__bytes="2048", fetch__wait__max__ms="50"))
    assert reading.given == {"max.partition.fetch.bytes": 2048, "fetch.max.wait.ms": 50}


def test_properties_of_librdkafka_that_java_clients_lack_have_no_effect() -> None:
    checked = check_client(
        "producer", _given(socket__keepalive__enable="true", log__connection__close="false")
    )
    assert not checked.given
    assert [one.setting.key for one in checked.not_followed] == [
        "socket.keepalive.enable",
        "log.connection.close",
    ]
    assert {one.because for one in checked.not_followed} == {WHY_ALONE}


def test_what_no_client_has_is_left_out_and_named_as_clients_pass_over_it() -> None:
    """Its value is not shown: a vendor's property may be a secret that has another name."""
    checked = check_client("producer", _given(schema__registry__url="http://x-secret", group__id="g"))
    assert not checked.given
    assert in_words(checked.not_followed) == (
        "schema.registry.url, group.id (Kafka's producers have no such property)"
    )


def test_two_names_of_one_property_must_agree() -> None:
    check_client("producer", _given(acks="all", request__required__acks="all"))
    with pytest.raises(UsageError, match=r"request.required.acks=1: .* acks already; keep one of them"):
        check_client("producer", _given(acks="all", request__required__acks="1"))


def test_rules_know_librdkafkas_names() -> None:
    with pytest.raises(UsageError, match="needs acks=all"):
        check_client("producer", _given(enable__idempotence="true", request__required__acks="1"))


def test_the_documentation_lists_them_all() -> None:
    """Also those that `--compress-time` divides."""
    text = (Path(__file__).parents[3] / "docs" / "settings.md").read_text()
    for key, entry in PRODUCER.items():
        assert f"| `{key}` | `{entry.librdkafka}` |" in text
    for key, entry in CONSUMER.items():
        assert f"| `{key}` | `{entry.librdkafka}` |" in text
    for table in WITHOUT.values():
        for key, why in table.items():
            assert f"| `{key}` | {why} |" in text
    divided = text.partition("### Compressing times")[2]
    assert [key for key in declared_times() if f"`{key}`" not in divided] == []


@pytest.mark.parametrize("kind", ["producer", "consumer"])
def test_every_property_is_in_one_table(kind: Kind) -> None:
    table = PRODUCER if kind == "producer" else CONSUMER
    names = [*table, *OWNED[kind], *WITHOUT[kind]]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("kind", "properties", "sentence"),
    [
        ("producer", {"acks": "2"}, "FILE:1: acks=2: use all, -1, 0 or 1."),
        ("producer", {"linger__ms": "x"}, "FILE:1: linger.ms=x: give a whole number from 0 to 900000."),
        ("producer", {"linger__ms": "-1"}, "FILE:1: linger.ms=-1: give a whole number"),
        ("producer", {"enable__idempotence": "yes"}, "FILE:1: enable.idempotence=yes: use true or false."),
        ("producer", {"compression__type": "rar"}, "FILE:1: compression.type=rar: use none, gzip, snappy,"),
        ("producer", {"ack": "1"}, r"FILE:1: ack: Kafka has no such producer property; did you mean acks\?"),
        ("producer", {"linger__ms": "${L}"}, r"linger.ms=\${L}: this is a placeholder; write its value"),
        (
            "producer",
            {"enable__idempotence": "true", "acks": "1"},
            r"FILE:1: acks=1: enable.idempotence=true \(FILE:1\) needs acks=all; change one of the two.",
        ),
        ("producer", {"enable__idempotence": "true", "retries": "0"}, "FILE:1: retries=0: enable"),
        (
            "producer",
            {"enable__idempotence": "true", "max__in__flight__requests__per__connection": "6"},
            "FILE:1: max.in.flight.requests.per.connection=6: enable.idempotence=true .* needs 5 at most",
        ),
        (
            "producer",
            {"delivery__timeout__ms": "3000", "request__timeout__ms": "3000", "linger__ms": "1"},
            r"FILE:1: linger.ms=1: linger.ms \+ request.timeout.ms \(3001\) must be at most delivery",
        ),
        ("consumer", {"isolation__level": "none"}, "FILE:1: isolation.level=none: use read_committed, "),
        (
            "consumer",
            {"fetch__max__wait__ms": "5000"},
            r"FILE:1: fetch.max.wait.ms=5000: fetch.max.wait.ms \(5000\) must be below request.timeout.ms",
        ),
    ],
)
def test_what_is_refused(kind: Kind, properties: dict[str, str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as refused:
        check_client(kind, _given(**properties))
    assert "\n" not in refused.value.message

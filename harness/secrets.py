"""Which properties hold a secret, and what is shown, recorded and handed on in place of its value.

The code that reads a property from outside (a file, an option, the environment) asks this module first, and
keeps only the text that `shown` gives, so that no secret can reach an error, a file or a process list later.
A secret that acked itself needs, such as the password of a client, travels as a `Secret`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

HIDDEN = "[hidden]"
"""As Kafka writes it (`org.apache.kafka.common.config.types.Password`)."""

SECRET_WORDS = (
    *("password", "passwd", "passphrase", "secret", "token", "credential", "jaas"),
    *("apikey", "accesskey", "user.info", "keytab", "license", "licence", "signature", "assertion"),
    *("authorization", "connection.string", "webhook"),
)
"""A name that contains one of these holds a secret, whatever it belongs to."""
SHORT_WORDS = frozenset({"auth", "bearer", "cookie", "dsn", "hmac", "pass", "passcode", "pin", "pw", "pwd"})
"""A name of which one of these is a whole word holds a secret: `ldap.bind.pw`, `--pass`."""
SECURITY = ("sasl", "ssl", "tls")
"""A name with one of these words holds a secret, unless `PUBLIC_ENDINGS` says what it holds."""
PUBLIC_ENDINGS = frozenset(
    {
        *("algorithm", "algorithms", "auth", "bytes", "class", "classes", "count", "enable", "enabled"),
        *("factor", "file", "iterations", "jitter", "length", "location", "mechanism", "mechanisms", "ms"),
        *("path", "protocol", "protocols", "provider", "providers", "seconds", "size", "source", "suites"),
        *("type", "uri", "url", "verification"),
    }
)
"""Last words of names whose values are no secrets: `ssl.keystore.type`, `delegation.token.expiry.time.ms`."""

PROTOCOLS = frozenset({"SSL", "SASL_SSL", "SASL_PLAINTEXT"})
"""Names of Kafka's listeners and protocols, which addresses follow: `SASL_SSL://broker1:9093`."""

_SEPARATOR = re.compile(r"[._-]")
_NAME = re.compile(r"[\w.-]+")
_ASSIGNED = re.compile(r"[\"']?[\s=:]+[\"']?")
"""What stands between a name and its value, in properties, TOML, JSON, JAAS and command lines."""
_USER_INFO = re.compile(r"(:/{1,2})\S*@")
"""With one slash in what `pathlib` makes of a URL."""
_SHORT_OPTION = re.compile(r"(?<!\S)(-u\s*[^\s:'\"]+:|-p)[^\s'\"]{4,}")
"""`-u user:password` and `-ppassword`, as curl and mysql take them: perhaps a secret, perhaps a port."""
_KEY = re.compile(r"-----BEGIN|(?<![\w+/=])[A-Za-z0-9+][A-Za-z0-9+/]{59,}={0,2}(?![\w+/=])")
"""A key in PEM, or a line of one."""
T = TypeVar("T")


class Secret:
    """A text that only `reveal` gives: `str`, `repr` and `format` hide it, and JSON encoders refuse it.

    Two secrets with the same text are equal. An empty one is false.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str = "") -> None:
        self._text = text

    def reveal(self) -> str:
        """The text, for the library or the process that needs it."""
        return self._text

    def __repr__(self) -> str:
        return HIDDEN if self._text else "''"

    __str__ = __repr__

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


def names_secret(name: str) -> bool:
    """Whether a property, an option or a variable of this name holds a secret, in Kafka's names or others."""
    words = _SEPARATOR.split(name.strip().lower().lstrip("-"))
    if len(words) > 1 and words[-1] in PUBLIC_ENDINGS:
        return False
    plain = ".".join(words)
    return (
        words[-1] == "key"
        or any(word in plain for word in SECRET_WORDS)
        or not SHORT_WORDS.union(SECURITY).isdisjoint(words)
    )


def holds_secret(name: str, value: object) -> bool:
    """Whether this value of the property ``name`` is a secret, or has one inside."""
    return shown(name, value) != str(value)


def shown(name: str, value: object) -> str:
    """The value of a property as it may be shown and recorded."""
    return HIDDEN if names_secret(name) else shown_text(str(value))


def shown_properties(properties: Mapping[str, T]) -> dict[str, T | str]:
    """Properties as they may be recorded; values without a secret stay as they are."""
    return {
        name: shown(name, value) if holds_secret(name, value) else value for name, value in properties.items()
    }


def shown_text(text: str) -> str:
    """Text of any form, such as a malformed line: as `shown_line`, and hidden as a whole if it has a key."""
    line = shown_line(text)
    return HIDDEN if _KEY.search(line) else line


def shown_line(text: str) -> str:
    """Text without what follows a name that holds a secret, and without passwords of URLs."""
    for name in _NAME.finditer(text):
        assigned = _ASSIGNED.match(text, name.end())
        if name[0] in PROTOCOLS:
            continue
        if assigned and assigned.end() < len(text) and names_secret(name[0]):
            text = text[: assigned.end()] + HIDDEN
            break
    return shown_urls(text)


def shown_urls(text: str) -> str:
    """Text without the users and passwords of its URLs."""
    return _USER_INFO.sub(rf"\1{HIDDEN}@", text)


def shown_comments(text: str) -> str:
    """A cluster file as it may be stored: comments may hold a secret, and properties that do are refused."""
    return re.sub(r"#.*", lambda comment: shown_text(comment[0]), text)


def shown_arguments(arguments: Sequence[str]) -> list[str]:
    """The arguments of a command as they may be recorded: `--set broker.ssl.key.password=[hidden]`."""
    shown_ones = []
    secret_follows = False
    for argument in arguments:
        name, equals, value = argument.partition("=")
        option = argument.startswith("-") and not equals
        if secret_follows and not argument.startswith("-"):
            shown_ones.append(HIDDEN)
        else:
            shown_ones.append(f"{name}={shown(name, value)}" if equals else shown_text(argument))
        secret_follows = option and names_secret(argument)
    return shown_ones


def recorded_arguments(arguments: Sequence[str]) -> list[str]:
    """The arguments of a command as a run records them: also without what may be a secret of a program."""
    return [_SHORT_OPTION.sub(rf"\1{HIDDEN}", argument) for argument in shown_arguments(arguments)]


def redacted(text: str, properties: Mapping[str, object]) -> str:
    """A text of a library that was given ``properties``, without the secrets among their values."""
    for name, value in properties.items():
        if str(value) and holds_secret(name, value):
            text = text.replace(str(value), HIDDEN)
    return text

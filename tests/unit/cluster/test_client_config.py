"""A client's properties in Java's names and librdkafka's: every way to name certificates, keys and users."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from harness.cluster.certificates import CertificateAuthority
from harness.cluster.client_config import read_client_config
from harness.cluster.key_stores import OwnCertificate
from harness.errors import UsageError
from harness.kafka.java import properties_text
from harness.kafka.security import PLAINTEXT, ClientSecurity
from harness.kafka.wire.authentication import tls_context
from harness.secrets import Secret

PASSWORD, KEY_PASSWORD = "store-secret", "key-secret"
CA = CertificateAuthority()
OWN = CA.issue("client")
PLAIN_LINE = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="al" password="s3";'
SCRAM_LINE = "org.apache.kafka.common.security.scram.ScramLoginModule required username='al' password=s3 ;"
OAUTH_LINE = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'clientId="id" clientSecret="s3" scope="a b" extension_logicalCluster="lkc-1";'
)
URL = "sasl.oauthbearer.token.endpoint.url"


@pytest.fixture
def read(tmp_path: Path) -> Callable[[dict[str, str]], ClientSecurity]:
    """Reads properties from a file, and shows that each library takes what came of them."""

    def security(properties: dict[str, str]) -> ClientSecurity:
        file = tmp_path / "client.properties"
        file.write_text(properties_text(properties))
        read = read_client_config(file).security
        confluent_kafka.Producer({**read.librdkafka(), "bootstrap.servers": "127.0.0.1:1", "log_level": 0})
        if read.tls:
            tls_context(read)
        return read

    return security


Read = Callable[[dict[str, str]], ClientSecurity]


def encrypted(key: Secret, password: str) -> str:
    loaded = load_pem_private_key(key.reveal().encode(), None)
    kind = BestAvailableEncryption(password.encode())
    return loaded.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, kind).decode()


def keytool(*arguments: str | Path) -> None:
    subprocess.run(
        ["keytool", "-noprompt", *map(str, arguments)], check=True, capture_output=True, timeout=60
    )


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with trust.jks, trust.p12, own.jks and own.p12, and the same in PEM."""
    folder = tmp_path_factory.mktemp("stores")
    pem = {"ca.pem": CA.certificate, "chain.pem": OWN.chain, "key.pem": OWN.key.reveal()}
    pem |= {"own.pem": OWN.chain + OWN.key.reveal(), "encrypted.pem": encrypted(OWN.key, KEY_PASSWORD)}
    for name, text in pem.items():
        (folder / name).write_text(text)
    given = ("-storepass", PASSWORD, "-storetype")
    for kind, name in (("JKS", "jks"), ("PKCS12", "p12")):
        store = folder / f"trust.{name}"
        keytool("-importcert", "-file", folder / "ca.pem", "-alias", "ca", "-keystore", store, *given, kind)
    subprocess.run(
        [
            "openssl",
            "pkcs12",
            "-export",
            "-in",
            folder / "chain.pem",
            "-inkey",
            folder / "key.pem",
            "-name",
            "me",
        ]
        + ["-certfile", folder / "ca.pem", "-out", folder / "own.p12", "-passout", f"pass:{PASSWORD}"],
        check=True,
        timeout=60,
    )
    source = ("-srckeystore", folder / "own.p12", "-srcstorepass", PASSWORD, "-srcalias", "me")
    target = ("-destkeystore", folder / "own.jks", "-deststoretype", "JKS", "-deststorepass", PASSWORD)
    keytool("-importkeystore", *source, *target, "-destkeypass", KEY_PASSWORD)
    keytool(
        "-importcert",
        "-file",
        folder / "ca.pem",
        "-alias",
        "ca",
        "-keystore",
        folder / "own.jks",
        *given,
        "JKS",
    )
    return folder


def own_of(security: ClientSecurity) -> OwnCertificate:
    return OwnCertificate(security.certificate, security.key)


@pytest.mark.parametrize("kind", ["jks", "p12"])
def test_stores_of_java(read: Read, stores: Path, kind: str) -> None:
    security = read(
        {
            "security.protocol": "SSL",
            "ssl.truststore.location": str(stores / f"trust.{kind}"),
            "ssl.truststore.password": PASSWORD,
            "ssl.keystore.location": str(stores / f"own.{kind}"),
            "ssl.keystore.password": PASSWORD,
            "ssl.key.password": KEY_PASSWORD if kind == "jks" else PASSWORD,
        }
    )
    assert security.ca == CA.certificate
    assert security.key == OWN.key
    assert security.certificate.startswith(OWN.chain)


def test_stores_in_pem_and_pem_in_properties(read: Read, stores: Path) -> None:
    at = {name: str(stores / f"{name}.pem") for name in ("ca", "chain", "key", "own", "encrypted")}
    key = encrypted(OWN.key, KEY_PASSWORD)
    forms = [
        {
            **{"ssl.truststore.type": "PEM", "ssl.truststore.location": at["ca"]},
            **{"ssl.keystore.type": "PEM", "ssl.keystore.location": at["own"]},
        },
        {
            "ssl.truststore.certificates": CA.certificate.replace("\n", " "),
            "ssl.keystore.certificate.chain": OWN.chain,
            **{"ssl.keystore.key": key, "ssl.key.password": KEY_PASSWORD},
        },
        {"ssl.ca.pem": CA.certificate, "ssl.certificate.pem": OWN.chain, "ssl.key.pem": OWN.key.reveal()},
        {
            **{"ssl.ca.location": at["ca"], "ssl.certificate.location": at["chain"]},
            **{"ssl.key.location": at["encrypted"], "ssl.key.password": KEY_PASSWORD},
        },
    ]
    made = [read({"security.protocol": "ssl", **form}) for form in forms]
    assert made == [ClientSecurity(protocol="SSL", ca=CA.certificate, certificate=OWN.chain, key=OWN.key)] * 4


def test_users_in_each_way_of_writing_them(read: Read) -> None:
    user = {"username": "al", "password": Secret("s3")}
    for mechanism, line in (
        ("PLAIN", PLAIN_LINE),
        ("SCRAM-SHA-256", SCRAM_LINE),
        ("SCRAM-SHA-512", SCRAM_LINE),
    ):
        expected = ClientSecurity(protocol="SASL_PLAINTEXT", mechanism=mechanism, **user)  # type: ignore[arg-type]
        protocol = {"security.protocol": "SASL_PLAINTEXT"}
        assert read({**protocol, "sasl.mechanism": mechanism, "sasl.jaas.config": line}) == expected
        own = {"sasl.mechanisms": mechanism, "sasl.username": "al", "sasl.password": "s3"}
        assert read({**protocol, **own}) == expected


def test_what_a_library_is_given_is_read_as_the_same(read: Read) -> None:
    strange = "p\"\\ '=;,ä"
    values = [
        ClientSecurity(protocol="SASL_SSL", mechanism="PLAIN", username="al", password=Secret(strange)),
        ClientSecurity(protocol="SSL", ca=CA.certificate, verifies_names=False),
        ClientSecurity(protocol="SSL", ca=CA.certificate, certificate=OWN.chain, key=OWN.key),
        ClientSecurity(
            protocol="SASL_SSL",
            mechanism="OAUTHBEARER",
            username="id",
            password=Secret(strange),
            token_url="https://idp/token",
            scope="a b",
            extensions=(("logicalCluster", "lkc-1"), ("x", "y")),
        ),
    ]
    for value in values:
        assert read(value.java()) == value
        named = {
            key: str(one).lower() if isinstance(one, bool) else one for key, one in value.librdkafka().items()
        }
        assert read(named) == value


def test_tokens_in_each_way_of_writing_them(read: Read) -> None:
    protocol = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", URL: "https://idp/token"}
    expected = ClientSecurity(
        protocol="SASL_SSL",
        mechanism="OAUTHBEARER",
        username="id",
        password=Secret("s3"),
        token_url="https://idp/token",
        scope="a b",
        extensions=(("logicalCluster", "lkc-1"),),
    )
    handler = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
    java = {"sasl.jaas.config": OAUTH_LINE, "sasl.login.callback.handler.class": handler}
    assert read({**protocol, **java}) == expected
    names = "sasl.oauthbearer.client.credentials.client"
    later = {f"{names}.id": "id", f"{names}.secret": "s3", "sasl.oauthbearer.scope": "a b"}
    line = OAUTH_LINE.replace('clientId="id" clientSecret="s3" scope="a b" ', "")
    assert read({**protocol, **later, "sasl.jaas.config": line}) == expected


def test_other_properties_stay_settings(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=PLAINTEXT\nbootstrap.servers=b1:9093,b2:9093\nacks=all\nssl.protocol=TLSv1.3\nschema.api.token=t0k\n"
    )
    config = read_client_config(file)
    assert config.security == PLAINTEXT
    assert {key: setting.value for key, setting in config.settings.items()} == {
        "bootstrap.servers": "b1:9093,b2:9093",
        "acks": "all",
        "schema.api.token": "[hidden]",
    }


SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
SSL = {"security.protocol": "SSL"}


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        (
            {"sasl.mechanism": "PLAIN"},
            "client.properties:1: sasl.mechanism has no effect without security.protocol",
        ),
        ({"securty.protocol": "SSL"}, "no client has this property; did you mean security.protocol?"),
        (
            {"security.protocol": "SSL", "ssl.trustore.location": "/trust"},
            "client.properties:2: ssl.trustore.location: no client has this property; did you mean "
            "ssl.truststore.location?",
        ),
        ({"security.protocol": "TLS"}, "security.protocol=TLS: use PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism is missing, whose default is GSSAPI"),
        ({**SASL, "sasl.mechanism": "GSSAPI"}, "sasl.mechanism=GSSAPI: acked's clients speak PLAIN, SCRAM"),
        ({**SASL, "sasl.username": "u"}, "PLAIN needs a user and a password, and the password is missing"),
        ({**SASL, "sasl.jaas.config": "s3cret"}, r"sasl.jaas.config=[hidden]: write MODULE required"),
        ({**SASL, "sasl.jaas.config": SCRAM_LINE}, "PLAIN needs PlainLoginModule"),
        ({**SASL, "sasl.jaas.config": PLAIN_LINE.replace("Plain", "Ldap")}, "acked has the login modules"),
        ({**SASL, "sasl.jaas.config": "${file:/s3cret:k}"}, "acked calls no config provider"),
        ({**SASL, "sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": OAUTH_LINE}, "set clientId and"),
        (
            {**SASL, "sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": OAUTH_LINE, URL: "file:///token"},
            "name a URL with https://",
        ),
        ({**SSL, "ssl.truststore.location": "/nowhere.jks"}, "/nowhere.jks: there is no such file"),
        ({**SSL, "ssl.truststore.location": "/tmp"}, "ssl.truststore.location=/tmp: it is not a file"),
        ({**SSL, "ssl.ca.pem": "s3cret"}, "ssl.ca.pem=[hidden]: it has no certificate in PEM"),
        ({**SSL, "ssl.certificate.pem": OWN.chain}, "ssl.certificate.pem=[hidden]: set ssl.key.pem as well"),
        ({**SSL, "ssl.certificate.pem": OWN.chain, "ssl.key.pem": "s3cret"}, "it has no private key in PEM"),
        (
            {**SSL, "ssl.certificate.pem": OWN.chain, "ssl.key.pem": encrypted(OWN.key, "x")},
            "is encrypted, or ssl.key.password is not its password",
        ),
        ({**SSL, "ssl.endpoint.identification.algorithm": "LDAPS"}, "use https, or nothing"),
        (
            {**SSL, "ssl.engine.factory.class": "s3cret"},
            "ssl.engine.factory.class: acked's clients do not have",
        ),
        ({**SASL, "sasl.mechanisms": "SCRAM-SHA-256"}, "sasl.mechanisms has a value already"),
    ],
)
def test_what_cannot_be_followed_is_one_sentence(
    tmp_path: Path, properties: dict[str, str], sentence: str
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(properties_text(properties))
    with pytest.raises(UsageError) as raised:
        read_client_config(file)
    assert sentence in raised.value.message
    assert "s3cret" not in raised.value.message
    assert len(raised.value.message) < 300 + len(str(file))


@pytest.mark.parametrize(
    ("name", "password", "reason"),
    [
        ("trust.jks", "wrong-s3cret", "password was incorrect"),
        ("own.p12", "wrong-s3cret", "password was incorrect"),
        ("ca.pem", PASSWORD, "it is no store that Java can read"),
        ("own.p12", PASSWORD, "it has no trusted certificate"),
    ],
)
def test_stores_that_cannot_be_used(
    tmp_path: Path, stores: Path, name: str, password: str, reason: str
) -> None:
    file = tmp_path / "client.properties"
    given = {"ssl.truststore.location": str(stores / name), "ssl.truststore.password": password}
    file.write_text(properties_text({**SSL, **given}))
    with pytest.raises(UsageError, match=reason) as raised:
        read_client_config(file)
    assert "s3cret" not in raised.value.message

"""`acked record` as an ordinary user of a cluster with TLS, SASL and ACLs: each missing right is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cluster.certificates import CertificateAuthority
from harness.kafka.wire.metadata import topic_ids
from harness.kafka.wire.rights import Acl, Operation, create_acls
from tests.cluster.conftest import Finished, acked
from tests.cluster.foreign import PASSWORD, USER, ForeignCluster

pytestmark = pytest.mark.cluster

ALL: tuple[Operation, ...] = ("create", "read", "write", "describe", "describe-configs", "delete")


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[ForeignCluster]:
    with ForeignCluster(folder=tmp_path / "cluster", network=8, ca=CertificateAuthority()) as cluster:
        yield cluster


def grant(cluster: ForeignCluster, *operations: Operation) -> None:
    """Let the user do this with topics whose names begin with acked-."""
    acls = [Acl(f"User:{USER}", "topic", operation, "acked-*") for operation in operations]
    assert all(result.error == 0 for result in create_acls(cluster.endpoint(0), acls, timeout_s=10))


def record(cluster: ForeignCluster, folder: Path, *arguments: str) -> Finished:
    """As the user, with a file of client properties."""
    assert cluster.ca is not None
    (folder / "ca.pem").write_text(cluster.ca.certificate)
    config = folder / "client.properties"
    config.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{USER}" password="{PASSWORD}";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.location={folder / 'ca.pem'}\n"
    )
    where = ("--bootstrap", cluster.users, "--client-config", str(config), "--runs", str(folder / "runs"))
    return acked("record", *where, *arguments)


@pytest.mark.long
def test_each_missing_right_is_named_and_none_makes_a_wrong_verdict(
    foreign: ForeignCluster, tmp_path: Path
) -> None:
    listed = record(foreign, tmp_path, "--check-only", "--json")
    assert listed.status == 2, listed.stderr
    by_name = {(one["name"], one["on"]): one["presence"] for one in listed.json()["rights"]}
    assert by_name["CREATE", "topics acked-*"] == by_name["READ", "topics acked-*"] == "no"
    refused = record(foreign, tmp_path, "--for", "10s", "--yes")
    assert refused.status == 254
    assert "You lack CREATE on topics acked-*" in refused.stderr
    assert topic_ids(foreign.endpoint(0)).keys() <= {"__consumer_offsets"}

    grant(foreign, "create", "read", "write", "describe")
    some = record(foreign, tmp_path, "--for", "8s", "--yes")
    assert some.status == 0, some.stderr
    assert "Verdict: as declared" in some.stdout
    assert "without DESCRIBE_CONFIGS on topics acked-*" in some.stderr
    assert "is left; acked record --clean removes it" in some.stderr
    (left,) = topic_ids(foreign.endpoint(0)).keys() - {"__consumer_offsets"}

    grant(foreign, *ALL)
    cleaned = record(foreign, tmp_path, "--clean", "--json")
    assert cleaned.json()["deleted"] == [left]
    whole = record(foreign, tmp_path, "--for", "8s", "--yes", "--json")
    assert whole.json()["verdict"] == "as declared", whole.stderr
    assert topic_ids(foreign.endpoint(0)).keys() <= {"__consumer_offsets"}
    written = [file for file in (tmp_path / "runs").rglob("*") if file.is_file()]
    assert written and not any(PASSWORD.encode() in file.read_bytes() for file in written)
    shown = [one.stdout + one.stderr for one in (listed, refused, some, cleaned, whole)]
    assert not any(PASSWORD in text for text in shown)


def test_a_wrong_password_and_a_wrong_protocol_are_one_sentence_each(
    foreign: ForeignCluster, tmp_path: Path
) -> None:
    plain = acked("record", "--bootstrap", foreign.users, "--check-only")
    assert plain.status == 254
    assert "TLS" in plain.stderr and len(plain.stderr.splitlines()) == 1
    assert foreign.ca is not None
    (tmp_path / "ca.pem").write_text(foreign.ca.certificate)
    (tmp_path / "wrong.properties").write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{USER}" password="wrong-one";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.location={tmp_path / 'ca.pem'}\n"
    )
    config = str(tmp_path / "wrong.properties")
    wrong = acked("record", "--bootstrap", foreign.users, "--client-config", config, "--check-only")
    assert wrong.status == 254
    assert len(wrong.stderr.splitlines()) == 1 and "wrong-one" not in wrong.stderr

"""The table of rights is true for every subset of the least rights: 512 users, each with another one."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import compress, product
from pathlib import Path
from typing import Literal

import pytest

from harness.cluster.attached import attach, guarded
from harness.cluster.certificates import CertificateAuthority
from harness.kafka.security import ClientSecurity
from harness.kafka.wire.metadata import topic_ids
from harness.kafka.wire.rights import Acl, Operation, create_acls
from harness.secrets import Secret
from run.recording.preflight import preflight
from tests.cluster.foreign import IDS, USERS_PORT, ForeignCluster

pytestmark = [pytest.mark.cluster, pytest.mark.long]

Right = tuple[Literal["topic", "group", "cluster"], Operation]
RIGHTS: tuple[Right, ...] = (
    *(("topic", "create"), ("topic", "read"), ("topic", "write"), ("topic", "describe")),
    *(("topic", "describe-configs"), ("topic", "delete"), ("group", "read")),
    *(("cluster", "describe"), ("cluster", "describe-configs")),
)
NAMES = {"topic": "acked-*", "group": "acked-*", "cluster": "kafka-cluster"}
SUBSETS = {
    f"u{number:03}": frozenset(compress(RIGHTS, chosen))
    for number, chosen in enumerate(product((False, True), repeat=len(RIGHTS)))
}
_SHARES = 4
"""Tests that a version has: each tries every fourth subset, because all of them take many minutes."""


@pytest.fixture(params=["4.3.1", "2.7.1"])
def foreign(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ForeignCluster]:
    """SASL without TLS, whose many handshakes would take most of the time."""
    protocols = "CLIENTS:PLAINTEXT,PEERS:PLAINTEXT,QUORUM:PLAINTEXT,USERS:SASL_PLAINTEXT"
    cluster = ForeignCluster(
        folder=tmp_path,
        kafka=request.param,
        network=11,
        ca=CertificateAuthority(),
        passwords={user: f"of-{user}" for user in SUBSETS},
        settings={"listener.security.protocol.map": protocols},
    )
    with cluster:
        yield cluster


def documented(rights: frozenset[Right], *, before_3_0: bool) -> dict[tuple[str, str], str]:
    """The table by Kafka's documentation: READ, WRITE and DELETE imply DESCRIBE, and nothing implies them."""
    topics = {operation for kind, operation in rights if kind == "topic"}
    there = {
        **{
            (name.upper(), "topics acked-*"): name in topics for name in ("create", "read", "write", "delete")
        },
        ("DESCRIBE_CONFIGS", "topics acked-*"): "describe-configs" in topics,
        ("DESCRIBE_CONFIGS", "the cluster"): ("cluster", "describe-configs") in rights,
        ("IDEMPOTENT_WRITE", "the cluster"): "write" in topics and not before_3_0,
    }
    if not before_3_0:  # in ZooKeeper mode Metadata names the controller
        there["DESCRIBE", "the cluster"] = ("cluster", "describe") in rights
    return {right: "yes" if present else "no" for right, present in there.items()}


@pytest.mark.parametrize("share", range(_SHARES))
def test_every_subset_of_rights_is_told_as_it_is(foreign: ForeignCluster, share: int) -> None:
    subsets = dict(list(SUBSETS.items())[share::_SHARES])
    acls = [Acl(f"User:{user}", kind, op, NAMES[kind]) for user, own in subsets.items() for kind, op in own]
    for first in range(0, len(acls), 200):
        answers = create_acls(foreign.endpoint(0), acls[first : first + 200], timeout_s=60)
        assert all(one.error == 0 for one in answers)
    before_3_0 = foreign.kafka.startswith("2.")

    def told(user: str) -> dict[tuple[str, str], str]:
        security = ClientSecurity(
            protocol="SASL_PLAINTEXT", mechanism="PLAIN", username=user, password=Secret(f"of-{user}")
        )
        cluster = attach(
            [replace(foreign.endpoint(broker), port=USERS_PORT, security=security) for broker in IDS]
        )
        return {(one.name, one.on): one.presence for one in preflight(cluster)}

    with guarded(), ThreadPoolExecutor(4) as pool:
        tables = dict(zip(subsets, pool.map(told, subsets), strict=True))
    wrong = {
        (user, right): (sorted(subsets[user]), expected, tables[user].get(right))
        for user in subsets
        for right, expected in documented(subsets[user], before_3_0=before_3_0).items()
        if tables[user].get(right) != expected
    }
    assert wrong == {}
    assert topic_ids(foreign.endpoint(0)) == {}

"""Users and their rights: credentials of SCRAM, ACLs, and what the user of a connection may do."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from kafka.protocol.admin import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from harness.kafka.wire.admin import RequestResult
from harness.kafka.wire.connection import Target, exchange
from harness.kafka.wire.dialect import Dialect
from harness.secrets import Secret

ScramMechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]
Resource = Literal["topic", "group", "cluster", "transactional-id"]
Operation = Literal[
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster-action",
    "describe-configs",
    "alter-configs",
    "idempotent-write",
]
_MECHANISMS: Mapping[ScramMechanism, tuple[int, str]] = {
    "SCRAM-SHA-256": (1, "sha256"),
    "SCRAM-SHA-512": (2, "sha512"),
}
_RESOURCES: Mapping[Resource, int] = {"topic": 2, "group": 3, "cluster": 4, "transactional-id": 5}
_OPERATIONS: Mapping[Operation, int] = {
    "read": 3,
    "write": 4,
    "create": 5,
    "delete": 6,
    "alter": 7,
    "describe": 8,
    "cluster-action": 9,
    "describe-configs": 10,
    "alter-configs": 11,
    "idempotent-write": 12,
}
"""Codes of the protocol (`ResourceType`, `AclOperation` and `ScramMechanism` of kafka-clients)."""
_LITERAL, _PREFIXED = 3, 4
_TOPIC_REFUSED = 29
_ALLOW = 3
ITERATIONS = 4096
"""The least that Kafka accepts."""
_STATING_RIGHTS = 8
"""The version of Metadata from which on it states rights (KIP-430)."""


@dataclass(frozen=True)
class Acl:
    """What a user may do with resources of one kind; a name that ends with `*` stands for a prefix."""

    principal: str
    """Such as `User:alice`."""
    resource: Resource
    operation: Operation
    name: str = "*"
    """`*` is every resource of the kind; the cluster is `kafka-cluster`."""


def set_scram_credentials(
    target: Target, users: Mapping[str, Secret], mechanism: ScramMechanism, timeout_s: float | None = None
) -> dict[str, RequestResult]:
    """Create users with their passwords, or change them (KIP-554, Kafka 2.7 and later).

    ``target`` must be the controller. A broker of KRaft would forward the request, but a controller that is
    not active logs it, with the salted passwords.
    """
    number, hash_name = _MECHANISMS[mechanism]
    upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
    upsertions = []
    for name, password in users.items():
        salt = os.urandom(16)
        salted = hashlib.pbkdf2_hmac(hash_name, password.reveal().encode(), salt, ITERATIONS)
        upsertions.append(
            upsertion(name=name, mechanism=number, iterations=ITERATIONS, salt=salt, salted_password=salted)
        )
    request = AlterUserScramCredentialsRequest(deletions=[], upsertions=upsertions)
    answer = exchange(target, request, AlterUserScramCredentialsResponse, 0, timeout_s)
    return {one.user: RequestResult(one.error_code, one.error_message or "") for one in answer.results}


def create_acls(target: Target, acls: Iterable[Acl], timeout_s: float | None = None) -> list[RequestResult]:
    """Grant rights; the results are in the order of ``acls``.

    In ZooKeeper mode any broker takes the request, on KRaft the controller or one that reaches it.
    """
    creations = []
    for acl in acls:
        name, pattern = _pattern(acl)
        creations.append(
            CreateAclsRequest.AclCreation(
                resource_type=_RESOURCES[acl.resource],
                resource_name=name,
                resource_pattern_type=pattern,
                principal=acl.principal,
                host="*",
                operation=_OPERATIONS[acl.operation],
                permission_type=_ALLOW,
            )
        )
    request = CreateAclsRequest(creations=creations)
    answer = exchange(target, request, CreateAclsResponse, 1, timeout_s)
    return [RequestResult(one.error_code, one.error_message or "") for one in answer.results]


def delete_acls(target: Target, acls: Iterable[Acl], timeout_s: float | None = None) -> list[RequestResult]:
    """Take rights away; the results are in the order of ``acls``, and ``target`` is as for `create_acls`."""
    filters = []
    for acl in acls:
        name, pattern = _pattern(acl)
        filters.append(
            DeleteAclsRequest.DeleteAclsFilter(
                resource_type_filter=_RESOURCES[acl.resource],
                resource_name_filter=name,
                pattern_type_filter=pattern,
                principal_filter=acl.principal,
                host_filter="*",
                operation=_OPERATIONS[acl.operation],
                permission_type=_ALLOW,
            )
        )
    request = DeleteAclsRequest(filters=filters)
    answer = exchange(target, request, DeleteAclsResponse, 1, timeout_s)
    return [RequestResult(one.error_code, one.error_message or "") for one in answer.filter_results]


def _pattern(acl: Acl) -> tuple[str, int]:
    """Name and pattern type of an ACL's resource, as the protocol has them."""
    prefix = acl.name.endswith("*") and acl.name != "*"
    return (acl.name.rstrip("*"), _PREFIXED) if prefix else (acl.name, _LITERAL)


def authorized_operations(
    target: Target, topic: str, *, dialect: Dialect, timeout_s: float | None = None
) -> frozenset[Operation] | None:
    """What the user of the connection may do with a topic of this name, whether or not it exists (KIP-430).

    Empty if the user may not even describe it: then neither READ, WRITE, DELETE nor ALTER is there, each of
    which implies DESCRIBE. None if the broker does not tell (before Kafka 2.3).
    """
    if dialect.metadata < _STATING_RIGHTS:
        return None
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic)],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    (stated,) = exchange(target, request, MetadataResponse, _STATING_RIGHTS, timeout_s).topics
    if stated.error_code == _TOPIC_REFUSED:
        return frozenset()
    if stated.authorized_operations is None:
        return None
    return frozenset(name for name, code in _OPERATIONS.items() if code in stated.authorized_operations)

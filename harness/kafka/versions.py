"""The differences between Kafka versions, as data.

Every known version has been resolved and started on Java 17. For a capability that does not depend on the
version alone (a feature that can be switched off), the value is the default of a new cluster.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from harness.errors import UsageError

Mode = Literal["zookeeper", "kraft", "kraft-combined", "migration"]
INTER_BROKER_PROTOCOL = "inter.broker.protocol.version"
LogSyntax = Literal["log4j1", "log4j2"]
ReplicaLog = Literal["fetch-v11", "files"]

ZOOKEEPER: tuple[Mode, ...] = ("zookeeper",)
KRAFT: tuple[Mode, ...] = ("kraft", "kraft-combined")
MIGRATION: tuple[Mode, ...] = ("migration",)
LASTING: tuple[Mode, ...] = (*ZOOKEEPER, *KRAFT)
"""The modes of a cluster that keeps its metadata store; migrating clusters serve special scenarios only."""
MODES: tuple[Mode, ...] = (*LASTING, *MIGRATION)

_SETUP_TIMEOUTS = frozenset({"socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.max.ms"})


@dataclass(frozen=True, order=True)
class Coordinates:
    """Coordinates of a Maven module."""

    organisation: str
    name: str
    revision: str

    def __str__(self) -> str:
        return f"{self.organisation}:{self.name}:{self.revision}"


_LOG4J = (Coordinates("org.slf4j", "slf4j-log4j12", "1.7.30"),)
_RELOAD4J = (
    Coordinates("org.slf4j", "slf4j-reload4j", "1.7.36"),
    Coordinates("ch.qos.reload4j", "reload4j", "1.2.25"),
)
_JAXB = (Coordinates("javax.xml.bind", "jaxb-api", "2.3.1"),)  # cluster ids of 0.10 and 0.11 need it


@dataclass(frozen=True, kw_only=True)
class KafkaVersion:
    """Dependencies and capabilities of one Kafka version."""

    version: str
    scala: str
    modes: tuple[Mode, ...]
    logging: tuple[Coordinates, ...]
    extras: tuple[Coordinates, ...] = ()
    log_syntax: LogSyntax = "log4j1"
    zookeeper: str | None = None
    """Version of the ZooKeeper that it ships with; None if it is not run with ZooKeeper here."""
    replica_log: ReplicaLog = "fetch-v11"
    """How a replica's own log is read: FETCH v11 with replica id -3, or the files of its data folder."""
    record_epochs: bool = True
    """Batches carry the leader epoch (message format 2)."""
    message_format_config: bool = True
    """The topic setting `message.format.version` takes effect: before the protocol of 3.0 (KIP-724)."""
    epoch_truncation: bool = True
    """Followers truncate by leader epoch (KIP-101), not to their high watermark."""
    alter_isr: bool = False
    """The leader asks the controller to change the ISR (KIP-497), by default."""
    unclean_config: bool = True
    """`unclean.leader.election.enable` takes effect: always with ZooKeeper, and with KRaft from 3.9 on
    (KAFKA-12670). Before, KRaft elects uncleanly only if an operator asks for it."""
    eligible_leader_replicas: bool = False
    """ELR (KIP-966) is on in a new cluster."""
    server_side_groups: bool = False
    """Groups may use the protocol of KIP-848: by default from 4.0 on."""
    share_groups: bool = False
    """Share groups (KIP-932) are on in a new cluster, for production: from 4.2 on."""
    pre_vote: bool = False
    """A controller that returns requests a pre-vote before it raises the epoch (KIP-996)."""
    resigns_when_cut_off: bool = False
    """A quorum leader that receives no fetches from a majority resigns (KAFKA-15489)."""
    dynamic_quorum: bool = False
    """A static KRaft quorum can be upgraded to `kraft.version` 1 (KAFKA-16538), after which voters are added
    and removed (KIP-853)."""
    describe_quorum: int | None = None
    """Newest version of DescribeQuorum that it answers; None without KRaft."""
    spins_without_controller: bool = False
    """A broker that reaches no controller keeps a processor busy (`harness.kafka.config.CALM_OBSERVER`)."""
    min_java: int = 8
    unsupported_keys: frozenset[str] = frozenset()
    """Keys of the base broker configuration that the version does not know."""
    broker_heap_mb: int = 384
    controller_heap_mb: int = 192
    zookeeper_heap_mb: int = 128
    known: bool = True
    """False for a version that runs only with `--force`."""
    protocol: str = ""
    """`inter.broker.protocol.version` of the brokers; empty for their own."""
    build: str = ""
    """Digest of the user's own build (`harness.artifacts.builds`); empty for the release."""

    @property
    def coordinates(self) -> tuple[Coordinates, ...]:
        """All modules to resolve, Kafka first."""
        kafka = Coordinates("org.apache.kafka", f"kafka_{self.scala}", self.version)
        return (kafka, *self.logging, *self.extras)

    @property
    def label(self) -> str:
        """The version as `kafka_version` accepts it, with its build and with a protocol that differs."""
        return f"{self.name}@{self.protocol}" if self.protocol else self.name

    @property
    def name(self) -> str:
        """The version, with `+` and the build if it is not the release."""
        return f"{self.version}+{self.build}" if self.build else self.version

    @property
    def own_protocol(self) -> str:
        """`inter.broker.protocol.version` as its brokers speak it, for example `2.7` or `0.10.2`."""
        numbers = self.version.split(".")
        return self.protocol or ".".join(numbers[: 3 if numbers[0] == "0" else 2])

    @property
    def default_mode(self) -> Mode:
        """The mode that is used by default."""
        return self.modes[0]

    def require_mode(self, mode: str) -> None:
        """Raise UsageError if this version cannot run in ``mode``."""
        if mode not in self.modes:
            raise UsageError(
                f"Kafka {self.version} runs here in mode {' or '.join(self.modes)}, not {mode!r}."
            )


def _log4j2(revision: str) -> tuple[Coordinates, ...]:
    return (Coordinates("org.apache.logging.log4j", "log4j-slf4j-impl", revision),)


_FIRST = KafkaVersion(
    version="0.10.2.2",
    scala="2.12",
    modes=ZOOKEEPER,
    logging=_LOG4J,
    extras=_JAXB,
    zookeeper="3.4.9",
    replica_log="files",
    record_epochs=False,
    epoch_truncation=False,
    unsupported_keys=_SETUP_TIMEOUTS,
)
_V0_11 = replace(_FIRST, version="0.11.0.3", zookeeper="3.4.10", record_epochs=True, epoch_truncation=True)
_V1_1 = replace(_V0_11, version="1.1.1", extras=())
_V2_4 = replace(_V1_1, version="2.4.1", scala="2.13", zookeeper="3.5.7", replica_log="fetch-v11")
_V2_7 = replace(_V2_4, version="2.7.1", zookeeper="3.5.9", alter_isr=True, unsupported_keys=frozenset())
_V2_8 = replace(_V2_7, version="2.8.2")
_V3_3 = replace(_V2_8, version="3.3.2", logging=_RELOAD4J, zookeeper="3.6.3", message_format_config=False)
_V3_5 = replace(_V3_3, version="3.5.2", zookeeper="3.6.4")
_V3_6 = replace(
    _V2_7,
    version="3.6.2",
    modes=KRAFT,
    logging=_RELOAD4J,
    zookeeper=None,
    message_format_config=False,
    unclean_config=False,
    describe_quorum=1,
    broker_heap_mb=320,
)
_V3_7 = replace(_V3_6, version="3.7.0", resigns_when_cut_off=True)
_V3_7_2 = replace(_V3_7, version="3.7.2")
_V3_8 = replace(_V3_7, version="3.8.1")
_V3_9 = replace(
    _V3_7,
    version="3.9.1",
    modes=(*KRAFT, *ZOOKEEPER, *MIGRATION),
    zookeeper="3.8.4",
    unclean_config=True,
    describe_quorum=2,
)
_V3_9_2 = replace(_V3_9, version="3.9.2")
_V4_0 = replace(
    _V3_9_2,
    version="4.0.1",
    modes=KRAFT,
    zookeeper=None,
    logging=_log4j2("2.24.3"),
    log_syntax="log4j2",
    server_side_groups=True,
    pre_vote=True,
    min_java=17,
)
_V4_1 = replace(_V4_0, version="4.1.0", eligible_leader_replicas=True, dynamic_quorum=True)
_V4_2 = replace(
    _V4_1,
    version="4.2.0",
    logging=_log4j2("2.25.3"),
    spins_without_controller=True,
    share_groups=True,
)
_V4_2_2 = replace(_V4_2, version="4.2.2", logging=_log4j2("2.25.5"))
_V4_3 = replace(_V4_2, version="4.3.1", logging=_log4j2("2.25.4"))
_V4_4 = replace(_V4_3, version="4.4.0", logging=_log4j2("2.25.5"))

_ALL = (
    *(_FIRST, _V0_11, _V1_1, _V2_4, _V2_7, _V2_8),
    *(_V3_3, _V3_5, _V3_6, _V3_7, _V3_7_2, _V3_8, _V3_9, _V3_9_2),
    *(_V4_0, _V4_1, _V4_2, _V4_2_2, _V4_3, _V4_4),
)
VERSIONS: Mapping[str, KafkaVersion] = {entry.version: entry for entry in _ALL}
"""Known versions, oldest first."""

DEFAULT = _V2_7.version
_BUILD = re.compile("[0-9a-f]{12}")


def version_key(version: str) -> tuple[int, ...]:
    """Sort key of a version, without build (`+`) and protocol (`@`). Raises UsageError for anything else."""
    try:
        return tuple(int(part) for part in version.partition("@")[0].partition("+")[0].split("."))
    except ValueError:
        raise UsageError(f"{version!r} is not a Kafka version; use one like {DEFAULT}.") from None


def kafka_version(version: str, *, force: bool = False) -> KafkaVersion:
    """The properties of ``version``.

    `2.7.1@2.6` means 2.7.1 with the inter-broker protocol of 2.6. `2.7.1+0f3a52c91be4` means the user's own
    build with that digest in the cache; its version need not be a tested one. With ``force``, an unknown
    version is treated like the newest known one below it. Without it, raises UsageError with the nearest and
    all known versions.
    """
    if "@" in version:
        return _speaking(version, force=force)
    if "+" in version:
        base, _, build = version.partition("+")
        if not _BUILD.fullmatch(build):
            raise UsageError(
                f"{version!r} is not a Kafka build; the part after `+` has 12 hexadecimal digits."
            )
        return replace(kafka_version(base, force=True), build=build)
    if version in VERSIONS:
        return VERSIONS[version]
    asked = version_key(version)
    if not force:
        hint = f"did you mean {' or '.join(_nearest(asked))}? "
        raise UsageError(
            f"Kafka {version} has not been tested; {hint}known are {', '.join(VERSIONS)}; "
            f"--force runs it anyway."
        )
    older = [entry for entry in _ALL if version_key(entry.version) <= asked]
    return replace((older or [_FIRST])[-1], version=version, known=False)


def _nearest(asked: tuple[int, ...]) -> list[str]:
    """The known versions next to the one asked for; only those of its minor release, if there are any."""
    ascending = sorted(VERSIONS, key=version_key)
    below = [name for name in ascending if version_key(name) < asked][-1:]
    above = [name for name in ascending if version_key(name) > asked][:1]
    near = [*below, *above]
    return [name for name in near if version_key(name)[:2] == asked[:2]] or near


def _speaking(text: str, *, force: bool) -> KafkaVersion:
    name, _, protocol = text.partition("@")
    version = kafka_version(name, force=force)
    if "zookeeper" not in version.modes or not (0, 10) <= version_key(protocol)[:2] < version_key(name)[:2]:
        raise UsageError(
            f"Kafka {name} cannot use the inter-broker protocol {protocol!r}: use an older one, of a version "
            f"that runs with ZooKeeper, such as 2.7.1@2.6."
        )
    spoken = version_key(protocol)
    return replace(
        version,
        protocol=protocol,
        alter_isr=version.alter_isr and spoken >= (2, 7),
        message_format_config=spoken < (3, 0),
        modes=ZOOKEEPER,
    )

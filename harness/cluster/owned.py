"""Broker properties that the harness sets itself: who a node is, where it listens, what it keeps where.

A user's value for one of them is left out, and named unless every broker gets exactly that value anyway.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.cluster.followed import IgnoredSetting
from harness.cluster.settings import Setting, refuse_typing_error
from harness.cluster.setup import Setup
from harness.kafka.broker_properties import PROPERTIES, exists_in
from harness.kafka.config import KRaftNode, ZooKeeperModeBroker, broker_properties, kraft_properties
from harness.kafka.versions import MIGRATION, ZOOKEEPER, KafkaVersion
from harness.lab.model import Topology

OWNED = frozenset(
    {
        "advertised.host.name",
        "advertised.listeners",
        "advertised.port",
        "authorizer.class.name",
        "broker.id",
        "broker.id.generation.enable",
        "broker.rack",
        "control.plane.listener.name",
        "controller.listener.names",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.voters",
        "early.start.listeners",
        "host.name",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "listeners",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
        "node.id",
        "port",
        "principal.builder.class",
        "process.roles",
        "super.users",
        "zookeeper.clientCnxnSocket",
        "zookeeper.connect",
        "zookeeper.metadata.migration.enable",
        "zookeeper.set.acl",
    }
)
"""Identity, listeners, directories, quorum, security: everything else is the user's."""
_SECURITY_PREFIXES = ("listener.name.", "sasl.", "security.", "ssl.")
_OWNED_PREFIXES = (*_SECURITY_PREFIXES, "zookeeper.ssl.")
_OF_SECURITY = frozenset(
    {
        "authorizer.class.name",
        "listener.security.protocol.map",
        "principal.builder.class",
        "super.users",
    }
)
_CLASS_SUFFIXES = (".class", ".classes", ".class.name", ".class.names", ".reporters")
_KAFKA_PACKAGES = ("org.apache.kafka.", "kafka.")
_PLUGIN_PREFIXES = ("remote.log.storage.", "rlmm.config.", "rsm.config.")
"""Tiered storage (KIP-405): Kafka has its interface, and no storage of its own."""
_PLAIN: Mapping[str, str] = {
    "security.inter.broker.protocol": "PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT",
    "zookeeper.set.acl": "false",
    "zookeeper.metadata.migration.enable": "false",
    "broker.id.generation.enable": "true",
}
"""Values that are the defaults anyway, so setting them changes nothing."""


def is_owned(key: str) -> bool:
    """Whether the harness sets it itself, or depends on its not being set."""
    return key in OWNED or key.startswith(_OWNED_PREFIXES)


def needs_plugin(setting: Setting) -> bool:
    """Whether a broker would need somebody's Java classes for it: it would not start without them."""
    if setting.key.startswith(_PLUGIN_PREFIXES):
        return True
    classes = [name.strip() for name in setting.value.split(",")]
    return setting.key.endswith(_CLASS_SUFFIXES) and any(
        name and not name.startswith(_KAFKA_PACKAGES) for name in classes
    )


def is_left_out(setting: Setting) -> bool:
    """Whether brokers do not get it: the harness owns it, or it is a secret or needs a plug-in."""
    return is_owned(setting.key) or setting.secret or needs_plugin(setting)


def split_owned(
    settings: Mapping[str, Setting], topology: Topology, mode: str, setup: Setup, version: KafkaVersion
) -> tuple[dict[str, Setting], tuple[IgnoredSetting, ...]]:
    """The settings that brokers get, and those left out although a broker's value differs.

    An owned one with the value that every broker gets anyway is in neither. Raises UsageError for a name that
    is close to one of Kafka's: a typing error.
    """
    users: dict[str, Setting] = {}
    left_out: dict[str, IgnoredSetting] = {}
    for key, setting in settings.items():
        if is_left_out(setting):
            because = _because(setting)
        elif not exists_in(key, version):
            refuse_typing_error(setting, "broker", PROPERTIES)
            because = f"Kafka {version.version} has no such broker property"
        else:
            users[key] = setting
            continue
        left_out[key] = IgnoredSetting(table="broker", setting=setting, because=because, owned=True)
    if not left_out:
        return users, ()
    own = _own_values(topology, mode, setup)
    different = (
        one for key, one in left_out.items() if own.get(key, {_PLAIN.get(key, "")}) != {one.setting.value}
    )
    return users, tuple(different)


def _because(setting: Setting) -> str:
    if setting.key in _OF_SECURITY or setting.key.startswith(_SECURITY_PREFIXES):
        return _SECURITY
    return _PLUGIN if needs_plugin(setting) and not is_owned(setting.key) else _BECAUSE


_BECAUSE = "acked gives each node its identity, listeners, directories and quorum"
_SECURITY = "[security] or --secure says what the listeners speak"
_PLUGIN = "the brokers here have Kafka's own classes alone"


def _own_values(topology: Topology, mode: str, setup: Setup) -> dict[str, set[str]]:
    """The values of each owned key over all brokers. Directories are unknown before a run, so they differ."""
    values: dict[str, set[str]] = {}
    brokers = [host for host in topology.role("broker") if host.node_id in setup.brokers]
    voters = {node.node_id: node.address for node in topology.role("controller") or brokers}
    for host in brokers:
        az, data_dir = topology.az_name(host.az), f"<folder of the run>/nodes/{host.name}/data"
        if mode in (*ZOOKEEPER, *MIGRATION):
            names = setup.zookeeper_pins.get(host.name)
            nodes = [node for node in topology.role("zookeeper") if names is None or node.name in names]
            config = broker_properties(
                ZooKeeperModeBroker(
                    node_id=host.node_id,
                    az=az,
                    address=host.address,
                    data_dir=data_dir,
                    zookeepers=tuple(node.zookeeper_endpoint for node in nodes),
                ),
                {},
            )
        else:
            roles = ("broker", "controller") if host.node_id in voters else ("broker",)
            config = kraft_properties(
                KRaftNode(
                    node_id=host.node_id,
                    roles=roles,
                    az=az,
                    address=host.address,
                    data_dir=data_dir,
                    voters=voters,
                ),
                {},
            )
        for key, value in config.items():
            if is_owned(key):
                values.setdefault(key, set()).add(value)
    return values

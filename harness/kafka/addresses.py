"""Lists of addresses in brokers' properties: members of an ensemble or a quorum, and listeners.

The forms are `host:port,host:port/chroot` (`zookeeper.connect`), `id@host:port` (`controller.quorum.voters`,
KIP-595), `host:port` (`controller.quorum.bootstrap.servers`, KIP-853) and `NAME://host:port` (`listeners`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def members(addresses: str) -> tuple[str, ...]:
    """The members of a list of addresses; a chroot at the end belongs to none."""
    return tuple(address for part in addresses.partition("/")[0].split(",") if (address := part.strip()))


def endpoint(member: str) -> tuple[str, int] | None:
    """Host and port of a member, without its id; None if it has no port."""
    host, _, port = member.rpartition("@")[2].rpartition(":")
    return (host.strip("[]"), int(port)) if host and port.isdigit() else None


def listeners(text: str) -> Iterator[tuple[str, str, int]]:
    """Name, host and port of each listener: `INTERNAL://kafka1:9092,EXTERNAL://:9094`."""
    for part in text.split(","):
        name, _, rest = part.strip().partition("://")
        host, _, port = rest.rpartition(":")
        if port.isdigit():
            yield name, host, int(port)


def own_listeners(config: Mapping[str, str]) -> dict[str, list[int]]:
    """The ports of a node's own listeners: `kafka`, and `controller` for those of the quorum."""
    controllers = {name.strip() for name in config.get("controller.listener.names", "").split(",")}
    ports: dict[str, list[int]] = {}
    for name, _, port in listeners(config.get("listeners", "")):
        ports.setdefault("controller" if name in controllers else "kafka", []).append(port)
    return ports


def for_brokers(config: Mapping[str, str]) -> tuple[str, int] | None:
    """Host and port that a broker advertises to other brokers; None if its configuration names no host.

    Those of `inter.broker.listener.name`, else of the listener with `security.inter.broker.protocol`.
    """
    wanted = config.get("inter.broker.listener.name") or config.get("security.inter.broker.protocol")
    advertised = config.get("advertised.listeners") or config.get("listeners", "")
    places = (
        (host, port) for name, host, port in listeners(advertised) if name == (wanted or "PLAINTEXT") and host
    )
    return next(places, None)

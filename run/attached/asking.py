"""What Kafka says about the hosts of a file: whether ids, addresses and AZs fit."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from harness.cluster.attached import AttachedCluster
from harness.cluster.hosts_file import HostsFile, in_azs_of
from harness.errors import UnfitError
from harness.kafka.addresses import for_brokers
from harness.kafka.wire.quorum import QuorumInfo, describe_quorum


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What a cluster says about a hosts file."""

    cluster_id: str = ""
    """Empty if nobody has answered."""
    mode: str = ""
    problem: str = ""
    """Why the file does not fit; nothing may be broken then."""
    notes: tuple[str, ...] = ()
    """What else a person should know."""


def fit(file: HostsFile, cluster: AttachedCluster) -> Fit:
    """Compare a hosts file with what the cluster's brokers state."""
    return Fit(
        cluster_id=cluster.cluster_id,
        mode=cluster.mode,
        problem=_problem(file, cluster),
        notes=tuple((*_racks(file, cluster), *_quorum(file, cluster), *_peers(file, cluster))),
    )


def _problem(file: HostsFile, cluster: AttachedCluster) -> str:
    if file.cluster_id and file.cluster_id != cluster.cluster_id:
        return f"kafka.cluster-id is {file.cluster_id}, and the cluster has the id {cluster.cluster_id}"
    known = {host.name for host in cluster.brokers}
    if strange := [host.name for host in file.topology.role("broker") if host.name not in known]:
        return f"the cluster has no live broker {', '.join(strange[:5])}; correct its id, or start it"
    try:
        in_azs_of(file, cluster.topology)
    except UnfitError as error:
        return error.message.rstrip(".")
    return ""


def _racks(file: HostsFile, cluster: AttachedCluster) -> Iterator[str]:
    racks = {one.node_id: one.rack for one in cluster.listeners}
    other = [
        f"{host.name} is in {az} here and in {racks[host.node_id]} there"
        for host in file.topology.role("broker")
        if (az := file.topology.az_name(host.az)) and racks.get(host.node_id, "") not in ("", az)
    ]
    if other:
        yield f"broker.rack names other AZs than the file: {'; '.join(other[:3])}"


def _peers(file: HostsFile, cluster: AttachedCluster) -> Iterator[str]:
    """Brokers that others reach at another address than the file's, which a cut would miss."""
    advertised = {host.node_id: host for host in cluster.brokers}
    for host in file.topology.role("broker"):
        config: Mapping[str, str] = {}
        with suppress(LookupError, OSError):  # also of a broker that is not there
            config = cluster.broker_config(advertised[host.node_id])
        place = for_brokers(config)
        with suppress(OSError, UnicodeError):
            if place is not None and (address := socket.gethostbyname(place[0])) != host.address:
                yield (
                    f"{host.name} advertises {place[0]} ({address}) to other brokers, and the file has "
                    f"{host.address}; a cut drops packets of the file's address alone"
                )


def _quorum(file: HostsFile, cluster: AttachedCluster) -> Iterator[str]:
    """Voters that no host of the file is: a cut would leave their links."""
    if cluster.mode != "kraft":
        return
    try:
        described = describe_quorum(cluster.any_endpoint())
    except OSError:
        return
    if described.error:
        yield f"the controllers are not known (Kafka error {described.error}); grant DESCRIBE on the cluster"
        return
    if lacking := unlisted(file, described):
        yield f"the controllers {', '.join(map(str, lacking))} are in no `ports` of the file; add them"


def unlisted(file: HostsFile, described: QuorumInfo) -> list[int]:
    """Voters of the metadata quorum that no host of the file is."""
    here = {host.node_id for host in file.topology.hosts if "controller" in host.services}
    return sorted({node for node, _ in described.voters} - here)


def require_voters(file: HostsFile, cluster: AttachedCluster) -> None:
    """Raise UnfitError if nobody could tell whether a majority of controllers stays."""
    if cluster.mode != "kraft":
        return
    if lacking := unlisted(file, describe_quorum(cluster.any_endpoint())):
        raise UnfitError(
            f"The controllers {', '.join(map(str, lacking))} are in no `ports` of {file.given}, so that a "
            "fault could take their majority; add them to the file."
        )

"""The name of a host means another address, as when a container or a virtual machine comes back elsewhere."""

from __future__ import annotations

from harness.errors import InvalidRunError, UnfitError, UsageError
from harness.history.mechanisms import MECHANISMS, Kind
from harness.lab import host_names
from harness.lab.model import Host
from nemesis.fault import Evidence, Targets
from nemesis.registry import FaultRegistry


class AddressChange:
    """Another address for a host whose process does not run; the old one is nobody's afterwards."""

    mechanism = "address_change"
    kind: Kind = MECHANISMS[mechanism].kind
    undoable = False
    ends_processes = False

    def __init__(self, registry: FaultRegistry, host: Host) -> None:
        """Raises UsageError if the process runs, UnfitError for a host without a name."""
        old = host_names.address_of(registry.lab, host.name)
        if old is None:
            raise UnfitError(
                f"{host.name} cannot get another address: others reach it by the one that it has; give it a "
                f"name with `Setup(named=({host.name!r},))`."
            )
        if registry.lab.alive(host.name):
            raise UsageError(
                f"change_address: kill or stop {host.name} first; an address changes while it is away."
            )
        self.name = f"change the address of {host.name}"
        self._lab, self._host = registry.lab, host.name
        self._addresses = {"from": old, "to": old}

    def targets(self) -> Targets:
        """The host."""
        return {"hosts": [self._host]}

    def inject(self) -> None:
        """Change the address."""
        self._addresses["to"] = host_names.move(self._lab, self._host)

    def verify(self) -> Evidence:
        """Check that the host has the new address, which its name means, and not the old one."""
        has = host_names.owned(self._lab, self._host)
        old, new = self._addresses["from"], self._addresses["to"]
        if old in has or new not in has or host_names.address_of(self._lab, self._host) != new:
            raise InvalidRunError(
                f"{self.name!r} had no effect: {self._host} has the addresses {', '.join(has)}."
            )
        return dict(self._addresses)

    def heal(self) -> None:
        """Nothing: names may mean the new address for good."""

    def verify_healed(self) -> Evidence:
        """Nothing."""
        return {}

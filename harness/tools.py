"""Programs that labs and faults run, each with the Debian package that brings it.

`harness/setup.sh` installs these packages. What is not listed here is in an essential package (coreutils,
util-linux, a shell), which no Debian lacks.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

PACKAGES: Mapping[str, str] = {
    "ip": "iproute2",
    "tc": "iproute2",
    "iptables": "iptables",
    "iptables-restore": "iptables",
    "iptables-save": "iptables",
    "mount": "mount",
    "umount": "mount",
    "losetup": "mount",
    "mkfs.ext4": "e2fsprogs",
    "mkfs.xfs": "xfsprogs",
    "libfuse": "fuse3",
    "libfaketime": "libfaketime",
}
"""Program → package. Two are libraries: mfusepy loads `libfuse`, and processes preload `libfaketime`."""
_FAKETIME = ("lib/*/faketime", "lib/faketime", "lib64/faketime", "local/lib/faketime")
"""Its folders below /usr."""


def installed(tool: str) -> bool:
    """Whether the program is on the path (for `libfuse`: whether the library loads)."""
    if tool == "libfaketime":
        return libfaketime() is not None
    return _libfuse_loads() if tool == "libfuse" else shutil.which(tool) is not None


def libfaketime() -> str | None:
    """The path of the library; None if it is not installed."""
    found = (path for folder in _FAKETIME for path in sorted(Path("/usr").glob(f"{folder}/libfaketime.so.1")))
    return next(map(str, found), None)


def not_installed(tool: str) -> str:
    """A phrase that the program is not installed, with its package if known; without a full stop."""
    package = PACKAGES.get(tool)
    return f"{tool} is not installed" + (f" (package {package})" if package else "")


def missing(*needed: str) -> str:
    """The phrases of `not_installed` for the programs that are missing; empty if none is."""
    return "; ".join(not_installed(tool) for tool in needed if not installed(tool))


def _libfuse_loads() -> bool:
    try:
        import mfusepy  # noqa: F401, PLC0415 - loads the C library
    except (ImportError, OSError):
        return False
    return True

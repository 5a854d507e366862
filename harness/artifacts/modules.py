"""Maven modules in the cache: downloaded once, with checksums to find and repair damage."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.artifacts import ivy
from harness.artifacts.cache import UNFINISHED, locked, writable
from harness.artifacts.java import Java
from harness.artifacts.manifest import Checksums, sha256
from harness.artifacts.pinned import PinnedJar, pinned_jars
from harness.errors import UnfitError
from harness.held_folders import held_folder
from harness.kafka.versions import Coordinates

Say = Callable[[str], None]
_RECIPE = "coordinates.txt"


@dataclass(frozen=True, kw_only=True)
class Modules:
    """What one folder of the cache holds."""

    label: str
    """Names them in lines of progress: `Kafka 3.9.1`."""
    coordinates: tuple[Coordinates, ...]
    jar: str
    """A jar that must be among them."""

    @property
    def recipe(self) -> str:
        """The request, as the folder stores it."""
        return "".join(f"{entry}\n" for entry in self.coordinates)


def fetched(modules: Modules, root: Path, java: Java, say: Say) -> Checksums:
    """The checksums of the jars in ``root / "lib"``. Downloads jars that are missing or damaged.

    What a list of pinned jars names is not looked up, and must have the list's checksums. Raises UnfitError
    if the cache cannot be written, or a download fails.
    """
    pinned = pinned_jars(root.name, modules.coordinates)
    manifest = _stored(root, modules, pinned)
    if manifest is not None and not manifest.damaged(root):
        return manifest
    cache = writable(root.parent)
    with locked(cache, say, root.name):
        manifest = _stored(root, modules, pinned)  # another process may have downloaded it meanwhile
        bad = manifest.damaged(root) if manifest else ()
        if manifest and not bad:
            return manifest
        for name in bad:
            say(f"{root / 'lib' / name} is damaged or missing; downloading it again")
            ivy.forget(cache / "ivy", name)
        with held_folder(cache, f"{UNFINISHED}{root.name}-") as new:
            missing = [jar for jar in pinned if not bad or jar.name in bad]
            if missing:
                size = sum(jar.size for jar in missing) / 1e6
                say(f"downloading {modules.label} from Maven Central: {len(missing)} jars, {size:.0f} MB")
                ivy.download(missing, new / "lib", cache / "ivy", java, say)
            else:
                say(f"resolving {modules.label} from Maven Central")
                ivy.fetch(modules.coordinates, new / "lib", cache / "ivy", java, say)
            if manifest:
                return _repair(root, new, manifest, bad)
            return _install(root, new, modules)


def _stored(root: Path, modules: Modules, pinned: Sequence[PinnedJar]) -> Checksums | None:
    """The manifest of the folder, if it holds these modules: exactly the pinned jars, if there are any."""
    try:
        recipe = (root / _RECIPE).read_text()
    except (OSError, UnicodeDecodeError):
        return None
    manifest = Checksums.read(root) if recipe == modules.recipe else None
    if manifest and pinned and manifest.sums != {jar.name: jar.sha256 for jar in pinned}:
        return None
    return manifest


def _install(root: Path, new: Path, modules: Modules) -> Checksums:
    manifest = Checksums.of(new / "lib")
    if modules.jar not in manifest.sums:
        raise UnfitError(
            f"Resolving {modules.coordinates[0]} did not bring {modules.jar}; remove {root.parent} and try "
            f"again."
        )
    manifest.write(new)
    (new / _RECIPE).write_text(modules.recipe)
    if root.exists():
        shutil.rmtree(root)
    new.rename(root)
    return manifest


def _repair(root: Path, new: Path, manifest: Checksums, bad: tuple[str, ...]) -> Checksums:
    for name in bad:
        fetched_jar = new / "lib" / name
        if not fetched_jar.is_file() or sha256(fetched_jar) != manifest.sums[name]:
            raise UnfitError(
                f"{name} was damaged, and the file downloaded in its place differs from its checksum in "
                f"{root / 'SHA256SUMS'}; remove {root} and try again."
            )
        fetched_jar.replace(root / "lib" / name)
    manifest.write(root)
    return manifest

"""`python -m harness.artifacts [VERSION...] [--without-archives]`: fill the cache and show the progress.

Class-data archives are made too, also if that failed before, unless they are not asked for.
"""

from __future__ import annotations

import sys

from harness.artifacts import resolve, resolve_all
from harness.console import Progress
from harness.errors import EXIT_INTERRUPTED, AckedError, as_printed
from harness.kafka.versions import DEFAULT

WITHOUT = "--without-archives"


def main(argv: list[str]) -> int:
    """Resolve the named versions, or the default one."""
    progress = Progress()
    make = WITHOUT not in argv
    versions = [one for one in argv if one != WITHOUT] or [DEFAULT]
    try:
        with progress.phase("resolve", f"Kafka {', '.join(versions)}"):
            resolve_all(versions, say=progress.say, make_archives=make)
        for version in versions:
            distribution = resolve(version, say=progress.say, make_archives=make, retry_archives=True)
            size = sum(jar.stat().st_size for jar in distribution.jars) / 1e6
            jars = f"{len(distribution.jars)} jars, {size:.0f} MB"
            progress.say(f"Kafka {version}: {jars} in {distribution.root}")
    except AckedError as error:
        sys.stderr.write(as_printed(error))
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

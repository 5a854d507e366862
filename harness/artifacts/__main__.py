"""`python -m harness.artifacts VERSION...`: fill the cache and show the progress."""

from __future__ import annotations

import sys

from harness.artifacts import resolve, resolve_all
from harness.console import Progress
from harness.errors import EXIT_INTERRUPTED, AckedError, as_printed
from harness.kafka.versions import DEFAULT


def main(argv: list[str]) -> int:
    """Resolve the named versions, or the default one."""
    progress = Progress()
    versions = argv or [DEFAULT]
    try:
        with progress.phase("resolve", f"Kafka {', '.join(versions)}"):
            resolve_all(versions, say=progress.say)
        for version in versions:
            distribution = resolve(version, say=progress.say, retry_archives=True)
            progress.say(f"Kafka {version}: {len(distribution.jars)} jars in {distribution.root}")
    except AckedError as error:
        sys.stderr.write(as_printed(error))
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

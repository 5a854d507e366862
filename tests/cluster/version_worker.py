"""A scenario of the catalogue on another Kafka version, without a judgement.

`python -m tests.cluster.version_worker SCENARIO VERSION MODE RUNS` prints the run folder.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from run.catalogue import find
from tests.cluster.mutant_worker import run

if __name__ == "__main__":
    name, version, mode, runs = sys.argv[1:]
    sys.exit(run(replace(find(name), kafka=version, mode=mode), runs))

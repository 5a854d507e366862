"""The command line as a script: `spark-submit --py-files acked.zip cli/submit.py check RUN ...`."""

from __future__ import annotations

import sys
from pathlib import Path

# spark-submit puts this script's folder first, where `sql.py` and others would hide libraries' modules, and
# then the zip, which holds only what the workers need.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from cli.main import main  # noqa: E402

if __name__ == "__main__":
    main()

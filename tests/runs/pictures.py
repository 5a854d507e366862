"""`python -m tests.runs.pictures [--check] [SCENARIO...]`: the catalogue's pictures, from the stored runs.

`docs/images/catalogue/<scenario>.svg` shows the stored run of a scenario. `--check` says which pictures are
out of date. A picture is up to date if its texts equal those of a new one. Styles and positions may differ,
so a change of the drawing does not require new pictures.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from report.model.gather import report_model
from report.page.standalone import standalone, texts_of
from tests.runs.judged import judged_run
from tests.runs.stored import stored_names

FOLDER = Path(__file__).parents[2] / "docs" / "images" / "catalogue"
LARGEST_BYTES = 64_000


def picture_of(scenario: str) -> str:
    """The picture of the stored run of a scenario. Raises ValueError if it is too large for a document."""
    with tempfile.TemporaryDirectory(prefix="acked-picture-") as folder:
        drawn = standalone(report_model(judged_run(scenario, Path(folder) / scenario)))
    if len(drawn.encode()) > LARGEST_BYTES:
        raise ValueError(
            f"the picture of {scenario} has {len(drawn.encode())} bytes; {LARGEST_BYTES} are allowed"
        )
    return drawn


def out_of_date(scenario: str) -> bool:
    """Whether the picture of a scenario is missing, or its texts differ from the stored run."""
    file = FOLDER / f"{scenario}.svg"
    return not file.is_file() or texts_of(file.read_text()) != texts_of(picture_of(scenario))


def main(arguments: list[str]) -> int:
    """Make the pictures, or check them."""
    chosen = [one for one in arguments if one != "--check"] or stored_names()
    if "--check" in arguments:
        stale = [name for name in chosen if out_of_date(name)]
        for name in stale:
            sys.stderr.write(
                f"{FOLDER / name}.svg is out of date; run `python -m tests.runs.pictures {name}`.\n"
            )
        return 1 if stale else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in chosen:
        (FOLDER / f"{name}.svg").write_text(picture_of(name))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

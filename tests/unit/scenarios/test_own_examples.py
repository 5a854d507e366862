"""The code in the pages about custom scenarios and faults is that of the template and the example."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from run.catalogue import find

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "scenarios" / "black_hole.py"
TEMPLATE = ROOT / "cli" / "new_scenario.py.txt"


def _code(page: str) -> list[str]:
    """The blocks of Python in a page."""
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.DOTALL)


def test_the_tutorial_begins_with_what_acked_new_writes() -> None:
    assert _code("tutorial-own-scenario.md")[0] == TEMPLATE.read_text().replace("NAME", "my-case")


def test_the_tutorial_changes_the_template_into_a_scenario(tmp_path: Path) -> None:
    """Done as its sections 3 and 6 say."""
    start, change, kept, lost, expected = _code("tutorial-own-scenario.md")
    fault = start.index("    # The fault")
    text = start[:fault] + change + "\n\n" + start[start.index("# What the run") :]
    text = text.replace('"killed"', '"cut"').replace("\n)\n\nSCENARIO", f"\n{kept},\n)\n\nSCENARIO")
    (tmp_path / "my_case.py").write_text(text)
    assert [claim.name for claim in find(str(tmp_path / "my_case.py")).claims][-1] == "alone-kept"
    text = text.replace(kept, lost).replace(
        "    claims=CLAIMS,", "    claims=CLAIMS,\n    expected=EXPECTED,"
    )
    text = text.replace("\n\nSCENARIO", f"\n\n{expected}\n\nSCENARIO")
    (tmp_path / "my_case.py").write_text(text.replace("import Claim,", "import Claim, Expected,"))
    changed = find(str(tmp_path / "my_case.py"))
    assert [claim.name for claim in changed.claims][-1] == "alone-lost"
    assert [entry.finding for entry in changed.expected] == ["lost"]


def test_the_page_on_faults_holds_the_whole_example() -> None:
    """Its blocks, one after the other, are the file: a reader without a clone has nothing else."""
    blocks = [block.strip("\n") for block in _code("writing-a-nemesis.md")]
    assert "\n\n\n".join(blocks) + "\n" == EXAMPLE.read_text()


@pytest.mark.parametrize("file", sorted(EXAMPLE.parent.glob("*.py")), ids=lambda file: file.stem)
def test_examples_declare_a_scenario(file: Path) -> None:
    assert find(str(file)).claims

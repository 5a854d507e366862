"""A scenario file of the user's, as the tests write it."""

from __future__ import annotations

from pathlib import Path

CLAIM = "Claim(name='true', says='It is true.', holds=\"SELECT true AS holds, '' AS observed\")"
TEXT = """\
from acked import Claim, Expected, Scenario, Setup, Topic


def body(stage):
    pass


SCENARIO = Scenario(
    name="my-case", title="a case", body=body, setup=Setup(topics=(Topic("t", (1, 2, 3)),)),
    claims=({claims},),
    {more}
)
"""


def write(
    folder: Path, name: str = "my_case.py", *, claims: str = CLAIM, more: str = "", text: str = ""
) -> Path:
    """Write a file with one scenario, or with this text."""
    file = folder / name
    file.write_text(text or TEXT.format(claims=claims, more=more))
    return file

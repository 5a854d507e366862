"""A configuration override without effect is an error."""

from __future__ import annotations

import pytest

from harness.errors import InvalidRunError
from harness.run.configs import _compare


def test_a_misspelt_key_has_no_effect_and_is_named() -> None:
    """In another harness, the broker silently ignored a misspelt key."""
    with pytest.raises(InvalidRunError, match=r"unclean\.leader\.election\.enabled"):
        _compare(
            "broker1",
            {"unclean.leader.election.enable": "false"},
            {"unclean.leader.election.enabled": "true"},
        )


def test_another_value_in_effect_is_named() -> None:
    """Both values are shown."""
    with pytest.raises(InvalidRunError, match=r"=2, but .*=1 is in effect"):
        _compare("topic t", {"min.insync.replicas": "1"}, {"min.insync.replicas": "2"})


def test_what_took_passes() -> None:
    """Addresses and paths are recorded, but not compared."""
    _compare("broker1", {"request.timeout.ms": "3000"}, {"request.timeout.ms": "3000", "log.dirs": "/x"})

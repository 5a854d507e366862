"""One Spark session for all Spark tests: starting it costs more than most tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from checkers.spark.session import start_session


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    session = start_session()
    yield session
    session.stop()

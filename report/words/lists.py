"""Numbers and names in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def brokers_in_words(brokers: Iterable[int]) -> str:
    """`broker1, broker2`."""
    return ", ".join(f"broker{number}" for number in brokers)


def named_offset(offset: int | None) -> str:
    """An offset in words; `none` for None."""
    return "none" if offset is None else str(offset)


def by_broker(broker: int | None) -> str:
    """` by broker1`; empty for None."""
    return "" if broker is None else f" by broker{broker}"


def listed(words: Sequence[str]) -> str:
    """Words of a list, the last after “and”."""
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)

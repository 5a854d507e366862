"""Sentences about committed offsets: how commits were answered, and what brokers say is committed."""

from __future__ import annotations

from dataclasses import dataclass

from checkers.claims.builders.sql import answer, counted, is_in, like_any, listed, mark, text_of, window


@dataclass(frozen=True)
class GroupOffsets:
    """Commits and fetches of offsets that `Stage.group_offsets` made; each went to one broker."""

    where: str
    """SQL condition on the columns of `groups`."""

    def commits_answered(
        self,
        *errors: int,
        at: int | tuple[int, ...],
        offsets: tuple[int, ...] = (),
        after: str,
        before: str,
        at_least: int = 1,
        not_within_s: float = 0.0,
    ) -> str:
        """Every commit to these brokers between two marks was answered with one of these errors (0: none).

        ``offsets`` restricts it to commits of these offsets. With ``not_within_s`` the first answer came no
        sooner than so many seconds after the first mark.
        """
        chosen = f" AND {is_in('offset', offsets)}" if offsets else ""
        waited = f" AND min(ns) >= {mark(after)} + {int(not_within_s * 1e9)}" if not_within_s else ""
        first = f", ', the first after ', round((min(ns) - {mark(after)}) / 1e9, 1), ' s'"
        return answer(
            f"CASE WHEN count(*) >= {at_least} "
            f"THEN count_if({is_in('error', errors)}) = count(*){waited} END",
            f"concat({counted('commit')}, ': error ', {listed('error')}{first if not_within_s else ''})",
            f"groups WHERE {self.where} AND event IN ('committed', 'commit_failed') "
            f"AND {is_in('broker', at)}{chosen}{window(after, before)}",
        )

    def is_answered(
        self,
        offset: int,
        *,
        by: int | tuple[int, ...],
        after: str = "",
        before: str = "",
        at_least: int = 1,
    ) -> str:
        """Whenever these brokers were asked between two marks, they named this committed offset."""
        return self._fetched(f"error = 0 AND offset = {offset}", by, after, before, at_least)

    def is_refused(
        self,
        *errors: int,
        by: int | tuple[int, ...],
        after: str = "",
        before: str = "",
        at_least: int = 1,
    ) -> str:
        """Whenever these brokers were asked between two marks, they answered with one of these errors."""
        return self._fetched(is_in("error", errors), by, after, before, at_least)

    def acknowledged_then_lost(
        self, *, by: int | tuple[int, ...], after: str, before: str, at_least: int = 1
    ) -> str:
        """So many commits that were acknowledged between two marks are higher than the answer at the second.

        That is what these brokers last named between the marks. Use it only for groups that never commit a
        lower offset on purpose.
        """
        return self._compared(f"count_if(offset > said) >= {at_least}", by, after, before)

    def none_lost(self, *, by: int | tuple[int, ...], after: str, before: str, at_least: int = 1) -> str:
        """No commit that was ever acknowledged until the second mark is higher than the answer at that mark.

        That is what these brokers last named between the marks.
        """
        return self._compared(
            f"CASE WHEN count(offset) >= {at_least} THEN count_if(offset > said) = 0 END",
            by,
            after,
            before,
            ever=True,
        )

    def _fetched(self, wanted: str, by: int | tuple[int, ...], after: str, before: str, at_least: int) -> str:
        said = (
            "if(coalesce(error, 0) <> 0, concat('error ', error), coalesce(cast(offset AS string), 'none'))"
        )
        return answer(
            f"CASE WHEN count(*) >= {at_least} THEN count_if(coalesce({wanted}, false)) = count(*) END",
            f"concat({counted('answer')}, ': ', {listed('said')})",
            f"(SELECT *, {said} AS said FROM groups WHERE {self.where} AND event = 'fetched' "
            f"AND {is_in('broker', by)}{window(after, before)})",
        )

    def _compared(
        self, holds: str, by: int | tuple[int, ...], after: str, before: str, *, ever: bool = False
    ) -> str:
        said = (
            f"SELECT max_by(coalesce(offset, 0), ns) AS said FROM groups WHERE {self.where} "
            f"AND event = 'fetched' AND error = 0 AND {is_in('broker', by)}{window(after, before)}"
        )
        committed = (
            f"SELECT offset FROM groups WHERE {self.where} AND event = 'committed'"
            f"{window('' if ever else after, before)}"
        )
        return answer(
            f"CASE WHEN max(said) IS NOT NULL THEN {holds} END",
            "concat(count(offset), ' acknowledged, ', count_if(offset > said), ' lost: offset ', "
            f"{text_of('max(said)')}, ', ', coalesce(greatest(max(offset) - max(said), 0), 0), "
            f"' messages are processed again')",
            f"({said}) LEFT JOIN ({committed}) ON true",
        )


def group_offsets(group: str | tuple[str, ...]) -> GroupOffsets:
    """The offsets of groups by name (with `%`)."""
    return GroupOffsets(" AND ".join(like_any("groups.group", group)) or "true")

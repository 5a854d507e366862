"""The parts of every sentence as SQL: moments, combinations, common expressions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import ParamSpec

from checkers.claims.subject import NO_SUBJECT, ClaimQuery, ClaimSubject, TimeBound, merged, subject_of
from harness.processors import BUSY_PERCENT

P = ParamSpec("P")
_BEGINS, _ENDS = ("after", "since", "at_risk_after"), ("at", "before", "until")
_OFFSETS = ("offset", "at_offset", "to", "log_end_offset")
_BROKERS = ("broker", "brokers", "number")


def sentence(
    *tables: str, hosts: tuple[str, ...] = ()
) -> Callable[[Callable[P, str]], Callable[P, ClaimQuery]]:
    """Makes a `ClaimQuery` of what a builder returns: its subject follows from the builder's own arguments.

    ``tables`` are those that its query reads, and ``hosts`` those that it asks, whatever the arguments. An
    argument means what its name says: a mark that begins the window (`after`, `since`) or ends it (`at`,
    `before`, `until`; with ``within_s``, so long after the begin), an offset, or brokers. What has a
    subject itself, such as a partition or messages, adds it.
    """

    def decorated(builder: Callable[P, str]) -> Callable[P, ClaimQuery]:
        signature = inspect.signature(builder)

        @wraps(builder)
        def built(*args: P.args, **kwargs: P.kwargs) -> ClaimQuery:
            given = signature.bind(*args, **kwargs)
            given.apply_defaults()
            parts = [ClaimSubject(tables=tables, hosts=hosts)]
            parts += [_of_argument(name, value) for name, value in given.arguments.items()]
            within_s, begin = given.arguments.get("within_s"), given.arguments.get("after")
            if within_s and begin:
                parts.append(ClaimSubject(until=(TimeBound(begin, int(within_s * 1e9)),)))
            if begin and (within_s or given.arguments.get("not_within_s")):
                parts.append(ClaimSubject(counts_from=(begin,)))
            return ClaimQuery(builder(*args, **kwargs), merged(parts))

        return built

    return decorated


def _of_argument(name: str, value: object) -> ClaimSubject:
    subject = getattr(value, "subject", None)
    if isinstance(subject, ClaimSubject):
        return subject
    if isinstance(value, str) and value:
        if name in _BEGINS:
            return ClaimSubject(since=(TimeBound(value),))
        if name in _ENDS:
            return ClaimSubject(until=(TimeBound(value),))
        return ClaimSubject(hosts=(value,)) if name == "host" else NO_SUBJECT
    numbers = value if isinstance(value, tuple) else (value,)
    if not all(type(number) is int for number in numbers):
        return NO_SUBJECT
    if name in _OFFSETS:
        return ClaimSubject(offsets=tuple(numbers))
    return (
        ClaimSubject(hosts=tuple(f"broker{number}" for number in numbers)) if name in _BROKERS else NO_SUBJECT
    )


FRESH_S = 1.0
"""How much older than a sentence's moment an observation may be."""
FRESH_NS = int(FRESH_S * 1e9)
TOO_BUSY = "too busy to tell"
"""The last words of ``observed`` in such a claim."""
FINAL = "{final:*} IS NOT NULL"
REPLICAS = "(SELECT count_if(NOT complete) AS unread FROM replicas)"
WHOLE = f"{FINAL} AND max(unread) = 0"
"""Condition on rows joined with `REPLICAS`: every replica's final log was read to its end."""


def mark(name: str) -> str:
    """The time of a mark, ns; without the mark the claim is unknown."""
    return f"{{mark:{name}}}"


Clock = Callable[[str], str]
"""The time for the name of a mark, as SQL."""


def settled(source: str, at: str, sentence: Callable[[Clock], str], clock: Clock | None = None) -> str:
    """A sentence about what the observer saw last before its marks. ``at`` is the last of them.

    The observer sees a new state up to the time of one look later, so what it saw last before a mark can
    confirm the sentence, but not refute it. It is refuted only if it is also false by the first look at
    ``source`` (a host or `store`) that began after each mark; if that look says otherwise, or there was none,
    it is unknown. ``clock`` is `mark`, or `optional_mark`.
    """
    clock = clock or mark

    def first_look(name: str) -> str:
        return f"coalesce({{look:{source}@{name}}}, {clock(name)})"

    undecided = f"(later IS NULL OR later OR {{look:{source}@{at}}} IS NULL)"
    return answer(
        f"CASE WHEN holds THEN true WHEN NOT holds AND NOT {undecided} THEN false END",
        f"concat(observed, if(NOT holds AND {undecided}, concat('; the first look that began after {at}: ', "
        f"coalesce(if({{look:{source}@{at}}} IS NULL, NULL, afterwards), 'none')), ''))",
        f"({sentence(clock)}) CROSS JOIN (SELECT holds AS later, observed AS afterwards "
        f"FROM ({sentence(first_look)}))",
    )


def optional_mark(name: str) -> str:
    """The time of a mark that a run need not set; null without it."""
    return f"{{mark?:{name}}}"


def effective(after: str) -> str:
    """When the fault before a mark took effect, which is earlier than its proof and the mark.

    Without such a fault, the time of the mark itself. Lower limits of time count from here, because on a busy
    machine the proof of a fault takes seconds.
    """
    earlier = f"SELECT coalesce(max(ns), 0) FROM marks WHERE {mark(after)} > ns"
    fault = (
        f"SELECT max(ns) FROM faults WHERE moment = 'injected' AND {mark(after)} >= ns AND ns > ({earlier})"
    )
    return f"coalesce(({fault}), {mark(after)})"


def observed_at(at: str) -> str:
    """SQL condition: the observer still followed the cluster at a mark."""
    return f"{{heard:store}} >= {mark(at)} - {FRESH_NS}"


def heard_at(number: int, at: str) -> str:
    """SQL condition: the observer still followed one broker at a mark."""
    return f"{{heard:broker{number}}} >= {mark(at)} - {FRESH_NS}"


def followed(host: str, after: str = "", before: str = "") -> str:
    """SQL condition: a host's log was followed to the end of a window, or beyond its beginning.

    Without it, that an event is missing says nothing.
    """
    log = f"{{log:{host}}}"
    if before:
        return f"{log} >= {mark(before)} - {FRESH_NS}"
    return f"{log} > {mark(after)}" if after else f"{log} IS NOT NULL"


def condition(holds: str, observed: str) -> str:
    """A condition over scalar expressions; ``observed`` is an SQL text expression. Guard it (see above)."""
    return f"SELECT {holds} AS holds, {observed} AS observed"


def both(*sentences: str) -> ClaimQuery:
    """All of these sentences hold. False if any is false, otherwise unknown if any is unknown."""
    tables = " CROSS JOIN ".join(f"({sentence}) s{number}" for number, sentence in enumerate(sentences))
    numbers = range(len(sentences))
    query = answer(
        " AND ".join(f"s{number}.holds" for number in numbers),
        f"concat_ws('; ', {', '.join(f's{number}.observed' for number in numbers)})",
        tables,
    )
    return ClaimQuery(query, merged(map(subject_of, sentences)))


def opposite(sentence: str) -> ClaimQuery:
    """The sentence is false; unknown stays unknown."""
    query = f"SELECT NOT holds AS holds, observed FROM ({sentence})"
    return ClaimQuery(query, subject_of(sentence))


def about(
    query: str,
    *subjects: object,
    since: str = "",
    until: str = "",
    hosts: Iterable[str] = (),
    tables: Iterable[str] = (),
) -> ClaimQuery:
    """A query of your own, with what it is about: so the page of a run links to that part of the history.

    ``subjects`` are partitions, brokers or messages of this module, ``since`` and ``until`` are marks.
    """
    window = ClaimSubject(
        since=(TimeBound(since),) if since else (),
        until=(TimeBound(until),) if until else (),
        hosts=tuple(hosts),
        tables=tuple(tables),
    )
    return ClaimQuery(query, merged([subject_of(query), window, *map(subject_of, subjects)]))


def answer(holds: str, observed: str, source: str) -> str:
    return f"SELECT {holds} AS holds, {observed} AS observed FROM {source}"


def in_time(
    event: str, *, after: str, within_s: float | None, not_within_s: float, happened: str = "", never: str
) -> str:
    """The first event comes within ``within_s`` after a mark, and not within ``not_within_s``.

    ``event`` is a query with one row and the columns `moment` (when it was seen, ns; null: it never came) and
    `asked` (when the observer began to look, ns; null: not known). An event is too late if that look began
    after the limit. If an event comes too late while the processors were busy (`machine`), the claim is
    unknown: Kafka's settings bound the time only if its processes get processors. Raises ValueError without
    a limit.
    """
    if within_s is None and not not_within_s:
        raise ValueError("name a limit: within_s, not_within_s or both")
    soonest = f"{effective(after)} + {int(not_within_s * 1e9)}"
    passed = f"concat('{happened}', round((moment - {mark(after)}) / 1e9, 1), ' s after {after}')"
    sooner = f"WHEN moment < {soonest} THEN false " if not_within_s else ""
    if within_s is None:
        return answer(
            f"CASE {sooner}WHEN moment IS NOT NULL THEN true END",
            f"coalesce({passed}, '{never}')",
            f"({event})",
        )
    latest = f"{mark(after)} + {int(within_s * 1e9)}"
    excused = f"coalesce(moment > {latest}, true) AND coalesce(busy >= {BUSY_PERCENT}, false)"
    return answer(
        f"CASE {sooner}WHEN moment <= {latest} THEN true WHEN {excused} OR asked <= {latest} THEN NULL "
        f"WHEN moment > {latest} OR {{heard:store}} >= {latest} THEN false END",
        f"concat(coalesce({passed}, '{never}'), "
        f"if({excused}, concat('; the processors were ', busy, ' % busy, {TOO_BUSY}'), ''))",
        f"({event}) CROSS JOIN (SELECT cast(round(avg(busy)) AS int) AS busy FROM machine "
        f"WHERE ns > {mark(after)} AND ns <= {latest})",
    )


def text_of(value: str) -> str:
    return f"coalesce(cast({value} AS string), 'unknown')"


STATE_PARTS = {
    "leader": f"if(leader = -1, 'no leader', concat('leader broker', {text_of('leader')}))",
    "isr": f"concat('ISR ', {text_of('isr')})",
    "epoch": f"concat('epoch ', {text_of('epoch')})",
}
"""How the parts of a partition's state read, by column."""
STATE_TEXT = f"concat_ws(', ', {', '.join(STATE_PARTS.values())})"
"""How a partition's state reads."""


def counted(noun: str) -> str:
    """The number of rows with a noun: `1 message`, `2 messages`."""
    return f"concat(count(*), if(count(*) = 1, ' {noun}', ' {noun}s'))"


def times() -> str:
    """The number of rows as an adverb: `never`, `once`, `3 times`."""
    return "CASE count(*) WHEN 0 THEN 'never' WHEN 1 THEN 'once' ELSE concat(count(*), ' times') END"


def listed(column: str, *, between: str = " or ", none: str = "none") -> str:
    """The different values of a column in words, in their order, instead of as an array."""
    values = f"transform(sort_array(collect_set({column})), v -> concat(v, ''))"
    return f"coalesce(nullif(array_join({values}, '{between}'), ''), '{none}')"


def brokers_of(column: str) -> str:
    """An array of broker ids in words: `broker1, broker2`, or `no broker`."""
    names = f"array_join(transform({column}, b -> concat('broker', b)), ', ')"
    return f"coalesce(nullif({names}, ''), 'no broker')"


def array_of(members: tuple[int, ...]) -> str:
    return f"array({', '.join(map(str, sorted(members)))})"


def is_in(column: str, numbers: int | tuple[int, ...]) -> str:
    listed = (numbers,) if isinstance(numbers, int) else numbers
    return f"{column} IN ({', '.join(map(str, listed))})"


def like_any(column: str, names: str | tuple[str, ...]) -> list[str]:
    listed = (names,) if isinstance(names, str) else names
    plain = [name for name in listed if name and "%" not in name]
    alternatives = [f"{column} IN ({sql_texts(tuple(plain))})"] if len(plain) > 1 else []
    alternatives += [f"{column} = '{plain[0]}'"] if len(plain) == 1 else []
    alternatives += [f"{column} LIKE '{name}'" for name in listed if "%" in name]
    return (
        [alternatives[0] if len(alternatives) == 1 else f"({' OR '.join(alternatives)})"]
        if alternatives
        else []
    )


def sql_texts(names: tuple[str, ...]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def window(after: str, before: str) -> str:
    since = f" AND ns > {mark(after)}" if after else ""
    until = f" AND ns <= {mark(before)}" if before else ""
    return since + until

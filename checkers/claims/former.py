"""The builders of scenarios that do not use `checkers.claims.builders` yet; goes when the last one does.

Several of these can be confirmed although nobody observed anything. Write no new claim with them.
"""

from __future__ import annotations


def mark(name: str) -> str:
    """The time of a narrative mark, ns."""
    return f"{{mark:{name}}}"


def truth(column: str, topic: str, *, until: str = "", since: str = "", partition: int = 0) -> str:
    """What the metadata store said last about a partition (`leader`, `epoch` or `isr`).

    ``until`` and ``since`` are SQL expressions for times in ns, for example ``mark("cut")``.
    """
    conditions = [f"topic = '{topic}'", f"partition = {partition}"]
    conditions += [f"ns <= {until}"] if until else []
    conditions += [f"ns >= {since}"] if since else []
    return f"(SELECT max_by({column}, struct(epoch, ns)) FROM truth WHERE {' AND '.join(conditions)})"


def view(column: str, source: str, topic: str, *, until: str, partition: int = 0) -> str:
    """What one broker said last about a partition until a time."""
    return (
        f"(SELECT max_by({column}, ns) FROM views WHERE source = '{source}' AND subject = 'partition' "
        f"AND topic = '{topic}' AND partition = {partition} AND ns <= {until})"
    )


def controller(*, until: str) -> str:
    """Number of the controller that the metadata store named last until a time; -1 for none.

    A KRaft controller with a host of its own has the number of its AZ too, as its node id is 10 higher.
    """
    return f"(SELECT max_by(controller % 10, ns) FROM controllers WHERE ns <= {until})"


def fates(where: str, *fate: str, at_least: int = 1) -> str:
    """Every message that ``where`` selects from `life` has one of these fates.

    Fewer than ``at_least`` messages decide nothing (holds is null).
    """
    listed = ", ".join(f"'{name}'" for name in fate)
    said = " or ".join(name.replace("_", " ") for name in fate)
    return (
        f"SELECT CASE WHEN count(*) < {at_least} THEN NULL "
        f"ELSE count_if(fate IN ({listed})) = count(*) END AS holds, "
        f"concat(count_if(fate IN ({listed})), ' of ', count(*), ' messages {said}') AS observed "
        f"FROM life WHERE {where}"
    )


def none_of(where: str, *fate: str, at_least: int = 1) -> str:
    """No message that ``where`` selects from `life` has one of these fates."""
    listed = ", ".join(f"'{name}'" for name in fate)
    said = " or ".join(name.replace("_", " ") for name in fate)
    return (
        f"SELECT CASE WHEN count(*) < {at_least} THEN NULL "
        f"ELSE count_if(fate IN ({listed})) = 0 END AS holds, "
        f"concat(count_if(fate IN ({listed})), ' of ', count(*), ' messages {said}') AS observed "
        f"FROM life WHERE {where}"
    )


def none_lost(where: str, *, at_least: int = 1) -> str:
    """No message that ``where`` selects from `life` is gone from the final log, however it went."""
    return none_of(where, "lost", "lost_after_read", "overwritten", at_least=at_least)


def outcomes(where: str, outcome: str, *, at_least: int = 1) -> str:
    """Every message that ``where`` selects from `life` was answered with this outcome."""
    return (
        f"SELECT CASE WHEN count(*) < {at_least} THEN NULL "
        f"ELSE count_if(coalesce(outcome, 'info') = '{outcome}') = count(*) END AS holds, "
        f"concat(count_if(coalesce(outcome, 'info') = '{outcome}'), ' of ', count(*), "
        f"' messages answered {outcome}') AS observed FROM life WHERE {where}"
    )


def unacknowledged(where: str, *, at_least: int = 1) -> str:
    """No message that ``where`` selects from `life` was acknowledged, whatever became of it later.

    What a client has handed to TCP may still arrive when a link comes back, long after it gave up.
    """
    return (
        f"SELECT CASE WHEN count(*) < {at_least} THEN NULL "
        f"ELSE count_if(coalesce(outcome, 'info') != 'ok') = count(*) END AS holds, "
        f"concat(count_if(coalesce(outcome, 'info') != 'ok'), ' of ', count(*), "
        f"' messages not acknowledged') AS observed FROM life WHERE {where}"
    )


def condition(holds: str, observed: str) -> str:
    """A free condition over scalar expressions; ``observed`` is an SQL text expression."""
    return f"SELECT {holds} AS holds, {observed} AS observed"


def equals(value: str, expected: str, what: str) -> str:
    """A scalar expression has an expected value; both are SQL."""
    return condition(
        f"{value} = {expected}", f"concat('{what} ', coalesce(cast({value} AS string), 'unknown'))"
    )


def state(
    topic: str,
    *,
    leader: int | None = None,
    isr: tuple[int, ...] | None = None,
    epoch: int | None = None,
    until: str = "",
    partition: int = 0,
) -> str:
    """The metadata store's last word about a partition: its leader, its ISR, its leader epoch."""
    said = {name: truth(name, topic, until=until, partition=partition) for name in ("leader", "isr", "epoch")}
    wanted = []
    if leader is not None:
        wanted.append(f"{said['leader']} = {leader}")
    if isr is not None:
        wanted.append(f"sort_array({said['isr']}) = array({', '.join(map(str, sorted(isr)))})")
    if epoch is not None:
        wanted.append(f"{said['epoch']} = {epoch}")
    return condition(
        " AND ".join(wanted),
        f"concat('leader ', coalesce(cast({said['leader']} AS string), 'unknown'), ', ISR ', "
        f"coalesce(cast({said['isr']} AS string), 'unknown'), ', epoch ', "
        f"coalesce(cast({said['epoch']} AS string), 'unknown'))",
    )


def unchanged(
    topic: str, *, since: str, until: str, columns: str = "leader, epoch", partition: int = 0
) -> str:
    """Between two times the metadata store said nothing new about these columns of a partition."""
    start = ", ".join(
        truth(name.strip(), topic, until=since, partition=partition) for name in columns.split(",")
    )
    return (
        f"SELECT count_if(struct({columns}) != struct({start})) = 0 AS holds, "
        f"concat(count_if(struct({columns}) != struct({start})), ' changes of {columns}') AS observed "
        f"FROM truth WHERE topic = '{topic}' AND partition = {partition} AND ns > {since} AND ns <= {until}"
    )


def rise(topic: str, since: str, until: str, by: int, partition: int = 0) -> str:
    """The leader epoch rose by so much between two times."""
    later = truth("epoch", topic, until=until, partition=partition)
    earlier = truth("epoch", topic, until=since, partition=partition)
    return equals(f"({later} - {earlier})", str(by), "leader epoch rose by")


def seen_by(
    broker: int,
    topic: str,
    *,
    until: str,
    leader: int,
    isr: tuple[int, ...] | None = None,
    partition: int = 0,
) -> str:
    """What one broker's Metadata said last about a partition until a time."""
    leads = view("leader", f"broker{broker}", topic, until=until, partition=partition)
    in_sync = view("isr", f"broker{broker}", topic, until=until, partition=partition)
    wanted = f"{leads} = {leader}"
    if isr is not None:
        wanted += f" AND sort_array({in_sync}) = array({', '.join(map(str, sorted(isr)))})"
    return condition(
        wanted,
        f"concat('broker{broker} names leader ', coalesce(cast({leads} AS string), 'unknown'), ' and ISR ', "
        f"coalesce(cast({in_sync} AS string), 'unknown'))",
    )


def errors(where: str, *codes: int, at_least: int = 1) -> str:
    """Every message that ``where`` selects from `life` was answered with one of these error codes."""
    listed = ", ".join(map(str, codes))
    return (
        f"SELECT CASE WHEN count(*) < {at_least} THEN NULL "
        f"ELSE count_if(error IN ({listed})) = count(*) END AS holds, "
        f"concat(count(*), ' messages, errors ', cast(sort_array(collect_set(error)) AS string)) AS observed "
        f"FROM life WHERE {where}"
    )


def copies_in(table: str, where: str, count: int, *, at_least: int = 1, on: str = "") -> str:
    """Every message that ``where`` selects from `life` stands at so many offsets of a table of records.

    ``table`` is `copies` (the final log) or `sightings` (what a replica ever held); ``on`` limits its rows.
    """
    rows = f"(SELECT * FROM {table} WHERE {on})" if on else table
    return (
        f"SELECT CASE WHEN count(*) < {at_least} THEN NULL "
        f"ELSE count_if(found = {count}) = count(*) END AS holds, "
        f"concat(count(*), ' messages with copies ', "
        f"cast(sort_array(collect_set(found)) AS string)) AS observed "
        f"FROM (SELECT m.writer, m.seq, count(DISTINCT r.offset) AS found "
        f"FROM (SELECT * FROM life WHERE {where}) m "
        f"LEFT JOIN {rows} r ON r.writer = m.writer AND r.seq = m.seq "
        f"GROUP BY m.writer, m.seq)"
    )


def logged(host: str, kind: str, *, topic: str = "", where: str = "", what: str = "") -> str:
    """A broker's log has at least one such line; ``where`` is about columns of `log_events`."""
    conditions = [f"host = '{host}'", f"kind = '{kind}'"]
    conditions += [f"topic = '{topic}'"] if topic else []
    conditions += [f"({where})"] if where else []
    said = what or f"{kind.replace('_', ' ')} in the log of {host}"
    return (
        f"SELECT count(*) > 0 AS holds, concat(count(*), ' times: {said}') AS observed "
        f"FROM log_events WHERE {' AND '.join(conditions)}"
    )


def never_logged(host: str, kind: str, *, topic: str = "", where: str = "") -> str:
    """A broker's log has no such line."""
    found = logged(host, kind, topic=topic, where=where)
    return found.replace("count(*) > 0 AS holds", "count(*) = 0 AS holds")


def readable(where: str, count: int) -> str:
    """How many records a consumer was handed; ``where`` is about columns of `reads`.

    It must end at a mark: after the last one a final reader may read every topic once more.
    """
    return (
        f"SELECT count(*) = {count} AS holds, concat(count(*), ' records read') AS observed "
        f"FROM reads WHERE {where}"
    )


def noted(name: str, text: str) -> str:
    """The scenario wrote down a mark with this text (SQL LIKE pattern)."""
    return (
        f"SELECT count_if(text LIKE '{text}') > 0 AS holds, "
        f"coalesce(max(text), 'no such step') AS observed FROM marks WHERE name = '{name}'"
    )


def after(name: str) -> str:
    """Messages sent after a mark; a condition over `life`."""
    return f"sent_ns >= {mark(name)}"


def between(first: str, last: str) -> str:
    """Messages sent between two marks; a condition over `life`."""
    return f"sent_ns BETWEEN {mark(first)} AND {mark(last)}"


def by(writer: str, *, topic: str = "") -> str:
    """Messages of one writer, by its name; a condition over `life`."""
    return f"writer_name = '{writer}'" + (f" AND topic = '{topic}'" if topic else "")


CONTROLLER_VIEW = (
    "(SELECT max_by(controller, ns) FROM views WHERE source = '{broker}' AND subject = 'controller' "
    "AND controller IS NOT NULL AND ns <= {until})"
)

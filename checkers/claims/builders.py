"""Sentences about a run, as SQL: what the claims of a scenario are written with.

A sentence has a subject and a verb, and reads like the article's own::

    T = partition("t")
    OLD = messages(by="az1-acks1", after="cut", before="split")

    T.is_led_by(2, isr=(2, 3), epoch=1, at="failover")
    T.stays(since="seeded", until="before-heal", what="leader, epoch")
    T.becomes(leader=2, after="cut", within_s=6)
    broker(1).believes(T, leader=1, isr=(1, 2, 3), at="split")
    broker(1).truncated(T, to=2, after="cut")
    controller_stays(since="seeded", until="before-heal")
    OLD.acknowledged(at_least=3)
    OLD.acknowledged_then_lost(at_least=3)
    messages(acks=-1).none_lost(at_risk_after="cut", at_least=5)

Moments are names of marks that the scenario's body sets. Each sentence is one query that returns one row:

* ``holds``: true, false, or null where the history does not decide it, and
* ``observed``: what was seen instead, for people.

**A sentence is true only if somebody looked.** The history records changes, so that "nothing changed" and
"nobody watched" look alike in it. Each builder therefore asks for an observation that is no older than
`FRESH_S` before the moment it speaks of; without one the answer is null, which makes the claim *unknown*:

* `is_led_by`, `stays`, `controller_is`, ...: the observer still followed the cluster at that moment;
* `believes`, `names_controller`: that broker itself still answered at that moment;
* `never_logged`: that broker's log was followed to the end of the window;
* `not_seen_on`: the broker's replicas were still followed at that moment;
* verbs about messages: at least ``at_least`` such messages exist, and the final logs were read to their end;
* `none_lost`: at least ``at_least`` acknowledged messages were sent after the mark that put them at risk.

A window in which something does not happen must be longer than what would make it happen (a session of 4 s,
a lag of 6 s, a request time-out of 3 s). Show the same thing happening where it should in a claim beside it.

Sentences combine: `both(a, b, ...)` (all of them; unknown if one is) and `opposite(a)` (for errata). What no
builder says is SQL over the tables of `docs/history.md`, `life` and `findings` (`docs/findings.md`), with
`mark("cut")` for the time of a mark: `condition(holds, observed)` for scalar expressions, or a whole SELECT.
Guard it with `observed_at("cut")` or `heard_at(1, "cut")`, SQL conditions that are null or false unseen.

For `Expected.where` and SQL of your own, ``messages(...).where`` is the condition on `life`.
This module imports nothing, so that scenarios load fast.
"""

from __future__ import annotations

from dataclasses import dataclass

FRESH_S = 1.0
"""An observation may be so much older than the moment that a sentence speaks of."""
_FRESH_NS = int(FRESH_S * 1e9)
_LOST = ("lost", "lost_after_read", "overwritten")
_FINAL = "{final:*} IS NOT NULL"
_REPLICAS = "(SELECT count_if(NOT complete) AS unread FROM replicas)"
_WHOLE = f"{_FINAL} AND max(unread) = 0"
"""Condition: every replica's final log was read to its end, of rows joined with `_REPLICAS`."""


# Moments ----------------------------------------------------------------------------------------------------


def mark(name: str) -> str:
    """The time of a mark, ns; without the mark the claim is unknown."""
    return f"{{mark:{name}}}"


def optional_mark(name: str) -> str:
    """The time of a mark that a run need not set; null without it."""
    return f"{{mark?:{name}}}"


def observed_at(at: str) -> str:
    """SQL condition: the observer still followed the cluster at a mark."""
    return f"{{heard:store}} >= {mark(at)} - {_FRESH_NS}"


def heard_at(number: int, at: str) -> str:
    """SQL condition: the observer still followed one broker at a mark."""
    return f"{{heard:broker{number}}} >= {mark(at)} - {_FRESH_NS}"


# Combining --------------------------------------------------------------------------------------------------


def condition(holds: str, observed: str) -> str:
    """A condition over scalar expressions; ``observed`` is an SQL text expression. Guard it (see above)."""
    return f"SELECT {holds} AS holds, {observed} AS observed"


def both(*sentences: str) -> str:
    """All of these sentences; one that is false makes it false, else one that is unknown makes it unknown."""
    tables = " CROSS JOIN ".join(f"({sentence}) s{number}" for number, sentence in enumerate(sentences))
    numbers = range(len(sentences))
    return _answer(
        " AND ".join(f"s{number}.holds" for number in numbers),
        f"concat_ws('; ', {', '.join(f's{number}.observed' for number in numbers)})",
        tables,
    )


def opposite(sentence: str) -> str:
    """The sentence is false; unknown stays unknown."""
    return f"SELECT NOT holds AS holds, observed FROM ({sentence})"


# Partitions -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Partition:
    """A partition, as the metadata store knows it."""

    topic: str
    number: int = 0

    @property
    def where(self) -> str:
        """SQL condition on tables with `topic` and `partition`."""
        return f"topic = '{self.topic}' AND partition = {self.number}"

    def is_led_by(
        self,
        leader: int | tuple[int, ...],
        *,
        isr: tuple[int, ...] | None = None,
        epoch: int | None = None,
        at: str,
    ) -> str:
        """At a mark it has this leader (or one of these), and this ISR and leader epoch if they are given."""
        return self._state(_is_in("leader", leader), isr=isr, epoch=epoch, at=at)

    def has_no_leader(self, *, isr: tuple[int, ...] | None = None, epoch: int | None = None, at: str) -> str:
        """At a mark it has no leader."""
        return self._state("leader = -1", isr=isr, epoch=epoch, at=at)

    def has_isr(self, *members: int, at: str) -> str:
        """At a mark exactly these replicas are in sync, whoever leads."""
        return self._state("", isr=members, epoch=None, at=at)

    def has_out_of_isr(self, replica: int, *, at: str) -> str:
        """At a mark this replica is not in sync."""
        return self._state(f"NOT array_contains(isr, {replica})", isr=None, epoch=None, at=at)

    def has_epoch(self, epoch: int, *, at: str) -> str:
        """At a mark it has this leader epoch."""
        return self._state("", isr=None, epoch=epoch, at=at)

    def _state(self, leader: str, *, isr: tuple[int, ...] | None, epoch: int | None, at: str) -> str:
        wanted = [leader] if leader else []
        wanted += [f"isr = {_array(isr)}"] if isr is not None else []
        wanted += [f"epoch = {epoch}"] if epoch is not None else []
        return _answer(
            f"CASE WHEN {observed_at(at)} THEN {' AND '.join(wanted)} END",
            _STATE_TEXT,
            f"(SELECT max_by(leader, struct(epoch, ns)) AS leader, max(epoch) AS epoch, "
            f"sort_array(max_by(isr, struct(epoch, ns))) AS isr "
            f"FROM truth WHERE {self.where} AND ns <= {mark(at)})",
        )

    def stays(self, *, since: str, until: str, what: str = "leader, epoch, isr") -> str:
        """Between two marks none of these columns changes: `leader`, `epoch`, `isr`."""
        state = f"cast(struct({what}) AS string)"
        changes = "concat(', then ', array_join(sort_array(others), ', '))"
        return _answer(
            f"CASE WHEN before IS NULL THEN NULL WHEN size(others) > 0 THEN false "
            f"WHEN {observed_at(until)} THEN true END",
            f"concat('{what} ', {_text('before')}, if(size(others) > 0, {changes}, ', no change'))",
            f"(SELECT before, array_except(later, array(before)) AS others FROM ("
            f"SELECT max_by({state}, struct(epoch, ns)) FILTER (WHERE ns <= {mark(since)}) AS before, "
            f"collect_set({state}) FILTER (WHERE ns > {mark(since)}) AS later "
            f"FROM truth WHERE {self.where} AND ns <= {mark(until)}))",
        )

    def epoch_rises(self, *, by: int | None = None, since: str, until: str) -> str:
        """Between two marks the leader epoch rises, by so much if that is given."""
        wanted = "later > earlier" if by is None else f"later - earlier = {by}"
        return _answer(
            f"CASE WHEN {observed_at(until)} THEN {wanted} END",
            f"concat('leader epoch ', {_text('earlier')}, ', then ', {_text('later')})",
            f"(SELECT max(epoch) AS later, max(epoch) FILTER (WHERE ns <= {mark(since)}) AS earlier "
            f"FROM truth WHERE {self.where} AND ns <= {mark(until)})",
        )

    def becomes(
        self, *, leader: int | None = None, isr: tuple[int, ...] | None = None, after: str, within_s: float
    ) -> str:
        """Within so many seconds after a mark it gets this leader, or this ISR."""
        wanted = [f"leader = {leader}"] if leader is not None else []
        wanted += [f"sort_array(isr) = {_array(isr)}"] if isr is not None else []
        limit = f"{mark(after)} + {int(within_s * 1e9)}"
        passed = f"round((moment - {mark(after)}) / 1e9, 1)"
        return _answer(
            f"CASE WHEN moment <= {limit} THEN true "
            f"WHEN moment > {limit} OR {{heard:store}} >= {limit} THEN false END",
            f"coalesce(concat({passed}, ' s after {after}'), 'never')",
            f"(SELECT min(ns) AS moment FROM truth WHERE {self.where} AND ns > {mark(after)} "
            f"AND {' AND '.join(wanted)})",
        )

    def exists(self, *, at: str) -> str:
        """At a mark the metadata store knows it. The observer must watch the topic."""
        return _answer(
            f"CASE WHEN count(*) > 0 THEN true WHEN {observed_at(at)} THEN false END",
            f"if(count(*) > 0, '{self.topic} exists', '{self.topic} does not exist')",
            f"truth WHERE {self.where} AND ns <= {mark(at)}",
        )

    def consumers_read(self, count: int, *, until: str, since: str = "") -> str:
        """Up to a mark consumers were handed exactly so many of its records (more than none)."""
        return _answer(
            f"count(*) = {count}",
            "concat(count(*), ' records read')",
            f"reads WHERE {self.where}{_window(since, until)}",
        )

    def consumers_see_nothing_from(self, offset: int, *, until: str, since: str = "") -> str:
        """Up to a mark consumers read what is below this offset, and nothing above, though it was written."""
        return _answer(
            "CASE WHEN beyond > 0 THEN false WHEN below > 0 AND written > 0 THEN true END",
            f"concat(below, ' records read below offset {offset}, ', beyond, ' from there on; ', written, "
            f"' records from there on were in the logs')",
            f"(SELECT count_if(offset < {offset}) AS below, count_if(offset >= {offset}) AS beyond "
            f"FROM reads WHERE {self.where}{_window(since, until)}) CROSS JOIN "
            f"(SELECT count(*) AS written FROM sightings WHERE {self.where} AND offset >= {offset} "
            f"AND seen_ns <= {mark(until)})",
        )

    def replicas_agree(self, *, at_offset: int) -> str:
        """In the final logs all replicas (at least two) that hold a message at this offset hold the same."""
        return _different(self, at_offset, "= 1")

    def replicas_differ(self, *, at_offset: int) -> str:
        """In the final logs replicas hold different messages at this offset."""
        return _different(self, at_offset, "> 1")

    def logs_agree(self, *, replicas: int, at_least: int) -> str:
        """So many final logs, read to their end, hold the same messages at the same offsets, and enough."""
        log = "array_join(sort_array(collect_list(concat(offset, ':', writer, '/', seq))), ' ')"
        return _answer(
            f"CASE WHEN {_WHOLE} AND count(*) = {replicas} AND max(messages) >= {at_least} "
            f"THEN count(DISTINCT log) = 1 END",
            "concat(count(*), ' replicas with ', count(DISTINCT log), ' different logs of at most ', "
            "coalesce(max(messages), 0), ' messages')",
            f"(SELECT broker, count(*) AS messages, {log} AS log FROM copies "
            f"WHERE {self.where} AND writer IS NOT NULL GROUP BY broker) CROSS JOIN {_REPLICAS}",
        )


def isrs_are_full(*, at: str) -> str:
    """At a mark every partition that the metadata store knows has all its replicas in sync."""
    return _answer(
        f"CASE WHEN count(*) > 0 AND {observed_at(at)} THEN bool_and(missing = 0) END",
        "concat(count_if(missing > 0), ' of ', count(*), ' partitions with an incomplete ISR: ', "
        "array_join(sort_array(collect_set(CASE WHEN missing > 0 THEN place END)), ', '))",
        f"(SELECT concat(topic, '-', partition) AS place, max_by(size(array_except(replicas, isr)), "
        f"struct(epoch, ns)) AS missing FROM truth WHERE ns <= {mark(at)} GROUP BY topic, partition)",
    )


def partition(topic: str, number: int = 0) -> Partition:
    """A partition of a topic; the first one if no number is given."""
    return Partition(topic, number)


def _different(place: Partition, offset: int, wanted: str) -> str:
    return _answer(
        f"CASE WHEN {{final:{place.topic}}} IS NOT NULL AND replicas > 1 THEN messages {wanted} END",
        f"concat(messages, ' different messages at offset {offset} on ', replicas, ' replicas')",
        f"(SELECT count(DISTINCT broker) AS replicas, count(DISTINCT struct(writer, seq)) AS messages "
        f"FROM copies WHERE {place.where} AND offset = {offset} AND writer IS NOT NULL)",
    )


# Brokers ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Broker:
    """A broker: what its own Metadata says, and what it logs. Its number is that of acked, counted from 1."""

    number: int

    @property
    def host(self) -> str:
        """Its host."""
        return f"broker{self.number}"

    def believes(
        self,
        place: Partition,
        *,
        leader: int,
        isr: tuple[int, ...] | None = None,
        epoch: int | None = None,
        at: str,
    ) -> str:
        """At a mark it names this leader, and this ISR and leader epoch if they are given."""
        wanted = [f"leader = {leader}"]
        wanted += [f"isr = {_array(isr)}"] if isr is not None else []
        wanted += [f"epoch = {epoch}"] if epoch is not None else []
        spoken = f"FILTER (WHERE subject = 'partition' AND {place.where})"
        return self._says(
            f"max_by(leader, ns) {spoken} AS leader, max_by(epoch, ns) {spoken} AS epoch, "
            f"sort_array(max_by(isr, ns) {spoken}) AS isr",
            " AND ".join(wanted),
            f"concat('{self.host} names ', {_STATE_TEXT})",
            at,
        )

    def names_controller(self, *numbers: int, at: str) -> str:
        """At a mark it names one of these brokers as the controller."""
        spoken = "FILTER (WHERE subject = 'controller' AND controller IS NOT NULL)"
        return self._says(
            f"max_by(controller, ns) {spoken} AS controller",
            _is_in("controller", numbers),
            f"concat('{self.host} names broker', {_text('controller')}, ' as controller')",
            at,
        )

    def knows(self, topic: str, *, at: str) -> str:
        """At a mark it has heard of a topic."""
        return self._says(
            f"count_if(subject = 'partition' AND topic = '{topic}') AS known",
            "known > 0",
            f"if(known > 0, '{self.host} knows {topic}', '{self.host} does not know {topic}')",
            at,
        )

    def _says(self, columns: str, wanted: str, observed: str, at: str) -> str:
        silent = "coalesce(max_by(error IS NOT NULL, ns) FILTER (WHERE subject = 'reachable'), false)"
        return _answer(
            f"CASE WHEN {heard_at(self.number, at)} AND NOT silent THEN {wanted} END",
            observed,
            f"(SELECT {columns}, {silent} AS silent "
            f"FROM views WHERE source = '{self.host}' AND ns <= {mark(at)})",
        )

    def logged(
        self,
        kind: str,
        *,
        of: Partition | None = None,
        after: str = "",
        before: str = "",
        where: str = "true",
    ) -> str:
        """Its log has such an event (`log_events.kind`); ``where`` is SQL about columns of `log_events`."""
        return self._log("count(*) > 0", kind, of, after, before, where)

    def never_logged(
        self, kind: str, *, of: Partition | None = None, after: str = "", before: str, where: str = "true"
    ) -> str:
        """Up to a mark its log has no such event, and was followed up to then."""
        followed = f"{{log:{self.host}}} >= {mark(before)} - {_FRESH_NS}"
        holds = f"CASE WHEN count(*) > 0 THEN false WHEN {followed} THEN true END"
        return self._log(holds, kind, of, after, before, where)

    def truncated(self, place: Partition, *, to: int, after: str) -> str:
        """After a mark it cut its log to this offset, and no further."""
        return _answer(
            f"coalesce(min(offset) = {to}, false)",
            f"coalesce(concat('{self.host} truncated {place.topic} to offset ', min(offset)), "
            f"'{self.host} truncated nothing')",
            f"log_events WHERE {self._events('truncated', place, after, '', 'true')}",
        )

    def truncated_to_end_of(self, place: Partition, epoch: int, *, after: str) -> str:
        """After a mark it cut its log to where a leader epoch ends in the final log, and no further."""
        return _answer(
            f"CASE WHEN {{final:{place.topic}}} IS NOT NULL THEN coalesce(cut = epoch_end, false) END",
            f"concat('{self.host} truncated {place.topic} to offset ', {_text('cut')}, "
            f"'; epoch {epoch} ends at ', {_text('epoch_end')})",
            f"(SELECT min(offset) AS cut FROM log_events "
            f"WHERE {self._events('truncated', place, after, '', 'true')}) CROSS JOIN "
            f"(SELECT min(offset) AS epoch_end FROM copies WHERE {place.where} AND epoch > {epoch})",
        )

    def is_registered(self, *, at: str) -> str:
        """At a mark it is registered in ZooKeeper, so that it counts as alive."""
        return _answer(
            f"CASE WHEN {observed_at(at)} THEN array_contains(brokers, {self.number}) END",
            f"concat('registered: ', {_text('brokers')})",
            f"(SELECT max_by(brokers, ns) AS brokers FROM views "
            f"WHERE subject = 'brokers' AND source LIKE 'zookeeper%' AND ns <= {mark(at)})",
        )

    def resigned(self, *, after: str) -> str:
        """After a mark it gave up the controller's role."""
        return self.logged("resigned", after=after)

    def _log(self, holds: str, kind: str, of: Partition | None, after: str, before: str, where: str) -> str:
        return _answer(
            holds,
            f"concat(count(*), ' times \"{kind.replace('_', ' ')}\" in the log of {self.host}')",
            f"log_events WHERE {self._events(kind, of, after, before, where)}",
        )

    def _events(self, kind: str, of: Partition | None, after: str, before: str, where: str) -> str:
        conditions = [f"host = '{self.host}'", f"kind = '{kind}'"]
        conditions += [of.where] if of is not None else []
        conditions += [f"({where})"] if where != "true" else []
        return " AND ".join(conditions) + _window(after, before)


def broker(number: int) -> Broker:
    """A broker by acked's number (the articles' broker-0 is 1)."""
    return Broker(number)


def does_not_answer(host: str, *, at: str) -> str:
    """At a mark a host (a broker, a ZooKeeper node, a controller) did not answer the observer."""
    return _answer(
        "error IS NOT NULL",
        f"concat('{host}: ', coalesce(error, 'answers'))",
        f"(SELECT max_by(error, ns) AS error FROM views WHERE source = '{host}' "
        f"AND subject = 'reachable' AND ns <= {mark(at)})",
    )


# The controller ---------------------------------------------------------------------------------------------


def controller_is(*numbers: int, at: str) -> str:
    """At a mark the metadata store (in KRaft: the quorum) names one of these as controller; -1 for none.

    A KRaft controller with a host of its own has the number of its AZ.
    """
    return _answer(
        f"CASE WHEN {observed_at(at)} THEN {_is_in('controller', numbers)} END",
        f"concat('controller ', {_text('controller')}, ' in epoch ', {_text('epoch')})",
        f"({_controller(at)})",
    )


def controller_stays(*, since: str, until: str) -> str:
    """Between two marks no controller is elected: the controller's epoch stays, not only its id."""
    return _controllers(since, until, f"later.epoch = earlier.epoch AND {observed_at(until)}")


def controller_changes(*, since: str, until: str) -> str:
    """Between two marks another controller is elected, in a higher epoch."""
    return _controllers(
        since, until, "later.epoch > earlier.epoch AND later.controller != earlier.controller"
    )


def controller_epoch_rises(*, since: str, until: str, at_least: int = 1) -> str:
    """Between two marks the controller's epoch (in KRaft: the quorum's) rises, whoever is elected."""
    return _controllers(since, until, f"later.epoch >= earlier.epoch + {at_least}")


def quorum_leaders_are(count: int, *, at: str) -> str:
    """At a mark so many controllers of a KRaft quorum name themselves as its leader."""
    return _answer(
        f"CASE WHEN count(*) > 0 AND {observed_at(at)} THEN count_if(leads) = {count} END",
        "concat('controllers that name themselves as leader: ', "
        "array_join(sort_array(collect_set(CASE WHEN leads THEN source END)), ', '))",
        f"(SELECT source, max_by(controller % 10, ns) = cast(right(source, 1) AS int) AS leads FROM views "
        f"WHERE subject = 'controller' AND source LIKE 'controller%' AND ns <= {mark(at)} GROUP BY source)",
    )


def _controllers(since: str, until: str, wanted: str) -> str:
    def told(when: str) -> str:
        return f"'controller ', {_text(f'{when}.controller')}, ' in epoch ', {_text(f'{when}.epoch')}"

    return _answer(
        f"CASE WHEN later.epoch > earlier.epoch OR {observed_at(until)} THEN {wanted} END",
        f"concat({told('earlier')}, ', then ', {told('later')})",
        f"({_controller(since)}) earlier CROSS JOIN ({_controller(until)}) later",
    )


def _controller(at: str) -> str:
    return (
        f"SELECT max_by(controller % 10, struct(epoch, ns)) AS controller, max(epoch) AS epoch "
        f"FROM controllers WHERE ns <= {mark(at)}"
    )


# Messages ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Messages:
    """Messages that somebody sent, and what became of them."""

    where: str
    """SQL condition on `life`."""

    def acknowledged(self, *, at_least: int = 1) -> str:
        """Every one was acknowledged."""
        return self._all("outcome = 'ok'", "acknowledged", at_least)

    def not_acknowledged(self, *, at_least: int = 1) -> str:
        """None was acknowledged: refused, or never answered."""
        return self._all("coalesce(outcome, 'info') != 'ok'", "not acknowledged", at_least)

    def refused_with(self, *errors: int, at_least: int = 1) -> str:
        """Every one was answered with one of these error codes."""
        listed = ", ".join(map(str, errors))
        return _answer(
            f"CASE WHEN count(*) >= {at_least} THEN count_if(error IN ({listed})) = count(*) END",
            "concat(count(*), ' messages with errors ', cast(sort_array(collect_set(error)) AS string))",
            f"life WHERE {self.where}",
        )

    def failed(self, *, at_least: int = 1) -> str:
        """Every one definitely failed: the answer was an error after which nothing was written."""
        return self._all("outcome = 'fail'", "failed", at_least)

    def unanswered(self, *, at_least: int = 1) -> str:
        """No one was answered: the client gave up, or lost its connection."""
        return self._all("coalesce(outcome, 'info') = 'info' AND error < 0", "not answered", at_least)

    def kept(self, *, at_least: int = 1) -> str:
        """Every one was acknowledged, and is in the final log where that said."""
        return self.became("kept", at_least=at_least)

    def acknowledged_then_lost(self, *, at_least: int = 1) -> str:
        """Some were acknowledged, and every one of those is gone from the final log."""
        return messages_where(f"({self.where}) AND outcome = 'ok'").became(*_LOST, at_least=at_least)

    def became(self, *fates: str, at_least: int = 1) -> str:
        """Every one has one of these fates (`docs/findings.md`), by logs that were read to their end."""
        told = " or ".join(name.replace("_", " ") for name in fates)
        return self._all(f"fate IN ({_listed(fates)})", told, at_least, given=_FINAL)

    def none_lost(self, *, at_risk_after: str, at_least: int = 1) -> str:
        """No acknowledged one is gone, and enough of them were sent after the mark that put them at risk."""
        lost = f"fate IN ({_listed((*_LOST, 'diverged'))})"
        at_risk = f"count_if(sent_ns >= {mark(at_risk_after)})"
        return _answer(
            f"CASE WHEN count_if({lost}) > 0 THEN false WHEN {_FINAL} AND {at_risk} >= {at_least} "
            f"AND count_if(fate = 'undetermined') = 0 THEN true END",
            f"concat(count_if({lost}), ' of ', count(*), ' acknowledged messages lost; ', {at_risk}, "
            f"' of them sent after {at_risk_after}')",
            f"life WHERE ({self.where}) AND outcome = 'ok'",
        )

    def in_final_log(self, *, copies: int, at_least: int = 1) -> str:
        """Every one stands at exactly so many offsets of the final log."""
        return self._found(f"count(DISTINCT r.offset) = {copies}", "copies", "", _FINAL, at_least)

    def held_by(self, *brokers: int, at_least: int = 1) -> str:
        """In the final logs every one is on these brokers, and on no other; none named: on no broker."""
        wanted = _array(brokers) if brokers else "cast(array() AS array<int>)"
        return _answer(
            f"CASE WHEN {_WHOLE} AND count(*) >= {at_least} THEN count_if(held = {wanted}) = count(*) END",
            "concat(count(*), ' messages on brokers ', cast(collect_set(held) AS string))",
            f"(SELECT m.writer, m.seq, sort_array(collect_set(c.broker)) AS held "
            f"FROM (SELECT * FROM life WHERE {self.where}) m LEFT JOIN copies c ON c.writer = m.writer "
            f"AND c.seq = m.seq AND c.topic = m.topic GROUP BY m.writer, m.seq) CROSS JOIN {_REPLICAS}",
        )

    def seen_on(self, *brokers: int, copies: int = 1, until: str, at_least: int = 1) -> str:
        """Up to a mark every one was seen at exactly so many offsets of the log of each of these brokers."""
        wanted = " AND ".join(
            f"count(DISTINCT CASE WHEN r.broker = {number} THEN r.offset END) = {copies}"
            for number in brokers
        )
        return self._found(wanted, "sightings", f"seen_ns <= {mark(until)}", "true", at_least)

    def still_on(self, *brokers: int, at: str, at_least: int = 1) -> str:
        """At a mark every one is in the log of each of these brokers, which were followed after it."""
        wanted = " AND ".join(f"count_if(r.broker = {number}) > 0" for number in brokers)
        followed = " AND ".join(f"{{tailed:broker{number}}} >= {mark(at)}" for number in brokers)
        there = f"seen_ns <= {mark(at)} AND coalesce(gone_ns > {mark(at)}, true)"
        return self._found(wanted, "sightings", there, followed, at_least)

    def not_seen_on(self, number: int, *, until: str, at_least: int = 1) -> str:
        """Up to a mark none was seen on this broker, whose replicas were followed until then and after."""
        return self._found(
            "count(r.offset) = 0",
            "sightings",
            f"broker = {number} AND seen_ns <= {mark(until)}",
            f"{{tailed:broker{number}}} >= {mark(until)}",
            at_least,
        )

    def consumed(self, *, since: str = "", until: str, at_least: int = 1) -> str:
        """Between two marks every one was handed to a consumer."""
        limit = f"true{_window(since, until)}"
        return self._found("count(DISTINCT r.offset) > 0", "reads", limit, "true", at_least)

    def _all(self, wanted: str, told: str, at_least: int, *, given: str = "true") -> str:
        return _answer(
            f"CASE WHEN count(*) >= {at_least} AND {given} THEN count_if({wanted}) = count(*) END",
            f"concat(count_if({wanted}), ' of ', count(*), ' messages {told}')",
            f"life WHERE {self.where}",
        )

    def _found(self, wanted: str, table: str, limit: str, given: str, at_least: int) -> str:
        rows = f"(SELECT * FROM {table} WHERE {limit})" if limit else table
        return _answer(
            f"CASE WHEN count(*) >= {at_least} AND {given} THEN count_if(fits) = count(*) END",
            "concat(count(*), ' messages with copies ', cast(sort_array(collect_set(found)) AS string))",
            f"(SELECT m.writer, m.seq, count(DISTINCT r.offset) AS found, {wanted} AS fits "
            f"FROM (SELECT * FROM life WHERE {self.where}) m "
            f"LEFT JOIN {rows} r ON r.writer = m.writer AND r.seq = m.seq GROUP BY m.writer, m.seq)",
        )


def messages(
    by: str | tuple[str, ...] = "",
    *,
    topic: str | tuple[str, ...] = "",
    label: str | tuple[str, ...] = "",
    acks: int | None = None,
    az: str = "",
    role: str = "",
    after: str = "",
    before: str = "",
) -> Messages:
    """Messages by who sent them and when: writer's names, topics and labels (each may hold a `%`), marks."""
    conditions = [
        *_like("writer_name", by),
        *_like("topic", topic),
        *_like("label", label),
        *([f"acks = {acks}"] if acks is not None else []),
        *([f"az = '{az}'"] if az else []),
        *([f"role = '{role}'"] if role else []),
        *([f"sent_ns >= {mark(after)}"] if after else []),
        *([f"sent_ns <= {mark(before)}"] if before else []),
    ]
    return Messages(" AND ".join(conditions) or "true")


def messages_where(where: str) -> Messages:
    """Messages by an SQL condition on `life`."""
    return Messages(where)


# Notes ------------------------------------------------------------------------------------------------------


def noted(name: str, like: str = "%") -> str:
    """The scenario set this mark, with such a text (SQL LIKE). The harness's own word: for preconditions."""
    return _answer(
        f"count_if(text LIKE '{like}') > 0",
        f"coalesce(max(text), 'no mark {name}')",
        f"marks WHERE name = '{name}'",
    )


def topic_is_set(topic: str, key: str, value: str) -> str:
    """A topic's effective setting, read back from the cluster, has this value. For ``given``."""
    return _answer(
        f"count_if(value = '{value}') > 0",
        f"concat('{key}=', coalesce(max(value), 'unknown'))",
        f"configs WHERE scope = 'topic' AND name = '{topic}' AND key = '{key}'",
    )


# Parts of SQL -----------------------------------------------------------------------------------------------


def _answer(holds: str, observed: str, source: str) -> str:
    return f"SELECT {holds} AS holds, {observed} AS observed FROM {source}"


def _text(value: str) -> str:
    return f"coalesce(cast({value} AS string), 'unknown')"


_STATE_TEXT = f"concat('leader ', {_text('leader')}, ', ISR ', {_text('isr')}, ', epoch ', {_text('epoch')})"


def _array(members: tuple[int, ...]) -> str:
    return f"array({', '.join(map(str, sorted(members)))})"


def _is_in(column: str, numbers: int | tuple[int, ...]) -> str:
    listed = (numbers,) if isinstance(numbers, int) else numbers
    return f"{column} IN ({', '.join(map(str, listed))})"


def _like(column: str, names: str | tuple[str, ...]) -> list[str]:
    listed = (names,) if isinstance(names, str) else names
    plain = [name for name in listed if name and "%" not in name]
    alternatives = [f"{column} IN ({_listed(tuple(plain))})"] if len(plain) > 1 else []
    alternatives += [f"{column} = '{plain[0]}'"] if len(plain) == 1 else []
    alternatives += [f"{column} LIKE '{name}'" for name in listed if "%" in name]
    return (
        [alternatives[0] if len(alternatives) == 1 else f"({' OR '.join(alternatives)})"]
        if alternatives
        else []
    )


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _window(after: str, before: str) -> str:
    since = f" AND ns > {mark(after)}" if after else ""
    until = f" AND ns <= {mark(before)}" if before else ""
    return since + until

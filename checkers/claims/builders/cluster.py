"""Sentences about partitions, brokers and the controller, and about what the harness itself recorded."""

from __future__ import annotations

import json
from dataclasses import dataclass

from checkers.claims.builders.sql import (
    FRESH_NS,
    REPLICAS,
    STATE_PARTS,
    STATE_TEXT,
    WHOLE,
    answer,
    array_of,
    brokers_of,
    effective,
    followed,
    heard_at,
    in_time,
    is_in,
    listed,
    mark,
    observed_at,
    optional_mark,
    sentence,
    settled,
    text_of,
    times,
    window,
)
from checkers.claims.subject import ClaimSubject


@dataclass(frozen=True)
class Partition:
    """A partition as the metadata store shows it."""

    topic: str
    """The topic."""
    number: int = 0
    """Number of the partition."""

    @property
    def subject(self) -> ClaimSubject:
        """What sentences about it are about."""
        return ClaimSubject(partitions=(f"{self.topic}/{self.number}",))

    @property
    def where(self) -> str:
        """SQL condition on tables with `topic` and `partition`."""
        return f"topic = '{self.topic}' AND partition = {self.number}"

    @sentence("truth")
    def is_led_by(
        self,
        leader: int | tuple[int, ...],
        *,
        isr: tuple[int, ...] | None = None,
        epoch: int | None = None,
        at: str,
    ) -> str:
        """At a mark it has this leader (or one of these), and this ISR and leader epoch if they are given."""
        return self._state(is_in("leader", leader), isr=isr, epoch=epoch, at=at)

    @sentence("truth")
    def has_no_leader(self, *, isr: tuple[int, ...] | None = None, epoch: int | None = None, at: str) -> str:
        """At a mark it has no leader."""
        return self._state("leader = -1", isr=isr, epoch=epoch, at=at)

    @sentence("truth")
    def has_isr(self, *members: int, at: str) -> str:
        """At a mark exactly these replicas are in sync, whoever leads."""
        return self._state("", isr=members, epoch=None, at=at)

    @sentence("truth")
    def has_out_of_isr(self, replica: int, *, at: str) -> str:
        """At a mark this replica is not in sync."""
        return self._state(f"NOT array_contains(isr, {replica})", isr=None, epoch=None, at=at)

    @sentence("truth")
    def has_epoch(self, epoch: int, *, at: str) -> str:
        """At a mark it has this leader epoch."""
        return self._state("", isr=None, epoch=epoch, at=at)

    def _state(self, leader: str, *, isr: tuple[int, ...] | None, epoch: int | None, at: str) -> str:
        conditions = [leader] if leader else []
        conditions += [f"isr = {array_of(isr)}"] if isr is not None else []
        conditions += [f"epoch = {epoch}"] if epoch is not None else []
        return settled(
            "store",
            at,
            lambda time: answer(
                f"CASE WHEN {observed_at(at)} THEN {' AND '.join(conditions)} END",
                STATE_TEXT,
                f"(SELECT max_by(leader, struct(epoch, ns)) AS leader, max(epoch) AS epoch, "
                f"sort_array(max_by(isr, struct(epoch, ns))) AS isr "
                f"FROM truth WHERE {self.where} AND ns <= {time(at)})",
            ),
        )

    @sentence("truth")
    def stays(self, *, since: str, until: str, what: str = "leader, epoch, isr") -> str:
        """Between two marks none of these columns changes: `leader`, `epoch`, `isr`."""
        state = f"concat_ws(', ', {', '.join(STATE_PARTS[column] for column in what.split(', '))})"
        changes = "concat('; then ', array_join(sort_array(others), '; '))"
        return settled(
            "store",
            until,
            lambda time: answer(
                f"CASE WHEN before IS NULL THEN NULL WHEN size(others) > 0 THEN false "
                f"WHEN {observed_at(until)} THEN true END",
                f"concat({text_of('before')}, if(size(others) > 0, {changes}, '; no change'))",
                f"(SELECT before, array_except(later, array(before)) AS others FROM ("
                f"SELECT max_by({state}, struct(epoch, ns)) FILTER (WHERE ns <= {time(since)}) AS before, "
                f"collect_set({state}) FILTER (WHERE ns > {time(since)}) AS later "
                f"FROM truth WHERE {self.where} AND ns <= {time(until)}))",
            ),
        )

    @sentence("truth")
    def epoch_rises(self, *, by: int | None = None, since: str, until: str) -> str:
        """Between two marks the leader epoch rises; if ``by`` is given, by exactly that number."""
        rise = "later > earlier" if by is None else f"later - earlier = {by}"
        return settled(
            "store",
            until,
            lambda time: answer(
                f"CASE WHEN {observed_at(until)} THEN {rise} END",
                f"concat('leader epoch ', {text_of('earlier')}, ', then ', {text_of('later')})",
                f"(SELECT max(epoch) AS later, max(epoch) FILTER (WHERE ns <= {time(since)}) AS earlier "
                f"FROM truth WHERE {self.where} AND ns <= {time(until)})",
            ),
        )

    @sentence("truth", "machine")
    def becomes(
        self,
        *,
        leader: int | None = None,
        isr: tuple[int, ...] | None = None,
        after: str,
        within_s: float | None = None,
        not_within_s: float = 0.0,
    ) -> str:
        """It gets this leader or ISR within ``within_s`` after a mark, and not within ``not_within_s``."""
        conditions = [f"leader = {leader}"] if leader is not None else []
        conditions += [f"sort_array(isr) = {array_of(isr)}"] if isr is not None else []
        return in_time(
            f"SELECT min(ns) AS moment, min_by(asked_ns, ns) AS asked FROM truth "
            f"WHERE {self.where} AND ns > {mark(after)} AND {' AND '.join(conditions)}",
            after=after,
            within_s=within_s,
            not_within_s=not_within_s,
            never="never",
        )

    @sentence("truth")
    def exists(self, *, at: str) -> str:
        """At a mark the metadata store knows it. The observer must watch the topic."""
        return settled(
            "store",
            at,
            lambda time: answer(
                f"CASE WHEN count(*) > 0 THEN true WHEN {observed_at(at)} THEN false END",
                f"if(count(*) > 0, '{self.topic} exists', '{self.topic} does not exist')",
                f"truth WHERE {self.where} AND ns <= {time(at)}",
            ),
        )

    @sentence("reads")
    def consumers_read(self, count: int, *, until: str, since: str = "") -> str:
        """Up to a mark consumers received exactly ``count`` of its records (at least one).

        Unknown if they received none: then nothing shows that any consumer was there.
        """
        return answer(
            f"CASE WHEN count(*) > 0 THEN count(*) = {count} END",
            "concat(count(*), ' records read')",
            f"reads WHERE {self.where}{window(since, until)}",
        )

    @sentence("reads", "sightings")
    def consumers_see_nothing_from(self, offset: int, *, until: str, since: str = "") -> str:
        """Up to a mark consumers read records below this offset and none from it on, although some exist."""
        return answer(
            "CASE WHEN beyond > 0 THEN false WHEN below > 0 AND written > 0 THEN true END",
            f"concat(below, ' records read below offset {offset}, ', beyond, ' from there on; ', written, "
            f"' records from there on were in the logs')",
            f"(SELECT count_if(offset < {offset}) AS below, count_if(offset >= {offset}) AS beyond "
            f"FROM reads WHERE {self.where}{window(since, until)}) CROSS JOIN "
            f"(SELECT count(*) AS written FROM sightings WHERE {self.where} AND offset >= {offset} "
            f"AND seen_ns <= {mark(until)})",
        )

    @sentence("copies")
    def replicas_agree(self, *, at_offset: int) -> str:
        """In the final logs all replicas (at least two) that hold a message at this offset hold the same."""
        return _different(self, at_offset, "= 1")

    @sentence("copies")
    def replicas_differ(self, *, at_offset: int) -> str:
        """In the final logs replicas hold different messages at this offset."""
        return _different(self, at_offset, "> 1")

    @sentence("replicas", "copies")
    def epoch_cache_is(self, *entries: tuple[int, int], replicas: int) -> str:
        """At the end ``replicas`` epoch caches have exactly these entries (epoch, start offset).

        In each of their logs, the first record of every epoch is at that offset.
        """
        cache = " ".join(f"{epoch}:{offset}" for epoch, offset in entries)
        pairs = "transform(epochs, e -> concat(e.epoch, ':', e.start_offset))"
        return answer(
            f"CASE WHEN {{final:{self.topic}}} IS NOT NULL AND count(*) = {replicas} "
            f"THEN bool_and(cached = '{cache}' AND coalesce(logged, '') = '{cache}') END",
            f"concat('epochs and their first offsets in the caches: ', {listed('cached')}, "
            f"'; in the logs: ', {listed('logged')})",
            f"(SELECT broker, array_join({pairs}, ' ') AS cached FROM replicas "
            f"WHERE {self.where} AND complete) "
            f"LEFT JOIN (SELECT broker, "
            f"array_join(transform(sort_array(collect_list(struct(epoch, starts))), "
            f"s -> concat(s.epoch, ':', s.starts)), ' ') AS logged "
            f"FROM (SELECT broker, epoch, min(offset) AS starts FROM copies WHERE {self.where} "
            f"AND epoch IS NOT NULL GROUP BY broker, epoch) GROUP BY broker) USING (broker)",
        )

    @sentence("copies", "replicas")
    def logs_agree(self, *, replicas: int, at_least: int) -> str:
        """``replicas`` final logs, read to their ends, hold the same messages, at least ``at_least``."""
        log = "array_join(sort_array(collect_list(concat(offset, ':', writer, '/', seq))), ' ')"
        return answer(
            f"CASE WHEN {WHOLE} AND count(*) = {replicas} AND max(messages) >= {at_least} "
            f"THEN count(DISTINCT log) = 1 END",
            "concat(count(*), ' replicas; ', if(count(DISTINCT log) = 1, 'all logs alike', "
            "concat('different logs: ', count(DISTINCT log))), "
            "'; messages in the longest: ', coalesce(max(messages), 0))",
            f"(SELECT broker, count(*) AS messages, {log} AS log FROM copies "
            f"WHERE {self.where} AND writer IS NOT NULL GROUP BY broker) CROSS JOIN {REPLICAS}",
        )


@sentence("truth")
def isrs_are_full(*, at: str, if_set: bool = False) -> str:
    """At a mark every partition that the metadata store knows has all its replicas in sync.

    With ``if_set`` the sentence is false, not unknown, in a run that does not set the mark.
    """
    moment = optional_mark(at) if if_set else mark(at)
    observed = f"{{heard:store}} >= {moment} - {FRESH_NS}"
    full = settled(
        "store",
        at,
        lambda time: answer(
            f"CASE WHEN count(*) > 0 AND {observed} THEN bool_and(missing = 0) END",
            "concat(count_if(missing > 0), ' of ', count(*), ' partitions with an incomplete ISR: ', "
            "array_join(sort_array(collect_set(CASE WHEN missing > 0 THEN place END)), ', '))",
            f"(SELECT concat(topic, '-', partition) AS place, max_by(size(array_except(replicas, isr)), "
            f"struct(epoch, ns)) AS missing FROM truth WHERE ns <= {time(at)} GROUP BY topic, partition)",
        ),
        clock=optional_mark if if_set else mark,
    )
    if not if_set:
        return full
    return answer(f"CASE WHEN {moment} IS NULL THEN false ELSE holds END", "observed", f"({full})")


def partition(topic: str, number: int = 0) -> Partition:
    """A partition of a topic; the first one if no number is given."""
    return Partition(topic, number)


def _different(place: Partition, offset: int, comparison: str) -> str:
    return answer(
        f"CASE WHEN {{final:{place.topic}}} IS NOT NULL AND replicas > 1 THEN messages {comparison} END",
        f"concat(messages, ' different messages at offset {offset} on ', replicas, ' replicas')",
        f"(SELECT count(DISTINCT broker) AS replicas, count(DISTINCT struct(writer, seq)) AS messages "
        f"FROM copies WHERE {place.where} AND offset = {offset} AND writer IS NOT NULL)",
    )


# Brokers ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Broker:
    """A broker: what its own Metadata says, and what it logs. acked counts brokers from 1."""

    number: int
    """Node id."""

    @property
    def host(self) -> str:
        """Its host."""
        return f"broker{self.number}"

    @property
    def subject(self) -> ClaimSubject:
        """What sentences about it are about."""
        return ClaimSubject(hosts=(self.host,))

    @sentence("views")
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
        conditions = [f"leader = {leader}"]
        conditions += [f"isr = {array_of(isr)}"] if isr is not None else []
        conditions += [f"epoch = {epoch}"] if epoch is not None else []
        spoken = f"FILTER (WHERE subject = 'partition' AND {place.where})"
        return self._says(
            f"max_by(leader, ns) {spoken} AS leader, max_by(epoch, ns) {spoken} AS epoch, "
            f"sort_array(max_by(isr, ns) {spoken}) AS isr",
            " AND ".join(conditions),
            f"concat('{self.host} names ', {STATE_TEXT})",
            at,
        )

    @sentence("views")
    def names_controller(self, *numbers: int, at: str) -> str:
        """At a mark it names one of these brokers as the controller."""
        spoken = "FILTER (WHERE subject = 'controller' AND controller IS NOT NULL)"
        return self._says(
            f"max_by(controller, ns) {spoken} AS controller",
            is_in("controller", numbers),
            f"concat('{self.host} names broker', {text_of('controller')}, ' as controller')",
            at,
        )

    @sentence("views")
    def knows(self, topic: str, *, at: str) -> str:
        """At a mark it has heard of a topic."""
        return self._says(
            f"count_if(subject = 'partition' AND topic = '{topic}') AS known",
            "known > 0",
            f"if(known > 0, '{self.host} knows {topic}', '{self.host} does not know {topic}')",
            at,
        )

    def _says(self, columns: str, condition: str, observed: str, at: str) -> str:
        silent = "coalesce(max_by(error IS NOT NULL, ns) FILTER (WHERE subject = 'reachable'), false)"
        return settled(
            self.host,
            at,
            lambda time: answer(
                f"CASE WHEN {heard_at(self.number, at)} AND NOT silent THEN {condition} END",
                observed,
                f"(SELECT {columns}, {silent} AS silent "
                f"FROM views WHERE source = '{self.host}' AND ns <= {time(at)})",
            ),
        )

    @sentence("log_events")
    def logged(
        self,
        kind: str,
        *,
        of: Partition | None = None,
        after: str = "",
        before: str = "",
        where: str = "true",
        at_least: int = 1,
    ) -> str:
        """Its log has ``at_least`` such events (`log_events.kind`); ``where`` is SQL about their columns."""
        absent = followed(self.host, after, before)
        holds = f"CASE WHEN count(*) >= {at_least} THEN true WHEN {absent} THEN false END"
        return self._log(holds, kind, of, after, before, where)

    @sentence("log_events")
    def never_logged(
        self, kind: str, *, of: Partition | None = None, after: str = "", before: str, where: str = "true"
    ) -> str:
        """Up to a mark its log has no such event, and was followed up to then."""
        holds = f"CASE WHEN count(*) > 0 THEN false WHEN {followed(self.host, before=before)} THEN true END"
        return self._log(holds, kind, of, after, before, where)

    @sentence("log_events")
    def truncated(self, place: Partition, *, to: int, after: str) -> str:
        """After a mark it truncated its log to this offset, and not below it."""
        return answer(
            f"CASE WHEN count(*) > 0 THEN min(offset) = {to} "
            f"WHEN {followed(self.host, after)} THEN false END",
            f"if(min(offset) IS NULL, '{self.host} did not truncate {place.topic}', "
            f"concat('{self.host} truncated {place.topic} to offset ', min(offset)))",
            f"log_events WHERE {self._events('truncated', place, after, '', 'true')}",
        )

    @sentence("log_events", "copies")
    def truncated_to_end_of(self, place: Partition, epoch: int, *, after: str) -> str:
        """After a mark it truncated its log to where a leader epoch ends in the final log, not below it."""
        return answer(
            f"CASE WHEN {{final:{place.topic}}} IS NULL THEN NULL WHEN cut IS NOT NULL "
            f"THEN coalesce(cut = epoch_end, false) WHEN {followed(self.host, after)} THEN false END",
            f"concat('{self.host} truncated {place.topic} to offset ', {text_of('cut')}, "
            f"'; epoch {epoch} ends at ', {text_of('epoch_end')})",
            f"(SELECT min(offset) AS cut FROM log_events "
            f"WHERE {self._events('truncated', place, after, '', 'true')}) CROSS JOIN "
            f"(SELECT min(offset) AS epoch_end FROM copies WHERE {place.where} AND epoch > {epoch})",
        )

    @sentence("log_events")
    def starts(
        self, role: str, place: Partition, *, epoch: int, log_end_offset: int, high_watermark: int, after: str
    ) -> str:
        """After a mark it takes a role (`leader`, `follower`) of an epoch, with this log and high watermark.

        Kafka 2.6 and later log this. The state is that before the replica truncates anything.
        """
        logged = "regexp_extract(text, 'high watermark ([0-9]+)', 1)"
        condition = f"epoch = {epoch} AND offset = {log_end_offset} AND {logged} = '{high_watermark}'"
        seen = f"concat('epoch ', {text_of('epoch')}, ': LEO ', {text_of('offset')}, ', HW ', {logged})"
        return answer(
            f"CASE WHEN count_if({condition}) > 0 THEN true WHEN {followed(self.host, after)} THEN false END",
            f"concat('{self.host} starts as {role} of {place.topic}: ', "
            f"coalesce(array_join(sort_array(collect_set({seen})), '; '), 'never'))",
            f"log_events WHERE {self._events(f'became_{role}', place, after, '', 'true')}",
        )

    @sentence("views")
    def is_registered(self, *, at: str) -> str:
        """At a mark it is registered in ZooKeeper, so that it counts as alive."""
        return settled(
            "zookeeper",
            at,
            lambda time: answer(
                f"CASE WHEN {observed_at(at)} THEN array_contains(brokers, {self.number}) END",
                f"concat('registered: ', {brokers_of('brokers')})",
                f"(SELECT max_by(brokers, ns) AS brokers FROM views "
                f"WHERE subject = 'brokers' AND source LIKE 'zookeeper%' AND ns <= {time(at)})",
            ),
        )

    @sentence("log_events")
    def resigned(self, *, after: str) -> str:
        """After a mark it gave up the controller's role."""
        return self.logged("resigned", after=after)

    @sentence("configs")
    def speaks_before(self, protocol: str) -> str:
        """Its inter.broker.protocol.version, read back, is older than this one (`2.7`). False if unknown.

        For what only such brokers do: in a claim's `given`, or in its other outcome.
        """
        major, minor = map(int, protocol.split("."))

        def number(group: int) -> str:
            return f"cast(regexp_extract(value, '^([0-9]+)[.]([0-9]+)', {group}) AS int)"

        return answer(
            f"coalesce(max({number(1)} * 1000 + {number(2)}) < {major * 1000 + minor}, false)",
            f"concat('protocol of {self.host}: ', {text_of('max(value)')})",
            f"configs WHERE scope = 'broker' AND name = '{self.host}' "
            "AND key = 'inter.broker.protocol.version' AND value RLIKE '^[0-9]+[.][0-9]'",
        )

    def _log(self, holds: str, kind: str, of: Partition | None, after: str, before: str, where: str) -> str:
        return answer(
            holds,
            f"concat('\"{kind.replace('_', ' ')}\" ', {times()}, ' in the log of {self.host}')",
            f"log_events WHERE {self._events(kind, of, after, before, where)}",
        )

    def _events(self, kind: str, of: Partition | None, after: str, before: str, where: str) -> str:
        conditions = [f"host = '{self.host}'", f"kind = '{kind}'"]
        conditions += [of.where] if of is not None else []
        conditions += [f"({where})"] if where != "true" else []
        return " AND ".join(conditions) + window(after, before)


def broker(number: int) -> Broker:
    """A broker by acked's number: the articles' broker-0 is broker 1."""
    return Broker(number)


@sentence("views")
def does_not_answer(host: str, *, at: str) -> str:
    """At a mark a host (a broker, a ZooKeeper node, a controller) did not answer the observer."""
    return settled(
        host,
        at,
        lambda time: answer(
            f"CASE WHEN error IS NOT NULL THEN true "
            f"WHEN {{heard:{host}}} >= {mark(at)} - {FRESH_NS} THEN false END",
            f"concat('{host}: ', coalesce(error, 'no error'))",
            f"(SELECT max_by(error, ns) AS error FROM views WHERE source = '{host}' "
            f"AND subject = 'reachable' AND ns <= {time(at)})",
        ),
    )


@sentence("views")
def answers_until_silent(host: str, *, after: str, at_least_s: float) -> str:
    """A host still answered ``at_least_s`` after the fault before a mark took effect, and then fell silent.

    The observer records when a source that falls silent answered last. Unknown if it does not fall silent.
    """
    views = f"views WHERE source = '{host}' AND subject = 'reachable'"
    silent = f"SELECT min(ns) FROM {views} AND error IS NOT NULL AND ns > {effective(after)}"
    answered = f"SELECT max(ns) AS ns FROM {views} AND error IS NULL AND ns <= ({silent})"
    return answer(
        f"CASE WHEN ({silent}) IS NOT NULL "
        f"THEN coalesce(ns >= {effective(after)} + {int(at_least_s * 1e9)}, false) END",
        f"coalesce(concat('{host}: last answer ', round((ns - {effective(after)}) / 1e9, 1), "
        f"' s after the fault'), '{host}: no answer before it fell silent')",
        f"({answered})",
    )


# The controller ---------------------------------------------------------------------------------------------


@sentence("controllers")
def controller_is(*numbers: int, at: str) -> str:
    """At a mark the metadata store (in KRaft: the quorum) names one of these as controller; -1 for none.

    A KRaft controller with a host of its own has the number of its AZ.
    """
    return settled(
        "store",
        at,
        lambda time: answer(
            f"CASE WHEN {observed_at(at)} THEN {is_in('controller', numbers)} END",
            f"concat('controller ', {text_of('controller')}, ' in epoch ', {text_of('epoch')})",
            f"({_controller(time(at))})",
        ),
    )


@sentence("controllers")
def controller_stays(*, since: str, until: str) -> str:
    """Between two marks no controller is elected: the controller's epoch stays, not only its id."""
    return _controllers(since, until, f"later.epoch = earlier.epoch AND {observed_at(until)}")


@sentence("controllers")
def controller_changes(*, since: str, until: str) -> str:
    """Between two marks another controller is elected, in a higher epoch."""
    return _controllers(
        since, until, "later.epoch > earlier.epoch AND later.controller != earlier.controller"
    )


@sentence("controllers")
def controller_epoch_rises(*, since: str, until: str, at_least: int = 1) -> str:
    """Between two marks the controller's epoch (in KRaft: the quorum's) rises, whoever is elected."""
    return _controllers(since, until, f"later.epoch >= earlier.epoch + {at_least}")


@sentence("views")
def quorum_leaders_are(count: int, *, at: str) -> str:
    """At a mark ``count`` controllers of a KRaft quorum name themselves as its leader."""
    return settled(
        "controller",
        at,
        lambda time: answer(
            f"CASE WHEN count(*) > 0 AND {observed_at(at)} THEN count_if(leads) = {count} END",
            "concat('controllers that name themselves as leader: ', "
            "array_join(sort_array(collect_set(CASE WHEN leads THEN source END)), ', '))",
            f"(SELECT source, max_by(controller, ns) "
            f"IN (cast(substr(source, 11) AS int) + 10, cast(substr(source, 11) AS int) + 100) AS leads "
            f"FROM views WHERE subject = 'controller' AND source LIKE 'controller%' AND ns <= {time(at)} "
            f"GROUP BY source)",
        ),
    )


def _controllers(since: str, until: str, condition: str) -> str:
    def named(when: str) -> str:
        return f"'controller ', {text_of(f'{when}.controller')}, ' in epoch ', {text_of(f'{when}.epoch')}"

    return settled(
        "store",
        until,
        lambda time: answer(
            f"CASE WHEN later.epoch > earlier.epoch OR {observed_at(until)} THEN {condition} END",
            f"if(later.controller = earlier.controller AND later.epoch = earlier.epoch, "
            f"concat({named('earlier')}, ' both times'), "
            f"concat({named('earlier')}, ', then ', {named('later')}))",
            f"({_controller(time(since))}) earlier CROSS JOIN ({_controller(time(until))}) later",
        ),
    )


def _controller(moment: str) -> str:
    return (
        f"SELECT max_by(controller, struct(epoch, ns)) AS controller, max(epoch) AS epoch "
        f"FROM controllers WHERE ns <= {moment}"
    )


# What the harness itself recorded ---------------------------------------------------------------------------


@sentence("marks")
def noted(name: str, **facts: str | int | list[int]) -> str:
    """The scenario set this mark, with these facts (`Stage.mark`)."""
    stated = [
        f"get_json_object(facts, '$.{fact}') = "
        f"'{value if isinstance(value, str) else json.dumps(value, separators=(',', ':'))}'"
        for fact, value in facts.items()
    ]
    return answer(
        f"count_if({' AND '.join(stated) or 'true'}) > 0",
        f"coalesce(max(text), 'no mark {name}')",
        f"marks WHERE name = '{name}'",
    )


@sentence("configs")
def topic_is_set(topic: str, key: str, value: str) -> str:
    """A topic's effective setting, read back from the cluster, has this value. For ``given``."""
    return answer(
        f"count_if(value = '{value}') > 0",
        f"concat('{key}=', coalesce(max(value), 'unknown'))",
        f"configs WHERE scope = 'topic' AND name = '{topic}' AND key = '{key}'",
    )

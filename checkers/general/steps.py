"""The general plan: the same fates and findings as the fast path, by relational operations alone.

It assumes nothing about how the files are laid out, and shuffles instead. It is also the oracle of the fast
path: both must find the same on every history (`tests/property`). The steps are SQL that other engines
understand too; columns have one-letter names where SQL reserves the long ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from checkers.general import life as whole
from checkers.spark.views import table_frame
from checkers.tables.source import Source

BASE: Mapping[str, tuple[str, str]] = {
    "s": (
        "sends",
        "topic as t, partition as p, writer as w, seq as q, coalesce(outcome, 'info') as outcome, "
        "case when {offset} >= 0 then {offset} end as o, coalesce(txn, -1) as txn",
    ),
    "c": (
        "copies",
        "topic as t, partition as p, broker as b, {offset} as o, coalesce(epoch, -1) as e, "
        "coalesce(writer, -1) as w, coalesce(seq, -1) as q, coalesce(control, false) as control, "
        "coalesce(intact, true) as intact, "
        "coalesce(home = concat(topic, '/', partition), true) as at_home",
    ),
    "n": (
        "replicas",
        "topic as t, partition as p, broker as b, complete, coalesce(leo, -1) as leo, "
        "coalesce(log_start, -1) as log_start, coalesce(leader, false) as leader, "
        "coalesce(in_sync, true) as in_sync, coalesce(cleanup like '%compact%', false) as compacted",
    ),
    "r": (
        "reads",
        "topic as t, partition as p, reader as rd, ns, {offset} as o, coalesce(writer, -1) as w, "
        "coalesce(seq, -1) as q, {group} as g, coalesce(isolation = 'read_committed', false) as committed, "
        "case when {group} is null then concat('r', reader) else concat('g', {group}) end as stream",
    ),
    "ge": ("groups", "ns, {group} as g, reader as rd, event, topic as t, partition as p, {offset} as o"),
    "tx": ("transactions", "writer as w, txn, event"),
}
"""Working tables: name, table of the history, and columns ({offset} and {group} stand quoted)."""

STEPS: Mapping[str, str] = {
    "tp": "select t, p from s union select t, p from c union select t, p from r",
    "k": """
        select c.*, (c.intact and c.at_home and not c.control) as good, s.q is not null as known
        from c left join s on s.t = c.t and s.p = c.p and s.w = c.w and s.q = c.q
                           and c.intact and c.at_home and not c.control""",
    "ends": """
        select t, p, b, e, o from (
            select t, p, b, e, o, row_number() over (partition by t, p, b order by o desc) as rn from c) z
        where rn = 1""",
    "about": """
        select tp.t, tp.p, count(n.b) as listed,
               coalesce(sum(case when n.leader then 1 else 0 end), 0) as leaders,
               coalesce(sum(case when n.complete then 1 else 0 end), 0) as whole,
               max(case when n.leader and n.complete then n.b end) as leader,
               coalesce(sum(case when n.complete and n.in_sync then 1 else 0 end), 0) as best,
               coalesce(bool_or(n.compacted), false) as compacted,
               (select count(*) from n) > 0 as any_listed
        from tp left join n on n.t = tp.t and n.p = tp.p group by tp.t, tp.p""",
    "candidates": """
        select a.t, a.p, n.b, coalesce(ends.e, -1) as e, coalesce(ends.o, n.leo - 1) as o
        from about a join n on n.t = a.t and n.p = a.p and n.complete and (n.in_sync or a.best = 0)
        left join ends on ends.t = n.t and ends.p = n.p and ends.b = n.b
        union all
        select a.t, a.p, ends.b, ends.e, ends.o from about a
        join ends on ends.t = a.t and ends.p = a.p where a.whole = 0""",
    "ref": """
        select a.t, a.p, a.compacted,
               case when a.leaders = 1 and a.leader is not null then a.leader else z.b end as rb,
               case when a.any_listed and a.listed = 0 then false
                    when a.leaders = 1 and a.leader is not null then true
                    else a.leaders = 0 and a.whole = a.listed and (a.whole > 0 or not a.any_listed)
               end as conclusive
        from about a left join (
            select t, p, b, row_number() over (partition by t, p order by e desc, o desc, b) as rn
            from candidates) z on z.t = a.t and z.p = a.p and z.rn = 1""",
    "l": "select k.* from k join ref on ref.t = k.t and ref.p = k.p and ref.rb = k.b",
    "held": """
        select k.t, k.p, k.w, k.q, count(distinct k.b) as holders,
               bool_or(coalesce(n.in_sync, true)) as in_sync
        from k left join n on n.t = k.t and n.p = k.p and n.b = k.b
        where k.known group by k.t, k.p, k.w, k.q""",
    "own": """
        select l.t, l.p, l.w, l.q, count(*) as copies, min(l.o) as first_o,
               max(case when l.o = s.o then l.o end) as exact_o
        from l join s on s.t = l.t and s.p = l.p and s.w = l.w and s.q = l.q
        where l.known group by l.t, l.p, l.w, l.q""",
    "readers": "select t, p, w, q, count(*) as reads from r group by t, p, w, q",
    "damaged": "select distinct t, p, o from c where not intact",
    "last_o": "select t, p, max(o) as end_o, min(o) as begin_o from l group by t, p",
    "m": """
        select s.*, ref.rb, ref.conclusive, coalesce(own.copies, 0) as copies,
               coalesce(own.exact_o, own.first_o) as found, coalesce(held.holders, 0) as holders,
               coalesce(held.in_sync, false) as in_sync, coalesce(readers.reads, 0) as reads,
               d.o is not null as at_damage, l.o is not null as at_record,
               coalesce(l.good and not l.known, false) as at_foreign,
               (s.o < coalesce(n.log_start, -1)
                or (ref.compacted and s.o < case when coalesce(n.leo, -1) >= 0 then n.leo
                                                 else coalesce(last_o.end_o, -1) + 1 end)) as explained
        from s join ref on ref.t = s.t and ref.p = s.p
        left join own on own.t = s.t and own.p = s.p and own.w = s.w and own.q = s.q
        left join held on held.t = s.t and held.p = s.p and held.w = s.w and held.q = s.q
        left join readers on readers.t = s.t and readers.p = s.p and readers.w = s.w and readers.q = s.q
        left join damaged d on d.t = s.t and d.p = s.p and d.o = s.o
        left join l on l.t = s.t and l.p = s.p and l.o = s.o
        left join n on n.t = s.t and n.p = s.p and n.b = ref.rb
        left join last_o on last_o.t = s.t and last_o.p = s.p""",
    "fated": """
        select m.*, case
            when outcome = 'fail' and holders > 0 then 'phantom'
            when outcome = 'fail' then case when conclusive then 'failed' else 'undetermined' end
            when copies > 1 then 'duplicated'
            when outcome = 'info' and copies = 1 then 'unknown_kept'
            when outcome = 'info' and holders > 0 then 'unknown_dropped'
            when outcome = 'info' then case when conclusive then 'unknown_dropped' else 'undetermined' end
            when holders > 0 and copies = 0 then case when conclusive then 'diverged' else 'kept' end
            when holders > 0 and o is not null and found <> o then 'moved'
            when holders > 0 then 'kept'
            when o is not null and explained and not at_record then 'retired'
            when o is not null and at_damage then 'corrupt'
            when o is not null and at_foreign then 'overwritten'
            when not conclusive then 'undetermined'
            when reads > 0 then 'lost_after_read'
            else 'lost' end as fate
        from m""",
    "stray": """
        select t, p, o, w, q, class from (
            select k.t, k.p, k.o, k.w, k.q,
                   case when not k.intact then 'corrupt' when not k.at_home then 'misrouted'
                        else 'foreign' end as class,
                   row_number() over (partition by k.t, k.p, k.o
                                      order by case when k.b = ref.rb then 0 else 1 end, k.b) as rn
            from k join ref on ref.t = k.t and ref.p = k.p
            where not k.control and (not k.intact or not k.at_home or not k.known)) z where rn = 1""",
    "homes": """
        select distinct s.w, s.q, s.t, s.p from s
        join stray on stray.w = s.w and stray.q = s.q and stray.class <> 'corrupt'""",
    "life_core": """
        select f.t, f.p, f.w, f.q, f.outcome, f.o, f.copies, f.found, f.holders, f.in_sync, f.conclusive,
               case when f.fate in ('lost', 'lost_after_read') and h.q is not null then 'misrouted'
                    else f.fate end as fate, f.txn
        from fated f left join (select distinct w, q from homes) h on h.w = f.w and h.q = f.q""",
    "found_messages": """
        select fate as class, t, p, coalesce(o, found) as o, w, q from life_core
        where fate not in ('kept', 'failed', 'unknown_kept', 'unknown_dropped', 'retired', 'undetermined',
                           'misrouted')
          and not (fate = 'diverged' and in_sync)
        union all
        select 'undetermined', t, p, null, null, null from ref where not conclusive
        union all
        select 'out_of_order', t, p, coalesce(o, found), w, q from (
            select t, p, o, w, q, found, min(found) over (
                partition by t, p, w order by q rows between 1 following and unbounded following) as later
            from life_core where outcome = 'ok' and fate = 'kept' and copies = 1) z where later < found""",
    "found_strays": """
        select case when x.class = 'corrupt' then 'corrupt' when h.q is not null then 'misrouted'
                    else 'foreign' end as class, x.t, x.p, x.o,
               case when x.w >= 0 then x.w end as w, case when x.q >= 0 then x.q end as q
        from stray x
        left join (select distinct a.t, a.p, a.o, a.q from stray a
                   join homes on homes.w = a.w and homes.q = a.q and (homes.t <> a.t or homes.p <> a.p)) h
          on h.t = x.t and h.p = x.p and h.o = x.o
        left join (select distinct t, p, o from fated where fate in ('corrupt', 'overwritten')) told
          on told.t = x.t and told.p = x.p and told.o = x.o
        where told.o is null""",
    "followers": """
        select z.t, z.p, z.b, z.begin_o, z.end_o, n.b is not null as listed,
               coalesce(n.complete, true) as complete, coalesce(n.log_start, -1) as log_start
        from (select t, p, b, min(o) as begin_o, max(o) as end_o from c group by t, p, b) z
        join ref on ref.t = z.t and ref.p = z.p and ref.rb <> z.b
        left join n on n.t = z.t and n.p = z.p and n.b = z.b
        where coalesce(n.in_sync, true)""",
    "unmatched": """
        select f.t, f.p, f.b, l.o, l.w, l.q,
               case when l.o < f.begin_o then 'head' when l.o > f.end_o then 'tail'
                    else 'middle' end as place,
               f.listed, f.complete, f.log_start
        from followers f join l on l.t = f.t and l.p = f.p
        left join c on c.t = f.t and c.p = f.p and c.b = f.b and c.o = l.o where c.o is null""",
    "ends_elsewhere": """
        select u.t, u.p, u.b, u.place, min(u.o) as o from unmatched u
        join ref on ref.t = u.t and ref.p = u.p
        where (u.place = 'tail' and u.complete)
           or (u.place = 'head' and not ref.compacted and (not u.listed or u.o >= u.log_start))
        group by u.t, u.p, u.b, u.place""",
    "differ": """
        select f.t, f.p, f.b, a.o, a.w, a.q from followers f
        join c a on a.t = f.t and a.p = f.p and a.b = f.b join l on l.t = a.t and l.p = a.p and l.o = a.o
        where a.w <> l.w or a.q <> l.q or a.control <> l.control
           or (a.e <> l.e and a.e >= 0 and l.e >= 0)
        union all
        select u.t, u.p, u.b, u.o, u.w, u.q from unmatched u join ref on ref.t = u.t and ref.p = u.p
        where u.place = 'middle' and not ref.compacted
        union all
        select u.t, u.p, u.b, u.o, u.w, u.q from unmatched u
        join ends_elsewhere z on z.t = u.t and z.p = u.p and z.b = u.b and z.o = u.o
        union all
        select f.t, f.p, f.b, a.o, a.w, a.q from followers f
        join ref on ref.t = f.t and ref.p = f.p
        join last_o on last_o.t = f.t and last_o.p = f.p
        join c a on a.t = f.t and a.p = f.p and a.b = f.b
        left join l on l.t = a.t and l.p = a.p and l.o = a.o
        left join n on n.t = f.t and n.p = f.p and n.b = ref.rb
        where l.o is null and (not ref.compacted or a.o > last_o.end_o)
          and a.o >= coalesce(n.log_start, -1)
        union all
        select n.t, n.p, n.b + 1000000, l.o, l.w, l.q from n
        join ref on ref.t = n.t and ref.p = n.p and ref.rb <> n.b
        join last_o on last_o.t = n.t and last_o.p = n.p
        join l on l.t = n.t and l.p = n.p and l.o = last_o.begin_o
        left join ends on ends.t = n.t and ends.p = n.p and ends.b = n.b
        where ends.b is null and n.complete and n.in_sync and n.log_start <= last_o.begin_o""",
    "found_differences": """
        select 'diverged' as class, d.t, d.p, d.o, case when d.w >= 0 then d.w end as w,
               case when d.q >= 0 then d.q end as q
        from (select differ.*, row_number() over (partition by t, p, o order by b) as rn from differ) d
        left join stray on stray.t = d.t and stray.p = d.p and stray.o = d.o
        where d.rn = 1 and stray.o is null""",
    "read_of": """
        select r.*, lc.fate, lc.q is not null as known, lc.found, lc.o as acked_o,
               coalesce(l.known, false) as there,
               coalesce(l.known and l.w = r.w and l.q = r.q, false) as same,
               (coalesce(lc.fate in ('unknown_dropped', 'failed'), false)
                or (r.committed and coalesce(ab.w is not null, false))) as gone
        from r
        left join life_core lc on lc.t = r.t and lc.p = r.p and lc.w = r.w and lc.q = r.q
        left join l on l.t = r.t and l.p = r.p and l.o = r.o
        left join (select distinct w, txn from tx where event = 'aborted') ab
          on ab.w = lc.w and ab.txn = lc.txn""",
    "found_reads": """
        select 'aborted_read' as class, t, p, o, w, q from (
            select z.*, row_number() over (partition by t, p, w, q order by ns) as rn
            from read_of z where gone and known) y where rn = 1
        union all
        select distinct 'offset_conflict', t, p, o, case when w >= 0 then w end,
               case when q >= 0 then q end
        from read_of where not gone and (
            (known and fate in ('kept', 'unknown_kept', 'duplicated', 'moved', 'phantom') and not same
             and found is not null and not coalesce(o = found, false) and not coalesce(o = acked_o, false))
            or (not known and there))""",
    "steps": """
        select * from (
            select r.*,
                   lag(o) over (partition by t, p, stream order by ns) as po,
                   lag(w) over (partition by t, p, stream order by ns) as pw,
                   lag(q) over (partition by t, p, stream order by ns) as pq,
                   lag(ns) over (partition by t, p, stream order by ns) as pns
            from r) z where po is not null and o <> po + 1""",
    "asked": """
        select distinct z.t, z.p, z.stream, z.ns from steps z join ge
          on ge.event = 'sought' and ge.rd = z.rd and ge.ns between z.pns and z.ns
         and ((ge.t = z.t and ge.p = z.p) or (ge.t is null and ge.p is null))""",
    "commits": "select ns, g, t, p, o from ge where event = 'committed' and o is not null",
    "backward": """
        select z.t, z.p, z.stream, z.ns, z.g, z.o, z.w, z.q from steps z
        join l on l.t = z.t and l.p = z.p and l.o = z.po and l.w = z.pw and l.q = z.pq
        left join asked on asked.t = z.t and asked.p = z.p and asked.stream = z.stream and asked.ns = z.ns
        where z.o <= z.po and asked.ns is null""",
    "innocent": """
        select b.t, b.p, b.stream, b.ns from backward b
        join (select distinct t, p, g from commits) any_c on any_c.t = b.t and any_c.p = b.p and any_c.g = b.g
        left join commits c on c.t = b.t and c.p = b.p and c.g = b.g and c.ns <= b.ns
        group by b.t, b.p, b.stream, b.ns, b.o having b.o >= coalesce(max_by(c.o, c.ns), 0)""",
    "jumped": """
        select z.t, z.p, z.stream, z.ns, min(l.o) as o from steps z
        join l on l.t = z.t and l.p = z.p and l.o > z.po and l.o < z.o and l.good and l.known
        left join asked on asked.t = z.t and asked.p = z.p and asked.stream = z.stream and asked.ns = z.ns
        where z.o > z.po and asked.ns is null
          and not (z.committed and exists (select 1 from tx where event = 'aborted'))
        group by z.t, z.p, z.stream, z.ns""",
    "found_steps": """
        select case when b.g is null then 'non_monotonic' else 'replay' end as class, b.t, b.p, b.o,
               case when b.w >= 0 then b.w end as w, case when b.q >= 0 then b.q end as q
        from backward b left join innocent i
          on i.t = b.t and i.p = b.p and i.stream = b.stream and i.ns = b.ns
        where b.g is null or i.ns is null
        union all
        select 'skip', j.t, j.p, j.o, l.w, l.q from jumped j
        join l on l.t = j.t and l.p = j.p and l.o = j.o""",
    "found_all": """
        select * from found_messages union all select * from found_strays
        union all select * from found_differences union all select * from found_reads
        union all select * from found_steps""",
}
"""The plan, step by step; each may use the working tables and every step before it."""


SHARED = ("k", "ref", "l", "life_core", "stray", "homes", "unmatched", "steps", "found_all")
"""Steps that several others use: computed once, and cut off from what they were computed from."""


@contextmanager
def plan(session: Any, source: Source, *, whole_rows: bool = False) -> Iterator[None]:
    """Register the working tables and all steps as temporary views, for as long as the context lasts.

    ``whole_rows`` adds the steps of `checkers.general.life`, so that life and findings have all columns.
    """
    base = {**BASE, **(whole.BASE if whole_rows else {})}
    steps = {**STEPS, **(whole.STEPS if whole_rows else {})}
    names = [*base, *steps]
    try:
        for name, (table, columns) in base.items():
            quoted = columns.format(offset="`offset`", group="`group`")
            table_frame(session, source, table).selectExpr(*_split(quoted)).createOrReplaceTempView(name)
        for name, text in steps.items():
            frame = session.sql(text)
            if name in SHARED:
                frame = frame.localCheckpoint()
            frame.createOrReplaceTempView(name)
        yield
    finally:
        for name in names:
            session.catalog.dropTempView(name)


def _split(columns: str) -> list[str]:
    """A list of expressions, split at the commas that stand in no brackets."""
    parts, depth, current = [], 0, ""
    for letter in columns:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += letter
    return [*parts, current.strip()]


def findings(session: Any) -> Any:
    """Findings as a DataFrame (inside `plan`): class, topic, partition, offset, writer, seq."""
    return session.sql(
        "select class, t as topic, p as partition, o as `offset`, w as writer, q as seq from found_all"
    )


def fates(session: Any) -> Any:
    """Fates as a DataFrame (inside `plan`): topic, partition, writer, seq, outcome, offset, copies, fate."""
    return session.sql(
        "select t as topic, p as partition, w as writer, q as seq, outcome, o as `offset`, copies, "
        "found as found_offset, fate from life_core"
    )

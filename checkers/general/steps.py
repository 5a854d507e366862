"""The general plan: the same fates and findings as the fast plan, by relational operations alone.

It assumes nothing about how the files are laid out, and shuffles instead. It is also the oracle of the fast
plan: both must find the same in every history (`tests/property`). The steps are SQL that other engines
understand too; columns have one-letter names where SQL reserves the long ones.
"""

from __future__ import annotations

from collections.abc import Mapping

from checkers.general.transactions import STEPS as TRANSACTIONS
from checkers.partition.fate import FATES

BASE: Mapping[str, tuple[str, str]] = {
    "s": (
        "sends",
        "topic as t, partition as p, writer as w, seq as q, coalesce(outcome, 'info') as outcome, "
        "case when {offset} >= 0 then {offset} end as o, txn, sent_ns, done_ns",
    ),
    "c": (
        "copies",
        "topic as t, partition as p, broker as b, {offset} as o, coalesce(epoch, -1) as e, "
        "coalesce(writer, -1) as w, coalesce(seq, -1) as q, coalesce(control, false) as control, "
        "coalesce(intact, true) as intact, "
        "coalesce(home = concat(topic, '/', partition), true) as at_home",
    ),
    "pc": (
        "copies",
        "topic as t, partition as p, broker as b, {offset} as o, coalesce(control, false) as control, "
        "coalesce(producer_id, -1) as pid, coalesce(producer_epoch, -1) as pe, transactional, marker, "
        "coordinator_epoch as ce",
    ),
    "n": (
        "replicas",
        "topic as t, partition as p, broker as b, complete, coalesce(leo, -1) as leo, "
        "coalesce(log_start, -1) as log_start, coalesce(leader, false) as leader, "
        "coalesce(in_sync, true) as in_sync, coalesce(cleanup like '%compact%', false) as compacted, "
        "high_watermark as hw, last_stable_offset as lso, ns as read_ns",
    ),
    "r": (
        "reads",
        "topic as t, partition as p, reader as rd, ns, {offset} as o, coalesce(writer, -1) as w, "
        "coalesce(seq, -1) as q, {group} as g, coalesce(isolation = 'read_committed', false) as committed, "
        "coalesce(isolation = 'read_uncommitted', false) as uncommitted, "
        "case when {group} is null then concat('r', reader) else concat('g', {group}) end as stream, "
        "txn_writer as tw, txn as tx, "
        "{row} as nth",
    ),
    "ge": ("groups", "ns, {group} as g, reader as rd, event, topic as t, partition as p, {offset} as o"),
    "tx": ("transactions", "writer as w, txn, event, ns"),
    "ts": (
        "transaction_states",
        "ns, broker as b, transactional_id as tid, producer_id as pid, state, "
        "coalesce(partitions, '') as places",
    ),
    "wi": (
        "producer_ids",
        "writer as w, coalesce(asked_ns, ns) as asked_ns, ns, coalesce(error, 0) as error",
    ),
    "wr": (
        "writers",
        "writer as w, name, transactional_id as tid, client, "
        'regexp_extract(config, \'"transaction[.]timeout[.]ms": *"?([0-9]+)\', 1) as timeout',
    ),
}
"""Working tables: name, table of the history, and columns.

{offset} and {group} stand for the quoted names, {row} for the number of the row in its file. Another table,
`listed`, has one row: is the table `replicas` `there`?
"""

STEPS: Mapping[str, str] = {
    # Transactions, and messages with the ends of their transactions.
    "ended": """
        select w, txn, bool_or(event = 'aborted') as aborted, bool_or(event = 'committed') as committed
        from tx group by w, txn""",
    "sm": """
        select s.*, coalesce(z.aborted, false) as aborted,
               (s.txn is null or coalesce(z.committed, false)) and not coalesce(z.aborted, false) as visible
        from s left join ended z on z.w = s.w and z.txn = s.txn""",
    # Partitions, and the reference log.
    "tp": "select t, p from s union select t, p from c union select t, p from r union select t, p from n",
    "spans": "select t, p, b, min(o) as begin_o, max(o) as end_o from c group by t, p, b",
    "ends": """
        select c.t, c.p, c.b, c.e, c.o from c
        join spans z on z.t = c.t and z.p = c.p and z.b = c.b and z.end_o = c.o""",
    "about": """
        select tp.t, tp.p, count(n.b) as listed,
               coalesce(sum(case when n.leader then 1 else 0 end), 0) as leaders,
               coalesce(sum(case when n.complete then 1 else 0 end), 0) as whole,
               max(case when n.leader and n.complete then n.b end) as leader,
               coalesce(sum(case when n.complete and n.in_sync then 1 else 0 end), 0) as best,
               coalesce(bool_or(n.compacted), false) as compacted,
               bool_or(listed.there) as any_listed
        from tp cross join listed left join n on n.t = tp.t and n.p = tp.p group by tp.t, tp.p""",
    "candidates": """
        select a.t, a.p, n.b, coalesce(ends.e, -1) as e, coalesce(ends.o, n.leo - 1) as o
        from about a join n on n.t = a.t and n.p = a.p and n.complete and (n.in_sync or a.best = 0)
        left join ends on ends.t = n.t and ends.p = n.p and ends.b = n.b
        union all
        select a.t, a.p, ends.b, ends.e, ends.o from about a
        join ends on ends.t = a.t and ends.p = a.p where a.whole = 0
        union all
        select a.t, a.p, n.b, -1, -1 from about a join n on n.t = a.t and n.p = a.p
        left join ends on ends.t = n.t and ends.p = n.p and ends.b = n.b
        where a.whole = 0 and ends.b is null""",
    "chosen": """
        select a.t, a.p, a.compacted,
               case when a.leaders = 1 and a.leader is not null then a.leader else z.b end as rb,
               case when a.any_listed and a.listed = 0 then false
                    when a.leaders = 1 and a.leader is not null then true
                    else a.leaders = 0 and a.whole = a.listed and (a.whole > 0 or not a.any_listed)
               end as conclusive
        from about a left join (
            select t, p, b, row_number() over (partition by t, p order by e desc, o desc, b) as rn
            from candidates) z on z.t = a.t and z.p = a.p and z.rn = 1""",
    "ref": """
        select h.t, h.p, h.rb, h.compacted, h.conclusive, coalesce(n.log_start, -1) as start_o,
               case when n.complete and n.leo >= 0 then n.leo else coalesce(z.end_o + 1, 0) end as end_o,
               coalesce(n.complete, true) as complete, coalesce(n.in_sync or n.leader, true) as in_sync
        from chosen h left join n on n.t = h.t and n.p = h.p and n.b = h.rb
        left join spans z on z.t = h.t and z.p = h.p and z.b = h.rb""",
    # Records and their messages. `known`: a message of this partition, damaged or not; `elsewhere`: of
    # another.
    "records": """
        select c.*,
               coalesce(h.t = c.t and h.p = c.p, false) and not c.control
               and (c.at_home or not c.intact) as known,
               coalesce(h.t <> c.t or h.p <> c.p, false) as elsewhere,
               coalesce(n.in_sync, true) as in_sync
        from c left join s h on h.w = c.w and h.q = c.q
        left join n on n.t = c.t and n.p = c.p and n.b = c.b""",
    "readers": "select t, p, w, q, count(*) as reads, max(o) as o from r group by t, p, w, q",
    # Records damaged beyond recognition. Another replica's record at the offset tells which message it is;
    # otherwise it is the newest message acknowledged there of which no intact copy is left.
    "unreadable": "select distinct t, p, o from records where not intact and not control and not known",
    "beside": """
        select t, p, o, w, q from (
            select k.t, k.p, k.o, k.w, k.q,
                   row_number() over (partition by k.t, k.p, k.o
                                      order by case when k.b = ref.rb then 0 else 1 end, k.b) as rn
            from records k join unreadable u on u.t = k.t and u.p = k.p and u.o = k.o
            join ref on ref.t = k.t and ref.p = k.p where k.known) z where rn = 1""",
    "claims": """
        select t, p, o, w, q from (
            select u.t, u.p, u.o, s.w, s.q,
                   row_number() over (partition by u.t, u.p, u.o
                                      order by s.sent_ns desc, s.w desc, s.q desc) as rn
            from s left join readers on readers.t = s.t and readers.p = s.p
                                    and readers.w = s.w and readers.q = s.q
            join unreadable u on u.t = s.t and u.p = s.p and u.o = coalesce(s.o, readers.o)
            left join beside x on x.t = u.t and x.p = u.p and x.o = u.o
            left join (select distinct t, p, w, q from records where known and intact) g
              on g.t = s.t and g.p = s.p and g.w = s.w and g.q = s.q
            where s.outcome <> 'fail' and x.o is null and g.q is null) z where rn = 1""",
    "k": """
        select k.*, case when k.known then k.w else z.w end as mw,
               case when k.known then k.q else z.q end as mq
        from records k left join (select * from beside union all select * from claims) z
          on z.t = k.t and z.p = k.p and z.o = k.o and not k.intact and not k.control and not k.known""",
    "l": "select k.* from k join ref on ref.t = k.t and ref.p = k.p and ref.rb = k.b",
    "held": """
        select t, p, mw as w, mq as q, count(distinct case when intact then b end) as holders,
               bool_or(not intact) as damaged, bool_or(in_sync and intact) as in_sync
        from k where mq is not null group by t, p, mw, mq""",
    "on_replica": """
        select t, p, w, q, o, e from (
            select t, p, mw as w, mq as q, o, e,
                   row_number() over (partition by t, p, mw, mq order by b, o) as rn
            from k where mq is not null) z where rn = 1""",
    "own": """
        select l.t, l.p, l.mw as w, l.mq as q, count(*) as copies, min(l.o) as first_o,
               max(case when l.o = s.o then l.o end) as exact_o
        from l join s on s.t = l.t and s.p = l.p and s.w = l.mw and s.q = l.mq
        group by l.t, l.p, l.mw, l.mq""",
    "homes": "select distinct w, q from records where elsewhere and intact and not control",
    # Fates.
    "m": """
        select s.*, ref.rb, ref.conclusive, ref.compacted, ref.start_o, ref.end_o,
               coalesce(own.copies, 0) as copies, coalesce(own.exact_o, own.first_o) as found,
               coalesce(held.holders, 0) as holders, coalesce(held.damaged, false) as damaged,
               coalesce(held.in_sync, false) as in_sync, coalesce(readers.reads, 0) as reads,
               coalesce(s.o, f.o, readers.o) as place, f.o as follower_o, f.e as follower_e,
               coalesce(l.intact and not l.control and not l.known and not l.elsewhere, false) as at_foreign,
               homes.q is not null as away
        from sm s join ref on ref.t = s.t and ref.p = s.p
        left join own on own.t = s.t and own.p = s.p and own.w = s.w and own.q = s.q
        left join held on held.t = s.t and held.p = s.p and held.w = s.w and held.q = s.q
        left join on_replica f on f.t = s.t and f.p = s.p and f.w = s.w and f.q = s.q
        left join readers on readers.t = s.t and readers.p = s.p and readers.w = s.w and readers.q = s.q
        left join l on l.t = s.t and l.p = s.p and l.o = s.o
        left join homes on homes.w = s.w and homes.q = s.q""",
    "placed": """
        select m.*, case when m.place is null then m.conclusive and (m.compacted or m.start_o > 0)
                         else l.o is null and (m.place < m.start_o or (m.compacted and m.place < m.end_o))
                    end as retired
        from m left join l on l.t = m.t and l.p = m.p and l.o = m.place""",
    "fated": """
        select z.*, case
            when outcome = 'fail' and not aborted and (holders > 0 or damaged) then 'phantom'
            when outcome = 'fail' then case when conclusive or aborted then 'failed' else 'undetermined' end
            when copies > 1 then 'duplicated'
            when copies = 1 and holders = 0 then 'corrupt'
            when outcome = 'info' and copies = 1 then 'unknown_kept'
            when outcome = 'info' and damaged and holders = 0 then 'corrupt'
            when outcome = 'info' and holders = 0 and not conclusive and not aborted and not retired
              then 'undetermined'
            when outcome = 'info' then 'unknown_dropped'
            when copies = 1 and o is not null and found <> o then 'moved'
            when copies = 1 then 'kept'
            when away and holders = 0 and not damaged then 'misrouted'
            when holders > 0 and not conclusive then 'kept'
            when retired then 'retired'
            when holders > 0 then 'diverged'
            when damaged then 'corrupt'
            when aborted then 'failed'
            when not conclusive then 'undetermined'
            when at_foreign then 'overwritten'
            when reads > 0 then 'lost_after_read'
            else 'lost' end as fate
        from placed z""",
    "life_core": """
        select t, p, w, q, outcome, o, copies, holders, damaged, in_sync, conclusive, fate, aborted, visible,
               sent_ns, start_o, end_o, compacted, reads,
               case when fate in ('phantom', 'diverged') and copies = 0 then follower_o
                    else found end as found,
               case when fate in ('phantom', 'diverged') and copies = 0 then follower_e end as follower_e
        from fated""",
    "found_messages": """
        select fate as class, t, p, coalesce(o, found) as o, w, q from life_core
        where fate in ({of_message}) and not (fate = 'diverged' and in_sync)
        union all
        select 'undetermined', t, p, null, null, null from ref where not conclusive
        union all
        select 'out_of_order', t, p, coalesce(o, found), w, q from (
            select t, p, o, w, q, found, min(found) over (
                partition by t, p, w order by q rows between 1 following and unbounded following) as later
            from life_core where outcome = 'ok' and fate = 'kept' and copies = 1) z where later < found""",
    **TRANSACTIONS,
    # Records that are findings, one per offset, unless a finding about a message covers them.
    "claimed": """
        select t, p, o from life_core where fate = 'overwritten'
        union
        select k.t, k.p, k.o from k
        join life_core f on f.t = k.t and f.p = k.p and f.w = k.mw and f.q = k.mq
        where f.fate = 'corrupt' and not k.intact""",
    "explained": """
        select distinct k.t, k.p, k.o from k
        join life_core f on f.t = k.t and f.p = k.p and f.w = k.mw and f.q = k.mq
        where f.fate = 'phantom'""",
    "odd": """
        select t, p, o, w, q, class from (
            select k.t, k.p, k.o, k.w, k.q,
                   case when not k.intact then 'corrupt' when k.elsewhere then 'misrouted'
                        else 'foreign' end as class,
                   row_number() over (partition by k.t, k.p, k.o
                                      order by case when k.b = ref.rb then 0 else 1 end, k.b) as rn
            from k join ref on ref.t = k.t and ref.p = k.p
            where not k.control and (not k.intact or not k.known)) z where rn = 1""",
    "reported": """
        select t, p, o from odd union select t, p, o from claimed union select t, p, o from explained""",
    "found_strays": """
        select x.class, x.t, x.p, x.o, case when x.w >= 0 then x.w end as w,
               case when x.q >= 0 then x.q end as q
        from odd x left join claimed z on z.t = x.t and z.p = x.p and z.o = x.o where z.o is null""",
    # Replicas against the reference, except at offsets that have a finding already.
    "followers": """
        select ref.t, ref.p, coalesce(z.b, n.b) as b, coalesce(z.begin_o, -1) as begin_o,
               coalesce(z.end_o, -1) as end_o, coalesce(n.complete, true) as complete,
               coalesce(n.log_start, -1) as log_start, coalesce(n.leo, -1) as leo, ref.compacted
        from (select t, p, b from spans union select t, p, b from n) a
        join ref on ref.t = a.t and ref.p = a.p and ref.rb <> a.b and ref.in_sync
        left join spans z on z.t = a.t and z.p = a.p and z.b = a.b
        left join n on n.t = a.t and n.p = a.p and n.b = a.b
        where coalesce(n.in_sync, true) and (z.b is not null or n.complete)""",
    "unmatched": """
        select f.t, f.p, f.b, l.o, l.w, l.q,
               case when l.o > f.end_o then 'tail' when l.o < f.begin_o then 'head'
                    else 'middle' end as place,
               f.complete, f.compacted, f.leo
        from followers f join l on l.t = f.t and l.p = f.p and l.o >= f.log_start
        left join reported on reported.t = l.t and reported.p = l.p and reported.o = l.o
        left join c on c.t = f.t and c.p = f.p and c.b = f.b and c.o = l.o
        where c.o is null and reported.o is null""",
    "ends_elsewhere": """
        select t, p, b, place, min(o) as o, count(*) as n from unmatched
        where (place = 'tail' and complete and (not compacted or leo < 0 or o >= leo))
           or (place = 'head' and not compacted)
        group by t, p, b, place""",
    "surplus": """
        select f.t, f.p, f.b, a.o, a.w, a.q, a.o > coalesce(z.end_o, -1) as beyond from followers f
        join ref on ref.t = f.t and ref.p = f.p
        join c a on a.t = f.t and a.p = f.p and a.b = f.b
        left join l on l.t = a.t and l.p = a.p and l.o = a.o
        left join reported on reported.t = a.t and reported.p = a.p and reported.o = a.o
        left join spans z on z.t = f.t and z.p = f.p and z.b = ref.rb
        where l.o is null and reported.o is null and (ref.complete or a.o <= coalesce(z.end_o, -1))
          and a.o >= ref.start_o and not (ref.compacted and a.o < ref.end_o)""",
    "differ": """
        select f.t, f.p, f.b, a.o, a.w, a.q, 1 as n from followers f
        join c a on a.t = f.t and a.p = f.p and a.b = f.b join l on l.t = a.t and l.p = a.p and l.o = a.o
        where a.w <> l.w or a.q <> l.q or a.control <> l.control
           or (a.e <> l.e and a.e >= 0 and l.e >= 0)
        union all
        select t, p, b, o, w, q, 1 from unmatched where place = 'middle' and not compacted
        union all
        select u.t, u.p, u.b, u.o, u.w, u.q, z.n from unmatched u
        join ends_elsewhere z on z.t = u.t and z.p = u.p and z.b = u.b and z.o = u.o and z.place = u.place
        union all
        select t, p, b, o, w, q, 1 from surplus where not beyond
        union all
        select t, p, b, o, w, q, n from (
            select u.*, row_number() over (partition by t, p order by o, b) as rn,
                   first_value(mine) over (partition by t, p order by b) as n
            from (select s.*, count(*) over (partition by t, p, b) as mine from surplus s where beyond) u
        ) z where rn = 1""",
    "counted_differences": """
        select 'diverged' as class, d.t, d.p, d.o, case when d.w >= 0 then d.w end as w,
               case when d.q >= 0 then d.q end as q, d.n
        from (select differ.*, row_number() over (partition by differ.t, differ.p, differ.o order by b) as rn
              from differ
              left join reported on reported.t = differ.t and reported.p = differ.p and reported.o = differ.o
              where reported.o is null) d
        where d.rn = 1""",
    "found_differences": "select class, t, p, o, w, q from counted_differences",
    # What readers received.
    "read_of": """
        select r.*, lc.fate, lc.q is not null as known, lc.found, lc.o as acked_o, lc.in_sync, lc.copies,
               coalesce(lc.aborted, false) as aborted,
               coalesce(l.mw = r.w and l.mq = r.q, false) as same,
               l.o is null and (r.o < lc.start_o or (lc.compacted and r.o < lc.end_o)) as retired
        from r
        left join life_core lc on lc.t = r.t and lc.p = r.p and lc.w = r.w and lc.q = r.q
        left join l on l.t = r.t and l.p = r.p and l.o = r.o""",
    "held_there": """
        select distinct r.t, r.p, r.o, r.w, r.q from r
        join k on k.t = r.t and k.p = r.p and k.o = r.o and not k.control
              and ((k.w = r.w and k.q = r.q) or not k.intact)""",
    "found_reads": """
        select 'aborted_read' as class, t, p, o, w, q from (
            select z.*, row_number() over (partition by z.t, z.p, z.w, z.q order by ns, nth) as rn
            from read_of z left join tr on tr.w = z.w and tr.q = z.q
            where known and ((committed and case when tr.q is null then z.aborted else tr.withheld end)
                             or (not z.aborted and (fate = 'failed'
                                 or (fate = 'unknown_dropped' and not in_sync and not retired))))) y
        where rn = 1
        union all
        select distinct 'aborted_read', z.t, z.p, z.o, case when z.w >= 0 then z.w end,
               case when z.q >= 0 then z.q end
        from read_of z left join held_there h
          on h.t = z.t and h.p = z.p and h.o = z.o and h.w = z.w and h.q = z.q
        where not z.known and h.o is null
        union all
        select distinct 'offset_conflict', t, p, o, w, q from read_of
        where known and fate in ('kept', 'unknown_kept', 'duplicated', 'moved', 'phantom') and copies > 0
          and not (committed and aborted) and not same and o <> found and coalesce(o <> acked_o, true)
          and not retired""",
    # The order in which they received it.
    # `floor_o`: how far back a reader may go, through successive transactions that were not committed.
    "ordered": """
        select r.*, row_number() over (partition by t, p, stream order by ns, nth) as n,
               coalesce(a.reported <> 'committed', false) as undone
        from r left join answered a on a.w = r.tw and a.txn = r.tx""",
    "undone_runs": """
        select z.*, sum(case when undone then 0 else 1 end) over (
                   partition by t, p, stream order by n
                   rows between unbounded preceding and current row) as run
        from ordered z""",
    "sequence": """
        select z.*, case when undone then min(case when undone then o end) over (
                   partition by t, p, stream, run order by n
                   rows between unbounded preceding and current row) end as floor_o
        from undone_runs z""",
    "steps": """
        select z.* from (
            select a.*, lag(o) over (partition by t, p, stream order by n) as po,
                   lag(w) over (partition by t, p, stream order by n) as pw,
                   lag(q) over (partition by t, p, stream order by n) as pq,
                   lag(ns) over (partition by t, p, stream order by n) as pns,
                   lag(rd) over (partition by t, p, stream order by n) as prd,
                   lag(uncommitted) over (partition by t, p, stream order by n) as pu,
                   lag(floor_o) over (partition by t, p, stream order by n) as pfloor,
                   lag(tw) over (partition by t, p, stream order by n) as ptw,
                   lag(tx) over (partition by t, p, stream order by n) as ptx
            from sequence a) z where po is not null and o <> po + 1""",
    "asked": """
        select z.t, z.p, z.stream, z.n, bool_or(ge.event = 'sought') as sought,
               bool_or(ge.event = 'assigned') as assigned,
               max(case when ge.event = 'assigned' then ge.ns end) as assigned_ns
        from steps z join ge
          on ge.event in ('sought', 'assigned') and ge.rd = z.rd and ge.ns between z.pns and z.ns
         and ((ge.t = z.t and ge.p = z.p) or (ge.t is null and ge.p is null))
        group by z.t, z.p, z.stream, z.n""",
    "committed": """
        select t, p, stream, n, o from (
            select z.t, z.p, z.stream, z.n, ge.o, row_number() over (
                partition by z.t, z.p, z.stream, z.n order by ge.ns desc, ge.o desc) as rn
            from steps z join ge on ge.event = 'committed' and ge.o is not null and ge.g = z.g
                                and ge.t = z.t and ge.p = z.p and ge.ns <= z.ns) y where rn = 1""",
    "started": """
        select t, p, stream, n, o, ns, rd from (
            select z.t, z.p, z.stream, z.n, ge.o, ge.ns, ge.rd, row_number() over (
                partition by z.t, z.p, z.stream, z.n order by ge.ns desc, ge.o desc, ge.rd desc) as rn
            from steps z
            left join asked a on a.t = z.t and a.p = z.p and a.stream = z.stream and a.n = z.n
            join ge on ge.event = 'committed' and ge.o is not null and ge.g = z.g
                   and ge.t = z.t and ge.p = z.p and ge.ns <= coalesce(a.assigned_ns, z.ns)
                   and (a.assigned_ns is not null or ge.rd <> z.rd)) y where rn = 1""",
    "moves": """
        select z.*, co.o as committed_o, st.o as start_o, st.ns as start_ns, st.rd as start_rd,
               z.o <= z.po as back,
               coalesce(a.sought, false) or (coalesce(a.assigned, false) and z.g is null) as moved,
               z.g is not null and (coalesce(a.assigned, false) or z.rd <> z.prd) as handover
        from steps z
        left join asked a on a.t = z.t and a.p = z.p and a.stream = z.stream and a.n = z.n
        left join committed co on co.t = z.t and co.p = z.p and co.stream = z.stream and co.n = z.n
        left join started st on st.t = z.t and st.p = z.p and st.stream = z.stream and st.n = z.n""",
    "backward": """
        select z.* from moves z join l on l.t = z.t and l.p = z.p and l.o = z.po and l.w = z.pw and l.q = z.pq
        where z.back and not z.moved and (z.g is null or z.o < coalesce(z.committed_o, -1))
          and not (z.g is null and coalesce(z.o >= z.pfloor, false)
                   and not coalesce(z.tw = z.ptw and z.tx = z.ptx, false))""",
    "forward": """
        select z.t, z.p, z.stream, z.n, z.o, z.ns, z.uncommitted,
               max(a.ns) as since_ns, min(b.ns) as until_ns,
               case when z.handover and z.start_o - 1 > z.po then z.start_o - 1 else z.po end as low
        from moves z
        left join ge a on a.event = 'sought' and a.ns <= z.pns
                      and ((z.g is null and a.rd = z.rd) or (z.g is not null and a.g = z.g))
                      and ((a.t = z.t and a.p = z.p) or (a.t is null and a.p is null))
        left join ge b on b.event = 'sought' and b.ns >= z.ns
                      and ((z.g is null and b.rd = z.rd) or (z.g is not null and b.g = z.g))
                      and ((b.t = z.t and b.p = z.p) or (b.t is null and b.p is null))
        where not z.back and not z.moved and not (z.handover and z.start_o is null)
        group by z.t, z.p, z.stream, z.n, z.o, z.ns, z.uncommitted, z.handover, z.start_o, z.po""",
    "passed": """
        select z.t, z.p, z.stream, z.n, z.since_ns, z.until_ns, l.o, l.mw, l.mq from forward z
        join l on l.t = z.t and l.p = z.p and l.o > z.low and l.o < z.o and l.intact and l.mq is not null
        join sm on sm.t = l.t and sm.p = l.p and sm.w = l.mw and sm.q = l.mq and sm.sent_ns <= z.ns
        left join tr on tr.w = l.mw and tr.q = l.mq
        where case when tr.q is null then sm.visible else tr.visible end or z.uncommitted""",
    "jumped": """
        select z.t, z.p, z.stream, z.n, min(z.o) as o, count(distinct z.o) as messages from passed z
        left join r x on x.t = z.t and x.p = z.p and x.stream = z.stream and x.w = z.mw and x.q = z.mq
                     and (z.since_ns is null or x.ns >= z.since_ns)
                     and (z.until_ns is null or x.ns <= z.until_ns)
        where x.o is null group by z.t, z.p, z.stream, z.n""",
    # A member committed an offset past what it had received, and the next member continued there.
    "past": """
        select z.t, z.p, z.stream, z.n, z.po, z.start_o, z.start_ns, z.g, z.prd, z.pns, z.pu from moves z
        join ge on ge.rd = z.prd and ge.ns <= z.start_ns
               and ge.event in ('assigned', 'sought', 'revoked', 'lost')
               and ((ge.t = z.t and ge.p = z.p) or (ge.t is null and ge.p is null))
        where z.handover and not z.moved and not z.back and z.start_o - 1 > z.po
          and z.start_rd = z.prd and z.start_ns > z.pns
        group by z.t, z.p, z.stream, z.n, z.po, z.start_o, z.start_ns, z.g, z.prd, z.pns, z.pu
        having bool_or(ge.event = 'assigned') and max(ge.ns) < z.pns""",
    "unhanded": """
        select z.t, z.p, z.stream, z.n, min(l.o) as o, count(distinct l.o) as messages from past z
        join l on l.t = z.t and l.p = z.p and l.o > z.po and l.o < z.start_o and l.intact
        join sm on sm.t = l.t and sm.p = l.p and sm.w = l.mw and sm.q = l.mq and sm.sent_ns <= z.start_ns
        left join tr on tr.w = l.mw and tr.q = l.mq
        left join r x on x.t = z.t and x.p = z.p and x.stream = z.stream and x.w = l.mw and x.q = l.mq
        where x.o is null and (case when tr.q is null then sm.visible else tr.visible end or z.pu)
        group by z.t, z.p, z.stream, z.n""",
    "found_moves": """
        select case when g is null then 'non_monotonic' else 'replay' end as class, t, p, o,
               case when w >= 0 then w end as w, case when q >= 0 then q end as q, g, rd, ns, prd, pns,
               cast(null as bigint) as committed, 1 as messages
        from backward
        union all
        select 'skip', j.t, j.p, j.o, l.w, l.q, z.g, z.rd, z.ns, z.prd, z.pns, null, j.messages
        from jumped j
        join l on l.t = j.t and l.p = j.p and l.o = j.o
        join moves z on z.t = j.t and z.p = j.p and z.stream = j.stream and z.n = j.n
        union all
        select 'skip', j.t, j.p, j.o, l.w, l.q, z.g, z.prd, z.start_ns, z.prd, z.pns, z.start_o,
               j.messages
        from unhanded j
        join l on l.t = j.t and l.p = j.p and l.o = j.o
        join past z on z.t = j.t and z.p = j.p and z.stream = j.stream and z.n = j.n""",
    "found_steps": "select class, t, p, o, w, q from found_moves",
    "found_all": """
        select * from found_messages union all select * from found_strays
        union all select * from found_differences union all select * from found_reads
        union all select * from found_steps union all select * from found_transactions""",
}
"""The plan, step by step; each may use the working tables and every step before it.

{of_message} stands for the fates that are findings of messages.
"""


def sql_of(step: str) -> str:
    """The SQL of a step, with the names of fates filled in."""
    names = ", ".join(f"'{fate.name}'" for fate in FATES if fate.of_message)
    return step.replace("{of_message}", names)


SHARED = (
    "ref",
    "records",
    "k",
    "l",
    "life_core",
    "odd",
    "reported",
    "unmatched",
    "surplus",
    "tr",
    "tf",
    "moves",
    "found_all",
)
"""Steps that several others use: they are stored, so that Spark computes them only once."""

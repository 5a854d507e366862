"""The general plan's steps about transactions: how markers decided each message, and the findings.

`tr` has one row per message of a transaction, `tf` one per transaction; both by one-letter names.
"""

from __future__ import annotations

from collections.abc import Mapping

from checkers.partition.fate import TRANSACTION_ENDS
from checkers.partition.messages import FOREVER
from checkers.transactions.answers import CLEANUP_MS, TIMEOUT_MS
from checkers.transactions.fates import WAITING_CLIENTS

WAITS = f"wr.client in {WAITING_CLIENTS}"
"""See `checkers.transactions.fates.waits_for_answers`."""

STEPS: Mapping[str, str] = {
    # What applications asked for, and what was reported to them.
    "answered": f"""
        select w, txn, case when bool_or(event = 'aborted') then 'aborted'
                            when bool_or(event = 'committed') then 'committed'
                            when bool_or(event in ('unknown', 'committing', 'aborting')) then 'unknown'
                            else 'open' end as reported,
               case when bool_or(event = 'committing') then 'commit'
                    when bool_or(event = 'aborting') then 'abort' end as asked,
               min(case when event = 'begin' then ns end) as begin_ns,
               min(case when event in ('committing', 'aborting') then ns end) as ending_ns,
               max(case when event in {TRANSACTION_ENDS} then ns end) as ended_ns
        from tx group by w, txn""",
    # When producers were given their ids, or else began their first transaction; and when they were fenced.
    "given": "select w, asked_ns, ns from wi where error = 0",
    "starts": """
        select wr.w, wr.tid, given.asked_ns, given.ns, true as recorded
        from wr join given on given.w = wr.w where wr.tid is not null
        union all
        select wr.w, wr.tid, min(answered.begin_ns), min(answered.begin_ns), false
        from wr join answered on answered.w = wr.w left join given on given.w = wr.w
        where wr.tid is not null and answered.begin_ns is not null and given.w is null
        group by wr.w, wr.tid""",
    "spanned": f"""
        select w, tid, ns, recorded,
               coalesce(lead(ns) over (partition by w order by ns), {FOREVER}) as until_ns
        from starts""",
    "fences": """
        select a.w, a.recorded, min(z.ns) as from_ns, a.until_ns
        from spanned a join starts z on z.tid = a.tid and z.w <> a.w and z.asked_ns > a.ns
        group by a.w, a.ns, a.recorded, a.until_ns having min(z.ns) < a.until_ns""",
    # The reference logs, with the next marker of each record's producer id.
    "produced": """
        select pc.t, pc.p, pc.o, pc.control, pc.pid, pc.pe, pc.transactional, pc.marker, pc.ce,
               case when pc.pid >= 0 then min(case when pc.control then pc.o end) over (
                   partition by pc.t, pc.p, pc.pid order by pc.o
                   rows between 1 following and unbounded following) end as mo,
               case when pc.pid >= 0 then max(pc.pe) over (
                   partition by pc.t, pc.p, pc.pid order by pc.o
                   rows between unbounded preceding and 1 preceding) end as earlier_pe
        from pc join ref on ref.t = pc.t and ref.p = pc.p and ref.rb = pc.b""",
    "stable": f"""
        select ref.t, ref.p, ref.conclusive, coalesce(n.hw, {FOREVER}) as hw, n.read_ns,
               least(coalesce(n.hw, {FOREVER}), coalesce(n.lso, {FOREVER}),
                     coalesce(u.o, {FOREVER})) as lso
        from ref left join n on n.t = ref.t and n.p = ref.p and n.b = ref.rb
        left join (
            select x.t, x.p, min(x.o) as o from produced x
            where x.transactional and not x.control and x.pid >= 0 and x.mo is null group by x.t, x.p) u
          on u.t = ref.t and u.p = ref.p and ref.conclusive""",
    "decided": """
        select lc.t, lc.p, lc.w, lc.q, s.txn, s.sent_ns,
               case when lc.outcome = 'ok' then s.done_ns end as acked_ns,
               lc.outcome, case when lc.copies > 0 then lc.found end as o, x.pid, x.pe,
               case when x.transactional and x.pid >= 0 then x.mo end as mo,
               case when x.transactional and x.pid >= 0 then m.marker end as marker,
               case when x.transactional and x.pid >= 0 then m.pe end as mpe,
               case when x.transactional and x.pid >= 0 then m.ce end as mce,
               coalesce(x.transactional and x.pid >= 0 and x.earlier_pe > x.pe, false) as outdated,
               coalesce(answered.reported, 'unknown') as reported, answered.begin_ns, st.read_ns,
               case when lc.outcome = 'ok' then s.done_ns end < answered.ending_ns as asked_later,
               case when lc.copies = 0 then
                         case when lc.fate in ('lost', 'lost_after_read', 'overwritten', 'diverged',
                                               'corrupt', 'misrouted') then 'lost'
                              when lc.fate = 'unknown_dropped' and st.conclusive and not lc.compacted
                                   and lc.start_o <= 0 then 'dropped'
                              else 'absent' end
                    when x.transactional = false then
                         case when lc.found < st.lso then 'readable' else 'blocked' end
                    when x.transactional is null or x.pid < 0 then 'unknown'
                    when x.mo is null then
                         case when st.conclusive and lc.found < st.hw then 'undecided' else 'unknown' end
                    when m.marker = 'abort' then 'aborted'
                    when m.marker = 'commit' then
                         case when lc.found < st.lso then 'readable' else 'blocked' end
                    else 'unknown' end as state
        from life_core lc join s on s.t = lc.t and s.p = lc.p and s.w = lc.w and s.q = lc.q
        join stable st on st.t = lc.t and st.p = lc.p
        left join produced x on x.t = lc.t and x.p = lc.p and x.o = lc.found and lc.copies > 0
        left join produced m on m.t = x.t and m.p = x.p and m.o = x.mo
        left join answered on answered.w = s.w and answered.txn = s.txn
        where s.txn is not null""",
    # Markers that coordinators still had to write.
    "debts": """
        select tid, pid, state, places from (
            select ts.*, row_number() over (partition by tid, pid order by ns desc, b desc) as rn from ts
            where pid is not null) z
        where rn = 1 and state in ('PrepareCommit', 'PrepareAbort')""",
    "tr": """
        select d.*,
               coalesce(d.marker = 'commit', false) and (d.outdated or (f.w is not null and (
                   f.recorded or d.reported <> 'committed' or coalesce(d.begin_ns, -1) < f.from_ns)))
                   as fenced,
               coalesce(d.state = 'undecided' and instr(concat(',', debts.places, ','),
                                                        concat(',', d.t, '/', d.p, ',')) > 0
                        and debts.state = case d.reported when 'committed' then 'PrepareCommit'
                                                          when 'aborted' then 'PrepareAbort'
                                                          else debts.state end, false) as owed,
               max(case when d.asked_later then d.o end) over (partition by d.t, d.p, d.w, d.txn)
                   as last_before,
               d.state in ('readable', 'blocked')
                   or (d.reported = 'committed' and d.state in ('unknown', 'absent', 'lost', 'dropped'))
                   as visible,
               (d.reported = 'aborted' and d.state not in ('readable', 'blocked'))
                   or (d.state = 'aborted' and d.reported <> 'committed') as withheld
        from decided d
        left join fences f on f.w = d.w and d.sent_ns > f.from_ns and d.sent_ns <= f.until_ns
        left join wr on wr.w = d.w
        left join debts on debts.tid = wr.tid and debts.pid = d.pid""",
    # Transactions.
    "counted": """
        select w, txn, count(*) as messages, count(case when outcome = 'ok' then 1 end) as acknowledged,
               count(case when state = 'readable' then 1 end) as readable,
               count(case when state = 'blocked' then 1 end) as blocked,
               count(case when state = 'aborted' then 1 end) as aborted,
               count(case when state = 'undecided' then 1 end) as undecided,
               count(case when state = 'lost' then 1 end) as lost,
               count(case when state = 'dropped' then 1 end) as dropped,
               count(case when state = 'absent' then 1 end) as absent,
               count(case when state = 'unknown' then 1 end) as unknown,
               count(case when fenced then 1 end) as fenced, count(case when owed then 1 end) as owed,
               coalesce(bool_or(marker = 'commit' and mo < last_before), false) as early,
               max(sent_ns) as sent_ns,
               max(case when state = 'undecided' then read_ns end) as undecided_ns
        from tr group by w, txn""",
    "all_transactions": "select w, txn from counted union select w, txn from answered",
    "known_transactions": f"""
        select a.w, a.txn, wr.name, wr.tid, answered.begin_ns, answered.ending_ns, answered.ended_ns,
               answered.asked,
               coalesce(answered.reported, 'unknown') as reported, coalesce(c.messages, 0) as messages,
               coalesce(c.acknowledged, 0) as acknowledged, coalesce(c.readable, 0) as readable,
               coalesce(c.blocked, 0) as blocked, coalesce(c.aborted, 0) as aborted,
               coalesce(c.undecided, 0) as undecided, coalesce(c.lost, 0) as lost,
               coalesce(c.dropped, 0) as dropped, coalesce(c.absent, 0) as absent,
               coalesce(c.unknown, 0) as unknown,
               coalesce(c.fenced, 0) as fenced, coalesce(c.owed, 0) as owed,
               coalesce(c.early, false) as early, coalesce({WAITS}, false) as waits,
               coalesce(c.readable + c.blocked, 0) as committed,
               coalesce(c.readable + c.blocked + c.aborted + c.undecided + c.lost, 0) as present,
               coalesce(c.undecided_ns > greatest(coalesce(answered.begin_ns, -1), c.sent_ns)
                        + (coalesce(cast(nullif(wr.timeout, '') as bigint), {TIMEOUT_MS}) + {CLEANUP_MS})
                        * 1000000, false) as overdue
        from all_transactions a left join answered on answered.w = a.w and answered.txn = a.txn
        left join counted c on c.w = a.w and c.txn = a.txn left join wr on wr.w = a.w""",
    "tf": """
        select z.*,
               case when present > 0 and readable = present + dropped and unknown = 0 then 'all'
                    when readable > 0 and readable < present + dropped then 'part'
                    when unknown > 0 then 'unknown' when present > 0 then 'none' end as visible,
               case when fenced > 0 then 'fenced_write_read'
                    when committed > 0 and aborted > 0 then 'torn_transaction'
                    when reported = 'committed' and aborted > 0 then 'lost_transaction'
                    when committed > 0 and (reported in ('aborted', 'open')
                                            or (reported = 'unknown' and coalesce(asked, '') = 'abort'))
                      then 'aborted_read'
                    when undecided > 0 and (overdue or (reported in ('committed', 'aborted')
                                                        and owed < undecided))
                      then 'hanging_transaction'
                    when committed > 0 and (early or (waits and dropped > 0))
                      then 'torn_transaction' end as finding
        from known_transactions z""",
    "found_transactions": """
        select finding as class, t, p, o, w, q from (
            select tf.finding, tr.t, tr.p, tr.o, tr.w, tr.q,
                   row_number() over (partition by tr.w, tr.txn order by tr.t, tr.p, tr.o, tr.q) as rn
            from tf join tr on tr.w = tf.w and tr.txn = tf.txn
            where case when tf.finding = 'fenced_write_read' then tr.fenced
                       when tf.finding = 'hanging_transaction'
                         then tr.state = 'undecided' and (not tr.owed or tf.owed = tf.undecided)
                       when tf.finding = 'torn_transaction' and tf.aborted = 0 and tf.waits and tf.dropped > 0
                         then tr.state = 'dropped'
                       when tf.finding = 'torn_transaction' and tf.aborted = 0
                         then coalesce(tr.marker = 'commit' and tr.mo < tr.last_before, false)
                       when tf.finding = 'lost_transaction' then tr.state = 'aborted'
                       when tf.finding = 'torn_transaction'
                            and (tf.reported = 'committed'
                                 or (tf.reported = 'unknown' and coalesce(tf.asked, '') <> 'abort'))
                         then tr.state = 'aborted'
                       else tf.finding is not null and tr.state in ('readable', 'blocked') end) z
        where rn = 1""",
}
"""To be run after `life_core`."""

FATES = """
    select w as writer, txn, name as writer_name, tid as transactional_id, begin_ns, ending_ns, ended_ns,
           asked, reported, visible, messages, acknowledged, readable, blocked, aborted, undecided, lost,
           dropped, absent, unknown, fenced, finding from tf"""
"""`transaction_fates`."""

RECORDS = """
    select t as topic, p as partition, w as writer, q as seq, txn, sent_ns, acked_ns, o as at_offset, state,
           fenced,
           case when pid >= 0 then pid end as producer_id, case when pe >= 0 then pe end as producer_epoch,
           marker, mo as marker_offset, mpe as marker_epoch,
           case when mo is not null then mce end as coordinator_epoch from tr"""
"""`transaction_records`; `at_offset` stands for `offset`."""

QUERIES: Mapping[str, str] = {"transaction_fates": FATES, "transaction_records": RECORDS}
"""The output tables, from the steps."""

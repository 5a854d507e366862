"""The example in `docs/history.md`: the two files of another program, and the checker's output for them.

A test runs the example and compares the output with the one in this module.
"""

from __future__ import annotations

SENDS_CSV = """\
writer,seq,sent_ns,done_ns,outcome,offset
7,0,1000,1500,ok,0
7,1,2000,2500,ok,1
7,2,3000,3500,ok,2
7,3,4000,9000,info,
"""

LOG_CSV = """\
broker,offset,epoch,writer,seq
1,0,0,7,0
1,1,1,7,2
2,0,0,7,0
2,1,1,7,2
"""

FILES = f"""\
sends.csv
{SENDS_CSV}
log.csv
{LOG_CSV}"""

SQL = """\
COPY (
  SELECT 'orders' AS topic, 0::INTEGER AS partition, writer::INTEGER AS writer, seq::BIGINT AS seq,
         sent_ns::BIGINT AS sent_ns, done_ns::BIGINT AS done_ns, outcome, "offset"::BIGINT AS "offset"
  FROM read_csv('sends.csv')
) TO 'sends.parquet' (FORMAT parquet);

COPY (
  SELECT 'orders' AS topic, 0::INTEGER AS partition, broker::INTEGER AS broker, "offset"::BIGINT AS "offset",
         epoch::INTEGER AS epoch, writer::INTEGER AS writer, seq::BIGINT AS seq
  FROM read_csv('log.csv')
) TO 'copies.parquet' (FORMAT parquet);
"""

_CAUSE = (
    "truncated under a later leader: epoch 1 begins at offset 1 in the final log, and an earlier leader had "
    "acknowledged it"
)

OUTPUT = f"""\
What became of every message
writer  AZ  acks  kept  lost  moved  unknown dropped
        –            1     1      1                1

Findings: 1 lost, 1 moved
 UNEXPECTED 1 lost: {_CAUSE}
            message (7/1) in orders/0 at offset 1, acknowledged at 0.00 s
 UNEXPECTED 1 moved
            message (7/2) in orders/0 at offset 2 in epoch 1, acknowledged at 0.00 s
Times count from the first recorded event.
Promises of Kafka: 2 of unknown promise
 not known    2: the acks of the producer are not recorded (row acks-0)

The history does not decide whether Kafka behaved as documented. Where acks is not known, 1 of 3 acknowledged
writes was lost.
Verdict: violated (1 lost that nothing declared; 1 moved that nothing declared)
Run folder: DIR
"""

FINDING = """\
{"class": "lost", "topic": "orders", "partition": 0, "offset": 1, "message": "7/1", "writer": 7, "seq": 1,
 "cause": "later_epoch"}
"""

"""What Kafka promises: a table of promises, and the judgement of findings by it.

The table (`table`) says for each configuration and fault whether Kafka promises to keep an acknowledged
message, what it promises about order and duplicates, and what it does not promise, each with its source. Its
rows name conditions (`conditions`), which are decided from the facts of a history (`facts`). `judging` finds
the row that decides each finding: the promise is *broken*, the damage is *not promised* to be absent, or the
history does not hold the facts that decide, and the judgement is *unknown*. `bugs` lists known bugs of Kafka
that break a promise. `document` writes `docs/promises.md` from the table.

Everything is pure: no Spark, no files, no clock. It runs in the driver, and in Spark's workers by the general
plan. It may import `checkers.evidence`, the schema of findings, and Kafka's versions and bugs.
"""

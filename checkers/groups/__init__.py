"""Consumer groups: what a group committed, who owned a partition, and where its members continued.

`history` holds the rows of one group and partition. `commits` judges the answers about committed offsets;
`membership` and `expiry` tell which of them `offsets.retention.minutes` removed. `ownership` finds partitions
with two owners, `resets` positions outside of the log, and `stalls` groups that stand still. `steps` names
the causes of skips and replays, and `findings` makes the rows.

Runs in Spark's driver, `steps` in its workers too. Reads only what `Evidence` holds; imports the evidence,
the causes and the tables of `checkers`, never Spark.
"""

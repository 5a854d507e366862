"""The fast plan: one Spark task per topic partition; large partitions are cut into pieces and merged again.

`plan` cuts partitions into `tasks`, which Spark's Python workers carry out (`judging`), reading and writing
Parquet files themselves; they report typed `results`, which the driver puts together (`merge`). Serves every
history whose files each worker can open as paths.
"""

"""The fast plan: one Spark task per topic partition; large partitions are cut into pieces and merged again.

`plan` runs in Spark's driver; `task` and what it calls run in Spark's Python workers, which read and write
Parquet files themselves. Serves every history whose files each worker can open as paths.
"""

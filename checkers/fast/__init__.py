"""One Spark task per topic partition; large partitions are cut into pieces and merged again.

The driver (`plan`) cuts a history (`cut`) into `tasks`, which Spark's Python workers carry out (`judging`);
they read (`loading`) and write Parquet files themselves. The driver puts their results together (`merge`).
`run` is the part that knows Spark. Files may be at paths and at URIs. Imports the kernel, the tables, the
evidence, the promises, and the fates of transactions.
"""

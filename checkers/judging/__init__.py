"""The judge: one Spark task per topic partition, which reads its files, decides, and writes its results.

The driver (`plan`) makes the `tasks`, which Spark's Python workers carry out (`worker`); they read
(`loading`) and write Parquet files themselves. Large files that mix topic partitions are split first
(`mixed`). `run` is the part that knows Spark. Files may be at paths and at URIs. Imports the kernel, the
tables, the evidence, the promises, and the fates of transactions.
"""

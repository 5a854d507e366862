"""Applications of Kafka Streams: what became of each message of their sources, and what their stores hold.

`history` holds what a run recorded about one application and partition, `written` reads what it wrote, and
`findings` judges both. Runs in Spark's workers. Reads what `Evidence` holds, and the final logs of the
application's topics. Imports the evidence, the causes, the tables and the records of `checkers`, never Spark.
"""

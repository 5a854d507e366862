"""Share groups (KIP-932): what their members were handed and acknowledged, and what is stored about it.

`history` holds the rows of one group and partition, and `findings` judges them. Runs in Spark's workers.
Reads only what `Evidence` holds; imports the evidence, the causes and the records of `checkers`, never Spark.
"""

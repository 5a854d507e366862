"""The fates of transactions: the answers to applications, what the logs decided, and where the two differ.

`answers` condenses the answers to the applications. `checkers.partition.decisions` finds the markers that
decided the records of one partition. `fates` puts both together, and `findings` explains what is wrong.
Runs in Spark's driver, `answers` in its workers too. Imports the kernel, the tables, the evidence and
the causes, never Spark.
"""

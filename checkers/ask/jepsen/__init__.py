"""A history as one of Jepsen's Kafka workload, for its checker.

Every message is a `:send` (those of a transaction are one), every poll of a reader is a `:poll`, and every
change of a reader's assignment or position an `:assign`. At the end one more process polls the leader's final
log. Records that the form has no words for are left out and counted: see docs/analysis.md.

Runs in the command's own process, without Spark; texts are built column by column.
Imports the tables, the schema of the history, and from `checkers.ask` only the history of a run.
"""

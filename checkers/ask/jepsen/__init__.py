"""A history in the form of Jepsen's Kafka workload, for Jepsen's checker.

Every message is a `:send` (the messages of a transaction together are one), every poll of a reader is a
`:poll`, and every change of a reader's assignment or position an `:assign`. At the end one more process polls
each final log. Records that the form cannot express are left out and counted: see docs/analysis.md.

Runs in the command's own process, without Spark; texts are built column by column.
Imports the tables, the schema of the history, from `checkers.ask` only the history of a run, and from
`checkers.partition` only which replica's log is the final one.
"""

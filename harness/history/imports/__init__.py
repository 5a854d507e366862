"""Recordings of other programs as histories: a class for each format, and what they share.

`formats` lists the formats, and `acked import` asks it. `format` says what a format states about itself,
`lines` and `edn` read files that nobody has to trust, and `recording` collects rows and writes the tables.
Adding a format takes a module with its class, and its line in `formats`. What a format does not tell stays
null in the tables, so that the checker takes it as not known.

Runs in the command's own process. Imports the schema, the tables and the identity of messages from
`harness.history`, and nothing that knows a cluster.
"""

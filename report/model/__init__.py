"""The report model: what the pages, tables and summaries of one run show, as plain data.

`gather.report_model` reads a run folder (`run.json`, `claims.json`, `judgement.json`, the history, life and
findings) into a `ReportModel`. It computes no verdict, starts no Spark, and reads Parquet with PyArrow. Runs
in the command. Imports `harness.history`, `harness.errors`, PyArrow and numpy.
"""

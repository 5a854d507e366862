"""The process in a client host: it carries out commands and records them in a journal of its own.

Never imports `workloads.client`, Spark or PyArrow: it must start fast and stay small.
"""

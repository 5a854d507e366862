"""Results for people: `terminal` shows the verdict of one run, `series` the tables of many.

Runs in the process of the command line. Gets plain data, decides nothing about it, and imports nothing of the
other rooms except `harness.errors`.
"""

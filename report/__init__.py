"""Results for people: `terminal` shows a run, `series` shows tables of runs, `page` shows a run as HTML.

Runs in the process of the command line. Gets plain data, decides nothing about it, and imports nothing of the
other rooms except `harness.errors` and the names of the verdicts (`checkers.verdict`).
"""

"""The general plan: the same fates and findings by relational operations alone, wherever the files are.

`steps` is the SQL that finds fates and findings, `life` completes their rows, and `run` runs both on Spark.

Runs in Spark's driver, except that causes are attributed in the workers by the code of the fast plan. It is
slower than the fast plan, because it shuffles. Tests use it as that plan's oracle. Imports what the fast plan
imports, and never the fast plan.
"""

"""Questions that a person asks of stored runs: free SQL, the story of one message, an export for other tools.

Runs in Spark's driver, on demand; no verdict depends on it.
"""

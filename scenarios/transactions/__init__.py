"""Transactions: what a producer is told, what the logs decide, and what a reader of committed records gets."""

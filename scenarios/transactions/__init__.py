"""Transactions: answers to the producer, what the logs decide, and what a reader of committed records gets.

Bodies run in the harness's process. Imports what `scenarios` may import.
"""

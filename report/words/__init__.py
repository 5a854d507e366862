"""Sentences about causes, details of findings and faults, from their records; nothing parses them.

They run in the command that shows a report. They may import nothing but each other and `harness.errors`.
"""

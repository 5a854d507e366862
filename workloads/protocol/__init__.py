"""What the harness and an agent say to each other: plain data that crosses the pipe as JSON lines.

Imported by both sides; imports nothing of either.
"""

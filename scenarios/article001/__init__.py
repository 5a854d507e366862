"""Article 001: losing and keeping messages, by scenario of partition and by cause of loss.

Bodies run in the harness's process. Imports what `scenarios` may import.
"""

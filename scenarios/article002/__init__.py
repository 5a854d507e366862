"""Articles 002 and 004: truncation to the high watermark, and leader epochs as its cure.

Bodies run in the harness's process. Imports what `scenarios` may import.
"""

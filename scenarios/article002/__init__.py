"""Articles 002 and 004: truncation to the high watermark, and leader epochs as its cure."""

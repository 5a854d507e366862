"""Tables on disk: what the checker reads (`source`) and what it writes (`output`).

`arrays` turns Arrow tables into the kernel's arrays, and `rows` turns the kernel's results into Arrow tables:
the rows of life and findings. `files` opens paths and URIs.

Runs in Spark's driver and workers alike. Imports PyArrow and numpy, never Spark, and from
`checkers` only this folder, `checkers.partition`, and the evidence and causes that rows of `life` carry.
"""

"""Tables on disk: what the checker reads (`source`) and what it writes (`output`).

Between the two, `arrays` makes the kernel's arrays of Arrow tables, and `rows` makes Arrow tables of them
again: the rows of life and findings. `hadoop` opens URIs.

Runs in Spark's driver and workers alike. Imports PyArrow and numpy, never Spark (except `hadoop`), and from
`checkers` only this folder, `checkers.partition`, and the evidence and causes that rows of `life` carry.
"""

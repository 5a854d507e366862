"""The history of a run: its schema, the journals that processes append to, and the tables made from them.

`schema` is the contract between the programs that record and the checkers, and imports nothing of the
project. `journal` and `identity` run in the harness and in the agents, and need neither PyArrow nor NumPy.
`assemble` and `tables` run in the harness once the run has ended. `document` and `example` generate
`docs/history.md`. Apart from each other these modules import only `harness.errors` and `harness.clock`.
"""

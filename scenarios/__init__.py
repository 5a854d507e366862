"""The catalogue: one module per case, each with a `SCENARIO` (or a tuple `SCENARIOS`), in a folder per article.

A scenario's body runs in the harness's process; its claims are data that the checker evaluates later. Imports
the stage and the terms of the harness, the nemesis's faults, the clients' settings and the builders of
claims; only the modules that write documents import the checkers or `report`.
"""

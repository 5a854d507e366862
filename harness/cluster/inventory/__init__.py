"""What the files of a cluster say about it: its nodes and settings, written as a cluster file.

`files` tells the kinds of files apart, `properties`, `compose` and `kubernetes` read one kind each, `live`
asks a cluster itself, and `model` has what they return and how it becomes TOML. Nothing is ever changed.
Runs in the harness's process. Imports `harness.kafka`, `harness.lab` and the settings of `harness.cluster`.
"""

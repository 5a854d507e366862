"""Faults: links, processes, disks and operator actions, each proven to have taken effect.

Runs in the harness's process. `nemesis.Nemesis` (in `nemesis.nemesis`) is what a scenario uses. Imports
`harness`, never clients or checkers.
"""

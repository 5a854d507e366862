"""Faults of links, processes and disks, and operator actions; each is proven to have its effect.

A scenario uses `nemesis.nemesis.Nemesis`; schedules and assessments use `nemesis.catalogue`. Runs in the
harness's process. Imports `harness`, never clients or checkers.
"""

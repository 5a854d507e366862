"""Faults of processes: killed, stopped, restarted or paused.

Runs in the harness's process, which signals the main processes of the lab's hosts. Imports the lab.
"""

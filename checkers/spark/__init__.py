"""Spark sessions: started and warmed up, on this machine or on a cluster, with a history's tables as views.

Runs in Spark's driver. Nothing here decides what a message's fate is.
"""

"""Watching a cluster from a place no fault reaches, and reading every replica at the end."""

"""The Compose lab: every host is a container on an internal network, driven through the Docker SDK.

Runs in the harness's process. Imports the Docker SDK, which the embedded lab never needs.
"""

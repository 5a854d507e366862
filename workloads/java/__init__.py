"""The official Java client as a program of the client protocol: one source file, compiled for each version.

Runs in client hosts, beside the agent, in a JVM. It imports kafka-clients and the JDK alone.
"""

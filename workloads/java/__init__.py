"""Kafka's own client as a client program.

`Agent.java` is compiled for each version of kafka-clients. It runs in client hosts, in a JVM beside the
agent, and imports kafka-clients and the JDK alone.
"""

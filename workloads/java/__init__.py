"""Kafka's own client as a client program.

`Agent.java` and its streams of load, `Stream.java`, are compiled for each version of kafka-clients. They run
in client hosts, in a JVM beside the agent, and import kafka-clients and the JDK alone.
"""

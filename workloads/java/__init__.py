"""Kafka's own clients as client programs: the Java client, and the verifiable tools.

They run in client hosts, beside the agent. `Agent.java` is the Java client, compiled for each version, in a
JVM. `verifiable.py` starts VerifiableProducer and VerifiableConsumer in JVMs and translates what they print;
`Feeder.java` is a plug-in of the former. They import kafka-clients, the JDK and Python's standard library
alone.
"""

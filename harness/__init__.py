"""What every run stands on: labs and their hosts, clusters, Kafka's nouns and wire, observer, history.

Runs in the harness's own process, outside the hosts of a lab. Imports no other package of the project.
"""

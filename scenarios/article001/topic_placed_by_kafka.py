"""Article 001, consensus: who leads the partitions of a topic whose replicas Kafka chooses.

The controller of a ZooKeeper cluster goes through the brokers in turn. That of a KRaft cluster
(`StripedReplicaPlacer`) does not count: in a run on 4.4.0 the brokers led 4, 2 and 4 of ten partitions.
"""

from __future__ import annotations

from checkers.claims.builders import about, condition, messages
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.scenario import Claim, Scenario
from run.stage import Stage
from scenarios.steps import seed, settle

TOPIC, PLACED = "t", Topic("placed", (), partitions=10)
"""The topic of the set-up, and one that is created without naming replicas."""
_LEADERS = (
    f"(SELECT host, count(DISTINCT partition) AS led FROM log_events WHERE kind = 'became_leader' "
    f"AND topic = '{PLACED.name}' GROUP BY host)"
)


def body(stage: Stage) -> None:
    """Create a topic of ten partitions, and wait until each has a leader."""
    seed(stage, TOPIC)
    stage.operator.create_topic(PLACED)
    stage.mark("created", "each partition has a leader")
    settle(stage)


SCENARIO = Scenario(
    name="topic-placed-by-kafka",
    title="A topic of ten partitions whose replicas Kafka chooses",
    article="001",
    section="consensus placement",
    body=body,
    setup=Setup(topics=(Topic(TOPIC, (1, 2, 3)),), broker_config={"default.replication.factor": "3"}),
    versions=("2.7.1", "3.9.1"),
    claims=(
        Claim(
            name="spread-evenly",
            section="001 consensus",
            quote="如果我们需要创建一个拥有10个分区的topic,同时副本数为3.控制节点需要为每个分区选举出leader副本,同时确保这些分区是均匀分布在所有broker节点中的",
            says="For each of ten partitions a leader is elected, and each of three brokers leads three or four of them.",
            holds=about(
                condition(
                    f"(SELECT CASE WHEN count(*) > 0 THEN count(*) = 3 AND sum(led) = 10 AND min(led) >= 3 END "
                    f"FROM {_LEADERS})",
                    f"(SELECT concat('partitions led: ', array_join(sort_array(collect_list(concat(host, ' ', led))), ', ')) "
                    f"FROM {_LEADERS})",
                ),
                since="begin",
                until="converged",
                tables=("log_events",),
            ),
        ),
        Claim(
            name="nothing-lost",
            section="beyond 001 consensus",
            says="Nothing that was acknowledged is lost.",
            holds=messages(acks=-1).kept(at_least=2),
        ),
    ),
    faults=("an operator creates a topic",),
    outcome="its leaders are spread evenly over the brokers",
)

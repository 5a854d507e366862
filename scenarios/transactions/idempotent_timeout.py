"""An idempotent producer writes a message twice after another message of it has timed out.

A message that has timed out in the client may or may not be in the log, so the next sequence number may leave a
gap. The client therefore takes a new producer epoch and begins at sequence number 0. It numbers messages anew
that were already sent and have no answer. The broker knows these by their old epoch and number only, and appends
them once more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from checkers.claims.builders import about, both, messages, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.waiting import wait_until
from run.scenario import Claim, Either, Expected, Scenario
from run.stage import Stage
from scenarios.steps import log_end_offset, require, settle, stand, wait_log_end_offset
from workloads.protocol.spec import Via

SECTION = "beyond the articles: idempotence"
TOPIC, ELSEWHERE = "t", "u"
LEADER, FOLLOWER = "broker1", "broker2"
HASTY, PATIENT = "times-out", "does-not-time-out"
"""The producers, by whether their first message times out before it is answered."""
REQUEST_S, DELIVERY_S, LONG_S = 14.0, 25.0, 120.0
"""Time-out of a request, of the hasty producer's messages, and of the patient one's, in s."""
BETWEEN_S = 12.0
"""From the first message to the second one: sent while the first request is under way, it times out later."""
FAILS_S = REQUEST_S + 1.0
"""From the time when the leader appends the second message until its request has failed."""
CONFIG: Mapping[Via, Mapping[str, int]] = {
    "librdkafka": {"topic.metadata.refresh.interval.ms": 300_000},
    "java": {"topic.metadata.refresh.interval.ms": 1_000},
}
"""librdkafka counts requests for metadata, which have no answer either, among the five that may be under way.

The Java client notices that a request has timed out only when something wakes its thread. Answers to requests
for metadata do, if they do not wait behind that request: the client must have a connection to another broker.
Otherwise the broker's answer comes first.
"""


def timing_out(via: Via) -> Callable[[Stage], None]:
    """The body for one client library."""

    def body(stage: Stage) -> None:
        """Let the leader wait for its follower until the first message of one producer has timed out."""
        producers = [
            stage.producer(
                "az3",
                name,
                via=via,
                idempotent=True,
                retries=1_000_000,
                request_timeout_s=REQUEST_S,
                delivery_timeout_s=delivery_s,
                config=CONFIG.get(via, {}),
            ).prepare(TOPIC)
            for name, delivery_s in ((HASTY, DELIVERY_S), (PATIENT, LONG_S))
        ]
        for producer in producers:
            producer.must_send(TOPIC, "known")
            producer.must_send(ELSEWHERE, "connects")
        stage.wait_replicated(TOPIC)
        require(stage.leader(TOPIC) == LEADER, f"{LEADER} leads {TOPIC}")
        end = log_end_offset(stage, LEADER, TOPIC)
        cut = stage.nemesis.cut(f"{LEADER} <-> {FOLLOWER}").inject()
        first = [producer.send_later(TOPIC, "first") for producer in producers]
        sent = stage.mark("first-sent", f"{LEADER} waits for {FOLLOWER} before it answers the first messages")
        wait_log_end_offset(stage, TOPIC, end + 2, LEADER)
        stand(stage, sent, BETWEEN_S)
        second = [producer.send_later(TOPIC, "second") for producer in producers]
        # A broker handles the second request of a connection only after it has answered the first one.
        wait_log_end_offset(stage, TOPIC, end + 4, LEADER)
        appended = stage.mark(
            "second-sent", f"the second messages are in the log of {LEADER}, too, and not answered"
        )
        stand(stage, appended, FAILS_S)
        wait_until(
            first[0].done,
            accept=bool,
            within_s=DELIVERY_S + 15,
            awaiting=f"the first message of {HASTY} to have timed out",
            abort=stage.cluster.check_alive,
        )
        require(not second[0].done(), f"the second message of {HASTY} has not timed out yet")
        stage.mark(
            "timed-out", f"the first message of {HASTY} has timed out; the second requests have failed"
        )
        cut.heal()
        results = [outcome.result(timeout=LONG_S + 30) for outcome in (*first, *second)]
        stage.mark(
            "answered", "; ".join(f"{result.label}: {result.outcome} {result.error}" for result in results)
        )
        for producer in producers:
            producer.must_send(TOPIC, "third")
        settle(stage)

    return body


def _numbered(producer: str, label: str, *numbers: str) -> str:
    """A producer's message has these numbers in the log, `producer epoch/sequence number`, of one producer id."""
    numbered = messages(producer, label=label)
    distinct_numbers = "array_join(sort_array(collect_set(concat(producer_epoch, '/', sequence))), ', ')"
    return about(
        f"SELECT CASE WHEN {{final:{TOPIC}}} IS NOT NULL AND count(*) > 0 "
        f"THEN {distinct_numbers} = '{', '.join(numbers)}' AND count(DISTINCT producer_id) = 1 END AS holds, "
        f"concat('{label} in producer epoch/sequence number ', {distinct_numbers}) AS observed "
        f"FROM (SELECT * FROM life WHERE {numbered.where}) m "
        f"JOIN copies c ON c.writer = m.writer AND c.seq = m.seq",
        numbered,
        tables=("life", "copies"),
    )


CLAIMS = (
    Claim(
        name="follower-in-sync",
        section=SECTION,
        says="The follower stays in the ISR, so that the leader waits for it before it answers.",
        holds=partition(TOPIC).has_isr(1, 2, at="timed-out"),
        precondition=True,
    ),
    Claim(
        name="timed-out-yet-written",
        section=SECTION,
        says="The first message of the producer with the short time-out is reported as timed out, and it is in the "
        "log.",
        holds=both(
            messages(HASTY, label="first").unanswered(),
            messages(HASTY, label="first").in_final_log(copies=1),
        ),
    ),
    Claim(
        name="next-one-twice",
        section=SECTION,
        says="Its second message is reported as delivered, and is in the log twice: with sequence number 2 of one "
        "producer epoch, and with number 0 of the next one.",
        holds=both(
            messages(HASTY, label="second").acknowledged(),
            messages(HASTY, label="second").in_final_log(copies=2),
            _numbered(HASTY, "second", "0/2", "1/0"),
        ),
        either=Either(
            says="It is reported as delivered, and is in the log once, with sequence number 2 of the first epoch.",
            because="the client takes a new epoch before the answer only if one of its requests fails after the "
            "first message has timed out; whether the client or the broker ends the waiting request first is a race",
            holds=both(
                messages(HASTY, label="second").acknowledged(),
                messages(HASTY, label="second").in_final_log(copies=1),
                _numbered(HASTY, "second", "0/2"),
            ),
        ),
    ),
    Claim(
        name="once-without-time-out",
        section=SECTION,
        says="The producer with the long time-out repeats its messages in the same epoch. Both are reported as "
        "delivered, and each is in the log once.",
        holds=both(
            messages(PATIENT, label=("first", "second")).acknowledged(at_least=2),
            messages(PATIENT, label=("first", "second")).in_final_log(copies=1, at_least=2),
            _numbered(PATIENT, "second", "0/2"),
        ),
    ),
    Claim(
        name="goes-on",
        section=SECTION,
        says="Both producers go on: the next message of each is written once.",
        holds=both(
            messages((HASTY, PATIENT), label="third").acknowledged(at_least=2),
            messages((HASTY, PATIENT), label="third").in_final_log(copies=1, at_least=2),
        ),
    ),
)
TITLES = {
    "librdkafka": "librdkafka writes a message twice after another one has timed out",
    "java": "The Java client writes a message twice after another one has timed out",
}
CLIENTS: tuple[Via, ...] = ("librdkafka", "java")
SCENARIOS = tuple(
    Scenario(
        name=f"idempotent-timeout-{via}",
        title=TITLES[via],
        article="transactions",
        section="idempotence",
        body=timing_out(via),
        setup=Setup(
            topics=(Topic(TOPIC, (1, 2)), Topic(ELSEWHERE, (3,))),
            controller="broker3",
            broker_config={"replica.lag.time.max.ms": "60000"},
            stream_rate=0,
        ),
        claims=CLAIMS,
        expected=(
            Expected(
                "duplicated",
                messages(HASTY, label="second").where,
                "the producer sent it again in a new epoch after its first message had timed out",
            ),
        ),
        faults=(f"cut {LEADER} <-> {FOLLOWER}",),
        kafka="4.3.1",
        mode="kraft-combined",
        outcome="written twice although idempotent, and reported as delivered once; written once without a time-out",
        versions=("3.9.1", "4.3.1"),
    )
    for via in CLIENTS
)

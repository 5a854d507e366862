"""Code that the scenarios of KRaft quorums share: a request for a topic, and the epoch of a leader without voters."""

from __future__ import annotations

from functools import partial

from checkers.claims.builders import Controller, both, opposite
from harness.kafka.model import Topic
from harness.kafka.wire.admin import create_topics
from harness.kafka.wire.connection import NoAnswerError
from run.scenario import Claim, Erratum
from run.stage import Stage

RESIGNS = "since 3.7.0 (KAFKA-15489) a leader that hears no majority for 1.5 fetch time-outs resigns"


def ask_for_topic(stage: Stage, host: str, topic: str, patience_s: float, name: str) -> None:
    """Ask one broker to create a topic, like an operator who reaches no other; a mark records the outcome."""
    endpoint = stage.lab.topology.host(host).broker_endpoint
    topics = [Topic(topic, (1, 2, 3))]
    try:
        answer = create_topics(endpoint, topics, wait_ms=int(patience_s * 1000), timeout_s=patience_s)[topic]
    except NoAnswerError:
        stage.mark(f"{name}-unanswered", f"{host} gave no answer to 'create {topic}' in {patience_s:g} s")
        return
    outcome = "done" if answer.error == 0 else "refused"
    stage.mark(f"{name}-{outcome}", f"{host} answered 'create {topic}' with error {answer.error}")


def bumps_epoch(leader: Controller, says: str, *, since: str, until: str) -> tuple[Claim, Claim]:
    """KIP-595: a leader that reaches no voter keeps starting elections. There are two errata, before and since 3.7.0."""
    quote = (
        "If it couldn't connect to any known voter, the old leader shall keep starting new elections and bump "
        "the epoch"
    )
    bumped = leader.epoch_rises(at_least=2, since=since, until=until)
    claim = partial(Claim, name="bumps-epoch", section="003, KIP-595", quote=quote, says=says, holds=bumped)
    before = claim(
        before="3.7.0",
        erratum=Erratum(
            says="It starts no election: its epoch stays.",
            because="KIP-595 said so, but before 3.7.0 it was not implemented (KAFKA-13621, KAFKA-15489)",
            holds=leader.epoch_stays(since=since, until=until),
        ),
    )
    after = claim(
        since="3.7.0",
        erratum=Erratum(
            says="It rises by 1 as the leader resigns, and no further: it asks in vain whether it could win.",
            because="since 4.0.0 a voter asks for pre-votes before it starts an election (KIP-996)",
            since="4.0.0",
            holds=both(leader.epoch_rises(since=since, until=until), opposite(bumped)),
        ),
    )
    return before, after

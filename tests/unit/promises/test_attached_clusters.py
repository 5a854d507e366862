"""Findings of recordings: of somebody else's cluster, what nobody can know decides nothing."""

from __future__ import annotations

from tests.unit.promises.runs import Run


def recorded(acks: int = -1) -> Run:
    """Broker 1 led, and broker 2 does after it fell silent; broker 3 answers at all times."""
    run = Run(kafka=None, attached=True).writer(acks).safe()
    run.state(0, 1, 0, 1, 2, 3, source="broker3").state(14, 2, 1, 2, 3, source="broker3")
    for broker in (1, 2, 3):
        run.answers(broker, 0)
    return run.answers(1, 11, silent=True).answers(1, 20)


def test_a_loss_breaks_a_promise_while_an_in_sync_replica_answered_at_all_times() -> None:
    judged = recorded().judge("lost")
    assert judged.promise == "broken"


def test_a_loss_with_acks_1_is_not_promised_after_an_election() -> None:
    judged = recorded(acks=1).judge("lost")
    assert (judged.promise, judged.row) == ("not promised", "acks-1-leader")


def test_whether_brokers_that_were_all_silent_lost_data_is_unknown() -> None:
    run = recorded()
    run.answers(2, 12, silent=True).answers(2, 13).answers(3, 12, silent=True).answers(3, 13)
    judged = run.judge("lost")
    assert (judged.promise, judged.reason) == ("unknown", "whether a replica lost data is not known")


def test_a_cluster_of_acked_judges_the_same_views_by_its_processes() -> None:
    run = recorded()
    run.attached = False
    run.answers(2, 12, silent=True).answers(2, 13).answers(3, 12, silent=True).answers(3, 13)
    assert run.judge("lost").promise == "broken"


def test_an_acks_1_loss_is_unknown_if_the_leader_was_only_silent() -> None:
    run = Run(kafka=None, attached=True).writer(1).safe().state(0, 1, 0, 1, 2, 3, source="broker3")
    run.answers(1, 0).answers(1, 11, silent=True).answers(1, 12)
    judged = run.judge("lost")
    assert (judged.promise, judged.reason) == (
        "unknown",
        "whether broker1 failed while it did not answer is not known",
    )


def test_who_elected_an_unclean_leader_is_unknown() -> None:
    run = recorded().state(15, 1, 2, 1, source="broker3")
    judged = run.judge("lost")
    assert judged.promise == "unknown"
    assert "operator" in judged.reason


def test_a_setting_that_has_changed_is_unknown() -> None:
    run = recorded().config("unclean.leader.election.enable", "true")
    facts = run.facts()
    assert facts.topic_config("t", "unclean.leader.election.enable") is None
    assert facts.topic_config("t", "min.insync.replicas") == "2"


def test_a_stated_fault_decides_nothing() -> None:
    run = recorded().add(
        "faults",
        ns=10**10,
        fault=1,
        name="az1 had no power",
        kind="process",
        moment="injected",
        targets='{"hosts": ["broker1", "broker2", "broker3"]}',
        mechanism="power_cut",
        stated=True,
    )
    assert run.judge("lost").promise == "broken"
    run.rows["faults"][0]["stated"] = False
    run.attached = False
    run.down(1, 11, 20).down(2, 11, 20).down(3, 11, 20)
    assert run.judge("lost").promise != "broken"


def test_damage_to_files_is_not_known() -> None:
    judged = recorded().judge("corrupt", brokers=[1])
    assert judged.promise == "unknown"


def test_a_replica_of_a_broker_that_is_silent_at_the_end_is_unknown() -> None:
    run = recorded().replica(2, ns=60 * 10**9, in_sync=True).answers(1, 30, silent=True)
    judged = run.judge("not_converged", brokers=[1], acked_ns=None)
    assert (judged.promise, judged.reason) == (
        "unknown",
        "why broker1 did not answer at the end is not known",
    )

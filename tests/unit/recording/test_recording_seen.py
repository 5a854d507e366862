"""What the observer of a recording sees to break by itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import pytest

from harness.history.assemble import assemble
from harness.history.journal import Journal
from harness.history.tables import read_table
from harness.kafka.model import PartitionState, TopicPartition
from harness.observer.views import View, Views
from run.recording.seen import Incarnations, LedLog, Seen, TopicIds

KEY = TopicPartition("acked-1", 0)
FIRST, SECOND = UUID(int=1), UUID(int=2)
HERE: TopicIds = {KEY.topic: FIRST}
AGAIN: TopicIds = {KEY.topic: SECOND}
UNNAMED: TopicIds = {KEY.topic: None}
ABSENT: TopicIds = {}


@pytest.fixture
def seen(tmp_path: Path) -> Seen:
    journal = Journal(tmp_path / "journal" / "harness.jsonl")
    return Seen(
        views=Views(journal),
        journal=journal,
        brokers=(0, 7),
        partitions=(KEY,),
        incarnations=Incarnations(topic=KEY.topic, ids={FIRST}),
        ask_ids=lambda _broker: {KEY.topic: FIRST},
        watermarks=lambda _broker, _key: None,
    )


def state(leader: int, epoch: int, *isr: int) -> PartitionState:
    return PartitionState(leader=leader, leader_epoch=epoch, isr=isr, replicas=(0, 7))


def look(seen: Seen, stated: PartitionState, *silent: int) -> None:
    """Both brokers state it, unless they are silent."""
    for broker in (0, 7):
        source = f"broker{broker}"
        error = "timed out" if broker in silent else None
        views = [View(source=source, subject="reachable", error=error)]
        if not error:
            views.append(View(source=source, subject="partition", topic_partition=KEY, state=stated))
        seen.views.record(views)
    seen.look()


def marks(seen: Seen, folder: Path) -> list[str]:
    seen.journal.close()
    assemble(folder)
    names: list[str] = read_table(folder, "marks")["name"].to_pylist()
    return names


def test_a_quiet_cluster_gives_no_marks(seen: Seen, tmp_path: Path) -> None:
    for _ in range(3):
        look(seen, state(0, 0, 0, 7))
    assert set(seen.as_json().values()) == {0}
    assert marks(seen, tmp_path) == []


def test_a_new_reason_for_a_silence_is_marked(seen: Seen, tmp_path: Path) -> None:
    look(seen, state(0, 0, 0, 7))
    for reason in ("refused", "refused", "the certificate has expired", "refused"):
        seen.views.record([View(source="broker7", subject="reachable", error=reason)])
        seen.look()
    look(seen, state(0, 0, 0, 7))
    assert seen.counts["broker-silent"] == 1
    assert marks(seen, tmp_path) == ["broker-silent", "still-silent", "broker-answers"]


def test_each_change_is_marked_once(seen: Seen, tmp_path: Path) -> None:
    look(seen, state(0, 0, 0, 7))
    look(seen, state(0, 0, 0, 7), 0)
    look(seen, state(0, 0, 0, 7), 0)
    look(seen, state(7, 1, 7), 0)
    look(seen, state(7, 1, 7))
    look(seen, state(7, 1, 0, 7))
    counted = {name: count for name, count in seen.as_json().items() if count}
    assert counted == {"broker-silent": 1, "leader-changed": 1, "isr-shrunk": 1}
    assert marks(seen, tmp_path) == [
        "broker-silent",
        "leader-changed",
        "isr-shrunk",
        "broker-answers",
        "isr-full",
    ]


def test_a_partition_without_a_leader_is_marked(seen: Seen) -> None:
    look(seen, state(0, 0, 0))
    look(seen, state(-1, 1, 0))
    look(seen, state(0, 2, 0))
    assert seen.as_json()["no-leader"] == 1
    assert seen.as_json()["leader-changed"] == 1


@pytest.mark.parametrize(
    ("looks", "deletions"),
    [
        ([{0: HERE, 7: HERE}] * 3, 0),
        ([{0: HERE, 7: AGAIN}], 1),  # broker 0 is cut off
        ([{0: AGAIN, 7: AGAIN}, {0: HERE, 7: AGAIN}, {0: AGAIN, 7: AGAIN}], 1),
        ([{0: ABSENT, 7: HERE}] * 3, 0),  # broker 0 has just started
        ([{0: ABSENT}] * 3, 0),
        ([{0: ABSENT, 7: ABSENT}], 0),
        ([{0: ABSENT, 7: ABSENT}, {0: UNNAMED, 7: UNNAMED}, {0: ABSENT, 7: ABSENT}], 0),
        ([{0: ABSENT, 7: ABSENT}] * 3, 1),
        ([{0: ABSENT, 7: ABSENT}] * 3 + [{0: UNNAMED, 7: UNNAMED}] + [{0: ABSENT, 7: ABSENT}] * 2, 2),
        ([{}] * 3, 0),
    ],
)
def test_a_deletion_is_told_from_a_broker_that_does_not_know_the_topic(
    looks: Sequence[dict[int, TopicIds]], deletions: int
) -> None:
    incarnations = Incarnations(topic=KEY.topic, ids={FIRST})
    assert [bool(incarnations.look(stated, 2)) for stated in looks].count(True) == deletions


def test_a_topic_that_was_deleted_and_created_again_is_one_deletion(seen: Seen, tmp_path: Path) -> None:
    """Its messages were removed, both times at which it is seen."""
    for stated in (ABSENT, ABSENT, AGAIN, AGAIN):
        seen.ask_ids = lambda _broker, stated=stated: stated  # type: ignore[misc]
        seen._asked_ns = 0
        look(seen, state(0, 0, 0, 7))
    assert seen.as_json()["topic-deleted"] == 1
    assert marks(seen, tmp_path) == ["topic-deleted"]
    rows = read_table(tmp_path, "log_events").to_pylist()
    assert [(one["kind"], one["topic"]) for one in rows] == [("topic_deleted", KEY.topic)] * 2


@pytest.mark.parametrize(
    ("stated", "anew_since"),
    [
        ([LedLog(0, 90, 100), LedLog(0, 95, 120), LedLog(0, 95, 120)], None),
        ([LedLog(0, 90, 100), LedLog(0, 2, 3), LedLog(0, 4, 5)], None),  # not for long enough
        ([LedLog(0, 90, 100), *[LedLog(0, 80, 95)] * 5], None),  # deposed, truncated to what is committed
        ([LedLog(0, 90, 100), LedLog(1, 2, 3), *[LedLog(1, 3, 3)] * 3], None),  # an unclean election
        ([LedLog(0, 90, 100), LedLog(0, 2, 3), LedLog(1, 2, 3), *[LedLog(1, 90, 90)] * 2], None),  # deposed
        ([LedLog(0, 9, 10), LedLog(0, 2, 3), LedLog(0, 20, 20), LedLog(0, 30, 30)], 1),
        ([LedLog(0, 90, 100), *[LedLog(0, 2, 3)] * 4], 1),
        ([LedLog(3, 90, 100), *[LedLog(0, 200, 200)] * 4], 1),
    ],
)
def test_a_leader_that_states_less_than_before_leads_another_topic(
    stated: Sequence[LedLog], anew_since: int | None
) -> None:
    """Looks are a second apart, and it must last for two."""
    incarnations = Incarnations(topic=KEY.topic)
    found = [incarnations.look_at_leader(0, KEY, one, second * 10**9) for second, one in enumerate(stated)]
    assert [one // 10**9 for one in found if one is not None] == ([] if anew_since is None else [anew_since])


def test_a_topic_without_an_id_that_begins_anew_was_deleted(
    seen: Seen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers never say that there is none: it was created again between two looks."""
    seen.ask_ids = lambda _broker: UNNAMED  # type: ignore[misc]
    seen.incarnations.ids.clear()
    offsets, second = (90, 100), 0
    seen.watermarks = lambda _broker, _key: offsets  # type: ignore[misc]
    monkeypatch.setattr("run.recording.seen.now_ns", lambda: second * 10**9)
    for second in range(1, 8):
        offsets = (90, 100) if second < 3 else (second, second)
        look(seen, state(0, 0, 0, 7))
    assert seen.as_json()["topic-deleted"] == 1
    for second in range(20, 30):  # and again, now for two seconds: its new log is no third deletion
        seen.ask_ids = lambda _broker, second=second: ABSENT if second < 22 else UNNAMED  # type: ignore[misc]
        offsets = (5, 6) if second < 23 else (1, 1)
        look(seen, state(0, 0, 0, 7))
    assert seen.as_json()["topic-deleted"] == 2
    seen.journal.close()
    assemble(tmp_path)
    rows = read_table(tmp_path, "log_events").to_pylist()
    assert [(row["kind"], row["ns"] // 10**9) for row in rows] == [
        ("topic_deleted", 3),
        ("topic_deleted", 21),
    ]

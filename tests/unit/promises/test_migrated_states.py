"""Which statements about partitions count while the metadata moves from ZooKeeper to KRaft."""

from __future__ import annotations

from tests.unit.promises.runs import Run, S

KEY = ("t", 0)


def _epochs(run: Run) -> list[int]:
    return [state.epoch for state in run.facts().states[KEY]]


def _recorded() -> Run:
    """ZooKeeper's last word is epoch 1; broker 1 has heard of epoch 2 from elsewhere."""
    run = Run(mode="migration").state(1, 1, 0, 1, 2, 3).state(2, 2, 1, 2, 3)
    return run.state(3, 1, 2, 1, 2, source="broker1")


def test_brokers_count_once_there_are_kraft_controllers() -> None:
    """After the migration is final, ZooKeeper hears nothing more."""
    run = _recorded().add("views", ns=2 * S, source="controller2", subject="controller", controller=12)
    assert _epochs(run) == [0, 1, 2]


def test_zookeeper_alone_counts_without_them() -> None:
    assert _epochs(_recorded()) == [0, 1]

"""Large packets vanish between the leader and its followers, as behind a router with a small MTU."""

from acked import (
    Claim,
    InvalidRunError,
    Scenario,
    Setup,
    Stage,
    StreamLoad,
    Topic,
    WaitTimeoutError,
    wait_until,
)
from acked.claims import both, messages, partition
from acked.faults import Evidence, Host, Lab, Targets
from acked.steps import seed, settle

TOPIC = "t"


class BlackHole:
    """A custom fault: packets above a size, from one host to others, are dropped."""

    kind = "link"
    mechanism = "other"
    undoable = True
    ends_processes = False

    def __init__(self, lab: Lab, source: str, *destinations: str, above: int = 600) -> None:
        self.name = f"black hole above {above} bytes from {source}"
        self._lab, self._source, self._above = lab, lab.topology.host(source), above
        self._destinations = [lab.topology.host(name) for name in destinations]

    def targets(self) -> Targets:
        return {
            "links": [f"{self._source.name} -> {host.name}" for host in self._destinations],
            "above_bytes": self._above,
        }

    def inject(self) -> None:
        for host in self._destinations:
            self._iptables(host, "-I", "INPUT", *self._rule())

    def verify(self) -> Evidence:
        """Wait until a packet has been dropped: a fault without an effect proves nothing."""
        try:
            dropped = wait_until(self._dropped, within_s=10, awaiting="the black hole to swallow a packet")
        except WaitTimeoutError as error:
            raise InvalidRunError(f"{self.name} had no effect: {error.message}") from error
        return {"dropped_packets": dropped}

    def heal(self) -> None:
        for host in self._destinations:
            self._iptables(host, "-D", "INPUT", *self._rule(), may_fail=True)

    def verify_healed(self) -> Evidence:
        listings = [self._iptables(host, "-S", "INPUT") for host in self._destinations]
        left = [line for listing in listings for line in listing.splitlines() if "--length" in line]
        if left:
            raise InvalidRunError(f"{self.name} left rules behind: {'; '.join(left)}.")
        return {}

    def _rule(self) -> tuple[str, ...]:
        return ("-s", self._source.address, "-m", "length", "--length", f"{self._above}:65535", "-j", "DROP")

    def _dropped(self) -> int:
        listings = [self._iptables(host, "-nvxL", "INPUT") for host in self._destinations]
        lines = [line for listing in listings for line in listing.splitlines()]
        return sum(int(line.split()[0]) for line in lines if f"length {self._above}:" in line)

    def _iptables(self, host: Host, *words: str, may_fail: bool = False) -> str:
        done = self._lab.execute(host.name, ["iptables", *words])
        if done.status and not may_fail:
            raise InvalidRunError(f"{self.name}: iptables {' '.join(words)} failed: {done.stderr.strip()}")
        return done.stdout


def body(stage: Stage) -> None:
    """Large records flow to the leader while the black hole exists; then it is removed."""
    seed(stage, TOPIC)
    large = StreamLoad(topic=TOPIC, partitions=(0,), rate=10, size_bytes=2000, max_count=300)
    stage.start_stream("az1", "az1-large", large)
    with stage.nemesis.add(BlackHole(stage.lab, "broker1", "broker2", "broker3")):
        stage.mark("hole", "large packets from broker1 to the other brokers vanish")
        stage.wait_for_isr(TOPIC, 1, within_s=30)
        stage.mark("shrunk", "broker1 is alone in the ISR")
    stage.stop_streams()
    settle(stage, TOPIC)


T = partition(TOPIC)
SCENARIO = Scenario(
    name="black-hole",
    title="Large packets vanish between the leader and its followers",
    body=body,
    setup=Setup(topics=(Topic(TOPIC, (1, 2, 3)),)),
    claims=(
        Claim(
            name="isr-shrinks",
            says="Followers that cannot fetch large records leave the ISR; the leader goes on alone.",
            holds=T.is_led_by(1, isr=(1,), epoch=0, at="shrunk"),
        ),
        Claim(
            name="nothing-lost",
            says="Nothing that was acknowledged is lost, and the followers catch up.",
            holds=both(
                messages(acks=-1).none_lost(at_risk_after="hole", at_least=10),
                T.is_led_by(1, isr=(1, 2, 3), at="converged"),
            ),
        ),
    ),
    faults=("a black hole for large packets",),
    outcome="the followers leave the ISR, and nothing is lost",
)

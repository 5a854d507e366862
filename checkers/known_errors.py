"""Lines that Kafka and ZooKeeper log as ERROR although they behave as designed under a fault.

They were seen on the versions of the catalogue. An unlisted line is a finding. A listed line is a finding
only before the first fault, unless it may come at ``any_time``.
"""

from __future__ import annotations

from typing import NamedTuple


class KnownError(NamedTuple):
    """Part of a log line, and why the line is not a finding."""

    part: str
    because: str
    any_time: bool = False


KNOWN_ERRORS = (
    KnownError(
        "Unexpected exception causing shutdown while sock still open",
        "ZooKeeper's leader lost a follower: its link was cut, or its process ended or joined anew",
        any_time=True,
    ),
    KnownError(
        "Unexpected exception in LearnerHandler",
        "the same, in the words of ZooKeeper 3.8",
        any_time=True,
    ),
    KnownError(
        "Severe unrecoverable error, from thread : SyncThread:",
        "a ZooKeeper follower lost its leader while it acknowledged a write; it joins again (ZOOKEEPER-4409)",
        any_time=True,
    ),
    KnownError(
        "Unhandled scenario for peer sid:",
        "ZooKeeper's leader sends a follower all data, because its log does not show what the follower lacks",
    ),
    KnownError(
        "Error closing a command socket",
        "a ZooKeeper node that starts alone was asked for its state before it had read its data (3.4)",
        any_time=True,
    ),
    *(
        KnownError(
            part,
            "a ZooKeeper node joins an elected leader that does not listen yet; it holds another election",
            any_time=True,
        )
        for part in (
            "Unexpected exception, retries exceeded. tries=",
            "Unexpected exception, initLimit exceeded. tries=",
            "Failed connect to /",
        )
    ),
    KnownError(
        "Failed to send last message. Shutting down thread.",
        "two ZooKeeper nodes connected to each other at once: one is dropped, the other carries on",
        any_time=True,
    ),
    KnownError(
        "Received LeaderAndIsrRequest with correlation id",
        "a broker cannot follow yet: it does not know the leader to be alive",
    ),
    KnownError(
        "failed to change state for partition",
        "the controller found no live replica in the ISR: the partition stays offline, as it must",
    ),
    *(
        KnownError(part, "the controller's ZooKeeper session expired while it acted; another one is elected")
        for part in (
            "initiated state change of replica",
            "Error while electing or becoming controller on broker",
            "Error processing event Reelect",
        )
    ),
    KnownError("fails to send a request to broker", "the controller does not reach a broker"),
    KnownError("Error when handling request: clientId=", "a request of a former controller"),
    *(
        KnownError(
            f"Unexpected error handling request RequestHeader(apiKey={request}", "the same, from 3.0 on"
        )
        for request in ("UPDATE_METADATA", "LEADER_AND_ISR", "STOP_REPLICA")
    ),
    KnownError(
        "Unexpected error handling request RequestHeader(apiKey=INIT_PRODUCER_ID",
        "a broker that does not reach its controller gets no producer ids to hand out",
    ),
    KnownError(
        "is identified as a known static member",
        "a member with the same group.instance.id has taken its place, and it is fenced",
    ),
    KnownError(
        "does not meet the required replication factor",
        "a client asks a broker for a coordinator that has just started and knows no other broker yet",
        any_time=True,
    ),
    KnownError(
        "the partition is not online or is no longer the leader",
        "leadership of a coordinator's partition moved while the coordinator loaded it",
    ),
    KnownError(
        "failed due to CoordinatorWriteEvent(name=Timeout(",
        "a group coordinator that is cut off cannot record that a member is gone (from 4.0 on)",
    ),
    KnownError(
        "failed due to For requests intended only for the leader",
        "the same of a broker that has just lost the partition of the group (seen on 4.3.1)",
    ),
    KnownError(
        "Write request leader epoch is smaller than last recorded current",
        "a leader that lost a partition of a share group gives back what members had; the share coordinator "
        "refuses that state, because the next leader has read it (4.4.0)",
    ),
    KnownError("Failed to update ISR for partition", "a controller without ZooKeeper (from 2.8 on)"),
    KnownError(
        "failed due to unsupported version error (KafkaNetworkChannel)",
        "a controller asks an older one for a pre-vote (KIP-996), then for a vote",
        any_time=True,
    ),
    KnownError("Received error STALE_CONTROLLER_EPOCH", "a request of a deposed controller"),
    KnownError(
        "Error processing append operation on partition", "fewer in-sync replicas than acks=all needs"
    ),
    KnownError("Error processing fetch with max size", "a replica that was just moved or fenced"),
    KnownError("Error processing create topic request", "a controller without its metadata store"),
    KnownError(
        "Uncaught exception in scheduled task 'isr-expiration'", "a leader without ZooKeeper (IBP < 2.7)"
    ),
    KnownError("Uncaught error in request completion", "a response to a controller that has resigned"),
    KnownError(
        "Error for partition",
        "a follower asks one that does not lead: leadership moved, or the leader does not know yet",
        any_time=True,
    ),
    KnownError(
        "Unexpected error handling request RequestHeader(apiKey=CONTROLLER_REGISTRATION",
        "a controller registers while the quorum has no active one yet",
        any_time=True,
    ),
    KnownError(
        "Unexpected error handling request RequestHeader(apiKey=BROKER_HEARTBEAT",
        "a heartbeat reached a controller that is not, or no longer, the active one",
        any_time=True,
    ),
    KnownError(
        "Unexpected error handling request Forwarded request: RequestContext(",
        "a broker forwarded an operator's request to a controller that is not, or no longer, the active one",
    ),
    KnownError(
        "Unexpected error handling request RequestHeader(apiKey=API_VERSIONS",
        "a starting controller gets a request before its quorum's client exists (seen with 3.9.1)",
    ),
    KnownError(
        "Unexpected error handling request RequestHeader(apiKey=ASSIGN_REPLICAS_TO_DIRS",
        "a broker that registers anew reports its replicas' directories with its former epoch, then again",
    ),
    KnownError("assignments failed; global error", "the same, in the log of the broker"),
    KnownError(
        "RegistrationResponseHandler: channel manager timed out",
        "no controller is active yet, or it was slow to answer",
        any_time=True,
    ),
    KnownError(
        "Graceful shutdown of RaftClient failed",
        "a leader of the quorum was stopped while it was cut off: it waited in vain for its successor",
    ),
    KnownError(
        "Failed to complete initial ACL load process.",
        "a KRaft node with an authorizer was stopped: until 3.6 it says so although it had loaded the ACLs "
        "(apache/kafka pull request 14953)",
    ),
    KnownError(
        "Unexpected error REQUEST_TIMED_OUT in UPDATE_RAFT_VOTER response",
        "the quorum's leader could not yet commit what a voter said of itself; the voter sends it again",
        any_time=True,
    ),
    KnownError(
        " to exist, but it was missing. Creating...",
        "on KRaft, a broker gets its first replica of a partition that exists already: it is reassigned",
    ),
    KnownError("Exceptionally slow controller event", "the machine is busy", any_time=True),
    KnownError(
        "processExpiredBrokerHeartbeat: controller event queue overloaded",
        "the machine is busy",
        any_time=True,
    ),
)

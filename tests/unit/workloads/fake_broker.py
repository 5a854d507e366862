"""A broker in the test's process that answers produce requests as the test requires, on loopback sockets."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import struct
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafka.protocol.producer import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
)
from kafka.protocol.producer.transaction import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from kafka.record import MemoryRecords

from harness.kafka.model import Endpoint

NODE = 7
_REQUESTS = {
    request.API_KEY: (request, response, span)
    for request, response, span in (
        (ProduceRequest, ProduceResponse, (3, 12)),
        (FetchRequest, FetchResponse, (4, 11)),
        (ListOffsetsRequest, ListOffsetsResponse, (1, 5)),
        (MetadataRequest, MetadataResponse, (1, 8)),
        (ApiVersionsRequest, ApiVersionsResponse, (0, 3)),
        (InitProducerIdRequest, InitProducerIdResponse, (0, 4)),
        (AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, (0, 1)),
        (EndTxnRequest, EndTxnResponse, (0, 5)),
        (AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, (0, 4)),
        (TxnOffsetCommitRequest, TxnOffsetCommitResponse, (0, 5)),
        (OffsetCommitRequest, OffsetCommitResponse, (2, 9)),
        (OffsetFetchRequest, OffsetFetchResponse, (1, 9)),
    )
}


@dataclass(frozen=True)
class Act:
    """What the broker does with one produce request: its error, and whether it appends, replies or closes."""

    error: int = 0
    append: bool = True
    reply: bool = True
    close: bool = False
    after_s: float = 0.0
    """Delay of its answer."""


@dataclass
class FakeBroker:
    """Leads all partitions of every topic, which share their offsets.

    Each produce request uses one of ``acts``; later ones succeed.
    """

    acts: deque[Act] = field(default_factory=deque)
    values: list[bytes] = field(default_factory=list)
    """Values of the appended records of all topics, in order."""
    homes: list[str] = field(default_factory=list)
    """Topic and partition of each of ``values``."""
    keys: list[bytes | None] = field(default_factory=list)
    """The key of each of ``values``."""
    partitions: int = 1
    batches: list[bytes] = field(default_factory=list)
    produce_versions: list[int] = field(default_factory=list)
    coordinates: deque[int] = field(default_factory=deque)
    """Error codes that it answers as a coordinator, one a request; then all succeed."""
    identifies: deque[int] = field(default_factory=deque)
    """Error codes for producers that want an id without transactions, one a request; then all succeed."""
    committed: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """Committed offsets by group, topic and partition."""
    asked: list[tuple[str, Any]] = field(default_factory=list)
    """The requests to the coordinator, in order."""
    arrived: list[tuple[int, str]] = field(default_factory=list)
    """The port of the client and the kind of each request, in order."""
    open: list[socket.socket] = field(default_factory=list)
    """The connections that it has accepted."""

    def __enter__(self) -> FakeBroker:
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint("127.0.0.1", self.port)

    def disconnect(self) -> None:
        """Close every connection."""
        for accepted in self.open:
            with contextlib.suppress(OSError):
                accepted.shutdown(socket.SHUT_RDWR)

    def produce(self, request: Any) -> tuple[Any, Act]:
        act = self.acts.popleft() if self.acts else Act()
        self.produce_versions.append(request.API_VERSION)
        topic = request.topic_data[0]
        partitions = []
        for part in topic.partition_data:
            offset = -1
            if act.append:
                offset = len(self.values)
                data = bytes(part.records)
                records = [record for batch in MemoryRecords(data) for record in batch]
                values = [record.value for record in records]
                self.values += values
                self.keys += [record.key for record in records]
                self.homes += len(values) * [f"{topic.name}/{part.index}"]
                self.batches.append(struct.pack(">q", offset) + data[8:])
            answer = ProduceResponse.TopicProduceResponse.PartitionProduceResponse(
                index=part.index, error_code=act.error, base_offset=offset, log_append_time_ms=-1
            )
            partitions.append(answer)
        entry = ProduceResponse.TopicProduceResponse(name=topic.name, partition_responses=partitions)
        return ProduceResponse(responses=[entry], throttle_time_ms=0), act

    def fetch(self, request: Any) -> Any:
        topic = request.topics[0]
        part = topic.partitions[0]
        records = b"".join(
            batch for batch in self.batches if struct.unpack(">q", batch[:8])[0] >= part.fetch_offset
        )
        shape = FetchResponse.FetchableTopicResponse
        end = len(self.values)
        data = shape.PartitionData(
            partition_index=part.partition,
            error_code=0,
            high_watermark=end,
            last_stable_offset=end,
            log_start_offset=0,
            aborted_transactions=[],
            preferred_read_replica=-1,
            records=records,
        )
        return FetchResponse(
            throttle_time_ms=0,
            error_code=0,
            session_id=0,
            responses=[shape(topic=topic.topic, partitions=[data])],
        )

    def list_offsets(self, request: Any) -> Any:
        shape = ListOffsetsResponse.ListOffsetsTopicResponse
        topics = [
            shape(
                name=topic.name,
                partitions=[
                    shape.ListOffsetsPartitionResponse(
                        partition_index=part.partition_index,
                        error_code=0,
                        timestamp=-1,
                        offset=0 if part.timestamp == -2 else len(self.values),
                        leader_epoch=0,
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return ListOffsetsResponse(throttle_time_ms=0, topics=topics)

    def metadata(self, request: Any) -> Any:
        names = [topic.name for topic in request.topics or []] or ["t"]
        shape = MetadataResponse.MetadataResponseTopic
        parts = [
            shape.MetadataResponsePartition(
                error_code=0,
                partition_index=number,
                leader_id=NODE,
                leader_epoch=0,
                replica_nodes=[NODE],
                isr_nodes=[NODE],
                offline_replicas=[],
            )
            for number in range(self.partitions)
        ]
        return MetadataResponse(
            throttle_time_ms=0,
            brokers=[
                MetadataResponse.MetadataResponseBroker(
                    node_id=NODE, host="127.0.0.1", port=self.port, rack=None
                )
            ],
            cluster_id="fake",
            controller_id=NODE,
            topics=[shape(error_code=0, name=name, is_internal=False, partitions=parts) for name in names],
        )

    def add_partitions(self, request: Any) -> Any:
        error = self._coordinate("add", request)
        shape = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
        results = [
            shape(
                name=topic.name,
                results_by_partition=[
                    shape.AddPartitionsToTxnPartitionResult(
                        partition_index=number, partition_error_code=error
                    )
                    for number in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ]
        return AddPartitionsToTxnResponse(throttle_time_ms=0, results_by_topic_v3_and_below=results)

    def init_producer_id(self, request: Any) -> Any:
        if request.transactional_id:
            error = self._coordinate("init", request)
        else:
            error = self.identifies.popleft() if self.identifies else 0
        return InitProducerIdResponse(throttle_time_ms=0, error_code=error, producer_id=1, producer_epoch=0)

    def end(self, request: Any) -> Any:
        error = self._coordinate("end", request)
        return EndTxnResponse(
            throttle_time_ms=0,
            error_code=error,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch + 1,
        )

    def commit_offset(self, request: Any) -> Any:
        error = self._coordinate("commit", request)
        (topic,) = request.topics
        (part,) = topic.partitions
        if not error:
            self.committed[request.group_id, topic.name, part.partition_index] = part.committed_offset
        shape = OffsetCommitResponse.OffsetCommitResponseTopic
        answer = shape.OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=error)
        return OffsetCommitResponse(throttle_time_ms=0, topics=[shape(name=topic.name, partitions=[answer])])

    def commit_in_transaction(self, request: Any) -> Any:
        error = self._coordinate("commit offsets", request)
        (topic,) = request.topics
        (part,) = topic.partitions
        shape = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
        answer = shape.TxnOffsetCommitResponsePartition(
            partition_index=part.partition_index, error_code=error
        )
        return TxnOffsetCommitResponse(
            throttle_time_ms=0, topics=[shape(name=topic.name, partitions=[answer])]
        )

    def fetch_offset(self, request: Any) -> Any:
        error = self._coordinate("fetch", request)
        (topic,) = request.topics
        (number,) = topic.partition_indexes
        shape = OffsetFetchResponse.OffsetFetchResponseTopic
        answer = shape.OffsetFetchResponsePartition(
            partition_index=number,
            committed_offset=self.committed.get((request.group_id, topic.name, number), -1),
            metadata="",
            error_code=0,
        )
        topics = [] if error else [shape(name=topic.name, partitions=[answer])]
        return OffsetFetchResponse(throttle_time_ms=0, topics=topics, error_code=error)

    def _coordinate(self, what: str, request: Any) -> int:
        self.asked.append((what, request))
        return self.coordinates.popleft() if self.coordinates else 0

    def versions(self, error: int = 0) -> Any:
        keys = [
            ApiVersionsResponse.ApiVersion(api_key=key, min_version=span[0], max_version=span[1])
            for key, (_, _, span) in _REQUESTS.items()
        ]
        return ApiVersionsResponse(error_code=error, api_keys=keys, throttle_time_ms=0)

    def answer(self, key: int, request: Any) -> tuple[Any, Act]:
        if key == ProduceRequest.API_KEY:
            return self.produce(request)
        answers = {
            FetchRequest.API_KEY: lambda: self.fetch(request),
            ListOffsetsRequest.API_KEY: lambda: self.list_offsets(request),
            MetadataRequest.API_KEY: lambda: self.metadata(request),
            ApiVersionsRequest.API_KEY: self.versions,
            InitProducerIdRequest.API_KEY: lambda: self.init_producer_id(request),
            AddPartitionsToTxnRequest.API_KEY: lambda: self.add_partitions(request),
            EndTxnRequest.API_KEY: lambda: self.end(request),
            AddOffsetsToTxnRequest.API_KEY: lambda: AddOffsetsToTxnResponse(
                throttle_time_ms=0, error_code=self._coordinate("add offsets", request)
            ),
            TxnOffsetCommitRequest.API_KEY: lambda: self.commit_in_transaction(request),
            OffsetCommitRequest.API_KEY: lambda: self.commit_offset(request),
            OffsetFetchRequest.API_KEY: lambda: self.fetch_offset(request),
        }
        return answers[key](), Act()


def _handler(broker: FakeBroker) -> type[socketserver.StreamRequestHandler]:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            broker.open.append(self.connection)
            while size := self.rfile.read(4):
                frame = self.rfile.read(struct.unpack(">i", size)[0])
                key, version, correlation = struct.unpack(">hhi", frame[:8])
                request_class, _, span = _REQUESTS[key]
                if not span[0] <= version <= span[1]:
                    assert key == ApiVersionsRequest.API_KEY, f"unexpected request {key} v{version}"
                    version, response, act = 0, broker.versions(error=35), Act()
                else:
                    request = request_class.decode(frame, version=version, header=True)
                    request.API_VERSION = version
                    kind = request_class.__name__.removesuffix("Request")
                    broker.arrived.append((self.client_address[1], kind))
                    response, act = broker.answer(key, request)
                if act.close:
                    return
                if not act.reply or (key == 0 and request.acks == 0):
                    continue
                threading.Event().wait(act.after_s)
                response.API_VERSION = version
                response.with_header(correlation_id=correlation)
                self.wfile.write(response.encode(header=True, framed=True))

    return Handler

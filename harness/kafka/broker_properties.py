"""Kafka's broker properties: types, limits, and the versions that have them.

Source: the `ConfigDef` of `KafkaConfig` in the jars of every known version, from which
`python -m tests.broker_properties` writes the table. Internal properties are not listed, since no broker
tells them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass

from harness.kafka.versions import VERSIONS, KafkaVersion, version_key

_BITS = {"short": 16, "int": 32, "long": 64}


@dataclass(frozen=True, kw_only=True)
class BrokerProperty:
    """One property, over all known versions."""

    kind: str
    """As `ConfigDef.Type` calls it: `boolean`, `int`, `list`, …"""
    least: float = -math.inf
    most: float = math.inf
    allowed: tuple[str, ...] = ()
    """The texts that it takes; empty: any."""
    first: str = ""
    last: str = ""
    """First and last version that has it; empty: the oldest and the newest known one."""

    def remedy(self, text: str) -> str:
        """What brokers take in place of ``text``, as the middle of a sentence; empty if they take it.

        Limits are the widest of all versions, so a broker may still refuse a text that passes.
        """
        if self.kind == "boolean":
            return "" if text.lower() in ("true", "false") else "use true or false"
        if self.kind in _BITS or self.kind == "double":
            return "" if self._in_range(text) else f"give {self._numbers()}"
        given = [part.strip() for part in text.split(",")] if self.kind == "list" else [text]
        allowed = {"", *(one.lower() for one in self.allowed)}
        if self.allowed and not {one.lower() for one in given} <= allowed:
            return f"use {', '.join(self.allowed)}"
        return ""

    def _in_range(self, text: str) -> bool:
        try:
            number = float(text) if self.kind == "double" else int(text)
        except ValueError:
            return False
        bits = _BITS.get(self.kind)
        fits = bits is None or -(2 ** (bits - 1)) <= number < 2 ** (bits - 1)
        return "_" not in text and fits and self.least <= number <= self.most

    def _numbers(self) -> str:
        what = "a number" if self.kind == "double" else "a whole number"
        if self.most < math.inf:
            return f"{what} from {self.least:g} to {self.most:g}"
        return f"{what} of at least {self.least:g}" if self.least > -math.inf else what


def exists_in(name: str, version: KafkaVersion) -> bool:
    """Whether brokers of this version have the property. Newer ones and the user's builds may have any."""
    if version.build or version_key(version.version) > version_key(_NEWEST):
        return True
    stated = PROPERTIES.get(name)
    if stated is None:
        return False
    ours = version_key(version.version)
    return version_key(stated.first or "0") <= ours <= version_key(stated.last or _NEWEST)


def likeliest_version(names: Set[str]) -> str:
    """The known version whose brokers have these properties, or most of them; the newest of several."""
    of_version = {
        version: {name for name in PROPERTIES if exists_in(name, entry)}
        for version, entry in VERSIONS.items()
    }
    return min(reversed(of_version), key=lambda version: len(of_version[version] ^ names))


def _parsed(line: str) -> tuple[str, BrokerProperty]:
    name, kind, limit, versions = line.split()
    first, _, last = versions.partition("-")
    least, is_range, most = limit.partition("..")
    return name, BrokerProperty(
        kind=kind,
        least=float(least) if is_range else -math.inf,
        most=float(most) if most else math.inf,
        allowed=() if is_range or limit == "any" else tuple(limit.split("|")),
        first="" if versions == "all" else first,
        last=last,
    )


_NEWEST = "4.4.0"
"""The newest version in the table."""
_TABLE = """
add.partitions.to.txn.retry.backoff.max.ms int 0.. 4.0.1-
add.partitions.to.txn.retry.backoff.ms int 1.. 4.0.1-
advertised.host.name string any -2.8.2
advertised.listeners string any all
advertised.port int any -2.8.2
alter.config.policy.class.name class any 0.11.0.3-
alter.log.dirs.replication.quota.window.num int 1.. 1.1.1-
alter.log.dirs.replication.quota.window.size.seconds int 1.. 1.1.1-
authorizer.class.name string any all
auto.create.topics.enable boolean any all
auto.include.jmx.reporter boolean any 3.5.2-3.9.1
auto.leader.rebalance.enable boolean any all
background.threads int 1.. all
broker.heartbeat.interval.ms int any 3.3.2-
broker.id int any all
broker.id.generation.enable boolean any -3.9.1
broker.rack string any all
broker.session.timeout.ms int any 3.3.2-
client.quota.callback.class class any 2.4.1-
compression.gzip.level int -1..9 3.8.1-
compression.lz4.level int 1..17 3.8.1-
compression.type string gzip|lz4|producer|snappy|uncompressed|zstd all
compression.zstd.level int -131072..22 3.8.1-
config.providers list any 4.2.0-
connection.failed.authentication.delay.ms int 0.. 2.4.1-
connections.max.idle.ms long any all
connections.max.reauth.ms long any 2.4.1-
control.plane.listener.name string any 2.4.1-3.9.1
controlled.shutdown.enable boolean any all
controlled.shutdown.max.retries int any -3.9.1
controlled.shutdown.retry.backoff.ms long any -3.9.1
controller.listener.names string any 3.3.2-
controller.quorum.append.linger.ms int any 3.3.2-
controller.quorum.auto.join.enable boolean any 4.2.0-
controller.quorum.bootstrap.servers list any 3.9.1-
controller.quorum.election.backoff.max.ms int any 3.3.2-
controller.quorum.election.timeout.ms int any 3.3.2-
controller.quorum.fetch.max.bytes int 1.. 4.3.1-
controller.quorum.fetch.snapshot.max.bytes int 1.. 4.3.1-
controller.quorum.fetch.timeout.ms int any 3.3.2-
controller.quorum.request.timeout.ms int any 3.3.2-
controller.quorum.retry.backoff.ms int any 3.3.2-
controller.quorum.voters list any 3.3.2-
controller.quota.window.num int 1.. 2.7.1-
controller.quota.window.size.seconds int 1.. 2.7.1-
controller.socket.timeout.ms int any all
cordoned.log.dirs list any 4.3.1-
create.topic.policy.class.name class any all
default.replication.factor int any all
delegation.token.expiry.check.interval.ms long 1.. 1.1.1-
delegation.token.expiry.time.ms long 1.. 1.1.1-
delegation.token.master.key password any 1.1.1-3.9.1
delegation.token.max.lifetime.ms long 1.. 1.1.1-
delegation.token.secret.key password any 2.8.2-
delete.records.purgatory.purge.interval.requests int any 0.11.0.3-
delete.topic.enable boolean any all
early.start.listeners string any 3.3.2-
eligible.leader.replicas.enable boolean any 3.7.0-3.9.1
errors.deadletterqueue.auto.create.topics.enable boolean any 4.4.0-
errors.deadletterqueue.topic.name.prefix string any 4.4.0-
fetch.max.bytes int 1024.. 2.7.1-
fetch.purgatory.purge.interval.requests int any all
follower.fetch.last.tiered.offset.enable boolean any 4.3.1-
group.consumer.assignment.interval.ms int 0.. 4.3.1-
group.consumer.assignors list any 3.7.0-
group.consumer.heartbeat.interval.ms int 1.. 3.7.0-
group.consumer.max.assignment.interval.ms int 0.. 4.3.1-
group.consumer.max.heartbeat.interval.ms int 1.. 3.7.0-
group.consumer.max.session.timeout.ms int 1.. 3.7.0-
group.consumer.max.size int 1.. 3.7.0-
group.consumer.migration.policy string any 4.0.1-
group.consumer.min.assignment.interval.ms int 0.. 4.3.1-
group.consumer.min.heartbeat.interval.ms int 1.. 3.7.0-
group.consumer.min.session.timeout.ms int 1.. 3.7.0-
group.consumer.session.timeout.ms int 1.. 3.7.0-
group.coordinator.append.linger.ms int -1.. 3.8.1-
group.coordinator.background.threads int 1.. 4.3.1-
group.coordinator.cached.buffer.max.bytes int 524288.. 4.3.1-
group.coordinator.rebalance.protocols list classic|consumer|share|streams|unknown 3.7.0-
group.coordinator.threads int 1.. 3.7.0-
group.initial.rebalance.delay.ms int any 0.11.0.3-
group.max.session.timeout.ms int any all
group.max.size int 1.. 2.4.1-
group.min.session.timeout.ms int any all
group.share.assignment.interval.ms int 0.. 4.3.1-
group.share.assignors list any 4.1.0-
group.share.delivery.count.limit int 2..10 3.9.1-
group.share.heartbeat.interval.ms int 1.. 3.9.1-
group.share.max.assignment.interval.ms int 0.. 4.3.1-
group.share.max.delivery.count.limit int 5..25 4.3.1-
group.share.max.groups short 1..100 3.9.1-4.0.1
group.share.max.heartbeat.interval.ms int 1.. 3.9.1-
group.share.max.partition.max.record.locks int 2000..10000 4.3.1-
group.share.max.record.lock.duration.ms int 30000..3600000 3.9.1-
group.share.max.session.timeout.ms int 1.. 3.9.1-
group.share.max.share.sessions int 1.. 4.1.0-
group.share.max.size int 1..1000 3.9.1-
group.share.min.assignment.interval.ms int 0.. 4.3.1-
group.share.min.delivery.count.limit int 2..5 4.3.1-
group.share.min.heartbeat.interval.ms int 1.. 3.9.1-
group.share.min.partition.max.record.locks int 100..2000 4.3.1-
group.share.min.record.lock.duration.ms int 1000..30000 3.9.1-
group.share.min.session.timeout.ms int 1.. 3.9.1-
group.share.partition.max.record.locks int 100..10000 3.9.1-
group.share.record.lock.duration.ms int 1000..3600000 3.9.1-
group.share.session.timeout.ms int 1.. 3.9.1-
group.streams.assignment.interval.ms int 0.. 4.3.1-
group.streams.assignors list any 4.4.0-
group.streams.heartbeat.interval.ms int 1.. 4.1.0-
group.streams.initial.rebalance.delay.ms int 0.. 4.2.0-
group.streams.max.assignment.interval.ms int 0.. 4.3.1-
group.streams.max.heartbeat.interval.ms int 1.. 4.1.0-
group.streams.max.session.timeout.ms int 1.. 4.1.0-
group.streams.max.size int 1.. 4.1.0-
group.streams.max.standby.replicas int 0.. 4.1.0-
group.streams.min.assignment.interval.ms int 0.. 4.3.1-
group.streams.min.heartbeat.interval.ms int 1.. 4.1.0-
group.streams.min.session.timeout.ms int 1.. 4.1.0-
group.streams.num.standby.replicas int 0.. 4.1.0-
group.streams.rack.aware.assignment.tags list any 4.4.0-
group.streams.session.timeout.ms int 1.. 4.1.0-
group.streams.topology.description.plugin.class class any 4.4.0-
host.name string any -2.8.2
initial.broker.registration.timeout.ms int any 3.3.2-
inter.broker.listener.name string any all
inter.broker.protocol.version string any -3.9.1
kafka.metrics.polling.interval.secs int 1.. 2.4.1-
kafka.metrics.reporters list any 2.4.1-
leader.imbalance.check.interval.seconds long any all
leader.imbalance.per.broker.percentage int any -3.9.1
listener.security.protocol.map string any all
listeners string any all
log.cleaner.backoff.ms long 0.. all
log.cleaner.dedupe.buffer.size long any all
log.cleaner.delete.retention.ms long any all
log.cleaner.enable boolean any all
log.cleaner.io.buffer.load.factor double any all
log.cleaner.io.buffer.size int 0.. all
log.cleaner.io.max.bytes.per.second double any all
log.cleaner.max.compaction.lag.ms long any 2.4.1-
log.cleaner.min.cleanable.ratio double any all
log.cleaner.min.compaction.lag.ms long any all
log.cleaner.threads int 0.. all
log.cleanup.policy list compact|delete all
log.dir string any all
log.dir.failure.timeout.ms long 1.. 3.8.1-
log.dirs string any all
log.flush.interval.messages long 1.. all
log.flush.interval.ms long any all
log.flush.offset.checkpoint.interval.ms int 0.. all
log.flush.scheduler.interval.ms long any all
log.flush.start.offset.checkpoint.interval.ms int 0.. 0.11.0.3-
log.index.interval.bytes int 0.. all
log.index.size.max.bytes int 4.. all
log.local.retention.bytes long -2.. 3.6.2-
log.local.retention.ms long -2.. 3.6.2-
log.message.downconversion.enable boolean any 2.4.1-3.9.1
log.message.format.version string any -3.9.1
log.message.timestamp.after.max.ms long 0.. 3.6.2-
log.message.timestamp.before.max.ms long 0.. 3.6.2-
log.message.timestamp.difference.max.ms long any -3.9.1
log.message.timestamp.type string CreateTime|LogAppendTime all
log.preallocate boolean any all
log.remote.copy.lag.bytes long -1.. 4.4.0-
log.remote.copy.lag.ms long -1.. 4.4.0-
log.retention.bytes long any all
log.retention.check.interval.ms long 1.. all
log.retention.hours int any all
log.retention.minutes int any all
log.retention.ms long any all
log.roll.hours int 1.. all
log.roll.jitter.hours int 0.. all
log.roll.jitter.ms long any all
log.roll.ms long any all
log.segment.bytes int 14.. all
log.segment.delete.delay.ms long 0.. all
max.connection.creation.rate int 0.. 2.7.1-
max.connections int 0.. 2.4.1-
max.connections.per.ip int 0.. all
max.connections.per.ip.overrides string any all
max.decompressed.message.bytes int 1..2147483639 4.4.0-
max.incremental.fetch.session.cache.slots int 0.. 1.1.1-
max.request.partition.size.limit int 1.. 3.8.1-
message.max.bytes int 0.. all
metadata.log.dir string any 3.3.2-
metadata.log.max.record.bytes.between.snapshots long 1.. 3.3.2-
metadata.log.max.snapshot.interval.ms long 0.. 3.5.2-
metadata.log.segment.bytes int 12.. 3.3.2-
metadata.log.segment.ms long any 3.3.2-
metadata.max.idle.interval.ms int 0.. 3.3.2-
metadata.max.retention.bytes long any 3.3.2-
metadata.max.retention.ms long any 3.3.2-
metric.reporters list any all
metrics.num.samples int 1.. all
metrics.recording.level string any all
metrics.sample.window.ms long 1.. all
min.insync.replicas int 1.. all
node.id int any 3.3.2-
num.io.threads int 1.. all
num.network.threads int 1.. all
num.partitions int 1.. all
num.recovery.threads.per.data.dir int 1.. all
num.replica.alter.log.dirs.threads int any 1.1.1-
num.replica.fetchers int any all
offset.metadata.max.bytes int any all
offsets.commit.required.acks short any -3.9.1
offsets.commit.timeout.ms int 1.. all
offsets.load.buffer.size int 1.. all
offsets.retention.check.interval.ms long 1.. all
offsets.retention.minutes int 1.. all
offsets.topic.compression.codec int any all
offsets.topic.num.partitions int 1.. all
offsets.topic.replication.factor short 1.. all
offsets.topic.segment.bytes int 1.. all
password.encoder.cipher.algorithm string any 1.1.1-3.9.1
password.encoder.iterations int 1024.. 1.1.1-3.9.1
password.encoder.key.length int 8.. 1.1.1-3.9.1
password.encoder.keyfactory.algorithm string any 1.1.1-3.9.1
password.encoder.old.secret password any 1.1.1-3.9.1
password.encoder.secret password any 1.1.1-3.9.1
port int any -2.8.2
principal.builder.class class any all
process.roles list broker|controller 3.3.2-
producer.id.expiration.ms int 1.. 3.5.2-
producer.purgatory.purge.interval.requests int any all
queued.max.request.bytes long any 1.1.1-
queued.max.requests int 1.. all
quota.consumer.default long 1.. -2.8.2
quota.producer.default long 1.. -2.8.2
quota.window.num int 1.. all
quota.window.size.seconds int 1.. all
remote.fetch.max.wait.ms int 1.. 3.8.1-
remote.list.offsets.request.timeout.ms long 1.. 4.0.1-
remote.log.index.file.cache.total.size.bytes long 1.. 3.7.0-
remote.log.manager.copier.thread.pool.size int any 3.9.1-
remote.log.manager.copy.max.bytes.per.second long 1.. 3.8.1-
remote.log.manager.copy.quota.window.num int 1.. 3.8.1-
remote.log.manager.copy.quota.window.size.seconds int 1.. 3.8.1-
remote.log.manager.expiration.thread.pool.size int any 3.9.1-
remote.log.manager.fetch.max.bytes.per.second long 1.. 3.8.1-
remote.log.manager.fetch.quota.window.num int 1.. 3.8.1-
remote.log.manager.fetch.quota.window.size.seconds int 1.. 3.8.1-
remote.log.manager.follower.thread.pool.size int 1.. 4.2.0-
remote.log.manager.task.interval.ms long 1.. 3.6.2-
remote.log.manager.thread.pool.size int 1.. 3.6.2-
remote.log.metadata.custom.metadata.max.bytes int 0.. 3.6.2-
remote.log.metadata.manager.class.name string any 3.6.2-
remote.log.metadata.manager.class.path string any 3.6.2-
remote.log.metadata.manager.impl.prefix string any 3.6.2-
remote.log.metadata.manager.listener.name string any 3.6.2-
remote.log.reader.max.pending.tasks int 1.. 3.6.2-
remote.log.reader.threads int 1.. 3.6.2-
remote.log.storage.manager.class.name string any 3.6.2-
remote.log.storage.manager.class.path string any 3.6.2-
remote.log.storage.manager.impl.prefix string any 3.6.2-
remote.log.storage.system.enable boolean any 3.6.2-
replica.fetch.backoff.ms int 0.. all
replica.fetch.max.bytes int 0.. all
replica.fetch.min.bytes int any all
replica.fetch.response.max.bytes int 0.. all
replica.fetch.wait.max.ms int any all
replica.high.watermark.checkpoint.interval.ms long any all
replica.lag.time.max.ms long any all
replica.selector.class string any 2.4.1-
replica.socket.receive.buffer.bytes int any all
replica.socket.timeout.ms int any all
replication.quota.window.num int 1.. all
replication.quota.window.size.seconds int 1.. all
request.timeout.ms int any all
reserved.broker.max.id int 0.. -3.9.1
sasl.client.callback.handler.class class any 2.4.1-
sasl.enabled.mechanisms list any all
sasl.jaas.config password any 1.1.1-
sasl.kerberos.kinit.cmd string any all
sasl.kerberos.min.time.before.relogin long any all
sasl.kerberos.principal.to.local.rules list any all
sasl.kerberos.service.name string any all
sasl.kerberos.ticket.renew.jitter double any all
sasl.kerberos.ticket.renew.window.factor double any all
sasl.login.callback.handler.class class any 2.4.1-
sasl.login.class class any 2.4.1-
sasl.login.connect.timeout.ms int any 3.3.2-
sasl.login.read.timeout.ms int any 3.3.2-
sasl.login.refresh.buffer.seconds short any 2.4.1-
sasl.login.refresh.min.period.seconds short any 2.4.1-
sasl.login.refresh.window.factor double any 2.4.1-
sasl.login.refresh.window.jitter double any 2.4.1-
sasl.login.retry.backoff.max.ms long any 3.3.2-
sasl.login.retry.backoff.ms long any 3.3.2-
sasl.mechanism.controller.protocol string any 3.3.2-
sasl.mechanism.inter.broker.protocol string any all
sasl.oauthbearer.allow.unverified.audience boolean any 4.4.0-
sasl.oauthbearer.allow.unverified.issuer boolean any 4.4.0-
sasl.oauthbearer.assertion.algorithm string any 4.1.0-
sasl.oauthbearer.assertion.claim.aud string any 4.1.0-
sasl.oauthbearer.assertion.claim.exp.seconds int 0..86400 4.1.0-
sasl.oauthbearer.assertion.claim.iss string any 4.1.0-
sasl.oauthbearer.assertion.claim.jti.include boolean any 4.1.0-
sasl.oauthbearer.assertion.claim.nbf.seconds int 0..3600 4.1.0-
sasl.oauthbearer.assertion.claim.sub string any 4.1.0-
sasl.oauthbearer.assertion.file string any 4.1.0-
sasl.oauthbearer.assertion.private.key.file string any 4.1.0-
sasl.oauthbearer.assertion.private.key.passphrase password any 4.1.0-
sasl.oauthbearer.assertion.template.file string any 4.1.0-
sasl.oauthbearer.client.credentials.client.id string any 4.1.0-
sasl.oauthbearer.client.credentials.client.secret password any 4.1.0-
sasl.oauthbearer.clock.skew.seconds int any 3.3.2-
sasl.oauthbearer.expected.audience list any 3.3.2-
sasl.oauthbearer.expected.issuer string any 3.3.2-
sasl.oauthbearer.jwks.endpoint.refresh.ms long any 3.3.2-
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long any 3.3.2-
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long any 3.3.2-
sasl.oauthbearer.jwks.endpoint.url string any 3.3.2-
sasl.oauthbearer.jwt.retriever.class class any 4.1.0-
sasl.oauthbearer.jwt.validator.class class any 4.1.0-
sasl.oauthbearer.scope string any 4.1.0-
sasl.oauthbearer.scope.claim.name string any 3.3.2-
sasl.oauthbearer.sub.claim.name string any 3.3.2-
sasl.oauthbearer.token.endpoint.url string any 3.3.2-
sasl.server.callback.handler.class class any 2.4.1-
sasl.server.max.receive.size int any 2.8.2-
security.inter.broker.protocol string any all
security.providers string any 2.4.1-
share.coordinator.append.linger.ms int -1.. 4.0.1-
share.coordinator.cached.buffer.max.bytes int 524288.. 4.3.1-
share.coordinator.load.buffer.size int 1.. 4.0.1-
share.coordinator.snapshot.update.records.per.snapshot int 0.. 4.0.1-
share.coordinator.state.topic.compression.codec int any 4.0.1-
share.coordinator.state.topic.min.isr short 1.. 4.0.1-
share.coordinator.state.topic.num.partitions int 1.. 4.0.1-
share.coordinator.state.topic.replication.factor short 1.. 4.0.1-
share.coordinator.state.topic.segment.bytes int 1.. 4.0.1-
share.coordinator.threads int 1.. 4.0.1-
share.coordinator.write.timeout.ms int 1.. 4.0.1-
share.fetch.purgatory.purge.interval.requests int any 4.0.1-
socket.connection.setup.timeout.max.ms long any 2.7.1-
socket.connection.setup.timeout.ms long any 2.7.1-
socket.listen.backlog.size int 1.. 3.3.2-
socket.receive.buffer.bytes int any all
socket.request.max.bytes int 1.. all
socket.send.buffer.bytes int any all
ssl.allow.dn.changes boolean any 3.7.0-
ssl.allow.san.changes boolean any 3.7.0-
ssl.cipher.suites list any all
ssl.client.auth string none|requested|required all
ssl.enabled.protocols list any all
ssl.endpoint.identification.algorithm string any all
ssl.engine.factory.class class any 2.7.1-
ssl.key.password password any all
ssl.keymanager.algorithm string any all
ssl.keystore.certificate.chain password any 2.7.1-
ssl.keystore.key password any 2.7.1-
ssl.keystore.location string any all
ssl.keystore.password password any all
ssl.keystore.type string any all
ssl.principal.mapping.rules string any 2.4.1-
ssl.protocol string any all
ssl.provider string any all
ssl.secure.random.implementation string any all
ssl.trustmanager.algorithm string any all
ssl.truststore.certificates password any 2.7.1-
ssl.truststore.location string any all
ssl.truststore.password password any all
ssl.truststore.type string any all
telemetry.max.bytes int 1.. 3.7.0-
transaction.abort.timed.out.transaction.cleanup.interval.ms int 1.. 0.11.0.3-
transaction.max.timeout.ms int 1.. 0.11.0.3-
transaction.partition.verification.enable boolean any 3.6.2-
transaction.remove.expired.transaction.cleanup.interval.ms int 1.. 0.11.0.3-
transaction.state.log.load.buffer.size int 1.. 0.11.0.3-
transaction.state.log.min.isr int 1.. 0.11.0.3-
transaction.state.log.num.partitions int 1.. 0.11.0.3-
transaction.state.log.replication.factor short 1.. 0.11.0.3-
transaction.state.log.segment.bytes int 1.. 0.11.0.3-
transaction.two.phase.commit.enable boolean any 4.1.0-
transactional.id.expiration.ms int 1.. 0.11.0.3-
unclean.leader.election.enable boolean any all
zookeeper.clientCnxnSocket string any 2.7.1-3.9.1
zookeeper.connect string any -3.9.1
zookeeper.connection.timeout.ms int any -3.9.1
zookeeper.max.in.flight.requests int 1.. 1.1.1-3.9.1
zookeeper.metadata.migration.enable boolean any 3.5.2-3.9.1
zookeeper.session.timeout.ms int any -3.9.1
zookeeper.set.acl boolean any -3.9.1
zookeeper.ssl.cipher.suites list any 2.7.1-3.9.1
zookeeper.ssl.client.enable boolean any 2.7.1-3.9.1
zookeeper.ssl.crl.enable boolean any 2.7.1-3.9.1
zookeeper.ssl.enabled.protocols list any 2.7.1-3.9.1
zookeeper.ssl.endpoint.identification.algorithm string any 2.7.1-3.9.1
zookeeper.ssl.keystore.location string any 2.7.1-3.9.1
zookeeper.ssl.keystore.password password any 2.7.1-3.9.1
zookeeper.ssl.keystore.type string any 2.7.1-3.9.1
zookeeper.ssl.ocsp.enable boolean any 2.7.1-3.9.1
zookeeper.ssl.protocol string any 2.7.1-3.9.1
zookeeper.ssl.truststore.location string any 2.7.1-3.9.1
zookeeper.ssl.truststore.password password any 2.7.1-3.9.1
zookeeper.ssl.truststore.type string any 2.7.1-3.9.1
zookeeper.sync.time.ms int any -2.8.2
"""
PROPERTIES: Mapping[str, BrokerProperty] = dict(map(_parsed, _TABLE.split("\n")[1:-1]))
"""By name."""

# Write the node's properties from its environment, format an empty disk, and become the node.
set -eu
cat >/tmp/server.properties <<P
node.id=$NODE_ID
process.roles=broker,controller
broker.rack=$RACK
listeners=INSIDE://:9092,OUTSIDE://:9094,QUORUM://:9093
advertised.listeners=INSIDE://$HOSTNAME:9092,OUTSIDE://localhost:$OUTSIDE_PORT
listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,QUORUM:PLAINTEXT
inter.broker.listener.name=INSIDE
controller.listener.names=QUORUM
controller.quorum.voters=0@kafka-1:9093,1001@kafka-2:9093,7@kafka-3:9093
controller.quorum.election.timeout.ms=1000
controller.quorum.fetch.timeout.ms=2000
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=4000
log.dirs=/var/kafka/log
log.segment.delete.delay.ms=3600000
replica.lag.time.max.ms=10000
min.insync.replicas=2
default.replication.factor=3
offsets.topic.num.partitions=1
auto.create.topics.enable=false
num.network.threads=2
num.io.threads=4
P
cat >/tmp/log4j.properties <<P
log4j.rootLogger=WARN, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=[%d] %p %m (%c)%n
P
run() { java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dlog4j.configuration=file:/tmp/log4j.properties -cp "$JARS" "$@"; }
[ -f /var/kafka/log/meta.properties ] || run kafka.tools.StorageTool format -t "$CLUSTER_ID" -c /tmp/server.properties
exec java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dlog4j.configuration=file:/tmp/log4j.properties \
    -cp "$JARS" kafka.Kafka /tmp/server.properties

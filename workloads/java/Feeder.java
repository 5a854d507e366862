import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.Partitioner;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.PartitionInfo;

/**
 * Has Kafka's VerifiableProducer send what the harness asks for. The tool itself makes up its values (0, 1, ...),
 * sends them as fast as it can, and leaves the partition to a partitioner. As an interceptor, this class holds each
 * send back until a line arrives on standard input, and puts that line's topic, partition and value in the record's
 * place. The tool reports the record by its own value, which is thus the number of the line.
 *
 * <p>A line is `topic partition value`, the value in Base64, or a topic alone, which sends nothing: it ends in
 * {@link Connected} if every partition of the topic has a leader, and in {@link NotLed} if not. The end of the input
 * ends the tool, which then waits for the outcomes that it owes.
 */
public final class Feeder implements ProducerInterceptor<String, String> {
    private final BufferedReader lines =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));

    @Override
    public ProducerRecord<String, String> onSend(ProducerRecord<String, String> record) {
        String line;
        try {
            line = lines.readLine();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        if (line == null) {
            System.exit(0);
        }
        String[] words = line.split(" ");
        if (words.length == 1) {
            return new ProducerRecord<>(words[0], ""); // without a partition, so that Leaders is asked
        }
        String value = new String(Base64.getDecoder().decode(words[2]), StandardCharsets.UTF_8);
        return new ProducerRecord<>(words[0], Integer.valueOf(words[1]), null, value);
    }

    @Override
    public void onAcknowledgement(RecordMetadata metadata, Exception exception) {}

    @Override
    public void configure(Map<String, ?> configs) {}

    @Override
    public void close() {}

    /** Every partition of the topic has a leader. */
    public static final class Connected extends KafkaException {}

    /** A partition of the topic has no leader. */
    public static final class NotLed extends KafkaException {}

    /** Is asked once the topic's metadata are known, and only for records without a partition. */
    public static final class Leaders implements Partitioner {
        @Override
        public int partition(
            String topic, Object key, byte[] keyBytes, Object value, byte[] valueBytes, Cluster cluster) {
            List<PartitionInfo> partitions = cluster.partitionsForTopic(topic);
            boolean led = !partitions.isEmpty() && partitions.stream().allMatch(one -> one.leader() != null);
            throw led ? new Connected() : new NotLed();
        }

        @Override
        public void configure(Map<String, ?> configs) {}

        @Override
        public void close() {}
    }
}

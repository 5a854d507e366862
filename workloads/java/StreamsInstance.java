import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.zip.CRC32;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * One instance of a Kafka Streams application that counts words. Compiles against kafka-streams 3.9 and later;
 * `Agent` finds it by its name.
 *
 * The word of a message is its writer, and its number modulo the number of words. A stateless map writes each
 * message to the output, with its word as the key. A processor keeps the count of each word of its partition in
 * a store in RocksDB, whose changelog is a topic: each record of the changelog names the message that was
 * counted, and has the count in place of the padding. Records that name no message are left out.
 */
final class StreamsInstance implements Agent.Reader {
    private static final String STORE = "counts";
    private static final Pattern NAMED = Pattern.compile("acked1 \\d{1,18} \\d{1,18} \\S+ \\S+ \\S+ \\S+");
    private final Agent.Request request;
    private final int number;
    private volatile KafkaStreams streams;
    private boolean closed;

    StreamsInstance(Agent.Request request) {
        this.request = request;
        this.number = request.number("consumer");
    }

    @Override
    public void start() {
        Agent.daemon(() -> {
            try {
                startUnlessClosed();
                request.done();
            } catch (RuntimeException error) {
                request.fail(error);
            }
        }).start();
    }

    /** What is closed before it has started does not start. */
    private synchronized void startUnlessClosed() {
        if (closed) {
            return;
        }
        streams = new KafkaStreams(topology(), request.properties());
        streams.setStateListener((now, before) -> print(
            "state", Map.of("state", now.toString(), "partitions", activePartitions())));
        streams.setUncaughtExceptionHandler(error -> {
            problem(error);
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.start();
    }

    @Override
    public void close(Duration within) {
        synchronized (this) {
            closed = true;
        }
        if (streams != null && !streams.close(within)) {
            throw new IllegalStateException("it still runs after " + within.toMillis() + " ms");
        }
    }

    @Override
    public void carryOut(Agent.Request asked) {
        Agent.daemon(() -> {
            try {
                for (int partition : activePartitions()) {
                    print("stored", Map.of("partition", partition, "entries", entries(partition)));
                }
                asked.done();
            } catch (RuntimeException error) {
                asked.fail(error);
            }
        }).start();
    }

    private Topology topology() {
        int words = request.number("words");
        StreamsBuilder builder = new StreamsBuilder();
        builder.addStateStore(Stores.keyValueStoreBuilder(
            Stores.persistentKeyValueStore(STORE), Serdes.String(), Serdes.ByteArray()));
        KStream<byte[], byte[]> messages = builder
            .stream(request.text("source"), Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
            .filter((key, value) -> fields(value) != null);
        messages.map((key, value) -> KeyValue.pair(word(fields(value), words), value))
            .to(request.text("output"), Produced.with(Serdes.String(), Serdes.ByteArray()));
        messages.process(() -> new Counter(words), STORE);
        return builder.build();
    }

    private List<Integer> activePartitions() {
        TreeSet<Integer> found = new TreeSet<>();
        streams.metadataForLocalThreads().forEach(
            thread -> thread.activeTasks().forEach(task -> found.add(task.taskId().partition())));
        return new ArrayList<>(found);
    }

    private List<Object> entries(int partition) {
        ReadOnlyKeyValueStore<String, byte[]> store = streams.store(StoreQueryParameters.fromNameAndType(
            STORE, QueryableStoreTypes.<String, byte[]>keyValueStore()).withPartition(partition));
        List<Object> found = new ArrayList<>();
        try (KeyValueIterator<String, byte[]> all = store.all()) {
            all.forEachRemaining(entry -> found.add(List.of(entry.key, count(entry.value))));
        }
        return found;
    }

    /** The fields of a message's value; null if it names no message, as a value of another producer. */
    private static String[] fields(byte[] value) {
        return value != null && NAMED.matcher(text(value)).matches() ? text(value).split(" ") : null;
    }

    private static String text(byte[] value) {
        return new String(value, StandardCharsets.ISO_8859_1);
    }

    private static String word(String[] parts, int words) {
        return Long.parseLong(parts[1]) + "/" + Long.parseLong(parts[2]) % words;
    }

    private static long count(byte[] stored) {
        return stored == null ? 0 : Long.parseLong(fields(stored)[5]);
    }

    private static byte[] counted(String[] parts, long count) {
        String body = String.join(" ", parts[0], parts[1], parts[2], parts[3], parts[4], Long.toString(count), "");
        CRC32 checksum = new CRC32();
        checksum.update(body.getBytes(StandardCharsets.ISO_8859_1));
        return (body + String.format("%08x", checksum.getValue())).getBytes(StandardCharsets.ISO_8859_1);
    }

    private void print(String kind, Map<String, Object> content) {
        Map<String, Object> fields = new HashMap<>(Map.of("consumer", number, "ns", System.nanoTime()));
        fields.putAll(content);
        Agent.print(Map.of(kind, fields));
    }

    private void problem(Throwable error) {
        Agent.print(Map.of("problem", Map.of("consumer", number, "error", Agent.described(error, false))));
    }

    /** Counts the words of one partition. */
    private static final class Counter implements Processor<byte[], byte[], Void, Void> {
        private final int words;
        private KeyValueStore<String, byte[]> store;

        Counter(int words) {
            this.words = words;
        }

        @Override
        public void init(ProcessorContext<Void, Void> context) {
            store = context.getStateStore(STORE);
        }

        @Override
        public void process(Record<byte[], byte[]> message) {
            String[] parts = fields(message.value());
            String word = word(parts, words);
            store.put(word, counted(parts, count(store.get(word)) + 1));
        }
    }
}

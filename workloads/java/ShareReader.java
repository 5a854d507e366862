import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * One share consumer with explicit acknowledgement, and the thread that polls it. Compiles against
 * kafka-clients 4.2 and later; `Agent` finds it by its name.
 *
 * It acknowledges the records of a poll before the next one, each by the answer that its offset has in turn. A
 * record that it has renewed is returned by the next poll once more: that is no delivery, and it accepts it.
 * While it is to hold records, it keeps what the next poll returns, and polls no more until it is told how to
 * answer. Its heartbeats go on meanwhile.
 */
final class ShareReader implements Agent.Reader {
    private final Agent.Request request;
    private final Function<Properties, ShareConsumer<byte[], byte[]>> library;
    private final int number;
    private final List<AcknowledgeType> answers = new ArrayList<>();
    private final CountDownLatch ended = new CountDownLatch(1);
    private final Object turn = new Object();
    private volatile boolean stop;
    private boolean hold;
    private Agent.Request told;
    private ShareConsumer<byte[], byte[]> consumer;
    /** The offsets that polls have returned. */
    private final Map<TopicPartition, Set<Long>> handed = new HashMap<>();
    /** The records that it renewed after the last poll. */
    private Set<String> renewed = new HashSet<>();

    ShareReader(Agent.Request request) {
        this(request, properties -> new KafkaShareConsumer<>(
            properties, new ByteArrayDeserializer(), new ByteArrayDeserializer()));
    }

    ShareReader(Agent.Request request, Function<Properties, ShareConsumer<byte[], byte[]>> library) {
        this.request = request;
        this.library = library;
        this.number = request.number("consumer");
        for (String answer : request.<String>list("answers")) {
            answers.add(type(answer));
        }
    }

    private static AcknowledgeType type(String answer) {
        return AcknowledgeType.valueOf(answer.toUpperCase(Locale.ROOT));
    }

    @Override
    public void start() {
        Agent.daemon(this::run).start();
    }

    @Override
    public void close(Duration within) {
        synchronized (turn) {
            stop = true;
            turn.notifyAll();
        }
        try {
            ended.await(within.toMillis(), TimeUnit.MILLISECONDS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void carryOut(Agent.Request asked) {
        synchronized (turn) {
            if (asked.op.equals("hold_records")) {
                hold = true;
                asked.done();
                return;
            }
            if (!hold || told != null) {
                throw new IllegalStateException("Consumer " + number + " holds no records");
            }
            told = asked;
            turn.notifyAll();
        }
    }

    private void run() {
        try {
            consumer = library.apply(request.properties());
            consumer.setAcknowledgementCommitCallback(this::answered);
            consumer.subscribe(request.<String>list("subscribe"));
            request.done();
        } catch (RuntimeException error) {
            request.fail(error);
            ended.countDown();
            return;
        }
        try {
            while (!stop) {
                try {
                    poll();
                } catch (RuntimeException error) {
                    problem(error);
                    Thread.sleep(100); // an error that persists must not fill the pipe
                }
            }
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        } finally {
            try {
                consumer.close(Duration.ofSeconds(1)); // releases what it still holds
            } catch (RuntimeException error) {
                problem(error);
            }
            ended.countDown();
        }
    }

    private void poll() throws InterruptedException {
        ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
        if (records.isEmpty()) {
            return;
        }
        acquired(records);
        Agent.Request word = toldHow();
        if (stop && word == null) {
            return;
        }
        if (word == null) {
            acknowledge(records, null);
            consumer.commitAsync();
            return;
        }
        try {
            acknowledge(records, type(word.text("answer")));
            consumer.commitSync(word.within());
            word.done();
        } catch (TimeoutException late) { // no broker has answered yet, which is an outcome
            word.done();
        } catch (RuntimeException error) {
            word.fail(error);
            throw error;
        }
    }

    /** The request that says how to answer what was to be held; null if nothing was, or it ends meanwhile. */
    private Agent.Request toldHow() throws InterruptedException {
        synchronized (turn) {
            while (hold && told == null && !stop) {
                turn.wait();
            }
            Agent.Request word = told;
            told = null;
            hold = hold && word == null;
            return word;
        }
    }

    /** Acknowledge records with one answer, or each with its own; what was delivered before is accepted. */
    private void acknowledge(ConsumerRecords<byte[], byte[]> records, AcknowledgeType all) {
        Map<AcknowledgeType, List<ConsumerRecord<byte[], byte[]>>> given = new TreeMap<>();
        for (ConsumerRecord<byte[], byte[]> one : records) {
            boolean again = one.deliveryCount().orElse((short) 1) > 1 || renewed.contains(named(one));
            AcknowledgeType own = again ? AcknowledgeType.ACCEPT : answers.get((int) (one.offset() % answers.size()));
            given.computeIfAbsent(all == null ? own : all, key -> new ArrayList<>()).add(one);
        }
        renewed = new HashSet<>();
        given.getOrDefault(AcknowledgeType.RENEW, List.of()).forEach(one -> renewed.add(named(one)));
        given.forEach((answer, list) -> {
            Agent.print(Map.of("acknowledged", Map.of(
                "consumer", number, "ns", System.nanoTime(),
                "answer", answer.toString().toLowerCase(Locale.ROOT), "partitions", offsets(list))));
            list.forEach(one -> consumer.acknowledge(one, answer));
        });
    }

    private static String named(ConsumerRecord<byte[], byte[]> one) {
        return one.topic() + "/" + one.partition() + "@" + one.offset() + "#" + one.deliveryCount().orElse((short) 0);
    }

    private static List<Object> offsets(List<ConsumerRecord<byte[], byte[]>> records) {
        Map<TopicPartition, List<Object>> found = new LinkedHashMap<>();
        for (ConsumerRecord<byte[], byte[]> one : records) {
            found.computeIfAbsent(new TopicPartition(one.topic(), one.partition()), key -> new ArrayList<>())
                .add(one.offset());
        }
        List<Object> partitions = new ArrayList<>();
        found.forEach((key, list) -> partitions.add(List.of(key.topic(), key.partition(), list)));
        return partitions;
    }

    private void acquired(ConsumerRecords<byte[], byte[]> records) {
        List<Object> found = new ArrayList<>();
        for (ConsumerRecord<byte[], byte[]> one : records) {
            if (renewed.contains(named(one))) {
                continue;
            }
            handed.computeIfAbsent(new TopicPartition(one.topic(), one.partition()), key -> new HashSet<>())
                .add(one.offset());
            List<Object> fields = new ArrayList<>();
            fields.add(one.topic());
            fields.add(one.partition());
            fields.add(one.offset());
            fields.add(one.deliveryCount().map(Short::intValue).orElse(null));
            fields.add(one.value() == null ? null : new String(one.value(), StandardCharsets.ISO_8859_1));
            found.add(fields);
        }
        Map<String, Object> fields = new HashMap<>(
            Map.of("consumer", number, "ns", System.nanoTime(), "records", found));
        fields.put("lock_ms", consumer.acquisitionLockTimeoutMs().orElse(null));
        Agent.print(Map.of("acquired", fields));
    }

    /**
     * The commit callback: what the leaders of partitions answered. The library acknowledges by itself what it
     * returns to nobody, such as the markers of transactions; these offsets are left out.
     */
    private void answered(Map<TopicIdPartition, Set<Long>> offsets, Exception error) {
        List<Object> partitions = new ArrayList<>();
        offsets.forEach((key, list) -> {
            Set<Long> own = new HashSet<>(list);
            own.retainAll(handed.getOrDefault(key.topicPartition(), Set.of()));
            if (error != null) { // a renewal that was refused, or that nobody answered: the record comes as another delivery
                String place = key.topic() + "/" + key.partition() + "@";
                own.forEach(offset -> renewed.removeIf(name -> name.startsWith(place + offset + "#")));
            }
            if (!own.isEmpty()) {
                partitions.add(List.of(key.topic(), key.partition(), List.copyOf(own)));
            }
        });
        if (partitions.isEmpty()) {
            return;
        }
        Map<String, Object> fields = new HashMap<>(
            Map.of("consumer", number, "ns", System.nanoTime(), "partitions", partitions));
        fields.put("error", error == null ? null : Agent.described(error, false));
        Agent.print(Map.of("answered", fields));
    }

    private void problem(Exception error) {
        Agent.print(Map.of("problem", Map.of("consumer", number, "error", Agent.described(error, false))));
    }
}

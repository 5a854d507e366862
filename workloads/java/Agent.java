import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The official Java client as a program that speaks the client protocol (docs/client-protocol.md). Compiles
 * against kafka-clients 2.4 to 4.x. Outcomes of failed messages are left to the harness: it decides by the
 * class of the exception.
 */
public final class Agent {
    private static final PrintStream OUT = new PrintStream(new FileOutputStream(FileDescriptor.out), false);
    private static final Map<Integer, Producer> PRODUCERS = new ConcurrentHashMap<>();
    private static final Map<Integer, Reader> READERS = new ConcurrentHashMap<>();
    /** The classes of readers that only some libraries have, by their features. */
    private static final Map<String, String> OPTIONAL =
        new TreeMap<>(Map.of("shares", "ShareReader", "applications", "StreamsInstance"));
    private static final ScheduledExecutorService LATER = Executors.newSingleThreadScheduledExecutor(Agent::daemon);

    private Agent() {}

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err); // standard output is for lines of the protocol only
        Map<String, Object> hello = new TreeMap<>();
        hello.put("protocol", 1);
        hello.put("client", "kafka-clients");
        hello.put("version", version());
        hello.put("features", features());
        hello.put("ns", System.nanoTime()); // CLOCK_MONOTONIC on Linux
        print(Map.of("hello", hello));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = in.readLine()) != null) {
            Request request = new Request(Json.parse(line));
            try {
                dispatch(request);
            } catch (RuntimeException error) {
                request.fail(error);
            }
            if (request.op.equals("quit")) {
                break;
            }
        }
        System.exit(0);
    }

    private static List<String> features() {
        List<String> features =
            new ArrayList<>(List.of("idempotence", "transactions", "groups", "streams", "timestamps"));
        OPTIONAL.forEach((feature, name) -> {
            try {
                Class.forName(name);
                features.add(feature);
            } catch (ClassNotFoundException absent) { // it is compiled only where the libraries have it
            }
        });
        return features;
    }

    /** The library's version. The class that states it has been in two packages; the file has not moved. */
    private static String version() throws IOException {
        Properties stated = new Properties();
        try (InputStream file = KafkaProducer.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            stated.load(file);
        }
        return stated.getProperty("version").trim();
    }

    private static void dispatch(Request request) throws InterruptedException {
        switch (request.op) {
            case "create_producer":
                Producer created = new Producer(request);
                PRODUCERS.put(created.number, created);
                created.work(request, () -> created.create(request.properties()));
                break;
            case "create_consumer":
                Consumer consumer = new Consumer(request);
                READERS.put(consumer.number, consumer);
                consumer.start();
                break;
            case "create_share_consumer":
                start("shares", request);
                break;
            case "create_application":
                start("applications", request);
                break;
            case "hold_records":
            case "answer_records":
            case "dump_store":
                READERS.get(request.number("consumer")).carryOut(request);
                break;
            case "close_consumer":
                Reader closed = READERS.get(request.number("consumer"));
                daemon(() -> {
                    try {
                        closed.close(request.within());
                        request.done();
                    } catch (RuntimeException error) {
                        request.fail(error);
                    }
                }).start();
                break;
            case "quit":
                quit(request);
                break;
            default:
                Producer producer = PRODUCERS.get(request.number("producer"));
                if (producer == null) {
                    throw new IllegalArgumentException("There is no producer " + request.number("producer"));
                }
                producer.carryOut(request);
        }
    }

    private static void quit(Request request) throws InterruptedException {
        List<Thread> closing = new ArrayList<>();
        PRODUCERS.values().forEach(producer -> closing.add(daemon(() -> producer.close(request.within()))));
        READERS.values().forEach(consumer -> closing.add(daemon(() -> consumer.close(request.within()))));
        closing.forEach(Thread::start);
        for (Thread thread : closing) {
            thread.join(request.within().toMillis() + 500);
        }
        request.done();
    }

    private static void start(String feature, Request request) {
        Reader reader;
        try {
            reader = (Reader) Class.forName(OPTIONAL.get(feature))
                .getDeclaredConstructor(Request.class).newInstance(request);
        } catch (ReflectiveOperationException absent) {
            throw new IllegalArgumentException("This Java client has no " + feature);
        }
        READERS.put(request.number("consumer"), reader);
        reader.start();
    }

    static Thread daemon(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        return thread;
    }

    static void print(Object line) {
        StringBuilder text = new StringBuilder();
        Json.write(line, text);
        text.append('\n');
        synchronized (OUT) {
            OUT.append(text);
            OUT.flush();
        }
    }

    static Map<String, Object> described(Throwable error, boolean abortable) {
        Map<String, Object> found = new TreeMap<>();
        found.put("exception", error.getClass().getSimpleName());
        found.put("text", withCause(error));
        found.put("abortable", abortable);
        if (error instanceof ApiException) {
            found.put("code", (int) Errors.forException(error).code());
        }
        return found;
    }

    /** The message and that of the first cause: a constructor that fails names only itself. */
    private static String withCause(Throwable error) {
        Throwable first = error;
        while (first.getCause() != null) {
            first = first.getCause();
        }
        String text = String.valueOf(error.getMessage());
        return first == error ? text : text + ": " + first.getMessage();
    }

    /** A request of the harness. A request without an id has no answer. */
    static final class Request {
        final String op;
        private final Map<String, Object> fields;

        Request(Map<String, Object> fields) {
            this.fields = fields;
            this.op = (String) fields.get("op");
        }

        Map<String, Object> fields() {
            return fields;
        }

        int number(String key) {
            return ((Number) fields.get(key)).intValue();
        }

        String text(String key) {
            return (String) fields.get(key);
        }

        @SuppressWarnings("unchecked")
        <T> List<T> list(String key) {
            return (List<T>) fields.get(key);
        }

        boolean has(String key) {
            return fields.containsKey(key);
        }

        boolean flag(String key) {
            return Boolean.TRUE.equals(fields.get(key));
        }

        Duration within() {
            return Duration.ofMillis(((Number) fields.get("within_ms")).longValue());
        }

        @SuppressWarnings("unchecked")
        Properties properties() {
            Properties properties = new Properties();
            ((Map<String, Object>) fields.get("properties")).forEach(properties::put);
            Object tokens = properties.get("sasl.oauthbearer.token.endpoint.url");
            if (tokens != null) { // since 4.0 no URL is allowed by default
                System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", tokens.toString());
            }
            return properties;
        }

        void done() {
            answer("result", Map.of());
        }

        void fail(Throwable error) {
            // According to the documentation of KafkaProducer, these are fatal, a time-out can be tried again, and
            // after any other error the transaction can be aborted.
            boolean over = error instanceof ProducerFencedException || error instanceof AuthorizationException
                || error instanceof OutOfOrderSequenceException || error instanceof UnsupportedVersionException
                || error instanceof TimeoutException || error instanceof InterruptException
                || error instanceof IllegalStateException || error instanceof IllegalArgumentException;
            answer("error", described(error, !over));
        }

        private void answer(String key, Object content) {
            if (has("id")) {
                print(Map.of("id", fields.get("id"), key, content));
            }
        }
    }

    /** What receives records until it is closed. */
    interface Reader {
        void start();

        void close(Duration within);

        /** Do what a request asks of this reader, then answer. */
        default void carryOut(Request request) {
            throw new IllegalArgumentException("A consumer cannot " + request.op);
        }
    }

    private interface Work {
        void run() throws Exception;
    }

    /** One KafkaProducer and the thread that uses it: `send` may block until metadata are known. */
    private static final class Producer {
        final int number;
        private final ExecutorService thread = Executors.newSingleThreadExecutor(Agent::daemon);
        private final Map<Integer, Pending> pending = new HashMap<>();
        private volatile KafkaProducer<byte[], byte[]> producer;
        private volatile Stream stream;
        /** By how much the timestamps of the records are older than the time of sending; null: the library chooses. */
        private final Long ageMs;
        private Metric recordsSent;

        Producer(Request request) {
            this.number = request.number("producer");
            this.ageMs = request.has("event_age_ms") ? ((Number) request.fields().get("event_age_ms")).longValue() : null;
        }

        private Long timestamp() {
            return ageMs == null ? null : Long.valueOf(System.currentTimeMillis() - ageMs);
        }

        void create(Properties properties) {
            producer = new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
            for (Map.Entry<MetricName, ? extends Metric> entry : producer.metrics().entrySet()) {
                MetricName name = entry.getKey();
                if (name.name().equals("record-send-total") && name.group().equals("producer-metrics")) {
                    recordsSent = entry.getValue();
                }
            }
        }

        /** Do something on the producer's thread, in the order of the requests, then answer. */
        void work(Request request, Work work) {
            thread.execute(() -> {
                try {
                    work.run();
                    request.done();
                } catch (Exception error) {
                    request.fail(error);
                }
            });
        }

        void carryOut(Request request) {
            switch (request.op) {
                case "send":
                    List<Map<String, Object>> messages = request.list("messages");
                    thread.execute(() -> messages.forEach(this::send));
                    break;
                case "connect":
                    work(request, () -> connect(request.text("topic"), request.within()));
                    break;
                case "flush":
                    work(request, () -> producer.flush());
                    break;
                case "start_stream":
                    thread.execute(() -> stream(request));
                    break;
                case "stop_stream":
                case "close_producer":
                    daemon(() -> {
                        try {
                            close(request.within());
                            request.done();
                        } catch (RuntimeException error) {
                            request.fail(error);
                        }
                    }).start();
                    break;
                case "init_transactions":
                    work(request, () -> producer.initTransactions());
                    break;
                case "begin_transaction":
                    work(request, () -> producer.beginTransaction());
                    break;
                case "send_offsets":
                    work(request, () -> sendOffsets(request));
                    break;
                case "commit_transaction":
                    work(request, () -> producer.commitTransaction());
                    break;
                case "abort_transaction":
                    work(request, () -> producer.abortTransaction());
                    break;
                default:
                    throw new IllegalArgumentException("There is no operation " + request.op);
            }
        }

        private void connect(String topic, Duration within) throws InterruptedException {
            long end = System.nanoTime() + within.toNanos();
            while (!led(producer.partitionsFor(topic))) {
                if (System.nanoTime() > end) {
                    throw new TimeoutException("Not every partition of " + topic + " has a leader");
                }
                Thread.sleep(50);
            }
        }

        private static boolean led(List<PartitionInfo> partitions) {
            return !partitions.isEmpty() && partitions.stream().allMatch(part -> part.leader() != null);
        }

        private void send(Map<String, Object> message) {
            int seq = ((Number) message.get("seq")).intValue();
            int partition = ((Number) message.get("partition")).intValue();
            byte[] value = ((String) message.get("value")).getBytes(StandardCharsets.ISO_8859_1);
            synchronized (pending) {
                pending.values().forEach(other -> other.alone = false);
                pending.put(seq, new Pending(pending.isEmpty(), requests()));
            }
            try {
                producer.send(
                    new ProducerRecord<>((String) message.get("topic"), partition, timestamp(), null, value),
                    (metadata, error) -> finish(seq, error == null ? metadata.offset() : -1, error));
            } catch (RuntimeException error) { // it never reached the queue
                Pending one = take(seq);
                if (one != null) {
                    report(seq, -1, error, 0, System.nanoTime());
                }
            }
        }

        /** How often records went into ProduceRequests so far; null: this version does not count them. */
        private Double requests() {
            return recordsSent == null ? null : (Double) recordsSent.metricValue();
        }

        private Pending take(int seq) {
            synchronized (pending) {
                return pending.remove(seq);
            }
        }

        private void finish(int seq, long offset, Exception error) {
            long now = System.nanoTime();
            Pending one = take(seq);
            if (one == null) {
                return;
            }
            Integer attempts = one.attempts(requests());
            if (error == null) {
                report(seq, offset, null, attempts, now);
            } else if (attempts == null || attempts > 0) {
                report(seq, -1, error, attempts, now);
            } else {
                // A batch that expires in the moment in which it is drained is sent all the same, and counted
                // right afterwards (Sender.sendProducerData).
                LATER.schedule(
                    () -> report(seq, -1, error, one.attempts(requests()), now), 200, TimeUnit.MILLISECONDS);
            }
        }

        private void report(int seq, long offset, Exception error, Integer attempts, long ns) {
            Map<String, Object> outcome = new TreeMap<>();
            outcome.put("producer", number);
            outcome.put("seq", seq);
            outcome.put("ns", ns);
            if (attempts != null && !(error == null && attempts == 0)) {
                outcome.put("attempts", attempts);
            }
            if (error != null) {
                outcome.put("error", described(error, false));
            } else {
                outcome.put("outcome", "ok");
                if (offset >= 0) {
                    outcome.put("offset", offset);
                }
            }
            print(Map.of("outcome", outcome));
        }

        private void sendOffsets(Request request) throws Exception {
            Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
            for (List<Object> one : request.<List<Object>>list("offsets")) {
                TopicPartition key = new TopicPartition((String) one.get(0), ((Number) one.get(1)).intValue());
                found.put(key, new OffsetAndMetadata(((Number) one.get(2)).longValue()));
            }
            Class<?> kind;
            Object group = request.text("group");
            try {
                kind = Class.forName("org.apache.kafka.clients.consumer.ConsumerGroupMetadata");
                group = request.has("consumer")
                    ? member(request.number("consumer")) : kind.getConstructor(String.class).newInstance(group);
            } catch (ClassNotFoundException before25) {
                kind = String.class;
            }
            Method method = KafkaProducer.class.getMethod("sendOffsetsToTransaction", Map.class, kind);
            try {
                method.invoke(producer, found, group);
            } catch (InvocationTargetException error) {
                throw (Exception) error.getCause();
            }
        }

        private static Object member(int number) {
            Reader reader = READERS.get(number);
            Object metadata = reader instanceof Consumer ? ((Consumer) reader).metadata : null;
            if (metadata == null) {
                throw new IllegalStateException("Consumer " + number + " is no member of a group yet");
            }
            return metadata;
        }

        /** Start a stream; the answer follows when it has ended. */
        private void stream(Request request) {
            try {
                stream = new Stream(producer, this::timestamp, this::requests, LATER, request.fields());
            } catch (IOException | RuntimeException error) {
                request.fail(error);
                return;
            }
            stream.start();
            daemon(() -> {
                try {
                    stream.await();
                    request.done();
                } catch (RuntimeException error) {
                    request.fail(error);
                }
            }).start();
        }

        void close(Duration within) {
            if (stream != null) {
                stream.stop(within);
            } else if (producer != null) {
                producer.close(within); // messages without an outcome fail
            }
        }
    }

    /** A message without an outcome. */
    private static final class Pending {
        /** Whether no other message of the producer was in flight at the same time. */
        boolean alone;
        private final Double before;

        Pending(boolean alone, Double before) {
            this.alone = alone;
            this.before = before;
        }

        Integer attempts(Double after) {
            return alone && before != null && after != null ? Integer.valueOf((int) (after - before)) : null;
        }
    }

    /** One KafkaConsumer and the thread that polls it. */
    private static final class Consumer implements Reader, ConsumerRebalanceListener {
        private static final Method GROUP_METADATA = groupMetadata();
        final int number;
        private final Request request;
        private final CountDownLatch ended = new CountDownLatch(1);
        private volatile boolean stop;
        private volatile KafkaConsumer<byte[], byte[]> consumer;
        /** Its member id and generation after the newest poll: a ConsumerGroupMetadata, since 2.5. */
        private volatile Object metadata;

        Consumer(Request request) {
            this.request = request;
            this.number = request.number("consumer");
        }

        @Override
        public void start() {
            daemon(this::run).start();
        }

        @Override
        public void close(Duration within) {
            stop = true; // not a wakeup, which would also cut off the answers to commits
            try {
                ended.await(within.toMillis(), TimeUnit.MILLISECONDS);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }

        private void run() {
            try {
                consumer = new KafkaConsumer<>(
                    request.properties(), new ByteArrayDeserializer(), new ByteArrayDeserializer());
                begin();
                request.done();
            } catch (RuntimeException error) {
                request.fail(error);
                ended.countDown();
                return;
            }
            try {
                while (!stop) {
                    poll();
                }
            } finally {
                consumer.close(Duration.ofSeconds(1));
                ended.countDown();
            }
        }

        private void begin() {
            if (request.has("subscribe")) {
                consumer.subscribe(request.<String>list("subscribe"), this);
                return;
            }
            List<TopicPartition> partitions = new ArrayList<>();
            for (List<Object> one : request.<List<Object>>list("assign")) {
                partitions.add(new TopicPartition((String) one.get(0), ((Number) one.get(1)).intValue()));
            }
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
        }

        private void poll() {
            try {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
                metadata = membership();
                if (records.isEmpty()) {
                    return;
                }
                print(Map.of("records", Map.of("consumer", number, "ns", System.nanoTime(), "records", listed(records))));
                if (request.flag("commit")) {
                    consumer.commitAsync((offsets, error) -> {
                        if (error != null) {
                            problem(error);
                        } else {
                            group("committed", offsets);
                        }
                    });
                }
            } catch (RuntimeException error) {
                problem(error);
                sleep();
            }
        }

        private Object membership() {
            if (GROUP_METADATA == null || !request.has("subscribe")) {
                return null;
            }
            try {
                return GROUP_METADATA.invoke(consumer);
            } catch (ReflectiveOperationException unknown) {
                return null;
            }
        }

        private static Object of(Object member, String getter) {
            try {
                return Class.forName("org.apache.kafka.clients.consumer.ConsumerGroupMetadata")
                    .getMethod(getter).invoke(member);
            } catch (ReflectiveOperationException unknown) {
                return null;
            }
        }

        private static Method groupMetadata() {
            try {
                return KafkaConsumer.class.getMethod("groupMetadata");
            } catch (NoSuchMethodException before25) {
                return null;
            }
        }

        private static List<Object> listed(ConsumerRecords<byte[], byte[]> records) {
            List<Object> found = new ArrayList<>();
            for (ConsumerRecord<byte[], byte[]> one : records) {
                List<Object> fields = new ArrayList<>();
                fields.add(one.topic());
                fields.add(one.partition());
                fields.add(one.offset());
                fields.add(one.leaderEpoch().orElse(null));
                fields.add(one.value() == null ? null : new String(one.value(), StandardCharsets.ISO_8859_1));
                found.add(fields);
            }
            return found;
        }

        private void problem(Exception error) {
            print(Map.of("problem", Map.of("consumer", number, "error", described(error, false))));
        }

        private static void sleep() {
            try {
                Thread.sleep(100); // an error that persists must not fill the pipe
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            partitions.forEach(one -> offsets.put(one, null));
            try {
                consumer.committed(new HashSet<>(partitions), Duration.ofSeconds(5)).forEach(offsets::put);
            } catch (RuntimeException error) {
                problem(error);
            }
            group("assigned", offsets);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            partitions.forEach(one -> offsets.put(one, null));
            group("revoked", offsets);
        }

        /** Since 2.4; older clients do not say that partitions were lost. */
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            partitions.forEach(one -> offsets.put(one, null));
            group("lost", offsets);
        }

        private void group(String event, Map<TopicPartition, OffsetAndMetadata> offsets) {
            List<Object> found = new ArrayList<>();
            offsets.forEach((key, offset) -> {
                List<Object> fields = new ArrayList<>();
                fields.add(key.topic());
                fields.add(key.partition());
                fields.add(offset == null ? null : offset.offset());
                found.add(fields);
            });
            Map<String, Object> fields = new HashMap<>(
                Map.of("consumer", number, "event", event, "ns", System.nanoTime(), "partitions", found));
            Object member = event.equals("assigned") ? membership() : null;
            if (member != null) {
                fields.put("generation", of(member, "generationId"));
                fields.put("member_id", of(member, "memberId"));
            }
            print(Map.of("group", fields));
        }
    }

    /** The part of JSON that the protocol needs. Numbers become Long or Double. */
    private static final class Json {
        private final String text;
        private int at;

        private Json(String text) {
            this.text = text;
        }

        @SuppressWarnings("unchecked")
        static Map<String, Object> parse(String text) {
            return (Map<String, Object>) new Json(text).value();
        }

        static void write(Object value, StringBuilder out) {
            if (value instanceof Map) {
                out.append('{');
                String separator = "";
                for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                    out.append(separator);
                    quote(entry.getKey().toString(), out);
                    out.append(':');
                    write(entry.getValue(), out);
                    separator = ",";
                }
                out.append('}');
            } else if (value instanceof List) {
                out.append('[');
                String separator = "";
                for (Object item : (List<?>) value) {
                    out.append(separator);
                    write(item, out);
                    separator = ",";
                }
                out.append(']');
            } else if (value instanceof String) {
                quote((String) value, out);
            } else {
                out.append(value);
            }
        }

        private static void quote(String text, StringBuilder out) {
            out.append('"');
            for (int i = 0; i < text.length(); i++) {
                char letter = text.charAt(i);
                if (letter == '"' || letter == '\\') {
                    out.append('\\').append(letter);
                } else if (letter < ' ' || letter > '~') {
                    out.append(String.format("\\u%04x", (int) letter));
                } else {
                    out.append(letter);
                }
            }
            out.append('"');
        }

        private Object value() {
            skip();
            char next = text.charAt(at);
            switch (next) {
                case '{':
                    return object();
                case '[':
                    return array();
                case '"':
                    return string();
                case 't':
                    at += 4;
                    return true;
                case 'f':
                    at += 5;
                    return false;
                case 'n':
                    at += 4;
                    return null;
                default:
                    return number();
            }
        }

        private Map<String, Object> object() {
            Map<String, Object> found = new HashMap<>();
            at++;
            skip();
            while (text.charAt(at) != '}') {
                skip();
                String key = string();
                skip();
                at++; // the colon
                found.put(key, value());
                next();
            }
            at++;
            return found;
        }

        private List<Object> array() {
            List<Object> found = new ArrayList<>();
            at++;
            skip();
            while (text.charAt(at) != ']') {
                found.add(value());
                next();
            }
            at++;
            return found;
        }

        private void next() {
            skip();
            if (text.charAt(at) == ',') {
                at++;
                skip();
            }
        }

        private String string() {
            StringBuilder found = new StringBuilder();
            at++;
            while (text.charAt(at) != '"') {
                char letter = text.charAt(at++);
                if (letter != '\\') {
                    found.append(letter);
                    continue;
                }
                char escaped = text.charAt(at++);
                if (escaped == 'u') {
                    found.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
                    at += 4;
                } else {
                    int known = "bfnrt".indexOf(escaped);
                    found.append(known < 0 ? escaped : "\b\f\n\r\t".charAt(known));
                }
            }
            at++;
            return found.toString();
        }

        private Object number() {
            int start = at;
            while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) {
                at++;
            }
            String digits = text.substring(start, at);
            try {
                return Long.valueOf(digits);
            } catch (NumberFormatException error) {
                return Double.valueOf(digits);
            }
        }

        private void skip() {
            while (at < text.length() && Character.isWhitespace(text.charAt(at))) {
                at++;
            }
        }
    }
}

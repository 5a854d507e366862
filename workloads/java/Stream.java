import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import java.util.zip.CRC32;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.protocol.Errors;

/**
 * A stream of load: it makes and paces its messages itself, and records each in its journal before it hands it to
 * the producer, and again when it learns the outcome (docs/client-protocol.md).
 */
final class Stream {
    private static final long LEAST_WAIT_NS = 1_000_000, MOST_WAIT_NS = 100_000_000;
    /** A batch that expires in the moment in which it is drained is sent all the same (Sender.sendProducerData). */
    private static final long COUNTED_MS = 200;
    private final KafkaProducer<byte[], byte[]> producer;
    private final Supplier<Long> timestamp;
    private final Supplier<Double> requests;
    private final ScheduledExecutorService later;
    private final Load load;
    private final Rules rules;
    private final Journal journal;
    private final CountDownLatch ended = new CountDownLatch(1);
    private final Thread thread;
    private final CRC32 checksum = new CRC32();
    private volatile boolean stop;
    private volatile Duration flush;
    private volatile RuntimeException failure;
    /** The message that is alone in flight, and the count of requests before it; null: none is, or several are. */
    private volatile Alone alone;
    private long sent;

    Stream(
            KafkaProducer<byte[], byte[]> producer, Supplier<Long> timestamp, Supplier<Double> requests,
            ScheduledExecutorService later, Map<String, Object> request) throws IOException {
        this.producer = producer;
        this.timestamp = timestamp;
        this.requests = requests;
        this.later = later;
        this.load = new Load(request);
        this.rules = new Rules(request);
        this.flush = Duration.ofMillis(number(request, "flush_ms").longValue());
        this.journal = new Journal(Path.of((String) request.get("journal")));
        this.thread = new Thread(this::run, "stream");
        this.thread.setDaemon(true);
    }

    /** Send the load; `await` returns when every message has an outcome. */
    void start() {
        thread.start();
    }

    /** Stop sending, and close the producer within a time: messages without an outcome fail then. */
    void stop(Duration within) {
        flush = within;
        stop = true;
        LockSupport.unpark(thread);
        producer.close(within); // also ends a wait for metadata
        await();
    }

    /** Wait until the stream has ended. Throws what ended it early. */
    void await() {
        try {
            ended.await();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
        if (failure != null) {
            throw failure;
        }
    }

    private void run() {
        try {
            feed();
            producer.close(flush);
            long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(2 * COUNTED_MS);
            while (journal.open() > 0 && System.nanoTime() < end) {
                LockSupport.parkNanos(LEAST_WAIT_NS);
            }
            journal.close();
        } catch (IOException | RuntimeException error) {
            failure = new IllegalStateException(error.toString(), error);
        } finally {
            ended.countDown();
        }
    }

    private void feed() throws IOException {
        long started = System.nanoTime();
        long due = 0;
        while (!stop) {
            double elapsed = (System.nanoTime() - started) / 1e9;
            if (elapsed > load.seconds || sent >= load.count) {
                return;
            }
            long owed = (long) (elapsed * load.rate) - due;
            // After a pause, only the messages of one second are made up for.
            long forgiven = Math.max(0, owed - Math.max(1, (long) load.rate));
            long room = Math.min(load.inFlight - journal.open(), load.count - sent);
            long count = Math.max(0, Math.min(owed - forgiven, room));
            due += forgiven + count;
            for (long i = 0; i < count && !stop; i++) {
                send();
            }
            long next = (long) ((due + 1) / load.rate * 1e9) - (System.nanoTime() - started);
            LockSupport.parkNanos(Math.min(MOST_WAIT_NS, Math.max(LEAST_WAIT_NS, next)));
        }
    }

    private void send() throws IOException {
        long seq = sent++;
        Planned planned = load.cycle[(int) (seq % load.cycle.length)];
        Target target = load.targets[planned.target];
        Alone one = journal.open() == 0 ? new Alone(seq, requests.get()) : null;
        alone = one;
        journal.begin(seq, planned.target, System.nanoTime());
        try {
            producer.send(
                new ProducerRecord<>(
                    target.topic,
                    target.partition,
                    timestamp.get(),
                    planned.key,
                    target.value(seq, planned.size, checksum)),
                (metadata, error) -> finish(seq, error == null ? metadata.offset() : -1, error));
        } catch (RuntimeException error) { // it never reached the queue
            complete(seq, -1, error, 0, System.nanoTime());
        }
    }

    private void finish(long seq, long offset, Exception error) {
        long now = System.nanoTime();
        Alone one = alone;
        int attempts = one != null && one.seq == seq ? one.attempts(requests.get()) : -1;
        if (error != null && attempts == 0) {
            later.schedule(
                () -> complete(seq, -1, error, one.attempts(requests.get()), now), COUNTED_MS, TimeUnit.MILLISECONDS);
        } else {
            complete(seq, offset, error, attempts, now);
        }
    }

    private void complete(long seq, long offset, Exception error, int attempts, long now) {
        if (error == null) {
            journal.complete(seq, now, offset, 0, attempts == 0 ? -1 : attempts, Journal.OK);
        } else {
            int code = rules.code(error);
            journal.complete(seq, now, -1, code, attempts, rules.outcome(code, attempts));
        }
    }

    private static Number number(Map<String, Object> fields, String key) {
        return (Number) fields.get(key);
    }

    /** A message that was alone in flight. */
    private static final class Alone {
        final long seq;
        private final Double before;

        Alone(long seq, Double before) {
            this.seq = seq;
            this.before = before;
        }

        int attempts(Double after) {
            return before != null && after != null ? (int) (after - before) : -1;
        }
    }

    /** What to send. */
    private static final class Load {
        final double rate;
        final long count;
        final double seconds;
        final long inFlight;
        final Target[] targets;
        final Planned[] cycle;

        @SuppressWarnings("unchecked")
        Load(Map<String, Object> request) {
            rate = number(request, "rate").doubleValue();
            count = number(request, "max_count").longValue();
            seconds = number(request, "max_s").doubleValue();
            inFlight = number(request, "max_in_flight").longValue();
            List<Map<String, Object>> stated = (List<Map<String, Object>>) request.get("targets");
            String head = (String) request.get("head");
            targets = stated.stream().map(one -> new Target(head, one)).toArray(Target[]::new);
            List<List<Object>> messages = (List<List<Object>>) request.get("cycle");
            cycle = new Planned[messages == null ? targets.length : messages.size()];
            for (int i = 0; i < cycle.length; i++) {
                cycle[i] = messages == null ? new Planned(i) : new Planned(messages.get(i));
            }
        }
    }

    /** Where a message goes, the bytes of its value (0: those of its target's template), and its key. */
    private static final class Planned {
        final int target, size;
        final byte[] key;

        Planned(int target) {
            this.target = target;
            this.size = 0;
            this.key = null;
        }

        Planned(List<Object> stated) {
            target = ((Number) stated.get(0)).intValue();
            size = ((Number) stated.get(1)).intValue();
            String text = (String) stated.get(2);
            key = text == null ? null : text.getBytes(StandardCharsets.ISO_8859_1);
        }
    }

    /** A topic partition, and the value of its messages but for number and checksum. */
    private static final class Target {
        private static final int DIGITS = 10, CHECKSUM = 8;
        private static final byte[] HEX = "0123456789abcdef".getBytes(StandardCharsets.ISO_8859_1);
        final String topic;
        final int partition;
        private final byte[] template;
        private final int numberEnd;

        Target(String beginning, Map<String, Object> stated) {
            topic = (String) stated.get("topic");
            partition = number(stated, "partition").intValue();
            byte[] head = beginning.getBytes(StandardCharsets.ISO_8859_1);
            byte[] tail = ((String) stated.get("tail")).getBytes(StandardCharsets.ISO_8859_1);
            template = Arrays.copyOf(head, head.length + DIGITS + tail.length + CHECKSUM);
            numberEnd = head.length + DIGITS;
            System.arraycopy(tail, 0, template, numberEnd, tail.length);
        }

        byte[] value(long seq, int size, CRC32 checksum) {
            byte[] value = size == 0 ? template.clone() : padded(size);
            long left = seq;
            for (int at = numberEnd - 1; at >= numberEnd - DIGITS; at--) {
                value[at] = (byte) ('0' + left % 10);
                left /= 10;
            }
            int end = value.length - CHECKSUM;
            checksum.reset();
            checksum.update(value, 0, end);
            long sum = checksum.getValue();
            for (int at = value.length - 1; at >= end; at--) {
                value[at] = HEX[(int) sum & 15];
                sum >>= 4;
            }
            return value;
        }

        /** The template with an x or more between tail and checksum, and a space. */
        private byte[] padded(int size) {
            int begin = template.length - CHECKSUM;
            byte[] value = Arrays.copyOf(template, Math.max(size, template.length + 2));
            int end = value.length - CHECKSUM - 1;
            Arrays.fill(value, begin, end, (byte) 'x');
            value[end] = ' ';
            return value;
        }
    }

    /** Which error code an exception stands for, and what it proves: the harness's rules. */
    private static final class Rules {
        private static final String TIME_OUT = "TimeoutException";
        private final Map<String, Integer> codes = new HashMap<>();
        private final Map<Integer, short[]> outcomes = new HashMap<>();
        private final short[] others;
        private final String brokersTimeOut;

        @SuppressWarnings("unchecked")
        Rules(Map<String, Object> request) {
            Map<String, Object> rules = (Map<String, Object>) request.get("rules");
            ((Map<String, Object>) rules.get("exceptions")).forEach((name, code) -> codes.put(name, ((Number) code).intValue()));
            ((Map<String, Object>) rules.get("outcomes"))
                .forEach((code, words) -> outcomes.put(Integer.valueOf(code), states((List<String>) words)));
            others = states((List<String>) rules.get("others"));
            brokersTimeOut = (String) rules.get("brokers_time_out");
        }

        private static short[] states(List<String> words) {
            short[] states = new short[words.size()];
            for (int i = 0; i < states.length; i++) {
                states[i] = Journal.state(words.get(i));
            }
            return states;
        }

        int code(Exception error) {
            String name = error.getClass().getSimpleName();
            if (name.equals(TIME_OUT) && brokersTimeOut.equals(error.getMessage())) {
                return Errors.REQUEST_TIMED_OUT.code();
            }
            Integer code = codes.get(name);
            if (code != null) {
                return code;
            }
            return error instanceof ApiException ? Errors.forException(error).code() : -1;
        }

        /** By the attempts: none, one, several, an unknown number. */
        short outcome(int code, int attempts) {
            return outcomes.getOrDefault(code, others)[attempts < 0 ? 3 : Math.min(attempts, 2)];
        }
    }

    /** Fixed rows in a mapped file, which the harness has created. One thread begins rows, any may complete them. */
    private static final class Journal {
        static final short OK = 2, FAIL = 3, INFO = 4;
        private static final short BEGUN = 1;
        private static final int ROW = 40, ROWS = 4096;
        private static final long HEADER_BYTES_AT = 8;
        private static final int COUNTERS_AT = 16, COUNTERS_BYTES = 32;
        private static final VarHandle INTS =
            MethodHandles.byteBufferViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
        private static final VarHandle LONGS =
            MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
        private final FileChannel file;
        private final long first;
        private final ByteBuffer counters;
        private final ByteBuffer zeros = ByteBuffer.allocateDirect(ROW * ROWS);
        private volatile Block[] blocks = new Block[16];
        private int used;
        private long begun;

        Journal(Path path) throws IOException {
            file = FileChannel.open(path, StandardOpenOption.READ, StandardOpenOption.WRITE);
            ByteBuffer size = ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN);
            file.read(size, HEADER_BYTES_AT);
            first = size.getInt(0);
            counters = file.map(FileChannel.MapMode.READ_WRITE, 0, COUNTERS_AT + COUNTERS_BYTES)
                .order(ByteOrder.LITTLE_ENDIAN);
        }

        static short state(String outcome) {
            return outcome.equals("ok") ? OK : outcome.equals("fail") ? FAIL : INFO;
        }

        /** Messages without an outcome. */
        long open() {
            return begun - count(OK) - count(FAIL) - count(INFO);
        }

        private long count(short state) {
            return (long) LONGS.getVolatile(counters, at(state));
        }

        private static int at(short state) {
            return COUNTERS_AT + 8 * (state - BEGUN);
        }

        void begin(long seq, int target, long sentNs) throws IOException {
            if (seq >= (long) used * ROWS) {
                grow();
            }
            ByteBuffer rows = blocks[(int) (seq / ROWS)].rows;
            int at = (int) (seq % ROWS) * ROW;
            rows.putLong(at, sentNs);
            rows.putInt(at + 24, target);
            INTS.setRelease(rows, at + 36, BEGUN << 16 | 0xFFFF);
            begun = seq + 1;
            LONGS.setOpaque(counters, at(BEGUN), begun);
        }

        void complete(long seq, long doneNs, long offset, int error, int attempts, short state) {
            int number = (int) (seq / ROWS);
            Block block = blocks[number];
            int at = (int) (seq % ROWS) * ROW;
            if (block == null || (int) INTS.getAcquire(block.rows, at + 36) >> 16 != BEGUN) {
                return; // `send` may both report an error and throw it
            }
            block.rows.putLong(at + 8, doneNs);
            block.rows.putLong(at + 16, offset);
            block.rows.putInt(at + 28, -1);
            block.rows.putInt(at + 32, error);
            INTS.setRelease(block.rows, at + 36, state << 16 | Math.min(attempts, Short.MAX_VALUE) & 0xFFFF);
            LONGS.getAndAdd(counters, at(state), 1L);
            if (block.open.decrementAndGet() == 0) {
                blocks[number] = null; // its memory is unmapped when it is collected
            }
        }

        /** Append rows. They are written, not only mapped: a full disk is an error here, and a signal later. */
        private void grow() throws IOException {
            long at = first + (long) used * ROW * ROWS;
            zeros.clear();
            while (zeros.hasRemaining()) {
                file.write(zeros, at + zeros.position());
            }
            MappedByteBuffer rows = file.map(FileChannel.MapMode.READ_WRITE, at, ROW * ROWS);
            Block[] more = used < blocks.length ? blocks : Arrays.copyOf(blocks, 2 * used);
            more[used++] = new Block(rows.order(ByteOrder.LITTLE_ENDIAN));
            blocks = more;
        }

        /** Cut off the rows that were not used. */
        void close() throws IOException {
            if (open() == 0) { // nothing will write into the rows any longer
                file.truncate(first + begun * ROW);
            }
            file.close();
        }
    }

    /** Rows that are mapped together, and how many of them have no outcome. */
    private static final class Block {
        final ByteBuffer rows;
        final AtomicInteger open = new AtomicInteger(Journal.ROWS);

        Block(ByteBuffer rows) {
            this.rows = rows;
        }
    }
}

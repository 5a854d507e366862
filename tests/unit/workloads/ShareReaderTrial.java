import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.AcknowledgementCommitCallback;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.DisconnectException;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;

/**
 * A share reader whose library is a list of what happens: record 0 of t/0 is delivered, its renewal is `renewed` or
 * `unanswered` (the argument), and the next poll returns the record again with the same delivery count.
 */
final class ShareReaderTrial {
    private static final TopicPartition PARTITION = new TopicPartition("t", 0);
    private static AcknowledgementCommitCallback callback;
    private static final CountDownLatch OVER = new CountDownLatch(3);
    private static int polls;

    private ShareReaderTrial() {}

    public static void main(String[] arguments) throws InterruptedException {
        boolean answered = arguments[0].equals("renewed");
        ShareReader reader = new ShareReader(
            new Agent.Request(Map.of(
                "id", 1, "op", "create_share_consumer", "consumer", 7, "answers", List.of("renew"),
                "subscribe", List.of("t"), "properties", Map.of())),
            properties -> library(answered));
        reader.start();
        if (!OVER.await(20, TimeUnit.SECONDS)) {
            throw new IllegalStateException("The reader has polled " + polls + " times only");
        }
        reader.close(Duration.ofSeconds(20));
        System.exit(0);
    }

    @SuppressWarnings("unchecked")
    private static ShareConsumer<byte[], byte[]> library(boolean answered) {
        return (ShareConsumer<byte[], byte[]>) Proxy.newProxyInstance(
            ShareReaderTrial.class.getClassLoader(), new Class<?>[] {ShareConsumer.class}, (self, method, given) -> {
                switch (method.getName()) {
                    case "setAcknowledgementCommitCallback":
                        callback = (AcknowledgementCommitCallback) given[0];
                        return null;
                    case "acquisitionLockTimeoutMs":
                        return Optional.of(30_000);
                    case "poll":
                        return poll(answered);
                    default:
                        return null;
                }
            });
    }

    private static ConsumerRecords<byte[], byte[]> poll(boolean answered) {
        polls++;
        OVER.countDown();
        if (polls == 2) {
            callback.onComplete(
                Map.of(new TopicIdPartition(Uuid.ONE_UUID, PARTITION), Set.of(0L)),
                answered ? null : new DisconnectException("the leader is gone"));
        }
        if (polls > 2) {
            return ConsumerRecords.empty();
        }
        ConsumerRecord<byte[], byte[]> record = new ConsumerRecord<>(
            "t", 0, 0L, 0L, TimestampType.CREATE_TIME, 0, 1, null, new byte[] {'a'}, new RecordHeaders(),
            Optional.of(0), Optional.of((short) 1));
        return new ConsumerRecords<>(Map.of(PARTITION, List.of(record)), Map.of(PARTITION, new OffsetAndMetadata(1L)));
    }
}

import com.github.luben.zstd.Zstd;
import com.github.luben.zstd.ZstdInputStreamNoFinalizer;
import java.io.BufferedOutputStream;
import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.CRC32;
import java.util.zip.CRC32C;
import java.util.zip.Checksum;
import java.util.zip.Inflater;
import net.jpountz.lz4.LZ4Factory;
import net.jpountz.lz4.LZ4SafeDecompressor;
import net.jpountz.xxhash.XXHash32;
import net.jpountz.xxhash.XXHashFactory;
import org.xerial.snappy.Snappy;

/**
 * Decodes record batches into columns.
 *
 * A request on standard input is what is asked (a byte), the size of what follows (an int, big-endian), and
 * record batches, one after the other. Answers are little-endian.
 *
 * `w`, walk: the batches may be followed by anything. The answer is the number of complete batches (an int), where
 * each begins and the last ends (ints), and the checksum that each should have (ints).
 *
 * `d`, decode: all batches are complete. The answer has four ints: batches, records, homes, bytes of homes; then
 * the columns of the batches (records: int, -1 if the batch is refused; base offset: long), the columns of the
 * records (in the order of `write`), and the homes (size of each: int; their bytes).
 *
 * Only what is entirely well-formed, and spelt as this project's clients spell it, is decoded. Whatever is
 * unusual in any way is refused, batch by batch, and the caller reads it with its own reader, so that the
 * meaning of damage is decided in one place. The process ends when its input does.
 */
public final class BatchDecoder {
    /** A batch is refused: it is read by the caller. */
    private static final class Refused extends RuntimeException {
        private static final long serialVersionUID = 1;

        Refused() {
            super(null, null, false, false);
        }
    }

    private static final Refused REFUSED = new Refused();
    private static final int MOST_DECOMPRESSED = 128 << 20;
    private static final int HEADER = 61;
    private static final int CODEC = 0x07;
    private static final int APPEND_TIME = 0x08;
    private static final int CONTROL = 0x20;
    private static final byte[] MAGIC = "acked1".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] XERIAL = {(byte) 0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1};
    private static final int INTACT = 1;
    private static final int NOT_INTACT = 0;
    private static final int UNCHECKED = 2;
    private static final int NO_MARKER = -1;
    private static final int NO_EPOCH = Integer.MIN_VALUE;

    private final CRC32C crc32c = new CRC32C();
    private final CRC32 crc32 = new CRC32();
    private final Inflater inflater = new Inflater(true);
    private LZ4SafeDecompressor lz4;
    private XXHash32 xxhash;

    private ByteBuffer in = ByteBuffer.allocate(0);
    private byte[] decompressed = new byte[1 << 20];
    private int decompressedSize;

    private int batches;
    private int[] batchRecords = new int[1 << 10];
    private long[] batchOffsets = new long[1 << 10];

    private int records;
    private long[] offsets = new long[1 << 14];
    private long[] timestamps = new long[1 << 14];
    private long[] seqs = new long[1 << 14];
    private int[] writers = new int[1 << 14];
    private int[] homes = new int[1 << 14];
    private int[] coordinatorEpochs = new int[1 << 14];
    private byte[] intact = new byte[1 << 14];
    private byte[] markers = new byte[1 << 14];

    private final Map<String, Integer> homeNumbers = new HashMap<>();
    private final List<byte[]> homeNames = new ArrayList<>();
    private int homeBytes;
    private byte[] lastHome = {};
    private int lastHomeNumber = -1;

    public static void main(String[] arguments) throws IOException {
        new BatchDecoder().serve();
    }

    private void serve() throws IOException {
        DataInputStream requests = new DataInputStream(System.in);
        OutputStream answers = new BufferedOutputStream(System.out, 1 << 16);
        byte[] raw = new byte[0];
        while (true) {
            int asked = requests.read();
            if (asked < 0) {
                return;
            }
            int size = requests.readInt();
            if (raw.length < size) {
                raw = new byte[size];
            }
            requests.readFully(raw, 0, size);
            if (asked == 'w') {
                walk(raw, size, answers);
            } else {
                decode(raw, size);
                write(answers);
            }
            answers.flush();
        }
    }

    private void walk(byte[] raw, int size, OutputStream out) throws IOException {
        in = ByteBuffer.wrap(raw);
        int count = 0;
        int[] positions = new int[1 << 10];
        int[] checksums = new int[1 << 10];
        for (int position = 0; position <= size - 17; count++) {
            long following = position + 12L + in.getInt(position + 8);
            int magic = raw[position + 16] & 0xff;
            long body = following - position - 12;
            if (body < 5 || following > size || !(magic == 2 && body >= 49 || magic < 2 && body >= 14)) {
                break;
            }
            if (count + 1 == positions.length) {
                positions = Arrays.copyOf(positions, positions.length * 2);
                checksums = Arrays.copyOf(checksums, checksums.length * 2);
            }
            Checksum checksum = magic == 2 ? crc32c : crc32;
            int start = position + (magic == 2 ? 21 : 16);
            checksum.reset();
            checksum.update(raw, start, (int) following - start);
            checksums[count] = (int) checksum.getValue();
            position = (int) following;
            positions[count + 1] = position;
        }
        ByteBuffer answer = ByteBuffer.allocate(8 + count * 8).order(ByteOrder.LITTLE_ENDIAN);
        answer.putInt(count);
        ints(answer, positions, count + 1);
        ints(answer, checksums, count);
        out.write(answer.array());
    }

    private void decode(byte[] raw, int end) {
        in = ByteBuffer.wrap(raw);
        batches = 0;
        records = 0;
        homeNumbers.clear();
        homeNames.clear();
        homeBytes = 0;
        lastHome = new byte[0];
        lastHomeNumber = -1;
        int position = 0;
        while (position < end) {
            int following = position + 12 + in.getInt(position + 8);
            int first = records;
            int count = -1;
            try {
                byte magic = raw[position + 16];
                if (magic == 2) {
                    current(raw, position, following);
                } else {
                    legacy(raw, position, following, magic);
                }
                count = records - first;
            } catch (Refused | IOException | IndexOutOfBoundsException | OutOfMemoryError refused) {
                records = first;
            } catch (RuntimeException refused) { // of a library that decompresses
                records = first;
            }
            if (batches == batchRecords.length) {
                batchRecords = Arrays.copyOf(batchRecords, batches * 2);
                batchOffsets = Arrays.copyOf(batchOffsets, batches * 2);
            }
            batchRecords[batches] = count;
            boolean outer = raw[position + 16] == 2 || count <= 0; // a message names the last that it holds
            batchOffsets[batches] = outer ? in.getLong(position) : offsets[first];
            batches++;
            position = following;
        }
    }

    private static void require(boolean usual) {
        if (!usual) {
            throw REFUSED;
        }
    }

    // Format 2

    private void current(byte[] raw, int start, int end) throws IOException {
        crc32c.reset();
        crc32c.update(raw, start + 21, end - start - 21);
        require((int) crc32c.getValue() == in.getInt(start + 17));
        long base = in.getLong(start);
        require(base >= 0 && base < Long.MAX_VALUE / 2);
        int attributes = in.getShort(start + 21);
        long firstTimestamp = in.getLong(start + 27);
        long maxTimestamp = in.getLong(start + 35);
        int count = in.getInt(start + 57);
        byte[] data = raw;
        int position = start + HEADER;
        int limit = end;
        if ((attributes & CODEC) != 0) {
            decompress(attributes & CODEC, raw, position, end, 2);
            data = decompressed;
            position = 0;
            limit = decompressedSize;
        }
        boolean control = (attributes & CONTROL) != 0;
        boolean stamped = (attributes & APPEND_TIME) != 0;
        reader.data = data;
        reader.limit = limit;
        reader.position = position;
        require(count >= 0);
        for (int number = 0; number < count; number++) {
            long size = reader.varint();
            int begin = reader.position;
            require(reader.octet() >= 0);
            long timestamp = firstTimestamp + reader.varint();
            long offset = base + reader.varint();
            int keySize = reader.size();
            int key = reader.position;
            reader.skip(keySize);
            int valueSize = reader.size();
            int value = reader.position;
            reader.skip(valueSize);
            long headers = reader.varint();
            require(headers >= 0 && headers <= limit);
            for (long header = 0; header < headers; header++) {
                int nameSize = reader.size();
                require(nameSize >= 0);
                reader.ascii(nameSize);
                reader.skip(reader.size());
            }
            require(reader.position - begin == size);
            add(offset, stamped ? maxTimestamp : timestamp);
            if (control) {
                marker(data, key, keySize, value, valueSize);
            }
            identity(data, value, valueSize);
            records++;
        }
        require(reader.position == limit);
    }

    private final Reader reader = new Reader();

    /** Bytes of records; every read beyond their end refuses the batch. */
    private static final class Reader {
        byte[] data;
        int position;
        int limit;

        byte octet() {
            require(position < limit);
            return data[position++];
        }

        long varint() {
            long value = 0;
            for (int shift = 0; shift < 63; shift += 7) {
                byte next = octet();
                value |= (long) (next & 0x7f) << shift;
                if (next >= 0) {
                    return (value >>> 1) ^ -(value & 1);
                }
            }
            throw REFUSED;
        }

        /** The size of a key or a value; -1 if there is none. */
        int size() {
            long size = varint();
            require(size >= -1 && size <= limit - position);
            return (int) size;
        }

        void skip(int size) {
            position += Math.max(0, size);
        }

        void ascii(int size) {
            for (int end = position + size; position < end; position++) {
                require(data[position] >= 0);
            }
        }
    }

    // Formats 0 and 1

    private void legacy(byte[] raw, int start, int end, int magic) throws IOException {
        crc32.reset();
        crc32.update(raw, start + 16, end - start - 16);
        require((int) crc32.getValue() == in.getInt(start + 12));
        int attributes = raw[start + 17];
        int codec = attributes & CODEC;
        long last = in.getLong(start);
        require(last >= 0 && last < Long.MAX_VALUE / 2);
        if (codec == 0) {
            require(message(raw, in, start, end) == end);
            return;
        }
        require(magic == 1 || (attributes & APPEND_TIME) == 0);
        int position = start + (magic == 1 ? 26 : 18);
        int keySize = in.getInt(position);
        require(keySize == -1);
        int size = in.getInt(position + 4);
        require(size >= 0 && size == end - position - 8);
        decompress(codec, raw, position + 8, end, magic);
        int first = records;
        ByteBuffer inner = ByteBuffer.wrap(decompressed);
        for (position = 0; position < decompressedSize; ) {
            require(position + 26 <= decompressedSize && (decompressed[position + 17] & CODEC) == 0);
            position = message(decompressed, inner, position, decompressedSize);
        }
        if (magic == 1 && records > first) {
            long before = Math.max(0, last - offsets[records - 1]);
            boolean stamped = (attributes & APPEND_TIME) != 0;
            long timestamp = in.getLong(start + 18);
            for (int record = first; record < records; record++) {
                offsets[record] += before;
                timestamps[record] = stamped ? timestamp : timestamps[record];
            }
        }
    }

    /** Adds a message that is not compressed; returns the position behind it. */
    private int message(byte[] data, ByteBuffer ints, int start, int end) {
        byte magic = data[start + 16];
        require(magic == 0 || magic == 1);
        int position = start + (magic == 1 ? 26 : 18);
        require(position + 8 <= end);
        int keySize = ints.getInt(position);
        position += 4;
        require(keySize >= -1 && keySize <= end - position - 4);
        position += Math.max(0, keySize);
        int valueSize = ints.getInt(position);
        position += 4;
        require(valueSize >= -1 && valueSize <= end - position);
        long offset = ints.getLong(start);
        require(offset >= 0 && offset < Long.MAX_VALUE / 2);
        add(offset, magic == 1 ? ints.getLong(start + 18) : -1);
        identity(data, position, valueSize);
        records++;
        return position + Math.max(0, valueSize);
    }

    // What a record holds

    private void add(long offset, long timestamp) {
        if (records == offsets.length) {
            int more = records * 2;
            offsets = Arrays.copyOf(offsets, more);
            timestamps = Arrays.copyOf(timestamps, more);
            seqs = Arrays.copyOf(seqs, more);
            writers = Arrays.copyOf(writers, more);
            homes = Arrays.copyOf(homes, more);
            coordinatorEpochs = Arrays.copyOf(coordinatorEpochs, more);
            intact = Arrays.copyOf(intact, more);
            markers = Arrays.copyOf(markers, more);
        }
        offsets[records] = offset;
        timestamps[records] = timestamp;
        markers[records] = NO_MARKER;
        coordinatorEpochs[records] = NO_EPOCH;
    }

    private void marker(byte[] data, int key, int keySize, int value, int valueSize) {
        if (keySize < 4) {
            return;
        }
        ByteBuffer ints = ByteBuffer.wrap(data);
        int kind = ints.getShort(key + 2);
        if (kind == 0 || kind == 1) {
            markers[records] = (byte) kind;
            if (valueSize >= 6) {
                int epoch = ints.getInt(value + 2);
                require(epoch != NO_EPOCH);
                coordinatorEpochs[records] = epoch;
            }
        }
    }

    private void identity(byte[] data, int start, int size) {
        writers[records] = -1;
        seqs[records] = -1;
        homes[records] = -1;
        intact[records] = UNCHECKED;
        if (size < MAGIC.length || !Arrays.equals(data, start, start + MAGIC.length, MAGIC, 0, MAGIC.length)) {
            return;
        }
        int end = start + size;
        int spaces = 0;
        int one = 0;
        int two = 0;
        int three = 0;
        int four = 0;
        int last = 0;
        for (int position = start + MAGIC.length; position < end; position++) {
            if (data[position] == ' ') {
                spaces++;
                switch (spaces) {
                    case 1: one = position; break;
                    case 2: two = position; break;
                    case 3: three = position; break;
                    case 4: four = position; break;
                    default: last = position;
                }
            }
        }
        if (spaces != 6) {
            return;
        }
        writers[records] = (int) digits(data, one + 1, two, 9);
        seqs[records] = digits(data, two + 1, three, 18);
        homes[records] = home(data, three + 1, four);
        require(end - last - 1 == 8);
        int stated = 0;
        for (int position = last + 1; position < end; position++) {
            int digit = data[position];
            require(digit >= '0' && digit <= '9' || digit >= 'a' && digit <= 'f');
            stated = stated << 4 | (digit <= '9' ? digit - '0' : digit - 'a' + 10);
        }
        crc32.reset();
        crc32.update(data, start, last + 1 - start);
        intact[records] = (byte) ((int) crc32.getValue() == stated ? INTACT : NOT_INTACT);
    }

    private static long digits(byte[] data, int start, int end, int most) {
        require(start < end && end - start <= most);
        long number = 0;
        for (int position = start; position < end; position++) {
            int digit = data[position] - '0';
            require(digit >= 0 && digit <= 9);
            number = number * 10 + digit;
        }
        return number;
    }

    /** The number of a home in this answer. */
    private int home(byte[] data, int start, int end) {
        if (lastHomeNumber >= 0 && Arrays.equals(data, start, end, lastHome, 0, lastHome.length)) {
            return lastHomeNumber;
        }
        for (int position = start; position < end; position++) {
            require(data[position] > 0);
        }
        lastHome = Arrays.copyOfRange(data, start, end);
        lastHomeNumber = homeNumbers.computeIfAbsent(
                new String(lastHome, StandardCharsets.US_ASCII), name -> {
                    homeNames.add(lastHome);
                    homeBytes += lastHome.length;
                    return homeNames.size() - 1;
                });
        return lastHomeNumber;
    }

    // Decompression: into `decompressed`

    private void decompress(int codec, byte[] data, int start, int end, int magic) throws IOException {
        decompressedSize = 0;
        switch (codec) {
            case 1: gunzip(data, start, end); break;
            case 2: unsnappy(data, start, end); break;
            case 3: unlz4(data, start, end, magic); break;
            case 4: unzstd(data, start, end); break;
            default: throw REFUSED;
        }
    }

    private void room(int more) {
        require(more >= 0 && more <= MOST_DECOMPRESSED - decompressedSize);
        if (decompressed.length - decompressedSize < more) {
            int larger = Math.max(decompressedSize + more, decompressed.length * 2);
            decompressed = Arrays.copyOf(decompressed, Math.min(larger, MOST_DECOMPRESSED));
        }
    }

    private void gunzip(byte[] data, int start, int end) throws IOException {
        // One member without optional fields, as zlib and Java write it.
        require(end - start >= 18 && data[start] == 0x1f && data[start + 1] == (byte) 0x8b);
        require(data[start + 2] == 8 && data[start + 3] == 0);
        inflater.reset();
        inflater.setInput(data, start + 10, end - start - 10);
        while (!inflater.finished()) {
            room(1 << 12);
            int got;
            try {
                got = inflater.inflate(decompressed, decompressedSize, decompressed.length - decompressedSize);
            } catch (java.util.zip.DataFormatException damaged) {
                throw REFUSED;
            }
            require(got > 0 || inflater.finished());
            decompressedSize += got;
        }
        require(inflater.getRemaining() == 8);
        ByteBuffer trailer = ByteBuffer.wrap(data, end - 8, 8).order(ByteOrder.LITTLE_ENDIAN);
        crc32.reset();
        crc32.update(decompressed, 0, decompressedSize);
        require((int) crc32.getValue() == trailer.getInt() && decompressedSize == trailer.getInt());
    }

    private void unsnappy(byte[] data, int start, int end) throws IOException {
        int size = end - start;
        if (size <= XERIAL.length || !Arrays.equals(data, start, start + XERIAL.length, XERIAL, 0, XERIAL.length)) {
            unsnappyBlock(data, start, size);
            return;
        }
        int position = start + XERIAL.length;
        while (position < end) {
            require(end - position >= 4);
            int length = in.getInt(position);
            position += 4;
            require(length > 0 && length <= end - position);
            unsnappyBlock(data, position, length);
            position += length;
        }
    }

    private void unsnappyBlock(byte[] data, int start, int size) throws IOException {
        int length = Snappy.uncompressedLength(data, start, size);
        room(length);
        require(Snappy.uncompress(data, start, size, decompressed, decompressedSize) == length);
        decompressedSize += length;
    }

    private void unlz4(byte[] data, int start, int end, int magic) {
        if (lz4 == null) {
            lz4 = LZ4Factory.fastestInstance().safeDecompressor();
            xxhash = XXHashFactory.fastestInstance().hash32();
        }
        ByteBuffer ints = ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN);
        require(end - start >= 11 && ints.getInt(start) == 0x184D2204);
        int flags = data[start + 4];
        int largest = 1 << (8 + 2 * (data[start + 5] >> 4 & 7));
        require((data[start + 5] >> 4 & 7) >= 4 && (data[start + 5] & 0x8f) == 0);
        require((flags & 0xe3) == 0x60); // version 1, independent blocks
        boolean blocksChecked = (flags & 0x10) != 0;
        boolean sized = (flags & 0x08) != 0;
        boolean checked = (flags & 0x04) != 0;
        int position = start + 6 + (sized ? 8 : 0);
        require(position < end);
        if (magic == 0) {
            require(!sized && !checked && !blocksChecked); // Kafka's wrong checksum of the header is not looked at
        } else {
            int sum = xxhash.hash(data, start + 4, position - start - 4, 0) >> 8;
            require((byte) sum == data[position]);
        }
        position++;
        while (true) {
            require(end - position >= 4);
            int length = ints.getInt(position);
            position += 4;
            if (length == 0) {
                break;
            }
            boolean stored = length < 0;
            length &= 0x7fffffff;
            require(length <= end - position && length <= largest);
            room(largest);
            if (stored) {
                System.arraycopy(data, position, decompressed, decompressedSize, length);
                decompressedSize += length;
            } else {
                decompressedSize += lz4.decompress(data, position, length, decompressed, decompressedSize, largest);
            }
            position += length;
            if (blocksChecked) {
                require(end - position >= 4 && ints.getInt(position) == xxhash.hash(data, position - length, length, 0));
                position += 4;
            }
        }
        if (sized) {
            require(ints.getLong(start + 6) == decompressedSize);
        }
        if (checked) {
            require(end - position >= 4 && ints.getInt(position) == xxhash.hash(decompressed, 0, decompressedSize, 0));
            position += 4;
        }
        require(position == end);
    }

    private void unzstd(byte[] data, int start, int end) throws IOException {
        long stated = Zstd.getFrameContentSize(data, start, end - start);
        if (stated > 0 && Zstd.findFrameCompressedSize(data, start, end - start) == end - start) {
            require(stated <= MOST_DECOMPRESSED);
            room((int) stated);
            long got = Zstd.decompressByteArray(decompressed, 0, (int) stated, data, start, end - start);
            require(got == stated);
            decompressedSize = (int) stated;
            return;
        }
        try (ZstdInputStreamNoFinalizer stream =
                new ZstdInputStreamNoFinalizer(new ByteArrayInputStream(data, start, end - start))) {
            while (true) {
                room(1 << 16);
                int got = stream.read(decompressed, decompressedSize, decompressed.length - decompressedSize);
                if (got < 0) {
                    return;
                }
                decompressedSize += got;
            }
        }
    }

    // The answer

    private void write(OutputStream out) throws IOException {
        int size = 16 + batches * 12 + records * 38 + homeNames.size() * 4 + homeBytes;
        ByteBuffer answer = ByteBuffer.allocate(size).order(ByteOrder.LITTLE_ENDIAN);
        answer.putInt(batches).putInt(records).putInt(homeNames.size()).putInt(homeBytes);
        ints(answer, batchRecords, batches);
        longs(answer, batchOffsets, batches);
        longs(answer, offsets, records);
        longs(answer, timestamps, records);
        longs(answer, seqs, records);
        ints(answer, writers, records);
        ints(answer, homes, records);
        ints(answer, coordinatorEpochs, records);
        answer.put(intact, 0, records);
        answer.put(markers, 0, records);
        for (byte[] home : homeNames) {
            answer.putInt(home.length);
        }
        for (byte[] home : homeNames) {
            answer.put(home);
        }
        out.write(answer.array());
    }

    private static void ints(ByteBuffer answer, int[] values, int count) {
        answer.asIntBuffer().put(values, 0, count);
        answer.position(answer.position() + count * 4);
    }

    private static void longs(ByteBuffer answer, long[] values, int count) {
        answer.asLongBuffer().put(values, 0, count);
        answer.position(answer.position() + count * 8);
    }
}

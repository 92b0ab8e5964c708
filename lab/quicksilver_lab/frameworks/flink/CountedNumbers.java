import java.io.BufferedWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.UUID;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.RichSinkFunction;

/**
 * A streaming job like any other: numbers at a steady rate, counted by key in state that checkpoints hold.
 *
 * <p>usage: CountedNumbers FOLDER RECORDS PER_SECOND. Each record leaves a line "milliseconds number count" in a file of
 * its task in FOLDER: after a restart from a checkpoint some lines come twice, and no count may be wrong.
 */
public final class CountedNumbers {
    private static final int KEYS = 16;

    private CountedNumbers() {}

    /** Runs the job until all records are counted. */
    public static void main(String[] args) throws Exception {
        String folder = args[0];
        long records = Long.parseLong(args[1]);
        double perSecond = Double.parseDouble(args[2]);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        DataGeneratorSource<Long> numbers =
                new DataGeneratorSource<>(
                        number -> number, records, RateLimiterStrategy.perSecond(perSecond), Types.LONG);
        env.fromSource(numbers, WatermarkStrategy.noWatermarks(), "numbers")
                .setParallelism(1) // one order of all records: what the count of each must be is known
                .keyBy(number -> number % KEYS)
                .map(new Count())
                .returns(Types.TUPLE(Types.LONG, Types.LONG))
                .addSink(new Lines(folder));
        env.execute("counted numbers");
    }

    /** Counts the records of a key. */
    public static final class Count extends RichMapFunction<Long, Tuple2<Long, Long>> {
        private transient ValueState<Long> count;

        @Override
        public void open(OpenContext context) {
            count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
        }

        @Override
        public Tuple2<Long, Long> map(Long number) throws Exception {
            Long before = count.value();
            long now = before == null ? 1 : before + 1;
            count.update(now);
            return Tuple2.of(number, now);
        }
    }

    /** Writes each record at once. */
    public static final class Lines extends RichSinkFunction<Tuple2<Long, Long>> {
        private final String folder;
        private transient BufferedWriter file;

        Lines(String folder) {
            this.folder = folder;
        }

        @Override
        public void open(OpenContext context) throws Exception {
            file = Files.newBufferedWriter(Files.createDirectories(Path.of(folder)).resolve(UUID.randomUUID() + ".txt"));
        }

        @Override
        public void invoke(Tuple2<Long, Long> record, Context context) throws Exception {
            file.write(System.currentTimeMillis() + " " + record.f0 + " " + record.f1 + "\n");
            file.flush();
        }

        @Override
        public void close() throws Exception {
            if (file != null) {
                file.close();
            }
        }
    }
}

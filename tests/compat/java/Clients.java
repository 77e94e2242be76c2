import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The Java client for tests in another language: one JSON object a line in, one a line out.
 *
 * A command names what it does ("do") and whom it concerns ("id"). Producers, consumers and admins
 * live from their "open" to their "close". Bytes travel as base64. What the client throws comes back
 * as {"error": Kafka's number, "message": ...} and ends nothing.
 */
public final class Clients {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long PATIENCE_S = 30;

    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();
    private final Map<String, KafkaConsumer<byte[], byte[]>> consumers = new HashMap<>();
    private final Map<String, Admin> admins = new HashMap<>();

    public static void main(String[] arguments) throws IOException {
        Clients clients = new Clients();
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(JSON.writeValueAsString(clients.answer(JSON.readTree(line))));
        }
    }

    private ObjectNode answer(JsonNode command) {
        ObjectNode answer = JSON.createObjectNode();
        try {
            carryOut(command, answer);
        } catch (Exception fault) {
            Throwable cause = unwrapped(fault);
            answer.removeAll();
            answer.put("error", Errors.forException(cause).code());
            answer.put("message", cause.toString());
        }
        return answer;
    }

    private static Throwable unwrapped(Throwable fault) {
        boolean isWrapper = fault instanceof ExecutionException || fault instanceof CompletionException;
        return isWrapper && fault.getCause() != null ? fault.getCause() : fault;
    }

    private void carryOut(JsonNode command, ObjectNode answer) throws Exception {
        String id = command.get("id").asText();
        switch (command.get("do").asText()) {
            case "producer.open" -> producers.put(id, new KafkaProducer<>(
                    config(command), new ByteArraySerializer(), new ByteArraySerializer()));
            case "producer.send" -> send(producers.get(id), command, answer);
            case "producer.close" -> producers.remove(id).close();
            case "consumer.open" -> consumers.put(id, consumer(command));
            case "consumer.read" -> read(consumers.get(id), command, answer);
            case "consumer.seek" -> consumers.get(id).assignment().forEach(
                    one -> consumers.get(id).seek(one, command.get("offset").asLong()));
            case "consumer.times" -> times(consumers.get(id), command, answer);
            case "consumer.close" -> consumers.remove(id).close();
            case "consumer.subscribe" -> consumers.put(id, subscribed(command));
            case "consumer.poll" -> poll(consumers.get(id), answer);
            case "consumer.commit" -> consumers.get(id).commitSync();
            case "admin.open" -> admins.put(id, Admin.create(config(command)));
            case "admin.close" -> admins.remove(id).close();
            default -> administer(admins.get(id), command, answer);
        }
    }

    private static Map<String, Object> config(JsonNode command) {
        Map<String, Object> config = new HashMap<>();
        command.get("config").properties().forEach(one -> config.put(one.getKey(), one.getValue().asText()));
        return config;
    }

    // Producing

    private static void send(KafkaProducer<byte[], byte[]> producer, JsonNode command, ObjectNode answer)
            throws Exception {
        String topic = command.get("topic").asText();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode record : command.get("records")) {
            sent.add(producer.send(recordOf(topic, record)));
        }
        producer.flush();
        ArrayNode offsets = answer.putArray("offsets");
        for (Future<RecordMetadata> one : sent) {
            offsets.add(one.get(PATIENCE_S, TimeUnit.SECONDS).offset());
        }
    }

    private static ProducerRecord<byte[], byte[]> recordOf(String topic, JsonNode record)
            throws IOException {
        List<Header> headers = new ArrayList<>();
        for (JsonNode header : record.get("headers")) {
            headers.add(new RecordHeader(header.get(0).asText(), bytes(header.get(1))));
        }
        Long timestamp = record.get("timestamp_ms").isNull() ? null : record.get("timestamp_ms").asLong();
        return new ProducerRecord<>(topic, record.get("partition").asInt(), timestamp,
                bytes(record.get("key")), bytes(record.get("value")), headers);
    }

    private static byte[] bytes(JsonNode node) throws IOException {
        return node.isNull() ? null : node.binaryValue();
    }

    // Consuming

    private static KafkaConsumer<byte[], byte[]> consumer(JsonNode command) {
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
                config(command), new ByteArrayDeserializer(), new ByteArrayDeserializer());
        List<TopicPartition> partitions = new ArrayList<>();
        for (JsonNode partition : command.get("partitions")) {
            partitions.add(new TopicPartition(command.get("topic").asText(), partition.asInt()));
        }
        consumer.assign(partitions);
        if (command.get("offset").isNull()) {
            consumer.seekToBeginning(partitions);
        } else {
            partitions.forEach(one -> consumer.seek(one, command.get("offset").asLong()));
        }
        return consumer;
    }

    private static void read(KafkaConsumer<byte[], byte[]> consumer, JsonNode command, ObjectNode answer) {
        int count = command.get("count").asInt();
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S);
        ArrayNode records = answer.putArray("records");
        while (records.size() < count && System.nanoTime() < end) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                records.add(described(record));
            }
        }
    }

    private static KafkaConsumer<byte[], byte[]> subscribed(JsonNode command) {
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
                config(command), new ByteArrayDeserializer(), new ByteArrayDeserializer());
        String topic = command.get("topic").asText();
        if (topic.startsWith("^")) {
            consumer.subscribe(new SubscriptionPattern(topic));  // the server's, KIP-848
        } else {
            consumer.subscribe(List.of(topic));
        }
        return consumer;
    }

    /** A short turn of a group's member: what it read, and which partitions it has then. */
    private static void poll(KafkaConsumer<byte[], byte[]> consumer, ObjectNode answer) {
        ArrayNode records = answer.putArray("records");
        consumer.poll(Duration.ofMillis(50)).forEach(record -> records.add(described(record)));
        ArrayNode partitions = answer.putArray("partitions");
        consumer.assignment().forEach(one -> partitions.add(one.partition()));
    }

    private static ObjectNode described(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode described = JSON.createObjectNode();
        described.put("partition", record.partition());
        described.put("offset", record.offset());
        described.put("timestamp_ms", record.timestamp());
        described.put("key", text(record.key()));
        described.put("value", text(record.value()));
        ArrayNode headers = described.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(text(header.value()));
        }
        return described;
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }

    private static void times(KafkaConsumer<byte[], byte[]> consumer, JsonNode command, ObjectNode answer) {
        TopicPartition partition = consumer.assignment().iterator().next();
        OffsetAndTimestamp found = consumer
                .offsetsForTimes(Map.of(partition, command.get("timestamp_ms").asLong()))
                .get(partition);
        answer.put("offset", found == null ? null : (Long) found.offset());
        answer.put("end", consumer.endOffsets(List.of(partition)).get(partition));
        answer.put("beginning", consumer.beginningOffsets(List.of(partition)).get(partition));
    }

    // Administering

    private static void administer(Admin admin, JsonNode command, ObjectNode answer) throws Exception {
        String topic = command.path("topic").asText();
        switch (command.get("do").asText()) {
            case "admin.create" -> {
                NewTopic wanted = new NewTopic(
                        topic, Optional.of(command.get("partitions").asInt()), Optional.<Short>empty());
                Map<String, String> configs = new HashMap<>();
                config(command).forEach((name, value) -> configs.put(name, value.toString()));
                admin.createTopics(List.of(wanted.configs(configs))).all().get();
            }
            case "admin.delete" -> admin.deleteTopics(List.of(topic)).all().get();
            case "admin.list" -> strings(answer.putArray("topics"), admin.listTopics().names().get());
            case "admin.partitions" -> answer.put("partitions", admin.describeTopics(List.of(topic))
                    .allTopicNames().get().get(topic).partitions().size());
            case "admin.grow" -> admin.createPartitions(
                    Map.of(topic, NewPartitions.increaseTo(command.get("total").asInt()))).all().get();
            case "admin.describe" -> describe(admin, topic, answer.putObject("configs"));
            case "admin.alter" -> alter(admin, topic, command);
            case "admin.trim" -> {
                TopicPartition partition = new TopicPartition(topic, command.get("partition").asInt());
                RecordsToDelete before = RecordsToDelete.beforeOffset(command.get("before").asLong());
                answer.put("low", admin.deleteRecords(Map.of(partition, before))
                        .lowWatermarks().get(partition).get().lowWatermark());
            }
            case "admin.offset" -> {
                TopicPartition partition = new TopicPartition(topic, 0);
                answer.put("offset", admin.listOffsets(Map.of(partition, spec(command.get("question").asInt())))
                        .partitionResult(partition).get().offset());
            }
            case "admin.cluster" -> cluster(admin.describeCluster(), answer);
            case "admin.logDirs" -> logDirs(admin, topic, answer);
            default -> throw new IllegalArgumentException("unknown command: " + command.get("do"));
        }
    }

    private static OffsetSpec spec(int question) {
        return switch (question) {
            case -1 -> OffsetSpec.latest();
            case -2 -> OffsetSpec.earliest();
            case -3 -> OffsetSpec.maxTimestamp();
            case -4 -> OffsetSpec.earliestLocal();
            case -5 -> OffsetSpec.latestTiered();
            default -> throw new IllegalArgumentException("unknown question: " + question);
        };
    }

    private static void strings(ArrayNode into, Collection<String> from) {
        from.forEach(into::add);
    }

    private static void describe(Admin admin, String topic, ObjectNode configs) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        for (ConfigEntry entry : admin.describeConfigs(List.of(resource)).all().get().get(resource).entries()) {
            configs.put(entry.name(), entry.value());
        }
    }

    private static void alter(Admin admin, String topic, JsonNode command) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        List<AlterConfigOp> changes = new ArrayList<>();
        config(command).forEach((name, value) -> changes.add(new AlterConfigOp(
                new ConfigEntry(name, value.toString()), AlterConfigOp.OpType.SET)));
        admin.incrementalAlterConfigs(Map.of(resource, changes)).all().get();
    }

    private static void cluster(DescribeClusterResult result, ObjectNode answer) throws Exception {
        answer.put("cluster_id", result.clusterId().get());
        ArrayNode nodes = answer.putArray("nodes");
        for (Node node : result.nodes().get()) {
            nodes.add(node.host() + ":" + node.port());
        }
    }

    private static void logDirs(Admin admin, String topic, ObjectNode answer) throws Exception {
        int node = admin.describeCluster().nodes().get().iterator().next().id();
        long bytes = 0;
        for (LogDirDescription directory : admin.describeLogDirs(List.of(node)).allDescriptions().get().get(node).values()) {
            for (var replica : directory.replicaInfos().entrySet()) {
                bytes += replica.getKey().topic().equals(topic) ? replica.getValue().size() : 0;
            }
        }
        answer.put("bytes", bytes);
    }
}

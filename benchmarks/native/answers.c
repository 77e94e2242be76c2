#include "answers.h"

#include <sys/sendfile.h>
#include <sys/socket.h>

#include "batch.h"

enum { ERROR_OFFSET_OUT_OF_RANGE = 1, ERROR_CORRUPT_MESSAGE = 2, ERROR_STORAGE = 56 };

Log logs[LOGS_MAX];
int log_count = 1;
atomic_ullong request_count;

static Log *log_of(int32_t partition) { return &logs[(uint32_t)partition % (uint32_t)log_count]; }

static bool send_whole(int socket, const uint8_t *bytes, size_t length, int flags) {
    while (length > 0) {
        ssize_t sent = send(socket, bytes, length, flags | MSG_NOSIGNAL);
        if (sent <= 0) return false;
        bytes += sent;
        length -= (size_t)sent;
    }
    return true;
}

bool flush_answers(Client *client, int flags) {
    bool sent = send_whole(client->socket, client->out.bytes, client->out.length, flags);
    client->out.length = 0;
    return sent;
}

/* Leaves room for the size prefix, which is known only at the end. */
static size_t begin_answer(Client *client, const RequestHeader *header) {
    size_t start = client->out.length;
    put_be(&client->out, 4, 0);
    put_be(&client->out, 4, (uint32_t)header->correlation_id);
    put_no_tags(&client->out, header->flexible);
    return start;
}

static void end_answer(Client *client, size_t start, size_t bytes_to_follow) {
    size_t length = client->out.length - start - SIZE_PREFIX_BYTES + bytes_to_follow;
    store_be(client->out.bytes + start, 4, length);
}

static void put_topic(Writer *out, const RequestHeader *header, Span topic) {
    if (topics_by_id(header))
        put_raw(out, topic);
    else
        put_string(out, header->flexible, topic);
}

/* ---- Produce ---- */

static bool batch_is_sound(const uint8_t *batch, size_t length) {
    uint32_t count = (uint32_t)load_be(batch + BATCH_COUNT_AT, 4);
    return count > 0 && count <= INT32_MAX && count == batch_offset_count(batch) &&
           batch_crc_is_right(batch, length);
}

/* How many offsets the batches span; 0 if any of them is not sound. */
static uint32_t check_batches(Span batches) {
    uint64_t offsets = 0;
    while (batches.length > 0) {
        size_t length = batch_bytes(batches.bytes, batches.length);
        if (length == 0 || !batch_is_sound(batches.bytes, length)) return 0;
        offsets += batch_offset_count(batches.bytes);
        batches = (Span){.bytes = batches.bytes + length, .length = batches.length - length};
    }
    return offsets > UINT32_MAX ? 0 : (uint32_t)offsets;
}

static int16_t append(int32_t partition, Span batches, int64_t *base_offset) {
    *base_offset = -1;
    uint32_t offsets = check_batches(batches);
    if (offsets == 0) return ERROR_CORRUPT_MESSAGE;
    /* The bytes stand in our own receive buffer: offsets are written into them, then they go. */
    *base_offset = log_append(log_of(partition), (uint8_t *)batches.bytes, batches.length, offsets);
    return *base_offset < 0 ? ERROR_STORAGE : 0;
}

static void produce_partition(Reader *in, Writer *out, const RequestHeader *header) {
    int32_t partition = take_i32(in);
    Span batches = take_bytes(in, header->flexible);
    take_tags(in, header->flexible);
    if (in->failed) return;
    int64_t base_offset;
    int16_t error = append(partition, batches, &base_offset);
    put_be(out, 4, (uint32_t)partition);
    put_be(out, 2, (uint16_t)error);
    put_be(out, 8, (uint64_t)base_offset);
    put_be(out, 8, UINT64_MAX); /* log append time: -1, the batch keeps its own */
    if (header->version >= 5) put_be(out, 8, (uint64_t)log_start_offset(log_of(partition)));
    if (header->version >= 8) {
        put_array(out, header->flexible, 0); /* record errors */
        if (header->flexible)
            put_be(out, 1, 0); /* error message: null */
        else
            put_be(out, 2, UINT16_MAX);
    }
    put_no_tags(out, header->flexible);
}

static bool produce(Client *client, Reader *in, const RequestHeader *header) {
    Writer *out = &client->out;
    bool flexible = header->flexible;
    size_t start = begin_answer(client, header);
    take_string(in, flexible); /* transactional id */
    int16_t acks = take_i16(in);
    take_i32(in); /* timeout */
    uint32_t topics = take_array(in, flexible);
    put_array(out, flexible, topics);
    for (; topics > 0 && !in->failed; topics--) {
        put_topic(out, header, take_topic(in, header));
        uint32_t partitions = take_array(in, flexible);
        put_array(out, flexible, partitions);
        for (; partitions > 0 && !in->failed; partitions--) produce_partition(in, out, header);
        take_tags(in, flexible);
        put_no_tags(out, flexible);
    }
    take_tags(in, flexible);
    put_be(out, 4, 0); /* throttle time */
    put_no_tags(out, flexible);
    end_answer(client, start, 0);
    if (acks == 0) out->length = start; /* acks=0 is not answered */
    return !in->failed && remaining(in) == 0;
}

/* ---- Fetch ---- */

typedef struct {
    Log *log;
    Slice slice;
} Found;

static Found find(int32_t partition, int64_t offset, size_t bytes_max, int16_t *error) {
    Found found = {.log = log_of(partition)};
    bool known = log_read(found.log, offset, bytes_max, &found.slice);
    *error = known ? 0 : ERROR_OFFSET_OUT_OF_RANGE;
    return found;
}

static void put_fetched(Writer *out, const RequestHeader *header, int32_t partition, int16_t error,
                        const Found *found) {
    uint64_t end = (uint64_t)log_end_offset(found->log);
    put_be(out, 4, (uint32_t)partition);
    put_be(out, 2, (uint16_t)error);
    put_be(out, 8, end); /* high watermark */
    put_be(out, 8, end); /* last stable offset */
    if (header->version >= 5) put_be(out, 8, (uint64_t)log_start_offset(found->log));
    put_array(out, header->flexible, 0); /* aborted transactions */
    if (header->version >= 11) put_be(out, 4, UINT32_MAX); /* no preferred read replica */
    put_length(out, header->flexible, 4, found->slice.length);
}

static bool send_slice(int socket, const Slice *slice) {
    off_t position = slice->position, end = position + (off_t)slice->length;
    while (position < end)
        if (sendfile(socket, slice->segment->fd, &position, (size_t)(end - position)) <= 0)
            return false;
    return true;
}

/* One partition a request: a benchmark asks no more, and the records can go last. */
static bool fetch(Client *client, Reader *in, const RequestHeader *header) {
    Writer *out = &client->out;
    bool flexible = header->flexible;
    FetchAsked asked = take_fetch(in, header);
    if (in->failed || remaining(in) || asked.partitions != 1) return false;
    int16_t error;
    Found found = find(asked.partition, asked.offset, asked.bytes_max, &error);
    size_t start = begin_answer(client, header);
    put_be(out, 4, 0); /* throttle time */
    if (header->version >= 7) put_be(out, 6, 0); /* error, session id */
    put_array(out, flexible, 1);
    put_topic(out, header, asked.topic);
    put_array(out, flexible, 1);
    put_fetched(out, header, asked.partition, error, &found);
    size_t tags = flexible ? 3 : 0; /* of partition, topic and message, behind the records */
    end_answer(client, start, found.slice.length + tags);
    bool sent = flush_answers(client, found.slice.length ? MSG_MORE : 0) &&
                send_slice(client->socket, &found.slice);
    slice_release(found.log, &found.slice);
    for (size_t i = 0; i < tags; i++) put_no_tags(out, flexible);
    return sent;
}

/* ---- dispatch ---- */

static bool answer_others(Client *client, const RequestHeader *header) {
    size_t start = begin_answer(client, header);
    put_be(&client->out, 6, 0);
    end_answer(client, start, 0);
    return true;
}

bool handle_frame(Client *client, Span frame) {
    Reader in = reader_over(frame.bytes, frame.length);
    RequestHeader header;
    if (!take_request_header(&in, &header)) return false;
    atomic_fetch_add_explicit(&request_count, 1, memory_order_relaxed);
    if (header.key != API_PRODUCE && header.key != API_FETCH) return answer_others(client, &header);
    if (!version_is_known(&header)) return false;
    return header.key == API_PRODUCE ? produce(client, &in, &header) : fetch(client, &in, &header);
}

#include "protocol.h"

#include "batch.h"

static int first_flexible_version(int16_t key) {
    switch (key) {
        case API_PRODUCE: return 9;
        case API_FETCH: return 12;
        default: return INT16_MAX; /* others are never looked into, so their shape does not matter */
    }
}

bool take_request_header(Reader *reader, RequestHeader *header) {
    header->key = take_i16(reader);
    header->version = take_i16(reader);
    header->correlation_id = take_i32(reader);
    header->flexible = header->version >= first_flexible_version(header->key);
    take_string(reader, false); /* the client id stays a classic string in flexible headers */
    take_tags(reader, header->flexible);
    return !reader->failed && header->key >= 0 && header->version >= 0;
}

bool version_is_known(const RequestHeader *header) {
    switch (header->key) {
        case API_PRODUCE: return header->version >= 3 && header->version <= 13;
        case API_FETCH: return header->version >= 4 && header->version <= 18;
        default: return false;
    }
}

Span take_topic(Reader *reader, const RequestHeader *header) {
    if (!topics_by_id(header)) return take_string(reader, header->flexible);
    const uint8_t *id = take(reader, UUID_BYTES);
    return (Span){.bytes = id, .length = id ? UUID_BYTES : 0};
}

/* ---- requests ---- */

static uint64_t count_records(Span batches, bool *whole) {
    uint64_t records = 0;
    while (batches.length > 0) {
        size_t length = batch_bytes(batches.bytes, batches.length);
        if (length == 0) {
            *whole = false;
            return records;
        }
        records += batch_offset_count(batches.bytes);
        batches = (Span){.bytes = batches.bytes + length, .length = batches.length - length};
    }
    return records;
}

static const char *inspect_produce(Reader *reader, Inspection *found) {
    bool flexible = found->header.flexible, whole = true;
    take_string(reader, flexible); /* transactional id */
    found->expects_answer = take_i16(reader) != 0;
    take_i32(reader); /* timeout */
    for (uint32_t topics = take_array(reader, flexible); topics > 0; topics--) {
        take_topic(reader, &found->header);
        for (uint32_t left = take_array(reader, flexible); left > 0; left--) {
            take_i32(reader); /* index */
            found->records += count_records(take_bytes(reader, flexible), &whole);
            found->partitions++;
            take_tags(reader, flexible);
        }
        take_tags(reader, flexible);
    }
    take_tags(reader, flexible);
    return whole ? NULL : "its records are not whole batches of magic 2";
}

static int32_t take_fetch_partition(Reader *reader, const RequestHeader *header,
                                    FetchAsked *asked) {
    asked->partition = take_i32(reader);
    if (header->version >= 9) take_i32(reader); /* current leader epoch */
    asked->offset_at = reader->at;
    asked->offset = take_i64(reader);
    if (header->version >= 12) take_i32(reader); /* last fetched epoch */
    if (header->version >= 5) take_i64(reader); /* log start offset */
    int32_t bytes_max = take_i32(reader);
    take_tags(reader, header->flexible);
    asked->partitions++;
    return bytes_max;
}

static void skip_forgotten_topics(Reader *reader, const RequestHeader *header) {
    for (uint32_t topics = take_array(reader, header->flexible); topics > 0; topics--) {
        take_topic(reader, header);
        for (uint32_t left = take_array(reader, header->flexible); left > 0; left--)
            take_i32(reader);
        take_tags(reader, header->flexible);
    }
}

FetchAsked take_fetch(Reader *reader, const RequestHeader *header) {
    FetchAsked asked = {0};
    bool flexible = header->flexible;
    if (header->version <= 14) take_i32(reader); /* replica id */
    take(reader, 4 + 4); /* max wait, min bytes */
    int32_t bytes_max = take_i32(reader), partition_max = 0;
    take_i8(reader); /* isolation level */
    if (header->version >= 7) take(reader, 4 + 4); /* session id and epoch */
    for (uint32_t topics = take_array(reader, flexible); topics > 0; topics--) {
        asked.topic = take_topic(reader, header);
        for (uint32_t left = take_array(reader, flexible); left > 0; left--)
            partition_max = take_fetch_partition(reader, header, &asked);
        take_tags(reader, flexible);
    }
    if (header->version >= 7) skip_forgotten_topics(reader, header);
    if (header->version >= 11) take_string(reader, flexible); /* rack id */
    take_tags(reader, flexible);
    int32_t least = partition_max < bytes_max ? partition_max : bytes_max;
    asked.bytes_max = least < 0 ? 0 : (size_t)least;
    return asked;
}

static void inspect_fetch(Reader *reader, const uint8_t *frame, Inspection *found) {
    FetchAsked asked = take_fetch(reader, &found->header);
    found->partitions = asked.partitions;
    found->fetch_offset = asked.offset;
    found->fetch_offset_at = asked.offset_at ? (size_t)(asked.offset_at - frame) : 0;
}

const char *inspect_request(const uint8_t *frame, size_t length, Inspection *found) {
    *found = (Inspection){.expects_answer = true};
    Reader reader = reader_over(frame, length);
    if ((uint64_t)(uint32_t)take_i32(&reader) + SIZE_PREFIX_BYTES != length)
        return "its size prefix does not match its length";
    if (!take_request_header(&reader, &found->header)) return "it has no request header";
    if (found->header.key != API_PRODUCE && found->header.key != API_FETCH) return NULL;
    if (!version_is_known(&found->header)) return "this version of the API is not understood";
    const char *reason = NULL;
    if (found->header.key == API_PRODUCE)
        reason = inspect_produce(&reader, found);
    else
        inspect_fetch(&reader, frame, found);
    if (reader.failed || remaining(&reader)) return "its body does not parse";
    return reason;
}

/* ---- responses ---- */

static void note_error(Answer *answer, int16_t error) {
    if (answer->error == 0) answer->error = error;
}

static void skip_record_errors(Reader *reader, bool flexible) {
    for (uint32_t left = take_array(reader, flexible); left > 0; left--) {
        take_i32(reader); /* batch index */
        take_string(reader, flexible); /* message */
        take_tags(reader, flexible);
    }
}

static void read_produce_partition(Reader *reader, const RequestHeader *header, Answer *answer) {
    take_i32(reader); /* index */
    note_error(answer, take_i16(reader));
    answer->base_offset = take_i64(reader);
    take_i64(reader); /* log append time */
    if (header->version >= 5) take_i64(reader); /* log start offset */
    if (header->version >= 8) {
        skip_record_errors(reader, header->flexible);
        take_string(reader, header->flexible); /* error message */
    }
    take_tags(reader, header->flexible);
}

static void read_produce(Reader *reader, const RequestHeader *header, Answer *answer) {
    for (uint32_t topics = take_array(reader, header->flexible); topics > 0; topics--) {
        take_topic(reader, header);
        for (uint32_t left = take_array(reader, header->flexible); left > 0; left--)
            read_produce_partition(reader, header, answer);
        take_tags(reader, header->flexible);
    }
    take_i32(reader); /* throttle time */
}

static void read_batches(Span batches, bool check_crc, Answer *answer) {
    while (batches.length > 0) {
        size_t length = batch_bytes(batches.bytes, batches.length);
        if (length == 0) {
            /* Kafka cuts at its byte limit; the client asks again from the batch that was cut. */
            answer->cut = answer->records > 0;
            answer->malformed = !answer->cut;
            return;
        }
        uint32_t count = batch_offset_count(batches.bytes);
        answer->records += count;
        answer->next_offset = batch_base_offset(batches.bytes) + count;
        if (check_crc && !batch_crc_is_right(batches.bytes, length)) answer->crc_failures++;
        batches = (Span){.bytes = batches.bytes + length, .length = batches.length - length};
    }
}

static void skip_aborted_transactions(Reader *reader, bool flexible) {
    for (uint32_t left = take_array(reader, flexible); left > 0; left--) {
        take(reader, 8 + 8); /* producer id, first offset */
        take_tags(reader, flexible);
    }
}

static void read_fetch_partition(Reader *reader, const RequestHeader *header, bool check_crc,
                                 Answer *answer) {
    take_i32(reader); /* index */
    note_error(answer, take_i16(reader));
    take(reader, 8 + 8); /* high watermark, last stable offset */
    if (header->version >= 5) take_i64(reader); /* log start offset */
    skip_aborted_transactions(reader, header->flexible);
    if (header->version >= 11) take_i32(reader); /* preferred read replica */
    read_batches(take_bytes(reader, header->flexible), check_crc, answer);
    take_tags(reader, header->flexible);
}

static void read_fetch(Reader *reader, const RequestHeader *header, bool check_crc, Answer *answer) {
    take_i32(reader); /* throttle time */
    if (header->version >= 7) {
        note_error(answer, take_i16(reader));
        take_i32(reader); /* session id */
    }
    for (uint32_t topics = take_array(reader, header->flexible); topics > 0; topics--) {
        take_topic(reader, header);
        for (uint32_t left = take_array(reader, header->flexible); left > 0; left--)
            read_fetch_partition(reader, header, check_crc, answer);
        take_tags(reader, header->flexible);
    }
}

Answer read_answer(const RequestHeader *header, Span response, bool check_crc) {
    Answer answer = {.next_offset = -1};
    Reader reader = reader_over(response.bytes, response.length);
    take_i32(&reader); /* correlation id, compared by the caller */
    take_tags(&reader, header->flexible);
    if (header->key == API_PRODUCE)
        read_produce(&reader, header, &answer);
    else
        read_fetch(&reader, header, check_crc, &answer);
    take_tags(&reader, header->flexible);
    answer.malformed |= reader.failed || remaining(&reader) != 0;
    return answer;
}

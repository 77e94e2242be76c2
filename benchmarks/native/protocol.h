/* The Produce and Fetch messages, as far as a load generator must understand them.
 *
 * Requests are inspected once, to learn what is being sent; responses are checked every time.
 * Produce v3-v13 and Fetch v4-v18 are understood, classic and flexible. Of other APIs only the
 * header is.
 */
#ifndef TIERLOG_PROTOCOL_H
#define TIERLOG_PROTOCOL_H

#include "bytes.h"

enum { API_PRODUCE = 0, API_FETCH = 1 };
enum { SIZE_PREFIX_BYTES = 4, CORRELATION_ID_AT = SIZE_PREFIX_BYTES + 4 };
enum { UUID_BYTES = 16 };

typedef struct {
    int16_t key;
    int16_t version;
    int32_t correlation_id;
    bool flexible;
} RequestHeader;

/* Leaves the reader at the start of the body. False if the bytes are no request header. */
bool take_request_header(Reader *reader, RequestHeader *header);

/* Whether we know the layout of this API in this version. */
bool version_is_known(const RequestHeader *header);

/* From these versions on topics are named by id. */
static inline bool topics_by_id(const RequestHeader *header) { return header->version >= 13; }

Span take_topic(Reader *reader, const RequestHeader *header);

/* A Fetch request; of several partitions the last one. */
typedef struct {
    uint32_t partitions;
    Span topic;
    int32_t partition;
    int64_t offset;
    const uint8_t *offset_at;
    size_t bytes_max;        /* the smaller of the limits of request and partition */
} FetchAsked;

FetchAsked take_fetch(Reader *reader, const RequestHeader *header);

/* What a request will do, learnt once. */
typedef struct {
    RequestHeader header;
    bool expects_answer;     /* false: Produce with acks=0 */
    uint64_t records;        /* Produce: records in all its batches */
    uint32_t partitions;     /* Produce and Fetch */
    size_t fetch_offset_at;  /* Fetch: where the last fetch offset stands in the frame */
    int64_t fetch_offset;
} Inspection;

/* NULL, or the reason why this frame (size prefix included) cannot be sent. */
const char *inspect_request(const uint8_t *frame, size_t length, Inspection *found);

/* What a response said. */
typedef struct {
    bool malformed;          /* not a response to this request, or bytes left over */
    bool cut;                /* Fetch: the last batch is not whole, behind others that are */
    int16_t error;           /* the first error code that was not zero */
    int64_t base_offset;     /* Produce: where the (last) batch went */
    int64_t next_offset;     /* Fetch: the offset after the last record, or -1 without records */
    uint64_t records;        /* Fetch: records received */
    uint64_t crc_failures;   /* Fetch with CRC checks: batches whose CRC is wrong */
} Answer;

/* `response` is the frame without size prefix. Only Produce and Fetch bodies are looked into. */
Answer read_answer(const RequestHeader *header, Span response, bool check_crc);

#endif

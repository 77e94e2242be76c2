/* One connection of the load generator, driven by a thread of its own. */
#ifndef TIERLOG_CONNECTION_H
#define TIERLOG_CONNECTION_H

#include "histogram.h"
#include "protocol.h"

/* What all connections share. */
typedef struct {
    uint64_t start_ns;
    uint64_t end_ns;
    uint64_t interval_ns; /* open loop: time between two requests of one connection; 0: closed loop */
    uint64_t requests;    /* a connection sends no more than these */
    uint32_t depth;       /* requests in flight at most */
    uint32_t timeout_s;   /* without a byte for so long the connection has failed */
    bool walk;
    bool check_crc;
    bool allow_cut; /* a fetched answer may end within a batch */
} Plan;

typedef struct {
    uint8_t *frame; /* own copy: ids and offsets are written into it */
    size_t length;
    Inspection inspection;
} Request;

/* What happened, to be read after the thread has ended. */
typedef struct {
    uint64_t answers;
    uint64_t checked;        /* answers whose error codes were looked at */
    uint64_t errors;         /* answers with an error code, or with a bad CRC if that is checked */
    int16_t first_error;
    uint64_t crc_failures;
    uint64_t sent_bytes;
    uint64_t received_bytes;
    uint64_t records;        /* acknowledged, or fetched */
    int64_t log_end;         /* greatest offset after an acknowledged record; -1: none */
    uint64_t behind;         /* open loop: due before the end, but never sent */
    uint64_t ended_ns;
    const char *failure;     /* why the connection broke, or NULL */
    Histogram latency;
} Tally;

typedef struct {
    const Plan *plan;
    uint16_t port;
    uint64_t first_due_ns; /* open loop: connections take turns instead of sending all at once */
    Request request;

    int socket;
    uint64_t sent;         /* also the correlation id of the next request */
    uint64_t *sent_at;     /* ring of `depth` times */
    Writer outgoing;       /* several small requests leave in one call */
    uint8_t *in;
    size_t in_capacity, in_start, in_end;
    Tally tally;
} Connection;

/* To be called before the clock starts. False, with the reason in the tally, if nobody answers. */
bool connect_to_server(Connection *connection);

/* Thread body; the argument is a Connection. Closed loop: sends one request at least, however late it wakes. */
void *drive_connection(void *connection);

#endif

/* What the reference server answers to one request. */
#ifndef TIERLOG_ANSWERS_H
#define TIERLOG_ANSWERS_H

#include <stdatomic.h>

#include "protocol.h"
#include "segment_log.h"

enum { LOGS_MAX = 64 };

/* Partition p lives in logs[p mod log_count]. Opened before the first client. */
extern Log logs[LOGS_MAX];
extern int log_count;
extern atomic_ullong request_count;

/* One client. `in[start, end)` has been received and not yet handled; `out` waits to be sent. */
typedef struct {
    int socket;
    uint8_t *in;
    size_t capacity, start, end;
    Writer out;
} Client;

/* Puts the answer to one frame into `out`, or sends it. False: hang up on this client. */
bool handle_frame(Client *client, Span frame);

/* Sends what waits in `out`. */
bool flush_answers(Client *client, int flags);

#endif

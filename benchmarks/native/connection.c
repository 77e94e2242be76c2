#define _GNU_SOURCE
#include "connection.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"

#define RECEIVE_BYTES (1u << 20)
#define FRAME_BYTES_MAX (256u << 20)
#define JOIN_BELOW_BYTES 2000 /* requests smaller than this share one write */

static bool fail(Connection *connection, const char *reason) {
    if (!connection->tally.failure) connection->tally.failure = reason;
    return false;
}

static uint64_t in_flight(const Connection *connection) {
    return connection->sent - connection->tally.answers;
}

static uint64_t unsent(const Connection *connection) {
    return connection->plan->requests - connection->sent;
}

/* ---- connecting ---- */

static bool open_socket(Connection *connection) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(connection->port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct timeval patience = {.tv_sec = connection->plan->timeout_s};
    int on = 1;
    connection->socket = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(connection->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(connection->socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(connection->socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(connection->socket, (struct sockaddr *)&address, sizeof address))
        return fail(connection, "could not connect");
    return true;
}

static bool allocate(Connection *connection) {
    connection->sent_at = calloc(connection->plan->depth, sizeof *connection->sent_at);
    connection->in_capacity = 2 * RECEIVE_BYTES;
    connection->in = malloc(connection->in_capacity);
    return connection->sent_at && connection->in ? true : fail(connection, "out of memory");
}

/* ---- sending ---- */

static bool send_whole(Connection *connection, const uint8_t *bytes, size_t length) {
    connection->tally.sent_bytes += length;
    while (length > 0) {
        ssize_t sent = send(connection->socket, bytes, length, MSG_NOSIGNAL);
        if (sent <= 0) return fail(connection, "the server took no more bytes");
        bytes += sent;
        length -= (size_t)sent;
    }
    return true;
}

static void stamp(Connection *connection, uint64_t time_ns) {
    store_be(connection->request.frame + CORRELATION_ID_AT, 4, connection->sent);
    connection->sent_at[connection->sent % connection->plan->depth] = time_ns;
    connection->sent++;
}

/* Sends `count` requests whose latency counts from `time_ns`. */
static bool send_requests(Connection *connection, uint64_t count, uint64_t time_ns) {
    Request *request = &connection->request;
    if (count == 1 || request->length >= JOIN_BELOW_BYTES) {
        for (; count > 0; count--) {
            stamp(connection, time_ns);
            if (!send_whole(connection, request->frame, request->length)) return false;
        }
        return true;
    }
    connection->outgoing.length = 0;
    for (; count > 0; count--) {
        stamp(connection, time_ns);
        put_raw(&connection->outgoing, (Span){request->frame, request->length});
    }
    return send_whole(connection, connection->outgoing.bytes, connection->outgoing.length);
}

/* Closed loop: an answer makes room for the next request. */
static bool top_up(Connection *connection, uint64_t now) {
    if (now >= connection->plan->end_ns && connection->sent > 0) return true;
    uint64_t room = connection->plan->depth - in_flight(connection);
    if (room > unsent(connection)) room = unsent(connection);
    /* Large requests one by one with a clock of their own: sending one takes a while. */
    if (connection->request.length < JOIN_BELOW_BYTES) return send_requests(connection, room, now);
    for (; room > 0; room--)
        if (!send_requests(connection, 1, now_ns())) return false;
    return true;
}

static uint64_t next_due(const Connection *connection) {
    if (unsent(connection) == 0) return UINT64_MAX;
    return connection->first_due_ns + connection->sent * connection->plan->interval_ns;
}

/* Open loop: requests leave by the clock. One that is late still counts from when it was due, so a
 * server that stalls cannot hide it. */
static bool send_due(Connection *connection, uint64_t now) {
    uint64_t until = now < connection->plan->end_ns ? now : connection->plan->end_ns;
    while (next_due(connection) < until && in_flight(connection) < connection->plan->depth)
        if (!send_requests(connection, 1, next_due(connection))) return false;
    return true;
}

/* ---- receiving ---- */

static void note_answer(Connection *connection, const Answer *answer) {
    Tally *tally = &connection->tally;
    tally->checked++;
    tally->crc_failures += answer->crc_failures;
    if (answer->error || answer->crc_failures) {
        tally->errors++;
        if (!tally->first_error) tally->first_error = answer->error;
        return;
    }
    if (connection->request.inspection.header.key == API_FETCH) {
        tally->records += answer->records;
        return;
    }
    uint64_t records = connection->request.inspection.records;
    int64_t end = answer->base_offset + (int64_t)records;
    tally->records += records;
    if (end > tally->log_end) tally->log_end = end;
}

/* The next fetch goes on where this one ended; at the end of the log it starts over. */
static void walk_on(Connection *connection, const Answer *answer) {
    const Inspection *inspection = &connection->request.inspection;
    int64_t offset = answer->next_offset < 0 ? inspection->fetch_offset : answer->next_offset;
    store_be(connection->request.frame + inspection->fetch_offset_at, 8, (uint64_t)offset);
}

static bool check_response(Connection *connection, Span response) {
    const RequestHeader *header = &connection->request.inspection.header;
    uint32_t expected = (uint32_t)connection->tally.answers;
    if (response.length < 4 || load_be(response.bytes, 4) != expected)
        return fail(connection, "an answer carries the wrong correlation id");
    if (!version_is_known(header)) return true; /* another API: there is nothing we could check */
    Answer answer = read_answer(header, response, connection->plan->check_crc);
    if (answer.malformed) return fail(connection, "an answer does not parse");
    if (answer.cut && !connection->plan->allow_cut)
        return fail(connection, "an answer ends within a batch");
    note_answer(connection, &answer);
    if (connection->plan->walk) walk_on(connection, &answer);
    return true;
}

static bool take_response(Connection *connection, Span response, uint64_t now) {
    if (in_flight(connection) == 0) return fail(connection, "an answer came without a request");
    if (!check_response(connection, response)) return false;
    uint64_t sent = connection->sent_at[connection->tally.answers % connection->plan->depth];
    histogram_add(&connection->tally.latency, now > sent ? now - sent : 0);
    connection->tally.answers++;
    return true;
}

/* Handles every whole response; `*wanted` is what the unfinished one needs in all. */
static bool take_responses(Connection *connection, size_t *wanted) {
    uint64_t now = now_ns();
    *wanted = 0;
    while (connection->in_end - connection->in_start >= SIZE_PREFIX_BYTES) {
        const uint8_t *at = connection->in + connection->in_start;
        size_t length = load_be(at, 4);
        if (length > FRAME_BYTES_MAX) return fail(connection, "an answer is larger than 256 MiB");
        if (connection->in_end - connection->in_start < SIZE_PREFIX_BYTES + length) {
            *wanted = SIZE_PREFIX_BYTES + length;
            return true;
        }
        Span response = {.bytes = at + SIZE_PREFIX_BYTES, .length = length};
        if (!take_response(connection, response, now)) return false;
        connection->in_start += SIZE_PREFIX_BYTES + length;
    }
    return true;
}

static bool make_room(Connection *connection, size_t wanted) {
    size_t held = connection->in_end - connection->in_start;
    size_t needed = wanted > held + 4096 ? wanted : held + 4096;
    if (held == 0) connection->in_start = connection->in_end = 0;
    if (connection->in_capacity - connection->in_start >= needed) return true;
    memmove(connection->in, connection->in + connection->in_start, held);
    connection->in_start = 0;
    connection->in_end = held;
    if (connection->in_capacity >= needed) return true;
    connection->in_capacity = 2 * needed;
    connection->in = realloc(connection->in, connection->in_capacity);
    return connection->in ? true : fail(connection, "out of memory");
}

static bool receive(Connection *connection, size_t *wanted) {
    if (!make_room(connection, *wanted)) return false;
    size_t room = connection->in_capacity - connection->in_end;
    ssize_t got = recv(connection->socket, connection->in + connection->in_end,
                       room < RECEIVE_BYTES ? room : RECEIVE_BYTES, 0);
    if (got == 0) return fail(connection, "the server closed the connection");
    if (got < 0)
        return fail(connection, errno == EAGAIN ? "no answer in time" : "the connection broke");
    connection->in_end += (size_t)got;
    connection->tally.received_bytes += (uint64_t)got;
    return take_responses(connection, wanted);
}

/* ---- the two loops ---- */

static bool run_closed(Connection *connection) {
    for (size_t wanted = 0;;) {
        if (!top_up(connection, now_ns())) return false;
        if (in_flight(connection) == 0) return true;
        if (!receive(connection, &wanted)) return false;
    }
}

/* Waits for an answer or for the next request to be due, whichever comes first. */
static bool answer_is_waiting(Connection *connection, uint64_t now) {
    uint64_t patience = connection->plan->timeout_s * NS_PER_S, wait = patience;
    uint64_t due = next_due(connection);
    bool may_send = in_flight(connection) < connection->plan->depth && due < connection->plan->end_ns;
    if (may_send) wait = due > now ? due - now : 0;
    struct timespec timeout = {(time_t)(wait / NS_PER_S), (long)(wait % NS_PER_S)};
    struct pollfd poll = {.fd = connection->socket, .events = POLLIN};
    return ppoll(&poll, 1, &timeout, NULL) > 0 || !may_send;
}

static bool run_open(Connection *connection) {
    for (size_t wanted = 0;;) {
        uint64_t now = now_ns();
        if (!send_due(connection, now)) return false;
        bool ended = now >= connection->plan->end_ns || next_due(connection) >= connection->plan->end_ns;
        if (ended && in_flight(connection) == 0) return true;
        if (answer_is_waiting(connection, now) && !receive(connection, &wanted)) return false;
    }
}

static uint64_t count_behind(const Connection *connection) {
    const Plan *plan = connection->plan;
    if (!plan->interval_ns || next_due(connection) >= plan->end_ns) return 0;
    return (plan->end_ns - next_due(connection) + plan->interval_ns - 1) / plan->interval_ns;
}

bool connect_to_server(Connection *connection) {
    connection->tally.log_end = -1;
    connection->socket = -1;
    return allocate(connection) && open_socket(connection);
}

void *drive_connection(void *argument) {
    Connection *connection = argument;
    if (connection->plan->interval_ns)
        run_open(connection);
    else
        run_closed(connection);
    connection->tally.behind = count_behind(connection);
    connection->tally.ended_ns = now_ns();
    close(connection->socket);
    return NULL;
}

/* reference_server: the work of a broker's hot path and nothing else, as a practical limit.
 *
 * A thread per connection. Produce: frame, CRC-32C of every batch, offsets assigned in place, pwrite
 * to a preallocated segment, a right answer with the right correlation id. Fetch: whole batches by
 * sendfile within the byte limits asked for. Anything else: correlation id and six zero bytes, which
 * is a right Heartbeat v1-v3 answer. All answers of one receive leave in one write.
 *
 * It is no broker: one topic without a name (partition p lives in log p mod --logs), no metadata, no
 * idempotence, no long poll (a fetch at the end answers empty at once), page cache durability.
 * Bad batches are refused with CORRUPT_MESSAGE; a frame that does not parse closes its connection.
 *
 * Prints `ready PORT crc=hardware|software` when it serves, and a JSON line of totals when SIGTERM,
 * SIGINT or the end of --seconds stops it. Listens on 127.0.0.1 only. Exit: 0, 1 trouble, 2 usage.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "answers.h"
#include "crc32c.h"

enum { SECONDS_MAX = 3600 };

#define RECEIVE_BYTES (256u << 10)
#define FRAME_BYTES_MAX (64u << 20)
#define ANSWERS_BYTES_MAX (64u << 10) /* flush earlier than at the end of a receive above this */

/* ---- connections ---- */

/* Handles every whole frame in the buffer. `*wanted` is what the next frame needs in all, if known. */
static bool handle_received(Client *client, size_t *wanted) {
    *wanted = 0;
    while (client->end - client->start >= SIZE_PREFIX_BYTES) {
        const uint8_t *at = client->in + client->start;
        size_t length = load_be(at, 4);
        if (length > FRAME_BYTES_MAX) return false;
        if (client->end - client->start < SIZE_PREFIX_BYTES + length) {
            *wanted = SIZE_PREFIX_BYTES + length;
            return true;
        }
        Span frame = {.bytes = at + SIZE_PREFIX_BYTES, .length = length};
        if (!handle_frame(client, frame)) return false;
        client->start += SIZE_PREFIX_BYTES + length;
        if (client->out.length > ANSWERS_BYTES_MAX && !flush_answers(client, 0)) return false;
    }
    return true;
}

/* Room for one receive and for the rest of the frame that has begun. Moves bytes only when it must. */
static bool make_room(Client *client, size_t wanted) {
    if (client->start == client->end) client->start = client->end = 0;
    size_t held = client->end - client->start;
    size_t needed = wanted > held + RECEIVE_BYTES ? wanted : held + RECEIVE_BYTES;
    if (client->capacity - client->start >= needed) return true;
    if (held) memmove(client->in, client->in + client->start, held);
    client->start = 0;
    client->end = held;
    if (client->capacity >= needed) return true;
    client->capacity = 2 * needed;
    client->in = realloc(client->in, client->capacity);
    return client->in != NULL;
}

static bool receive(Client *client) {
    size_t room = client->capacity - client->end;
    if (room > RECEIVE_BYTES) room = RECEIVE_BYTES;
    ssize_t got = recv(client->socket, client->in + client->end, room, 0);
    if (got > 0) client->end += (size_t)got;
    return got > 0;
}

static void *serve_client(void *argument) {
    Client client = {.socket = (int)(intptr_t)argument};
    int on = 1;
    setsockopt(client.socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    size_t wanted = 0;
    while (make_room(&client, wanted) && receive(&client) && handle_received(&client, &wanted) &&
           flush_answers(&client, 0)) {
    }
    close(client.socket);
    free(client.in);
    free(client.out.bytes);
    return NULL;
}

static void *accept_clients(void *argument) {
    int listener = (int)(intptr_t)argument;
    for (;;) {
        int client = accept(listener, NULL, NULL);
        pthread_t thread;
        if (client < 0) continue;
        if (pthread_create(&thread, NULL, serve_client, (void *)(intptr_t)client))
            close(client);
        else
            pthread_detach(thread);
    }
    return NULL;
}

/* ---- start and end ---- */

static _Noreturn void fatal(const char *what) {
    fprintf(stderr, "reference_server: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int listen_on(uint16_t port, uint16_t *chosen) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address)) fatal("bind");
    if (listen(listener, 128)) fatal("listen");
    getsockname(listener, (struct sockaddr *)&address, &length);
    *chosen = ntohs(address.sin_port);
    return listener;
}

static void print_totals(void) {
    uint64_t records = 0, bytes = 0;
    for (int i = 0; i < log_count; i++) {
        records += (uint64_t)log_end_offset(&logs[i]);
        bytes += logs[i].bytes;
    }
    printf("{\"requests\": %llu, \"records\": %llu, \"bytes\": %llu}\n",
           (unsigned long long)atomic_load(&request_count), (unsigned long long)records,
           (unsigned long long)bytes);
    fflush(stdout);
}

static const char usage[] =
    "usage: reference_server --dir DIR [--port PORT] [--logs N] [--segment-mib N] [--seconds N]\n"
    "  --dir DIR        where the (unlinked) segment files go: the disk under test\n"
    "  --port PORT      on 127.0.0.1; 0, the default, picks a free one\n"
    "  --logs N         logs, each with its own mutex; partition p lives in log p mod N (1)\n"
    "  --segment-mib N  size of a preallocated segment (512)\n"
    "  --seconds N      end by itself after so long (600, at most 3600)\n";

static long number(const char *name, const char *text, long low, long high) {
    char *end;
    long value = strtol(text, &end, 10);
    if (*text && !*end && value >= low && value <= high) return value;
    fprintf(stderr, "reference_server: --%s must be %ld to %ld, not %s\n", name, low, high, text);
    exit(2);
}

typedef struct {
    const char *directory;
    uint16_t port;
    size_t segment_bytes;
    unsigned seconds;
} Settings;

static Settings parse(int argc, char **argv) {
    static const struct option known[] = {
        {"dir", required_argument, NULL, 'd'},     {"port", required_argument, NULL, 'p'},
        {"logs", required_argument, NULL, 'l'},    {"segment-mib", required_argument, NULL, 'm'},
        {"seconds", required_argument, NULL, 's'}, {"help", no_argument, NULL, 'h'},
        {0},
    };
    Settings settings = {.segment_bytes = 512ul << 20, .seconds = 600};
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (option) {
            case 'd': settings.directory = optarg; break;
            case 'p': settings.port = (uint16_t)number("port", optarg, 0, 65535); break;
            case 'l': log_count = (int)number("logs", optarg, 1, LOGS_MAX); break;
            case 'm':
                settings.segment_bytes = (size_t)number("segment-mib", optarg, 1, 4096) << 20;
                break;
            case 's': settings.seconds = (unsigned)number("seconds", optarg, 1, SECONDS_MAX); break;
            case 'h': fputs(usage, stdout); exit(0);
            default: fputs(usage, stderr); exit(2);
        }
    }
    if (!settings.directory || optind != argc) {
        fputs(usage, stderr);
        exit(2);
    }
    return settings;
}

int main(int argc, char **argv) {
    Settings settings = parse(argc, argv);
    const char *crc = crc32c_init();
    for (int i = 0; i < log_count; i++)
        log_open(&logs[i], settings.directory, settings.segment_bytes);

    /* Every thread inherits the mask, so only sigwait below hears the signals. */
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    alarm(settings.seconds);

    uint16_t port;
    int listener = listen_on(settings.port, &port);
    pthread_t acceptor;
    if (pthread_create(&acceptor, NULL, accept_clients, (void *)(intptr_t)listener))
        fatal("pthread_create");
    printf("ready %u crc=%s\n", port, crc);
    fflush(stdout);

    int received;
    sigwait(&ends, &received);
    print_totals();
    return 0;
}

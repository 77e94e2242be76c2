/* load: sends one request again and again and checks every answer.
 *
 * Closed loop: keeps --depth requests in flight on each of --connections connections. Open loop
 * (--rate): requests leave by the clock and latency counts from when each was due. Requests come
 * from files: one whole frame, size prefix included; connection i takes file i mod files and port
 * i mod ports. Correlation ids are written into the copies and compared with the answers'.
 *
 * Produce v3-v13 and Fetch v4-v18 answers are parsed by their version: error codes of every
 * partition, no byte left over, whole batches. With --walk a fetch goes on where the last one ended
 * and starts over at the end of the log; with --crc the CRC of each fetched batch is checked.
 *
 * Prints one JSON line (README.md says how to read it). Talks to 127.0.0.1 only and for at most
 * 600 s. Exit: 0 every answer was right, 1 some were not or a connection broke, 2 usage.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/resource.h>

#include "batch.h"
#include "clock.h"
#include "connection.h"

enum { CONNECTIONS_MAX = 256, DEPTH_MAX = 4096, PORTS_MAX = 64, FILES_MAX = 256, SECONDS_MAX = 600 };

static const char usage[] =
    "usage: load --port PORT [--port PORT ...] --request FILE [--request FILE ...] [options]\n"
    "  --port PORT        on 127.0.0.1; several take turns over the connections\n"
    "  --request FILE     one request with its size prefix; several take turns likewise\n"
    "  --connections N    one thread each (1)\n"
    "  --depth N          requests in flight on a connection (1; with --rate 1024)\n"
    "  --seconds S        how long to send; answers in flight are then awaited (1, at most 600)\n"
    "  --requests N       end earlier, after so many requests on each connection\n"
    "  --rate R           open loop: requests a second over all connections together\n"
    "  --walk             Fetch: go on from the last record received; needs --depth 1\n"
    "  --crc              Fetch: check the CRC of every batch\n"
    "  --cut              Fetch: an answer may end within a batch, as Kafka's do\n"
    "  --timeout S        give a connection up after S seconds without a byte (10)\n"
    "  --help             this text\n";

typedef struct {
    uint16_t ports[PORTS_MAX];
    Request files[FILES_MAX];
    uint32_t port_count, file_count, connections, depth, timeout_s;
    uint64_t requests;
    double seconds, rate;
    bool walk, check_crc, allow_cut;
} Settings;

static _Noreturn void refuse(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs("\n", stderr);
    va_end(arguments);
    exit(2);
}

static double number(const char *name, const char *text, double low, double high) {
    char *end;
    double value = strtod(text, &end);
    if (!*text || *end || !(value >= low && value <= high))
        refuse("--%s must be %g to %g, not %s", name, low, high, text);
    return value;
}

static Request read_request(const char *path) {
    Request request = {0};
    Writer content = {0};
    FILE *file = fopen(path, "rb");
    if (!file) refuse("%s: %s", path, strerror(errno));
    for (size_t got = 1; got > 0;) {
        uint8_t block[65536];
        got = fread(block, 1, sizeof block, file);
        put_raw(&content, (Span){block, got});
    }
    fclose(file);
    const char *reason = inspect_request(content.bytes, content.length, &request.inspection);
    if (reason) refuse("%s cannot be sent: %s", path, reason);
    if (!request.inspection.expects_answer) refuse("%s has acks=0, which is not answered", path);
    request.frame = content.bytes;
    request.length = content.length;
    return request;
}

static void add_port(Settings *settings, const char *text) {
    if (settings->port_count == PORTS_MAX) refuse("more than %d ports", PORTS_MAX);
    settings->ports[settings->port_count++] = (uint16_t)number("port", text, 1, 65535);
}

static void add_request(Settings *settings, const char *path) {
    if (settings->file_count == FILES_MAX) refuse("more than %d request files", FILES_MAX);
    settings->files[settings->file_count++] = read_request(path);
}

static void check_walk(const Settings *settings) {
    if (settings->depth != 1) refuse("--walk needs --depth 1: an offset comes from the last answer");
    for (uint32_t i = 0; i < settings->file_count; i++) {
        const Inspection *inspection = &settings->files[i].inspection;
        if (inspection->header.key != API_FETCH || inspection->partitions != 1)
            refuse("--walk needs Fetch requests of one partition");
    }
}

static void check(Settings *settings) {
    if (!settings->port_count) refuse("--port is missing; --help says more");
    if (!settings->file_count) refuse("--request is missing; --help says more");
    if (!settings->depth) settings->depth = settings->rate > 0 && !settings->walk ? 1024 : 1;
    if (settings->walk) check_walk(settings);
}

static Settings parse(int argc, char **argv) {
    static const struct option known[] = {
        {"port", required_argument, NULL, 'p'},    {"request", required_argument, NULL, 'f'},
        {"depth", required_argument, NULL, 'd'},   {"connections", required_argument, NULL, 'c'},
        {"seconds", required_argument, NULL, 's'}, {"rate", required_argument, NULL, 'r'},
        {"timeout", required_argument, NULL, 't'}, {"walk", no_argument, NULL, 'w'},
        {"crc", no_argument, NULL, 'x'},           {"requests", required_argument, NULL, 'n'},
        {"cut", no_argument, NULL, 'k'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    Settings settings = {.connections = 1, .seconds = 1, .timeout_s = 10, .requests = UINT64_MAX};
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (option) {
            case 'p': add_port(&settings, optarg); break;
            case 'f': add_request(&settings, optarg); break;
            case 'd': settings.depth = (uint32_t)number("depth", optarg, 1, DEPTH_MAX); break;
            case 'c':
                settings.connections = (uint32_t)number("connections", optarg, 1, CONNECTIONS_MAX);
                break;
            case 's': settings.seconds = number("seconds", optarg, 0.001, SECONDS_MAX); break;
            case 'n': settings.requests = (uint64_t)number("requests", optarg, 1, 1e12); break;
            case 'r': settings.rate = number("rate", optarg, 0.01, 1e7); break;
            case 't': settings.timeout_s = (uint32_t)number("timeout", optarg, 1, 120); break;
            case 'w': settings.walk = true; break;
            case 'k': settings.allow_cut = true; break;
            case 'x': settings.check_crc = true; break;
            case 'h': fputs(usage, stdout); exit(0);
            default: fputs(usage, stderr); exit(2);
        }
    }
    if (optind != argc) refuse("%s is no option; --help says more", argv[optind]);
    check(&settings);
    return settings;
}

static Plan make_plan(const Settings *settings) {
    Plan plan = {.requests = settings->requests,
                 .depth = settings->depth,
                 .timeout_s = settings->timeout_s,
                 .walk = settings->walk,
                 .check_crc = settings->check_crc,
                 .allow_cut = settings->allow_cut};
    if (settings->rate > 0)
        plan.interval_ns = (uint64_t)((double)NS_PER_S * settings->connections / settings->rate);
    return plan;
}

static Request copy_of(const Request *request) {
    Request copy = *request;
    Writer bytes = {0};
    put_raw(&bytes, (Span){request->frame, request->length});
    copy.frame = bytes.bytes;
    return copy;
}

/* The server must answer to every one of them: a run over fewer connections means something else. */
static void connect_all(const Settings *settings, const Plan *plan, Connection *connections) {
    for (uint32_t i = 0; i < settings->connections; i++) {
        connections[i].plan = plan;
        connections[i].port = settings->ports[i % settings->port_count];
        connections[i].request = copy_of(&settings->files[i % settings->file_count]);
        if (connect_to_server(&connections[i])) continue;
        fprintf(stderr, "load: port %u: %s\n", connections[i].port, connections[i].tally.failure);
        exit(1);
    }
}

static void run(const Settings *settings, Plan *plan, Connection *connections) {
    pthread_t threads[CONNECTIONS_MAX];
    plan->start_ns = now_ns();
    plan->end_ns = plan->start_ns + (uint64_t)(settings->seconds * (double)NS_PER_S);
    for (uint32_t i = 0; i < settings->connections; i++) {
        connections[i].first_due_ns =
            plan->start_ns + plan->interval_ns * i / settings->connections;
        if (pthread_create(&threads[i], NULL, drive_connection, &connections[i])) {
            perror("load: pthread_create");
            exit(1);
        }
    }
    for (uint32_t i = 0; i < settings->connections; i++) pthread_join(threads[i], NULL);
}

static void merge(Tally *total, const Tally *one) {
    total->answers += one->answers;
    total->checked += one->checked;
    total->errors += one->errors;
    total->crc_failures += one->crc_failures;
    total->sent_bytes += one->sent_bytes;
    total->received_bytes += one->received_bytes;
    total->records += one->records;
    total->behind += one->behind;
    if (!total->first_error) total->first_error = one->first_error;
    if (one->log_end > total->log_end) total->log_end = one->log_end;
    if (one->ended_ns > total->ended_ns) total->ended_ns = one->ended_ns;
    histogram_merge(&total->latency, &one->latency);
}

static void print_latency(const Histogram *latency) {
    printf("\"p50_ms\": %.4f, \"p99_ms\": %.4f, \"p999_ms\": %.4f, \"max_ms\": %.4f",
           (double)histogram_at(latency, 0.5) / 1e6, (double)histogram_at(latency, 0.99) / 1e6,
           (double)histogram_at(latency, 0.999) / 1e6, (double)latency->max / 1e6);
}

static double cpu_seconds(void) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

static void print_total(const Tally *total, double seconds, uint32_t broken) {
    printf("{\"answers\": %llu, \"seconds\": %.4f, \"answers_per_s\": %.1f, "
           "\"sent_mb_per_s\": %.2f, \"received_mb_per_s\": %.2f, ",
           (unsigned long long)total->answers, seconds, (double)total->answers / seconds,
           (double)total->sent_bytes / 1e6 / seconds, (double)total->received_bytes / 1e6 / seconds);
    print_latency(&total->latency);
    printf(", \"checked\": %llu, \"errors\": %llu, \"first_error\": %d, \"crc_failures\": %llu, "
           "\"records\": %llu, \"log_end\": %lld, \"behind\": %llu, \"broken\": %u, \"cpu_s\": %.4f",
           (unsigned long long)total->checked, (unsigned long long)total->errors, total->first_error,
           (unsigned long long)total->crc_failures, (unsigned long long)total->records,
           (long long)total->log_end, (unsigned long long)total->behind, broken, cpu_seconds());
}

static void print_connections(const Connection *connections, uint32_t count) {
    printf(", \"connections\": [");
    for (uint32_t i = 0; i < count; i++) {
        printf("%s{\"port\": %u, \"answers\": %llu, ", i ? ", " : "", connections[i].port,
               (unsigned long long)connections[i].tally.answers);
        print_latency(&connections[i].tally.latency);
        printf("}");
    }
    printf("]}\n");
}

/* Prints the line; true if every answer was right. */
static bool report(const Settings *settings, const Plan *plan, const Connection *connections) {
    static Tally total = {.log_end = -1};
    uint32_t broken = 0;
    for (uint32_t i = 0; i < settings->connections; i++) {
        const Tally *tally = &connections[i].tally;
        merge(&total, tally);
        if (!tally->failure) continue;
        broken++;
        fprintf(stderr, "load: connection %u to port %u: %s\n", i, connections[i].port,
                tally->failure);
    }
    print_total(&total, (double)(total.ended_ns - plan->start_ns) / (double)NS_PER_S, broken);
    print_connections(connections, settings->connections);
    return !broken && !total.errors;
}

int main(int argc, char **argv) {
    Settings settings = parse(argc, argv);
    crc32c_init();
    Connection *connections = calloc(settings.connections, sizeof *connections);
    if (!connections) refuse("out of memory");
    Plan plan = make_plan(&settings);
    connect_all(&settings, &plan, connections);
    run(&settings, &plan, connections);
    return report(&settings, &plan, connections) ? 0 : 1;
}

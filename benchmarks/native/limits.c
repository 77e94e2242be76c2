/* limits: what this machine can do today, before any server is judged on it.
 *
 * Memory copies, page-cache writes (new file, overwrite) and reads, fdatasync per append, loopback
 * TCP alone, with a pwrite behind it, and by sendfile. One JSON line per limit. --file names a
 * scratch file on the disk under test; it grows to --mib and is removed at the end.
 * Exit: 0, 1 trouble, 2 usage.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define SOURCE_BYTES (64 * MIB) /* larger than the caches, so that writes read from memory */
#define SYNC_ROUNDS 60

static const char *path;
static size_t file_bytes;
static uint8_t *source, *target; /* SOURCE_BYTES each, touched before anything is timed */

static _Noreturn void fatal(const char *what) {
    fprintf(stderr, "limits: %s: %s\n", what, strerror(errno));
    if (path) unlink(path);
    exit(1);
}

static void print_rate(const char *name, size_t bytes, uint64_t ns) {
    printf("{\"limit\": \"%s\", \"mb_per_s\": %.0f}\n", name,
           (double)bytes / 1e6 / ((double)ns / (double)NS_PER_S));
    fflush(stdout);
}

/* ---- memory ---- */

static void measure_copies(const char *name, size_t block, size_t total) {
    uint64_t start = now_ns();
    for (size_t done = 0; done < total; done += block) {
        memcpy(target, source, block);
        __asm__ volatile("" : : "r"(target) : "memory"); /* the copy must happen */
    }
    print_rate(name, total, now_ns() - start);
}

/* ---- disk ---- */

static int open_scratch(int flags) {
    int fd = open(path, O_RDWR | O_CREAT | flags, 0600);
    if (fd < 0) fatal(path);
    return fd;
}

static void write_whole(int fd, size_t total) {
    for (size_t done = 0; done < total; done += MIB)
        if (pwrite(fd, source + done % SOURCE_BYTES, MIB, (off_t)done) != (ssize_t)MIB)
            fatal("pwrite");
}

static void sync_file(int fd) {
    if (fdatasync(fd)) fatal("fdatasync");
}

static void measure_file(void) {
    int fd = open_scratch(O_TRUNC);
    uint64_t start = now_ns();
    write_whole(fd, file_bytes);
    print_rate("write, new file", file_bytes, now_ns() - start);
    sync_file(fd);
    print_rate("write, new file, and fdatasync", file_bytes, now_ns() - start);
    start = now_ns();
    write_whole(fd, file_bytes);
    print_rate("write, overwriting", file_bytes, now_ns() - start);
    start = now_ns();
    for (size_t done = 0; done < file_bytes; done += MIB)
        if (pread(fd, target, MIB, (off_t)done) != (ssize_t)MIB) fatal("pread");
    print_rate("read, page cache", file_bytes, now_ns() - start);
    close(fd);
}

static int by_value(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static void measure_sync(size_t block) {
    uint64_t took[SYNC_ROUNDS];
    int fd = open_scratch(O_TRUNC);
    for (int i = 0; i < SYNC_ROUNDS; i++) {
        uint64_t start = now_ns();
        if (write(fd, source, block) != (ssize_t)block) fatal("write");
        sync_file(fd);
        took[i] = now_ns() - start;
    }
    close(fd);
    qsort(took, SYNC_ROUNDS, sizeof *took, by_value);
    printf("{\"limit\": \"append and fdatasync, %zu KiB\", \"p50_ms\": %.3f, \"max_ms\": %.3f}\n",
           block / KIB, (double)took[SYNC_ROUNDS / 2] / 1e6, (double)took[SYNC_ROUNDS - 1] / 1e6);
    fflush(stdout);
}

/* ---- loopback ---- */

typedef enum { BY_WRITE, BY_SENDFILE } Sending;

static int listen_anywhere(struct sockaddr_in *address) {
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t length = sizeof *address;
    *address = (struct sockaddr_in){.sin_family = AF_INET};
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, (struct sockaddr *)address, sizeof *address) || listen(listener, 1))
        fatal("listen");
    getsockname(listener, (struct sockaddr *)address, &length);
    return listener;
}

/* Body of the sending process. */
static _Noreturn void send_all(const struct sockaddr_in *address, Sending sending, size_t total) {
    int peer = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(peer, (const struct sockaddr *)address, sizeof *address)) _exit(1);
    int fd = sending == BY_SENDFILE ? open(path, O_RDONLY) : -1;
    for (size_t sent = 0; sent < total;) {
        off_t position = (off_t)(sent % SOURCE_BYTES);
        size_t block = SOURCE_BYTES - (size_t)position < MIB ? SOURCE_BYTES - (size_t)position : MIB;
        ssize_t step = fd < 0 ? write(peer, source + position, block)
                              : sendfile(peer, fd, &position, block);
        if (step <= 0) _exit(1);
        sent += (size_t)step;
    }
    _exit(0);
}

/* Receives until the peer hangs up; keeps what came in a file if there is one. */
static size_t receive_all(int peer, int fd) {
    size_t total = 0;
    for (ssize_t got; (got = recv(peer, target, MIB, 0)) > 0; total += (size_t)got)
        if (fd >= 0 && pwrite(fd, target, (size_t)got, (off_t)(total % SOURCE_BYTES)) != got)
            fatal("pwrite");
    return total;
}

static void measure_loopback(const char *name, Sending sending, int keep_in, size_t total) {
    struct sockaddr_in address;
    int listener = listen_anywhere(&address), status;
    pid_t sender = fork();
    if (sender < 0) fatal("fork");
    if (sender == 0) send_all(&address, sending, total);
    int peer = accept(listener, NULL, NULL);
    uint64_t start = now_ns();
    size_t received = receive_all(peer, keep_in);
    print_rate(name, received, now_ns() - start);
    close(peer);
    close(listener);
    waitpid(sender, &status, 0);
    if (received < total) fatal("the sending process failed");
}

static void measure_network(void) {
    size_t total = 2 * file_bytes;
    int fd = open_scratch(O_TRUNC);
    write_whole(fd, SOURCE_BYTES);
    measure_loopback("loopback TCP", BY_WRITE, -1, total);
    measure_loopback("loopback TCP and pwrite", BY_WRITE, fd, total);
    measure_loopback("loopback sendfile", BY_SENDFILE, -1, total);
    close(fd);
}

/* ---- start ---- */

static const char usage[] =
    "usage: limits --file FILE [--mib N]\n"
    "  --file FILE  scratch file on the disk under test; overwritten, then removed\n"
    "  --mib N      how large it grows, and half of what goes over loopback (1024; 64 to 16384)\n";

static void parse(int argc, char **argv) {
    static const struct option known[] = {{"file", required_argument, NULL, 'f'},
                                          {"mib", required_argument, NULL, 'm'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
    char *end = "";
    long mib = 1024;
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (option) {
            case 'f': path = optarg; break;
            case 'm': mib = strtol(optarg, &end, 10); break;
            case 'h': fputs(usage, stdout); exit(0);
            default: fputs(usage, stderr); exit(2);
        }
    }
    if (!path || optind != argc || *end || mib < 64 || mib > 16384) {
        fputs(usage, stderr);
        exit(2);
    }
    file_bytes = (size_t)mib * MIB;
}

int main(int argc, char **argv) {
    parse(argc, argv);
    source = malloc(SOURCE_BYTES);
    target = malloc(SOURCE_BYTES);
    if (!source || !target) fatal("malloc");
    memset(source, 1, SOURCE_BYTES);
    memset(target, 2, SOURCE_BYTES);
    measure_copies("memcpy, 64 MiB blocks", SOURCE_BYTES, 2 * file_bytes);
    measure_copies("memcpy, 256 KiB hot", 256 * KIB, 2 * file_bytes);
    measure_file();
    measure_sync(4 * KIB);
    measure_sync(64 * KIB);
    measure_sync(MIB);
    measure_network();
    unlink(path);
    return 0;
}

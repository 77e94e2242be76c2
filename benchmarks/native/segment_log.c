#define _GNU_SOURCE
#include "segment_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "batch.h"

#define INDEX_EVERY_BYTES 4096 /* as Kafka's index.interval.bytes: a lookup walks at most this far */

static void fatal(const char *what) {
    fprintf(stderr, "reference_server: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ---- segments ---- */

static int create_unlinked(const char *directory, size_t capacity) {
    char path[4096];
    snprintf(path, sizeof path, "%s/segment-XXXXXX", directory);
    int fd = mkstemp(path);
    if (fd < 0) fatal(path);
    unlink(path);
    /* Keep the size: the file ends where the data ends. Some file systems cannot; then it is slower. */
    if (fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)capacity) && errno != EOPNOTSUPP)
        fatal("fallocate");
    return fd;
}

static Segment *segment_create(const Log *log, size_t capacity) {
    Segment *segment = calloc(1, sizeof *segment);
    if (!segment) fatal("calloc");
    segment->fd = create_unlinked(log->directory, capacity);
    segment->capacity = capacity;
    segment->base_offset = log->end_offset;
    segment->holders = 1;
    void *view = mmap(NULL, capacity, PROT_READ, MAP_SHARED, segment->fd, 0);
    if (view == MAP_FAILED) fatal("mmap");
    segment->view = view;
    return segment;
}

static void segment_let_go(Segment *segment) {
    if (--segment->holders > 0) return;
    munmap((void *)segment->view, segment->capacity);
    close(segment->fd);
    free(segment->index);
    free(segment);
}

static void index_add(Segment *segment, int64_t offset) {
    if (segment->index_count &&
        segment->end < segment->index[segment->index_count - 1].position + INDEX_EVERY_BYTES)
        return;
    if (segment->index_count == segment->index_capacity) {
        segment->index_capacity = segment->index_capacity ? 2 * segment->index_capacity : 1024;
        segment->index = realloc(segment->index, segment->index_capacity * sizeof(IndexEntry));
        if (!segment->index) fatal("realloc");
    }
    segment->index[segment->index_count++] = (IndexEntry){offset, segment->end};
}

/* ---- finding ---- */

static size_t batch_at(const Segment *segment, size_t position) {
    return batch_bytes(segment->view + position, segment->end - position);
}

/* Where the batch with `offset` begins. The caller knows that it is in this segment. */
static size_t position_of(const Segment *segment, int64_t offset) {
    size_t low = 0, high = segment->index_count; /* index[low].offset <= offset < index[high].offset */
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (segment->index[middle].offset <= offset)
            low = middle;
        else
            high = middle;
    }
    size_t position = segment->index[low].position;
    for (;;) {
        const uint8_t *batch = segment->view + position;
        if (batch_base_offset(batch) + batch_offset_count(batch) > offset) return position;
        position += batch_at(segment, position);
    }
}

/* The last batch end in (start, limit], or the end of the first batch if that lies beyond. */
static size_t end_within(const Segment *segment, size_t start, size_t limit) {
    if (limit >= segment->end) return segment->end;
    size_t low = 0, high = segment->index_count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (segment->index[middle].position <= limit)
            low = middle;
        else
            high = middle;
    }
    size_t end = segment->index[low].position;
    if (end <= start) end = start + batch_at(segment, start);
    while (end < segment->end && end + batch_at(segment, end) <= limit)
        end += batch_at(segment, end);
    return end;
}

static Segment *segment_with(const Log *log, int64_t offset) {
    for (int i = log->segment_count - 1; i >= 0; i--)
        if (log->segments[i]->base_offset <= offset) return log->segments[i];
    return NULL;
}

/* ---- the log ---- */

void log_open(Log *log, const char *directory, size_t segment_bytes) {
    *log = (Log){.directory = directory, .segment_bytes = segment_bytes};
    pthread_mutex_init(&log->mutex, NULL);
    log->segments[log->segment_count++] = segment_create(log, segment_bytes);
}

static void log_roll(Log *log, size_t needed) {
    if (log->segment_count == SEGMENTS_KEPT) {
        segment_let_go(log->segments[0]);
        memmove(log->segments, log->segments + 1, sizeof(Segment *) * (SEGMENTS_KEPT - 1));
        log->segment_count--;
    }
    size_t capacity = needed > log->segment_bytes ? needed : log->segment_bytes;
    log->segments[log->segment_count++] = segment_create(log, capacity);
}

static void assign_offsets(uint8_t *batches, size_t length, int64_t offset) {
    while (length > 0) {
        size_t step = batch_bytes(batches, length);
        store_be(batches, 8, (uint64_t)offset); /* lies outside the CRC */
        offset += batch_offset_count(batches);
        batches += step;
        length -= step;
    }
}

static bool write_whole(int fd, const uint8_t *bytes, size_t length, size_t position) {
    while (length > 0) {
        ssize_t wrote = pwrite(fd, bytes, length, (off_t)position);
        if (wrote <= 0) return false;
        bytes += wrote;
        length -= (size_t)wrote;
        position += (size_t)wrote;
    }
    return true;
}

int64_t log_append(Log *log, uint8_t *batches, size_t length, uint32_t offsets) {
    pthread_mutex_lock(&log->mutex);
    if (log->segments[log->segment_count - 1]->end + length >
        log->segments[log->segment_count - 1]->capacity)
        log_roll(log, length);
    Segment *active = log->segments[log->segment_count - 1];
    int64_t base = log->end_offset;
    assign_offsets(batches, length, base);
    if (write_whole(active->fd, batches, length, active->end)) {
        index_add(active, base);
        active->end += length;
        log->end_offset += offsets;
        log->bytes += length;
    } else {
        base = -1;
    }
    pthread_mutex_unlock(&log->mutex);
    return base;
}

bool log_read(Log *log, int64_t offset, size_t bytes_max, Slice *slice) {
    *slice = (Slice){0};
    pthread_mutex_lock(&log->mutex);
    bool known = offset >= log->segments[0]->base_offset && offset <= log->end_offset;
    if (known && offset < log->end_offset) {
        Segment *segment = segment_with(log, offset);
        size_t start = position_of(segment, offset);
        size_t end = end_within(segment, start, start + bytes_max);
        segment->holders++;
        *slice = (Slice){.segment = segment, .position = (off_t)start, .length = end - start};
    }
    pthread_mutex_unlock(&log->mutex);
    return known;
}

void slice_release(Log *log, Slice *slice) {
    if (!slice->segment) return;
    pthread_mutex_lock(&log->mutex);
    segment_let_go(slice->segment);
    pthread_mutex_unlock(&log->mutex);
    slice->segment = NULL;
}

int64_t log_start_offset(Log *log) {
    pthread_mutex_lock(&log->mutex);
    int64_t offset = log->segments[0]->base_offset;
    pthread_mutex_unlock(&log->mutex);
    return offset;
}

int64_t log_end_offset(Log *log) {
    pthread_mutex_lock(&log->mutex);
    int64_t offset = log->end_offset;
    pthread_mutex_unlock(&log->mutex);
    return offset;
}

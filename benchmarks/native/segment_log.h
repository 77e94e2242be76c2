/* A log of batches in preallocated segment files, behind one mutex.
 *
 * Append assigns offsets and writes with pwrite; the page cache is as durable as it gets. Read finds
 * whole batches by offset. Segment files are unlinked as soon as they are open, so nothing outlives
 * the process. Only the newest SEGMENTS_KEPT segments are readable.
 */
#ifndef TIERLOG_SEGMENT_LOG_H
#define TIERLOG_SEGMENT_LOG_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SEGMENTS_KEPT 4

typedef struct {
    int64_t offset;
    size_t position;
} IndexEntry;

typedef struct {
    int fd;
    const uint8_t *view; /* the whole file mapped; only [0, end) may be looked at */
    int64_t base_offset;
    size_t end;
    size_t capacity;
    IndexEntry *index;
    size_t index_count;
    size_t index_capacity;
    int holders; /* the log itself, and every Slice handed out */
} Segment;

typedef struct {
    pthread_mutex_t mutex;
    const char *directory;
    size_t segment_bytes;
    Segment *segments[SEGMENTS_KEPT]; /* oldest first; the last one is active */
    int segment_count;
    int64_t end_offset;
    uint64_t bytes;
} Log;

/* A run of whole batches that stays readable until it is given back. */
typedef struct {
    Segment *segment; /* NULL when empty */
    off_t position;
    size_t length;
} Slice;

void log_open(Log *log, const char *directory, size_t segment_bytes);

/* Gives the batches their offsets, in place, and writes them. Returns the first offset, or -1 when
 * the disk refused. `offsets` is how many the batches span together. */
int64_t log_append(Log *log, uint8_t *batches, size_t length, uint32_t offsets);

/* Whole batches from the one that holds `offset`: at least one, no more than `bytes_max` otherwise.
 * False if the offset is neither in the log nor its end. */
bool log_read(Log *log, int64_t offset, size_t bytes_max, Slice *slice);

void slice_release(Log *log, Slice *slice);

int64_t log_start_offset(Log *log);
int64_t log_end_offset(Log *log);

#endif

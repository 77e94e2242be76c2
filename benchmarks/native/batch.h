/* Record batch v2, as far as a benchmark needs it: find its end, count it, check it, place it. */
#ifndef TIERLOG_BATCH_H
#define TIERLOG_BATCH_H

#include "bytes.h"
#include "crc32c.h"

enum {
    BATCH_LENGTH_AT = 8,
    BATCH_EPOCH_AT = 12,
    BATCH_MAGIC_AT = 16,
    BATCH_CRC_AT = 17,
    BATCH_CRC_COVERS_FROM = 21,
    BATCH_LAST_DELTA_AT = 23,
    BATCH_COUNT_AT = 57,
    BATCH_HEADER_BYTES = 61,
};

/* Bytes of the batch at the start of `bytes`, or 0 if no whole batch of magic 2 stands there. */
static inline size_t batch_bytes(const uint8_t *bytes, size_t available) {
    if (available < BATCH_HEADER_BYTES || bytes[BATCH_MAGIC_AT] != 2) return 0;
    size_t length = load_be(bytes + BATCH_LENGTH_AT, 4) + BATCH_EPOCH_AT;
    return length < BATCH_HEADER_BYTES || length > available ? 0 : length;
}

static inline int64_t batch_base_offset(const uint8_t *batch) { return (int64_t)load_be(batch, 8); }

static inline uint32_t batch_offset_count(const uint8_t *batch) {
    return (uint32_t)load_be(batch + BATCH_LAST_DELTA_AT, 4) + 1;
}

static inline bool batch_crc_is_right(const uint8_t *batch, size_t length) {
    uint32_t stated = (uint32_t)load_be(batch + BATCH_CRC_AT, 4);
    return crc32c(batch + BATCH_CRC_COVERS_FROM, length - BATCH_CRC_COVERS_FROM) == stated;
}

#endif

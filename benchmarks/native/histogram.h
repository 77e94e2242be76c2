/* Latencies counted in buckets that are at most 1/64 (1.6 %) wide: constant memory, exact merging. */
#ifndef TIERLOG_HISTOGRAM_H
#define TIERLOG_HISTOGRAM_H

#include <stdint.h>

#define FINE_BITS 6
#define FINE (1u << FINE_BITS)
#define BUCKETS ((64 - FINE_BITS + 1) * FINE)

typedef struct {
    uint64_t buckets[BUCKETS];
    uint64_t count;
    uint64_t max;
} Histogram;

/* Values below FINE have a bucket each; above, the top bit chooses a row and the next six a column. */
static inline uint32_t bucket_of(uint64_t value) {
    if (value < FINE) return (uint32_t)value;
    uint32_t shift = 63 - (uint32_t)__builtin_clzll(value) - FINE_BITS;
    return (shift + 1) * FINE + (uint32_t)(value >> shift) - FINE;
}

static inline uint64_t bucket_floor(uint32_t bucket) {
    if (bucket < FINE) return bucket;
    uint32_t shift = bucket / FINE - 1;
    return (uint64_t)(bucket % FINE + FINE) << shift;
}

static inline void histogram_add(Histogram *histogram, uint64_t value) {
    histogram->buckets[bucket_of(value)]++;
    histogram->count++;
    if (value > histogram->max) histogram->max = value;
}

static inline void histogram_merge(Histogram *into, const Histogram *from) {
    for (uint32_t i = 0; i < BUCKETS; i++) into->buckets[i] += from->buckets[i];
    into->count += from->count;
    if (from->max > into->max) into->max = from->max;
}

/* The smallest value that at least `share` of the counted values do not exceed, to bucket width. */
static inline uint64_t histogram_at(const Histogram *histogram, double share) {
    uint64_t rank = (uint64_t)(share * (double)histogram->count), seen = 0;
    for (uint32_t i = 0; i < BUCKETS; i++) {
        seen += histogram->buckets[i];
        if (seen > rank) return bucket_floor(i);
    }
    return histogram->max;
}

#endif

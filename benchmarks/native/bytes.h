/* Reading and writing Kafka's primitive types, with every length checked.
 *
 * A Reader never walks past its end: the first read that would sets `failed`, and every later read
 * returns zero, so a parser may read a whole message and look at `failed` once. A Writer grows.
 *
 * Flexible versions (KIP-482) write lengths as unsigned varints plus one and end each struct with a
 * tag section; `flexible` selects between the two shapes.
 */
#ifndef TIERLOG_BYTES_H
#define TIERLOG_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const uint8_t *at;
    const uint8_t *end;
    bool failed;
} Reader;

static inline Reader reader_over(const uint8_t *bytes, size_t length) {
    return (Reader){.at = bytes, .end = bytes + length};
}

static inline size_t remaining(const Reader *reader) {
    return (size_t)(reader->end - reader->at);
}

/* The next `length` bytes, or NULL when there are fewer. */
static inline const uint8_t *take(Reader *reader, size_t length) {
    if (reader->failed || remaining(reader) < length) {
        reader->failed = true;
        return NULL;
    }
    const uint8_t *bytes = reader->at;
    reader->at += length;
    return bytes;
}

static inline uint64_t load_be(const uint8_t *bytes, int width) {
    uint64_t value = 0;
    for (int i = 0; i < width; i++) value = value << 8 | bytes[i];
    return value;
}

static inline void store_be(uint8_t *bytes, int width, uint64_t value) {
    for (int i = width - 1; i >= 0; i--, value >>= 8) bytes[i] = (uint8_t)value;
}

static inline uint64_t take_be(Reader *reader, int width) {
    const uint8_t *bytes = take(reader, (size_t)width);
    return bytes ? load_be(bytes, width) : 0;
}

static inline int8_t take_i8(Reader *reader) { return (int8_t)take_be(reader, 1); }
static inline int16_t take_i16(Reader *reader) { return (int16_t)take_be(reader, 2); }
static inline int32_t take_i32(Reader *reader) { return (int32_t)take_be(reader, 4); }
static inline int64_t take_i64(Reader *reader) { return (int64_t)take_be(reader, 8); }

static inline uint32_t take_uvarint(Reader *reader) {
    uint64_t value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        uint8_t byte = (uint8_t)take_be(reader, 1);
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            reader->failed |= value > UINT32_MAX;
            return (uint32_t)value;
        }
    }
    reader->failed = true;
    return 0;
}

/* A length; -1 stands for null. */
static inline int64_t take_length(Reader *reader, bool flexible, int classic_width) {
    if (flexible) return (int64_t)take_uvarint(reader) - 1;
    return classic_width == 2 ? take_i16(reader) : take_i32(reader);
}

/* The number of elements of an array. Each takes a byte or more, so the rest of the input bounds it. */
static inline uint32_t take_array(Reader *reader, bool flexible) {
    int64_t count = take_length(reader, flexible, 4);
    if (count > (int64_t)remaining(reader)) reader->failed = true;
    return count < 0 || reader->failed ? 0 : (uint32_t)count;
}

typedef struct {
    const uint8_t *bytes;
    size_t length;
} Span;

static inline Span take_span(Reader *reader, bool flexible, int classic_width) {
    int64_t length = take_length(reader, flexible, classic_width);
    if (length < 0) return (Span){0};
    const uint8_t *bytes = take(reader, (size_t)length);
    return (Span){.bytes = bytes, .length = bytes ? (size_t)length : 0};
}

static inline Span take_string(Reader *reader, bool flexible) { return take_span(reader, flexible, 2); }
static inline Span take_bytes(Reader *reader, bool flexible) { return take_span(reader, flexible, 4); }

static inline void take_tags(Reader *reader, bool flexible) {
    if (!flexible) return;
    for (uint32_t left = take_uvarint(reader); left > 0 && !reader->failed; left--) {
        take_uvarint(reader);
        take(reader, take_uvarint(reader));
    }
}

typedef struct {
    uint8_t *bytes;
    size_t length;
    size_t capacity;
} Writer;

static inline uint8_t *put_room(Writer *writer, size_t length) {
    if (writer->capacity - writer->length < length) {
        writer->capacity = 2 * (writer->capacity + length);
        writer->bytes = realloc(writer->bytes, writer->capacity);
        if (!writer->bytes) {
            fputs("out of memory\n", stderr);
            abort();
        }
    }
    uint8_t *room = writer->bytes + writer->length;
    writer->length += length;
    return room;
}

static inline void put_be(Writer *writer, int width, uint64_t value) {
    store_be(put_room(writer, (size_t)width), width, value);
}

static inline void put_raw(Writer *writer, Span span) {
    if (span.length) memcpy(put_room(writer, span.length), span.bytes, span.length);
}

static inline void put_uvarint(Writer *writer, uint32_t value) {
    for (; value > 0x7f; value >>= 7) put_be(writer, 1, (value & 0x7f) | 0x80);
    put_be(writer, 1, value);
}

static inline void put_length(Writer *writer, bool flexible, int classic_width, size_t length) {
    if (flexible)
        put_uvarint(writer, (uint32_t)length + 1);
    else
        put_be(writer, classic_width, length);
}

static inline void put_array(Writer *writer, bool flexible, uint32_t count) {
    put_length(writer, flexible, 4, count);
}

static inline void put_string(Writer *writer, bool flexible, Span text) {
    put_length(writer, flexible, 2, text.length);
    put_raw(writer, text);
}

static inline void put_no_tags(Writer *writer, bool flexible) {
    if (flexible) put_be(writer, 1, 0);
}

#endif

/* CRC-32C (Castagnoli), as record batches carry it. Call crc32c_init() once before any thread. */
#ifndef TIERLOG_CRC32C_H
#define TIERLOG_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Builds the tables and chooses; returns "hardware" or "software". */
const char *crc32c_init(void);

uint32_t crc32c(const uint8_t *bytes, size_t length);

#endif

/* CRC-32C by the processor's own instruction, or by table where it has none.
 *
 * The instruction takes 8 bytes every 3 cycles if each step waits for the last one. Three lanes side
 * by side hide that wait. A lane's register is carried past the lanes behind it by a table that
 * answers "what would this register be after LANE zero bytes"; the register is linear, so XOR joins
 * the pieces.
 */
#include "crc32c.h"

#include <stdbool.h>
#include <string.h>

#define POLYNOMIAL 0x82f63b78u /* Castagnoli, bits reversed */
#define LANE 1024u             /* three lanes of it fit a 4 KiB page's worth of input */

static uint32_t byte_table[256];
static uint32_t past_lane[4][256];
static bool hardware;

static uint32_t software_update(uint32_t state, const uint8_t *bytes, size_t length) {
    for (size_t i = 0; i < length; i++) state = state >> 8 ^ byte_table[(state ^ bytes[i]) & 0xff];
    return state;
}

static uint32_t over_zeros(uint32_t state, size_t length) {
    for (size_t i = 0; i < length; i++) state = state >> 8 ^ byte_table[state & 0xff];
    return state;
}

static void build_tables(void) {
    for (uint32_t value = 0; value < 256; value++) {
        uint32_t state = value;
        for (int bit = 0; bit < 8; bit++) state = state >> 1 ^ (state & 1 ? POLYNOMIAL : 0);
        byte_table[value] = state;
    }
    for (int part = 0; part < 4; part++)
        for (uint32_t value = 0; value < 256; value++)
            past_lane[part][value] = over_zeros(value << (8 * part), LANE);
}

#if defined(__x86_64__)
#include <nmmintrin.h>
#define HAS_STEP 1
#define STEP_TARGET __attribute__((target("sse4.2")))
#define STEP64(state, word) ((uint32_t)_mm_crc32_u64(state, word))
#define STEP8(state, byte) _mm_crc32_u8(state, byte)
static bool step_available(void) { return __builtin_cpu_supports("sse4.2"); }
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#define HAS_STEP 1
#define STEP_TARGET __attribute__((target("+crc")))
#define STEP64(state, word) __crc32cd(state, word)
#define STEP8(state, byte) __crc32cb(state, byte)
static bool step_available(void) { return getauxval(AT_HWCAP) & (1ul << 7); /* HWCAP_CRC32 */ }
#endif

#ifdef HAS_STEP
static uint32_t carry_past_lane(uint32_t state) {
    return past_lane[0][state & 0xff] ^ past_lane[1][state >> 8 & 0xff] ^
           past_lane[2][state >> 16 & 0xff] ^ past_lane[3][state >> 24];
}

static uint64_t word_at(const uint8_t *bytes) {
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

STEP_TARGET static uint32_t three_lanes(uint32_t first, const uint8_t *bytes) {
    uint32_t second = 0, third = 0;
    for (size_t i = 0; i < LANE; i += 8) {
        first = STEP64(first, word_at(bytes + i));
        second = STEP64(second, word_at(bytes + LANE + i));
        third = STEP64(third, word_at(bytes + 2 * LANE + i));
    }
    return carry_past_lane(carry_past_lane(first) ^ second) ^ third;
}

STEP_TARGET static uint32_t hardware_update(uint32_t state, const uint8_t *bytes, size_t length) {
    for (; length >= 3 * LANE; bytes += 3 * LANE, length -= 3 * LANE)
        state = three_lanes(state, bytes);
    for (; length >= 8; bytes += 8, length -= 8) state = STEP64(state, word_at(bytes));
    for (; length > 0; bytes++, length--) state = STEP8(state, *bytes);
    return state;
}
#else
static bool step_available(void) { return false; }
#define hardware_update software_update
#endif

const char *crc32c_init(void) {
    build_tables();
    hardware = step_available();
    return hardware ? "hardware" : "software";
}

uint32_t crc32c(const uint8_t *bytes, size_t length) {
    return ~(hardware ? hardware_update(~0u, bytes, length) : software_update(~0u, bytes, length));
}

/* base/clock.h - time and randomness, through one replaceable interface.
 *
 * Nobody reads the clock or the random source except through here, so that a test can drive both.
 * sys/ installs the real ones at start; until then the defaults below read the system's.
 * Threads: any, after ls_clock_install.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct ls_clock {
        int64_t (*wall_ms)(void *ctx);      /* milliseconds since 1970, may jump */
        int64_t (*monotonic_ns)(void *ctx); /* never goes back */
        void (*random)(void *ctx, void *ret_bytes, size_t bytes);
        void *ctx;
};

/* `clock` is borrowed and must outlive its use; NULL restores the system's. */
void ls_clock_install(const struct ls_clock *clock);
int64_t ls_clock_wall_ms(void);
int64_t ls_clock_monotonic_ns(void);
static inline int64_t
ls_clock_monotonic_ms(void)
{
        return ls_clock_monotonic_ns() / 1000000;
}
/* Cryptographically strong unless a test installed something else. */
void ls_random(void *ret_bytes, size_t bytes);

#define LS_CLOCK_TEXT_BYTES 32
/* "2026-12-01T10:20:30.123Z", UTC. */
void ls_clock_text(int64_t wall_ms, char ret_text[LS_CLOCK_TEXT_BYTES]);

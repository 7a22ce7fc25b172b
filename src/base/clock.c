/* base/clock.c - see clock.h. The one place that reads the system's clock and random source. */
#include "base/clock.h"

#include <stdio.h>
#include <sys/random.h>
#include <time.h>

#include "base/assert.h"

static const struct ls_clock *installed;

void
ls_clock_install(const struct ls_clock *clock)
{
        installed = clock;
}

int64_t
ls_clock_wall_ms(void)
{
        struct timespec t;

        if (installed != NULL && installed->wall_ms != NULL)
                return installed->wall_ms(installed->ctx);
        clock_gettime(CLOCK_REALTIME, &t);
        return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t
ls_clock_monotonic_ns(void)
{
        struct timespec t;

        if (installed != NULL && installed->monotonic_ns != NULL)
                return installed->monotonic_ns(installed->ctx);
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void
ls_random(void *ret_bytes, size_t bytes)
{
        uint8_t *p = ret_bytes;

        if (installed != NULL && installed->random != NULL) {
                installed->random(installed->ctx, ret_bytes, bytes);
                return;
        }
        while (bytes > 0) {
                ssize_t n = getrandom(p, bytes, 0);

                LS_ASSERT(n > 0);
                p += n;
                bytes -= (size_t)n;
        }
}

void
ls_clock_text(int64_t wall_ms, char ret_text[LS_CLOCK_TEXT_BYTES])
{
        int64_t seconds = wall_ms / 1000, ms = wall_ms % 1000;
        time_t t;
        struct tm tm;

        if (ms < 0) {
                ms += 1000;
                seconds--;
        }
        t = (time_t)seconds;
        if (gmtime_r(&t, &tm) == NULL || tm.tm_year > 8099 || tm.tm_year < -1900) {
                snprintf(ret_text, LS_CLOCK_TEXT_BYTES, "%lldms", (long long)wall_ms);
                return;
        }
        snprintf(ret_text, LS_CLOCK_TEXT_BYTES, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ",
                 (tm.tm_year + 1900) % 10000, (tm.tm_mon + 1) % 100, tm.tm_mday % 100,
                 tm.tm_hour % 100, tm.tm_min % 100, tm.tm_sec % 100, (int)ms);
}

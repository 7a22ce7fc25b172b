/* base/log.c - see log.h. */
#include "base/log.h"

#include <stdio.h>

#include "base/clock.h"

static enum ls_log_level log_level = LS_LOG_WARN;
static ls_log_sink log_sink;
static void *log_ctx;

void
ls_log_setup(enum ls_log_level level, ls_log_sink sink, void *ctx)
{
        log_level = level;
        log_sink = sink;
        log_ctx = ctx;
}

bool
ls_log_on(enum ls_log_level level)
{
        return level >= log_level;
}

void
ls_log(enum ls_log_level level, const char *module, const char *format, ...)
{
        static const char *const names[] = { "DEBUG", "INFO", "WARN", "ERROR" };
        char line[LS_LOG_LINE_BYTES];
        char when[LS_CLOCK_TEXT_BYTES];
        va_list ap;
        size_t len;
        int n;

        if (!ls_log_on(level))
                return;
        ls_clock_text(ls_clock_wall_ms(), when);
        n = snprintf(line, sizeof line, "%s %s %s ", when, names[level], module);
        len = (size_t)n;
        va_start(ap, format);
        n = vsnprintf(line + len, sizeof line - len - 1, format, ap);
        va_end(ap);
        if (n < 0)
                return;
        len += (size_t)n < sizeof line - len - 2 ? (size_t)n : sizeof line - len - 2;
        for (size_t i = 0; i < len; i++) {
                if ((unsigned char)line[i] < 0x20)
                        line[i] = ' ';
        }
        line[len++] = '\n';
        if (log_sink != NULL)
                log_sink(log_ctx, line, len);
        else
                fwrite(line, 1, len, stderr);
}

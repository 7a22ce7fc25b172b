/* base/log.h - structured logs: one line an event, `time level module message key=value …`.
 *
 * Library code returns errors; the layer that gives up logs once. A line is cut at
 * LS_LOG_LINE_BYTES. Writes go through one function set at start (default: nothing is written
 * below level warn, the rest to standard error). Threads: any.
 */
#pragma once
#include "base/err.h"

#define LS_LOG_LINE_BYTES 2048

enum ls_log_level { LS_LOG_DEBUG, LS_LOG_INFO, LS_LOG_WARN, LS_LOG_ERROR };

/* Where a finished line (with its newline) goes. Called from any thread, one call a line. */
typedef void (*ls_log_sink)(void *ctx, const char *line, size_t len);

void ls_log_setup(enum ls_log_level level, ls_log_sink sink, void *ctx);
bool ls_log_on(enum ls_log_level level);
/* `module` is the folder; the format ends in key=value pairs. Control characters are escaped. */
void ls_log(enum ls_log_level level, const char *module, const char *format, ...) LS_PRINTF(3, 4);

#define ls_log_debug(...)                                  \
        do {                                               \
                if (ls_log_on(LS_LOG_DEBUG))               \
                        ls_log(LS_LOG_DEBUG, __VA_ARGS__); \
        } while (0)
#define ls_log_info(...)  ls_log(LS_LOG_INFO, __VA_ARGS__)
#define ls_log_warn(...)  ls_log(LS_LOG_WARN, __VA_ARGS__)
#define ls_log_error(...) ls_log(LS_LOG_ERROR, __VA_ARGS__)

/* base/metric.h - counters, gauges and histograms, printed in the Prometheus text format 0.0.4.
 *
 * A metric is a static struct registered once; labels make child series (bounded: past
 * LS_METRIC_SERIES_MAX new labels of counters and histograms fall into one series labelled "other",
 * those of gauges are not shown).
 * Threads: any; adding is a relaxed atomic, registration and printing take a lock.
 */
#pragma once
#include <stdatomic.h>

#include "base/buf.h"
#include "base/map.h"

#define LS_METRIC_SERIES_MAX  4096
#define LS_METRIC_BUCKETS_MAX 24

enum ls_metric_kind { LS_METRIC_COUNTER, LS_METRIC_GAUGE, LS_METRIC_HISTOGRAM };

struct ls_metric_series {
        struct ls_metric_series *next;
        char *labels; /* `a="b",c="d"` or "" */
        _Atomic int64_t value;
        _Atomic uint64_t buckets[LS_METRIC_BUCKETS_MAX + 1]; /* not cumulative; last: +Inf */
};

struct ls_metric {
        const char *name; /* lakestream_…_total, _seconds, _bytes */
        const char *help;
        enum ls_metric_kind kind;
        double scale;          /* printed = value x scale: 1e-9 for seconds kept in ns; 0 is 1 */
        const int64_t *bounds; /* histograms: upper bounds in kept units, ascending, 0 ends */
        struct ls_metric *next;
        struct ls_metric_series *series; /* all but `plain`, and the same by labels */
        struct ls_map by_labels;
        struct ls_metric_series plain; /* the series without labels */
        bool labelled;                 /* there is none, unless it is used all the same */
        atomic_bool registered, plain_used;
};

/* Definitions, written as `static LS_METRIC(…);`: each is listed in a section of the program, so
 * that it is shown from the start, with 0. LS_METRIC_…_BY is shown by label only. */
#define LS_METRIC_DEFINE(var, ...)                                                                 \
        struct ls_metric var = { __VA_ARGS__ };                                                    \
        static struct ls_metric *const var##_listed __attribute__((used, section("ls_metrics"))) = \
                &var
#define LS_METRIC(var, kind_, name_, help_) \
        LS_METRIC_DEFINE(var, .name = (name_), .help = (help_), .kind = LS_METRIC_##kind_)
#define LS_METRIC_BY(var, kind_, name_, help_)                                             \
        LS_METRIC_DEFINE(var, .name = (name_), .help = (help_), .kind = LS_METRIC_##kind_, \
                         .labelled = true)
/* A gauge in seconds, set in milliseconds. */
#define LS_METRIC_AGE_BY(var, name_, help_)                                              \
        LS_METRIC_DEFINE(var, .name = (name_), .help = (help_), .kind = LS_METRIC_GAUGE, \
                         .labelled = true, .scale = 1e-3)
#define LS_METRIC_SECONDS(var, name_, help_)                                                 \
        LS_METRIC_DEFINE(var, .name = (name_), .help = (help_), .kind = LS_METRIC_HISTOGRAM, \
                         .scale = 1e-9, .bounds = ls_metric_latency_bounds_ns)
#define LS_METRIC_SECONDS_BY(var, name_, help_)                                              \
        LS_METRIC_DEFINE(var, .name = (name_), .help = (help_), .kind = LS_METRIC_HISTOGRAM, \
                         .scale = 1e-9, .bounds = ls_metric_latency_bounds_ns, .labelled = true)

/* 50 us to 60 s. */
extern const int64_t ls_metric_latency_bounds_ns[];

/* The series of one label (name="value", escaped); kept for ever, so resolve once and hold it. */
struct ls_metric_series *ls_metric_with(struct ls_metric *m, const char *label, ls_str value);
/* Sets the gauge of a label that may be forgotten again: nobody holds its series. */
void ls_metric_set_with(struct ls_metric *m, const char *label, ls_str value, int64_t n);
/* What had that label is gone: its series is not shown any more. Not for series that are held. */
void ls_metric_forget(struct ls_metric *m, const char *label, ls_str value);
/* Counter or gauge without labels. */
void ls_metric_add(struct ls_metric *m, int64_t n);
void ls_metric_set(struct ls_metric *m, int64_t value);
static inline void
ls_metric_series_add(struct ls_metric_series *s, int64_t n)
{
        atomic_fetch_add_explicit(&s->value, n, memory_order_relaxed);
}
static inline void
ls_metric_series_set(struct ls_metric_series *s, int64_t value)
{
        atomic_store_explicit(&s->value, value, memory_order_relaxed);
}
/* Histogram observations, in kept units. */
void ls_metric_observe(struct ls_metric *m, int64_t value);
void ls_metric_series_observe(struct ls_metric *m, struct ls_metric_series *s, int64_t value);
/* Appends all metrics of the program to `out`. */
void ls_metric_print(struct ls_buf *out);

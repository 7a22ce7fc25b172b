/* base/metric.c - see metric.h. */
#include "base/metric.h"

#include <pthread.h>

#include "base/assert.h"
#include "base/mem.h"

static pthread_mutex_t metric_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ls_metric *metric_first, **metric_last = &metric_first;

const int64_t ls_metric_latency_bounds_ns[] = { 50000,       100000,      250000,      500000,
                                                1000000,     2500000,     5000000,     10000000,
                                                25000000,    50000000,    100000000,   250000000,
                                                500000000,   1000000000,  2500000000,  5000000000,
                                                10000000000, 30000000000, 60000000000, 0 };

static void
metric_register(struct ls_metric *m)
{
        if (atomic_load_explicit(&m->registered, memory_order_acquire))
                return;
        pthread_mutex_lock(&metric_lock);
        if (!atomic_load(&m->registered)) {
                for (const struct ls_metric *other = metric_first; other; other = other->next)
                        LS_ASSERT(strcmp(other->name, m->name) != 0); /* it would be shown twice */
                m->plain.labels = "";
                *metric_last = m;
                metric_last = &m->next;
                atomic_store(&m->registered, true);
        }
        pthread_mutex_unlock(&metric_lock);
}

static char *
metric_label(const char *label, ls_str value)
{
        struct ls_buf b;

        ls_buf_init(&b, 4096);
        ls_buf_printf(&b, "%s=\"", label);
        for (size_t i = 0; i < value.len; i++) {
                if (value.ptr[i] == '"' || value.ptr[i] == '\\')
                        ls_buf_put_u8(&b, '\\');
                if (value.ptr[i] == '\n')
                        ls_buf_put_text(&b, "\\n");
                else
                        ls_buf_put_u8(&b, (uint8_t)value.ptr[i]);
        }
        ls_buf_put_text(&b, "\"");
        ls_buf_cstr(&b);
        return (char *)b.ptr;
}

static ls_span
metric_key(const char *labels)
{
        return ls_span_of(labels, strlen(labels));
}

/* The series of `labels`, made when absent; NULL: there is no room. The lock is held. */
static struct ls_metric_series *
metric_series(struct ls_metric *m, const char *labels, size_t count_max)
{
        struct ls_metric_series *s = ls_map_get(&m->by_labels, metric_key(labels));

        if (s != NULL || m->by_labels.count >= count_max)
                return s;
        s = ls_calloc(1, sizeof *s);
        s->labels = ls_strdup(labels);
        s->next = m->series;
        m->series = s;
        ls_map_set(&m->by_labels, metric_key(labels), s);
        return s;
}

struct ls_metric_series *
ls_metric_with(struct ls_metric *m, const char *label, ls_str value)
{
        LS_AUTO(ls_free) char *labels = metric_label(label, value);
        struct ls_metric_series *s;

        metric_register(m);
        pthread_mutex_lock(&metric_lock);
        s = metric_series(m, labels, LS_METRIC_SERIES_MAX);
        if (s == NULL) {
                LS_AUTO(ls_free) char *other = metric_label(label, LS_STR("other"));

                s = metric_series(m, other, SIZE_MAX);
        }
        pthread_mutex_unlock(&metric_lock);
        return s;
}

void
ls_metric_set_with(struct ls_metric *m, const char *label, ls_str value, int64_t n)
{
        LS_AUTO(ls_free) char *labels = metric_label(label, value);
        struct ls_metric_series *s;

        metric_register(m);
        pthread_mutex_lock(&metric_lock);
        s = metric_series(m, labels, LS_METRIC_SERIES_MAX);
        if (s != NULL)
                ls_metric_series_set(s, n);
        pthread_mutex_unlock(&metric_lock);
}

void
ls_metric_forget(struct ls_metric *m, const char *label, ls_str value)
{
        LS_AUTO(ls_free) char *labels = metric_label(label, value);
        struct ls_metric_series *s, **link;

        pthread_mutex_lock(&metric_lock);
        s = ls_map_remove(&m->by_labels, metric_key(labels));
        for (link = &m->series; s != NULL && *link != s; link = &(*link)->next)
                ;
        if (s != NULL) {
                *link = s->next;
                ls_free(s->labels);
                ls_free(s);
        }
        pthread_mutex_unlock(&metric_lock);
}

void
ls_metric_add(struct ls_metric *m, int64_t n)
{
        metric_register(m);
        atomic_store_explicit(&m->plain_used, true, memory_order_relaxed);
        ls_metric_series_add(&m->plain, n);
}

void
ls_metric_set(struct ls_metric *m, int64_t value)
{
        metric_register(m);
        atomic_store_explicit(&m->plain_used, true, memory_order_relaxed);
        ls_metric_series_set(&m->plain, value);
}

void
ls_metric_series_observe(struct ls_metric *m, struct ls_metric_series *s, int64_t value)
{
        size_t i = 0;

        while (m->bounds != NULL && m->bounds[i] != 0 && value > m->bounds[i])
                i++;
        atomic_fetch_add_explicit(&s->buckets[i], 1, memory_order_relaxed);
        ls_metric_series_add(s, value);
}

void
ls_metric_observe(struct ls_metric *m, int64_t value)
{
        metric_register(m);
        atomic_store_explicit(&m->plain_used, true, memory_order_relaxed);
        ls_metric_series_observe(m, &m->plain, value);
}

static void
metric_print_histogram(struct ls_buf *out, const struct ls_metric *m, struct ls_metric_series *s)
{
        const char *comma = s->labels[0] ? "," : "";
        double scale = m->scale != 0 ? m->scale : 1;
        uint64_t total = 0;
        size_t i;

        for (i = 0; m->bounds != NULL && m->bounds[i] != 0; i++) {
                total += atomic_load(&s->buckets[i]);
                ls_buf_printf(out, "%s_bucket{%s%sle=\"%.10g\"} %llu\n", m->name, s->labels, comma,
                              (double)m->bounds[i] * scale, (unsigned long long)total);
        }
        total += atomic_load(&s->buckets[i]);
        ls_buf_printf(out, "%s_bucket{%s%sle=\"+Inf\"} %llu\n", m->name, s->labels, comma,
                      (unsigned long long)total);
        ls_buf_printf(out, s->labels[0] ? "%s_sum{%s} %.10g\n" : "%s_sum%s %.10g\n", m->name,
                      s->labels, (double)atomic_load(&s->value) * scale);
        ls_buf_printf(out, s->labels[0] ? "%s_count{%s} %llu\n" : "%s_count%s %llu\n", m->name,
                      s->labels, (unsigned long long)total);
}

static void
metric_print_series(struct ls_buf *out, const struct ls_metric *m, struct ls_metric_series *s)
{
        double scale = m->scale != 0 ? m->scale : 1;

        if (m->kind == LS_METRIC_HISTOGRAM) {
                metric_print_histogram(out, m, s);
                return;
        }
        ls_buf_printf(out, s->labels[0] ? "%s{%s} %.17g\n" : "%s%s %.17g\n", m->name, s->labels,
                      (double)atomic_load(&s->value) * scale);
}

/* Made by the linker: where the section begins and ends; absent in a program without metrics. */
extern struct ls_metric *const __start_ls_metrics[] __attribute__((weak));
extern struct ls_metric *const __stop_ls_metrics[] __attribute__((weak));

void
ls_metric_print(struct ls_buf *out)
{
        static const char *const kinds[] = { "counter", "gauge", "histogram" };

        for (struct ls_metric *const *m = __start_ls_metrics; m < __stop_ls_metrics; m++)
                metric_register(*m);
        pthread_mutex_lock(&metric_lock);
        for (struct ls_metric *m = metric_first; m != NULL; m = m->next) {
                ls_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", m->name, m->help, m->name,
                              kinds[m->kind]);
                if (!m->labelled || atomic_load(&m->plain_used))
                        metric_print_series(out, m, &m->plain);
                for (struct ls_metric_series *s = m->series; s != NULL; s = s->next)
                        metric_print_series(out, m, s);
        }
        pthread_mutex_unlock(&metric_lock);
}

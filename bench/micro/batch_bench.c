/* bench/micro/batch_bench.c - MB/s of one core over record batches: validate, iterate (with the
 * hash of each record), build; per codec and record size. MB are of record bytes (keys and values).
 * Usage: batch_bench [seconds a cell, default 0.3]. Prints min, median and max of 5 rounds. */
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/clock.h"
#include "formats/batch/batch.h"

#define BATCH_BYTES ((size_t)256 << 10)
#define ROUNDS      5

struct cell {
        enum ls_codec codec;
        size_t value_bytes;
        struct ls_buf batch;
        uint64_t record_bytes; /* in the batch */
        struct ls_record *records;
        int32_t count;
        struct ls_batch_walker *walker;
        struct ls_batch_iter it;
        struct ls_batch_builder builder;
        struct ls_buf out;
        uint64_t sink;
};

static void
cell_build(struct cell *c)
{
        ls_buf_clear(&c->out);
        ls_batch_builder_begin(&c->builder, &c->out, 0);
        for (int32_t i = 0; i < c->count; i++)
                LS_ASSERT(ls_batch_builder_add(&c->builder, &c->records[i]) == LS_OK);
        LS_ASSERT(ls_batch_builder_end(&c->builder, -1, NULL) == LS_OK);
}

static void
cell_validate(struct cell *c)
{
        struct ls_batch_check check = LS_BATCH_CHECK_DEFAULT;
        struct ls_batch_info info;

        LS_ASSERT(ls_batch_validate(c->walker, ls_buf_span(&c->batch), &check, &info, NULL) ==
                  LS_OK);
        c->sink += info.sum0;
}

static void
cell_iterate(struct cell *c)
{
        struct ls_record r;

        LS_ASSERT(ls_batch_iter_open(&c->it, ls_buf_span(&c->batch), true) == LS_OK);
        while (ls_batch_iter_next(&c->it, &r) == LS_OK)
                c->sink += ls_record_hash(&r);
}

static int
compare(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

static void
measure(struct cell *c, const char *what, void (*fn)(struct cell *c), double seconds)
{
        double rates[ROUNDS];

        for (int i = 0; i < ROUNDS; i++) {
                int64_t start = ls_clock_monotonic_ns(), now;
                uint64_t runs = 0;

                do {
                        fn(c);
                        runs++;
                        now = ls_clock_monotonic_ns();
                } while ((double)(now - start) < seconds / ROUNDS * 1e9);
                rates[i] = (double)(runs * c->record_bytes) / 1e6 / ((double)(now - start) / 1e9);
        }
        qsort(rates, ROUNDS, sizeof rates[0], compare);
        printf("%-8s %-7s %6zu B  %8.0f %8.0f %8.0f MB/s\n", what, ls_codec_name((int)c->codec),
               c->value_bytes, rates[0], rates[ROUNDS / 2], rates[ROUNDS - 1]);
}

int
main(int argc, char **argv)
{
        static const size_t sizes[] = { 100, 1024, 10240 };
        double seconds = argc > 1 ? strtod(argv[1], NULL) : 0.3;
        static uint8_t text[BATCH_BYTES];
        uint32_t x = 1;

        for (size_t i = 0; i < sizeof text; i++) { /* compresses to about a half */
                x = x * 1664525 + 1013904223;
                text[i] = (uint8_t)("0123456789abcdef"[x >> 28]);
        }
        printf("what     codec    value       min   median      max\n");
        for (size_t s = 0; s < LS_COUNT(sizes); s++) {
                for (int codec = 0; codec < LS_CODEC_COUNT; codec++) {
                        struct ls_batch_build cfg = { .codec = (enum ls_codec)codec,
                                                      .level = LS_LEVEL_DEFAULT,
                                                      .records_bytes_max = 1 << 30 };
                        struct cell c = { .codec = (enum ls_codec)codec, .value_bytes = sizes[s] };

                        c.count = (int32_t)(BATCH_BYTES / (sizes[s] + 16));
                        c.records = ls_calloc((size_t)c.count, sizeof *c.records);
                        for (int32_t i = 0; i < c.count; i++) {
                                size_t at = (size_t)i * (sizes[s] + 16);

                                c.records[i] = (struct ls_record){ .offset = i,
                                                                   .timestamp = 1700000000000 + i };
                                c.records[i].key = ls_span_of(text + at, 16);
                                c.records[i].value = ls_span_of(text + at + 16, sizes[s]);
                                c.record_bytes += sizes[s] + 16;
                        }
                        c.walker = ls_batch_walker_new();
                        ls_batch_iter_init(&c.it, 0);
                        ls_batch_builder_init(&c.builder, &cfg);
                        ls_buf_init(&c.out, LS_BUF_MAX_DEFAULT);
                        ls_buf_init(&c.batch, LS_BUF_MAX_DEFAULT);
                        cell_build(&c);
                        ls_buf_put_span(&c.batch, ls_buf_span(&c.out));
                        measure(&c, "validate", cell_validate, seconds);
                        measure(&c, "iterate", cell_iterate, seconds);
                        measure(&c, "build", cell_build, seconds);
                        ls_batch_walker_free(c.walker);
                        ls_batch_iter_done(&c.it);
                        ls_batch_builder_done(&c.builder);
                        ls_buf_done(&c.out);
                        ls_buf_done(&c.batch);
                        ls_free(c.records);
                }
        }
        return 0;
}

/* bench/micro/rows_bench.c - speed of compaction's inner part and of history: record batches to a
 * table file, and back, one core, in memory.
 *
 *      rows_bench [MIB [RECORD_BYTES [json|random [none|lz4 [ROUNDS_READ]]]]]
 *
 * For each record size: batches of about 100 KiB of JSON-like or random records go into a file
 * (hash sums, columns, zstd 1) and are read back as batches without codec, 1 MiB a call. Prints record
 * bytes a second of processor time, best of three. With RECORD_BYTES only that kind (for a profile
 * ROUNDS_READ makes reading weigh more).
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "formats/batch/batch.h"
#include "lake/rows.h"

#define BENCH_ROUNDS      3
#define BENCH_BATCH_BYTES ((uint64_t)100 << 10)

static uint64_t
next_random(void)
{
        static uint64_t x = 88172645463325252ULL;

        x ^= x << 13;
        x ^= x >> 7;
        return x ^= x << 17;
}

static struct ls_buf
make_random(size_t bytes)
{
        struct ls_buf out;

        ls_buf_init(&out, bytes + 1000);
        while (out.len < bytes)
                ls_buf_put_le64(&out, next_random());
        return out;
}

static struct ls_buf
make_json(size_t bytes)
{
        static const char *const words[] = { "checkout", "view",  "click",   "mobile", "desktop",
                                             "berlin",   "tokyo", "premium", "trial",  "error" };
        struct ls_buf out;

        ls_buf_init(&out, bytes + 1000);
        while (out.len < bytes)
                ls_buf_printf(
                        &out,
                        "{\"id\":%llu,\"user\":\"u-%06llu\",\"event\":\"%s\",\"device\":"
                        "\"%s\",\"amount\":%llu.%02llu,\"trace\":\"%016llx\"}",
                        (unsigned long long)out.len, (unsigned long long)next_random() % 1000000,
                        words[next_random() % 10], words[next_random() % 10],
                        (unsigned long long)next_random() % 1000,
                        (unsigned long long)next_random() % 100, (unsigned long long)next_random());
        return out;
}

/* Batches with all values cut to record_bytes; gives the record bytes. */
static uint64_t
make_batches(const struct ls_buf *values, size_t record_bytes, enum ls_codec codec,
             struct ls_buf *out)
{
        struct ls_batch_build cfg = { .codec = codec,
                                      .level = LS_LEVEL_DEFAULT,
                                      .records_bytes_max = BENCH_BATCH_BYTES };
        struct ls_batch_builder b;
        uint64_t total = 0;
        int64_t offset = 0;
        char key[32];

        ls_batch_builder_init(&b, &cfg);
        ls_batch_builder_begin(&b, out, -1);
        for (size_t at = 0; at + record_bytes <= values->len; at += record_bytes, offset++) {
                int n = snprintf(key, sizeof key, "user-%llu",
                                 (unsigned long long)next_random() % 100000);
                struct ls_record r = { .offset = offset,
                                       .timestamp = 1700000000000 + offset / 20,
                                       .key = ls_span_of(key, (size_t)n),
                                       .value = ls_span_of(values->ptr + at, record_bytes),
                                       .headers = ls_span_of("", 0) };

                if (ls_batch_builder_add(&b, &r) != LS_OK) {
                        if (ls_batch_builder_end(&b, -1, NULL) != LS_OK)
                                abort();
                        ls_batch_builder_begin(&b, out, -1);
                        if (ls_batch_builder_add(&b, &r) != LS_OK)
                                abort();
                }
                total += record_bytes + (size_t)n;
        }
        if (ls_batch_builder_end(&b, -1, NULL) != LS_OK)
                abort();
        ls_batch_builder_done(&b);
        return total;
}

static double
bench_write(struct ls_store *store, ls_span batches, struct ls_meta_extent *ret_extent,
            uint64_t *ret_bytes)
{
        struct ls_rows_writer_options o = { .store = store, .key = "f" };
        const struct ls_rows_file *info;
        struct ls_rows_writer *w;
        struct ls_batch_header h;
        clock_t start = clock();
        ls_span batch;
        double seconds;

        if (ls_rows_writer_new(&o, &w) != LS_OK)
                abort();
        while (ls_batch_next(&batches, &batch, &h) == LS_OK) {
                if (ls_rows_writer_add(w, 0, batch, 0, INT64_MAX, batch.len, false, NULL, NULL))
                        abort();
        }
        if (ls_rows_writer_finish(w, &info) != LS_OK)
                abort();
        seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
        *ret_bytes = info->bytes;
        *ret_extent = (struct ls_meta_extent){ .base_offset = 0,
                                               .end_offset = info->runs[0].end_offset,
                                               .rows = info->rows,
                                               .hash = info->runs[0].hash };
        ls_rows_writer_free(w);
        return seconds;
}

static double
bench_read(struct ls_store *store, const struct ls_meta_extent *x, uint64_t bytes)
{
        struct ls_rows_batches how = { .bytes_max = 1 << 20 };
        struct ls_rows_reader *r;
        struct ls_buf out;
        clock_t start = clock();
        int64_t next = 0;

        ls_buf_init(&out, 1 << 30);
        if (ls_rows_reader_open(store, "f", bytes, &r) != LS_OK)
                abort();
        while (next < x->end_offset) {
                ls_buf_clear(&out);
                if (ls_rows_read(r, x, next, &how, &out, &next) != LS_OK)
                        abort();
        }
        ls_rows_reader_close(r);
        ls_buf_done(&out);
        return (double)(clock() - start) / CLOCKS_PER_SEC;
}

static void
bench_kind(const struct ls_buf *values, const char *kind, size_t record_bytes, enum ls_codec codec,
           int reads)
{
        double write = 1e9, read = 1e9, t;
        struct ls_meta_extent x;
        struct ls_buf batches;
        uint64_t total, bytes = 0;

        ls_buf_init(&batches, SIZE_MAX / 2);
        total = make_batches(values, record_bytes, codec, &batches);
        for (int round = 0; round < BENCH_ROUNDS; round++) {
                struct ls_store *store = ls_store_mem_new();

                t = bench_write(store, ls_buf_span(&batches), &x, &bytes);
                write = LS_MIN(write, t);
                for (int i = 0; i < reads; i++) {
                        t = bench_read(store, &x, bytes);
                        read = LS_MIN(read, t);
                }
                ls_store_close(store);
        }
        printf("%8zu %6s %6s %12.0f %12.0f %8.3f\n", record_bytes, kind, ls_codec_name((int)codec),
               (double)total / write / 1e6, (double)total / read / 1e6,
               (double)bytes / (double)total);
        ls_buf_done(&batches);
}

int
main(int argc, char **argv)
{
        static const size_t sizes[] = { 100, 300, 1024, 10240 };
        size_t bytes = (size_t)(argc > 1 ? atoi(argv[1]) : 128) << 20;
        size_t only = argc > 2 ? (size_t)atoi(argv[2]) : 0;
        bool random_only = argc > 3 && strcmp(argv[3], "random") == 0;
        enum ls_codec codec =
                argc > 4 && strcmp(argv[4], "lz4") == 0 ? LS_CODEC_LZ4 : LS_CODEC_NONE;
        struct ls_buf json = make_json(bytes), random = make_random(bytes);

        printf("%8s %6s %6s %12s %12s %8s\n", "bytes", "values", "codec", "write MB/s", "read MB/s",
               "share");
        if (only > 0)
                bench_kind(random_only ? &random : &json, random_only ? "random" : "json", only,
                           codec, argc > 5 ? atoi(argv[5]) : 1);
        for (size_t i = 0; i < LS_COUNT(sizes) && only == 0; i++) {
                bench_kind(&json, "json", sizes[i], LS_CODEC_NONE, 1);
                bench_kind(&json, "json", sizes[i], LS_CODEC_LZ4, 1);
                bench_kind(&random, "random", sizes[i], LS_CODEC_NONE, 1);
        }
        ls_buf_done(&json);
        ls_buf_done(&random);
        return 0;
}

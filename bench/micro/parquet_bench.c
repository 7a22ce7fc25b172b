/* bench/micro/parquet_bench.c - speed of the Parquet writer and reader on raw-mode records, one
 * core.
 *
 *      parquet_bench [MIB [LEVEL]]
 *
 * For each record size: rows like those of a raw-mode table (value of JSON-like text, partition,
 * offset, timestamp, key, no headers) are encoded into row groups of 16 MiB in memory, then read
 * back whole. Prints record bytes (key + value) a second for filling columns and encoding, for
 * encoding alone, and for reading, all in processor time; the share of the file to the record
 * bytes; best of three.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/buf.h"
#include "formats/parquet/reader.h"
#include "formats/parquet/writer.h"

#define BENCH_GROUP_BYTES ((uint64_t)16 << 20)
#define BENCH_ROUNDS      3

struct bench {
        struct ls_schema schema;
        uint8_t *values; /* record values one after another, cut out at multiples of their size */
        size_t values_bytes;
        struct ls_buf file;
        int level;
};

static uint64_t
next_random(void)
{
        static uint64_t x = 88172645463325252ULL;

        x ^= x << 13;
        x ^= x >> 7;
        return x ^= x << 17;
}

/* Text as events have it: fixed field names, numbers, words, some hexadecimal noise. */
static void
make_values(struct bench *b)
{
        static const char *const words[] = { "checkout", "view",  "click",   "mobile", "desktop",
                                             "berlin",   "tokyo", "premium", "trial",  "error" };
        struct ls_buf out;

        ls_buf_init(&out, b->values_bytes + 1000);
        while (out.len < b->values_bytes)
                ls_buf_printf(
                        &out,
                        "{\"id\":%llu,\"user\":\"u-%06llu\",\"event\":\"%s\",\"device\":"
                        "\"%s\",\"amount\":%llu.%02llu,\"trace\":\"%016llx\"}",
                        (unsigned long long)out.len, (unsigned long long)next_random() % 1000000,
                        words[next_random() % 10], words[next_random() % 10],
                        (unsigned long long)next_random() % 1000,
                        (unsigned long long)next_random() % 100, (unsigned long long)next_random());
        b->values = out.ptr;
}

static void
make_schema(struct ls_schema *s)
{
        uint32_t list;

        ls_schema_init(s);
        ls_schema_add_leaf(s, 0, LS_STR("value"), LS_COL_OPTIONAL, LS_TYPE_BINARY, 1);
        ls_schema_add_leaf(s, 0, LS_STR("__partition"), LS_COL_REQUIRED, LS_TYPE_INT, 2);
        ls_schema_add_leaf(s, 0, LS_STR("__offset"), LS_COL_REQUIRED, LS_TYPE_LONG, 3);
        ls_schema_add_leaf(s, 0, LS_STR("__timestamp"), LS_COL_REQUIRED, LS_TYPE_TIMESTAMPTZ, 4);
        ls_schema_add_leaf(s, 0, LS_STR("__key"), LS_COL_OPTIONAL, LS_TYPE_BINARY, 5);
        list = ls_schema_add_list(s, 0, LS_STR("__headers"), LS_COL_REQUIRED, 6);
        list = ls_schema_add_group(s, list, LS_STR("element"), LS_COL_REQUIRED, LS_COL_ANY, 7);
        ls_schema_add_leaf(s, list, LS_STR("key"), LS_COL_REQUIRED, LS_TYPE_STRING, 8);
        ls_schema_add_leaf(s, list, LS_STR("value"), LS_COL_OPTIONAL, LS_TYPE_BINARY, 9);
        if (ls_schema_seal(s, NULL) != LS_OK)
                abort();
}

static ls_err
append(void *ctx, ls_span bytes)
{
        ls_buf_put_span(ctx, bytes);
        return LS_OK;
}

static ls_err
read_file(void *ctx, uint64_t pos, size_t bytes, struct ls_slice **ret_bytes)
{
        const struct ls_buf *file = ctx;

        *ret_bytes = ls_slice_copy(ls_span_of(file->ptr + pos, bytes)); /* as a store would */
        return LS_OK;
}

/* Fills one row group from `*offset` on; gives the record bytes. */
static uint64_t
fill(struct bench *b, struct ls_columns *c, size_t record_bytes, uint64_t *offset)
{
        uint64_t bytes = 0;
        char key[24];

        while (bytes < BENCH_GROUP_BYTES && (*offset + 1) * record_bytes <= b->values_bytes) {
                int n = snprintf(key, sizeof key, "user-%llu",
                                 (unsigned long long)(next_random() % 100000));

                ls_vec_row_ref(&c->vecs[0],
                               ls_span_of(b->values + *offset * record_bytes, record_bytes));
                ls_vec_row_i32(&c->vecs[1], 3);
                ls_vec_row_i64(&c->vecs[2], (int64_t)*offset);
                ls_vec_row_i64(&c->vecs[3], 1700000000000000 + (int64_t)(*offset / 20) * 1000);
                ls_vec_row_copy(&c->vecs[4], ls_span_of(key, (size_t)n));
                ls_vec_slot(&c->vecs[5], 0, 0);
                ls_vec_slot(&c->vecs[6], 0, 0);
                bytes += record_bytes + (uint64_t)n;
                (*offset)++;
        }
        return bytes;
}

/* Processor time, so that other programs on the machine disturb less. */
static double
seconds_since(clock_t start)
{
        return (double)(clock() - start) / CLOCKS_PER_SEC;
}

static uint64_t
bench_write(struct bench *b, size_t record_bytes, double *ret_fill, double *ret_encode)
{
        struct ls_parquet_column_options columns[7] = {
                [0] = { .no_dictionary = true, .no_bounds = true },
        };
        struct ls_parquet_writer_options o = { .codec = LS_PARQUET_ZSTD,
                                               .level = b->level,
                                               .columns = columns };
        struct ls_parquet_writer *w;
        struct ls_columns c;
        uint64_t offset = 0, total = 0, n;
        clock_t start;
        ls_err e;

        ls_buf_clear(&b->file);
        *ret_fill = *ret_encode = 0;
        ls_columns_init(&c, &b->schema);
        e = ls_parquet_writer_new(&b->schema, &o, (struct ls_parquet_sink){ append, &b->file }, &w);
        for (;;) {
                start = clock();
                n = fill(b, &c, record_bytes, &offset);
                *ret_fill += seconds_since(start);
                start = clock();
                if (n == 0 || e != LS_OK)
                        break;
                e = ls_parquet_writer_row_group(w, &c);
                *ret_encode += seconds_since(start);
                ls_columns_clear(&c);
                total += n;
        }
        if (e != LS_OK || ls_parquet_writer_finish(w) != LS_OK)
                abort();
        ls_parquet_writer_free(w);
        ls_columns_done(&c);
        return total;
}

/* Reads all columns of all rows and touches each record. */
static double
bench_read(struct bench *b)
{
        struct ls_parquet_source source = { read_file, &b->file, b->file.len };
        struct ls_parquet_file *f;
        struct ls_parquet_scan *s;
        const struct ls_vec *vecs;
        uint64_t sum = 0;
        clock_t start = clock();
        size_t n;

        if (ls_parquet_file_open(&source, NULL, NULL, &f) != LS_OK)
                abort();
        for (uint32_t g = 0; g < ls_parquet_file_row_groups(f); g++) {
                if (ls_parquet_scan_open(f, g, 0, UINT64_MAX, NULL, 0, &s) != LS_OK)
                        abort();
                while (ls_parquet_scan_next(s, 4096, &vecs, &n) == LS_OK) {
                        for (size_t i = 0; i < n; i++)
                                sum += vecs[0].span[i].len + (uint64_t)vecs[2].i64[i];
                }
                ls_parquet_scan_close(s);
        }
        ls_parquet_file_close(f);
        if (sum == 0) /* uses it, so that the walk is not left out */
                abort();
        return seconds_since(start);
}

int
main(int argc, char **argv)
{
        static const size_t sizes[] = { 100, 300, 1024, 10240 };
        struct bench b = { .level = argc > 2 ? atoi(argv[2]) : 0 };

        b.values_bytes = (size_t)(argc > 1 ? atoi(argv[1]) : 128) << 20;
        make_values(&b);
        make_schema(&b.schema);
        ls_buf_init(&b.file, SIZE_MAX / 2);
        printf("%8s %12s %12s %12s %8s\n", "bytes", "fill+write", "write MB/s", "read MB/s",
               "share");
        for (size_t i = 0; i < LS_COUNT(sizes); i++) {
                double both = 1e9, encode = 1e9, read = 1e9, f, e, r;
                uint64_t total = 0;

                for (int round = 0; round < BENCH_ROUNDS; round++) {
                        total = bench_write(&b, sizes[i], &f, &e);
                        r = bench_read(&b);
                        both = LS_MIN(both, f + e);
                        encode = LS_MIN(encode, e);
                        read = LS_MIN(read, r);
                }
                printf("%8zu %12.0f %12.0f %12.0f %8.3f\n", sizes[i], (double)total / both / 1e6,
                       (double)total / encode / 1e6, (double)total / read / 1e6,
                       (double)b.file.len / (double)total);
        }
        ls_buf_done(&b.file);
        ls_schema_done(&b.schema);
        free(b.values);
        return 0;
}

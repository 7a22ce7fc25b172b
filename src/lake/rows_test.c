/* lake/rows_test.c - proves: batches that became rows come back as batches with the same records,
 * byte for byte, null and empty told apart, gaps and timestamps kept; from any offset, in any
 * budget, with any codec, and again when read on; sums, runs and bounds in the result are those of
 * the records; times are found; files copied into another keep all; damage and lies end in
 * LS_EBROKEN. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>

#include "base/log.h"
#include "formats/batch/batch.h"
#include "lake/rows.h"
#include "lake/rows_int.h"

static uint64_t seed = 88172645463325252ULL;

static uint64_t
next_random(void)
{
        seed ^= seed << 13;
        seed ^= seed >> 7;
        return seed ^= seed << 17;
}

/* --- records by formula ----------------------------------------------------------------------- */

struct made {
        struct ls_record record;
        struct ls_buf headers;
        uint8_t value[3000];
        char key[32];
};

/* The record at (partition, offset): the same each time it is asked. */
static void
make_record(struct made *m, int32_t partition, int64_t offset)
{
        uint64_t x = ((uint64_t)offset * 2654435761u) ^ (uint64_t)partition;
        size_t len = offset % 97 == 5 ? 2900 : x % 120;

        ls_buf_clear(&m->headers);
        m->record = (struct ls_record){ .offset = offset };
        m->record.timestamp =
                offset % 50 == 7 ? -1 : 1700000000000 + offset * 3 - (int64_t)(x % 100);
        for (size_t i = 0; i < LS_MAX(len, (size_t)16); i++)
                m->value[i] = (uint8_t)(x >> (i % 7) * 8);
        if (offset % 11 != 3)
                m->record.value = ls_span_of(m->value, offset % 13 == 0 ? 0 : len);
        snprintf(m->key, sizeof m->key, "key-%d-%d", (int)partition, (int)(offset % 40));
        if (offset % 5 != 2)
                m->record.key = ls_span_of(m->key, offset % 17 == 0 ? 0 : strlen(m->key));
        if (offset % 6 == 0) {
                ls_record_header_put(&m->headers, LS_STR("trace"), ls_span_of(m->value, x % 9));
                ls_record_header_put(&m->headers, LS_STR("trace"), LS_SPAN_NULL);
                ls_record_header_put(&m->headers, LS_STR(""), ls_span_of("", 0));
                ls_record_header_put(&m->headers, LS_STR("\xff\xfe"), ls_span_of("bad", 3));
                ls_record_header_put(&m->headers, LS_STR(ROWS_ESCAPE "00"), ls_span_of("trap", 4));
                m->record.header_count = 5;
        }
        m->record.headers = m->headers.ptr ? ls_buf_span(&m->headers) : ls_span_of("", 0);
}

static void
check_record(struct made *m, int32_t partition, const struct ls_record *got)
{
        make_record(m, partition, got->offset);
        assert_int_equal(got->timestamp, m->record.timestamp);
        assert_true(ls_span_eq(got->value, m->record.value));
        assert_true(ls_span_eq(got->key, m->record.key));
        assert_int_equal(got->header_count, m->record.header_count);
        assert_int_equal(got->headers.len, m->record.headers.len);
        assert_memory_equal(got->headers.ptr, m->record.headers.ptr, got->headers.len);
}

struct part {
        int32_t partition;
        int64_t base, end;
        int step; /* offsets base, base + step, ... */
        bool log_append_time;
};

/* --- a file in memory ------------------------------------------------------------------------- */

struct file {
        struct ls_store *store;
        struct ls_rows_writer *writer;
        const struct ls_rows_file *info;
        struct ls_meta_extent extents[8];
        size_t extent_count;
};

static void
add_part(struct file *f, const struct part *p, enum ls_codec codec)
{
        struct ls_batch_build cfg = { .codec = codec, .level = LS_LEVEL_DEFAULT, .count_max = 50 };
        struct ls_batch_builder b;
        struct made *m = ls_calloc(1, sizeof *m);
        struct ls_buf out;
        ls_span rest, batch;
        struct ls_batch_header h;

        ls_buf_init(&m->headers, 10000);
        ls_buf_init(&out, 1 << 30);
        ls_batch_builder_init(&b, &cfg);
        ls_batch_builder_begin(&b, &out, -1);
        for (int64_t offset = p->base; offset < p->end; offset += p->step) {
                make_record(m, p->partition, offset);
                if (ls_batch_builder_add(&b, &m->record) == LS_OK)
                        continue;
                assert_int_equal(ls_batch_builder_end(&b, -1, NULL), LS_OK);
                ls_batch_builder_begin(&b, &out, -1);
                assert_int_equal(ls_batch_builder_add(&b, &m->record), LS_OK);
        }
        assert_int_equal(ls_batch_builder_end(&b, -1, NULL), LS_OK);
        ls_batch_builder_done(&b);
        rest = ls_buf_span(&out);
        while (ls_batch_next(&rest, &batch, &h) == LS_OK)
                assert_int_equal(ls_rows_writer_add(f->writer, p->partition, batch, p->base, p->end,
                                                    batch.len, p->log_append_time, NULL, NULL),
                                 LS_OK);
        ls_buf_done(&out);
        ls_buf_done(&m->headers);
        ls_free(m);
}

static void
set_extents(struct file *f)
{
        f->extent_count = f->info->run_count;
        assert_true(f->extent_count <= LS_COUNT(f->extents));
        for (size_t i = 0; i < f->extent_count; i++) {
                const struct ls_rows_run *r = &f->info->runs[i];

                f->extents[i] = (struct ls_meta_extent){
                        .partition = r->partition,
                        .kind = LS_META_EXTENT_PARQUET,
                        .base_offset = r->base_offset,
                        .end_offset = r->end_offset,
                        .first_row = r->first_row,
                        .rows = r->rows,
                        .min_timestamp = r->min_timestamp,
                        .max_timestamp = r->max_timestamp,
                        .hash = r->hash,
                        .log_bytes = r->log_bytes,
                        .flags = r->log_append_time ? LS_META_BATCH_LOG_APPEND_TIME : 0,
                };
        }
}

static void
make_writer(struct file *f, const char *key)
{
        struct ls_rows_writer_options o = {
                .store = f->store, .key = key, .stream_id = 7, .row_group_bytes = 40000
        };

        assert_int_equal(ls_rows_writer_new(&o, &f->writer), LS_OK);
}

static void
make_file(struct file *f, const struct part *parts, size_t count)
{
        *f = (struct file){ .store = ls_store_mem_new() };
        make_writer(f, "a.parquet");
        for (size_t i = 0; i < count; i++)
                add_part(f, &parts[i], (enum ls_codec)(i % LS_CODEC_COUNT));
        assert_int_equal(ls_rows_writer_finish(f->writer, &f->info), LS_OK);
        set_extents(f);
}

static void
free_file(struct file *f)
{
        ls_rows_writer_free(f->writer);
        ls_store_close(f->store);
}

static struct ls_rows_reader *
open_file(struct file *f)
{
        struct ls_rows_reader *r = NULL;

        assert_int_equal(ls_rows_reader_open(f->store, "a.parquet", f->info->bytes, &r), LS_OK);
        return r;
}

static const struct part three_parts[] = {
        { 0, 0, 1500, 1, false },
        { 2, 1000, 1400, 1, false },
        { 2, 1400, 9000, 7, true }, /* log append time; offsets with holes */
        { 5, 5000000000, 5000000900, 3, false },
};

static void
check_same_runs(const struct ls_rows_run *a, const struct ls_rows_run *b, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                assert_int_equal(a[i].partition, b[i].partition);
                assert_int_equal(a[i].first_row, b[i].first_row);
                assert_int_equal(a[i].rows, b[i].rows);
                assert_int_equal(a[i].base_offset, b[i].base_offset);
                assert_int_equal(a[i].end_offset, b[i].end_offset);
                assert_int_equal(a[i].min_timestamp, b[i].min_timestamp);
                assert_int_equal(a[i].max_timestamp, b[i].max_timestamp);
                assert_true(a[i].hash == b[i].hash);
                assert_true(a[i].log_bytes == b[i].log_bytes);
                assert_int_equal(a[i].log_append_time, b[i].log_append_time);
        }
}

static void
test_result(void **state)
{
        struct made *m = ls_calloc(1, sizeof *m);
        struct file f;
        struct ls_rows_reader *r;
        const struct ls_rows_run *runs;
        size_t count;

        ls_buf_init(&m->headers, 10000);
        make_file(&f, three_parts, 4);
        assert_int_equal(f.info->run_count, 4);
        assert_int_equal(f.info->rows, 1500 + 400 + 1086 + 300);
        assert_true(f.info->split_count > 3);
        for (size_t i = 0; i < 4; i++) {
                const struct part *p = &three_parts[i];
                const struct ls_rows_run *run = &f.info->runs[i];
                uint64_t hash = 0;
                int64_t rows = 0, max = INT64_MIN;

                for (int64_t offset = p->base; offset < p->end; offset += p->step) {
                        make_record(m, p->partition, offset);
                        hash += ls_record_hash(&m->record) * (2 * (uint64_t)offset + 1);
                        max = LS_MAX(max, m->record.timestamp);
                        rows++;
                }
                assert_int_equal(run->partition, p->partition);
                assert_int_equal(run->rows, rows);
                assert_int_equal(run->base_offset, p->base);
                assert_true(run->end_offset <= p->end && run->end_offset > p->end - p->step);
                assert_true(run->hash == hash);
                assert_int_equal(run->min_timestamp, -1);
                assert_int_equal(run->max_timestamp, max);
                assert_int_equal(run->log_append_time, p->log_append_time);
                assert_true(run->log_bytes > 61);
        }
        assert_int_equal(f.info->column_count, 7);
        assert_int_equal(f.info->columns[2].field_id, LS_ROWS_FIELD_OFFSET);
        assert_int_equal(ls_get_le64(f.info->columns[2].max.ptr), 5000000897);
        assert_int_equal(ls_get_le64(f.info->columns[3].min.ptr), -1000);
        assert_int_equal(f.info->columns[0].values, f.info->rows);
        assert_null(f.info->columns[0].min.ptr);
        r = open_file(&f);
        assert_int_equal(ls_rows_runs(r, &runs, &count), LS_OK);
        assert_int_equal(count, 4);
        check_same_runs(runs, f.info->runs, count);
        ls_rows_reader_close(r);
        free_file(&f);
        ls_buf_done(&m->headers);
        ls_free(m);
}

/* Checks the records of batches against the formula; gives the offset after the last batch. */
static int64_t
check_batches(struct made *m, ls_span bytes, const struct part *p, int64_t from, int64_t *records)
{
        struct ls_batch_iter it;
        struct ls_batch_header h;
        int64_t next = from;
        ls_span batch;

        ls_batch_iter_init(&it, 0);
        while (ls_batch_next(&bytes, &batch, &h) == LS_OK) {
                struct ls_record record;
                ls_err e;

                assert_true(h.base_offset >= next);
                assert_int_equal((h.attributes & LS_BATCH_LOG_APPEND_TIME) != 0,
                                 p->log_append_time);
                assert_int_equal(h.leader_epoch, 4);
                assert_int_equal(h.producer_id, -1);
                assert_int_equal(ls_batch_iter_open(&it, batch, true), LS_OK);
                while ((e = ls_batch_iter_next(&it, &record)) == LS_OK) {
                        assert_true(record.offset >= next);
                        /* no record is left out */
                        assert_true(record.offset - next < p->step ||
                                    record.offset == from + (p->step - from % p->step) % p->step);
                        assert_int_equal((record.offset - p->base) % p->step, 0);
                        check_record(m, p->partition, &record);
                        next = record.offset + 1;
                        (*records)++;
                }
                assert_int_equal(e, LS_END);
                next = ls_batch_last_offset(&h) + 1;
        }
        assert_int_equal(bytes.len, 0);
        ls_batch_iter_done(&it);
        return next;
}

/* Reads from `from` to the end, in calls of a budget; all records must be there once. */
static void
read_from(struct ls_rows_reader *r, const struct ls_meta_extent *x, const struct part *p,
          int64_t from, const struct ls_rows_batches *how)
{
        struct made *m = ls_calloc(1, sizeof *m);
        int64_t next = from, records = 0, want = 0, calls = 0;
        struct ls_buf out;

        ls_buf_init(&m->headers, 10000);
        ls_buf_init(&out, 1 << 30);
        while (next < x->end_offset) {
                int64_t before = next;

                ls_buf_clear(&out);
                ls_buf_put(&out, "prefix", 6);
                assert_int_equal(ls_rows_read(r, x, next, how, &out, &next), LS_OK);
                assert_true(next > before);
                assert_memory_equal(out.ptr, "prefix", 6);
                assert_int_equal(
                        check_batches(m, ls_span_of(out.ptr + 6, out.len - 6), p, before, &records),
                        next);
                calls++;
        }
        assert_int_equal(next, x->end_offset);
        for (int64_t offset = p->base; offset < x->end_offset; offset += p->step)
                want += offset >= from;
        assert_int_equal(records, want);
        ls_buf_done(&out);
        ls_buf_done(&m->headers);
        ls_free(m);
}

static void
test_read_everything_from_everywhere(void **state)
{
        static const size_t budgets[] = { 1, 5000, 70000, 100000000 };
        struct file f;
        struct ls_rows_reader *r;

        make_file(&f, three_parts, 4);
        r = open_file(&f);
        for (size_t i = 0; i < f.extent_count; i++) {
                for (size_t b = 0; b < LS_COUNT(budgets); b++) {
                        struct part p = three_parts[i];
                        int64_t span = f.extents[i].end_offset - p.base;
                        struct ls_rows_batches how = { .codec = (int)((i + b) % LS_CODEC_COUNT),
                                                       .leader_epoch = 4,
                                                       .bytes_max = budgets[b],
                                                       .batch_bytes = 20000,
                                                       .log_append_time = false };

                        p.log_append_time = false; /* timestamps of ours differ within a batch */
                        read_from(r, &f.extents[i], &p, p.base, &how);
                        for (int k = 0; k < 6; k++)
                                read_from(r, &f.extents[i], &p,
                                          p.base + (int64_t)(next_random() % (uint64_t)span), &how);
                        read_from(r, &f.extents[i], &p, f.extents[i].end_offset - 1, &how);
                }
        }
        ls_rows_reader_close(r);
        free_file(&f);
}

/* An extent whose end lies far behind its last row: the hole is covered, also by several batches.
 * */
static void
test_hole_at_the_end(void **state)
{
        struct part p = { 1, 10, 40, 1, false };
        struct ls_rows_batches how = { .leader_epoch = 4, .bytes_max = 1 << 20 };
        struct file f;
        struct ls_rows_reader *r;
        struct ls_buf out;
        struct ls_batch_header h;
        ls_span rest, batch;
        int64_t next;
        int batches = 0;

        make_file(&f, &p, 1);
        f.extents[0].end_offset = 9000000000;
        r = open_file(&f);
        ls_buf_init(&out, 1 << 20);
        assert_int_equal(ls_rows_read(r, &f.extents[0], 20, &how, &out, &next), LS_OK);
        assert_int_equal(next, 9000000000);
        rest = ls_buf_span(&out);
        next = 20;
        while (ls_batch_next(&rest, &batch, &h) == LS_OK) {
                assert_int_equal(h.base_offset, next);
                next = ls_batch_last_offset(&h) + 1;
                batches++;
        }
        assert_int_equal(next, 9000000000);
        assert_true(batches > 4);
        /* and from inside of the hole: an empty batch */
        ls_buf_clear(&out);
        f.extents[0].end_offset = 100;
        assert_int_equal(ls_rows_read(r, &f.extents[0], 60, &how, &out, &next), LS_OK);
        assert_int_equal(next, 100);
        assert_int_equal(ls_batch_peek(ls_buf_span(&out), &h), LS_OK);
        assert_int_equal(h.count, 0);
        assert_int_equal(h.base_offset, 60);
        assert_int_equal(ls_batch_last_offset(&h), 99);
        ls_buf_done(&out);
        ls_rows_reader_close(r);
        free_file(&f);
}

static void
test_log_append_time(void **state)
{
        struct ls_batch_build cfg = { .codec = LS_CODEC_NONE, .log_append_time = true };
        struct ls_rows_batches how = { .bytes_max = 1 << 20, .log_append_time = true };
        struct file f = { .store = ls_store_mem_new() };
        struct ls_batch_builder b;
        struct ls_rows_reader *r;
        struct ls_batch_header h;
        struct ls_buf out;
        int64_t next;

        make_writer(&f, "a.parquet");
        ls_buf_init(&out, 1 << 20);
        ls_batch_builder_init(&b, &cfg);
        for (int64_t k = 0; k < 3; k++) {
                ls_buf_clear(&out);
                ls_batch_builder_begin(&b, &out, -1);
                for (int64_t i = 0; i < 4; i++) {
                        struct ls_record record = { .offset = k * 4 + i,
                                                    .timestamp = 1000 + k,
                                                    .headers = ls_span_of("", 0) };

                        assert_int_equal(ls_batch_builder_add(&b, &record), LS_OK);
                }
                assert_int_equal(ls_batch_builder_end(&b, -1, NULL), LS_OK);
                assert_int_equal(ls_rows_writer_add(f.writer, 0, ls_buf_span(&out), 0, 100, 10,
                                                    true, NULL, NULL),
                                 LS_OK);
        }
        ls_batch_builder_done(&b);
        assert_int_equal(ls_rows_writer_finish(f.writer, &f.info), LS_OK);
        set_extents(&f);
        assert_int_equal(f.extent_count, 1);
        assert_int_equal(f.extents[0].log_bytes, 30);
        r = open_file(&f);
        ls_buf_clear(&out);
        assert_int_equal(ls_rows_read(r, &f.extents[0], 0, &how, &out, &next), LS_OK);
        assert_int_equal(next, 12);
        ls_span rest = ls_buf_span(&out), batch;
        for (int64_t k = 0; k < 3; k++) { /* one time a batch */
                assert_int_equal(ls_batch_next(&rest, &batch, &h), LS_OK);
                assert_int_equal(h.base_offset, k * 4);
                assert_int_equal(h.count, 4);
                assert_int_equal(h.max_timestamp, 1000 + k);
                assert_true((h.attributes & LS_BATCH_LOG_APPEND_TIME) != 0);
        }
        assert_int_equal(rest.len, 0);
        ls_rows_reader_close(r);
        ls_buf_done(&out);
        free_file(&f);
}

static bool
take_even(void *ctx, const struct ls_record *record)
{
        return record->offset % 2 == 0;
}

static void
test_only_what_is_asked(void **state)
{
        struct part p = { 0, 0, 100, 1, false };
        struct ls_batch_build cfg = { .codec = LS_CODEC_LZ4, .level = LS_LEVEL_DEFAULT };
        struct file f = { .store = ls_store_mem_new() };
        struct made *m = ls_calloc(1, sizeof *m);
        struct ls_batch_builder b;
        struct ls_buf out;

        ls_buf_init(&m->headers, 10000);
        ls_buf_init(&out, 1 << 20);
        ls_batch_builder_init(&b, &cfg);
        ls_batch_builder_begin(&b, &out, -1);
        for (int64_t i = p.base; i < p.end; i++) {
                make_record(m, 0, i);
                assert_int_equal(ls_batch_builder_add(&b, &m->record), LS_OK);
        }
        assert_int_equal(ls_batch_builder_end(&b, -1, NULL), LS_OK);
        make_writer(&f, "a.parquet");
        assert_int_equal(ls_rows_writer_add(f.writer, 0, ls_buf_span(&out), 30, 60, 5, false,
                                            take_even, NULL),
                         LS_OK);
        out.ptr[out.len - 3] ^= 0xff; /* damaged records are not taken for good */
        assert_int_equal(ls_rows_writer_add(f.writer, 0, ls_span_of(out.ptr, out.len - 1), 60, 90,
                                            5, false, NULL, NULL),
                         LS_CORRUPT);
        assert_int_equal(ls_rows_writer_finish(f.writer, &f.info), LS_OK);
        assert_int_equal(f.info->runs[0].rows, 15);
        assert_int_equal(f.info->runs[0].base_offset, 30);
        assert_int_equal(f.info->runs[0].end_offset, 59);
        assert_int_equal(f.info->runs[0].log_bytes, 5);
        ls_batch_builder_done(&b);
        ls_buf_done(&out);
        ls_buf_done(&m->headers);
        ls_free(m);
        free_file(&f);
}

/* --- times ------------------------------------------------------------------------------------ */

static void
test_times(void **state)
{
        struct made *m = ls_calloc(1, sizeof *m);
        struct file f;
        struct ls_rows_reader *r;

        ls_buf_init(&m->headers, 10000);
        make_file(&f, three_parts, 4);
        r = open_file(&f);
        for (int round = 0; round < 400; round++) {
                size_t i = next_random() % 4;
                const struct part *p = &three_parts[i];
                const struct ls_meta_extent *x = &f.extents[i];
                int64_t from = p->base + (int64_t)(next_random() % (uint64_t)(p->end - p->base));
                int64_t t = round % 10 == 0 ? -1 : 0, offset, timestamp;
                int64_t first = -1, greatest = INT64_MIN, greatest_at = -1;

                from = round % 3 == 0 ? p->base : from;
                make_record(m, p->partition,
                            p->base + (int64_t)(next_random() % (uint64_t)(p->end - p->base)));
                t = t < 0 ? INT64_MAX : m->record.timestamp + (int64_t)(next_random() % 3) - 1;
                for (int64_t o = p->base; o < p->end; o += p->step) {
                        make_record(m, p->partition, o);
                        if (o < from)
                                continue;
                        if (first < 0 && m->record.timestamp >= t)
                                first = o;
                        if (m->record.timestamp > greatest) {
                                greatest = m->record.timestamp;
                                greatest_at = o;
                        }
                }
                if (first < 0) {
                        assert_int_equal(ls_rows_find_time(r, x, from, t, &offset, &timestamp),
                                         LS_END);
                } else {
                        assert_int_equal(ls_rows_find_time(r, x, from, t, &offset, &timestamp),
                                         LS_OK);
                        assert_int_equal(offset, first);
                        assert_true(timestamp >= t);
                }
                if (greatest_at < 0) {
                        assert_int_equal(ls_rows_find_max_time(r, x, from, &offset, &timestamp),
                                         LS_END);
                        continue;
                }
                assert_int_equal(ls_rows_find_max_time(r, x, from, &offset, &timestamp), LS_OK);
                assert_int_equal(offset, greatest_at);
                assert_int_equal(timestamp, greatest);
        }
        ls_rows_reader_close(r);
        free_file(&f);
        ls_buf_done(&m->headers);
        ls_free(m);
}

/* --- verify, copy ----------------------------------------------------------------------------- */

static void
test_verify_and_copy(void **state)
{
        struct file f, g = { 0 };
        struct ls_rows_reader *r, *s = NULL;
        int64_t rows;
        uint64_t hash;

        make_file(&f, three_parts, 4);
        r = open_file(&f);
        g.store = f.store;
        make_writer(&g, "b.parquet");
        for (size_t i = 0; i < f.extent_count; i++) {
                assert_int_equal(ls_rows_verify(r, &f.extents[i], &rows, &hash), LS_OK);
                assert_int_equal(rows, f.extents[i].rows);
                assert_true(hash == f.extents[i].hash);
                assert_int_equal(ls_rows_copy(r, &f.extents[i], g.writer), LS_OK);
        }
        assert_int_equal(ls_rows_writer_finish(g.writer, &g.info), LS_OK);
        assert_int_equal(g.info->run_count, f.info->run_count);
        check_same_runs(g.info->runs, f.info->runs, 4);
        set_extents(&g);
        assert_int_equal(ls_rows_reader_open(g.store, "b.parquet", g.info->bytes, &s), LS_OK);
        assert_int_equal(ls_rows_verify(s, &g.extents[2], &rows, &hash), LS_OK);
        assert_true(hash == f.extents[2].hash);
        ls_rows_reader_close(s);
        /* a sum that is not the extent's */
        f.extents[1].hash++;
        ls_rows_writer_free(g.writer);
        make_writer(&g, "c.parquet");
        assert_int_equal(ls_rows_copy(r, &f.extents[1], g.writer), LS_EBROKEN);
        ls_rows_writer_free(g.writer);
        ls_rows_reader_close(r);
        free_file(&f);
}

/* --- refusals --------------------------------------------------------------------------------- */

static ls_err
read_whole(struct ls_store *store, const char *key, uint64_t bytes, const struct file *f)
{
        struct ls_rows_batches how = { .bytes_max = 1 << 30 };
        struct ls_rows_reader *r = NULL;
        struct ls_buf out;
        int64_t next;
        ls_err e = ls_rows_reader_open(store, key, bytes, &r);

        ls_buf_init(&out, 1 << 30);
        for (size_t i = 0; e == LS_OK && i < f->extent_count; i++) {
                next = f->extents[i].base_offset;
                while (e == LS_OK && next < f->extents[i].end_offset)
                        e = ls_rows_read(r, &f->extents[i], next, &how, &out, &next);
        }
        ls_buf_done(&out);
        ls_rows_reader_close(r);
        return e;
}

static void
test_damage(void **state)
{
        struct file f;
        struct ls_slice *whole = NULL;
        uint8_t *copy;
        unsigned refused = 0, tries = 0;

        make_file(&f, three_parts, 2);
        assert_int_equal(ls_store_get(f.store, "a.parquet", 0, 0, &whole), LS_OK);
        assert_int_equal(whole->len, f.info->bytes);
        assert_int_equal(read_whole(f.store, "a.parquet", f.info->bytes, &f), LS_OK);
        copy = ls_malloc(whole->len);
        for (size_t at = 0; at < whole->len; at += 1 + whole->len / 500) {
                ls_err e;

                memcpy(copy, whole->ptr, whole->len);
                copy[at] ^= (uint8_t)(1u << next_random() % 8);
                assert_int_equal(ls_store_put(f.store, "d", ls_span_of(copy, whole->len)), LS_OK);
                e = read_whole(f.store, "d", whole->len, &f);
                assert_true(e == LS_OK || e == LS_EBROKEN);
                tries++;
                refused += e == LS_EBROKEN;
        }
        assert_true(tries > 300 && refused * 100 > tries * 60);
        assert_int_equal(ls_store_put(f.store, "d", ls_span_of(copy, whole->len - 100)), LS_OK);
        assert_int_equal(read_whole(f.store, "d", whole->len, &f), LS_EBROKEN);
        assert_int_equal(read_whole(f.store, "d", whole->len - 100, &f), LS_EBROKEN);
        assert_int_equal(read_whole(f.store, "nothing", 5000, &f), LS_ABSENT);
        ls_free(copy);
        ls_slice_unref(whole);
        free_file(&f);
}

/* Metadata that points to rows of another partition, or past the end. */
static void
test_wrong_extents(void **state)
{
        struct ls_rows_batches how = { .bytes_max = 1 << 20 };
        struct file f;
        struct ls_rows_reader *r;
        struct ls_meta_extent x;
        struct ls_buf out;
        int64_t next, rows;
        uint64_t hash;

        make_file(&f, three_parts, 4);
        r = open_file(&f);
        ls_buf_init(&out, 1 << 20);
        x = f.extents[0];
        x.partition = 1;
        assert_int_equal(ls_rows_read(r, &x, 0, &how, &out, &next), LS_EBROKEN);
        x = f.extents[0];
        x.first_row += 3;
        assert_int_equal(ls_rows_read(r, &x, 0, &how, &out, &next), LS_EBROKEN);
        x = f.extents[3];
        x.rows += 3;
        assert_int_equal(ls_rows_read(r, &x, x.base_offset, &how, &out, &next), LS_EBROKEN);
        assert_int_equal(ls_rows_verify(r, &x, &rows, &hash), LS_EBROKEN);
        assert_int_equal(out.len, 0);
        /* and the reader is still good */
        assert_int_equal(ls_rows_read(r, &f.extents[0], 700, &how, &out, &next), LS_OK);
        ls_buf_done(&out);
        ls_rows_reader_close(r);
        free_file(&f);
}

static void
test_store_failures(void **state)
{
        struct ls_store *store = ls_store_mem_new();
        struct ls_rows_writer_options o = { .store = store, .key = "x" };
        struct ls_rows_writer *w = NULL;
        const struct ls_rows_file *info;
        struct ls_store_info head;

        assert_int_equal(ls_rows_writer_new(&o, &w), LS_OK);
        ls_rows_writer_free(w); /* unfinished: nothing is left */
        assert_int_equal(ls_store_head(store, "x", &head), LS_ABSENT);
        assert_int_equal(ls_store_put(store, "x", ls_span_of("y", 1)), LS_OK);
        assert_int_equal(ls_rows_writer_new(&o, &w), LS_OK);
        assert_int_equal(ls_rows_writer_finish(w, &info), LS_EXISTS);
        ls_rows_writer_free(w);
        o.key = "/bad/";
        assert_int_equal(ls_rows_writer_new(&o, &w), LS_INVALID);
        ls_store_close(store);
}

static void
test_escape(void **state)
{
        struct ls_buf a, b;
        uint8_t raw[40];

        ls_buf_init(&a, 1000);
        ls_buf_init(&b, 1000);
        for (int round = 0; round < 2000; round++) {
                size_t n = next_random() % sizeof raw;

                for (size_t i = 0; i < n; i++)
                        raw[i] = (uint8_t)next_random();
                ls_buf_clear(&a);
                ls_buf_clear(&b);
                rows_escape(ls_span_of(raw, n), &a);
                assert_false(rows_needs_escape(LS_SPAN_NULL));
                assert_true(rows_needs_escape(ls_buf_span(&a))); /* or it could not be told apart */
                assert_true(rows_unescape(ls_buf_span(&a), &b));
                assert_int_equal(b.len, n);
                if (n > 0)
                        assert_memory_equal(b.ptr, raw, n);
        }
        assert_false(rows_unescape(ls_span_of(ROWS_ESCAPE "0", sizeof ROWS_ESCAPE), &b));
        assert_false(rows_unescape(ls_span_of(ROWS_ESCAPE "0g", sizeof ROWS_ESCAPE + 1), &b));
        assert_false(rows_needs_escape(ls_span_of("caf\xc3\xa9", 5)));
        assert_true(rows_needs_escape(ls_span_of("\xed\xa0\x80", 3)));
        ls_buf_done(&a);
        ls_buf_done(&b);
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_result),
                cmocka_unit_test(test_read_everything_from_everywhere),
                cmocka_unit_test(test_hole_at_the_end),
                cmocka_unit_test(test_log_append_time),
                cmocka_unit_test(test_only_what_is_asked),
                cmocka_unit_test(test_times),
                cmocka_unit_test(test_verify_and_copy),
                cmocka_unit_test(test_damage),
                cmocka_unit_test(test_wrong_extents),
                cmocka_unit_test(test_store_failures),
                cmocka_unit_test(test_escape),
        };

        ls_log_setup(LS_LOG_ERROR, NULL, NULL);
        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* fuzz/rows_fuzz.c - any bytes as a table file of a stream: what its footer names as runs is read
 * as batches, searched for times and verified. What comes out are whole batches, offsets rising. */
#include "base/assert.h"
#include "base/log.h"
#include "formats/batch/batch.h"
#include "lake/rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_batches(ls_span bytes, int64_t from, int64_t next)
{
        struct ls_batch_header h;
        ls_span batch;

        while (ls_batch_next(&bytes, &batch, &h) == LS_OK) {
                LS_ASSERT(h.base_offset >= from);
                from = h.base_offset + h.last_offset_delta + 1;
        }
        LS_ASSERT(bytes.len == 0 && from <= next);
}

static void
fuzz_run(struct ls_rows_reader *r, const struct ls_rows_run *run)
{
        struct ls_meta_extent x = { .partition = run->partition,
                                    .kind = LS_META_EXTENT_PARQUET,
                                    .base_offset = run->base_offset,
                                    .end_offset = run->end_offset,
                                    .first_row = run->first_row,
                                    .rows = run->rows };
        struct ls_rows_batches how = { .bytes_max = 10000 };
        int64_t from = x.base_offset, next, offset, time, rows;
        struct ls_buf out;
        uint64_t hash;

        if (x.base_offset < 0)
                return; /* no extent has this */
        ls_buf_init(&out, 1 << 20);
        for (int i = 0; i < 4 && from < x.end_offset; i++, from = next) {
                ls_buf_clear(&out);
                if (ls_rows_read(r, &x, from, &how, &out, &next) != LS_OK)
                        break;
                check_batches(ls_buf_span(&out), from, next);
        }
        ls_buf_done(&out);
        (void)!ls_rows_find_time(r, &x, x.base_offset, run->max_timestamp, &offset, &time);
        (void)!ls_rows_find_max_time(r, &x, x.base_offset, &offset, &time);
        (void)!ls_rows_verify(r, &x, &rows, &hash);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static bool quiet;
        struct ls_store *store = ls_store_mem_new();
        const struct ls_rows_run *runs;
        struct ls_rows_reader *r;
        size_t count;

        if (!quiet)
                ls_log_setup(LS_LOG_ERROR + 1, NULL, NULL);
        quiet = true;
        if (ls_store_put(store, "f", ls_span_of(data, size)) == LS_OK &&
            ls_rows_reader_open(store, "f", size, &r) == LS_OK) {
                if (ls_rows_runs(r, &runs, &count) == LS_OK) {
                        for (size_t i = 0; i < count && i < 4; i++)
                                fuzz_run(r, &runs[i]);
                }
                ls_rows_reader_close(r);
        }
        ls_store_close(store);
        return 0;
}

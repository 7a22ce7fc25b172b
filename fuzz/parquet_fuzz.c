/* fuzz/parquet_fuzz.c - any bytes as a Parquet file: open, all statistics, indexes and filters, all
 * rows of each row group, and a range of them. Limits are small, so that a bomb is refused instead
 * of allocated. */
#include "formats/column/shred.h"
#include "formats/parquet/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
        const uint8_t *data;
        size_t size;
};

static ls_err
input_read(void *ctx, uint64_t pos, size_t bytes, struct ls_slice **ret_bytes)
{
        const struct input *in = ctx;

        *ret_bytes = ls_slice_copy(ls_span_of(in->data + pos, bytes));
        return *ret_bytes ? LS_OK : LS_ELIMIT;
}

static void
fuzz_scan(struct ls_parquet_file *f, uint32_t row_group, uint64_t first, uint64_t rows, size_t step)
{
        struct ls_parquet_scan *s;
        const struct ls_vec *vecs;
        size_t n;

        if (ls_parquet_scan_open(f, row_group, first, rows, NULL, 0, &s) != LS_OK)
                return;
        for (int i = 0; i < 50 && ls_parquet_scan_next(s, step, &vecs, &n) == LS_OK; i++) {
                for (uint32_t leaf = 0; leaf < ls_parquet_file_schema(f)->leaf_count; leaf++)
                        ls_vec_check(&vecs[leaf]);
        }
        ls_parquet_scan_close(s);
}

static void
fuzz_row_group(struct ls_parquet_file *f, uint32_t g)
{
        const struct ls_schema *schema = ls_parquet_file_schema(f);
        struct ls_parquet_row_group info;
        struct ls_parquet_bounds bounds;
        struct ls_parquet_page page;
        bool maybe;

        ls_parquet_file_row_group(f, g, &info);
        for (uint32_t leaf = 0; leaf < schema->leaf_count; leaf++) {
                ls_parquet_file_bounds(f, g, leaf, &bounds);
                if (ls_parquet_file_load_index(f, g, leaf) == LS_OK) {
                        for (uint32_t i = 0; i < ls_parquet_file_pages(f, g, leaf); i++)
                                ls_parquet_file_page(f, g, leaf, i, &page);
                }
                (void)!ls_parquet_file_bloom(f, g, leaf, ls_span_of("value", 5), &maybe);
        }
        fuzz_scan(f, g, 0, UINT64_MAX, 1000);
        fuzz_scan(f, g, info.rows / 2, 10, 3);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct input in = { data, size };
        struct ls_parquet_source source = { input_read, &in, size };
        struct ls_parquet_limits limits = { .metadata_bytes = 1 << 20, .page_bytes = 1 << 18 };
        struct ls_parquet_file *f;
        struct ls_errinfo info;

        if (ls_parquet_file_open(&source, &limits, &info, &f) != LS_OK)
                return 0;
        for (uint32_t g = 0; g < ls_parquet_file_row_groups(f) && g < 4; g++)
                fuzz_row_group(f, g);
        ls_parquet_file_close(f);
        return 0;
}

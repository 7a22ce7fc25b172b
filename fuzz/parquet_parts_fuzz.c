/* fuzz/parquet_parts_fuzz.c - the inner decoders of Parquet, each on bytes of its own: a whole file
 * that is right everywhere else is more than a fuzzer finds. The first byte chooses the decoder,
 * the second a count or width. What decodes and can be written again must decode to the same. */
#include "base/assert.h"
#include "formats/parquet/meta.h"
#include "formats/parquet/rle.h"
#include "formats/parquet/values.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ARENA_BYTES ((size_t)1 << 20)

static void
fuzz_values(ls_span in, unsigned kind, size_t count)
{
        static const enum ls_col_physical types[] = { LS_COL_BOOL,   LS_COL_INT32, LS_COL_INT64,
                                                      LS_COL_FLOAT,  LS_COL_BYTES, LS_COL_FIXED,
                                                      LS_COL_DOUBLE, LS_COL_INT96 };
        static const int encodings[] = { LS_PARQUET_PLAIN,
                                         LS_PARQUET_RLE,
                                         LS_PARQUET_DELTA_BINARY_PACKED,
                                         LS_PARQUET_DELTA_LENGTH_BYTE_ARRAY,
                                         LS_PARQUET_DELTA_BYTE_ARRAY,
                                         LS_PARQUET_BYTE_STREAM_SPLIT };
        struct ls_col_type type = { .physical = types[kind % 8], .fixed_bytes = 5 };
        struct ls_values_get g = { .type = &type,
                                   .value_bytes = ls_col_value_bytes(&type),
                                   .count = count,
                                   .bytes_max = 1 << 20 };
        struct ls_rd r = ls_rd_of(in);

        g.out = ls_malloc((count + 1) * g.value_bytes);
        if (ls_values_get(&r, encodings[kind / 8 % 6], &g) == LS_OK &&
            type.physical == LS_COL_BYTES) {
                const ls_span *spans = g.out;
                volatile uint8_t last = 0;

                for (size_t i = 0; i < count; i++) /* every byte is there */
                        last = spans[i].len > 0 ? spans[i].ptr[spans[i].len - 1] : last;
        }
        ls_slice_unref(g.made);
        ls_free(g.out);
}

static void
fuzz_levels(ls_span in, unsigned width, size_t count)
{
        struct ls_rd r = ls_rd_of(in), again = r;
        uint32_t *numbers = ls_malloc((count + 1) * sizeof *numbers);
        uint8_t *levels = ls_malloc(count + 1);
        uint32_t max = (uint32_t)(((uint64_t)1 << width % 33) - 1);

        if (ls_rle_get_u32(&r, numbers, count, width % 33, max)) {
                uint32_t *other = ls_malloc((count + 1) * sizeof *other);
                struct ls_buf out;

                ls_buf_init(&out, LS_BUF_MAX_DEFAULT);
                ls_rle_put_u32(&out, numbers, count, width % 33);
                r = ls_rd_of(ls_buf_span(&out));
                LS_ASSERT(ls_rle_get_u32(&r, other, count, width % 33, max));
                LS_ASSERT(count == 0 || memcmp(numbers, other, count * sizeof *other) == 0);
                ls_buf_done(&out);
                ls_free(other);
        }
        (void)!ls_rle_get_u8(&again, levels, count, width % 9, (uint8_t)width);
        again = ls_rd_of(in);
        (void)!ls_bitpacked_get_u8(&again, levels, count, width % 9, (uint8_t)width);
        ls_free(levels);
        ls_free(numbers);
}

static void
fuzz_meta(ls_span in, unsigned kind)
{
        struct ls_pq_page_header header;
        struct ls_pq_offset_index offsets;
        struct ls_pq_column_index columns;
        struct ls_errinfo info;
        struct ls_schema schema;
        struct ls_arena arena;
        struct ls_pq_meta meta;
        struct ls_rd r = ls_rd_of(in);
        uint32_t bytes;

        ls_arena_init(&arena, ARENA_BYTES);
        ls_schema_init(&schema);
        switch (kind % 5) {
        case 0: (void)!ls_pq_get_meta(in, &arena, &schema, &meta, &info); break;
        case 1: (void)!ls_pq_get_page_header(&r, &header); break;
        case 2: (void)!ls_pq_get_offset_index(in, &arena, &offsets); break;
        case 3: (void)!ls_pq_get_column_index(in, &arena, &columns); break;
        default: (void)!ls_pq_get_bloom_header(&r, &bytes); break;
        }
        ls_schema_done(&schema);
        ls_arena_done(&arena);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        ls_span in;

        if (size < 2)
                return 0;
        in = ls_span_of(data + 2, size - 2);
        if (data[0] < 96)
                fuzz_values(in, data[0], data[1]);
        else if (data[0] < 160)
                fuzz_levels(in, data[0], data[1]);
        else
                fuzz_meta(in, data[0]);
        return 0;
}

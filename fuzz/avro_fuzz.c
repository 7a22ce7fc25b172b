/* fuzz/avro_fuzz.c - Avro container files, or (input without their magic) a schema, a NUL and the
 * binary of one value: decoding and skipping agree, and what was decoded encodes and decodes again. */
#include <stdint.h>
#include <stdlib.h>

#include "base/assert.h"
#include "formats/avro/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
try_file(ls_span file)
{
        LS_AUTO(ls_avro_reader_close) struct ls_avro_reader *r = NULL;
        struct ls_avro_value v;
        struct ls_arena a;
        uint64_t count;

        if (ls_avro_reader_open(file, &r, NULL) != LS_OK)
                return;
        (void)!ls_avro_reader_count(r, &count);
        ls_arena_init(&a, 16 << 20);
        while (ls_avro_reader_next(r, &a, &v) == LS_OK)
                ls_arena_reset(&a);
        ls_arena_done(&a);
}

static void
try_value(const struct ls_avro_type *t, ls_span bytes)
{
        struct ls_rd rd = ls_rd_of(bytes), skip = rd;
        struct ls_avro_value v, again;
        struct ls_arena a;
        struct ls_buf b;

        ls_arena_init(&a, 64 << 20);
        ls_buf_init(&b, 64 << 20);
        if (ls_avro_decode(t, &rd, &a, &v) == LS_OK) {
                LS_ASSERT(ls_avro_skip(t, &skip) == LS_OK);
                LS_ASSERT(skip.pos == rd.pos);
                if (ls_avro_encode(t, &v, &b) == LS_OK && !ls_buf_failed(&b)) {
                        struct ls_rd second = ls_rd_of(ls_buf_span(&b));
                        ls_err e = ls_avro_decode(t, &second, &a, &again);

                        LS_ASSERT(e == LS_OK || e == LS_TOO_LARGE);
                        LS_ASSERT(e != LS_OK || ls_rd_left(&second) == 0);
                }
        }
        ls_buf_done(&b);
        ls_arena_done(&a);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct ls_avro_schema *s = NULL;
        const uint8_t *end;

        if (size >= 4 && memcmp(data, "Obj\x01", 4) == 0) {
                try_file(ls_span_of(data, size));
                return 0;
        }
        end = size > 0 ? memchr(data, 0, size) : NULL;
        if (end == NULL)
                return 0;
        if (ls_avro_schema_parse(ls_str_make((const char *)data, (size_t)(end - data)), &s, NULL) !=
            LS_OK)
                return 0;
        try_value(ls_avro_schema_root(s), ls_span_of(end + 1, size - (size_t)(end - data) - 1));
        ls_avro_schema_free(s);
        return 0;
}

/* fuzz/iceberg_fuzz.c - Avro input is read as manifest and as manifest list, other input as table
 * metadata and as schema. What is read prints and reads again. */
#include <stdint.h>

#include "base/assert.h"
#include "formats/iceberg/metadata.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every value can be walked: bounds are decoded by the column they name. */
static void
walk_manifest(const struct ls_iceberg_manifest *m)
{
        for (size_t i = 0; i < m->count; i++) {
                const struct ls_iceberg_bounds *b = &m->entries[i].file.lower_bounds;

                for (size_t k = 0; k < b->count; k++) {
                        const struct ls_iceberg_field *f =
                                ls_iceberg_field_by_id(&m->schema, b->items[k].field_id);
                        struct ls_iceberg_value v;
                        struct ls_buf text;

                        if (f == NULL ||
                            ls_iceberg_value_get(&f->type, b->items[k].value, &v) != LS_OK)
                                continue;
                        ls_buf_init(&text, 1 << 20);
                        ls_iceberg_value_json(&f->type, &v, &text);
                        ls_buf_done(&text);
                }
        }
}

static void
try_avro(ls_span file)
{
        const struct ls_iceberg_manifest_file *lines;
        struct ls_iceberg_manifest m;
        struct ls_arena a;
        size_t count;

        ls_arena_init(&a, 16 << 20);
        if (ls_iceberg_manifest_read(file, NULL, &a, &m, NULL) == LS_OK)
                walk_manifest(&m);
        ls_arena_reset(&a);
        (void)!ls_iceberg_list_read(file, &a, &lines, &count, NULL);
        ls_arena_done(&a);
}

static void
try_json(ls_str text)
{
        struct ls_iceberg_metadata m, again;
        struct ls_iceberg_schema s;
        struct ls_arena a;
        struct ls_buf b;

        ls_arena_init(&a, 16 << 20);
        ls_buf_init(&b, 16 << 20);
        if (ls_iceberg_metadata_parse(text, &a, &m, NULL) == LS_OK && m.format_version == 2) {
                ls_iceberg_metadata_print(&m, &b);
                LS_ASSERT(ls_iceberg_metadata_parse(ls_str_make((char *)b.ptr, b.len), &a, &again,
                                                    NULL) == LS_OK);
        }
        ls_buf_clear(&b);
        if (ls_iceberg_schema_parse(text, &a, &s, NULL) == LS_OK) {
                struct ls_iceberg_schema s2;

                ls_iceberg_schema_print(&s, &b);
                LS_ASSERT(ls_iceberg_schema_parse(ls_str_make((char *)b.ptr, b.len), &a, &s2,
                                                  NULL) == LS_OK);
                LS_ASSERT(ls_iceberg_schema_same(&s, &s2));
        }
        ls_buf_done(&b);
        ls_arena_done(&a);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size >= 4 && memcmp(data, "Obj\x01", 4) == 0)
                try_avro(ls_span_of(data, size));
        else if (size > 0)
                try_json(ls_str_make((const char *)data, size));
        return 0;
}

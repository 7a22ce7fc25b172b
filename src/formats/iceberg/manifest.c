/* iceberg/manifest.c - writes and reads manifests. The fields are in fields.c. */
#include "formats/iceberg/manifest.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "formats/iceberg/fields_int.h"
#include "formats/iceberg/json_int.h"
#include "formats/iceberg/limits.h"

/* Lowest and highest value of a partition field over the entries of a manifest. */
struct range {
        bool any, null, nan;
        struct ls_iceberg_value min, max; /* bytes lie in the two buffers */
        struct ls_buf min_bytes, max_bytes;
};

struct ls_iceberg_manifest_writer {
        struct ls_iceberg_manifest_options o;
        struct ls_avro_writer *file;
        struct ls_buf *out;
        size_t start; /* of the file in `out` */
        struct ls_arena arena;
        struct ls_ice_walk walk;
        struct range *ranges;
        struct ls_iceberg_manifest_file line;
        bool unassigned; /* a live entry inherits its sequence number */
};

void
ls_iceberg_data_file_init(struct ls_iceberg_data_file *f)
{
        *f = (struct ls_iceberg_data_file){ .sort_order_id = LS_ICEBERG_NONE,
                                            .first_row_id = LS_ICEBERG_NONE,
                                            .content_offset = LS_ICEBERG_NONE,
                                            .content_bytes = LS_ICEBERG_NONE };
}

/* ---- writer --------------------------------------------------------------------------------- */

static bool
is_deletes(enum ls_iceberg_content content)
{
        return content != LS_ICEBERG_DATA;
}

/* Starts the Avro file with its header. */
static void
write_header(struct ls_iceberg_manifest_writer *w)
{
        struct ls_buf avro, schema, spec, schema_id, spec_id;
        uint8_t sync[16];

        ls_random(sync, sizeof sync);
        ls_buf_init(&avro, LS_BUF_MAX_DEFAULT);
        ls_buf_init(&schema, LS_BUF_MAX_DEFAULT);
        ls_buf_init(&spec, LS_BUF_MAX_DEFAULT);
        ls_buf_init(&schema_id, 32);
        ls_buf_init(&spec_id, 32);
        ls_ice_schema_put(&w->walk, &ls_ice_entry_table, &avro);
        ls_iceberg_schema_print(w->o.schema, &schema);
        ls_iceberg_spec_fields_print(w->o.spec, &spec);
        ls_buf_printf(&schema_id, "%d", w->o.schema->schema_id);
        ls_buf_printf(&spec_id, "%d", w->o.spec->spec_id);
        {
                const char *content = is_deletes(w->o.content) ? "deletes" : "data";
                struct ls_avro_meta meta[] = {
                        { LS_STR("schema"), ls_buf_span(&schema) },
                        { LS_STR("schema-id"), ls_buf_span(&schema_id) },
                        { LS_STR("partition-spec"), ls_buf_span(&spec) },
                        { LS_STR("partition-spec-id"), ls_buf_span(&spec_id) },
                        { LS_STR("format-version"), ls_span_of("2", 1) },
                        { LS_STR("content"), ls_span_of(content, strlen(content)) },
                };

                w->file = ls_avro_writer_new(w->out, ls_str_make((char *)avro.ptr, avro.len),
                                             w->o.codec, sync, meta, LS_COUNT(meta));
        }
        ls_buf_done(&avro);
        ls_buf_done(&schema);
        ls_buf_done(&spec);
        ls_buf_done(&schema_id);
        ls_buf_done(&spec_id);
}

ls_err
ls_iceberg_manifest_new(struct ls_buf *out, const struct ls_iceberg_manifest_options *o,
                        struct ls_iceberg_manifest_writer **ret_writer)
{
        LS_AUTO(ls_iceberg_manifest_free) struct ls_iceberg_manifest_writer *w = NULL;

        if (o->format_version != 2)
                return LS_UNSUPPORTED;
        w = ls_calloc(1, sizeof *w);
        w->o = *o;
        w->out = out;
        w->start = out->len;
        ls_arena_init(&w->arena, LS_ICEBERG_ARENA_BYTES_MAX);
        w->walk.spec = o->spec;
        w->walk.deletes = is_deletes(o->content);
        LS_TRY(ls_iceberg_spec_types(o->spec, o->schema, &w->arena, &w->walk.types));
        w->ranges = ls_calloc(LS_MAX(o->spec->field_count, 1u), sizeof *w->ranges);
        for (uint32_t i = 0; i < o->spec->field_count; i++) {
                ls_buf_init(&w->ranges[i].min_bytes, LS_BUF_MAX_DEFAULT);
                ls_buf_init(&w->ranges[i].max_bytes, LS_BUF_MAX_DEFAULT);
        }
        w->line = (struct ls_iceberg_manifest_file){
                .spec_id = o->spec->spec_id,
                .content = is_deletes(o->content),
                .sequence_number = LS_ICEBERG_NONE,
                .min_sequence_number = LS_ICEBERG_NONE,
                .added_snapshot_id = o->snapshot_id,
                .first_row_id = LS_ICEBERG_NONE,
        };
        write_header(w);
        *ret_writer = LS_STEAL(w);
        return LS_OK;
}

void
ls_iceberg_manifest_free(struct ls_iceberg_manifest_writer *w)
{
        if (w == NULL)
                return;
        for (uint32_t i = 0; w->ranges != NULL && i < w->o.spec->field_count; i++) {
                ls_buf_done(&w->ranges[i].min_bytes);
                ls_buf_done(&w->ranges[i].max_bytes);
        }
        ls_free(w->ranges);
        ls_avro_writer_free(w->file);
        ls_arena_done(&w->arena);
        ls_free(w);
}

static bool
has_bytes(const struct ls_iceberg_type *t)
{
        return t->kind == LS_ICEBERG_STRING || t->kind == LS_ICEBERG_UUID ||
               t->kind == LS_ICEBERG_FIXED || t->kind == LS_ICEBERG_BINARY;
}

static void
range_set(const struct ls_iceberg_type *t, struct ls_iceberg_value *to, struct ls_buf *bytes,
          const struct ls_iceberg_value *v)
{
        *to = *v;
        if (!has_bytes(t))
                return;
        ls_buf_clear(bytes);
        ls_buf_put_span(bytes, v->bytes);
        to->bytes = ls_buf_span(bytes);
        if (to->bytes.ptr == NULL)
                to->bytes = ls_span_of("", 0);
}

static void
range_add(const struct ls_iceberg_type *t, struct range *r, const struct ls_iceberg_value *v)
{
        if (v->null || t->kind == LS_ICEBERG_UNKNOWN) {
                r->null = true;
                return;
        }
        if (ls_iceberg_value_is_nan(t, v)) {
                r->nan = true;
                return;
        }
        if (!r->any || ls_iceberg_value_cmp(t, v, &r->min) < 0)
                range_set(t, &r->min, &r->min_bytes, v);
        if (!r->any || ls_iceberg_value_cmp(t, v, &r->max) > 0)
                range_set(t, &r->max, &r->max_bytes, v);
        r->any = true;
}

static bool
counts_good(const struct ls_iceberg_counts *c)
{
        for (size_t i = 0; i < c->count; i++)
                if (c->items[i].value < 0)
                        return false;
        return true;
}

static bool
entry_good(const struct ls_iceberg_manifest_writer *w, const struct ls_iceberg_entry *e)
{
        const struct ls_iceberg_data_file *f = &e->file;
        bool numbered = e->snapshot_id != LS_ICEBERG_NONE &&
                        e->sequence_number != LS_ICEBERG_NONE &&
                        e->file_sequence_number != LS_ICEBERG_NONE;

        if (e->status < LS_ICEBERG_EXISTING || e->status > LS_ICEBERG_DELETED ||
            (e->status != LS_ICEBERG_ADDED && !numbered))
                return false;
        return (f->content == LS_ICEBERG_DATA) == !w->walk.deletes && f->record_count >= 0 &&
               f->file_bytes >= 0 && counts_good(&f->column_sizes) &&
               counts_good(&f->value_counts) && counts_good(&f->null_counts) &&
               counts_good(&f->nan_counts) &&
               ls_iceberg_utf8_valid(ls_span_of(f->path.ptr, f->path.len));
}

static void
count_entry(struct ls_iceberg_manifest_writer *w, const struct ls_iceberg_entry *e)
{
        struct ls_iceberg_manifest_file *l = &w->line;

        if (e->status == LS_ICEBERG_ADDED) {
                l->added_files++;
                l->added_rows += e->file.record_count;
        } else if (e->status == LS_ICEBERG_EXISTING) {
                l->existing_files++;
                l->existing_rows += e->file.record_count;
        } else {
                l->deleted_files++;
                l->deleted_rows += e->file.record_count;
                return; /* only live entries bound the sequence numbers */
        }
        if (e->sequence_number == LS_ICEBERG_NONE)
                w->unassigned = true;
        else if (l->min_sequence_number == LS_ICEBERG_NONE ||
                 e->sequence_number < l->min_sequence_number)
                l->min_sequence_number = e->sequence_number;
}

ls_err
ls_iceberg_manifest_add(struct ls_iceberg_manifest_writer *w, const struct ls_iceberg_entry *e)
{
        struct ls_buf *out = ls_avro_writer_record(w->file);
        size_t before = out->len;
        ls_err err;

        if (!entry_good(w, e))
                return LS_INVALID;
        err = ls_ice_record_put(&w->walk, &ls_ice_entry_table, e, out);
        if (err != LS_OK) {
                out->len = before;
                return err;
        }
        count_entry(w, e);
        for (uint32_t i = 0; i < w->o.spec->field_count; i++)
                range_add(&w->walk.types[i], &w->ranges[i], &e->file.partition[i]);
        return ls_avro_writer_record_end(w->file);
}

/* The binary form, whole: partition values are not cut. Zeros get the sign that includes both. */
static ls_err
summary_bound(const struct ls_iceberg_type *t, struct ls_iceberg_value v, bool upper,
              struct ls_arena *arena, ls_span *ret)
{
        struct ls_buf b;
        ls_str copy;

        if ((t->kind == LS_ICEBERG_FLOAT || t->kind == LS_ICEBERG_DOUBLE) && v.d == 0)
                v.d = upper ? 0.0 : -0.0;
        ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
        ls_iceberg_value_put(t, &v, &b);
        copy = ls_arena_str(arena, ls_str_make(b.ptr ? (char *)b.ptr : "", b.len));
        ls_buf_done(&b);
        *ret = ls_span_of(copy.ptr, copy.len);
        return copy.ptr != NULL ? LS_OK : LS_TOO_LARGE;
}

static ls_err
make_summaries(struct ls_iceberg_manifest_writer *w, struct ls_arena *arena,
               struct ls_iceberg_manifest_file *line)
{
        uint32_t count = w->o.spec->field_count;
        struct ls_iceberg_summary *s = ls_arena_array(arena, LS_MAX(count, 1u), sizeof *s);

        if (s == NULL)
                return LS_TOO_LARGE;
        for (uint32_t i = 0; i < count; i++) {
                const struct ls_iceberg_type *t = &w->walk.types[i];
                const struct range *r = &w->ranges[i];

                s[i] = (struct ls_iceberg_summary){ .contains_null = r->null,
                                                    .contains_nan = r->nan };
                if (!r->any)
                        continue;
                LS_TRY(summary_bound(t, r->min, false, arena, &s[i].lower));
                LS_TRY(summary_bound(t, r->max, true, arena, &s[i].upper));
        }
        line->summaries = s;
        line->summary_count = count;
        return LS_OK;
}

ls_err
ls_iceberg_manifest_finish(struct ls_iceberg_manifest_writer *w, struct ls_arena *arena,
                           struct ls_iceberg_manifest_file *ret_file)
{
        struct ls_iceberg_manifest_file line = w->line;

        LS_TRY(ls_avro_writer_finish(w->file));
        LS_TRY(make_summaries(w, arena, &line));
        line.bytes = (int64_t)(w->out->len - w->start);
        /* What will be inherited is above all that is known, so it bounds only when alone. */
        LS_ASSERT(line.min_sequence_number != LS_ICEBERG_NONE || w->unassigned ||
                  line.added_files + line.existing_files == 0);
        *ret_file = line;
        return LS_OK;
}

/* ---- reader --------------------------------------------------------------------------------- */

struct manifest_read {
        struct ls_avro_reader *file;
        struct ls_arena *arena;
        struct ls_errinfo *reterr;
        struct ls_iceberg_manifest m;
};

static ls_str
meta_text(const struct ls_avro_reader *r, const char *key)
{
        ls_span s = ls_avro_reader_meta(r, key);

        return ls_str_make((const char *)s.ptr, s.len);
}

/* Absent is `absent`. */
static ls_err
meta_int(struct manifest_read *r, const char *key, int64_t absent, int64_t *ret)
{
        ls_str text = meta_text(r->file, key);

        *ret = absent;
        if (text.ptr == NULL || ls_str_to_i64(text, 0, INT32_MAX, ret))
                return LS_OK;
        return ls_fail(r->reterr, LS_CORRUPT, "manifest header: %s is no number", key);
}

static ls_err
read_spec(struct manifest_read *r)
{
        struct ls_ice_json j = { .arena = r->arena, .reterr = r->reterr };
        json_t *json;
        ls_err e;

        LS_TRY(ls_ice_json_load(meta_text(r->file, "partition-spec"), r->reterr, &json));
        e = ls_ice_spec_fields_read(
                &j, json_is_object(json) ? json_object_get(json, "fields") : json, &r->m.spec);
        json_decref(json);
        return e;
}

static ls_err
read_header(struct manifest_read *r)
{
        ls_str content = meta_text(r->file, "content");
        int64_t version, spec_id, schema_id;

        LS_TRY(meta_int(r, "format-version", 1, &version));
        LS_TRY(meta_int(r, "partition-spec-id", 0, &spec_id));
        if (version < 1 || version > 2)
                return ls_fail(r->reterr, LS_UNSUPPORTED, "manifest of format version %d",
                               (int)version);
        LS_TRY(ls_iceberg_schema_parse(meta_text(r->file, "schema"), r->arena, &r->m.schema,
                                       r->reterr));
        LS_TRY(meta_int(r, "schema-id", r->m.schema.schema_id, &schema_id));
        r->m.schema.schema_id = (int32_t)schema_id;
        LS_TRY(read_spec(r));
        r->m.spec.spec_id = (int32_t)spec_id;
        r->m.format_version = (int)version;
        r->m.content =
                ls_str_is(content, "deletes") ? LS_ICEBERG_POSITION_DELETES : LS_ICEBERG_DATA;
        return LS_OK;
}

static void
inherit(const struct ls_iceberg_manifest_file *line, struct ls_iceberg_entry *e)
{
        bool takes;

        if (line == NULL)
                return;
        /* Only what this manifest's commit added takes its number; in files of version 1 all are
         * of sequence number 0. */
        takes = e->status == LS_ICEBERG_ADDED || line->sequence_number == 0;
        if (e->snapshot_id == LS_ICEBERG_NONE)
                e->snapshot_id = line->added_snapshot_id;
        if (e->sequence_number == LS_ICEBERG_NONE && takes)
                e->sequence_number = line->sequence_number;
        if (e->file_sequence_number == LS_ICEBERG_NONE && takes)
                e->file_sequence_number = line->sequence_number;
}

static ls_err
read_entry(struct manifest_read *r, const struct ls_ice_walk *walk,
           const struct ls_iceberg_manifest_file *line, const struct ls_avro_value *v,
           struct ls_iceberg_entry *e)
{
        *e = (struct ls_iceberg_entry){ .snapshot_id = LS_ICEBERG_NONE,
                                        .sequence_number = LS_ICEBERG_NONE,
                                        .file_sequence_number = LS_ICEBERG_NONE };
        ls_iceberg_data_file_init(&e->file);
        LS_TRY(ls_ice_record_get(walk, &ls_ice_entry_table,
                                 ls_avro_schema_root(ls_avro_reader_schema(r->file)), v, e));
        if (e->status < LS_ICEBERG_EXISTING || e->status > LS_ICEBERG_DELETED ||
            e->file.content < LS_ICEBERG_DATA || e->file.content > LS_ICEBERG_EQUALITY_DELETES ||
            e->file.record_count < 0 || e->file.file_bytes < 0)
                return LS_CORRUPT;
        inherit(line, e);
        return LS_OK;
}

/* Copies what was gathered into the arena and frees it. */
static ls_err
keep_array(struct ls_arena *arena, void *items, size_t count, size_t bytes, ls_err e, void *ret)
{
        void *kept = NULL;

        if (e == LS_END) {
                kept = ls_arena_array(arena, count + 1, bytes);
                e = kept != NULL ? LS_OK : LS_TOO_LARGE;
        }
        if (e == LS_OK && count > 0)
                memcpy(kept, items, count * bytes);
        ls_free(items);
        memcpy(ret, &kept, sizeof kept);
        return e;
}

static ls_err
read_entries(struct manifest_read *r, const struct ls_iceberg_manifest_file *line)
{
        struct ls_ice_walk walk = { .spec = &r->m.spec, .arena = r->arena };
        struct ls_iceberg_entry *entries = NULL, entry;
        size_t count = 0, cap = 0;
        struct ls_arena scratch;
        ls_err e = LS_OK;

        LS_TRY(ls_iceberg_spec_types(&r->m.spec, &r->m.schema, r->arena, &walk.types));
        ls_arena_init(&scratch, LS_ICEBERG_ARENA_BYTES_MAX);
        while (e == LS_OK) {
                struct ls_avro_value v;

                ls_arena_reset(&scratch);
                e = ls_avro_reader_next(r->file, &scratch, &v);
                if (e == LS_OK)
                        e = read_entry(r, &walk, line, &v, &entry);
                if (e == LS_OK)
                        LS_PUSH(entries, count, cap, entry);
        }
        ls_arena_done(&scratch);
        r->m.count = count;
        return keep_array(r->arena, entries, count, sizeof *entries, e, &r->m.entries);
}

static ls_err
words(struct ls_errinfo *reterr, ls_err e, const char *what)
{
        if (e == LS_CORRUPT)
                return ls_fail(reterr, e, "%s is damaged", what);
        if (e == LS_TOO_LARGE)
                return ls_fail(reterr, e, "%s is too large", what);
        return e;
}

ls_err
ls_iceberg_manifest_read(ls_span file, const struct ls_iceberg_manifest_file *line,
                         struct ls_arena *arena, struct ls_iceberg_manifest *ret_manifest,
                         struct ls_errinfo *reterr)
{
        LS_AUTO(ls_avro_reader_close) struct ls_avro_reader *reader = NULL;
        struct manifest_read r = { .arena = arena, .reterr = reterr };

        LS_TRY(ls_avro_reader_open(file, &reader, reterr));
        r.file = reader;
        LS_TRY(read_header(&r));
        LS_TRY(words(reterr, read_entries(&r, line), "manifest"));
        *ret_manifest = r.m;
        return LS_OK;
}

/* ---- manifest lists ------------------------------------------------------------------------- */

static struct ls_avro_writer *
list_header(struct ls_buf *out, const struct ls_iceberg_list_options *o,
            const struct ls_ice_walk *walk)
{
        struct ls_buf avro, id, parent, sequence;
        struct ls_avro_writer *file;
        uint8_t sync[16];

        ls_random(sync, sizeof sync);
        ls_buf_init(&avro, LS_BUF_MAX_DEFAULT);
        ls_buf_init(&id, 32);
        ls_buf_init(&parent, 32);
        ls_buf_init(&sequence, 32);
        ls_ice_schema_put(walk, &ls_ice_line_table, &avro);
        ls_buf_printf(&id, "%lld", (long long)o->snapshot_id);
        if (o->parent_snapshot_id == LS_ICEBERG_NONE)
                ls_buf_put_text(&parent, "null");
        else
                ls_buf_printf(&parent, "%lld", (long long)o->parent_snapshot_id);
        ls_buf_printf(&sequence, "%lld", (long long)o->sequence_number);
        {
                struct ls_avro_meta meta[] = {
                        { LS_STR("snapshot-id"), ls_buf_span(&id) },
                        { LS_STR("parent-snapshot-id"), ls_buf_span(&parent) },
                        { LS_STR("sequence-number"), ls_buf_span(&sequence) },
                        { LS_STR("format-version"), ls_span_of("2", 1) },
                };

                file = ls_avro_writer_new(out, ls_str_make((char *)avro.ptr, avro.len), o->codec,
                                          sync, meta, LS_COUNT(meta));
        }
        ls_buf_done(&avro);
        ls_buf_done(&id);
        ls_buf_done(&parent);
        ls_buf_done(&sequence);
        return file;
}

ls_err
ls_iceberg_list_write(struct ls_buf *out, const struct ls_iceberg_list_options *o,
                      const struct ls_iceberg_manifest_file *lines, size_t count)
{
        LS_AUTO(ls_avro_writer_free) struct ls_avro_writer *file = NULL;
        struct ls_ice_walk walk = { .spec = NULL };

        if (o->format_version != 2)
                return LS_UNSUPPORTED;
        file = list_header(out, o, &walk);
        for (size_t i = 0; i < count; i++) {
                struct ls_iceberg_manifest_file line = lines[i];

                if (line.sequence_number == LS_ICEBERG_NONE)
                        line.sequence_number = o->sequence_number;
                if (line.min_sequence_number == LS_ICEBERG_NONE)
                        line.min_sequence_number = o->sequence_number;
                if (!ls_iceberg_utf8_valid(ls_span_of(line.path.ptr, line.path.len)))
                        return LS_INVALID;
                LS_TRY(ls_ice_record_put(&walk, &ls_ice_line_table, &line,
                                         ls_avro_writer_record(file)));
                LS_TRY(ls_avro_writer_record_end(file));
        }
        return ls_avro_writer_finish(file);
}

ls_err
ls_iceberg_list_read(ls_span file, struct ls_arena *arena,
                     const struct ls_iceberg_manifest_file **ret_lines, size_t *ret_count,
                     struct ls_errinfo *reterr)
{
        LS_AUTO(ls_avro_reader_close) struct ls_avro_reader *reader = NULL;
        struct ls_ice_walk walk = { .arena = arena };
        struct ls_iceberg_manifest_file *lines = NULL;
        size_t count = 0, cap = 0;
        struct ls_arena scratch;
        ls_err e = LS_OK;

        LS_TRY(ls_avro_reader_open(file, &reader, reterr));
        ls_arena_init(&scratch, LS_ICEBERG_ARENA_BYTES_MAX);
        while (e == LS_OK) {
                struct ls_iceberg_manifest_file line = { .first_row_id = LS_ICEBERG_NONE };
                struct ls_avro_value v;

                ls_arena_reset(&scratch);
                e = ls_avro_reader_next(reader, &scratch, &v);
                if (e == LS_OK)
                        e = ls_ice_record_get(&walk, &ls_ice_line_table,
                                              ls_avro_schema_root(ls_avro_reader_schema(reader)),
                                              &v, &line);
                if (e == LS_OK && (line.bytes < 0 || line.content < 0 || line.content > 1))
                        e = LS_CORRUPT;
                if (e == LS_OK)
                        LS_PUSH(lines, count, cap, line);
        }
        ls_arena_done(&scratch);
        LS_TRY(words(reterr, keep_array(arena, lines, count, sizeof *lines, e, ret_lines),
                     "manifest list"));
        *ret_count = count;
        return LS_OK;
}

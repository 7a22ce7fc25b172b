/* lake/split.c - see split.h. */
#include "lake/split.h"

#include "base/assert.h"
#include "base/map.h"
#include "formats/batch/batch.h"
#include "formats/iceberg/value.h"
#include "lake/rows_int.h"
#include "lake/shape.h"

#define SPLIT_ARENA_BYTES_MAX ((size_t)256 << 20)  /* tuples of a commit: keys may be long */
#define SPLIT_GROUP_BYTES     ((uint64_t)16 << 20) /* row group of the first files */
#define SPLIT_GROUP_BYTES_MIN ((uint64_t)1 << 20)
#define SPLIT_SIZE_ROWS       256 /* rows between two looks at a file's size */

struct open_file {
        struct ls_rows_writer *writer; /* the change's */
        size_t index;                  /* in the change's files */
        uint32_t rows;                 /* since its size was looked at */
        bool in_range;
};

struct lake_split {
        struct ls_lake_stream *s;
        struct ls_lake_spec spec;
        struct lake_change *change;
        const struct ls_iceberg_spec *partitioning;
        struct ls_iceberg_type *sources; /* a field each; in `types` */
        const struct ls_iceberg_type **results;
        struct ls_arena types, tuples;
        struct ls_map by_tuple;
        struct open_file **files, **in_range;
        size_t file_count, file_cap, in_range_count, in_range_cap;
        struct ls_iceberg_value *values; /* of the record at hand; in `types` */
        struct ls_buf key, last_key;     /* the tuple at hand, and that of the record before */
        struct open_file *last;
        struct ls_batch_iter it;
        /* the range at hand */
        int32_t partition;
        int64_t base;
        bool log_append_time;
};

/* --- life ------------------------------------------------------------------------------------- */

ls_err
lake_split_new(struct ls_lake_stream *s, const struct ls_lake_spec *spec,
               const struct ls_iceberg_spec *partitioning, struct lake_change *change,
               struct lake_split **ret_split)
{
        struct lake_split *sp = ls_calloc(1, sizeof *sp);

        LS_ASSERT(partitioning->field_count > 0);
        sp->s = s;
        sp->spec = *spec;
        sp->change = change;
        sp->partitioning = partitioning;
        ls_arena_init(&sp->types, (size_t)1 << 20);
        ls_arena_init(&sp->tuples, SPLIT_ARENA_BYTES_MAX);
        ls_map_init(&sp->by_tuple);
        ls_buf_init(&sp->key, LS_BUF_MAX_DEFAULT);
        ls_buf_init(&sp->last_key, LS_BUF_MAX_DEFAULT);
        ls_batch_iter_init(&sp->it, 0);
        sp->sources = ls_arena_array(&sp->types, partitioning->field_count, sizeof *sp->sources);
        sp->values = ls_arena_array(&sp->types, partitioning->field_count, sizeof *sp->values);
        sp->results = ls_arena_array(&sp->types, 1, sizeof *sp->results);
        LS_ASSERT(sp->sources != NULL && sp->values != NULL && sp->results != NULL);
        for (uint32_t i = 0; i < partitioning->field_count; i++)
                sp->sources[i] =
                        ls_iceberg_field_by_id(&lake_columns, partitioning->fields[i].source_id)
                                ->type;
        if (ls_iceberg_spec_types(partitioning, &lake_columns, &sp->types, sp->results) != LS_OK) {
                lake_split_free(sp);
                return LS_ELIMIT;
        }
        change->partitioning = partitioning;
        *ret_split = sp;
        return LS_OK;
}

void
lake_split_reset(struct lake_split *sp)
{
        for (size_t i = 0; i < sp->file_count; i++)
                ls_free(sp->files[i]);
        sp->file_count = sp->in_range_count = 0;
        sp->last = NULL;
        ls_map_done(&sp->by_tuple);
        ls_map_init(&sp->by_tuple);
        ls_arena_reset(&sp->tuples);
        sp->change->partitioning = sp->partitioning;
}

void
lake_split_free(struct lake_split *sp)
{
        if (sp == NULL)
                return;
        lake_split_reset(sp);
        ls_free(sp->files);
        ls_free(sp->in_range);
        ls_map_done(&sp->by_tuple);
        ls_buf_done(&sp->key);
        ls_buf_done(&sp->last_key);
        ls_batch_iter_done(&sp->it);
        ls_arena_done(&sp->types);
        ls_arena_done(&sp->tuples);
        ls_free(sp);
}

/* --- tuples ----------------------------------------------------------------------------------- */

static struct ls_iceberg_value
bytes_or_null(ls_span bytes)
{
        return bytes.ptr == NULL ? LS_ICEBERG_NULL : ls_iceberg_bytes(bytes);
}

static struct ls_iceberg_value
source_value(const struct lake_split *sp, int32_t field_id, const struct ls_record *record)
{
        switch (field_id) {
        case LS_ROWS_FIELD_VALUE: return bytes_or_null(record->value);
        case LS_ROWS_FIELD_KEY: return bytes_or_null(record->key);
        case LS_ROWS_FIELD_PARTITION: return ls_iceberg_int(sp->partition);
        case LS_ROWS_FIELD_OFFSET: return ls_iceberg_int(record->offset);
        case LS_ROWS_FIELD_TIMESTAMP: return ls_iceberg_int(record->timestamp * 1000);
        default: break;
        }
        LS_ASSERT(false); /* lake_shape_parse lets no other column be one */
        return LS_ICEBERG_NULL;
}

/* The record's tuple in sp->values, and its bytes in sp->key. */
static void
make_tuple(struct lake_split *sp, const struct ls_record *record)
{
        ls_buf_clear(&sp->key);
        for (uint32_t i = 0; i < sp->partitioning->field_count; i++) {
                const struct ls_iceberg_partition_field *f = &sp->partitioning->fields[i];
                struct ls_iceberg_value v = source_value(sp, f->source_id, record);
                size_t start;

                v = ls_iceberg_transform_apply(&f->transform, &sp->sources[i], &v);
                sp->values[i] = v;
                ls_buf_put_u8(&sp->key, v.null);
                start = sp->key.len;
                ls_buf_put_le32(&sp->key, 0);
                if (!v.null)
                        ls_iceberg_value_put(&(*sp->results)[i], &v, &sp->key);
                if (!ls_buf_failed(&sp->key))
                        ls_set_le32(sp->key.ptr + start, (uint32_t)(sp->key.len - start));
        }
}

static const struct ls_iceberg_value *
copy_tuple(struct lake_split *sp)
{
        uint32_t count = sp->partitioning->field_count;
        struct ls_iceberg_value *copy = ls_arena_array(&sp->tuples, count, sizeof *copy);

        for (uint32_t i = 0; copy != NULL && i < count; i++) {
                enum ls_iceberg_kind kind = (*sp->results)[i].kind;

                copy[i] = sp->values[i];
                if (!copy[i].null && (kind == LS_ICEBERG_BINARY || kind == LS_ICEBERG_STRING)) {
                        ls_str bytes = ls_arena_str(
                                &sp->tuples,
                                ls_str_make((const char *)copy[i].bytes.ptr, copy[i].bytes.len));

                        if (bytes.ptr == NULL)
                                return NULL;
                        copy[i].bytes = ls_span_of(bytes.ptr, bytes.len);
                }
        }
        return copy;
}

/* --- files ------------------------------------------------------------------------------------ */

/* The more files are open, the smaller the row groups that they gather: bounded memory. */
static uint64_t
group_bytes(const struct lake_split *sp)
{
        return LS_MAX(SPLIT_GROUP_BYTES / (1 + sp->file_count / 8), SPLIT_GROUP_BYTES_MIN);
}

static ls_err
open_file(struct lake_split *sp, struct open_file *f)
{
        const struct ls_iceberg_value *tuple = copy_tuple(sp);

        if (tuple == NULL)
                return LS_ELIMIT;
        LS_TRY(lake_file_open(sp->s, &sp->spec, sp->change, group_bytes(sp)));
        f->index = sp->change->file_count - 1;
        sp->change->files[f->index].tuple = tuple;
        f->writer = sp->change->files[f->index].writer;
        f->rows = 0;
        return LS_OK;
}

/* The file for the tuple at hand; LS_FULL: there are as many as may be. */
static ls_err
find_file(struct lake_split *sp, struct open_file **ret_file)
{
        ls_span key = ls_buf_span(&sp->key);
        struct open_file *f;
        struct ls_buf swap;
        ls_err e;

        if (ls_buf_failed(&sp->key))
                return LS_ELIMIT;
        if (sp->last != NULL && sp->last_key.len == key.len &&
            memcmp(sp->last_key.ptr, key.ptr, key.len) == 0) {
                *ret_file = sp->last;
                return LS_OK;
        }
        f = ls_map_get(&sp->by_tuple, key);
        if (f == NULL) {
                if (sp->file_count == LAKE_TUPLES_MAX)
                        return LS_FULL;
                f = ls_calloc(1, sizeof *f);
                e = open_file(sp, f);
                if (e != LS_OK) {
                        ls_free(f);
                        return e;
                }
                LS_PUSH(sp->files, sp->file_count, sp->file_cap, f);
                ls_map_set(&sp->by_tuple, key, f);
        }
        swap = sp->last_key;
        sp->last_key = sp->key;
        sp->key = swap;
        sp->last = *ret_file = f;
        return LS_OK;
}

/* --- ranges ----------------------------------------------------------------------------------- */

void
lake_split_begin(struct lake_split *sp, int32_t partition, int64_t base)
{
        LS_ASSERT(sp->in_range_count == 0);
        sp->partition = partition;
        sp->base = base;
}

void
lake_split_end(struct lake_split *sp, int64_t end)
{
        for (size_t i = 0; i < sp->in_range_count; i++) {
                ls_rows_writer_span(sp->in_range[i]->writer, sp->base, end);
                sp->in_range[i]->in_range = false;
        }
        if (sp->in_range_count > 0)
                sp->base = end;
        sp->in_range_count = 0;
}

/* A file that is large enough is done; the next rows of its tuple go to a new one. */
static ls_err
roll_file(struct lake_split *sp, struct open_file *f, int64_t offset)
{
        uint64_t target = (uint64_t)sp->spec.settings->ints[LS_SET_TABLE_TARGET_FILE_BYTES];

        if (f->rows < SPLIT_SIZE_ROWS)
                return LS_OK;
        f->rows = 0;
        if (ls_rows_writer_file_bytes(f->writer) < target)
                return LS_OK;
        lake_split_end(sp, offset);
        LS_TRY(ls_rows_writer_finish(f->writer, &sp->change->files[f->index].info));
        return open_file(sp, f);
}

static ls_err
put_record(struct lake_split *sp, const struct ls_record *record)
{
        struct open_file *f;

        make_tuple(sp, record);
        LS_TRY(find_file(sp, &f));
        LS_TRY(roll_file(sp, f, record->offset));
        LS_TRY(rows_writer_push(f->writer, sp->partition, sp->log_append_time, record));
        f->rows++;
        if (!f->in_range) {
                LS_PUSH(sp->in_range, sp->in_range_count, sp->in_range_cap, f);
                f->in_range = true;
        }
        return LS_OK;
}

ls_err
lake_split_add(struct lake_split *sp, ls_span batch, int64_t from, int64_t to, bool log_append_time,
               int64_t *ret_next)
{
        struct ls_record record;
        ls_err e = ls_batch_iter_open(&sp->it, batch, false);

        if (e != LS_OK)
                return e > 0 ? LS_CORRUPT : e;
        while ((e = ls_batch_iter_next(&sp->it, &record)) == LS_OK) {
                if (record.offset < from || record.offset >= to)
                        continue;
                if (log_append_time != sp->log_append_time) {
                        lake_split_end(sp, record.offset);
                        sp->log_append_time = log_append_time;
                }
                e = put_record(sp, &record);
                *ret_next = record.offset;
                if (e != LS_OK)
                        return e;
                *ret_next = record.offset + 1;
        }
        if (e != LS_END)
                return e > 0 ? LS_CORRUPT : e;
        /* Bytes as produced count where the batch ends. */
        if (sp->last != NULL && sp->last->in_range)
                rows_writer_count(sp->last->writer, sp->partition, log_append_time, batch.len);
        return LS_OK;
}

ls_err
lake_split_finish(struct lake_split *sp)
{
        LS_ASSERT(sp->in_range_count == 0);
        for (size_t i = 0; i < sp->file_count; i++) {
                struct open_file *f = sp->files[i];

                LS_TRY(ls_rows_writer_finish(f->writer, &sp->change->files[f->index].info));
        }
        return LS_OK;
}

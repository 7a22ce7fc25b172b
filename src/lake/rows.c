/* lake/rows.c - record batches to the rows of a Parquet file; see rows.h.
 *
 * Records go into column vectors (copied); a full row group is encoded and streamed to the store.
 * Rows of one partition and timestamp type form a run; where a run meets a row group it is cut into
 * pieces, whose hash sums stand in the footer, so that a reader can check what it serves.
 * Sum of a record: h x (2 x offset + 1) mod 2^64 (formats/batch/batch.h).
 */
#include <stdio.h>

#include "base/assert.h"
#include "base/log.h"
#include "lake/rows_int.h"

#define ROWS_GROUP_BYTES ((uint64_t)16 << 20) /* record bytes of a row group */
#define ROWS_PAGE_BYTES  ((size_t)512 << 10)  /* of the value column */
#define ROWS_RATIO_GUESS 0.5                  /* compressed share before the first row group */

const int32_t rows_field_ids[ROWS_LEAVES] = {
        [ROWS_VALUE] = LS_ROWS_FIELD_VALUE,
        [ROWS_PARTITION] = LS_ROWS_FIELD_PARTITION,
        [ROWS_OFFSET] = LS_ROWS_FIELD_OFFSET,
        [ROWS_TIMESTAMP] = LS_ROWS_FIELD_TIMESTAMP,
        [ROWS_KEY] = LS_ROWS_FIELD_KEY,
        [ROWS_HEADER_KEY] = LS_ROWS_FIELD_HEADER_KEY,
        [ROWS_HEADER_VALUE] = LS_ROWS_FIELD_HEADER_VALUE,
};

struct ls_rows_writer {
        struct ls_schema schema;
        struct ls_columns columns;
        struct ls_parquet_writer *parquet;
        struct ls_store_writer *upload;
        uint64_t group_bytes_max;

        struct ls_batch_iter iter;
        struct ls_buf escaped;
        uint64_t rows, record_bytes;
        uint64_t group_bytes; /* record bytes in `columns` */
        uint64_t done_bytes;  /* record bytes in finished row groups */

        struct ls_rows_run *runs; /* the last one is open */
        size_t run_count, run_cap;
        bool run_cut;              /* the last one is closed */
        struct rows_piece *pieces; /* the last one is open when piece_open */
        size_t piece_count, piece_cap;
        bool piece_open;

        bool finished;
        struct ls_rows_file file;
        struct ls_rows_column *file_columns;
        int64_t *split_offsets;
        uint64_t stream_id;
        ls_uuid topic_id;
};

void
rows_schema_init(struct ls_schema *s)
{
        uint32_t at;

        ls_schema_init(s);
        ls_schema_add_leaf(s, 0, LS_STR("value"), LS_COL_OPTIONAL, LS_TYPE_BINARY,
                           LS_ROWS_FIELD_VALUE);
        ls_schema_add_leaf(s, 0, LS_STR("__partition"), LS_COL_REQUIRED, LS_TYPE_INT,
                           LS_ROWS_FIELD_PARTITION);
        ls_schema_add_leaf(s, 0, LS_STR("__offset"), LS_COL_REQUIRED, LS_TYPE_LONG,
                           LS_ROWS_FIELD_OFFSET);
        ls_schema_add_leaf(s, 0, LS_STR("__timestamp"), LS_COL_REQUIRED, LS_TYPE_TIMESTAMPTZ,
                           LS_ROWS_FIELD_TIMESTAMP);
        ls_schema_add_leaf(s, 0, LS_STR("__key"), LS_COL_OPTIONAL, LS_TYPE_BINARY,
                           LS_ROWS_FIELD_KEY);
        at = ls_schema_add_list(s, 0, LS_STR("__headers"), LS_COL_REQUIRED, LS_ROWS_FIELD_HEADERS);
        at = ls_schema_add_group(s, at, LS_STR("element"), LS_COL_REQUIRED, LS_COL_ANY,
                                 LS_ROWS_FIELD_HEADER);
        ls_schema_add_leaf(s, at, LS_STR("key"), LS_COL_REQUIRED, LS_TYPE_STRING,
                           LS_ROWS_FIELD_HEADER_KEY);
        ls_schema_add_leaf(s, at, LS_STR("value"), LS_COL_OPTIONAL, LS_TYPE_BINARY,
                           LS_ROWS_FIELD_HEADER_VALUE);
        LS_ASSERT(ls_schema_seal(s, NULL) == LS_OK);
}

/* --- header keys that are no UTF-8 ------------------------------------------------------------ */

/* True for well-formed UTF-8 (RFC 3629). */
static bool
rows_is_utf8(ls_span s)
{
        static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };

        for (size_t i = 0; i < s.len;) {
                uint8_t b = s.ptr[i];
                unsigned n = b < 0x80 ? 1 : b >= 0xf0 ? 4 : b >= 0xe0 ? 3 : b >= 0xc2 ? 2 : 0;
                uint32_t cp = n == 1 ? b : b & (0x7fu >> n);

                if (n == 0 || b > 0xf4 || s.len - i < n)
                        return false;
                for (unsigned k = 1; k < n; k++) {
                        if ((s.ptr[i + k] & 0xc0) != 0x80)
                                return false;
                        cp = cp << 6 | (s.ptr[i + k] & 0x3f);
                }
                if (cp < least[n] || cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
                        return false;
                i += n;
        }
        return true;
}

static bool
rows_looks_escaped(ls_span s)
{
        return s.len >= sizeof ROWS_ESCAPE - 1 &&
               memcmp(s.ptr, ROWS_ESCAPE, sizeof ROWS_ESCAPE - 1) == 0;
}

bool
rows_needs_escape(ls_span raw)
{
        return rows_looks_escaped(raw) || !rows_is_utf8(raw);
}

void
rows_escape(ls_span raw, struct ls_buf *out)
{
        static const char digits[] = "0123456789abcdef";

        ls_buf_put_text(out, ROWS_ESCAPE);
        for (size_t i = 0; i < raw.len; i++) {
                ls_buf_put_u8(out, (uint8_t)digits[raw.ptr[i] >> 4]);
                ls_buf_put_u8(out, (uint8_t)digits[raw.ptr[i] & 15]);
        }
}

static int
rows_hex_digit(uint8_t c)
{
        return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool
rows_unescape(ls_span stored, struct ls_buf *out)
{
        size_t start = out->len, at = sizeof ROWS_ESCAPE - 1;

        if (!rows_looks_escaped(stored) || (stored.len - at) % 2 != 0)
                return false;
        for (; at < stored.len; at += 2) {
                int high = rows_hex_digit(stored.ptr[at]), low = rows_hex_digit(stored.ptr[at + 1]);

                if (high < 0 || low < 0) {
                        out->len = start;
                        return false;
                }
                ls_buf_put_u8(out, (uint8_t)(high << 4 | low));
        }
        return true;
}

/* --- rows ------------------------------------------------------------------------------------- */

static ls_err
rows_append(void *ctx, ls_span bytes)
{
        struct ls_rows_writer *w = ctx;

        return w->upload->write(w->upload, bytes);
}

static enum ls_parquet_codec
rows_codec(const char *compression)
{
        static const struct {
                const char *name;
                enum ls_parquet_codec codec;
        } codecs[] = { { "zstd", LS_PARQUET_ZSTD },
                       { "lz4", LS_PARQUET_LZ4_RAW },
                       { "snappy", LS_PARQUET_SNAPPY },
                       { "gzip", LS_PARQUET_GZIP },
                       { "uncompressed", LS_PARQUET_UNCOMPRESSED } };

        for (size_t i = 0; compression != NULL && i < LS_COUNT(codecs); i++)
                if (strcmp(compression, codecs[i].name) == 0)
                        return codecs[i].codec;
        return LS_PARQUET_ZSTD;
}

ls_err
ls_rows_writer_new(const struct ls_rows_writer_options *o, struct ls_rows_writer **ret_writer)
{
        static const uint32_t sorted[] = { ROWS_PARTITION, ROWS_OFFSET };
        static const struct ls_parquet_column_options columns[ROWS_LEAVES] = {
                [ROWS_VALUE] = { .no_dictionary = true,
                                 .no_bounds = true,
                                 .page_bytes = ROWS_PAGE_BYTES },
                [ROWS_HEADER_VALUE] = { .no_bounds = true },
        };
        struct ls_parquet_writer_options options = { .codec = rows_codec(o->compression),
                                                     .columns = columns,
                                                     .sorted_leaves = sorted,
                                                     .sorted_count = LS_COUNT(sorted) };
        struct ls_rows_writer *w = ls_calloc(1, sizeof *w);
        ls_err e;

        w->group_bytes_max = o->row_group_bytes ? o->row_group_bytes : ROWS_GROUP_BYTES;
        w->stream_id = o->stream_id;
        w->topic_id = o->topic_id;
        rows_schema_init(&w->schema);
        ls_columns_init(&w->columns, &w->schema);
        ls_batch_iter_init(&w->iter, 0);
        ls_buf_init(&w->escaped, LS_BUF_MAX_DEFAULT);
        e = ls_store_writer_open(o->store, o->key, &w->upload);
        if (e == LS_OK)
                e = ls_parquet_writer_new(&w->schema, &options,
                                          (struct ls_parquet_sink){ rows_append, w }, &w->parquet);
        if (e != LS_OK) {
                ls_rows_writer_free(w);
                return e;
        }
        *ret_writer = w;
        return LS_OK;
}

void
ls_rows_writer_free(struct ls_rows_writer *w)
{
        if (w == NULL)
                return;
        ls_parquet_writer_free(w->parquet);
        if (w->upload != NULL)
                w->upload->cancel(w->upload);
        ls_batch_iter_done(&w->iter);
        ls_columns_done(&w->columns);
        ls_schema_done(&w->schema);
        ls_buf_done(&w->escaped);
        ls_free(w->runs);
        ls_free(w->pieces);
        ls_free(w->file_columns);
        ls_free(w->split_offsets);
        ls_free(w);
}

static ls_err
rows_flush_group(struct ls_rows_writer *w)
{
        w->piece_open = false;
        w->done_bytes += w->group_bytes;
        w->group_bytes = 0;
        LS_TRY(ls_parquet_writer_row_group(w->parquet, &w->columns));
        ls_columns_clear(&w->columns);
        return LS_OK;
}

/* The open run of this kind; a fresh one when the last is of another kind. */
static struct ls_rows_run *
rows_run(struct ls_rows_writer *w, int32_t partition, bool log_append_time)
{
        struct ls_rows_run *run = w->run_count > 0 ? &w->runs[w->run_count - 1] : NULL;

        if (run != NULL && !w->run_cut && run->partition == partition &&
            run->log_append_time == log_append_time)
                return run;
        LS_ASSERT(run == NULL || run->partition <= partition);
        w->run_cut = false;
        LS_PUSH(w->runs, w->run_count, w->run_cap,
                ((struct ls_rows_run){ .partition = partition,
                                       .first_row = (int64_t)w->rows,
                                       .base_offset = -1,
                                       .min_timestamp = INT64_MAX,
                                       .max_timestamp = INT64_MIN,
                                       .log_append_time = log_append_time }));
        w->piece_open = false;
        return &w->runs[w->run_count - 1];
}

static void
rows_push_headers(struct ls_rows_writer *w, const struct ls_record *record)
{
        struct ls_vec *keys = &w->columns.vecs[ROWS_HEADER_KEY];
        struct ls_vec *values = &w->columns.vecs[ROWS_HEADER_VALUE];
        struct ls_rd cursor = ls_rd_of(record->headers);
        uint8_t rep = 0;
        ls_str key;
        ls_span value;

        if (record->header_count == 0) { /* an empty list */
                ls_vec_slot(keys, 0, 0);
                ls_vec_slot(values, 0, 0);
                return;
        }
        while (ls_record_header_next(&cursor, &key, &value)) {
                ls_span raw = { (const uint8_t *)key.ptr, key.len };

                ls_vec_slot(keys, rep, keys->max_def);
                if (rows_needs_escape(raw)) {
                        ls_buf_clear(&w->escaped);
                        rows_escape(raw, &w->escaped);
                        raw = ls_buf_span(&w->escaped);
                }
                ls_vec_value_copy(keys, raw);
                ls_vec_slot(values, rep, (uint8_t)(values->max_def - (value.ptr == NULL)));
                if (value.ptr != NULL)
                        ls_vec_value_copy(values, value);
                rep = 1;
        }
}

static void
rows_count_record(struct ls_rows_writer *w, struct ls_rows_run *run, const struct ls_record *record)
{
        uint64_t hash = ls_record_hash_at(ls_record_hash(record), record->offset);
        struct rows_piece *piece;

        if (run->rows == 0)
                run->base_offset = record->offset;
        LS_ASSERT(run->rows == 0 || record->offset >= run->end_offset);
        run->end_offset = record->offset + 1;
        run->rows++;
        run->min_timestamp = LS_MIN(run->min_timestamp, record->timestamp);
        run->max_timestamp = LS_MAX(run->max_timestamp, record->timestamp);
        run->hash += hash;
        if (!w->piece_open) {
                LS_PUSH(w->pieces, w->piece_count, w->piece_cap,
                        ((struct rows_piece){ .first_row = (int64_t)w->rows }));
                w->piece_open = true;
        }
        piece = &w->pieces[w->piece_count - 1];
        piece->rows++;
        piece->hash += hash;
        w->rows++;
}

ls_err
rows_writer_push(struct ls_rows_writer *w, int32_t partition, bool log_append_time,
                 const struct ls_record *record)
{
        struct ls_vec *vecs = w->columns.vecs;
        uint64_t bytes = record->key.len + record->value.len + record->headers.len;

        LS_ASSERT(!w->finished);
        if (record->timestamp > LS_TIMESTAMP_MS_MAX || record->timestamp < -LS_TIMESTAMP_MS_MAX)
                return LS_CORRUPT;
        rows_count_record(w, rows_run(w, partition, log_append_time), record);
        ls_vec_row_copy(&vecs[ROWS_VALUE], record->value);
        ls_vec_row_i32(&vecs[ROWS_PARTITION], partition);
        ls_vec_row_i64(&vecs[ROWS_OFFSET], record->offset);
        ls_vec_row_i64(&vecs[ROWS_TIMESTAMP], record->timestamp * 1000);
        ls_vec_row_copy(&vecs[ROWS_KEY], record->key);
        rows_push_headers(w, record);
        w->record_bytes += bytes;
        w->group_bytes += bytes;
        /* rows without content count too: their vectors take memory */
        if (w->group_bytes + vecs[ROWS_OFFSET].rows * 16 >= w->group_bytes_max)
                return rows_flush_group(w);
        return LS_OK;
}

void
rows_writer_count(struct ls_rows_writer *w, int32_t partition, bool log_append_time,
                  uint64_t log_bytes)
{
        struct ls_rows_run *run = w->run_count > 0 ? &w->runs[w->run_count - 1] : NULL;

        if (run != NULL && run->partition == partition && run->log_append_time == log_append_time)
                run->log_bytes += log_bytes;
}

ls_err
ls_rows_writer_add(struct ls_rows_writer *w, int32_t partition, ls_span batch, int64_t from,
                   int64_t to, uint64_t log_bytes, bool log_append_time,
                   bool (*take)(void *ctx, const struct ls_record *record), void *ctx)
{
        struct ls_record record;
        ls_err e = ls_batch_iter_open(&w->iter, batch, false);

        if (e != LS_OK)
                return e > 0 ? LS_CORRUPT : e;
        while ((e = ls_batch_iter_next(&w->iter, &record)) == LS_OK) {
                if (record.offset < from || record.offset >= to)
                        continue;
                if (take == NULL || take(ctx, &record))
                        LS_TRY(rows_writer_push(w, partition, log_append_time, &record));
        }
        if (e != LS_END)
                return e > 0 ? LS_CORRUPT : e;
        rows_writer_count(w, partition, log_append_time, log_bytes);
        return LS_OK;
}

void
ls_rows_writer_cut(struct ls_rows_writer *w)
{
        w->run_cut = w->run_count > 0;
}

void
ls_rows_writer_span(struct ls_rows_writer *w, int64_t base, int64_t end)
{
        struct ls_rows_run *run;

        LS_ASSERT(w->run_count > 0 && !w->run_cut);
        run = &w->runs[w->run_count - 1];
        LS_ASSERT(base <= run->base_offset && run->end_offset <= end);
        run->base_offset = base;
        run->end_offset = end;
        w->run_cut = true;
}

uint64_t
ls_rows_writer_record_bytes(const struct ls_rows_writer *w)
{
        return w->record_bytes;
}

uint64_t
ls_rows_writer_file_bytes(const struct ls_rows_writer *w)
{
        uint64_t bytes = ls_parquet_writer_bytes(w->parquet);
        double ratio = w->done_bytes > 0 ? (double)bytes / (double)w->done_bytes : ROWS_RATIO_GUESS;

        return bytes + (uint64_t)((double)w->group_bytes * ratio);
}

/* --- finish ----------------------------------------------------------------------------------- */

static void
rows_put_keys(struct ls_rows_writer *w)
{
        char uuid[LS_UUID_TEXT_BYTES], number[24];
        struct ls_buf text;

        ls_buf_init(&text, LS_BUF_MAX_DEFAULT);
        ls_buf_printf(&text, "%d", ROWS_FORMAT);
        ls_parquet_writer_kv(w->parquet, LS_STR(ROWS_KEY_FORMAT),
                             (ls_str){ (const char *)text.ptr, text.len });
        snprintf(number, sizeof number, "%llu", (unsigned long long)w->stream_id);
        ls_parquet_writer_kv(w->parquet, LS_STR(ROWS_KEY_STREAM), ls_str_of(number));
        ls_uuid_text(w->topic_id, uuid);
        ls_parquet_writer_kv(w->parquet, LS_STR(ROWS_KEY_TOPIC_ID), ls_str_of(uuid));
        ls_buf_clear(&text);
        for (size_t i = 0; i < w->run_count; i++) {
                const struct ls_rows_run *r = &w->runs[i];

                ls_buf_printf(&text, "%d %lld %lld %lld %lld %lld %lld %lld %lld %d\n",
                              r->partition, (long long)r->first_row, (long long)r->rows,
                              (long long)r->base_offset, (long long)r->end_offset,
                              (long long)r->min_timestamp, (long long)r->max_timestamp,
                              (long long)r->hash, (long long)r->log_bytes, r->log_append_time);
        }
        ls_parquet_writer_kv(w->parquet, LS_STR(ROWS_KEY_RUNS),
                             (ls_str){ text.ptr ? (const char *)text.ptr : "", text.len });
        ls_buf_clear(&text);
        for (size_t i = 0; i < w->piece_count; i++)
                ls_buf_printf(&text, "%lld %lld %lld\n", (long long)w->pieces[i].first_row,
                              (long long)w->pieces[i].rows, (long long)w->pieces[i].hash);
        ls_parquet_writer_kv(w->parquet, LS_STR(ROWS_KEY_PIECES),
                             (ls_str){ text.ptr ? (const char *)text.ptr : "", text.len });
        LS_ASSERT(!ls_buf_failed(&text));
        ls_buf_done(&text);
}

static void
rows_set_file(struct ls_rows_writer *w)
{
        const struct ls_parquet_file_info *info = ls_parquet_writer_info(w->parquet);

        w->file_columns = ls_calloc(info->column_count, sizeof *w->file_columns);
        for (uint32_t i = 0; i < info->column_count; i++) {
                const struct ls_parquet_column_info *c = &info->columns[i];

                w->file_columns[i] = (struct ls_rows_column){
                        .field_id = c->field_id,
                        .column_bytes = (int64_t)c->compressed_bytes,
                        .values = (int64_t)c->slots,
                        .nulls = (int64_t)c->nulls,
                        .min = c->min,
                        .max = c->max,
                };
        }
        w->split_offsets = ls_calloc(info->row_group_count, sizeof *w->split_offsets);
        for (size_t i = 0; i < info->row_group_count; i++)
                w->split_offsets[i] = (int64_t)info->row_groups[i].pos;
        w->file = (struct ls_rows_file){
                .bytes = info->bytes,
                .rows = (int64_t)info->rows,
                .runs = w->runs,
                .run_count = w->run_count,
                .columns = w->file_columns,
                .column_count = info->column_count,
                .split_offsets = w->split_offsets,
                .split_count = info->row_group_count,
        };
}

ls_err
ls_rows_writer_finish(struct ls_rows_writer *w, const struct ls_rows_file **ret_file)
{
        struct ls_store_writer *upload;

        LS_ASSERT(!w->finished);
        LS_TRY(rows_flush_group(w));
        rows_put_keys(w);
        LS_TRY(ls_parquet_writer_finish(w->parquet));
        upload = LS_STEAL(w->upload); /* finish frees it in any case */
        LS_TRY(upload->finish(upload));
        rows_set_file(w);
        w->finished = true;
        *ret_file = &w->file;
        return LS_OK;
}

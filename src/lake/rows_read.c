/* lake/rows_read.c - rows of a file back to record batches, and questions about them; see rows.h.
 *
 * A reader keeps the decoded pages where it stopped, so a consumer that replays pays for each page
 * once. Reading a piece (a run's rows of one row group) from its first row to its last, also over
 * several calls, ends in a check of its hash sum against the footer's.
 *
 * Bytes that cannot be read (LS_CORRUPT, what the store says) end a read in front of them; rows
 * that contradict footer or metadata (LS_INVALID) spoil all that the read built.
 */
#include "base/assert.h"
#include "base/log.h"
#include "lake/rows_int.h"

#define READ_LEFT_MIN 4096 /* a further batch is begun only for this much of the budget */

ls_err
rows_reader_error(const struct ls_rows_reader *r, ls_err e, const char *words)
{
        if (e <= 0 || e == LS_ABSENT || e == LS_THROTTLED || e == LS_BUSY || e == LS_TIMEOUT)
                return e;
        ls_log_error("lake", "a table file is damaged key=%s error=%s what=\"%s\"", r->key,
                     ls_err_name(e), words);
        return LS_EBROKEN;
}

/* --- open ------------------------------------------------------------------------------------- */

static ls_err
read_store(void *ctx, uint64_t pos, size_t bytes, struct ls_slice **ret_bytes)
{
        struct ls_rows_reader *r = ctx;
        struct ls_slice *got = NULL;

        LS_TRY(ls_store_get(r->store, r->key, pos, bytes, &got));
        if (got->len != bytes) {
                ls_slice_unref(got);
                return LS_CORRUPT;
        }
        *ret_bytes = got;
        return LS_OK;
}

/* The next decimal number of a line; false when there is none. */
static bool
read_number(ls_str *text, int64_t *ret_number)
{
        size_t n = 0;
        ls_str word;

        while (n < text->len && text->ptr[n] != ' ' && text->ptr[n] != '\n')
                n++;
        word = ls_str_make(text->ptr, n);
        if (!ls_str_to_i64(word, INT64_MIN, INT64_MAX, ret_number))
                return false;
        if (n < text->len)
                n++;
        *text = ls_str_make(text->ptr + n, text->len - n);
        return true;
}

static bool
read_numbers(ls_str *text, int64_t *numbers, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                if (!read_number(text, &numbers[i]))
                        return false;
        }
        return true;
}

static bool
read_runs(struct ls_rows_reader *r, ls_str text)
{
        size_t cap = 0;
        int64_t row = 0, n[10];

        while (text.len > 0) {
                if (!read_numbers(&text, n, LS_COUNT(n)) || n[0] < 0 || n[0] > INT32_MAX ||
                    n[1] != row || n[2] <= 0 || n[2] > INT64_MAX - row || n[4] - n[3] < n[2])
                        return false;
                LS_PUSH(r->runs, r->run_count, cap,
                        ((struct ls_rows_run){ .partition = (int32_t)n[0],
                                               .first_row = n[1],
                                               .rows = n[2],
                                               .base_offset = n[3],
                                               .end_offset = n[4],
                                               .min_timestamp = n[5],
                                               .max_timestamp = n[6],
                                               .hash = (uint64_t)n[7],
                                               .log_bytes = (uint64_t)n[8],
                                               .log_append_time = n[9] != 0 }));
                row += n[2];
        }
        return row == (int64_t)ls_parquet_file_rows(r->file);
}

static bool
read_pieces(struct ls_rows_reader *r, ls_str text)
{
        size_t cap = 0;
        int64_t row = 0, n[3];

        while (text.len > 0) {
                if (!read_numbers(&text, n, LS_COUNT(n)) || n[0] != row || n[1] <= 0 ||
                    n[1] > INT64_MAX - row)
                        return false;
                LS_PUSH(r->pieces, r->piece_count, cap,
                        ((struct rows_piece){ n[0], n[1], (uint64_t)n[2] }));
                row += n[1];
        }
        return row == (int64_t)ls_parquet_file_rows(r->file);
}

/* Levels and types of our columns, wherever the file has them. */
static bool
read_leaves(struct ls_rows_reader *r)
{
        const struct ls_schema *s = ls_parquet_file_schema(r->file);
        struct ls_schema ours;
        bool same = true;

        rows_schema_init(&ours);
        for (int i = 0; i < ROWS_LEAVES && same; i++) {
                uint32_t node = ls_schema_by_field_id(s, rows_field_ids[i]);
                const struct ls_schema_node *mine = ls_schema_leaf(&ours, (uint32_t)i);

                same = node != LS_NODE_NONE && !s->nodes[node].is_group &&
                       s->nodes[node].type.physical == mine->type.physical &&
                       s->nodes[node].max_def == mine->max_def &&
                       s->nodes[node].max_rep == mine->max_rep;
                if (same)
                        r->leaves[i] = s->nodes[node].leaf;
        }
        ls_schema_done(&ours);
        return same;
}

static ls_err
read_footer(struct ls_rows_reader *r)
{
        ls_str format, runs, pieces;
        int64_t number;

        if (!ls_parquet_file_kv(r->file, LS_STR(ROWS_KEY_FORMAT), &format) ||
            !ls_parquet_file_kv(r->file, LS_STR(ROWS_KEY_RUNS), &runs) ||
            !ls_parquet_file_kv(r->file, LS_STR(ROWS_KEY_PIECES), &pieces))
                return rows_reader_error(r, LS_CORRUPT, "it is not one of ours");
        if (!ls_str_to_i64(format, 1, INT64_MAX, &number))
                return rows_reader_error(r, LS_CORRUPT, "its format is no number");
        if (number > ROWS_FORMAT)
                return rows_reader_error(r, LS_NEWER_FORMAT, "its format is newer");
        if (!read_leaves(r))
                return rows_reader_error(r, LS_CORRUPT, "its columns are not ours");
        if (!read_runs(r, runs) || !read_pieces(r, pieces))
                return rows_reader_error(r, LS_CORRUPT, "the runs in its footer do not add up");
        return LS_OK;
}

ls_err
ls_rows_reader_open(struct ls_store *store, const char *key, uint64_t bytes,
                    struct ls_rows_reader **ret_reader)
{
        struct ls_rows_reader *r = ls_calloc(1, sizeof *r);
        struct ls_parquet_source source = { read_store, r, bytes };
        struct ls_errinfo info = { "" };
        ls_err e;

        r->store = store;
        r->key = ls_strdup(key);
        r->next_offset = -1;
        e = ls_parquet_file_open(&source, NULL, &info, &r->file);
        if (e == LS_OK)
                e = read_footer(r);
        else
                e = rows_reader_error(r, e, info.text);
        if (e != LS_OK) {
                ls_rows_reader_close(r);
                return e;
        }
        rows_cursor_init(&r->cursor, r->file, r->leaves);
        *ret_reader = r;
        return LS_OK;
}

void
ls_rows_reader_close(struct ls_rows_reader *r)
{
        if (r == NULL)
                return;
        rows_cursor_done(&r->cursor);
        if (r->builder_ready)
                ls_batch_builder_done(&r->builder);
        ls_parquet_file_close(r->file);
        ls_free(r->runs);
        ls_free(r->pieces);
        ls_free(r->key);
        ls_free(r);
}

uint64_t
ls_rows_stream_id(const struct ls_rows_reader *r)
{
        ls_str text;
        int64_t id;

        if (!ls_parquet_file_kv(r->file, LS_STR(ROWS_KEY_STREAM), &text) ||
            !ls_str_to_i64(text, 1, INT64_MAX, &id))
                return 0;
        return (uint64_t)id;
}

ls_err
ls_rows_runs(struct ls_rows_reader *r, const struct ls_rows_run **ret_runs, size_t *ret_count)
{
        *ret_runs = r->runs;
        *ret_count = r->run_count;
        return LS_OK;
}

/* --- records in order, checked ---------------------------------------------------------------- */

static size_t
read_piece_of(const struct ls_rows_reader *r, int64_t row)
{
        size_t low = 0, high = r->piece_count;

        while (high - low > 1) {
                size_t middle = low + (high - low) / 2;

                if (r->pieces[middle].first_row <= row)
                        low = middle;
                else
                        high = middle;
        }
        return low;
}

/* Goes to a row of the extent. */
static ls_err
read_seek(struct ls_rows_reader *r, const struct ls_meta_extent *x, uint64_t row)
{
        uint64_t end = (uint64_t)x->first_row + (uint64_t)x->rows;
        bool on = r->cursor.scan != NULL && r->cursor.row == row && r->cursor.end == end;

        LS_TRY(rows_cursor_seek(&r->cursor, row, end));
        if (on || row >= end)
                return LS_OK;
        r->piece = read_piece_of(r, (int64_t)row);
        r->piece_whole = r->pieces[r->piece].first_row == (int64_t)row;
        r->piece_hash = 0;
        return LS_OK;
}

/* The record at the place. LS_INVALID: it is not one of the extent's. */
static ls_err
read_get(struct ls_rows_reader *r, const struct ls_meta_extent *x, const struct ls_record **ret)
{
        LS_TRY(rows_cursor_get(&r->cursor, ret));
        if (r->cursor.partition != x->partition || (*ret)->offset < x->base_offset ||
            (*ret)->offset >= x->end_offset)
                return LS_INVALID;
        return LS_OK;
}

/* Steps over the record, adding it to the sum of its piece. LS_INVALID: that was the piece's last
 * one, and the sum is not the footer's. */
static ls_err
read_step(struct ls_rows_reader *r, uint64_t *hash_sum)
{
        const struct ls_record *record = &r->cursor.record;
        const struct rows_piece *piece = &r->pieces[r->piece];
        uint64_t hash = ls_record_hash_at(ls_record_hash(record), record->offset);

        r->piece_hash += hash;
        if (hash_sum != NULL)
                *hash_sum += hash;
        rows_cursor_step(&r->cursor);
        if ((int64_t)r->cursor.row < piece->first_row + piece->rows)
                return LS_OK;
        if (r->piece_whole && r->piece_hash != piece->hash)
                return LS_INVALID;
        if (r->piece + 1 < r->piece_count)
                r->piece++;
        r->piece_whole = true;
        r->piece_hash = 0;
        return LS_OK;
}

/* Moves *low, a row not behind the first one with offset >= from, forward by the page index. Pages
 * that hold rows of other runs too say nothing and are passed over. */
static ls_err
read_narrow(struct ls_rows_reader *r, const struct ls_meta_extent *x, int64_t from, uint64_t *low)
{
        uint64_t first = (uint64_t)x->first_row, end = first + (uint64_t)x->rows;
        uint32_t leaf = r->leaves[ROWS_OFFSET];

        for (uint32_t g = 0; g < ls_parquet_file_row_groups(r->file); g++) {
                struct ls_parquet_row_group group;
                ls_err e;

                ls_parquet_file_row_group(r->file, g, &group);
                if (group.first_row + group.rows <= *low || group.first_row >= end)
                        continue;
                e = ls_parquet_file_load_index(r->file, g, leaf);
                if (e == LS_ABSENT)
                        continue;
                LS_TRY(e);
                for (uint32_t i = 0; i < ls_parquet_file_pages(r->file, g, leaf); i++) {
                        struct ls_parquet_page page;
                        uint64_t row;

                        ls_parquet_file_page(r->file, g, leaf, i, &page);
                        row = group.first_row + page.first_row;
                        if (row < first || row + page.rows > end || page.bounds.min.ptr == NULL)
                                continue;
                        if ((int64_t)ls_get_le64(page.bounds.min.ptr) > from)
                                return LS_OK;
                        *low = LS_MAX(*low, row);
                }
        }
        return LS_OK;
}

/* Goes to the first row with offset >= from; LS_END: there is none. */
static ls_err
read_find(struct ls_rows_reader *r, const struct ls_meta_extent *x, int64_t from)
{
        uint64_t first = (uint64_t)x->first_row, end = first + (uint64_t)x->rows, low = first;
        const struct ls_record *record;

        if (x->first_row < 0 || x->rows < 0 || end > ls_parquet_file_rows(r->file))
                return LS_CORRUPT;
        if (r->next_offset == from && r->next_row >= first && r->next_row <= end)
                return r->next_row == end ? LS_END : read_seek(r, x, r->next_row);
        from = LS_MAX(from, x->base_offset);
        if (from >= x->end_offset)
                return LS_END;
        if (x->rows == x->end_offset - x->base_offset) {
                low = first + (uint64_t)(from - x->base_offset); /* dense */
        } else {
                /* there are at most end - from rows at or behind `from` */
                if (x->rows > x->end_offset - from)
                        low = end - (uint64_t)(x->end_offset - from);
                LS_TRY(read_narrow(r, x, from, &low));
        }
        LS_TRY(read_seek(r, x, low));
        for (;;) {
                LS_TRY(read_get(r, x, &record));
                if (record->offset >= from)
                        return LS_OK;
                LS_TRY(read_step(r, NULL));
        }
}

/* --- batches ---------------------------------------------------------------------------------- */

struct read_batches {
        struct ls_rows_reader *r;
        const struct ls_meta_extent *x;
        const struct ls_rows_batches *how;
        struct ls_buf *out;
        size_t out_start;
        size_t out_good; /* whole batches end here */
        int64_t next;    /* offset that everything before is covered */
        int64_t end;     /* offset where to stop */
};

static size_t
read_left(const struct read_batches *b)
{
        size_t built = b->out->len - b->out_start;

        return built < b->how->bytes_max ? b->how->bytes_max - built : 0;
}

/* Closes the batch so that it covers up to `to`, and what one batch cannot cover, too. */
static ls_err
read_end_batch(struct read_batches *b, int64_t to)
{
        struct ls_batch_builder *builder = &b->r->builder;
        int64_t base = builder->base_offset, last = LS_MIN(to - 1, base + INT32_MAX);

        LS_TRY(ls_batch_builder_end(builder, last, NULL));
        b->next = last + 1;
        b->out_good = b->out->len;
        while (b->next < to) {
                last = LS_MIN(to - 1, b->next + INT32_MAX);
                ls_batch_builder_begin(builder, b->out, b->next);
                LS_TRY(ls_batch_builder_end(builder, last, NULL));
                b->next = last + 1;
                b->out_good = b->out->len;
        }
        return LS_OK;
}

/* Adds records until the batch is full (LS_FULL), the extent at its end (LS_END), or the next
 * record cannot be read. */
static ls_err
read_fill_batch(struct read_batches *b)
{
        const struct ls_record *record;
        ls_err e;

        while ((e = read_get(b->r, b->x, &record)) == LS_OK) {
                if (record->offset < b->next)
                        return LS_INVALID; /* offsets of rows rise */
                if (record->offset >= b->end)
                        return LS_END;
                e = ls_batch_builder_add(&b->r->builder, record);
                if (e != LS_OK)
                        return e;
                b->next = record->offset + 1;
                LS_TRY(read_step(b->r, NULL));
        }
        return e;
}

/* One batch of records from the place on. LS_END: the extent is at its end and covered. */
static ls_err
read_batch(struct read_batches *b)
{
        struct ls_batch_builder *builder = &b->r->builder;
        size_t bytes = b->how->batch_bytes ? b->how->batch_bytes : (size_t)1 << 20;
        const struct ls_record *record;
        ls_err e;

        builder->cfg.records_bytes_max = LS_MIN(bytes, LS_MAX(read_left(b), (size_t)READ_LEFT_MIN));
        ls_batch_builder_begin(builder, b->out, -1);
        e = read_fill_batch(b);
        if (e == LS_FULL)
                return read_get(b->r, b->x, &record) == LS_OK
                               ? read_end_batch(b, LS_MIN(record->offset, b->end))
                               : LS_CORRUPT;
        if (e != LS_END) { /* what came before the damage is good */
                if (e != LS_INVALID && ls_batch_builder_count(builder) > 0)
                        LS_TRY(read_end_batch(b, b->next));
                return e;
        }
        if (ls_batch_builder_count(builder) == 0) {              /* a hole up to the end */
                LS_TRY(ls_batch_builder_end(builder, -1, NULL)); /* appends nothing */
                if (b->next >= b->end)
                        return LS_END;
                ls_batch_builder_begin(builder, b->out, b->next);
        }
        LS_TRY(read_end_batch(b, b->end));
        return LS_END;
}

static void
read_set_builder(struct ls_rows_reader *r, const struct ls_rows_batches *how)
{
        struct ls_batch_build cfg = { .codec = (enum ls_codec)how->codec,
                                      .level = LS_ROWS_BATCH_LEVEL,
                                      .log_append_time = how->log_append_time,
                                      .leader_epoch = how->leader_epoch };

        if (!r->builder_ready)
                ls_batch_builder_init(&r->builder, &cfg);
        r->builder.cfg = cfg;
        r->builder_ready = true;
}

/* After a failure: the place is lost, and an open batch is dropped. */
static void
read_abandon(struct ls_rows_reader *r, struct ls_buf *out, size_t out_keep)
{
        if (r->builder_ready) {
                ls_batch_builder_done(&r->builder);
                r->builder_ready = false;
        }
        out->len = out_keep;
        r->next_offset = -1;
        rows_cursor_done(&r->cursor);
        rows_cursor_init(&r->cursor, r->file, r->leaves);
}

ls_err
ls_rows_read(struct ls_rows_reader *r, const struct ls_meta_extent *extent, int64_t from,
             const struct ls_rows_batches *how, struct ls_buf *out, int64_t *ret_next)
{
        struct read_batches b = { .r = r,
                                  .x = extent,
                                  .how = how,
                                  .out = out,
                                  .out_start = out->len,
                                  .out_good = out->len,
                                  .next = LS_MAX(from, extent->base_offset),
                                  .end = extent->end_offset };
        ls_err e;

        if (how->offset_end > 0)
                b.end = LS_MIN(b.end, how->offset_end);
        LS_ASSERT(from < b.end);
        read_set_builder(r, how);
        e = read_find(r, extent, from);
        if (e == LS_END)
                e = LS_OK; /* only a hole is left */
        while (e == LS_OK) {
                e = read_batch(&b);
                if (e == LS_OK && read_left(&b) < READ_LEFT_MIN)
                        e = LS_FULL;
        }
        if (e != LS_END && e != LS_FULL) {
                read_abandon(r, out, e == LS_INVALID ? b.out_start : b.out_good);
                if (out->len == b.out_start)
                        return rows_reader_error(r, e,
                                                 "its rows cannot be read, or their sum is wrong");
                *ret_next = b.next; /* the next read meets it first, and says so */
                return LS_OK;
        }
        r->next_offset = b.next;
        r->next_row = r->cursor.row;
        *ret_next = b.next;
        return LS_OK;
}

/* --- all rows --------------------------------------------------------------------------------- */

/* Calls `fn` for each record of the extent, in order; checks pieces on the way. */
static ls_err
read_all(struct ls_rows_reader *r, const struct ls_meta_extent *x,
         ls_err (*fn)(void *ctx, const struct ls_record *record), void *ctx, int64_t *ret_rows,
         uint64_t *ret_hash)
{
        const struct ls_record *record;
        int64_t rows = 0, next = x->base_offset;
        uint64_t hash = 0;
        ls_err e;

        if (x->first_row < 0 || x->rows < 0)
                return LS_CORRUPT;
        r->next_offset = -1;
        LS_TRY(read_seek(r, x, (uint64_t)x->first_row));
        while ((e = read_get(r, x, &record)) == LS_OK) {
                if (record->offset < next)
                        return LS_CORRUPT;
                next = record->offset + 1;
                if (fn != NULL)
                        LS_TRY(fn(ctx, record));
                LS_TRY(read_step(r, &hash));
                rows++;
        }
        if (e != LS_END)
                return e;
        *ret_rows = rows;
        *ret_hash = hash;
        return LS_OK;
}

ls_err
ls_rows_verify(struct ls_rows_reader *r, const struct ls_meta_extent *extent, int64_t *ret_rows,
               uint64_t *ret_hash)
{
        ls_err e = read_all(r, extent, NULL, NULL, ret_rows, ret_hash);

        return rows_reader_error(r, e, "its rows cannot be read, or their sum is wrong");
}

struct read_copy {
        struct ls_rows_writer *w;
        int32_t partition;
        bool log_append_time;
};

static ls_err
read_copy_record(void *ctx, const struct ls_record *record)
{
        struct read_copy *c = ctx;

        return rows_writer_push(c->w, c->partition, c->log_append_time, record);
}

ls_err
ls_rows_copy(struct ls_rows_reader *r, const struct ls_meta_extent *extent,
             struct ls_rows_writer *w)
{
        struct read_copy c = { w, extent->partition,
                               (extent->flags & LS_META_BATCH_LOG_APPEND_TIME) != 0 };
        int64_t rows;
        uint64_t hash;
        ls_err e = read_all(r, extent, read_copy_record, &c, &rows, &hash);

        if (e == LS_OK && (rows != extent->rows || hash != extent->hash))
                e = LS_CORRUPT;
        if (e == LS_OK)
                rows_writer_count(w, c.partition, c.log_append_time, extent->log_bytes);
        return rows_reader_error(r, e, "its rows cannot be read, or their sum is wrong");
}

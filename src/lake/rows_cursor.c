/* lake/rows_cursor.c - the rows of a file one after another as records; see rows_int.h.
 *
 * A scan gives batches of vectors; the cursor walks them slot by slot. Key and value are spans into
 * decoded pages, headers are put together in the form of a record batch. What the levels say is
 * checked against what is there: LS_CORRUPT.
 */
#include "base/assert.h"
#include "lake/rows_int.h"

#define CURSOR_ROWS 4096 /* rows of a scan's batch; it ends earlier where a page does */

void
rows_cursor_init(struct rows_cursor *c, struct ls_parquet_file *file, const uint32_t *leaves)
{
        *c = (struct rows_cursor){ .file = file, .leaves = leaves };
        ls_buf_init(&c->headers, LS_BUF_MAX_DEFAULT);
        ls_buf_init(&c->key_buffer, LS_BUF_MAX_DEFAULT);
}

void
rows_cursor_done(struct rows_cursor *c)
{
        ls_parquet_scan_close(c->scan);
        ls_buf_done(&c->headers);
        ls_buf_done(&c->key_buffer);
        *c = (struct rows_cursor){ 0 };
}

static void
cursor_reset(struct rows_cursor *c)
{
        ls_parquet_scan_close(c->scan);
        c->scan = NULL;
        c->rows = c->at = 0;
        c->has = false;
}

/* The row group that holds `row`. */
static uint32_t
cursor_row_group(const struct rows_cursor *c, uint64_t row, struct ls_parquet_row_group *ret_group)
{
        uint32_t low = 0, high = ls_parquet_file_row_groups(c->file);

        while (high - low > 1) {
                uint32_t middle = low + (high - low) / 2;

                ls_parquet_file_row_group(c->file, middle, ret_group);
                if (ret_group->first_row <= row)
                        low = middle;
                else
                        high = middle;
        }
        ls_parquet_file_row_group(c->file, low, ret_group);
        return low;
}

/* Opens a scan at the current row, up to c->end or the end of its row group. */
static ls_err
cursor_open(struct rows_cursor *c)
{
        struct ls_parquet_row_group group;
        uint64_t first, rows;

        cursor_reset(c);
        c->row_group = cursor_row_group(c, c->row, &group);
        if (c->row < group.first_row || c->row >= group.first_row + group.rows)
                return LS_CORRUPT;
        first = c->row - group.first_row;
        rows = LS_MIN(c->end, group.first_row + group.rows) - c->row;
        return ls_parquet_scan_open(c->file, c->row_group, first, rows, c->leaves, ROWS_LEAVES,
                                    &c->scan);
}

ls_err
rows_cursor_seek(struct rows_cursor *c, uint64_t row, uint64_t end)
{
        LS_ASSERT(row <= end);
        if (end > ls_parquet_file_rows(c->file))
                return LS_CORRUPT;
        if (c->scan != NULL && c->row == row && c->end == end)
                return LS_OK;
        c->row = row;
        c->end = end;
        cursor_reset(c);
        return LS_OK;
}

/* Makes sure that the batch at hand holds the current row. */
static ls_err
cursor_fill(struct rows_cursor *c)
{
        while (c->at == c->rows) {
                ls_err e = LS_END;

                if (c->row >= c->end)
                        return LS_END;
                if (c->scan != NULL)
                        e = ls_parquet_scan_next(c->scan, CURSOR_ROWS, &c->vecs, &c->rows);
                if (e == LS_OK) {
                        c->at = 0;
                        c->header_slot = 0;
                        memset(c->value, 0, sizeof c->value);
                        return LS_OK;
                }
                c->rows = c->at = 0;
                if (e != LS_END)
                        return e;
                LS_TRY(cursor_open(c));
        }
        return LS_OK;
}

/* The optional byte string of this row; steps its value index. */
static ls_span
cursor_bytes(struct rows_cursor *c, enum rows_leaf leaf)
{
        const struct ls_vec *v = &c->vecs[leaf];

        if (v->def[c->at] != v->max_def)
                return LS_SPAN_NULL;
        LS_ASSERT(c->value[leaf] < v->count); /* vectors agree with their levels */
        return v->span[c->value[leaf]++];
}

/* Puts the headers of this row together, from slots of two leaves that must go in step. */
static ls_err
cursor_headers(struct rows_cursor *c)
{
        const struct ls_vec *keys = &c->vecs[ROWS_HEADER_KEY];
        const struct ls_vec *values = &c->vecs[ROWS_HEADER_VALUE];
        size_t slot = c->header_slot;

        c->record.header_count = 0;
        ls_buf_clear(&c->headers);
        if (slot >= keys->slots || slot >= values->slots)
                return LS_CORRUPT;
        if (keys->def[slot] == 0) { /* an empty list */
                c->header_slot++;
                c->record.headers = ls_span_of("", 0);
                return values->def[slot] == 0 ? LS_OK : LS_CORRUPT;
        }
        do {
                ls_span key, value = LS_SPAN_NULL;

                if (slot >= values->slots || values->rep[slot] != keys->rep[slot] ||
                    keys->def[slot] != keys->max_def || values->def[slot] == 0)
                        return LS_CORRUPT;
                key = keys->span[c->value[ROWS_HEADER_KEY]++];
                if (values->def[slot] == values->max_def)
                        value = values->span[c->value[ROWS_HEADER_VALUE]++];
                ls_buf_clear(&c->key_buffer);
                if (rows_unescape(key, &c->key_buffer))
                        key = ls_span_of(c->key_buffer.ptr ? c->key_buffer.ptr : key.ptr,
                                         c->key_buffer.len);
                ls_record_header_put(&c->headers, (ls_str){ (const char *)key.ptr, key.len },
                                     value);
                c->record.header_count++;
        } while (++slot < keys->slots && keys->rep[slot] != 0);
        c->header_slot = slot;
        c->record.headers = ls_buf_span(&c->headers);
        return ls_buf_failed(&c->headers) ? LS_CORRUPT : LS_OK;
}

ls_err
rows_cursor_get(struct rows_cursor *c, const struct ls_record **ret_record)
{
        int64_t micros;

        if (!c->has) {
                LS_TRY(cursor_fill(c));
                c->record.offset = c->vecs[ROWS_OFFSET].i64[c->at];
                micros = c->vecs[ROWS_TIMESTAMP].i64[c->at];
                if (micros % 1000 != 0)
                        return LS_CORRUPT; /* no record's time */
                c->record.timestamp = micros / 1000;
                c->partition = c->vecs[ROWS_PARTITION].i32[c->at];
                c->record.value = cursor_bytes(c, ROWS_VALUE);
                c->record.key = cursor_bytes(c, ROWS_KEY);
                LS_TRY(cursor_headers(c));
                c->has = true;
        }
        *ret_record = &c->record;
        return LS_OK;
}

void
rows_cursor_step(struct rows_cursor *c)
{
        LS_ASSERT(c->has);
        c->has = false;
        c->at++;
        c->row++;
}

/* formats/parquet/column.c - reads the pages of one column chunk in order and hands out rows.
 *
 * A window of bytes is read ahead (one ranged read for many pages); a page is checked, decompressed
 * into a block of its size (or used where it lies, when it is not compressed) and decoded as a
 * whole. Byte strings are never copied: values are spans into that block, which the vectors they
 * are moved to hold on to.
 *
 * Invariants: everything allocated is bounded by limits.page_bytes; slots handed out never exceed
 * what the chunk's metadata says.
 */
#include "base/assert.h"
#include "formats/parquet/bits.h"
#include "formats/parquet/file_int.h"
#include "formats/parquet/rle.h"
#include "formats/parquet/values.h"

#define COLUMN_READ_BYTES       ((uint64_t)1 << 20)  /* read ahead, unless a page is larger */
#define COLUMN_HEADER_BYTES     ((uint64_t)64 << 10) /* first try for a header */
#define COLUMN_HEADER_BYTES_MAX ((uint64_t)16 << 20) /* they may carry statistics */

static ls_err
column_fail(struct ls_pq_column *c, ls_err e, const char *words)
{
        c->error = words;
        return e;
}

void
ls_pq_column_done(struct ls_pq_column *c)
{
        ls_slice_unref(c->window);
        ls_slice_unref(c->dictionary_bytes);
        ls_slice_unref(c->page.bytes);
        ls_slice_unref(c->page.made);
        ls_free(c->dictionary);
        ls_free(c->indexes);
        ls_free(c->page.def);
        ls_free(c->page.rep);
        ls_free(c->page.values);
        *c = (struct ls_pq_column){ 0 };
}

/* Makes [next_pos, next_pos + bytes) readable in the window; `bytes` is cut at the end of the
 * pages. Gives what the window holds from next_pos on. */
static ls_err
column_window(struct ls_pq_column *c, uint64_t bytes, ls_span *ret_bytes)
{
        uint64_t left = c->end_pos - c->next_pos, at, want;

        bytes = LS_MIN(bytes, left);
        at = c->window != NULL ? c->next_pos - c->window_pos : 0;
        if (c->window == NULL || c->next_pos < c->window_pos || at > c->window->len ||
            c->window->len - at < bytes) {
                struct ls_slice *got = NULL;

                want = LS_MIN(left, LS_MAX(bytes, COLUMN_READ_BYTES));
                LS_TRY(ls_pq_file_read(c->file, c->next_pos, want, &got));
                ls_slice_unref(c->window);
                c->window = got;
                c->window_pos = c->next_pos;
                at = 0;
        }
        *ret_bytes = ls_span_of(c->window->ptr + at, c->window->len - at);
        return LS_OK;
}

/* Reads the header at next_pos and makes the page's bytes readable; next_pos moves behind it. */
static ls_err
column_next_page(struct ls_pq_column *c, struct ls_pq_page_header *h, ls_span *ret_body)
{
        uint64_t want = COLUMN_HEADER_BYTES, left = c->end_pos - c->next_pos;
        struct ls_rd r;
        ls_span bytes;
        ls_err e;

        for (;; want *= 8) {
                LS_TRY(column_window(c, want, &bytes));
                r = ls_rd_of(bytes);
                e = ls_pq_get_page_header(&r, h);
                if (e == LS_OK)
                        break;
                if (want >= left || want > COLUMN_HEADER_BYTES_MAX || bytes.len >= left)
                        return column_fail(c, LS_CORRUPT, "a page header is malformed");
        }
        c->next_pos += (uint64_t)(r.pos - bytes.ptr);
        if ((uint64_t)h->compressed_bytes > c->end_pos - c->next_pos)
                return column_fail(c, LS_CORRUPT, "a page is longer than its column");
        if ((uint64_t)h->uncompressed_bytes > c->file->limits.page_bytes ||
            (uint64_t)h->compressed_bytes > c->file->limits.page_bytes)
                return column_fail(c, LS_TOO_LARGE, "a page is too large");
        LS_TRY(column_window(c, (uint64_t)h->compressed_bytes, &bytes));
        *ret_body = ls_span_of(bytes.ptr, (size_t)h->compressed_bytes);
        c->next_pos += (uint64_t)h->compressed_bytes;
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION /* a fuzzer would never get past it */
        if (h->has_crc && ls_pq_crc32(*ret_body) != h->crc)
                return column_fail(c, LS_CORRUPT, "the checksum of a page is wrong");
#endif
        return LS_OK;
}

/* `bytes` bytes of content from the stored `in`, a part of the window. */
static ls_err
column_unpack(struct ls_pq_column *c, ls_span in, size_t bytes, bool compressed,
              struct ls_slice **ret_slice)
{
        struct ls_slice *s;
        ls_err e;

        if (!compressed || c->chunk->codec == LS_PARQUET_UNCOMPRESSED) {
                if (in.len != bytes)
                        return column_fail(c, LS_CORRUPT, "a page has two sizes");
                *ret_slice = ls_slice_view(c->window, (size_t)(in.ptr - c->window->ptr), in.len);
                return LS_OK;
        }
        s = ls_slice_new(bytes ? bytes : 1);
        if (s == NULL)
                return column_fail(c, LS_TOO_LARGE, "no memory for a page");
        e = ls_pq_codec_unpack(c->codec, c->chunk->codec, in, s->ptr, bytes);
        if (e != LS_OK) {
                ls_slice_unref(s);
                return column_fail(c, e,
                                   e == LS_UNSUPPORTED ? "the compression codec is unknown"
                                                       : "a page does not decompress");
        }
        s->len = bytes;
        *ret_slice = s;
        return LS_OK;
}

static ls_err
column_load_dictionary(struct ls_pq_column *c, const struct ls_pq_page_header *h, ls_span body)
{
        struct ls_values_get g = { .type = &c->node->type,
                                   .value_bytes = c->value_bytes,
                                   .bytes_max = c->file->limits.page_bytes };
        struct ls_rd r;

        if (c->has_dictionary)
                return column_fail(c, LS_CORRUPT, "a column has two dictionaries");
        if (h->encoding != LS_PARQUET_PLAIN && h->encoding != LS_PARQUET_PLAIN_DICTIONARY)
                return column_fail(c, LS_UNSUPPORTED, "a dictionary in an unknown encoding");
        LS_TRY(column_unpack(c, body, (size_t)h->uncompressed_bytes, true, &c->dictionary_bytes));
        /* a value takes 4 bytes (byte strings), its size, or a bit: check before allocating */
        if ((uint64_t)h->values > (uint64_t)h->uncompressed_bytes * 8 ||
            (uint64_t)h->values * c->value_bytes > c->file->limits.page_bytes)
                return column_fail(c, LS_CORRUPT, "a dictionary is too short");
        g.count = (size_t)h->values;
        g.out = c->dictionary = ls_try_malloc((g.count + 1) * c->value_bytes);
        if (g.out == NULL)
                return column_fail(c, LS_TOO_LARGE, "no memory for a dictionary");
        r = ls_rd_of(ls_slice_span(c->dictionary_bytes));
        if (ls_values_get(&r, LS_PARQUET_PLAIN, &g) != LS_OK)
                return column_fail(c, LS_CORRUPT, "a dictionary is malformed");
        c->dictionary_count = g.count;
        c->has_dictionary = true;
        return LS_OK;
}

/* Arrays for the slots and values of a page. */
static ls_err
column_reserve(struct ls_pq_column *c, size_t slots)
{
        struct ls_pq_page *p = &c->page;

        if ((uint64_t)slots * (c->value_bytes + 2u) > c->file->limits.page_bytes ||
            slots > LS_VEC_SLOTS_MAX)
                return column_fail(c, LS_TOO_LARGE, "a page has too many values");
        if (p->slot_cap >= slots)
                return LS_OK;
        ls_free(p->def);
        ls_free(p->rep);
        ls_free(p->values);
        p->slot_cap = 0;
        p->def = ls_try_malloc(slots);
        p->rep = ls_try_malloc(slots);
        p->values = ls_try_malloc(slots * c->value_bytes);
        if (p->def == NULL || p->rep == NULL || p->values == NULL)
                return column_fail(c, LS_TOO_LARGE, "no memory for a page");
        p->slot_cap = slots;
        return LS_OK;
}

/* Version 1 levels: with their length, or (the old encoding) without. */
static bool
column_get_levels(struct ls_rd *r, uint8_t *levels, size_t slots, uint8_t max, int32_t encoding)
{
        struct ls_rd inner;
        uint32_t bytes;

        if (max == 0)
                return true;
        if (encoding == LS_PARQUET_BIT_PACKED)
                return ls_bitpacked_get_u8(r, levels, slots, ls_bits_width(max), max);
        if (encoding != LS_PARQUET_RLE)
                return false;
        bytes = ls_rd_le32(r);
        inner = ls_rd_of(ls_rd_span(r, bytes));
        return !r->failed && ls_rle_get_u8(&inner, levels, slots, ls_bits_width(max), max);
}

/* Values by their index in the dictionary. */
static ls_err
column_get_indexed(struct ls_pq_column *c, struct ls_rd *r, size_t count)
{
        uint8_t *out = c->page.values;
        unsigned width;

        if (!c->has_dictionary)
                return column_fail(c, LS_CORRUPT, "a page needs a dictionary that is not there");
        if (count == 0)
                return LS_OK;
        width = ls_rd_u8(r);
        if (c->index_cap < count) {
                ls_free(c->indexes);
                c->index_cap = 0;
                c->indexes = ls_try_malloc(count * sizeof *c->indexes);
                if (c->indexes == NULL)
                        return column_fail(c, LS_TOO_LARGE, "no memory for a page");
                c->index_cap = count;
        }
        if (r->failed || c->dictionary_count == 0 ||
            !ls_rle_get_u32(r, c->indexes, count, width, (uint32_t)(c->dictionary_count - 1)))
                return column_fail(c, LS_CORRUPT, "dictionary indexes are malformed");
        switch (c->value_bytes) {
        case 4:
                for (size_t i = 0; i < count; i++)
                        memcpy(out + i * 4, c->dictionary + (size_t)c->indexes[i] * 4, 4);
                break;
        case 8:
                for (size_t i = 0; i < count; i++)
                        memcpy(out + i * 8, c->dictionary + (size_t)c->indexes[i] * 8, 8);
                break;
        case 16:
                for (size_t i = 0; i < count; i++)
                        memcpy(out + i * 16, c->dictionary + (size_t)c->indexes[i] * 16, 16);
                break;
        default:
                for (size_t i = 0; i < count; i++)
                        memcpy(out + i * c->value_bytes,
                               c->dictionary + (size_t)c->indexes[i] * c->value_bytes,
                               c->value_bytes);
        }
        return LS_OK;
}

/* Decodes the values behind the levels; their number is what the definition levels say. */
static ls_err
column_get_values(struct ls_pq_column *c, const struct ls_pq_page_header *h, struct ls_rd *r)
{
        struct ls_pq_page *p = &c->page;
        struct ls_values_get g = { .type = &c->node->type,
                                   .value_bytes = c->value_bytes,
                                   .out = p->values,
                                   .bytes_max = c->file->limits.page_bytes };
        ls_err e;

        p->count = p->slots;
        if (c->node->max_def > 0) {
                p->count = 0;
                for (size_t i = 0; i < p->slots; i++)
                        p->count += p->def[i] == c->node->max_def;
        }
        if (h->type == LS_PQ_DATA_PAGE_V2 && p->count + (size_t)h->nulls != p->slots)
                return column_fail(c, LS_CORRUPT, "a page miscounts its nulls");
        if (h->encoding == LS_PARQUET_RLE_DICTIONARY || h->encoding == LS_PARQUET_PLAIN_DICTIONARY)
                return column_get_indexed(c, r, p->count);
        g.count = p->count;
        if (p->count == 0) /* writers differ on what stands there then */
                return LS_OK;
        e = ls_values_get(r, h->encoding, &g);
        p->made = g.made;
        if (e != LS_OK)
                return column_fail(c, e,
                                   e == LS_CORRUPT       ? "the values of a page are malformed"
                                   : e == LS_UNSUPPORTED ? "a page is in an unknown encoding"
                                                         : "a page is too large");
        return LS_OK;
}

static ls_err
column_load_v1(struct ls_pq_column *c, const struct ls_pq_page_header *h, ls_span body)
{
        struct ls_pq_page *p = &c->page;
        struct ls_rd r;

        LS_TRY(column_unpack(c, body, (size_t)h->uncompressed_bytes, true, &p->bytes));
        r = ls_rd_of(ls_slice_span(p->bytes));
        if (!column_get_levels(&r, p->rep, p->slots, c->node->max_rep, h->rep_encoding) ||
            !column_get_levels(&r, p->def, p->slots, c->node->max_def, h->def_encoding))
                return column_fail(c, LS_CORRUPT, "the levels of a page are malformed");
        return column_get_values(c, h, &r);
}

/* Version 2: levels first, never compressed, their lengths in the header. */
static ls_err
column_load_v2(struct ls_pq_column *c, const struct ls_pq_page_header *h, ls_span body)
{
        struct ls_pq_page *p = &c->page;
        uint64_t levels = (uint64_t)h->rep_bytes + (uint64_t)h->def_bytes;
        uint8_t max_rep = c->node->max_rep, max_def = c->node->max_def;
        size_t bytes;
        struct ls_rd rep, def, r;

        if (levels > body.len || levels > (uint64_t)h->uncompressed_bytes)
                return column_fail(c, LS_CORRUPT, "the levels of a page are longer than it");
        rep = ls_rd_of(ls_span_of(body.ptr, (size_t)h->rep_bytes));
        def = ls_rd_of(ls_span_of(body.ptr + h->rep_bytes, (size_t)h->def_bytes));
        if ((max_rep > 0 &&
             !ls_rle_get_u8(&rep, p->rep, p->slots, ls_bits_width(max_rep), max_rep)) ||
            (max_def > 0 &&
             !ls_rle_get_u8(&def, p->def, p->slots, ls_bits_width(max_def), max_def)))
                return column_fail(c, LS_CORRUPT, "the levels of a page are malformed");
        bytes = (size_t)h->uncompressed_bytes - levels;
        body.ptr += levels;
        body.len -= levels;
        if (bytes == 0)
                body.len = 0;
        LS_TRY(column_unpack(c, body, bytes, h->is_compressed && bytes > 0, &p->bytes));
        r = ls_rd_of(ls_slice_span(p->bytes));
        return column_get_values(c, h, &r);
}

static ls_err
column_load_data(struct ls_pq_column *c, const struct ls_pq_page_header *h, ls_span body)
{
        struct ls_pq_page *p = &c->page;

        if ((uint64_t)h->values > c->slots_left)
                return column_fail(c, LS_CORRUPT, "a column has more values than it should");
        c->slots_left -= (uint64_t)h->values;
        ls_slice_unref(p->bytes);
        ls_slice_unref(p->made);
        p->bytes = p->made = NULL;
        p->slots = p->slot = p->count = p->value = 0;
        LS_TRY(column_reserve(c, (size_t)h->values));
        p->slots = (size_t)h->values;
        if (h->type == LS_PQ_DATA_PAGE)
                return column_load_v1(c, h, body);
        return column_load_v2(c, h, body);
}

ls_err
ls_pq_column_fill(struct ls_pq_column *c)
{
        while (c->page.slot == c->page.slots) {
                struct ls_pq_page_header h;
                ls_span body;
                ls_err e = LS_OK;

                if (c->next_pos >= c->end_pos || c->slots_left == 0)
                        return LS_END;
                LS_TRY(column_next_page(c, &h, &body));
                if (h.type == LS_PQ_DICTIONARY_PAGE)
                        e = column_load_dictionary(c, &h, body);
                else if (h.type == LS_PQ_DATA_PAGE || h.type == LS_PQ_DATA_PAGE_V2)
                        e = column_load_data(c, &h, body);
                if (e != LS_OK) { /* half a page must not be handed out by a later call */
                        c->page.slot = c->page.slots = 0;
                        c->slots_left = 0;
                        return e;
                }
        }
        return LS_OK;
}

/* The slots, from the page's place on, of at most `rows` rows; *rows becomes how many rows begin
 * among them. The first slots may continue a row of the page before. */
static size_t
column_slots_of(const struct ls_pq_column *c, size_t *rows)
{
        const struct ls_pq_page *p = &c->page;
        size_t slot = p->slot, seen = 0;

        if (c->node->max_rep == 0) {
                *rows = LS_MIN(*rows, p->slots - p->slot);
                return *rows;
        }
        for (; slot < p->slots; slot++) {
                if (p->rep[slot] == 0) {
                        if (seen == *rows)
                                break;
                        seen++;
                }
        }
        *rows = seen;
        return slot - p->slot;
}

static void
column_move(struct ls_pq_column *c, size_t slots, size_t rows, struct ls_vec *out)
{
        struct ls_pq_page *p = &c->page;
        size_t count = slots;

        if (c->node->max_def > 0) {
                count = 0;
                for (size_t i = p->slot; i < p->slot + slots; i++)
                        count += p->def[i] == c->node->max_def;
        }
        LS_ASSERT(p->value + count <= p->count);
        if (out != NULL) {
                ls_vec_grow_slots(out, slots);
                ls_vec_grow_values(out, count);
                if (out->def != NULL)
                        memcpy(out->def + out->slots, p->def + p->slot, slots);
                if (out->rep != NULL)
                        memcpy(out->rep + out->slots, p->rep + p->slot, slots);
                if (count > 0)
                        memcpy(out->u8 + out->count * c->value_bytes,
                               p->values + p->value * c->value_bytes, count * c->value_bytes);
                out->slots += slots;
                out->rows += rows;
                out->count += count;
                if (c->node->type.physical == LS_COL_BYTES && count > 0) {
                        for (size_t i = out->count - count; i < out->count; i++)
                                out->span_bytes += out->span[i].len;
                        if (p->made != NULL)
                                ls_vec_hold(out, p->made);
                        else
                                ls_vec_hold(out, p->bytes);
                        if (c->dictionary_bytes != NULL)
                                ls_vec_hold(out, c->dictionary_bytes);
                }
        }
        p->slot += slots;
        p->value += count;
}

ls_err
ls_pq_column_take(struct ls_pq_column *c, size_t rows, struct ls_vec *out)
{
        for (size_t done = 0;;) {
                size_t n = rows - done, slots;
                ls_err e = c->node->max_rep == 0 && n == 0 ? LS_END : ls_pq_column_fill(c);

                if (e == LS_END) {
                        if (done < rows)
                                return column_fail(c, LS_CORRUPT, "a column has too few rows");
                        return LS_OK;
                }
                LS_TRY(e);
                /* Repeated: goes on until the next row begins, maybe in the next page. */
                if (c->node->max_rep > 0 && done == 0 && out != NULL && out->slots == 0 &&
                    c->page.rep[c->page.slot] != 0)
                        return column_fail(c, LS_CORRUPT, "a column begins inside a row");
                slots = column_slots_of(c, &n);
                if (out != NULL && (uint64_t)(out->slots + slots) * (c->value_bytes + 2u) >
                                           c->file->limits.page_bytes)
                        return column_fail(c, LS_TOO_LARGE, "a row has too many values");
                column_move(c, slots, n, out);
                done += n;
                if (done == rows && c->page.slot < c->page.slots)
                        return LS_OK;
        }
}

/* Reads the dictionary page ahead of the pages to seek to. */
static ls_err
column_open_dictionary(struct ls_pq_column *c, uint64_t first_page_pos)
{
        struct ls_pq_page_header h;
        ls_span body;

        c->next_pos = ls_pq_chunk_start(c->chunk);
        if (c->next_pos >= first_page_pos)
                return LS_OK;
        LS_TRY(column_next_page(c, &h, &body));
        if (h.type != LS_PQ_DICTIONARY_PAGE)
                return column_fail(c, LS_CORRUPT, "the page index names the wrong pages");
        return column_load_dictionary(c, &h, body);
}

ls_err
ls_pq_column_open(struct ls_pq_column *c, const struct ls_parquet_file *f, uint32_t row_group,
                  uint32_t leaf, struct ls_pq_codec *codec, uint64_t first_row, uint64_t rows,
                  uint64_t *ret_skip)
{
        const struct ls_pq_chunk_index *x = ls_pq_file_index(f, row_group, leaf);
        uint32_t first = 0, end = 0;

        *c = (struct ls_pq_column){ .file = f, .codec = codec };
        c->chunk = &f->meta.row_groups[row_group].chunks[leaf];
        c->node = ls_schema_leaf(&f->schema, leaf);
        c->value_bytes = ls_col_value_bytes(&c->node->type);
        c->next_pos = ls_pq_chunk_start(c->chunk);
        c->end_pos = c->next_pos + (uint64_t)c->chunk->compressed_bytes;
        c->slots_left = (uint64_t)c->chunk->values;
        *ret_skip = first_row;
        if (!x->loaded || x->offsets.page_count == 0 || rows == 0)
                return LS_OK;
        while (first + 1 < x->offsets.page_count &&
               (uint64_t)x->offsets.pages[first + 1].first_row <= first_row)
                first++;
        for (end = first + 1; end < x->offsets.page_count; end++) {
                if ((uint64_t)x->offsets.pages[end].first_row >= first_row + rows)
                        break;
        }
        LS_TRY(column_open_dictionary(c, (uint64_t)x->offsets.pages[0].pos));
        c->next_pos = (uint64_t)x->offsets.pages[first].pos;
        c->end_pos =
                (uint64_t)x->offsets.pages[end - 1].pos + (uint64_t)x->offsets.pages[end - 1].bytes;
        *ret_skip = first_row - (uint64_t)x->offsets.pages[first].first_row;
        return LS_OK;
}

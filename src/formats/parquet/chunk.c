/* formats/parquet/chunk.c - one column chunk: dictionary page, data pages, statistics, page index.
 *
 * Data pages are version 1: [repetition levels][definition levels][values], compressed as a whole.
 * Version 2 would leave the levels outside of the compression, which is worth little (they are
 * runs) and is refused by some readers. A page ends at a row, so that the page index may name rows.
 */
#include "base/assert.h"
#include "formats/parquet/bits.h"
#include "formats/parquet/bloom.h"
#include "formats/parquet/rle.h"
#include "formats/parquet/values.h"
#include "formats/parquet/writer_int.h"

/* A run of slots that becomes a page. */
struct chunk_page {
        size_t slot, slots, value, values, row, rows;
};

struct chunk {
        struct ls_parquet_writer *w;
        const struct ls_vec *v;
        const struct ls_parquet_column_options *options;
        struct ls_pq_choice choice;
        unsigned index_width; /* dictionary */
        struct ls_pq_chunk *meta;
        struct ls_pq_index *index;
        struct ls_stats stats; /* of the chunk so far */
};

static size_t
chunk_value_bytes(const struct ls_vec *v, size_t value)
{
        return v->type.physical == LS_COL_BYTES ? 4 + v->span[value].len : v->value_bytes;
}

/* The next page from where `p` ends; false when the vector is at its end. */
static bool
chunk_next_page(const struct chunk *c, struct chunk_page *p)
{
        const struct ls_vec *v = c->v;
        size_t slot, value, rows = 0, bytes = 0;

        p->slot += p->slots;
        p->value += p->values;
        p->row += p->rows;
        slot = p->slot;
        value = p->value;
        for (; slot < v->slots; slot++) {
                if (v->rep == NULL || v->rep[slot] == 0) {
                        if (rows > 0 &&
                            (bytes >= c->options->page_bytes || rows >= c->w->options.page_rows))
                                break;
                        rows++;
                }
                if (v->def == NULL || v->def[slot] == v->max_def)
                        bytes += chunk_value_bytes(v, value++);
        }
        p->slots = slot - p->slot;
        p->values = value - p->value;
        p->rows = rows;
        return p->slots > 0;
}

/* Levels with the length before them, as version 1 pages have them. */
static void
chunk_put_levels(struct ls_buf *out, const uint8_t *levels, size_t count, uint8_t max)
{
        size_t at = out->len;

        if (levels == NULL)
                return;
        ls_buf_put_le32(out, 0);
        ls_rle_put_u8(out, levels, count, ls_bits_width(max));
        if (!ls_buf_failed(out))
                ls_set_le32(out->ptr + at, (uint32_t)(out->len - at - 4));
}

static void
chunk_put_body(struct chunk *c, const struct chunk_page *p)
{
        const struct ls_vec *v = c->v;
        struct ls_buf *out = &c->w->body;

        ls_buf_clear(out);
        chunk_put_levels(out, v->rep ? v->rep + p->slot : NULL, p->slots, v->max_rep);
        chunk_put_levels(out, v->def ? v->def + p->slot : NULL, p->slots, v->max_def);
        if (c->choice.dictionary) {
                ls_buf_put_u8(out, (uint8_t)c->index_width);
                ls_rle_put_u32(out, c->w->dict.indexes + p->value, p->values, c->index_width);
        } else {
                ls_values_put(out, c->choice.encoding, v, p->value, p->values);
        }
}

static void
chunk_count_page(struct ls_pq_chunk *meta, int32_t type, int32_t encoding)
{
        struct ls_pq_encoding_stats *s = meta->encoding_stats;
        uint32_t i = 0;

        while (i < meta->encoding_stats_count &&
               (s[i].page_type != type || s[i].encoding != encoding))
                i++;
        LS_ASSERT(i < LS_PQ_ENCODING_STATS_MAX);
        if (i == meta->encoding_stats_count) {
                s[i] = (struct ls_pq_encoding_stats){ .page_type = type, .encoding = encoding };
                meta->encoding_stats_count++;
        }
        s[i].count++;
        meta->encodings |= LS_PARQUET_BIT(encoding);
}

/* Compresses w->body and writes it behind its header; counts bytes in the chunk. */
static ls_err
chunk_write_page(struct chunk *c, struct ls_pq_page_header *h, uint64_t *ret_bytes)
{
        struct ls_parquet_writer *w = c->w;
        ls_span body = ls_buf_span(&w->body);

        if (ls_buf_failed(&w->body) || body.len > INT32_MAX)
                return LS_TOO_LARGE;
        h->uncompressed_bytes = (int32_t)body.len;
        if (c->choice.codec != LS_PARQUET_UNCOMPRESSED) {
                LS_TRY(ls_pq_codec_pack(&w->codec, c->choice.codec, w->options.level, body,
                                        &w->packed));
                body = ls_buf_span(&w->packed);
                if (body.len > INT32_MAX)
                        return LS_TOO_LARGE;
        }
        h->compressed_bytes = (int32_t)body.len;
        h->has_crc = true;
        h->crc = ls_pq_crc32(body);
        ls_buf_clear(&w->header);
        ls_pq_put_page_header(&w->header, h);
        LS_TRY(ls_pq_writer_append(w, ls_buf_span(&w->header)));
        LS_TRY(ls_pq_writer_append(w, body));
        *ret_bytes = w->header.len + body.len;
        c->meta->compressed_bytes += (int64_t)*ret_bytes;
        c->meta->uncompressed_bytes += (int64_t)w->header.len + h->uncompressed_bytes;
        chunk_count_page(c->meta, h->type, h->encoding);
        return LS_OK;
}

static ls_err
chunk_write_dictionary(struct chunk *c)
{
        struct ls_parquet_writer *w = c->w;
        struct ls_pq_page_header h = { .type = LS_PQ_DICTIONARY_PAGE,
                                       .values = (int32_t)w->dict.values.count,
                                       .encoding = LS_PARQUET_PLAIN };
        uint64_t bytes;

        c->index_width = ls_bits_width(w->dict.values.count - 1);
        c->meta->dictionary_page_pos = (int64_t)w->pos;
        ls_buf_clear(&w->body);
        ls_values_put(&w->body, LS_PARQUET_PLAIN, &w->dict.values, 0, w->dict.values.count);
        return chunk_write_page(c, &h, &bytes);
}

static ls_span
chunk_keep(struct ls_parquet_writer *w, const uint8_t *bytes, size_t len)
{
        uint8_t *p = ls_arena_alloc(&w->arena, len + 1);

        LS_ASSERT(p != NULL); /* the arena has no bound that pages of a file could reach */
        memcpy(p, bytes, len);
        return (ls_span){ p, len };
}

static ls_err
chunk_write_data(struct chunk *c, const struct chunk_page *p)
{
        struct ls_parquet_writer *w = c->w;
        struct ls_pq_page_header h = { .type = LS_PQ_DATA_PAGE,
                                       .values = (int32_t)p->slots,
                                       .encoding = c->choice.dictionary
                                                           ? LS_PARQUET_RLE_DICTIONARY
                                                           : (int32_t)c->choice.encoding };
        struct ls_pq_index_page page = { .location.pos = (int64_t)w->pos,
                                         .location.first_row = (int64_t)p->row };
        struct ls_stats stats;
        uint64_t bytes;

        if (p->slots > INT32_MAX)
                return LS_TOO_LARGE;
        chunk_put_body(c, p);
        LS_TRY(chunk_write_page(c, &h, &bytes));
        if (bytes > INT32_MAX)
                return LS_TOO_LARGE;
        ls_stats_of(&stats, c->v, c->options->no_bounds ? 0 : p->value,
                    c->options->no_bounds ? 0 : p->values, p->slots - p->values,
                    w->options.bound_bytes);
        ls_stats_merge(&c->stats, &stats, &c->v->type);
        page.location.bytes = (int32_t)bytes;
        page.nulls = stats.nulls;
        page.only_nulls = p->values == 0;
        page.has_min = stats.has_min;
        page.has_max = stats.has_max;
        if (stats.has_min)
                page.min = chunk_keep(w, stats.min, stats.min_len);
        if (stats.has_max)
                page.max = chunk_keep(w, stats.max, stats.max_len);
        LS_PUSH(c->index->pages, c->index->count, c->index->cap, page);
        return LS_OK;
}

static void
chunk_set_statistics(struct chunk *c)
{
        struct ls_pq_statistics *s = &c->meta->statistics;

        *s = (struct ls_pq_statistics){ .null_count = (int64_t)c->stats.nulls,
                                        .min_exact = -1,
                                        .max_exact = -1 };
        if (c->stats.has_min) {
                s->min = chunk_keep(c->w, c->stats.min, c->stats.min_len);
                s->min_exact = c->stats.min_exact;
        }
        if (c->stats.has_max) {
                s->max = chunk_keep(c->w, c->stats.max, c->stats.max_len);
                s->max_exact = c->stats.max_exact;
        }
}

ls_err
ls_pq_chunk_write(struct ls_parquet_writer *w, uint32_t leaf, const struct ls_vec *v,
                  struct ls_pq_chunk *ret_chunk, struct ls_pq_index *ret_index)
{
        struct chunk c = {
                .w = w, .v = v, .options = &w->columns[leaf], .meta = ret_chunk, .index = ret_index
        };
        struct chunk_page page = { 0 };

        ls_pq_choose(w, leaf, v, &c.choice);
        *ret_chunk = (struct ls_pq_chunk){
                .physical = (int32_t)v->type.physical,
                .codec = (int32_t)c.choice.codec,
                .encodings = LS_PARQUET_BIT(LS_PARQUET_RLE), /* levels */
                .values = (int64_t)v->slots,
                .dictionary_page_pos = -1,
                .bloom_pos = -1,
                .offset_index_pos = -1,
                .column_index_pos = -1,
        };
        if (c.choice.dictionary)
                LS_TRY(chunk_write_dictionary(&c));
        ret_chunk->data_page_pos = (int64_t)w->pos;
        while (chunk_next_page(&c, &page))
                LS_TRY(chunk_write_data(&c, &page));
        chunk_set_statistics(&c);
        ls_stats_merge(&w->totals[leaf], &c.stats, &v->type);
        return LS_OK;
}

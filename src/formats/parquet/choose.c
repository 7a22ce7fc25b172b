/* formats/parquet/choose.c - how a column chunk is stored: dictionary or not, which encoding,
 * compressed or not.
 *
 * A sample of up to three windows (beginning, middle, end) is encoded in each allowed way and
 * compressed; the smallest wins. Whether a dictionary pays is estimated from its true size and from
 * how the indexes compress. A sample that does not shrink by CHOOSE_SAVING leaves the chunk
 * uncompressed: a reader then saves the time and a page can be cut out of it as it is.
 * Cost: under 100 KiB of compression a candidate and chunk; chunks are megabytes.
 */
#include "base/assert.h"
#include "formats/parquet/bits.h"
#include "formats/parquet/rle.h"
#include "formats/parquet/values.h"
#include "formats/parquet/writer_int.h"

#define CHOOSE_WINDOWS       3
#define CHOOSE_WINDOW_BYTES  ((size_t)32 << 10)
#define CHOOSE_WINDOW_VALUES 2048
#define CHOOSE_INDEXES       8192 /* dictionary indexes compressed for the estimate */
#define CHOOSE_SAVING        0.03 /* share that compression must save */

static void
choose_window(struct ls_vec *sample, const struct ls_vec *v, size_t from, size_t to)
{
        size_t bytes = 0;

        for (size_t i = from; i < to && bytes < CHOOSE_WINDOW_BYTES; i++) {
                if (v->type.physical == LS_COL_BYTES) {
                        ls_span s = v->span[i];

                        s.len = LS_MIN(s.len, CHOOSE_WINDOW_BYTES - bytes);
                        ls_vec_value_ref(sample, s);
                        bytes += s.len + 4;
                } else {
                        ls_vec_value_fixed(sample, v->u8 + i * v->value_bytes);
                        bytes += v->value_bytes;
                }
        }
}

static void
choose_sample(struct ls_parquet_writer *w, const struct ls_vec *v)
{
        struct ls_schema_node node = { .type = v->type };
        size_t n = v->count;

        ls_vec_done(&w->sample);
        ls_vec_init(&w->sample, &node);
        if (n <= CHOOSE_WINDOWS * (size_t)CHOOSE_WINDOW_VALUES) {
                size_t step = n / CHOOSE_WINDOWS;

                for (size_t k = 0; k < CHOOSE_WINDOWS; k++)
                        choose_window(&w->sample, v, k * step,
                                      k + 1 == CHOOSE_WINDOWS ? n : (k + 1) * step);
                return;
        }
        choose_window(&w->sample, v, 0, CHOOSE_WINDOW_VALUES);
        choose_window(&w->sample, v, n / 2, n / 2 + CHOOSE_WINDOW_VALUES);
        choose_window(&w->sample, v, n - CHOOSE_WINDOW_VALUES, n);
}

struct choose_cost {
        size_t plain; /* encoded */
        size_t packed;
};

static struct choose_cost
choose_try(struct ls_parquet_writer *w, enum ls_parquet_encoding encoding)
{
        struct choose_cost cost;

        ls_buf_clear(&w->sample_plain);
        ls_values_put(&w->sample_plain, encoding, &w->sample, 0, w->sample.count);
        cost.plain = cost.packed = w->sample_plain.len;
        if (w->options.codec != LS_PARQUET_UNCOMPRESSED &&
            ls_pq_codec_pack(&w->codec, w->options.codec, w->options.level,
                             ls_buf_span(&w->sample_plain), &w->sample_packed) == LS_OK)
                cost.packed = w->sample_packed.len;
        return cost;
}

/* Compressed share of the dictionary indexes, and their bytes before. */
static double
choose_index_bytes(struct ls_parquet_writer *w)
{
        size_t n = LS_MIN(w->dict.index_count, CHOOSE_INDEXES);
        unsigned width = ls_bits_width(w->dict.values.count - 1);
        size_t packed;

        ls_buf_clear(&w->sample_plain);
        ls_rle_put_u32(&w->sample_plain, w->dict.indexes + w->dict.index_count / 2 - n / 2, n,
                       width);
        packed = w->sample_plain.len;
        if (w->options.codec != LS_PARQUET_UNCOMPRESSED &&
            ls_pq_codec_pack(&w->codec, w->options.codec, w->options.level,
                             ls_buf_span(&w->sample_plain), &w->sample_packed) == LS_OK)
                packed = LS_MIN(packed, w->sample_packed.len);
        return (double)packed * (double)w->dict.index_count / (double)n;
}

static bool
choose_pays(const struct choose_cost *cost)
{
        return (double)cost->packed < (double)cost->plain * (1 - CHOOSE_SAVING);
}

/* Whether a dictionary is smaller than `best` for the whole chunk. */
static bool
choose_dictionary(struct ls_parquet_writer *w, uint32_t leaf, const struct ls_vec *v,
                  const struct choose_cost *best)
{
        const struct ls_parquet_column_options *o = &w->columns[leaf];
        double total = (double)ls_vec_plain_bytes(v), plain = 0, share;

        if ((o->encodings & LS_PARQUET_BIT(LS_PARQUET_RLE_DICTIONARY)) == 0 || o->no_dictionary ||
            v->type.physical == LS_COL_BOOL || v->count < 2)
                return false;
        if (!ls_pq_dict_build(&w->dict, v, LS_PARQUET_DICT_BYTES_MAX))
                return false;
        plain = (double)ls_vec_plain_bytes(&w->sample);
        share = plain > 0 ? LS_MIN(1.0, (double)best->packed / plain) : 1.0;
        return (double)w->dict.plain_bytes * share + choose_index_bytes(w) < total * share;
}

void
ls_pq_choose(struct ls_parquet_writer *w, uint32_t leaf, const struct ls_vec *v,
             struct ls_pq_choice *c)
{
        uint32_t allowed = w->columns[leaf].encodings & ls_values_encodings(&v->type);
        struct choose_cost best;

        *c = (struct ls_pq_choice){ .encoding = LS_PARQUET_PLAIN,
                                    .codec = LS_PARQUET_UNCOMPRESSED };
        if (v->count == 0)
                return;
        choose_sample(w, v);
        best = choose_try(w, LS_PARQUET_PLAIN);
        for (int e = 0; e < 32; e++) {
                struct choose_cost cost;

                if ((allowed >> e & 1) == 0)
                        continue;
                cost = choose_try(w, (enum ls_parquet_encoding)e);
                if (cost.packed < best.packed) {
                        best = cost;
                        c->encoding = (enum ls_parquet_encoding)e;
                }
        }
        c->dictionary = choose_dictionary(w, leaf, v, &best);
        if (c->dictionary || choose_pays(&best))
                c->codec = w->options.codec;
}

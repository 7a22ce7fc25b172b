/* avro/file.c - object container files.
 *
 *   "Obj" 1 | map<bytes> of metadata | sync (16) | block … block
 *   block: long records, long bytes, the encoded (compressed) records, sync (16)
 */
#include "formats/avro/file.h"

#include "base/assert.h"
#include "formats/avro/codec.h"
#include "formats/avro/limits.h"

#define SYNC_BYTES 16
/* Uncompressed bytes of a block we write: large enough to compress well, small enough to skip. */
#define BLOCK_BYTES ((size_t)256 << 10)

static const uint8_t magic[4] = { 'O', 'b', 'j', 1 };

struct ls_avro_reader {
        struct ls_avro_schema *schema;
        struct ls_avro_meta *meta;
        size_t meta_count, meta_cap;
        enum ls_avro_codec codec;
        const uint8_t *sync;
        ls_span blocks;      /* all of them */
        struct ls_rd rd;     /* at the next block */
        struct ls_rd block;  /* in the open block */
        uint64_t block_left; /* records in it */
        struct ls_buf plain; /* the open block, decompressed */
        ls_err ended;        /* LS_OK, LS_END or why */
};

struct ls_avro_writer {
        struct ls_buf *out;
        struct ls_buf block, packed;
        uint64_t block_count;
        enum ls_avro_codec codec;
        uint8_t sync[SYNC_BYTES];
};

/* ---- reader --------------------------------------------------------------------------------- */

static ls_err
read_meta(struct ls_avro_reader *r, struct ls_rd *rd)
{
        for (;;) {
                /* A pair takes two lengths. */
                uint64_t count = ls_avro_rd_block(rd, 2);

                if (rd->failed)
                        return LS_CORRUPT;
                if (count == 0)
                        return LS_OK;
                if (count > LS_AVRO_META_MAX - r->meta_count)
                        return LS_TOO_LARGE;
                for (; count > 0; count--) {
                        ls_span key = ls_avro_rd_bytes(rd);
                        ls_span value = ls_avro_rd_bytes(rd);
                        struct ls_avro_meta m = { ls_str_make((const char *)key.ptr, key.len),
                                                  value };

                        if (rd->failed)
                                return LS_CORRUPT;
                        LS_PUSH(r->meta, r->meta_count, r->meta_cap, m);
                }
        }
}

static ls_err
reader_open(struct ls_avro_reader *r, ls_span file, struct ls_errinfo *reterr)
{
        struct ls_rd rd = ls_rd_of(file);
        const uint8_t *head = ls_rd_take(&rd, sizeof magic);
        ls_span schema;
        ls_err e;

        if (head == NULL || memcmp(head, magic, sizeof magic) != 0)
                return ls_fail(reterr, LS_CORRUPT, "not an Avro container file");
        e = read_meta(r, &rd);
        if (e != LS_OK)
                return ls_fail(reterr, e, "Avro file header is damaged or too large");
        r->sync = ls_rd_take(&rd, SYNC_BYTES);
        schema = ls_avro_reader_meta(r, "avro.schema");
        if (r->sync == NULL || schema.ptr == NULL)
                return ls_fail(reterr, LS_CORRUPT,
                               "Avro file header is cut short or has no schema");
        if (ls_avro_codec_parse(ls_avro_reader_meta(r, "avro.codec"), &r->codec) != LS_OK)
                return ls_fail(reterr, LS_UNSUPPORTED, "Avro codec is not supported");
        LS_TRY(ls_avro_schema_parse(ls_str_make((const char *)schema.ptr, schema.len), &r->schema,
                                    reterr));
        r->rd = rd;
        r->blocks = ls_span_of(rd.pos, ls_rd_left(&rd));
        return LS_OK;
}

ls_err
ls_avro_reader_open(ls_span file, struct ls_avro_reader **ret_reader, struct ls_errinfo *reterr)
{
        LS_AUTO(ls_avro_reader_close) struct ls_avro_reader *r = ls_calloc(1, sizeof *r);

        ls_buf_init(&r->plain, LS_AVRO_BLOCK_BYTES_MAX * 2);
        LS_TRY(reader_open(r, file, reterr));
        *ret_reader = LS_STEAL(r);
        return LS_OK;
}

void
ls_avro_reader_close(struct ls_avro_reader *r)
{
        if (r == NULL)
                return;
        ls_avro_schema_free(r->schema);
        ls_buf_done(&r->plain);
        ls_free(r->meta);
        ls_free(r);
}

const struct ls_avro_schema *
ls_avro_reader_schema(const struct ls_avro_reader *r)
{
        return r->schema;
}

ls_span
ls_avro_reader_meta(const struct ls_avro_reader *r, const char *key)
{
        for (size_t i = 0; i < r->meta_count; i++)
                if (ls_str_is(r->meta[i].key, key))
                        return r->meta[i].value;
        return LS_SPAN_NULL;
}

/* Steps over the head, the bytes and the marker of one block. LS_END at the end of the file. */
static ls_err
block_head(const struct ls_avro_reader *r, struct ls_rd *rd, uint64_t *ret_count, ls_span *ret)
{
        int64_t count, bytes;
        const uint8_t *sync;

        if (ls_rd_left(rd) == 0)
                return LS_END;
        count = ls_rd_varint(rd);
        bytes = ls_rd_varint(rd);
        if (rd->failed || count < 0 || bytes < 0)
                return LS_CORRUPT;
        *ret = ls_rd_span(rd, (size_t)bytes);
        sync = ls_rd_take(rd, SYNC_BYTES);
        if (sync == NULL || memcmp(sync, r->sync, SYNC_BYTES) != 0)
                return LS_CORRUPT;
        *ret_count = (uint64_t)count;
        return LS_OK;
}

static ls_err
open_block(struct ls_avro_reader *r)
{
        uint32_t bytes_min = ls_avro_schema_root(r->schema)->bytes_min;
        ls_span packed, plain;
        uint64_t count, most;

        LS_TRY(block_head(r, &r->rd, &count, &packed));
        if (r->codec == LS_AVRO_CODEC_NULL) {
                plain = packed;
        } else {
                ls_buf_clear(&r->plain);
                LS_TRY(ls_avro_decompress(r->codec, packed, &r->plain, LS_AVRO_BLOCK_BYTES_MAX));
                plain = ls_buf_span(&r->plain);
        }
        most = bytes_min > 0 ? plain.len / bytes_min : LS_AVRO_EMPTY_ITEMS_MAX;
        if (count > most)
                return LS_CORRUPT;
        r->block = ls_rd_of(plain);
        r->block_left = count;
        return LS_OK;
}

static ls_err
reader_next(struct ls_avro_reader *r, struct ls_arena *arena, struct ls_avro_value *ret_value)
{
        while (r->block_left == 0) {
                if (ls_rd_left(&r->block) > 0)
                        return LS_CORRUPT; /* more bytes than the records took */
                LS_TRY(open_block(r));
        }
        r->block_left--;
        return ls_avro_decode(ls_avro_schema_root(r->schema), &r->block, arena, ret_value);
}

ls_err
ls_avro_reader_next(struct ls_avro_reader *r, struct ls_arena *arena,
                    struct ls_avro_value *ret_value)
{
        if (r->ended == LS_OK)
                r->ended = reader_next(r, arena, ret_value);
        return r->ended;
}

ls_err
ls_avro_reader_count(const struct ls_avro_reader *r, uint64_t *ret_count)
{
        struct ls_rd rd = ls_rd_of(r->blocks);
        uint64_t sum = 0, count;
        ls_span packed;

        for (;;) {
                ls_err e = block_head(r, &rd, &count, &packed);

                if (e == LS_END)
                        break;
                LS_TRY(e);
                if (__builtin_add_overflow(sum, count, &sum))
                        return LS_CORRUPT;
        }
        *ret_count = sum;
        return LS_OK;
}

/* ---- writer --------------------------------------------------------------------------------- */

struct ls_avro_writer *
ls_avro_writer_new(struct ls_buf *out, ls_str schema_json, enum ls_avro_codec codec,
                   const uint8_t sync[16], const struct ls_avro_meta *meta, size_t meta_count)
{
        struct ls_avro_writer *w = ls_calloc(1, sizeof *w);

        w->out = out;
        w->codec = codec;
        memcpy(w->sync, sync, SYNC_BYTES);
        ls_buf_init(&w->block, out->max);
        ls_buf_init(&w->packed, out->max);
        ls_buf_put(out, magic, sizeof magic);
        ls_buf_put_varint(out, (int64_t)meta_count + 2);
        for (size_t i = 0; i < meta_count; i++) {
                ls_avro_put_str(out, meta[i].key);
                ls_avro_put_bytes(out, meta[i].value);
        }
        ls_avro_put_str(out, LS_STR("avro.codec"));
        ls_avro_put_str(out, ls_str_of(ls_avro_codec_name(codec)));
        ls_avro_put_str(out, LS_STR("avro.schema"));
        ls_avro_put_str(out, schema_json);
        ls_buf_put_varint(out, 0);
        ls_buf_put(out, w->sync, SYNC_BYTES);
        return w;
}

void
ls_avro_writer_free(struct ls_avro_writer *w)
{
        if (w == NULL)
                return;
        ls_buf_done(&w->block);
        ls_buf_done(&w->packed);
        ls_free(w);
}

struct ls_buf *
ls_avro_writer_record(struct ls_avro_writer *w)
{
        return &w->block;
}

static ls_err
flush_block(struct ls_avro_writer *w)
{
        if (w->block_count == 0)
                return LS_OK;
        ls_buf_clear(&w->packed);
        if (ls_buf_failed(&w->block) ||
            ls_avro_compress(w->codec, ls_buf_span(&w->block), &w->packed) != LS_OK)
                return LS_ELIMIT;
        ls_buf_put_varint(w->out, (int64_t)w->block_count);
        ls_buf_put_varint(w->out, (int64_t)w->packed.len);
        ls_buf_put_span(w->out, ls_buf_span(&w->packed));
        ls_buf_put(w->out, w->sync, SYNC_BYTES);
        ls_buf_clear(&w->block);
        w->block_count = 0;
        return ls_buf_failed(w->out) ? LS_ELIMIT : LS_OK;
}

ls_err
ls_avro_writer_record_end(struct ls_avro_writer *w)
{
        w->block_count++;
        return w->block.len >= BLOCK_BYTES || ls_buf_failed(&w->block) ? flush_block(w) : LS_OK;
}

size_t
ls_avro_writer_bytes(const struct ls_avro_writer *w)
{
        return w->out->len + w->block.len;
}

ls_err
ls_avro_writer_finish(struct ls_avro_writer *w)
{
        LS_TRY(flush_block(w));
        return ls_buf_failed(w->out) ? LS_ELIMIT : LS_OK;
}

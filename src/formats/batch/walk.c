/* formats/batch/walk.c - validate a batch by a streaming walk over its records.
 *
 * The walk reads through a window. Over an uncompressed batch the window is the batch itself; over
 * a compressed one it is a buffer of BATCH_WALK_BYTES that the decompressor refills, what is left
 * being moved to its front. A record that fits the window is parsed in one go, by the same function
 * as the iterator's; one that does not (a long one in a compressed batch) is taken field by field,
 * its long fields hashed in pieces. Both ways give the same hash (the test compares them).
 */
#include "base/assert.h"
#include "formats/batch/limits.h"
#include "formats/batch/record_int.h"

struct ls_batch_walker {
        struct ls_unpacker *unpacker; /* made at the first compressed batch */
        uint8_t *window;              /* likewise: BATCH_WALK_BYTES */
};

/* One validation under way. */
struct walk {
        const struct ls_batch_check *check;
        struct ls_batch_info *info;
        struct ls_batch_fault *fault; /* may be NULL */
        struct ls_batch_walker *walker;
        struct ls_rd rd; /* the window */
        bool streaming;  /* the window can be refilled */
        bool at_end;     /* the decompressor has nothing more */
        int32_t index;   /* of the record at hand */
        int64_t timestamp;
};

/* What is known of a record once it has been read, whichever way. */
struct walk_record {
        int64_t timestamp_delta, offset_delta;
        uint64_t body_bytes;
        struct hash_parts parts;
        uint64_t hash;
};

struct ls_batch_walker *
ls_batch_walker_new(void)
{
        return ls_calloc(1, sizeof(struct ls_batch_walker));
}

void
ls_batch_walker_free(struct ls_batch_walker *w)
{
        if (w == NULL)
                return;
        ls_unpacker_free(w->unpacker);
        ls_free(w->window);
        ls_free(w);
}

/* `record` -1: the batch as a whole. */
static ls_err
walk_fail(const struct walk *w, ls_err e, int32_t record, const char *words)
{
        if (w->fault == NULL)
                return e;
        w->fault->record = record;
        if (record < 0)
                return ls_fail(&w->fault->info, e, "%s", words);
        return ls_fail(&w->fault->info, e, "record %d: %s", record, words);
}

/* --- the window ------------------------------------------------------------------------------- */

/* Makes `bytes` (at most BATCH_WALK_BYTES) stand in the window, or as many as there are. */
static ls_err
window_fill(struct walk *w, size_t bytes)
{
        size_t left = ls_rd_left(&w->rd);
        uint8_t *window = w->walker->window;

        if (!w->streaming || left >= bytes || w->at_end)
                return LS_OK;
        LS_ASSERT(bytes <= BATCH_WALK_BYTES);
        if (left > 0)
                memmove(window, w->rd.pos, left);
        while (left < bytes) {
                size_t len = 0;
                ls_err e = ls_unpacker_read(w->walker->unpacker, window + left,
                                            BATCH_WALK_BYTES - left, &len);

                if (e == LS_END) {
                        w->at_end = true;
                        break;
                }
                if (e == LS_TOO_LARGE)
                        return walk_fail(w, e, -1, "decompresses to more than is allowed");
                if (e != LS_OK)
                        return walk_fail(w, e, -1, "compressed records are damaged");
                left += len;
                w->info->unpacked_bytes += len;
        }
        w->rd.pos = window;
        w->rd.end = window + left;
        return LS_OK;
}

/* A number of a record that is longer than the window; *left are the bytes it still has. */
static ls_err
window_number(struct walk *w, uint64_t *left, int64_t *ret_value)
{
        size_t before;

        LS_TRY(window_fill(w, BATCH_FIELDS_BYTES_MAX));
        before = ls_rd_left(&w->rd);
        *ret_value = record_varint(&w->rd);
        before -= ls_rd_left(&w->rd);
        if (w->rd.failed || before > *left)
                return walk_fail(w, LS_INVALID, w->index, "a field passes the record's end");
        *left -= before;
        return LS_OK;
}

/* A length (min -1: may be null) and the hash of that many bytes, over any number of windows. */
static ls_err
window_field(struct walk *w, uint64_t *left, int64_t min, int64_t *ret_len, uint64_t *ret_hash)
{
        XXH3_state_t state;
        int64_t len = 0;
        uint64_t todo;

        LS_TRY(window_number(w, left, &len));
        if (len < min || len > INT32_MAX || (len > 0 && (uint64_t)len > *left))
                return walk_fail(w, LS_INVALID, w->index, "a length that cannot be true");
        *ret_len = len;
        *ret_hash = 0;
        if (len < 0)
                return LS_OK;
        *left -= (uint64_t)len;
        XXH3_INITSTATE(&state);
        XXH3_64bits_reset(&state);
        for (todo = (uint64_t)len; todo > 0;) {
                size_t piece;

                LS_TRY(window_fill(w, 1));
                piece = (size_t)LS_MIN((uint64_t)ls_rd_left(&w->rd), todo);
                if (piece == 0)
                        return walk_fail(w, LS_INVALID, w->index, "ends before its length says");
                XXH3_64bits_update(&state, ls_rd_take(&w->rd, piece), piece);
                todo -= piece;
        }
        *ret_hash = XXH3_64bits_digest(&state);
        return LS_OK;
}

/* --- one record ------------------------------------------------------------------------------- */

/* The body of a record that is longer than the window. */
static ls_err
walk_long_record(struct walk *w, struct walk_record *r)
{
        uint64_t left = r->body_bytes;
        int64_t header_count = 0;
        struct hash_parts *parts = &r->parts;

        LS_TRY(window_fill(w, 1));
        ls_rd_u8(&w->rd); /* attributes */
        left--;
        LS_TRY(window_number(w, &left, &r->timestamp_delta));
        LS_TRY(window_number(w, &left, &r->offset_delta));
        LS_TRY(window_field(w, &left, -1, &parts->key_len, &parts->key));
        LS_TRY(window_field(w, &left, -1, &parts->value_len, &parts->value));
        LS_TRY(window_number(w, &left, &header_count));
        if (header_count < 0 || (uint64_t)header_count * 2 > left)
                return walk_fail(w, LS_INVALID, w->index, "a header count that cannot be true");
        parts->header_count = (uint64_t)header_count;
        for (int64_t i = 0; i < header_count; i++) {
                int64_t key_len = 0, value_len = 0;
                uint64_t key = 0, value = 0;

                LS_TRY(window_field(w, &left, 0, &key_len, &key));
                LS_TRY(window_field(w, &left, -1, &value_len, &value));
                parts->headers = hash_header(parts->headers, key_len, value_len, key, value);
        }
        if (left != 0)
                return walk_fail(w, LS_INVALID, w->index, "has bytes behind its fields");
        return LS_OK;
}

static ls_err
walk_timestamp(struct walk *w, const struct walk_record *r)
{
        const struct ls_batch_check *c = w->check;
        int64_t age;

        if (c->log_append_time) {
                w->timestamp = c->now_ms;
                return LS_OK;
        }
        if (__builtin_add_overflow(w->info->header.base_timestamp, r->timestamp_delta,
                                   &w->timestamp))
                return walk_fail(w, LS_INVALID, w->index, "its timestamp is out of range");
        if (w->timestamp == LS_NO_TIMESTAMP)
                return LS_OK;
        if (w->timestamp > LS_TIMESTAMP_MS_MAX || w->timestamp < -LS_TIMESTAMP_MS_MAX)
                return walk_fail(w, LS_TIMESTAMP, w->index,
                                 "its timestamp is beyond what a table can hold");
        if (__builtin_sub_overflow(c->now_ms, w->timestamp, &age))
                age = w->timestamp < 0 ? INT64_MAX : INT64_MIN;
        if (age > c->before_ms_max)
                return walk_fail(w, LS_TIMESTAMP, w->index,
                                 "its timestamp is too old (message.timestamp.before.max.ms)");
        if (age < 0 && (age == INT64_MIN || -age > c->after_ms_max) && c->after_ms_max < INT64_MAX)
                return walk_fail(w, LS_TIMESTAMP, w->index,
                                 "its timestamp is in the future (message.timestamp.after.max.ms)");
        return LS_OK;
}

/* What holds for a record however it was read. */
static ls_err
walk_check(struct walk *w, const struct walk_record *r, bool has_key)
{
        struct ls_batch_info *info = w->info;

        if (r->offset_delta != w->index)
                return walk_fail(w, LS_INVALID, w->index, "its offset does not follow");
        if (w->check->need_keys && !has_key && !info->control)
                return walk_fail(w, LS_NO_KEY, w->index,
                                 "has no key, which a compacted topic needs");
        return LS_OK;
}

static ls_err
walk_record(struct walk *w)
{
        struct walk_record r = { 0 };
        struct ls_record record;
        struct ls_batch_info *info = w->info;
        int64_t body;
        bool has_key;

        LS_TRY(window_fill(w, BATCH_FIELDS_BYTES_MAX));
        body = record_length(&w->rd, BATCH_RECORD_BYTES_MIN - 1);
        if (w->rd.failed)
                return walk_fail(w, LS_INVALID, w->index, "its length is malformed");
        r.body_bytes = (uint64_t)body;
        if (w->streaming && r.body_bytes > BATCH_WALK_BYTES) {
                LS_TRY(walk_long_record(w, &r));
                LS_TRY(walk_timestamp(w, &r));
                r.parts.timestamp = w->timestamp;
                r.hash = hash_record(&r.parts);
                has_key = r.parts.key_len >= 0;
        } else {
                LS_TRY(window_fill(w, r.body_bytes));
                if (!record_parse(ls_rd_span(&w->rd, r.body_bytes), &r.timestamp_delta,
                                  &r.offset_delta, &record))
                        return walk_fail(w, LS_INVALID, w->index, "is malformed");
                LS_TRY(walk_timestamp(w, &r));
                record.timestamp = w->timestamp;
                r.hash = ls_record_hash(&record);
                has_key = record.key.ptr != NULL;
        }
        LS_TRY(walk_check(w, &r, has_key));
        info->sum0 += r.hash;
        info->sum1 += r.hash * (uint64_t)w->index;
        if (w->index == 0 || w->timestamp > info->max_timestamp) {
                info->max_timestamp = w->timestamp;
                info->max_timestamp_delta = w->index;
        }
        if (w->index == 0 || w->timestamp < info->min_timestamp)
                info->min_timestamp = w->timestamp;
        return LS_OK;
}

/* --- the batch -------------------------------------------------------------------------------- */

static ls_err
walk_records(struct walk *w, ls_span records)
{
        const struct ls_batch_header *h = &w->info->header;
        enum ls_codec codec = ls_batch_codec(h);

        w->streaming = codec != LS_CODEC_NONE;
        if (w->streaming) {
                uint64_t max = w->check->unpacked_bytes_max;

                if (w->walker->unpacker == NULL) {
                        w->walker->unpacker = ls_unpacker_new();
                        w->walker->window = ls_malloc(BATCH_WALK_BYTES);
                }
                LS_TRY(ls_unpacker_start(w->walker->unpacker, codec, records,
                                         max ? max : BATCH_UNPACKED_BYTES_MAX));
                w->rd = ls_rd_of((ls_span){ w->walker->window, 0 });
        } else {
                if ((uint64_t)h->count * BATCH_RECORD_BYTES_MIN > records.len)
                        return walk_fail(w, LS_INVALID, -1,
                                         "says to have more records than can be in it");
                w->rd = ls_rd_of(records);
                w->info->unpacked_bytes = records.len;
        }
        for (w->index = 0; w->index < h->count; w->index++)
                LS_TRY(walk_record(w));
        LS_TRY(window_fill(w, 1));
        if (ls_rd_left(&w->rd) > 0)
                return walk_fail(w, LS_INVALID, -1, "has bytes behind its last record");
        w->info->has_sums = true;
        return LS_OK;
}

static ls_err
check_producer(const struct walk *w)
{
        const struct ls_batch_header *h = &w->info->header;

        if (h->producer_id < -1)
                return walk_fail(w, LS_INVALID, -1, "its producer id is negative");
        if (h->producer_id == -1)
                return w->info->transactional
                               ? walk_fail(w, LS_INVALID, -1, "is transactional without a producer")
                               : LS_OK;
        if (h->producer_epoch < 0)
                return walk_fail(w, LS_INVALID, -1, "its producer epoch is negative");
        if (h->base_sequence < 0 && !w->info->control)
                return walk_fail(w, LS_INVALID, -1, "its sequence number is negative");
        return LS_OK;
}

static ls_err
check_header(const struct walk *w, size_t batch_bytes)
{
        const struct ls_batch_header *h = &w->info->header;
        const struct ls_batch_check *c = w->check;

        if (h->bytes != batch_bytes)
                return walk_fail(w, LS_CORRUPT, -1, "its length is not that of its bytes");
        if (c->batch_bytes_max > 0 && h->bytes > c->batch_bytes_max)
                return walk_fail(w, LS_TOO_LARGE, -1, "is larger than max.message.bytes");
        return LS_OK;
}

/* What the CRC covers: asked only once that matches. */
static ls_err
check_fields(const struct walk *w)
{
        const struct ls_batch_header *h = &w->info->header;
        const struct ls_batch_check *c = w->check;

        if (ls_batch_codec(h) > LS_CODEC_ZSTD)
                return walk_fail(w, LS_UNSUPPORTED, -1, "its compression codec is unknown");
        if (h->count <= 0)
                return walk_fail(w, LS_INVALID, -1, "has no records");
        if (h->last_offset_delta != h->count - 1)
                return walk_fail(w, LS_INVALID, -1, "its offset range is not its record count");
        if (!c->allow_control && (h->attributes & LS_BATCH_CONTROL))
                return walk_fail(w, LS_INVALID, -1, "control batches are not for clients to write");
        if (!c->allow_control && (h->attributes & LS_BATCH_DELETE_HORIZON))
                return walk_fail(w, LS_INVALID, -1, "delete horizons are not for clients to set");
        if (h->attributes & LS_BATCH_LOG_APPEND_TIME)
                return walk_fail(w, LS_TIMESTAMP, -1,
                                 "producers must not set the log append timestamp type");
        return check_producer(w);
}

/* Header only: as good as the header is. */
static ls_err
check_header_timestamps(struct walk *w)
{
        struct ls_batch_info *info = w->info;
        struct walk_record r = { 0 };

        info->max_timestamp_delta = w->check->log_append_time ? 0 : info->header.last_offset_delta;
        LS_TRY(walk_timestamp(w, &r)); /* of the base */
        if (!w->check->log_append_time) {
                r.timestamp_delta = info->header.max_timestamp - info->header.base_timestamp;
                LS_TRY(walk_timestamp(w, &r));
        }
        info->max_timestamp = w->timestamp;
        info->min_timestamp = info->max_timestamp;
        return LS_OK;
}

static bool
header_is_enough(const struct ls_batch_check *check, const struct ls_batch_header *h)
{
        int64_t span;

        if (check->depth != LS_BATCH_HEADER_ONLY || check->need_keys)
                return false;
        return check->log_append_time ||
               (h->max_timestamp >= h->base_timestamp &&
                !__builtin_sub_overflow(h->max_timestamp, h->base_timestamp, &span));
}

static ls_err
walk_batch(struct walk *w, ls_span batch)
{
        struct ls_batch_info *info = w->info;
        ls_err e = ls_batch_peek(batch, &info->header);

        if (e == LS_UNSUPPORTED)
                return walk_fail(w, e, -1, "its format is not version 2 (magic 2)");
        if (e != LS_OK)
                return walk_fail(w, LS_CORRUPT, -1, "its header is cut or its length is wrong");
        LS_TRY(check_header(w, batch.len));
        if (ls_batch_check_crc(batch) != LS_OK)
                return walk_fail(w, LS_CORRUPT, -1, "its CRC-32C does not match");
        info->transactional = (info->header.attributes & LS_BATCH_TRANSACTIONAL) != 0;
        info->control = (info->header.attributes & LS_BATCH_CONTROL) != 0;
        LS_TRY(check_fields(w));
        if (header_is_enough(w->check, &info->header))
                LS_TRY(check_header_timestamps(w));
        else
                LS_TRY(walk_records(w, (ls_span){ batch.ptr + LS_BATCH_HEADER_BYTES,
                                                  batch.len - LS_BATCH_HEADER_BYTES }));
        info->fix_timestamps =
                w->check->log_append_time || info->max_timestamp != info->header.max_timestamp;
        return LS_OK;
}

ls_err
ls_batch_validate(struct ls_batch_walker *walker, ls_span batch, const struct ls_batch_check *check,
                  struct ls_batch_info *ret_info, struct ls_batch_fault *reterr)
{
        struct ls_batch_walker own = { 0 };
        struct ls_batch_info info = { 0 };
        struct walk w = {
                .check = check,
                .info = &info,
                .fault = reterr,
                .walker = walker ? walker : &own,
        };
        ls_err e = walk_batch(&w, batch);

        ls_unpacker_free(own.unpacker);
        ls_free(own.window);
        if (e == LS_OK)
                *ret_info = info;
        return e;
}

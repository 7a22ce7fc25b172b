/* formats/batch/record.c - one record: its headers and its hash. */
#include "base/assert.h"
#include "formats/batch/record_int.h"

bool
ls_record_header_next(struct ls_rd *cursor, ls_str *ret_key, ls_span *ret_value)
{
        ls_span key, value;

        if (cursor->failed || ls_rd_left(cursor) == 0)
                return false;
        key = record_bytes(cursor, record_length(cursor, 0));
        value = record_bytes(cursor, record_length(cursor, -1));
        if (cursor->failed)
                return false;
        *ret_key = (ls_str){ (const char *)key.ptr, key.len };
        *ret_value = value;
        return true;
}

void
ls_record_header_put(struct ls_buf *headers, ls_str key, ls_span value)
{
        LS_ASSERT(key.ptr != NULL);
        LS_ASSERT(key.len <= INT32_MAX && value.len <= INT32_MAX);
        ls_buf_put_varint(headers, (int64_t)key.len);
        ls_buf_put_str(headers, key);
        ls_buf_put_varint(headers, hash_length(value));
        ls_buf_put_span(headers, value);
}

uint64_t
ls_record_hash(const struct ls_record *r)
{
        struct hash_parts parts = {
                .timestamp = r->timestamp,
                .key_len = hash_length(r->key),
                .value_len = hash_length(r->value),
                .header_count = r->header_count,
                .key = hash_bytes(r->key),
                .value = hash_bytes(r->value),
        };

        if (r->header_count > 0) {
                struct ls_rd cursor = ls_rd_of(r->headers);
                ls_str key;
                ls_span value;

                while (ls_record_header_next(&cursor, &key, &value)) {
                        parts.headers =
                                hash_header(parts.headers, (int64_t)key.len, hash_length(value),
                                            XXH3_64bits(key.ptr, key.len), hash_bytes(value));
                }
        }
        return hash_record(&parts);
}

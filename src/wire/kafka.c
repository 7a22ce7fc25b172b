/* wire/kafka.c - frames: size, header, message. See kafka.h. */
#include "wire/kafka.h"

#include "base/assert.h"
#include "base/rd.h"

enum {
        SIZE_BYTES = 4,
        REQUEST_FIXED_BYTES = 8, /* key, version, correlation id: the same in every version */
};

/* ---- tables ---- */

const struct ls_kafka_api *
ls_kafka_api_find(int16_t key)
{
        size_t low = 0, high = LS_KAFKA_API_COUNT;

        while (low < high) {
                size_t mid = (low + high) / 2;

                if (ls_kafka_apis[mid].key == key)
                        return &ls_kafka_apis[mid];
                if (ls_kafka_apis[mid].key < key)
                        low = mid + 1;
                else
                        high = mid;
        }
        return NULL;
}

const struct ls_kafka_error_info *
ls_kafka_error_find(int16_t code)
{
        const struct ls_kafka_error_info *unknown = NULL;

        for (size_t i = 0; i < LS_KAFKA_ERROR_COUNT; i++) {
                if (ls_kafka_errors[i].code == code)
                        return &ls_kafka_errors[i];
                if (ls_kafka_errors[i].code == LS_KAFKA_ERR_UNKNOWN_SERVER_ERROR)
                        unknown = &ls_kafka_errors[i];
        }
        LS_ASSERT(unknown != NULL);
        return unknown;
}

/* ---- headers ---- */

static int16_t
request_header_version(const struct ls_kafka_api *api, int16_t version)
{
        return version >= api->flexible_min ? 2 : 1;
}

/* ApiVersions answers always with the old header: the client does not know yet what we speak. */
static int16_t
response_header_version(const struct ls_kafka_api *api, int16_t version)
{
        return api->key != LS_KAFKA_API_API_VERSIONS && version >= api->flexible_min ? 1 : 0;
}

/* ---- frames ---- */

/* Where a frame started, so that a failed one can be taken back. */
struct frame_mark {
        size_t len, splice_count, spliced_bytes;
};

static struct frame_mark
frame_begin(struct ls_wire_out *out)
{
        struct frame_mark mark = { out->buf.len, out->splice_count, out->spliced_bytes };

        ls_buf_put_be32(&out->buf, 0);
        return mark;
}

static ls_err
frame_end(struct ls_wire_out *out, const struct frame_mark *mark, ls_err e)
{
        size_t bytes = ls_wire_out_bytes(out) - mark->len - mark->spliced_bytes;

        LS_ASSERT(out->splice_count >= mark->splice_count);
        if (e == LS_OK && (ls_buf_failed(&out->buf) || bytes - SIZE_BYTES > INT32_MAX))
                e = LS_TOO_LARGE;
        if (e != LS_OK) {
                out->buf.len = mark->len;
                out->buf.failed = false;
                out->splice_count = mark->splice_count;
                out->spliced_bytes = mark->spliced_bytes;
                return e;
        }
        ls_set_be32(out->buf.ptr + mark->len, (uint32_t)(bytes - SIZE_BYTES));
        return LS_OK;
}

ls_err
ls_kafka_request_decode(ls_span frame, struct ls_arena *arena, struct ls_kafka_request *ret_request)
{
        struct ls_kafka_request r = { 0 };
        struct ls_kafka_request_header header;
        struct ls_rd rd = ls_rd_of(frame);
        ls_span rest = LS_SPAN_NULL;

        *ret_request = r;
        r.key = (int16_t)ls_rd_be16(&rd);
        r.version = (int16_t)ls_rd_be16(&rd);
        r.correlation_id = (int32_t)ls_rd_be32(&rd);
        if (ls_rd_failed(&rd))
                return LS_CORRUPT;
        r.api = ls_kafka_api_find(r.key);
        *ret_request = r;
        if (r.api == NULL || r.version < r.api->version_min || r.version > r.api->version_max)
                return LS_UNSUPPORTED;
        LS_TRY(ls_wire_decode_prefix(&ls_kafka_request_header_message,
                                     request_header_version(r.api, r.version), frame, arena,
                                     &header, &rest));
        r.client_id = header.client_id;
        r.body = ls_arena_alloc(arena, r.api->request->root->size);
        if (r.body == NULL)
                return LS_TOO_LARGE;
        LS_TRY(ls_wire_decode_prefix(r.api->request, r.version, rest, arena, r.body, &rest));
        *ret_request = r;
        return LS_OK;
}

ls_err
ls_kafka_response_encode(const struct ls_kafka_api *api, int16_t version, int32_t correlation_id,
                         const void *body, struct ls_wire_out *out)
{
        struct ls_kafka_response_header header = { .correlation_id = correlation_id };
        struct frame_mark mark = frame_begin(out);
        ls_err e;

        e = ls_wire_encode(&ls_kafka_response_header_message, response_header_version(api, version),
                           &header, out);
        if (e == LS_OK)
                e = ls_wire_encode(api->response, version, body, out);
        return frame_end(out, &mark, e);
}

ls_err
ls_kafka_request_encode(const struct ls_kafka_api *api, int16_t version, int32_t correlation_id,
                        ls_str client_id, const void *body, struct ls_wire_out *out)
{
        struct ls_kafka_request_header header = { .request_api_key = api->key,
                                                  .request_api_version = version,
                                                  .correlation_id = correlation_id,
                                                  .client_id = client_id };
        struct frame_mark mark = frame_begin(out);
        ls_err e;

        e = ls_wire_encode(&ls_kafka_request_header_message, request_header_version(api, version),
                           &header, out);
        if (e == LS_OK)
                e = ls_wire_encode(api->request, version, body, out);
        return frame_end(out, &mark, e);
}

ls_err
ls_kafka_response_decode(const struct ls_kafka_api *api, int16_t version, ls_span frame,
                         struct ls_arena *arena, int32_t *ret_correlation_id, void *ret_body)
{
        struct ls_kafka_response_header header;
        ls_span rest = LS_SPAN_NULL;

        LS_TRY(ls_wire_decode_prefix(&ls_kafka_response_header_message,
                                     response_header_version(api, version), frame, arena, &header,
                                     &rest));
        LS_TRY(ls_wire_decode(api->response, version, rest, arena, ret_body));
        *ret_correlation_id = header.correlation_id;
        return LS_OK;
}

/* ---- data of the consumer protocol ---- */

ls_err
ls_kafka_data_decode(const struct ls_wire_message *m, ls_span bytes, struct ls_arena *arena,
                     int16_t *ret_version, void *obj)
{
        struct ls_rd rd = ls_rd_of(bytes);
        int16_t version = (int16_t)ls_rd_be16(&rd);
        ls_span rest = LS_SPAN_NULL;

        if (ls_rd_failed(&rd))
                return LS_CORRUPT;
        if (version < m->version_min)
                return LS_UNSUPPORTED;
        if (version > m->version_max)
                version = m->version_max;
        LS_TRY(ls_wire_decode_prefix(m, version, ls_span_of(rd.pos, ls_rd_left(&rd)), arena, obj,
                                     &rest));
        *ret_version = version;
        return LS_OK;
}

ls_err
ls_kafka_data_encode(const struct ls_wire_message *m, int16_t version, const void *obj,
                     struct ls_wire_out *out)
{
        ls_buf_put_be16(&out->buf, (uint16_t)version);
        return ls_wire_encode(m, version, obj, out);
}

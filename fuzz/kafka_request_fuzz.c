/* fuzz/kafka_request_fuzz.c - any bytes as a Kafka frame: a request, then a response of the API and
 * version that its first bytes name. What decodes must encode, in the size that was told, and
 * decode again to the same bytes. */
#include <stdlib.h>

#include "base/assert.h"
#include "wire/kafka.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ARENA_BYTES_MAX = 64 << 20 };

static void
check_stable(const struct ls_wire_message *m, int16_t version, const void *obj,
             struct ls_arena *arena)
{
        struct ls_wire_out first, second;
        struct ls_buf text;
        void *back = ls_arena_alloc(arena, m->root->size);

        ls_wire_out_init(&first, LS_BUF_MAX_DEFAULT);
        ls_wire_out_init(&second, LS_BUF_MAX_DEFAULT);
        ls_buf_init(&text, LS_BUF_MAX_DEFAULT);
        LS_ASSERT(ls_wire_encode(m, version, obj, &first) == LS_OK);
        LS_ASSERT(ls_wire_size(m, version, obj) == first.buf.len);
        if (back != NULL &&
            ls_wire_decode(m, version, ls_buf_span(&first.buf), arena, back) != LS_TOO_LARGE) {
                LS_ASSERT(ls_wire_encode(m, version, back, &second) == LS_OK);
                LS_ASSERT(ls_span_eq(ls_buf_span(&first.buf), ls_buf_span(&second.buf)));
        }
        ls_wire_print(m, version, obj, &text);
        ls_buf_done(&text);
        ls_wire_out_done(&first);
        ls_wire_out_done(&second);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct ls_kafka_request request;
        struct ls_arena arena;
        int32_t correlation_id;
        void *body;

        ls_arena_init(&arena, ARENA_BYTES_MAX);
        if (ls_kafka_request_decode(ls_span_of(data, size), &arena, &request) == LS_OK)
                check_stable(request.api->request, request.version, request.body, &arena);
        ls_arena_done(&arena);
        if (request.api == NULL || size < 4)
                return 0;
        ls_arena_init(&arena, ARENA_BYTES_MAX);
        body = ls_arena_alloc(&arena, request.api->response->root->size);
        if (ls_kafka_response_decode(request.api, request.version, ls_span_of(data + 4, size - 4),
                                     &arena, &correlation_id, body) == LS_OK)
                check_stable(request.api->response, request.version, body, &arena);
        for (size_t i = 0; i < LS_KAFKA_DATA_COUNT; i++) {
                const struct ls_wire_message *m = ls_kafka_data[i];
                int16_t version;

                body = ls_arena_alloc(&arena, m->root->size);
                if (body != NULL && ls_kafka_data_decode(m, ls_span_of(data, size), &arena,
                                                         &version, body) == LS_OK)
                        check_stable(m, version, body, &arena);
        }
        ls_arena_done(&arena);
        return 0;
}

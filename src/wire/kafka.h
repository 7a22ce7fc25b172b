/* wire/kafka.h - Kafka frames: API table, error table, headers around the messages.
 *
 * A frame is an int32 size, then a header, then a message (docs/protocols/kafka.md). Functions here
 * take and give frames without trusting any byte of them. Threads: any, on the caller's objects.
 */
#pragma once
#include "wire/kafka_messages.h"
#include "wire/wire.h"

struct ls_kafka_api {
        const char *name;
        int16_t key;
        int8_t version_min, version_max; /* served */
        int8_t advertised_min;           /* listed: Produce lists 0 for librdkafka (KAFKA-18659) */
        int8_t flexible_min;             /* 127: never */
        const struct ls_wire_message *request;
        const struct ls_wire_message *response;
};

/* By ascending key. */
extern const struct ls_kafka_api ls_kafka_apis[LS_KAFKA_API_COUNT];
/* Messages outside of requests: headers, and what members of a consumer group exchange. */
extern const struct ls_wire_message *const ls_kafka_data[LS_KAFKA_DATA_COUNT];

/* NULL for an API that is not served. */
const struct ls_kafka_api *ls_kafka_api_find(int16_t key);

struct ls_kafka_error_info {
        int16_t code;
        bool retriable; /* a client may try the same again */
        const char *name;
        const char *text;
};

extern const struct ls_kafka_error_info ls_kafka_errors[LS_KAFKA_ERROR_COUNT];
/* The entry of a code; that of UNKNOWN_SERVER_ERROR for one that is not in the table. */
const struct ls_kafka_error_info *ls_kafka_error_find(int16_t code);

/* A decoded request. Texts and the body's bytes point into the frame. */
struct ls_kafka_request {
        const struct ls_kafka_api *api; /* NULL: not served */
        int16_t key, version;
        int32_t correlation_id;
        ls_str client_id; /* null: none given */
        void *body;       /* struct of api->request, in the arena */
};

/* Decodes a frame (without its size field). Whatever the outcome, key, version and correlation id
 * are set once the first 8 bytes are there.
 * LS_UNSUPPORTED: the API or its version is not served; nothing after the first 8 bytes was looked
 * at. LS_CORRUPT, LS_TOO_LARGE: as ls_wire_decode, but bytes behind the message are ignored, as
 * Kafka does: librdkafka 2.16 leaves three there when it asks for the metadata of all topics. */
LS_MUST_USE ls_err ls_kafka_request_decode(ls_span frame, struct ls_arena *arena,
                                           struct ls_kafka_request *ret_request);

/* Appends a whole response frame: size, header, `body` (struct of api->response).
 * LS_TOO_LARGE: above the output's maximum or 2^31-1 bytes; the output is then cut back. */
LS_MUST_USE ls_err ls_kafka_response_encode(const struct ls_kafka_api *api, int16_t version,
                                            int32_t correlation_id, const void *body,
                                            struct ls_wire_out *out);

/* For clients. Appends a whole request frame; outcomes as above. */
LS_MUST_USE ls_err ls_kafka_request_encode(const struct ls_kafka_api *api, int16_t version,
                                           int32_t correlation_id, ls_str client_id,
                                           const void *body, struct ls_wire_out *out);
/* For clients. Decodes a response frame (without its size field); outcomes as ls_wire_decode. */
LS_MUST_USE ls_err ls_kafka_response_decode(const struct ls_kafka_api *api, int16_t version,
                                            ls_span frame, struct ls_arena *arena,
                                            int32_t *ret_correlation_id, void *ret_body);

/* Subscription and assignment of the consumer protocol: an int16 version, then the message. A
 * version above the newest is read as the newest, its extra bytes ignored, as clients do. */
LS_MUST_USE ls_err ls_kafka_data_decode(const struct ls_wire_message *m, ls_span bytes,
                                        struct ls_arena *arena, int16_t *ret_version, void *obj);
LS_MUST_USE ls_err ls_kafka_data_encode(const struct ls_wire_message *m, int16_t version,
                                        const void *obj, struct ls_wire_out *out);

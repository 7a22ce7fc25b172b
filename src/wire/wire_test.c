/* wire/wire_test.c - proves: every message in every version comes back from its bytes as it was and
 * takes the size that was told; bytes made by Apache Kafka's own classes decode to what they hold
 * and encode to themselves; unknown tags are skipped and known ones only read where they are
 * defined (B002); impossible lengths, truncation, trailing bytes and forbidden nulls are refused
 * before memory is taken (B003); splices leave out nothing and copy nothing; frames that fail leave
 * no trace; ApiVersions answers have the old header (B001). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "wire/kafka.h"

enum { ROUNDS = 25 };

static const char *golden_path;

static size_t
message_count(void)
{
        return 2 * LS_KAFKA_API_COUNT + LS_KAFKA_DATA_COUNT;
}

static const struct ls_wire_message *
message_at(size_t i)
{
        if (i < LS_KAFKA_API_COUNT)
                return ls_kafka_apis[i].request;
        if (i < 2 * (size_t)LS_KAFKA_API_COUNT)
                return ls_kafka_apis[i - LS_KAFKA_API_COUNT].response;
        return ls_kafka_data[i - 2 * LS_KAFKA_API_COUNT];
}

static const struct ls_wire_message *
message_find(const char *name)
{
        for (size_t i = 0; i < message_count(); i++)
                if (strcmp(message_at(i)->name, name) == 0)
                        return message_at(i);
        fail_msg("no message %s", name);
        return NULL;
}

/* A copy in memory of its exact size, so that the sanitizer sees a read past the end. */
static ls_span
exact_copy(ls_span bytes)
{
        uint8_t *p = ls_malloc(bytes.len + (bytes.len == 0));

        if (bytes.len > 0)
                memcpy(p, bytes.ptr, bytes.len);
        return ls_span_of(p, bytes.len);
}

static void
check_round_trip(const struct ls_wire_message *m, int16_t version, uint64_t *seed)
{
        struct ls_buf before, after;
        struct ls_wire_out first, second;
        struct ls_arena arena;
        ls_span copy;
        void *obj, *back;

        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        ls_buf_init(&before, LS_BUF_MAX_DEFAULT);
        ls_buf_init(&after, LS_BUF_MAX_DEFAULT);
        ls_wire_out_init(&first, LS_BUF_MAX_DEFAULT);
        ls_wire_out_init(&second, LS_BUF_MAX_DEFAULT);
        obj = ls_arena_alloc(&arena, m->root->size);
        back = ls_arena_alloc(&arena, m->root->size);

        assert_int_equal(ls_wire_random(m, version, seed, &arena, obj), LS_OK);
        assert_int_equal(ls_wire_encode(m, version, obj, &first), LS_OK);
        assert_int_equal(ls_wire_size(m, version, obj), first.buf.len);
        copy = exact_copy(ls_buf_span(&first.buf));
        assert_int_equal(ls_wire_decode(m, version, copy, &arena, back), LS_OK);
        ls_wire_print(m, version, obj, &before);
        ls_wire_print(m, version, back, &after);
        assert_string_equal(ls_buf_cstr(&before), ls_buf_cstr(&after));
        assert_int_equal(ls_wire_encode(m, version, back, &second), LS_OK);
        assert_true(ls_span_eq(ls_buf_span(&first.buf), ls_buf_span(&second.buf)));

        ls_free((void *)copy.ptr);
        ls_wire_out_done(&first);
        ls_wire_out_done(&second);
        ls_buf_done(&before);
        ls_buf_done(&after);
        ls_arena_done(&arena);
}

static void
test_every_message_comes_back(void **state)
{
        uint64_t seed = 1;

        for (size_t i = 0; i < message_count(); i++) {
                const struct ls_wire_message *m = message_at(i);

                for (int16_t v = m->version_min; v <= m->version_max; v++)
                        for (int n = 0; n < ROUNDS; n++)
                                check_round_trip(m, v, &seed);
        }
}

/* Every prefix of a message is refused, and one more byte too. */
static void
check_refusals(const struct ls_wire_message *m, int16_t version, uint64_t *seed)
{
        struct ls_wire_out out;
        struct ls_arena arena;
        void *obj;
        ls_span copy;

        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        ls_wire_out_init(&out, LS_BUF_MAX_DEFAULT);
        obj = ls_arena_alloc(&arena, m->root->size);
        assert_int_equal(ls_wire_random(m, version, seed, &arena, obj), LS_OK);
        assert_int_equal(ls_wire_encode(m, version, obj, &out), LS_OK);
        for (size_t n = 0; n < out.buf.len; n++) {
                copy = exact_copy(ls_span_of(out.buf.ptr, n));
                assert_int_equal(ls_wire_decode(m, version, copy, &arena, obj), LS_CORRUPT);
                ls_free((void *)copy.ptr);
        }
        ls_buf_put_u8(&out.buf, 0);
        assert_int_equal(ls_wire_decode(m, version, ls_buf_span(&out.buf), &arena, obj),
                         LS_CORRUPT);
        assert_int_equal(ls_wire_decode(m, (int16_t)(m->version_max + 1), ls_buf_span(&out.buf),
                                        &arena, obj),
                         LS_UNSUPPORTED);
        ls_wire_out_done(&out);
        ls_arena_done(&arena);
}

static void
test_truncated_and_trailing(void **state)
{
        uint64_t seed = 2;

        for (size_t i = 0; i < message_count(); i++) {
                const struct ls_wire_message *m = message_at(i);

                for (int16_t v = m->version_min; v <= m->version_max; v++)
                        check_refusals(m, v, &seed);
        }
}

static ls_span
hex_to_bytes(const char *hex, uint8_t *ret, size_t cap)
{
        size_t n = strlen(hex) / 2;

        assert_true(strlen(hex) % 2 == 0 && n <= cap);
        for (size_t i = 0; i < n; i++) {
                char pair[3] = { hex[2 * i], hex[2 * i + 1], 0 };
                char *end;

                ret[i] = (uint8_t)strtoul(pair, &end, 16);
                assert_true(*end == 0);
        }
        return ls_span_of(ret, n);
}

/* Lines of: message, version, bytes as Apache Kafka's classes wrote them. */
static void
test_golden_bytes(void **state)
{
        static char line[1 << 16];
        static uint8_t bytes[1 << 15];
        FILE *file = fopen(golden_path, "r");
        size_t lines = 0;

        assert_non_null(file);
        while (fgets(line, sizeof line, file) != NULL) {
                char name[64], *hex = NULL;
                int version = -1, at = 0;
                const struct ls_wire_message *m;
                struct ls_wire_out out;
                struct ls_arena arena;
                ls_span golden;
                void *obj;

                if (line[0] == '#')
                        continue;
                assert_int_equal(sscanf(line, "%63s %d %n", name, &version, &at), 2);
                hex = line + at;
                hex[strcspn(hex, "\n")] = 0;
                m = message_find(name);
                golden = hex_to_bytes(hex, bytes, sizeof bytes);
                ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
                ls_wire_out_init(&out, LS_BUF_MAX_DEFAULT);
                obj = ls_arena_alloc(&arena, m->root->size);
                assert_int_equal(ls_wire_decode(m, (int16_t)version, golden, &arena, obj), LS_OK);
                assert_int_equal(ls_wire_encode(m, (int16_t)version, obj, &out), LS_OK);
                assert_true(ls_span_eq(golden, ls_buf_span(&out.buf)));
                ls_wire_out_done(&out);
                ls_arena_done(&arena);
                lines++;
        }
        fclose(file);
        assert_true(lines >= 2 * LS_KAFKA_API_COUNT);
}

/* Written out by hand from the protocol's description, so that a mistake which encoder and decoder
 * share is seen: Produce version 9, one topic, one partition, three bytes of records. */
static void
test_produce_by_hand(void **state)
{
        static const uint8_t bytes[] = {
                0x00,                   /* transactional_id: null */
                0xff, 0xff,             /* acks: -1 */
                0x00, 0x00, 0x75, 0x30, /* timeout_ms: 30000 */
                0x02,                   /* topic_data: 1 */
                0x03, 'a',  'b',        /* name */
                0x02,                   /* partition_data: 1 */
                0x00, 0x00, 0x00, 0x07, /* index */
                0x04, 0x01, 0x02, 0x03, /* records */
                0x00, 0x00, 0x00,       /* tags of partition, topic, request */
        };
        struct ls_kafka_produce_request r;
        struct ls_arena arena;

        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        assert_int_equal(ls_wire_decode(&ls_kafka_produce_request_message, 9,
                                        ls_span_of(bytes, sizeof bytes), &arena, &r),
                         LS_OK);
        assert_null(r.transactional_id.ptr);
        assert_int_equal(r.acks, -1);
        assert_int_equal(r.timeout_ms, 30000);
        assert_int_equal(r.topic_data.count, 1);
        assert_true(ls_str_is(r.topic_data.items[0].name, "ab"));
        assert_true(ls_uuid_is_zero(r.topic_data.items[0].topic_id));
        assert_int_equal(r.topic_data.items[0].partition_data.count, 1);
        assert_int_equal(r.topic_data.items[0].partition_data.items[0].index, 7);
        assert_int_equal(r.topic_data.items[0].partition_data.items[0].records.len, 3);
        /* Not copied. */
        assert_ptr_equal(r.topic_data.items[0].partition_data.items[0].records.ptr, bytes + 17);
        ls_arena_done(&arena);
}

/* A flexible message is decoded level by level with three unknown tags in every tag section. */
static void
test_unknown_tags(void **state)
{
        /* Metadata version 12: one topic by name; then the same with tags 40, 41, 42 of 0, 1 and
         * 300 bytes behind the topic and behind the request. */
        static const uint8_t head[] = { 0x02, 0, 0, 0, 0, 0, 0, 0,    0,   0,
                                        0,    0, 0, 0, 0, 0, 0, 0x03, 't', '1' };
        static const uint8_t flags[] = { 0x01, 0x00 };
        struct ls_kafka_metadata_request r;
        struct ls_arena arena;
        struct ls_buf b;

        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
        for (int i = 0; i < 2; i++) {
                if (i == 0)
                        ls_buf_put(&b, head, sizeof head);
                else
                        ls_buf_put(&b, flags, sizeof flags);
                ls_buf_put(&b, "\x03\x28\x00\x29\x01x\x2a\xac\x02", 9);
                memset(ls_buf_add(&b, 300), 0xff, 300);
        }
        assert_int_equal(
                ls_wire_decode(&ls_kafka_metadata_request_message, 12, ls_buf_span(&b), &arena, &r),
                LS_OK);
        assert_int_equal(r.topics.count, 1);
        assert_true(ls_str_is(r.topics.items[0].name, "t1"));
        assert_true(r.allow_auto_topic_creation);
        assert_false(r.include_topic_authorized_operations);

        /* A size beyond the frame is damage. */
        b.ptr[b.len - 302] = 0xad;
        assert_int_equal(
                ls_wire_decode(&ls_kafka_metadata_request_message, 12, ls_buf_span(&b), &arena, &r),
                LS_CORRUPT);
        ls_buf_done(&b);
        ls_arena_done(&arena);
}

/* Tag 1 of a Fetch partition is the high watermark from version 18; below, its bytes mean
 * nothing. */
static void
test_tag_of_a_later_version(void **state)
{
        struct ls_kafka_fetch_request_partition partition;
        struct ls_kafka_fetch_request_topic topic;
        struct ls_kafka_fetch_request request, back;
        struct ls_wire_out out;
        struct ls_arena arena;
        int16_t version;

        ls_kafka_fetch_request_partition_init(&partition);
        ls_kafka_fetch_request_topic_init(&topic);
        ls_kafka_fetch_request_init(&request);
        partition.high_watermark = 5;
        topic.partitions.items = &partition;
        topic.partitions.count = 1;
        request.topics.items = &topic;
        request.topics.count = 1;
        ls_wire_out_init(&out, LS_BUF_MAX_DEFAULT);
        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        assert_int_equal(ls_wire_encode(&ls_kafka_fetch_request_message, 18, &request, &out),
                         LS_OK);
        /* Versions 17 and 18 differ by this tag only. */
        for (version = 17; version <= 18; version++) {
                assert_int_equal(ls_wire_decode(&ls_kafka_fetch_request_message, version,
                                                ls_buf_span(&out.buf), &arena, &back),
                                 LS_OK);
                assert_int_equal(back.topics.items[0].partitions.items[0].high_watermark,
                                 version == 18 ? 5 : INT64_MAX);
        }
        ls_wire_out_done(&out);
        ls_arena_done(&arena);
}

/* A known tag whose value does not take exactly its size is damage. */
static void
test_known_tag_of_wrong_size(void **state)
{
        /* Fetch version 12, no topics; tag 0 is cluster_id, "ab" in 3 bytes. */
        uint8_t bytes[] = { 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4,   0,
                            0, 0, 0, 5, 0, 0, 0, 6, 1, 1, 1, 1, 0, 3, 3, 'a', 'b' };
        struct ls_kafka_fetch_request r;
        struct ls_arena arena;
        ls_err e;

        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        bytes[25 + 3] = 1;
        e = ls_wire_decode(&ls_kafka_fetch_request_message, 12, ls_span_of(bytes, sizeof bytes),
                           &arena, &r);
        assert_int_equal(e, LS_OK);
        assert_true(ls_str_is(r.cluster_id, "ab"));
        bytes[30] = 2;
        assert_int_equal(ls_wire_decode(&ls_kafka_fetch_request_message, 12,
                                        ls_span_of(bytes, sizeof bytes), &arena, &r),
                         LS_CORRUPT);
        ls_arena_done(&arena);
}

static void
test_impossible_counts(void **state)
{
        static const struct {
                int16_t version;
                uint8_t bytes[24];
                size_t len;
                ls_err want;
        } cases[] = {
                { 1, { 0x7f, 0xff, 0xff, 0xff }, 24, LS_CORRUPT }, /* 2^31-1 topics */
                { 1, { 0xff, 0xff, 0xff, 0xfe }, 24, LS_CORRUPT }, /* -2 topics */
                { 0, { 0xff, 0xff, 0xff, 0xff }, 4, LS_CORRUPT },  /* null not before version 1 */
                { 1, { 0xff, 0xff, 0xff, 0xff }, 4, LS_OK },       /* null: every topic */
                { 1, { 0, 0, 0, 0 }, 4, LS_OK },                   /* empty: none */
                { 1, { 0, 0, 0, 1, 0xff, 0xff }, 6, LS_CORRUPT },  /* a name must be there */
                { 1, { 0, 0, 0, 1, 0x80, 0 }, 6, LS_CORRUPT },     /* a length below -1 */
                { 9, { 0xff, 0xff, 0xff, 0xff, 0x0f }, 24, LS_CORRUPT },
                { 9, { 0xff, 0xff, 0xff, 0xff, 0x1f }, 24, LS_CORRUPT }, /* above 32 bits */
                { 9, { 0x80, 0x80, 0x80, 0x80, 0x80, 0x80 }, 24, LS_CORRUPT },
        };
        struct ls_kafka_metadata_request r;
        struct ls_arena arena;

        ls_arena_init(&arena, 4096);
        for (size_t i = 0; i < LS_COUNT(cases); i++) {
                assert_int_equal(
                        ls_wire_decode(&ls_kafka_metadata_request_message, cases[i].version,
                                       ls_span_of(cases[i].bytes, cases[i].len), &arena, &r),
                        cases[i].want);
                if (i == 3)
                        assert_null(r.topics.items);
                if (i == 4)
                        assert_non_null(r.topics.items);
        }
        assert_int_equal(arena.bytes <= 4096, 1);
        ls_arena_done(&arena);
}

/* More replicas than the schema allows, in bytes that are really there; and a full arena. */
static void
test_above_max(void **state)
{
        enum { COUNT = LS_KAFKA_REPLICAS_MAX + 1 };
        static int32_t replicas[COUNT];
        struct ls_kafka_create_partitions_request_assignment assignment;
        struct ls_kafka_create_partitions_request_topic topic;
        struct ls_kafka_create_partitions_request request, back;
        struct ls_wire_out out;
        struct ls_arena arena;

        ls_kafka_create_partitions_request_assignment_init(&assignment);
        ls_kafka_create_partitions_request_topic_init(&topic);
        ls_kafka_create_partitions_request_init(&request);
        assignment.broker_ids.items = replicas;
        assignment.broker_ids.count = COUNT;
        topic.assignments.items = &assignment;
        topic.assignments.count = 1;
        request.topics.items = &topic;
        request.topics.count = 1;
        ls_wire_out_init(&out, LS_BUF_MAX_DEFAULT);
        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        assert_int_equal(
                ls_wire_encode(&ls_kafka_create_partitions_request_message, 3, &request, &out),
                LS_OK);
        assert_int_equal(ls_wire_decode(&ls_kafka_create_partitions_request_message, 3,
                                        ls_buf_span(&out.buf), &arena, &back),
                         LS_TOO_LARGE);
        ls_wire_out_clear(&out);
        assignment.broker_ids.count = COUNT - 1;
        assert_int_equal(
                ls_wire_encode(&ls_kafka_create_partitions_request_message, 3, &request, &out),
                LS_OK);
        assert_int_equal(ls_wire_decode(&ls_kafka_create_partitions_request_message, 3,
                                        ls_buf_span(&out.buf), &arena, &back),
                         LS_OK);
        ls_arena_done(&arena);
        ls_arena_init(&arena, 1000);
        assert_int_equal(ls_wire_decode(&ls_kafka_create_partitions_request_message, 3,
                                        ls_buf_span(&out.buf), &arena, &back),
                         LS_TOO_LARGE);
        ls_wire_out_done(&out);
        ls_arena_done(&arena);
}

/* A response whose payloads stay where they are is, put together, the one with copied payloads. */
static void
test_splices(void **state)
{
        static const uint8_t payload[3][200] = { { 1 }, { 2 }, { 3 } };
        struct ls_kafka_fetch_response response;
        struct ls_wire_out copied, spliced;
        struct ls_arena arena;
        struct ls_buf joined;
        size_t at = 0;

        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        ls_wire_out_init(&copied, LS_BUF_MAX_DEFAULT);
        ls_wire_out_init(&spliced, LS_BUF_MAX_DEFAULT);
        ls_buf_init(&joined, LS_BUF_MAX_DEFAULT);
        ls_kafka_fetch_response_init(&response);
        response.responses.items = ls_kafka_fetch_response_topic_array(&arena, 1);
        response.responses.count = 1;
        response.responses.items[0].partitions.items =
                ls_kafka_fetch_response_partition_array(&arena, 3);
        response.responses.items[0].partitions.count = 3;
        for (int pass = 0; pass < 2; pass++) {
                for (size_t i = 0; i < 3; i++) {
                        struct ls_wire_records *r =
                                &response.responses.items[0].partitions.items[i].records;

                        *r = (struct ls_wire_records){ .len = sizeof payload[i] };
                        if (pass == 0)
                                r->ptr = payload[i];
                        else
                                r->payload = (void *)payload[i];
                }
                for (int n = 0; n < 2; n++)
                        assert_int_equal(
                                ls_kafka_response_encode(ls_kafka_api_find(LS_KAFKA_API_FETCH), 12,
                                                         99, &response, pass ? &spliced : &copied),
                                LS_OK);
        }
        assert_int_equal(copied.splice_count, 0);
        assert_int_equal(spliced.splice_count, 6);
        assert_int_equal(ls_wire_out_bytes(&spliced), copied.buf.len);
        for (size_t i = 0; i < spliced.splice_count; i++) {
                ls_buf_put(&joined, spliced.buf.ptr + at, spliced.splices[i].at - at);
                ls_buf_put(&joined, spliced.splices[i].payload, spliced.splices[i].len);
                at = spliced.splices[i].at;
        }
        ls_buf_put(&joined, spliced.buf.ptr + at, spliced.buf.len - at);
        assert_true(ls_span_eq(ls_buf_span(&joined), ls_buf_span(&copied.buf)));
        ls_buf_done(&joined);
        ls_wire_out_done(&copied);
        ls_wire_out_done(&spliced);
        ls_arena_done(&arena);
}

static void
test_failed_frame_leaves_nothing(void **state)
{
        const struct ls_kafka_api *api = ls_kafka_api_find(LS_KAFKA_API_FIND_COORDINATOR);
        static char text[40000];
        struct ls_kafka_find_coordinator_response response;
        struct ls_wire_out out;

        ls_kafka_find_coordinator_response_init(&response);
        ls_wire_out_init(&out, 200);
        assert_int_equal(ls_kafka_response_encode(api, 0, 1, &response, &out), LS_OK);
        memset(text, 'x', sizeof text);
        response.host = ls_str_make(text, 300);
        assert_int_equal(ls_kafka_response_encode(api, 0, 2, &response, &out), LS_TOO_LARGE);
        response.host = LS_STR("h");
        assert_int_equal(ls_kafka_response_encode(api, 0, 3, &response, &out), LS_OK);
        /* size 4, correlation 4, error 2, node 4, host 2, port 4 */
        assert_int_equal(out.buf.len, 20 + 21);
        ls_wire_out_done(&out);

        /* A string that its int16 length cannot tell. */
        ls_wire_out_init(&out, LS_BUF_MAX_DEFAULT);
        response.host = ls_str_make(text, sizeof text);
        assert_int_equal(ls_kafka_response_encode(api, 0, 2, &response, &out), LS_TOO_LARGE);
        assert_int_equal(out.buf.len, 0);
        ls_wire_out_done(&out);
}

/* B001: the header of an ApiVersions answer has no tag section, that of others has. */
static void
test_response_headers(void **state)
{
        struct ls_kafka_api_versions_response versions;
        struct ls_kafka_heartbeat_response heartbeat;
        struct ls_wire_out out;

        ls_wire_out_init(&out, LS_BUF_MAX_DEFAULT);
        ls_kafka_api_versions_response_init(&versions);
        assert_int_equal(ls_kafka_response_encode(ls_kafka_api_find(LS_KAFKA_API_API_VERSIONS), 3,
                                                  7, &versions, &out),
                         LS_OK);
        /* size, correlation 7, error 0, no keys, throttle 0, no tags */
        assert_int_equal(out.buf.len, 4 + 4 + 2 + 1 + 4 + 1);
        ls_wire_out_clear(&out);
        ls_kafka_heartbeat_response_init(&heartbeat);
        assert_int_equal(ls_kafka_response_encode(ls_kafka_api_find(LS_KAFKA_API_HEARTBEAT), 4, 7,
                                                  &heartbeat, &out),
                         LS_OK);
        assert_int_equal(out.buf.len, 4 + 4 + 1 + 4 + 2 + 1);
        ls_wire_out_done(&out);
}

static void
test_request_frames(void **state)
{
        /* ApiVersions version 99 with junk behind: told apart without a look at the junk. */
        static const uint8_t newer[] = { 0, 18, 0, 99, 1, 2, 3, 4, 0xff, 0xff, 0xff, 0xff, 0xff };
        static const uint8_t unknown[] = { 3, 231, 0, 0, 0, 0, 0, 9 };
        static const uint8_t brief[] = { 0, 18, 0, 3, 0, 0, 0 };
        const struct ls_kafka_api *api = ls_kafka_api_find(LS_KAFKA_API_HEARTBEAT);
        struct ls_kafka_heartbeat_request body;
        struct ls_kafka_request r;
        struct ls_wire_out out;
        struct ls_arena arena;

        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        assert_int_equal(ls_kafka_request_decode(ls_span_of(newer, sizeof newer), &arena, &r),
                         LS_UNSUPPORTED);
        assert_int_equal(r.key, 18);
        assert_int_equal(r.version, 99);
        assert_int_equal(r.correlation_id, 0x01020304);
        assert_non_null(r.api);
        assert_int_equal(ls_kafka_request_decode(ls_span_of(unknown, sizeof unknown), &arena, &r),
                         LS_UNSUPPORTED);
        assert_null(r.api);
        assert_int_equal(r.correlation_id, 9);
        assert_int_equal(ls_kafka_request_decode(ls_span_of(brief, sizeof brief), &arena, &r),
                         LS_CORRUPT);
        assert_int_equal(ls_kafka_request_decode(LS_SPAN_NULL, &arena, &r), LS_CORRUPT);

        ls_kafka_heartbeat_request_init(&body);
        body.group_id = LS_STR("g");
        ls_wire_out_init(&out, LS_BUF_MAX_DEFAULT);
        for (int16_t v = api->version_min; v <= api->version_max; v++) {
                ls_wire_out_clear(&out);
                assert_int_equal(ls_kafka_request_encode(api, v, 5,
                                                         v % 2 ? LS_STR("me") : LS_STR_NULL, &body,
                                                         &out),
                                 LS_OK);
                assert_int_equal(ls_kafka_request_decode(
                                         ls_span_of(out.buf.ptr + 4, out.buf.len - 4), &arena, &r),
                                 LS_OK);
                assert_int_equal(r.correlation_id, 5);
                assert_true(v % 2 ? ls_str_is(r.client_id, "me") : r.client_id.ptr == NULL);
                assert_true(
                        ls_str_is(((struct ls_kafka_heartbeat_request *)r.body)->group_id, "g"));
        }
        ls_wire_out_done(&out);
        ls_arena_done(&arena);
}

/* Metadata version 13 for all topics, as librdkafka 2.16.1 sends it: three bytes too many. */
static void
test_bytes_behind_a_request_are_ignored(void **state)
{
        static const uint8_t frame[] = { 0,   3,   0,   13,  0, 0, 0, 3, 0, 7, 'r', 'd', 'k',
                                         'a', 'f', 'k', 'a', 0, 0, 0, 0, 0, 1, 0,   0 };
        struct ls_kafka_metadata_request *body;
        struct ls_kafka_request r;
        struct ls_arena arena;

        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        assert_int_equal(ls_kafka_request_decode(ls_span_of(frame, sizeof frame), &arena, &r),
                         LS_OK);
        body = r.body;
        assert_null(body->topics.items);
        assert_false(body->allow_auto_topic_creation);
        ls_arena_done(&arena);
}

static void
test_consumer_data_of_a_newer_version(void **state)
{
        struct ls_kafka_consumer_subscription s, back;
        ls_str topic = LS_STR("t");
        struct ls_wire_out out;
        struct ls_arena arena;
        int16_t version = -1;

        ls_kafka_consumer_subscription_init(&s);
        s.topics.items = &topic;
        s.topics.count = 1;
        ls_wire_out_init(&out, LS_BUF_MAX_DEFAULT);
        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        assert_int_equal(ls_kafka_data_encode(&ls_kafka_consumer_subscription_message, 3, &s, &out),
                         LS_OK);
        ls_buf_put(&out.buf, "more", 4);
        out.buf.ptr[1] = 9;
        assert_int_equal(ls_kafka_data_decode(&ls_kafka_consumer_subscription_message,
                                              ls_buf_span(&out.buf), &arena, &version, &back),
                         LS_OK);
        assert_int_equal(version, 3);
        assert_true(ls_str_is(back.topics.items[0], "t"));
        assert_int_equal(ls_kafka_data_decode(&ls_kafka_consumer_subscription_message,
                                              ls_span_of("\xff\xff", 2), &arena, &version, &back),
                         LS_UNSUPPORTED);
        assert_int_equal(ls_kafka_data_decode(&ls_kafka_consumer_subscription_message, LS_SPAN_NULL,
                                              &arena, &version, &back),
                         LS_CORRUPT);
        ls_wire_out_done(&out);
        ls_arena_done(&arena);
}

static void
test_defaults_and_tables(void **state)
{
        struct ls_kafka_list_offsets_response_partition p;
        struct ls_kafka_metadata_request r;

        ls_kafka_list_offsets_response_partition_init(&p);
        assert_int_equal(p.offset, -1);
        assert_int_equal(p.leader_epoch, -1);
        ls_kafka_metadata_request_init(&r);
        assert_true(r.allow_auto_topic_creation);
        for (size_t i = 1; i < LS_KAFKA_API_COUNT; i++)
                assert_true(ls_kafka_apis[i - 1].key < ls_kafka_apis[i].key);
        for (size_t i = 0; i < LS_KAFKA_API_COUNT; i++)
                assert_ptr_equal(ls_kafka_api_find(ls_kafka_apis[i].key), &ls_kafka_apis[i]);
        assert_null(ls_kafka_api_find(-1));
        assert_null(ls_kafka_api_find(INT16_MAX));
        assert_string_equal(ls_kafka_error_find(LS_KAFKA_ERR_NOT_COORDINATOR)->name,
                            "NOT_COORDINATOR");
        assert_true(ls_kafka_error_find(LS_KAFKA_ERR_REQUEST_TIMED_OUT)->retriable);
        assert_false(ls_kafka_error_find(LS_KAFKA_ERR_INVALID_REQUEST)->retriable);
        assert_int_equal(ls_kafka_error_find(32000)->code, -1);
}

int
main(int argc, char **argv)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_every_message_comes_back),
                cmocka_unit_test(test_truncated_and_trailing),
                cmocka_unit_test(test_golden_bytes),
                cmocka_unit_test(test_produce_by_hand),
                cmocka_unit_test(test_unknown_tags),
                cmocka_unit_test(test_tag_of_a_later_version),
                cmocka_unit_test(test_known_tag_of_wrong_size),
                cmocka_unit_test(test_impossible_counts),
                cmocka_unit_test(test_above_max),
                cmocka_unit_test(test_splices),
                cmocka_unit_test(test_failed_frame_leaves_nothing),
                cmocka_unit_test(test_response_headers),
                cmocka_unit_test(test_request_frames),
                cmocka_unit_test(test_bytes_behind_a_request_are_ignored),
                cmocka_unit_test(test_consumer_data_of_a_newer_version),
                cmocka_unit_test(test_defaults_and_tables),
        };

        if (argc != 2) {
                fprintf(stderr, "usage: wire_test GOLDEN_FILE\n");
                return 2;
        }
        golden_path = argv[1];
        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* servers/kafka/kafka_test.c - proves: requests are answered in the order they came however the
 * bytes are cut; only Produce runs beside Produce; impossible frames and unknown APIs close,
 * after what came before is answered; ApiVersions that is too new is answered in version 0
 * (B001); a connection waits for memory without taking it, and goes on; a peer that takes no
 * answers gets none; draining answers long polls and closes; a connection that goes away leaves
 * nothing behind; fetch sessions follow KIP-227. Real streams in a folder, peers without
 * sockets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <sched.h>

#include "formats/batch/batch.h"
#include "servers/kafka/test_kit.h"

#define TOPIC "topic"

static int
setup(void **state)
{
        struct kit *k = ls_calloc(1, sizeof *k);
        struct ls_stream *stream = NULL;

        kit_open(k);
        assert_int_equal(
                ls_stream_create(k->streams, LS_STR(TOPIC), 3, NULL, 0, false, &stream, NULL),
                LS_OK);
        ls_stream_unref(stream);
        *state = k;
        return 0;
}

static int
teardown(void **state)
{
        kit_close(*state);
        ls_free(*state);
        return 0;
}

/* ---- requests ---- */

static void
put_request(struct ls_buf *b, int16_t key, int16_t version, int32_t correlation_id,
            const void *body)
{
        struct ls_wire_out out;

        ls_wire_out_init(&out, LS_BUF_MAX_DEFAULT);
        assert_int_equal(ls_kafka_request_encode(ls_kafka_api_find(key), version, correlation_id,
                                                 LS_STR("t"), body, &out),
                         LS_OK);
        ls_buf_put_span(b, ls_buf_span(&out.buf));
        ls_wire_out_done(&out);
}

static void
put_metadata(struct ls_buf *b, int32_t correlation_id)
{
        struct ls_kafka_metadata_request q;

        ls_kafka_metadata_request_init(&q);
        put_request(b, LS_KAFKA_API_METADATA, 9, correlation_id, &q);
}

static void
put_versions(struct ls_buf *b, int32_t correlation_id)
{
        struct ls_kafka_api_versions_request q;

        ls_kafka_api_versions_request_init(&q);
        put_request(b, LS_KAFKA_API_API_VERSIONS, 2, correlation_id, &q);
}

static void
put_offsets(struct ls_buf *b, int32_t correlation_id, int64_t timestamp)
{
        struct ls_kafka_list_offsets_request_partition partition;
        struct ls_kafka_list_offsets_request_topic topic;
        struct ls_kafka_list_offsets_request q;

        ls_kafka_list_offsets_request_partition_init(&partition);
        ls_kafka_list_offsets_request_topic_init(&topic);
        ls_kafka_list_offsets_request_init(&q);
        partition.timestamp = timestamp;
        topic.name = LS_STR(TOPIC);
        topic.partitions.items = &partition;
        topic.partitions.count = 1;
        q.topics.items = &topic;
        q.topics.count = 1;
        put_request(b, LS_KAFKA_API_LIST_OFFSETS, 7, correlation_id, &q);
}

static void
make_batch(struct ls_buf *b)
{
        struct ls_batch_build cfg = { .records_bytes_max = 1 << 20 };
        struct ls_batch_builder builder;
        struct ls_record record = { .timestamp = 1700000000000, .value = ls_span_of("v", 1) };

        ls_batch_builder_init(&builder, &cfg);
        ls_batch_builder_begin(&builder, b, 0);
        assert_int_equal(ls_batch_builder_add(&builder, &record), LS_OK);
        assert_int_equal(ls_batch_builder_end(&builder, -1, NULL), LS_OK);
        ls_batch_builder_done(&builder);
}

static void
put_produce(struct ls_buf *b, int32_t correlation_id, int16_t acks, ls_str topic_name)
{
        struct ls_kafka_produce_request_partition partition;
        struct ls_kafka_produce_request_topic topic;
        struct ls_kafka_produce_request q;
        struct ls_buf batch;

        ls_buf_init(&batch, LS_BUF_MAX_DEFAULT);
        make_batch(&batch);
        ls_kafka_produce_request_partition_init(&partition);
        ls_kafka_produce_request_topic_init(&topic);
        ls_kafka_produce_request_init(&q);
        partition.records.ptr = batch.ptr;
        partition.records.len = batch.len;
        topic.name = topic_name;
        topic.partition_data.items = &partition;
        topic.partition_data.count = 1;
        q.acks = acks;
        q.topic_data.items = &topic;
        q.topic_data.count = 1;
        put_request(b, LS_KAFKA_API_PRODUCE, 9, correlation_id, &q);
        ls_buf_done(&batch);
}

struct fetch_args {
        int32_t session_id, session_epoch, max_wait_ms, min_bytes;
        int64_t offset;
        int partition; /* -1: none */
        int forgotten; /* -1: none */
};

static void
put_fetch(struct ls_buf *b, int32_t correlation_id, const struct fetch_args *a)
{
        struct ls_kafka_fetch_request_partition partition;
        struct ls_kafka_fetch_request_topic topic;
        struct ls_kafka_fetch_request_forgotten_topic forgotten;
        struct ls_kafka_fetch_request q;
        int32_t index = a->forgotten;

        ls_kafka_fetch_request_partition_init(&partition);
        ls_kafka_fetch_request_topic_init(&topic);
        ls_kafka_fetch_request_forgotten_topic_init(&forgotten);
        ls_kafka_fetch_request_init(&q);
        partition.partition = a->partition;
        partition.fetch_offset = a->offset;
        partition.partition_max_bytes = 1 << 20;
        topic.topic = LS_STR(TOPIC);
        topic.partitions.items = &partition;
        topic.partitions.count = 1;
        forgotten.topic = LS_STR(TOPIC);
        forgotten.partitions.items = &index;
        forgotten.partitions.count = 1;
        q.session_id = a->session_id;
        q.session_epoch = a->session_epoch;
        q.max_wait_ms = a->max_wait_ms;
        q.min_bytes = a->min_bytes;
        q.topics.items = &topic;
        q.topics.count = a->partition >= 0;
        q.forgotten_topics_data.items = &forgotten;
        q.forgotten_topics_data.count = a->forgotten >= 0;
        put_request(b, LS_KAFKA_API_FETCH, 12, correlation_id, &q);
}

static int32_t
recv_correlation(struct kit_peer *p)
{
        ls_span frame = kit_recv(p);

        return frame.len >= 4 ? (int32_t)ls_get_be32(frame.ptr) : -1;
}

static int64_t
recv_end_offset(struct kit_peer *p)
{
        struct ls_kafka_list_offsets_response answer;
        struct ls_arena arena;
        int32_t correlation_id;
        int64_t offset;

        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        assert_true(kit_answer(p, LS_KAFKA_API_LIST_OFFSETS, 7, &arena, &correlation_id, &answer));
        assert_int_equal(answer.topics.items[0].partitions.items[0].error_code, 0);
        offset = answer.topics.items[0].partitions.items[0].offset;
        ls_arena_done(&arena);
        return offset;
}

/* ---- order ---- */

static void
put_mixture(struct ls_buf *b)
{
        put_metadata(b, 1);
        put_produce(b, 2, -1, LS_STR(TOPIC));
        put_versions(b, 3);
        put_offsets(b, 4, 5); /* by a job */
        put_produce(b, 5, 1, LS_STR(TOPIC));
        put_produce(b, 6, -1, LS_STR(TOPIC));
        put_produce(b, 0, 0, LS_STR(TOPIC)); /* no answer */
        put_metadata(b, 7);
        put_offsets(b, 8, -1);
}

static void
test_answers_come_in_order_however_bytes_are_cut(void **state)
{
        static const size_t cuts[] = { 1, 3, 7, 64, 1 << 20 };
        struct kit *k = *state;
        struct ls_buf b;

        ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
        put_mixture(&b);
        for (size_t i = 0; i < LS_COUNT(cuts); i++) {
                struct kit_peer p;

                kit_connect(k, &p);
                for (size_t at = 0; at < b.len; at += cuts[i])
                        kit_send(&p, ls_span_of(b.ptr + at, LS_MIN(cuts[i], b.len - at)));
                for (int32_t id = 1; id <= 7; id++)
                        assert_int_equal(recv_correlation(&p), id);
                /* Everything before it counts: a barrier. */
                assert_int_equal(recv_end_offset(&p), 4 * (int64_t)(i + 1));
                kit_disconnect(&p);
        }
        ls_buf_done(&b);
}

static void
test_many_more_requests_than_may_wait(void **state)
{
        enum { COUNT = 10 * KAFKA_REQUESTS_MAX };
        struct kit *k = *state;
        struct kit_peer p;
        struct ls_buf b;

        ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
        for (int32_t id = 0; id < COUNT; id++)
                put_produce(&b, id, -1, LS_STR(TOPIC));
        put_offsets(&b, COUNT, -1);
        kit_connect(k, &p);
        kit_send(&p, ls_buf_span(&b));
        for (int32_t id = 0; id < COUNT; id++)
                assert_int_equal(recv_correlation(&p), id);
        assert_true(recv_end_offset(&p) >= COUNT);
        assert_true(kit_wait_paused(&p, false));
        kit_disconnect(&p);
        ls_buf_done(&b);
}

/* ---- refusals ---- */

static void
test_impossible_frames_close(void **state)
{
        static const uint8_t sizes[][4] = { { 0, 0, 0, 0 },
                                            { 0, 0, 0, 7 },
                                            { 0xff, 0xff, 0xff, 0xff },
                                            { 0x7f, 0xff, 0xff, 0xff } };
        struct kit *k = *state;

        for (size_t i = 0; i < LS_COUNT(sizes); i++) {
                struct kit_peer p;

                kit_connect(k, &p);
                kit_send(&p, ls_span_of(sizes[i], 4));
                assert_true(kit_wait_closed(&p));
                kit_disconnect(&p);
        }
        assert_int_equal(ls_budget_used(&k->server->other_frames), 0);
}

static void
test_what_came_before_is_answered_before_closing(void **state)
{
        /* An API that does not exist; a version that does not; a body that is cut. */
        static const uint8_t frames[][16] = {
                { 0, 0, 0, 8, 0x03, 0xe7, 0, 0, 0, 0, 0, 9 },
                { 0, 0, 0, 8, 0, 3, 0, 99, 0, 0, 0, 9 },
                { 0, 0, 0, 12, 0, 3, 0, 1, 0, 0, 0, 9, 0xff, 0xff, 0, 0 },
        };
        struct kit *k = *state;

        for (size_t i = 0; i < LS_COUNT(frames); i++) {
                struct kit_peer p;
                struct ls_buf b;

                ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
                put_produce(&b, 1, -1, LS_STR(TOPIC));
                ls_buf_put(&b, frames[i], 4 + ls_get_be32(frames[i]));
                put_metadata(&b, 2);
                kit_connect(k, &p);
                kit_send(&p, ls_buf_span(&b));
                assert_int_equal(recv_correlation(&p), 1);
                assert_true(kit_wait_closed(&p));
                assert_true(p.closed_flush);
                assert_int_equal(p.written.len, p.read_pos);
                kit_disconnect(&p);
                ls_buf_done(&b);
        }
}

/* librdkafka sends such requests, and Apache Kafka passes over what is left. */
static void
test_bytes_after_a_request_are_passed_over(void **state)
{
        static const uint8_t longer[] = { 0, 0, 0,    16,   0, 3, 0, 0, 0, 0,
                                          0, 9, 0xff, 0xff, 0, 0, 0, 0, 7, 7 };
        struct kit *k = *state;
        struct kit_peer p;
        struct ls_buf b;

        ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
        put_metadata(&b, 10);
        kit_connect(k, &p);
        kit_send(&p, ls_span_of(longer, sizeof longer));
        kit_send(&p, ls_buf_span(&b));
        assert_int_equal(recv_correlation(&p), 9);
        assert_int_equal(recv_correlation(&p), 10);
        kit_disconnect(&p);
        ls_buf_done(&b);
}

static void
test_api_versions_too_new(void **state)
{
        static const uint8_t newer[] = { 0, 0, 0, 13,   0,    18,   0,    99,  1,
                                         2, 3, 4, 0xff, 0xff, 0xff, 0xff, 0xff };
        struct ls_kafka_api_versions_response answer;
        struct kit *k = *state;
        struct kit_peer p;
        struct ls_arena arena;
        struct ls_buf b;
        int32_t correlation_id = 0;
        bool found = false;

        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
        put_versions(&b, 5);
        kit_connect(k, &p);
        kit_send(&p, ls_span_of(newer, sizeof newer));
        kit_send(&p, ls_buf_span(&b));
        assert_true(kit_answer(&p, LS_KAFKA_API_API_VERSIONS, 0, &arena, &correlation_id, &answer));
        assert_int_equal(correlation_id, 0x01020304);
        assert_int_equal(answer.error_code, LS_KAFKA_ERR_UNSUPPORTED_VERSION);
        for (uint32_t i = 0; i < answer.api_keys.count; i++)
                found |= answer.api_keys.items[i].api_key == LS_KAFKA_API_API_VERSIONS;
        assert_true(found);
        assert_true(kit_answer(&p, LS_KAFKA_API_API_VERSIONS, 2, &arena, &correlation_id, &answer));
        assert_int_equal(answer.error_code, 0);
        assert_int_equal(answer.api_keys.count, LS_KAFKA_API_COUNT);
        kit_disconnect(&p);
        ls_arena_done(&arena);
        ls_buf_done(&b);
}

/* With acks 0 there is no answer that could tell an error, so the connection is closed. */
static void
test_acks_0_that_fails_closes(void **state)
{
        struct kit *k = *state;
        struct kit_peer p;
        struct ls_buf b;

        ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
        put_produce(&b, 1, 0, LS_STR("nothere"));
        kit_connect(k, &p);
        kit_send(&p, ls_buf_span(&b));
        assert_true(kit_wait_closed(&p));
        assert_int_equal(p.written.len, 0);
        kit_disconnect(&p);
        ls_buf_done(&b);
}

/* ---- memory and pressure ---- */

static void
test_waits_for_memory(void **state)
{
        struct kit *k = *state;
        struct ls_budget *budget = &k->server->produce_frames;
        struct kit_peer p, other;
        struct ls_buf b, metadata;

        ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
        ls_buf_init(&metadata, LS_BUF_MAX_DEFAULT);
        put_produce(&b, 1, -1, LS_STR(TOPIC));
        put_metadata(&b, 2);
        put_metadata(&metadata, 3);
        ls_budget_force(budget, budget->max);
        kit_connect(k, &p);
        kit_connect(k, &other);
        kit_send(&p, ls_buf_span(&b));
        assert_true(kit_wait_paused(&p, true));
        assert_int_equal(p.written.len, 0);
        /* Others than producers are not held up. */
        kit_send(&other, ls_buf_span(&metadata));
        assert_int_equal(recv_correlation(&other), 3);
        ls_budget_uncharge(budget, budget->max);
        assert_int_equal(recv_correlation(&p), 1);
        assert_int_equal(recv_correlation(&p), 2);
        assert_true(kit_wait_paused(&p, false));
        kit_disconnect(&p);
        kit_disconnect(&other);
        assert_int_equal(ls_budget_used(budget), 0);
        ls_buf_done(&b);
        ls_buf_done(&metadata);
}

static bool
wait_hungry(struct ls_kafka_server *server)
{
        int64_t deadline_ms = ls_clock_monotonic_ms() + 30000;

        while (atomic_load(&server->hungry) == NULL && ls_clock_monotonic_ms() < deadline_ms)
                sched_yield();
        return atomic_load(&server->hungry) != NULL;
}

/* A frame above the room that is left comes to its turn, although smaller ones would fit. */
static void
test_large_frame_has_its_turn(void **state)
{
        struct kit *k = *state;
        struct ls_budget *budget = &k->server->produce_frames;
        struct kit_peer large, small;
        uint8_t head[KAFKA_HEAD_BYTES] = { 0 };
        struct ls_buf b;

        ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
        put_produce(&b, 1, -1, LS_STR(TOPIC));
        ls_set_be32(head, (uint32_t)budget->max);
        ls_budget_force(budget, budget->max / 2);
        kit_connect(k, &large);
        kit_connect(k, &small);
        kit_send(&large, ls_span_of(head, sizeof head));
        assert_true(kit_wait_paused(&large, true));
        assert_true(wait_hungry(k->server));
        kit_send(&small, ls_buf_span(&b));
        assert_true(kit_wait_paused(&small, true));
        ls_budget_uncharge(budget, budget->max / 2);
        assert_true(kit_wait_paused(&large, false));
        assert_true(ls_budget_used(budget) >= budget->max);
        kit_disconnect(&large);
        assert_int_equal(recv_correlation(&small), 1);
        assert_null(atomic_load(&k->server->hungry));
        kit_disconnect(&small);
        assert_int_equal(ls_budget_used(budget), 0);
        ls_buf_done(&b);
}

/* A connection that goes while it waits for memory, and one with half a frame. */
static void
test_goes_away_early(void **state)
{
        struct kit *k = *state;
        struct ls_budget *budget = &k->server->produce_frames;
        struct kit_peer p;
        struct ls_buf b;

        ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
        put_produce(&b, 1, -1, LS_STR(TOPIC));
        ls_budget_force(budget, budget->max);
        kit_connect(k, &p);
        kit_send(&p, ls_buf_span(&b));
        assert_true(kit_wait_paused(&p, true));
        kit_disconnect(&p);
        ls_budget_uncharge(budget, budget->max);
        for (size_t n = 1; n < b.len; n += 5) {
                kit_connect(k, &p);
                kit_send(&p, ls_span_of(b.ptr, n));
                kit_disconnect(&p);
        }
        assert_int_equal(ls_budget_used(budget), 0);
        ls_buf_done(&b);
}

static void
set_queued(struct kit_peer *p, size_t queued)
{
        pthread_mutex_lock(&p->lock);
        p->queued = queued;
        pthread_mutex_unlock(&p->lock);
}

static void
drained_on_loop(void *ctx)
{
        struct kit_peer *p = ctx;

        kafka_conn_drained(p->conn);
}

static void
test_peer_that_takes_no_answers(void **state)
{
        struct kit *k = *state;
        struct kit_peer p;
        struct ls_buf b;

        ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
        put_metadata(&b, 1);
        kit_connect(k, &p);
        set_queued(&p, KAFKA_WRITE_QUEUE_BYTES + 1);
        kit_send(&p, ls_buf_span(&b));
        assert_int_equal(p.written.len, 0);
        set_queued(&p, 0);
        kit_on_loop(k, drained_on_loop, &p);
        assert_int_equal(recv_correlation(&p), 1);
        kit_disconnect(&p);
        ls_buf_done(&b);
}

static void
tick_on_loop(void *ctx)
{
        struct kit *k = ctx;

        kafka_loop_tick(&k->server->loops[0].tick);
}

static void
frame_is_old_on_loop(void *ctx)
{
        struct kit_peer *p = ctx;

        p->conn->frame_since_ms -= 2 * KAFKA_STALL_MS;
}

static bool
is_closed(struct kit_peer *p)
{
        bool closed;

        pthread_mutex_lock(&p->lock);
        closed = p->closed;
        pthread_mutex_unlock(&p->lock);
        return closed;
}

/* Half a frame holds its memory; slow senders lose it once others wait for it. */
static void
test_slow_sender_is_closed_when_others_wait(void **state)
{
        struct kit *k = *state;
        struct ls_budget *budget = &k->server->produce_frames;
        struct kit_peer slow, fast, other;
        size_t bytes = (1 << 20) + 2 * KAFKA_STALL_MS / 1000 * KAFKA_FRAME_RATE_MIN;
        uint8_t *large = ls_calloc(1, bytes);
        struct ls_buf b;

        ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
        put_produce(&b, 1, -1, LS_STR(TOPIC));
        ls_set_be32(large, (uint32_t)bytes - 4);
        kit_connect(k, &slow);
        kit_connect(k, &fast);
        kit_connect(k, &other);
        kit_send(&slow, ls_span_of(large, 1000));
        kit_send(&fast, ls_span_of(large, bytes - 1000));
        kit_on_loop(k, frame_is_old_on_loop, &slow);
        kit_on_loop(k, frame_is_old_on_loop, &fast);
        kit_on_loop(k, tick_on_loop, k);
        assert_false(is_closed(&slow)); /* nobody waits */
        ls_budget_force(budget, budget->max);
        kit_send(&other, ls_buf_span(&b));
        assert_true(kit_wait_paused(&other, true));
        kit_on_loop(k, tick_on_loop, k);
        assert_true(kit_wait_closed(&slow));
        assert_false(is_closed(&fast));
        ls_budget_uncharge(budget, budget->max);
        assert_int_equal(recv_correlation(&other), 1);
        kit_disconnect(&slow);
        kit_disconnect(&fast);
        kit_disconnect(&other);
        assert_int_equal(ls_budget_used(budget), 0);
        assert_int_equal(atomic_load(&k->server->waiting_count), 0);
        ls_buf_done(&b);
        ls_free(large);
}

static void
untaken_is_old_on_loop(void *ctx)
{
        struct kit_peer *p = ctx;

        p->conn->untaken_ms -= 2 * KAFKA_STALL_MS;
}

static void
test_peer_that_takes_nothing_is_closed_when_memory_is_short(void **state)
{
        struct kit *k = *state;
        struct ls_budget *answers = &k->server->answers;
        struct kit_peer p, slow;

        kit_connect(k, &p);
        kit_connect(k, &slow);
        set_queued(&p, 5);
        set_queued(&slow, 5);
        kit_on_loop(k, tick_on_loop, k);
        kit_on_loop(k, untaken_is_old_on_loop, &p);
        kit_on_loop(k, untaken_is_old_on_loop, &slow);
        kit_on_loop(k, tick_on_loop, k);
        assert_false(is_closed(&p)); /* there is room */
        ls_budget_force(answers, answers->max);
        set_queued(&slow, 4);
        kit_on_loop(k, tick_on_loop, k);
        assert_true(kit_wait_closed(&p));
        assert_false(is_closed(&slow));
        ls_budget_uncharge(answers, answers->max);
        kit_disconnect(&p);
        kit_disconnect(&slow);
}

/* Untaken answers are counted until they are taken, and too many of them hold up new ones. */
static void
test_too_many_answers_hold_up_requests(void **state)
{
        struct kit *k = *state;
        struct ls_budget *answers = &k->server->answers;
        int64_t much = (KAFKA_ANSWERS_HARD_FACTOR + 1) * answers->max;
        struct kit_peer p;
        struct ls_buf b;

        ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
        put_metadata(&b, 1);
        kit_connect(k, &p);
        ls_budget_force(answers, much);
        kit_send(&p, ls_buf_span(&b));
        kit_on_loop(k, tick_on_loop, k);
        assert_int_equal(p.written.len, 0);
        ls_budget_uncharge(answers, much);
        kit_on_loop(k, tick_on_loop, k);
        assert_int_equal(recv_correlation(&p), 1);
        assert_int_equal(ls_budget_used(answers), p.written.len);
        kit_on_loop(k, drained_on_loop, &p);
        assert_int_equal(ls_budget_used(answers), 0);
        kit_disconnect(&p);
        ls_buf_done(&b);
}

static void
put_join(struct ls_buf *b, int32_t correlation_id, ls_str group)
{
        static const uint8_t metadata[100000];
        struct ls_kafka_join_group_request_protocol protocol;
        struct ls_kafka_join_group_request q;

        ls_kafka_join_group_request_protocol_init(&protocol);
        ls_kafka_join_group_request_init(&q);
        protocol.name = LS_STR("range");
        protocol.metadata = ls_span_of(metadata, sizeof metadata);
        q.group_id = group;
        q.session_timeout_ms = 10000;
        q.rebalance_timeout_ms = 10000;
        q.protocol_type = LS_STR("consumer");
        q.protocols.items = &protocol;
        q.protocols.count = 1;
        put_request(b, LS_KAFKA_API_JOIN_GROUP, 3, correlation_id, &q);
}

/* Members that wait for each other must not use up the memory that the others need to come. */
static void
test_waiting_joins_hold_no_frame(void **state)
{
        struct kit *k = *state;
        struct kit_peer p;
        struct ls_buf b;

        ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
        put_join(&b, 1, LS_STR("group"));
        kit_connect(k, &p);
        kit_send(&p, ls_buf_span(&b));
        assert_int_equal(ls_budget_used(&k->server->other_frames), 0);
        assert_int_equal(p.written.len, 0); /* it waits: group.initial.rebalance.delay.ms */
        assert_int_equal(recv_correlation(&p), 1);
        kit_disconnect(&p);
        ls_buf_done(&b);
}

/* ---- long polls ---- */

static const struct fetch_args poll_for_ever = {
        .session_epoch = -1, .max_wait_ms = INT32_MAX, .min_bytes = INT32_MAX, .forgotten = -1
};

static void
test_connection_goes_while_requests_wait(void **state)
{
        struct kit *k = *state;
        struct kit_peer p;
        struct ls_buf b;

        ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
        put_fetch(&b, 1, &poll_for_ever);
        put_metadata(&b, 2);
        kit_connect(k, &p);
        kit_send(&p, ls_buf_span(&b));
        kit_disconnect(&p); /* waits until all of it is gone */
        assert_int_equal(ls_budget_used(&k->server->answers), 0);
        assert_int_equal(ls_budget_used(&k->server->other_frames), 0);
        ls_buf_done(&b);
}

static void
drain_on_loop(void *ctx)
{
        struct kit_peer *p = ctx;

        p->conn->kl->draining = true;
        kafka_conn_drain(p->conn);
        p->conn->kl->draining = false; /* for the next tests */
}

static void
test_drain_answers_long_polls(void **state)
{
        struct kit *k = *state;
        struct kit_peer p;
        struct ls_buf b;

        ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
        put_fetch(&b, 7, &poll_for_ever);
        kit_connect(k, &p);
        kit_send(&p, ls_buf_span(&b));
        kit_on_loop(k, drain_on_loop, &p);
        assert_int_equal(recv_correlation(&p), 7);
        assert_true(kit_wait_closed(&p));
        assert_true(p.closed_flush);
        kit_disconnect(&p);
        ls_buf_done(&b);
}

static void
send_fetch(struct kit_peer *p, const struct fetch_args *a)
{
        struct ls_buf b;

        ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
        put_fetch(&b, 1, a);
        kit_send(p, ls_buf_span(&b));
        ls_buf_done(&b);
}

static void
recv_fetch(struct kit_peer *p, struct ls_arena *arena, struct ls_kafka_fetch_response *ret)
{
        int32_t correlation_id;

        ls_arena_reset(arena);
        assert_true(kit_answer(p, LS_KAFKA_API_FETCH, 12, arena, &correlation_id, ret));
}

static void
test_long_poll_is_woken(void **state)
{
        struct fetch_args args = { .session_epoch = -1,
                                   .max_wait_ms = INT32_MAX,
                                   .min_bytes = 1,
                                   .partition = 2,
                                   .forgotten = -1 };
        struct ls_kafka_fetch_response answer;
        struct kit *k = *state;
        struct kit_peer consumer, producer;
        struct ls_arena arena;
        struct ls_buf b;

        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
        kit_connect(k, &consumer);
        kit_connect(k, &producer);
        args.partition = 0;
        put_offsets(&b, 1, -1);
        kit_send(&producer, ls_buf_span(&b));
        args.offset = recv_end_offset(&producer);
        send_fetch(&consumer, &args);
        ls_buf_clear(&b);
        put_produce(&b, 2, -1, LS_STR(TOPIC));
        kit_send(&producer, ls_buf_span(&b));
        recv_fetch(&consumer, &arena, &answer);
        assert_int_equal(answer.responses.count, 1);
        assert_true(answer.responses.items[0].partitions.items[0].records.len > 0);
        assert_int_equal(recv_correlation(&producer), 2);
        kit_disconnect(&consumer);
        kit_disconnect(&producer);
        ls_buf_done(&b);
        ls_arena_done(&arena);
}

/* ---- sessions (KIP-227) ---- */

static int16_t
session_round(struct kit_peer *p, struct ls_arena *arena, int32_t id, int32_t epoch, int partition,
              int forgotten, struct ls_kafka_fetch_response *ret)
{
        struct fetch_args args = { .session_id = id,
                                   .session_epoch = epoch,
                                   .partition = partition,
                                   .forgotten = forgotten };

        send_fetch(p, &args);
        recv_fetch(p, arena, ret);
        return ret->error_code;
}

static void
test_session_tells_only_what_is_new(void **state)
{
        struct ls_kafka_fetch_response answer;
        struct kit *k = *state;
        struct kit_peer p;
        struct ls_arena arena;
        int32_t id;

        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        kit_connect(k, &p);
        assert_int_equal(session_round(&p, &arena, 0, 0, 1, -1, &answer), 0);
        id = answer.session_id;
        assert_true(id > 0);
        assert_int_equal(answer.responses.count, 1);
        /* Nothing has changed. */
        assert_int_equal(session_round(&p, &arena, id, 1, -1, -1, &answer), 0);
        assert_int_equal(answer.session_id, id);
        assert_int_equal(answer.responses.count, 0);
        /* One more is told once. */
        assert_int_equal(session_round(&p, &arena, id, 2, 2, -1, &answer), 0);
        assert_int_equal(answer.responses.count, 1);
        assert_int_equal(answer.responses.items[0].partitions.items[0].partition_index, 2);
        assert_int_equal(session_round(&p, &arena, id, 3, -1, -1, &answer), 0);
        assert_int_equal(answer.responses.count, 0);
        /* The wrong epoch, and again the right one. */
        assert_int_equal(session_round(&p, &arena, id, 3, -1, -1, &answer),
                         LS_KAFKA_ERR_INVALID_FETCH_SESSION_EPOCH);
        assert_int_equal(session_round(&p, &arena, id, 4, -1, 2, &answer), 0);
        /* All forgotten: it ends. */
        assert_int_equal(session_round(&p, &arena, id, 5, -1, 1, &answer), 0);
        assert_int_equal(answer.session_id, 0);
        assert_int_equal(session_round(&p, &arena, id, 6, -1, -1, &answer),
                         LS_KAFKA_ERR_FETCH_SESSION_ID_NOT_FOUND);
        assert_int_equal(kafka_sessions_count(&k->server->sessions), 0);
        kit_disconnect(&p);
        ls_arena_done(&arena);
}

static void
test_session_is_closed_by_its_client(void **state)
{
        struct ls_kafka_fetch_response answer;
        struct kit *k = *state;
        struct kit_peer p;
        struct ls_arena arena;
        int32_t id;

        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        kit_connect(k, &p);
        assert_int_equal(session_round(&p, &arena, 0, 0, 1, -1, &answer), 0);
        id = answer.session_id;
        assert_int_equal(kafka_sessions_count(&k->server->sessions), 1);
        assert_int_equal(session_round(&p, &arena, id, -1, 1, -1, &answer), 0);
        assert_int_equal(answer.session_id, 0);
        assert_int_equal(kafka_sessions_count(&k->server->sessions), 0);
        kit_disconnect(&p);
        ls_arena_done(&arena);
}

static void
test_session_table_is_bounded(void **state)
{
        struct kafka_fetch_part part = { .topic = LS_STR("t"), .fetch_offset = 1 };
        struct kafka_session *a, *b, *again = NULL;
        struct kafka_sessions sessions;

        kafka_sessions_init(&sessions, 2);
        assert_null(kafka_session_new(&sessions, false, 0));
        a = kafka_session_new(&sessions, false, 1);
        b = kafka_session_new(&sessions, false, 1);
        assert_non_null(a);
        assert_non_null(b);
        /* Both are young: there is no room. */
        assert_null(kafka_session_new(&sessions, false, 5));
        assert_non_null(kafka_session_set(a, &part));
        assert_non_null(kafka_session_set(a, &part));
        assert_int_equal(a->part_count, 1);
        kafka_session_put(&sessions, a);
        kafka_session_put(&sessions, b);
        assert_null(kafka_session_new(&sessions, false, 5));
        /* An old one makes room. */
        b->used_ms -= 2 * KAFKA_SESSION_IDLE_MS;
        b = kafka_session_new(&sessions, false, 5);
        assert_non_null(b);
        /* Ended while a request has it: freed when it is put back. */
        kafka_session_close(&sessions, b->id);
        kafka_session_put(&sessions, b);
        /* One request at a time, and topics named one way. */
        assert_int_equal(kafka_session_take(&sessions, a->id, 1, true, &again),
                         LS_KAFKA_ERR_FETCH_SESSION_TOPIC_ID_ERROR);
        assert_int_equal(kafka_session_take(&sessions, a->id, 1, false, &again), 0);
        assert_int_equal(kafka_session_take(&sessions, a->id, 1, false, &again),
                         LS_KAFKA_ERR_INVALID_FETCH_SESSION_EPOCH);
        kafka_session_put(&sessions, a);
        kafka_sessions_done(&sessions);
        assert_int_equal(atomic_load(&sessions.part_count), 0);
}

/* ---- tables ---- */

static void
test_tables(void **state)
{
        static char long_name[KAFKA_TOPIC_NAME_BYTES_MAX + 1];
        struct ls_errinfo info = { 0 };

        for (ls_err e = LS_EFENCED - 1; e <= LS_NEWER_FORMAT; e++) {
                int16_t code = kafka_error_of(e);

                assert_int_equal(code == LS_KAFKA_ERR_NONE, e == LS_OK);
                assert_int_equal(ls_kafka_error_find(code)->code, code);
        }
        for (size_t i = 0; i < LS_KAFKA_API_COUNT; i++)
                assert_non_null(kafka_api_find(ls_kafka_apis[i].key));
        memset(long_name, 'x', sizeof long_name);
        assert_true(kafka_topic_name_ok(LS_STR("a.B_c-9"), &info));
        assert_true(kafka_topic_name_ok(ls_str_make(long_name, sizeof long_name - 1), &info));
        assert_false(kafka_topic_name_ok(ls_str_make(long_name, sizeof long_name), &info));
        assert_false(kafka_topic_name_ok(LS_STR(""), &info));
        assert_false(kafka_topic_name_ok(LS_STR_NULL, &info));
        assert_false(kafka_topic_name_ok(LS_STR("."), &info));
        assert_false(kafka_topic_name_ok(LS_STR(".."), &info));
        assert_false(kafka_topic_name_ok(LS_STR("a b"), &info));
        assert_false(kafka_topic_name_ok(LS_STR("a/b"), &info));
        assert_true(strlen(info.text) > 0);
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_answers_come_in_order_however_bytes_are_cut),
                cmocka_unit_test(test_many_more_requests_than_may_wait),
                cmocka_unit_test(test_impossible_frames_close),
                cmocka_unit_test(test_what_came_before_is_answered_before_closing),
                cmocka_unit_test(test_bytes_after_a_request_are_passed_over),
                cmocka_unit_test(test_api_versions_too_new),
                cmocka_unit_test(test_acks_0_that_fails_closes),
                cmocka_unit_test(test_waits_for_memory),
                cmocka_unit_test(test_large_frame_has_its_turn),
                cmocka_unit_test(test_goes_away_early),
                cmocka_unit_test(test_peer_that_takes_no_answers),
                cmocka_unit_test(test_slow_sender_is_closed_when_others_wait),
                cmocka_unit_test(test_peer_that_takes_nothing_is_closed_when_memory_is_short),
                cmocka_unit_test(test_too_many_answers_hold_up_requests),
                cmocka_unit_test(test_waiting_joins_hold_no_frame),
                cmocka_unit_test(test_connection_goes_while_requests_wait),
                cmocka_unit_test(test_drain_answers_long_polls),
                cmocka_unit_test(test_long_poll_is_woken),
                cmocka_unit_test(test_session_tells_only_what_is_new),
                cmocka_unit_test(test_session_is_closed_by_its_client),
                cmocka_unit_test(test_session_table_is_bounded),
                cmocka_unit_test(test_tables),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}

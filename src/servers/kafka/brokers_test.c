/* servers/kafka/brokers_test.c - proves, for one of many brokers: the zone is read from a client's
 * id; leaders are brokers of that zone, the same for the same client, each the only replica; those
 * without an address are told to nobody; coordinators are the list's; what is unknown here is
 * looked for once before it is denied, whatever asks for it, with requests of a connection in
 * order; many who ask share one look; offsets are read anew; out of range is said only after that;
 * and when the metadata store can't be reached, clients are to ask again. Embedded, nothing is
 * looked for. Real streams in a folder; the other brokers are this test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "formats/batch/batch.h"
#include "servers/kafka/test_kit.h"

#define TOPIC "topic"
enum { PARTITIONS = 24 };

/* What the other brokers do: when the store is looked at, and how often it was. */
static struct world {
        struct ls_brokers brokers;
        struct ls_broker items[3];
        struct kit *kit;
        pthread_mutex_t lock;
        struct ls_cond changed;
        int looks, freshens;
        ls_err look_error, freshen_error;
        const char *makes; /* the topic that a look finds; NULL: none */
        bool grows;        /* a look finds one more partition of TOPIC */
        bool appends;      /* a stream that is read anew has one more record */
        bool held;         /* looks wait */
} world;

/* ---- the other brokers ---- */

static struct ls_brokers *
world_brokers(struct ls_streams *s)
{
        atomic_fetch_add(&world.brokers.refs, 1);
        return &world.brokers;
}

static ls_err
world_look(struct ls_streams *s)
{
        struct ls_stream *stream = NULL;
        const char *makes;
        bool grows;
        ls_err e;

        pthread_mutex_lock(&world.lock);
        world.looks++;
        ls_cond_broadcast(&world.changed);
        while (world.held)
                ls_cond_wait(&world.changed, &world.lock);
        makes = LS_STEAL(world.makes);
        grows = LS_STEAL(world.grows);
        e = world.look_error;
        pthread_mutex_unlock(&world.lock);
        if (e == LS_OK && makes != NULL)
                e = ls_stream_create(s, ls_str_of(makes), 1, NULL, 0, false, &stream, NULL);
        if (e == LS_OK && grows) {
                stream = ls_stream_find(s, LS_STR(TOPIC));
                e = ls_stream_grow(s, stream, ls_stream_info(stream)->partitions + 1, false, NULL);
        }
        ls_stream_unref(stream);
        return e;
}

static void
make_batch(struct ls_buf *b)
{
        struct ls_batch_build cfg = { .records_bytes_max = 1 << 20 };
        struct ls_batch_builder builder;
        struct ls_record record = { .timestamp = 1700000000000, .value = ls_span_of("v", 1) };

        ls_batch_builder_init(&builder, &cfg);
        ls_batch_builder_begin(&builder, b, 0);
        LS_ASSERT(ls_batch_builder_add(&builder, &record) == LS_OK);
        LS_ASSERT(ls_batch_builder_end(&builder, -1, NULL) == LS_OK);
        ls_batch_builder_done(&builder);
}

struct appended {
        struct ls_append append;
        struct ls_append_part part;
        bool done;
};

static void
append_done(struct ls_append *append)
{
        struct appended *a = LS_CONTAINER(append, struct appended, append);

        pthread_mutex_lock(&world.lock);
        a->done = true;
        ls_cond_broadcast(&world.changed);
        pthread_mutex_unlock(&world.lock);
}

/* One record into partition 0, from a thread that is no loop's. */
static void
append_one(struct ls_stream *stream)
{
        struct appended a = { .part = { .stream = stream } };
        struct ls_buf batch;

        ls_buf_init(&batch, LS_BUF_MAX_DEFAULT);
        make_batch(&batch);
        a.part.records = ls_slice_new(batch.len);
        memcpy(a.part.records->ptr, batch.ptr, batch.len);
        ls_buf_done(&batch);
        a.append = (struct ls_append){
                .parts = &a.part, .part_count = 1, .loop = world.kit->loop, .done = append_done
        };
        ls_stream_append(world.kit->streams, &a.append);
        pthread_mutex_lock(&world.lock);
        while (!a.done)
                ls_cond_wait(&world.changed, &world.lock);
        pthread_mutex_unlock(&world.lock);
        LS_ASSERT(a.part.outcome == LS_OK);
        ls_slice_unref(a.part.records);
}

static ls_err
world_freshen(struct ls_stream *stream)
{
        bool appends;
        ls_err e;

        pthread_mutex_lock(&world.lock);
        world.freshens++;
        e = world.freshen_error;
        appends = world.appends;
        pthread_mutex_unlock(&world.lock);
        if (e == LS_OK && appends)
                append_one(stream);
        return e;
}

/* This broker is 1, in zone a without a word of it; 2 is in zone a, 3 in b. */
static void
world_list(struct ls_kafka_server *s, size_t count)
{
        static char zone_a[] = "a", zone_b[] = "b", two[] = "two", three[] = "three", none[] = "";

        world.items[0] = (struct ls_broker){ s->broker_id, 7, zone_a, none, 0, none };
        world.items[1] = (struct ls_broker){ s->broker_id + 1, 8, zone_a, two, 9002, none };
        world.items[2] = (struct ls_broker){ s->broker_id + 2, 9, zone_b, three, 9003, none };
        world.brokers.items = world.items;
        world.brokers.count = count;
        atomic_store(&world.brokers.refs, 1);
}

static int
setup(void **state)
{
        struct kit *k = ls_calloc(1, sizeof *k);
        struct ls_stream *stream = NULL;

        kit_open(k);
        world = (struct world){ .kit = k };
        pthread_mutex_init(&world.lock, NULL);
        ls_cond_init(&world.changed);
        world_list(k->server, 3);
        k->server->shared = true;
        k->server->cluster = (struct kafka_cluster_ops){ world_brokers, world_look, world_freshen };
        assert_int_equal(ls_stream_create(k->streams, LS_STR(TOPIC), PARTITIONS, NULL, 0, false,
                                          &stream, NULL),
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
        assert_int_equal(atomic_load(&world.brokers.refs), 1);
        ls_cond_done(&world.changed);
        pthread_mutex_destroy(&world.lock);
        return 0;
}

/* ---- requests ---- */

static void
put(struct ls_buf *b, int16_t key, int16_t version, int32_t id, const char *client,
    const void *body)
{
        struct ls_wire_out out;

        ls_wire_out_init(&out, LS_BUF_MAX_DEFAULT);
        assert_int_equal(ls_kafka_request_encode(ls_kafka_api_find(key), version, id,
                                                 ls_str_of(client), body, &out),
                         LS_OK);
        ls_buf_put_span(b, ls_buf_span(&out.buf));
        ls_wire_out_done(&out);
}

static void
put_metadata(struct ls_buf *b, int32_t id, const char *client, const char *topic)
{
        struct ls_kafka_metadata_request_topic t;
        struct ls_kafka_metadata_request q;

        ls_kafka_metadata_request_init(&q);
        ls_kafka_metadata_request_topic_init(&t);
        t.name = ls_str_of(topic);
        q.topics.items = topic != NULL ? &t : NULL;
        q.topics.count = topic != NULL;
        q.allow_auto_topic_creation = false;
        put(b, LS_KAFKA_API_METADATA, 9, id, client, &q);
}

static void
ask_metadata(struct kit_peer *p, struct ls_arena *arena, const char *client, const char *topic,
             struct ls_kafka_metadata_response *ret)
{
        struct ls_buf b;
        int32_t id;

        ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
        put_metadata(&b, 1, client, topic);
        kit_send(p, ls_buf_span(&b));
        ls_buf_done(&b);
        assert_true(kit_answer(p, LS_KAFKA_API_METADATA, 9, arena, &id, ret));
}

static int16_t
metadata_error(struct kit_peer *p, const char *topic)
{
        struct ls_kafka_metadata_response answer;
        struct ls_arena arena;
        int16_t error;

        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        ask_metadata(p, &arena, "t", topic, &answer);
        assert_int_equal(answer.topics.count, 1);
        error = answer.topics.items[0].error_code;
        ls_arena_done(&arena);
        return error;
}

static void
put_produce(struct ls_buf *b, int32_t id, const char *topic_name, int32_t index)
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
        partition.index = index;
        partition.records.ptr = batch.ptr;
        partition.records.len = batch.len;
        topic.name = ls_str_of(topic_name);
        topic.partition_data.items = &partition;
        topic.partition_data.count = 1;
        q.acks = -1;
        q.topic_data.items = &topic;
        q.topic_data.count = 1;
        put(b, LS_KAFKA_API_PRODUCE, 9, id, "t", &q);
        ls_buf_done(&batch);
}

/* Its error; *ret_offset. */
static int16_t
take_produce(struct kit_peer *p, int32_t id, int64_t *ret_offset)
{
        struct ls_kafka_produce_response answer;
        struct ls_arena arena;
        int16_t error;
        int32_t got;

        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        assert_true(kit_answer(p, LS_KAFKA_API_PRODUCE, 9, &arena, &got, &answer));
        assert_int_equal(got, id);
        error = answer.responses.items[0].partition_responses.items[0].error_code;
        *ret_offset = answer.responses.items[0].partition_responses.items[0].base_offset;
        ls_arena_done(&arena);
        return error;
}

/* The latest offset of partition 0 of each topic named; the error of the last. */
static int16_t
ask_offsets(struct kit_peer *p, const char **names, uint32_t count, int64_t *ret_offset)
{
        struct ls_kafka_list_offsets_request_partition partition;
        struct ls_kafka_list_offsets_request_topic topics[4];
        struct ls_kafka_list_offsets_request q;
        struct ls_kafka_list_offsets_response answer;
        struct ls_arena arena;
        int16_t error;
        int32_t id;

        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        ls_kafka_list_offsets_request_init(&q);
        ls_kafka_list_offsets_request_partition_init(&partition);
        partition.timestamp = -1;
        for (uint32_t i = 0; i < count; i++) {
                ls_kafka_list_offsets_request_topic_init(&topics[i]);
                topics[i].name = ls_str_of(names[i]);
                topics[i].partitions.items = &partition;
                topics[i].partitions.count = 1;
        }
        q.topics.items = topics;
        q.topics.count = count;
        kit_request(p, LS_KAFKA_API_LIST_OFFSETS, 7, 3, &q);
        assert_true(kit_answer(p, LS_KAFKA_API_LIST_OFFSETS, 7, &arena, &id, &answer));
        error = answer.topics.items[count - 1].partitions.items[0].error_code;
        *ret_offset = answer.topics.items[count - 1].partitions.items[0].offset;
        ls_arena_done(&arena);
        return error;
}

static int16_t
ask_fetch(struct kit_peer *p, const char *topic_name, int32_t index, int64_t offset,
          int64_t *ret_end)
{
        struct ls_kafka_fetch_request_partition partition;
        struct ls_kafka_fetch_request_topic topic;
        struct ls_kafka_fetch_request q;
        struct ls_kafka_fetch_response answer;
        struct ls_arena arena;
        int16_t error;
        int32_t id;

        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        ls_kafka_fetch_request_partition_init(&partition);
        ls_kafka_fetch_request_topic_init(&topic);
        ls_kafka_fetch_request_init(&q);
        partition.partition = index;
        partition.fetch_offset = offset;
        partition.partition_max_bytes = 1 << 20;
        topic.topic = ls_str_of(topic_name);
        topic.partitions.items = &partition;
        topic.partitions.count = 1;
        q.session_epoch = -1;
        q.max_bytes = 1 << 20;
        q.topics.items = &topic;
        q.topics.count = 1;
        kit_request(p, LS_KAFKA_API_FETCH, 12, 4, &q);
        assert_true(kit_answer(p, LS_KAFKA_API_FETCH, 12, &arena, &id, &answer));
        error = answer.responses.items[0].partitions.items[0].error_code;
        *ret_end = answer.responses.items[0].partitions.items[0].high_watermark;
        assert_int_equal(answer.responses.items[0].partitions.items[0].preferred_read_replica, -1);
        ls_arena_done(&arena);
        return error;
}

/* ---- who leads ---- */

static void
test_zone_in_client_id(void **state)
{
        static const struct {
                const char *id, *zone; /* NULL: none */
        } cases[] = {
                { "", NULL },
                { "app", NULL },
                { "zone_id=a", "a" },
                { "app,diskless_az=eu-west-1b", "eu-west-1b" },
                { "app ws_az=use1-az2;x=1", "use1-az2" },
                { "zone=b,zone_id=c", "b" },
                { "app-zone=b c", "b" },
                { "timezone=utc", NULL },
                { "my_zone=b", NULL },
                { "timezone=utc,zone=b", "b" },
                { "zone=", NULL },
                { "zone=,ws_az=d", "d" },
                { "zone", NULL },
                { "ws_az=e=f", "e=f" },
        };

        for (size_t i = 0; i < LS_COUNT(cases); i++) {
                ls_str zone = kafka_zone_of(ls_str_of(cases[i].id));

                if (cases[i].zone == NULL)
                        assert_null(zone.ptr);
                else
                        assert_true(ls_str_is(zone, cases[i].zone));
        }
}

/* Asks as `client`, checks what holds for all, and counts partitions by leader. */
static void
count_leaders(struct kit *k, struct kit_peer *p, const char *client, ls_str zone, size_t *ret)
{
        struct ls_kafka_metadata_response answer;
        const struct ls_kafka_metadata_response_topic *t;
        struct ls_stream *stream = ls_stream_find(k->streams, LS_STR(TOPIC));
        struct ls_arena arena;

        memset(ret, 0, 3 * sizeof *ret);
        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        ask_metadata(p, &arena, client, TOPIC, &answer);
        assert_int_equal(answer.controller_id, k->server->broker_id);
        t = &answer.topics.items[0];
        assert_int_equal(t->partitions.count, PARTITIONS);
        for (int32_t i = 0; i < PARTITIONS; i++) {
                size_t at = ls_brokers_leader(&world.brokers, ls_stream_info(stream)->topic_id, i,
                                              zone);
                const struct ls_kafka_metadata_response_partition *part = &t->partitions.items[i];

                assert_int_equal(part->leader_id, world.items[at].id);
                assert_int_equal(part->replica_nodes.count, 1);
                assert_int_equal(part->replica_nodes.items[0], part->leader_id);
                assert_int_equal(part->isr_nodes.count, 1);
                assert_int_equal(part->isr_nodes.items[0], part->leader_id);
                assert_int_equal(part->offline_replicas.count, 0);
                ret[at]++;
        }
        ls_stream_unref(stream);
        ls_arena_done(&arena);
}

static void
test_leaders_by_zone(void **state)
{
        struct kit *k = *state;
        size_t by[3], again[3];
        struct kit_peer p;

        kit_connect(k, &p);
        count_leaders(k, &p, "app", LS_STR_NULL, by);
        assert_true(by[0] > 0 && by[1] > 0 && by[2] > 0);
        count_leaders(k, &p, "other", LS_STR_NULL, again);
        assert_memory_equal(by, again, sizeof by);
        count_leaders(k, &p, "app,zone_id=a", LS_STR("a"), by);
        assert_true(by[0] > 0 && by[1] > 0 && by[2] == 0);
        count_leaders(k, &p, "app,ws_az=b", LS_STR("b"), by);
        assert_int_equal(by[2], PARTITIONS);
        count_leaders(k, &p, "app,zone=nowhere", LS_STR("nowhere"), by);
        assert_true(by[0] > 0 && by[1] > 0 && by[2] > 0);
        kit_disconnect(&p);
}

static void
test_brokers_are_told_with_their_addresses(void **state)
{
        static char none[] = "";
        struct kit *k = *state;
        struct ls_kafka_metadata_response answer;
        struct ls_arena arena;
        struct kit_peer p;

        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        kit_connect(k, &p);
        ask_metadata(&p, &arena, "t", TOPIC, &answer);
        assert_int_equal(answer.brokers.count, 3);
        /* This one as it was started, whatever the list has. */
        assert_int_equal(answer.brokers.items[0].node_id, k->server->broker_id);
        assert_true(ls_str_is(answer.brokers.items[0].host, "127.0.0.1"));
        assert_int_equal(answer.brokers.items[0].port, 9092);
        assert_null(answer.brokers.items[0].rack.ptr);
        assert_true(ls_str_is(answer.brokers.items[1].host, "two"));
        assert_int_equal(answer.brokers.items[1].port, 9002);
        assert_true(ls_str_is(answer.brokers.items[2].rack, "b"));

        world.items[2].host = none; /* not announced yet */
        ask_metadata(&p, &arena, "t,zone=b", TOPIC, &answer);
        assert_int_equal(answer.brokers.count, 2);
        for (int32_t i = 0; i < PARTITIONS; i++)
                assert_int_equal(answer.topics.items[0].partitions.items[i].leader_id,
                                 k->server->broker_id);
        world_list(k->server, 1); /* alone */
        ask_metadata(&p, &arena, "t", TOPIC, &answer);
        assert_int_equal(answer.brokers.count, 1);
        assert_int_equal(answer.topics.items[0].partitions.items[5].leader_id,
                         k->server->broker_id);
        kit_disconnect(&p);
        ls_arena_done(&arena);
}

static void
test_describe_tells_the_same(void **state)
{
        struct kit *k = *state;
        struct ls_kafka_describe_cluster_request q;
        struct ls_kafka_describe_cluster_response answer;
        struct ls_kafka_describe_topic_partitions_request tq;
        struct ls_kafka_describe_topic_partitions_response ta;
        struct ls_kafka_metadata_response metadata;
        struct ls_arena arena;
        struct kit_peer p;
        int32_t id;

        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        kit_connect(k, &p);
        ls_kafka_describe_cluster_request_init(&q);
        kit_request(&p, LS_KAFKA_API_DESCRIBE_CLUSTER, 1, 1, &q);
        assert_true(kit_answer(&p, LS_KAFKA_API_DESCRIBE_CLUSTER, 1, &arena, &id, &answer));
        assert_int_equal(answer.brokers.count, 3);
        assert_int_equal(answer.brokers.items[2].port, 9003);
        assert_int_equal(answer.controller_id, k->server->broker_id);

        ls_kafka_describe_topic_partitions_request_init(&tq);
        kit_request(&p, LS_KAFKA_API_DESCRIBE_TOPIC_PARTITIONS, 0, 2, &tq);
        assert_true(kit_answer(&p, LS_KAFKA_API_DESCRIBE_TOPIC_PARTITIONS, 0, &arena, &id, &ta));
        ask_metadata(&p, &arena, "t", TOPIC, &metadata);
        for (int32_t i = 0; i < PARTITIONS; i++)
                assert_int_equal(ta.topics.items[0].partitions.items[i].leader_id,
                                 metadata.topics.items[0].partitions.items[i].leader_id);
        kit_disconnect(&p);
        ls_arena_done(&arena);
}

static void
test_coordinators(void **state)
{
        static char none[] = "";
        struct kit *k = *state;
        struct ls_kafka_find_coordinator_response answer;
        struct ls_kafka_find_coordinator_request q;
        struct ls_arena arena;
        struct kit_peer p;
        ls_str keys[16];
        size_t by[3] = { 0 };
        int32_t id;

        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        kit_connect(k, &p);
        ls_kafka_find_coordinator_request_init(&q);
        for (int i = 0; i < 16; i++)
                keys[i] = ls_arena_printf(&arena, "group-%d", i);
        q.coordinator_keys.items = keys;
        q.coordinator_keys.count = 16;
        world.items[2].host = none;
        kit_request(&p, LS_KAFKA_API_FIND_COORDINATOR, 4, 1, &q);
        assert_true(kit_answer(&p, LS_KAFKA_API_FIND_COORDINATOR, 4, &arena, &id, &answer));
        for (int i = 0; i < 16; i++) {
                size_t at = ls_brokers_coordinator(&world.brokers, keys[i]);
                bool told = at != 2;

                assert_int_equal(answer.coordinators.items[i].error_code,
                                 told ? 0 : LS_KAFKA_ERR_COORDINATOR_NOT_AVAILABLE);
                assert_int_equal(answer.coordinators.items[i].node_id,
                                 told ? world.items[at].id : -1);
                if (at == 1)
                        assert_true(ls_str_is(answer.coordinators.items[i].host, "two"));
                by[at]++;
        }
        assert_true(by[0] > 0 && by[1] > 0 && by[2] > 0);

        q.key = keys[0];
        kit_request(&p, LS_KAFKA_API_FIND_COORDINATOR, 3, 2, &q);
        assert_true(kit_answer(&p, LS_KAFKA_API_FIND_COORDINATOR, 3, &arena, &id, &answer));
        assert_int_equal(answer.error_code, ls_brokers_coordinator(&world.brokers, keys[0]) == 2
                                                    ? LS_KAFKA_ERR_COORDINATOR_NOT_AVAILABLE
                                                    : 0);
        kit_disconnect(&p);
        ls_arena_done(&arena);
}

/* ---- what is not known here ---- */

static void
test_unknown_topics_are_looked_for(void **state)
{
        struct kit *k = *state;
        struct kit_peer p;

        kit_connect(k, &p);
        assert_int_equal(metadata_error(&p, TOPIC), 0);
        assert_int_equal(world.looks, 0); /* nothing is in doubt */
        world.makes = "another";
        assert_int_equal(metadata_error(&p, "another"), 0);
        assert_int_equal(world.looks, 1);
        assert_int_equal(metadata_error(&p, "nonsense"), LS_KAFKA_ERR_UNKNOWN_TOPIC_OR_PARTITION);
        assert_int_equal(world.looks, 2);
        world.look_error = LS_EDB;
        assert_int_equal(metadata_error(&p, "nonsense"), LS_KAFKA_ERR_KAFKA_STORAGE_ERROR);
        world.look_error = LS_OK;
        k->server->shared = false; /* embedded: this broker knows all there is */
        assert_int_equal(metadata_error(&p, "nonsense"), LS_KAFKA_ERR_UNKNOWN_TOPIC_OR_PARTITION);
        assert_int_equal(world.looks, 3);
        kit_disconnect(&p);
}

static void
test_all_topics_are_looked_for(void **state)
{
        struct kit *k = *state;
        struct ls_kafka_metadata_response answer;
        struct ls_arena arena;
        struct kit_peer p;

        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        kit_connect(k, &p);
        world.makes = "another";
        ask_metadata(&p, &arena, "t", NULL, &answer);
        assert_int_equal(answer.topics.count, 2);
        assert_int_equal(world.looks, 1);
        kit_disconnect(&p);
        ls_arena_done(&arena);
}

/* By a job: the handler itself looks. */
static void
test_administration_looks_too(void **state)
{
        struct kit *k = *state;
        struct ls_kafka_delete_topics_response answer;
        struct ls_kafka_delete_topics_request q;
        ls_str names[] = { LS_STR("nonsense"), LS_STR("another"), LS_STR("nonsense2") };
        struct ls_arena arena;
        struct kit_peer p;
        int32_t id;

        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        kit_connect(k, &p);
        ls_kafka_delete_topics_request_init(&q);
        q.topic_names.items = names;
        q.topic_names.count = 3;
        world.makes = "another";
        kit_request(&p, LS_KAFKA_API_DELETE_TOPICS, 4, 1, &q);
        assert_true(kit_answer(&p, LS_KAFKA_API_DELETE_TOPICS, 4, &arena, &id, &answer));
        assert_int_equal(answer.responses.items[0].error_code,
                         LS_KAFKA_ERR_UNKNOWN_TOPIC_OR_PARTITION);
        assert_int_equal(answer.responses.items[1].error_code, 0);
        assert_int_equal(answer.responses.items[2].error_code,
                         LS_KAFKA_ERR_UNKNOWN_TOPIC_OR_PARTITION);
        assert_int_equal(world.looks, 1);
        kit_disconnect(&p);
        ls_arena_done(&arena);
}

static void
test_produce_waits_in_its_place(void **state)
{
        struct kit *k = *state;
        struct kit_peer p;
        struct ls_buf b;
        int64_t offset;

        ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
        kit_connect(k, &p);
        put_produce(&b, 1, TOPIC, 0);
        put_produce(&b, 2, "another", 0);
        put_produce(&b, 3, TOPIC, 0);
        put_produce(&b, 4, "another", 0);
        put_produce(&b, 5, "nonsense", 0);
        put_produce(&b, 6, TOPIC, PARTITIONS); /* grown elsewhere */
        put_metadata(&b, 7, "t", TOPIC);
        world.makes = "another";
        kit_send(&p, ls_buf_span(&b));
        assert_int_equal(take_produce(&p, 1, &offset), 0);
        assert_int_equal(take_produce(&p, 2, &offset), 0);
        assert_int_equal(offset, 0);
        assert_int_equal(take_produce(&p, 3, &offset), 0);
        assert_int_equal(offset, 1);
        assert_int_equal(take_produce(&p, 4, &offset), 0);
        assert_int_equal(offset, 1);
        assert_int_equal(take_produce(&p, 5, &offset), LS_KAFKA_ERR_UNKNOWN_TOPIC_OR_PARTITION);
        assert_int_equal(take_produce(&p, 6, &offset), LS_KAFKA_ERR_UNKNOWN_TOPIC_OR_PARTITION);
        assert_true(kit_recv(&p).len > 0);
        assert_int_equal(world.looks, 3);
        ls_buf_clear(&b);
        put_produce(&b, 8, TOPIC, PARTITIONS);
        world.grows = true;
        kit_send(&p, ls_buf_span(&b));
        assert_int_equal(take_produce(&p, 8, &offset), 0);
        assert_int_equal(world.looks, 4);
        kit_disconnect(&p);
        ls_buf_done(&b);
}

static void
test_many_share_a_look(void **state)
{
        enum { PEERS = 20 };
        struct kit *k = *state;
        struct kit_peer peers[PEERS];
        struct ls_buf b;

        ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
        put_metadata(&b, 9, "t", "nonsense");
        world.held = true;
        for (int i = 0; i < PEERS; i++) {
                kit_connect(k, &peers[i]);
                kit_send(&peers[i], ls_buf_span(&b));
                pthread_mutex_lock(&world.lock);
                while (world.looks == 0)
                        ls_cond_wait(&world.changed, &world.lock);
                pthread_mutex_unlock(&world.lock);
        }
        pthread_mutex_lock(&world.lock);
        world.held = false;
        ls_cond_broadcast(&world.changed);
        pthread_mutex_unlock(&world.lock);
        for (int i = 0; i < PEERS; i++) {
                assert_true(kit_recv(&peers[i]).len > 0);
                kit_disconnect(&peers[i]);
        }
        assert_int_equal(world.looks, 2); /* of the first, and of all who came during it */
        ls_buf_done(&b);
}

static void
test_who_goes_away_while_it_is_looked(void **state)
{
        struct kit *k = *state;
        struct kit_peer p;
        struct ls_buf b;

        ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
        put_produce(&b, 1, "nonsense", 0);
        put_produce(&b, 2, TOPIC, 0);
        world.held = true;
        kit_connect(k, &p);
        kit_send(&p, ls_buf_span(&b));
        pthread_mutex_lock(&world.lock);
        while (world.looks == 0)
                ls_cond_wait(&world.changed, &world.lock);
        world.held = false;
        ls_cond_broadcast(&world.changed);
        pthread_mutex_unlock(&world.lock);
        kit_disconnect(&p); /* waits until nothing is left of it */
        ls_buf_done(&b);
}

/* ---- offsets ---- */

static void
test_offsets_are_read_anew(void **state)
{
        const char *names[] = { TOPIC, "nonsense", TOPIC, TOPIC };
        struct kit *k = *state;
        struct kit_peer p;
        int64_t offset;

        kit_connect(k, &p);
        world.appends = true; /* another broker's record, which the answer must count */
        assert_int_equal(ask_offsets(&p, names, 1, &offset), 0);
        assert_int_equal(offset, 1);
        assert_int_equal(world.freshens, 1);
        assert_int_equal(world.looks, 0);
        assert_int_equal(ask_offsets(&p, names, 4, &offset), 0);
        assert_int_equal(offset, 2);
        assert_int_equal(world.freshens, 2); /* each once */
        assert_int_equal(world.looks, 1);
        world.freshen_error = LS_EDB;
        assert_int_equal(ask_offsets(&p, names, 1, &offset), LS_KAFKA_ERR_KAFKA_STORAGE_ERROR);
        k->server->shared = false;
        assert_int_equal(ask_offsets(&p, names, 1, &offset), 0);
        assert_int_equal(offset, 2);
        assert_int_equal(world.freshens, 3);
        kit_disconnect(&p);
}

static void
test_out_of_range_is_looked_at(void **state)
{
        struct kit *k = *state;
        struct kit_peer p;
        int64_t end;

        kit_connect(k, &p);
        assert_int_equal(ask_fetch(&p, TOPIC, 0, 0, &end), 0);
        assert_int_equal(world.freshens, 0);
        world.appends = true;
        assert_int_equal(ask_fetch(&p, TOPIC, 0, 1, &end), 0); /* told by another broker */
        assert_int_equal(end, 1);
        assert_int_equal(world.freshens, 1);
        world.appends = false;
        assert_int_equal(ask_fetch(&p, TOPIC, 0, 5, &end), LS_KAFKA_ERR_OFFSET_OUT_OF_RANGE);
        assert_int_equal(world.freshens, 2);
        world.freshen_error = LS_EDB; /* a consumer would begin anew somewhere */
        assert_int_equal(ask_fetch(&p, TOPIC, 0, 5, &end), LS_KAFKA_ERR_KAFKA_STORAGE_ERROR);
        assert_int_equal(world.looks, 0);

        world.grows = true;
        assert_int_equal(ask_fetch(&p, TOPIC, PARTITIONS, 0, &end), 0);
        assert_int_equal(world.looks, 1);
        assert_int_equal(ask_fetch(&p, "nonsense", 0, 0, &end),
                         LS_KAFKA_ERR_UNKNOWN_TOPIC_OR_PARTITION);
        world.look_error = LS_ENET;
        assert_int_equal(ask_fetch(&p, "nonsense", 0, 0, &end), LS_KAFKA_ERR_KAFKA_STORAGE_ERROR);
        assert_int_equal(world.looks, 3);
        k->server->shared = false;
        assert_int_equal(ask_fetch(&p, TOPIC, 0, 5, &end), LS_KAFKA_ERR_OFFSET_OUT_OF_RANGE);
        assert_int_equal(world.freshens, 3);
        kit_disconnect(&p);
}

int
main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_zone_in_client_id),
                CASE(test_leaders_by_zone),
                CASE(test_brokers_are_told_with_their_addresses),
                CASE(test_describe_tells_the_same),
                CASE(test_coordinators),
                CASE(test_unknown_topics_are_looked_for),
                CASE(test_all_topics_are_looked_for),
                CASE(test_administration_looks_too),
                CASE(test_produce_waits_in_its_place),
                CASE(test_many_share_a_look),
                CASE(test_who_goes_away_while_it_is_looked),
                CASE(test_offsets_are_read_anew),
                CASE(test_out_of_range_is_looked_at),
        };

        ls_log_setup(LS_LOG_ERROR, NULL, NULL);
        return cmocka_run_group_tests_name("kafka-brokers", tests, NULL, NULL);
}

/* servers/kafka/server.c - start, accept, stop; and the table of handlers. See server.h. */
#include <stdio.h>

#include "servers/kafka/server_int.h"

#include "servers/kafka/groups.h"

/* ---- handlers ---- */

/* What is here is what is advertised. A new API is one line. */
static const struct kafka_api apis[] = {
        { LS_KAFKA_API_PRODUCE, KAFKA_ASYNC, kafka_serve_produce, NULL },
        { LS_KAFKA_API_FETCH, KAFKA_ASYNC, kafka_serve_fetch, NULL },
        { LS_KAFKA_API_LIST_OFFSETS, KAFKA_ON_JOB, kafka_serve_list_offsets,
          kafka_serve_list_offsets_pick },
        { LS_KAFKA_API_METADATA, KAFKA_ON_LOOP, kafka_serve_metadata, kafka_serve_metadata_pick },
        { LS_KAFKA_API_OFFSET_COMMIT, KAFKA_ASYNC, kafka_serve_offset_commit, NULL },
        { LS_KAFKA_API_OFFSET_FETCH, KAFKA_ON_JOB, kafka_serve_offset_fetch, NULL },
        { LS_KAFKA_API_FIND_COORDINATOR, KAFKA_ON_LOOP, kafka_serve_find_coordinator, NULL },
        { LS_KAFKA_API_JOIN_GROUP, KAFKA_ASYNC, kafka_serve_join_group, NULL },
        { LS_KAFKA_API_HEARTBEAT, KAFKA_ON_LOOP, kafka_serve_heartbeat, NULL },
        { LS_KAFKA_API_LEAVE_GROUP, KAFKA_ON_LOOP, kafka_serve_leave_group, NULL },
        { LS_KAFKA_API_SYNC_GROUP, KAFKA_ASYNC, kafka_serve_sync_group, NULL },
        { LS_KAFKA_API_DESCRIBE_GROUPS, KAFKA_ON_LOOP, kafka_serve_describe_groups,
          kafka_serve_groups_pick },
        { LS_KAFKA_API_LIST_GROUPS, KAFKA_ON_LOOP, kafka_serve_list_groups,
          kafka_serve_groups_pick },
        { LS_KAFKA_API_API_VERSIONS, KAFKA_ON_LOOP, kafka_serve_api_versions, NULL },
        { LS_KAFKA_API_CREATE_TOPICS, KAFKA_ON_JOB, kafka_serve_create_topics, NULL },
        { LS_KAFKA_API_DELETE_TOPICS, KAFKA_ON_JOB, kafka_serve_delete_topics, NULL },
        { LS_KAFKA_API_DELETE_RECORDS, KAFKA_ON_JOB, kafka_serve_delete_records, NULL },
        { LS_KAFKA_API_INIT_PRODUCER_ID, KAFKA_ON_JOB, kafka_serve_init_producer_id, NULL },
        { LS_KAFKA_API_OFFSET_FOR_LEADER_EPOCH, KAFKA_ON_LOOP, kafka_serve_offset_for_leader_epoch,
          kafka_serve_offset_for_leader_epoch_pick },
        { LS_KAFKA_API_DESCRIBE_CONFIGS, KAFKA_ON_LOOP, kafka_serve_describe_configs, NULL },
        { LS_KAFKA_API_ALTER_CONFIGS, KAFKA_ON_JOB, kafka_serve_alter_configs, NULL },
        { LS_KAFKA_API_DESCRIBE_LOG_DIRS, KAFKA_ON_LOOP, kafka_serve_describe_log_dirs, NULL },
        { LS_KAFKA_API_CREATE_PARTITIONS, KAFKA_ON_JOB, kafka_serve_create_partitions, NULL },
        { LS_KAFKA_API_DELETE_GROUPS, KAFKA_ON_JOB, kafka_serve_delete_groups, NULL },
        { LS_KAFKA_API_INCREMENTAL_ALTER_CONFIGS, KAFKA_ON_JOB,
          kafka_serve_incremental_alter_configs, NULL },
        { LS_KAFKA_API_OFFSET_DELETE, KAFKA_ON_JOB, kafka_serve_offset_delete, NULL },
        { LS_KAFKA_API_DESCRIBE_CLUSTER, KAFKA_ON_LOOP, kafka_serve_describe_cluster, NULL },
        { LS_KAFKA_API_DESCRIBE_PRODUCERS, KAFKA_ON_JOB, kafka_serve_describe_producers, NULL },
        { LS_KAFKA_API_GET_TELEMETRY_SUBSCRIPTIONS, KAFKA_ON_LOOP,
          kafka_serve_get_telemetry_subscriptions, NULL },
        { LS_KAFKA_API_PUSH_TELEMETRY, KAFKA_ON_LOOP, kafka_serve_push_telemetry, NULL },
        { LS_KAFKA_API_LIST_CONFIG_RESOURCES, KAFKA_ON_LOOP, kafka_serve_list_config_resources,
          NULL },
        { LS_KAFKA_API_DESCRIBE_TOPIC_PARTITIONS, KAFKA_ON_LOOP,
          kafka_serve_describe_topic_partitions, NULL },
};

const struct kafka_api *
kafka_api_find(int16_t key)
{
        for (size_t i = 0; i < LS_COUNT(apis); i++)
                if (apis[i].key == key)
                        return &apis[i];
        return NULL;
}

/* ---- the transport of real connections ---- */

static void
tcp_write(void *peer, struct ls_slice **slices, size_t count)
{
        ls_conn_write(peer, slices, count);
}
static size_t
tcp_queued(void *peer)
{
        return ls_conn_queued(peer);
}
static void
tcp_pause(void *peer)
{
        ls_conn_pause(peer);
}
static void
tcp_resume(void *peer)
{
        ls_conn_resume(peer);
}
static void
tcp_close(void *peer, bool flush)
{
        ls_conn_close(peer, flush);
}
static const char *
tcp_name(void *peer)
{
        return peer != NULL ? ls_conn_peer(peer) : "gone";
}
const struct kafka_transport kafka_tcp = { tcp_write,  tcp_queued, tcp_pause,
                                           tcp_resume, tcp_close,  tcp_name };

static void *
on_accept(void *ctx, struct ls_conn *conn)
{
        struct ls_kafka_server *s = ctx;
        struct ls_loop *loop = ls_conn_loop(conn);

        if (atomic_fetch_add(&s->conn_count, 1) >= s->conn_count_max) {
                atomic_fetch_sub(&s->conn_count, 1);
                ls_log_warn("kafka", "refusing a connection: max.connections peer=%s",
                            ls_conn_peer(conn));
                return NULL;
        }
        for (size_t i = 0; i < s->loop_count; i++)
                if (s->loops[i].loop == loop)
                        return kafka_conn_new(&s->loops[i], &kafka_tcp, conn);
        LS_ASSERT(!"a loop of ours");
        return NULL;
}

static void
on_bytes(void *ctx, struct ls_conn *conn, const uint8_t *bytes, size_t len)
{
        kafka_conn_bytes(ctx, bytes, len);
}
static void
on_room(void *ctx, struct ls_conn *conn, uint8_t **ret_ptr, size_t *ret_len)
{
        kafka_conn_room(ctx, ret_ptr, ret_len);
}
static void
on_drained(void *ctx, struct ls_conn *conn)
{
        kafka_conn_drained(ctx);
}
static void
on_close(void *ctx, struct ls_conn *conn, ls_err why)
{
        kafka_conn_closed(ctx);
}
static const struct ls_conn_ops conn_ops = { on_accept, on_bytes, on_room, on_drained, on_close };

/* ---- start and stop ---- */

static const char *
reachable_host(const struct ls_kafka_config *config)
{
        if (config->advertised_host != NULL && config->advertised_host[0] != 0)
                return config->advertised_host;
        if (config->host[0] == 0 || strcmp(config->host, "*") == 0 ||
            strcmp(config->host, "0.0.0.0") == 0 || strcmp(config->host, "::") == 0)
                return "127.0.0.1";
        return config->host;
}

struct ls_kafka_server *
kafka_server_new(const struct ls_kafka_config *config)
{
        struct ls_kafka_server *s = ls_calloc(1, sizeof *s);
        const struct ls_options *o = ls_streams_options(config->streams);

        s->streams = config->streams;
        s->options = o;
        s->host = ls_strdup(reachable_host(config));
        s->port = config->advertised_port;
        s->rack = config->rack != NULL && config->rack[0] != 0 ? ls_strdup(config->rack) : NULL;
        s->broker_id = ls_streams_broker_id(config->streams);
        s->shared = ls_streams_shared(config->streams);
        s->cluster =
                (struct kafka_cluster_ops){ ls_brokers_get, ls_streams_refresh, ls_stream_refresh };
        kafka_look_init(&s->look);
        ls_uuid_base64(ls_streams_cluster_id(config->streams), s->cluster_id);
        ls_budget_init(&s->produce_frames, ls_option_int(o, LS_OPT_PRODUCE_BYTES), NULL);
        ls_budget_init(&s->other_frames, KAFKA_OTHER_FRAMES_BYTES, NULL);
        ls_budget_init(&s->answers, ls_option_int(o, LS_OPT_FETCH_BYTES), NULL);
        kafka_request_metrics(s);
        kafka_sessions_init(&s->sessions, (size_t)ls_option_int(o, LS_OPT_FETCH_SESSIONS));
        s->conn_count_max = (size_t)ls_option_int(o, LS_OPT_MAX_CONNECTIONS);
        s->frame_bytes_max = (size_t)ls_option_int(o, LS_OPT_SOCKET_REQUEST_MAX);
        atomic_init(&s->conn_count, 0);
        pthread_mutex_init(&s->lock, NULL);
        ls_cond_init(&s->gone);
        s->loop_count = config->loop_count;
        s->loops = ls_calloc(config->loop_count, sizeof *s->loops);
        for (size_t i = 0; i < config->loop_count; i++) {
                s->loops[i].server = s;
                s->loops[i].loop = config->loops[i];
                s->loops[i].scratch = ls_malloc(KAFKA_SCRATCH_BYTES);
        }
        return s;
}

void
kafka_server_free(struct ls_kafka_server *s)
{
        for (size_t i = 0; i < s->loop_count; i++) {
                struct kafka_loop *kl = &s->loops[i];

                LS_ASSERT(kl->conns == NULL);
                while (kl->spare != NULL) {
                        struct kafka_request *r = kl->spare;

                        kl->spare = r->next;
                        ls_arena_done(&r->arena);
                        ls_wire_out_done(&r->out);
                        ls_free(r);
                }
                ls_free(kl->scratch);
        }
        kafka_look_done(&s->look);
        kafka_sessions_done(&s->sessions);
        ls_cond_done(&s->gone);
        pthread_mutex_destroy(&s->lock);
        ls_free(s->loops);
        ls_free(s->host);
        ls_free(s->rack);
        ls_free(s);
}

ls_err
ls_kafka_start(const struct ls_kafka_config *config, struct ls_kafka_server **ret_server,
               uint16_t *ret_port, struct ls_errinfo *reterr)
{
        struct ls_kafka_server *s = kafka_server_new(config);
        uint16_t port = 0;
        ls_err e;

        /* A connection may come before ls_listen returns, and a free port is known only then. */
        if (s->port == 0)
                s->port = config->port;
        e = ls_listen(config->loops, config->loop_count, config->host, config->port, &conn_ops, s,
                      &s->listener, &port, reterr);
        if (e != LS_OK) {
                kafka_server_free(s);
                return e;
        }
        if (s->port == 0)
                s->port = port;
        *ret_server = s;
        *ret_port = port;
        return LS_OK;
}

void
ls_kafka_advertised(const struct ls_kafka_server *s, char *ret_text, size_t bytes)
{
        snprintf(ret_text, bytes, strchr(s->host, ':') != NULL ? "[%s]:%u" : "%s:%u", s->host,
                 (unsigned)s->port);
}

static void
loop_drain(struct ls_loop_msg *msg)
{
        struct kafka_loop *kl = LS_CONTAINER(msg, struct kafka_loop, drain_msg);
        struct kafka_conn *c, *next;
        bool force;

        pthread_mutex_lock(&kl->server->lock);
        force = kl->server->force;
        pthread_mutex_unlock(&kl->server->lock);
        kl->draining = true;
        ls_timer_clear(&kl->retry);
        for (c = kl->conns; c != NULL; c = next) {
                next = c->next;
                if (!force)
                        kafka_conn_drain(c);
                else if (c->peer != NULL)
                        c->transport->close(c->peer, false);
        }
        pthread_mutex_lock(&kl->server->lock);
        kl->server->drained_loops++;
        ls_cond_broadcast(&kl->server->gone);
        pthread_mutex_unlock(&kl->server->lock);
}

/* Tells every loop to drain, and waits until it has; then until all connections are gone, or the
 * deadline (-1: none). */
static void
server_drain(struct ls_kafka_server *s, bool force, int64_t deadline_ms)
{
        pthread_mutex_lock(&s->lock);
        s->force = force;
        s->drained_loops = 0;
        pthread_mutex_unlock(&s->lock);
        for (size_t i = 0; i < s->loop_count; i++) {
                s->loops[i].drain_msg = (struct ls_loop_msg){ NULL, loop_drain };
                ls_loop_post(s->loops[i].loop, &s->loops[i].drain_msg);
        }
        pthread_mutex_lock(&s->lock);
        while (s->drained_loops < s->loop_count)
                ls_cond_wait(&s->gone, &s->lock);
        while (atomic_load(&s->conn_count) > 0) {
                if (deadline_ms < 0)
                        ls_cond_wait(&s->gone, &s->lock);
                else if (!ls_cond_wait_until(&s->gone, &s->lock, deadline_ms))
                        break;
        }
        pthread_mutex_unlock(&s->lock);
}

void
ls_kafka_stop(struct ls_kafka_server *s, int64_t grace_ms)
{
        if (s == NULL)
                return;
        ls_listener_close(s->listener);
        server_drain(s, false, ls_clock_monotonic_ms() + grace_ms);
        if (atomic_load(&s->conn_count) > 0)
                server_drain(s, true, -1);
        kafka_server_free(s);
}

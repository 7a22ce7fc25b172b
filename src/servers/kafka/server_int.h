/* servers/kafka/server_int.h - what the files of this folder share.
 *
 * Ownership: the server owns its loops' parts, a loop's part owns the connections on it, a
 * connection owns its requests. A request that runs (on a job, in the stream layer) keeps its
 * connection alive after the socket is gone. Everything of a connection is touched on its loop
 * only; a job has its request to itself until it is done.
 */
#pragma once
#include <pthread.h>
#include <stdatomic.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "servers/kafka/limits.h"
#include "servers/kafka/server.h"
#include "wire/kafka.h"

struct kafka_conn;
struct kafka_request;
struct kafka_session;

/* How a connection reaches its peer: ls_conn, or a test. */
struct kafka_transport {
        void (*write)(void *peer, struct ls_slice **slices, size_t count); /* takes references */
        size_t (*queued)(void *peer);
        void (*pause)(void *peer);
        void (*resume)(void *peer);
        void (*close)(void *peer, bool flush); /* kafka_conn_closed follows, later */
        const char *(*name)(void *peer);
};
extern const struct kafka_transport kafka_tcp;

/* Fetch sessions of the server: fetch_session.c. */
struct kafka_sessions {
        pthread_mutex_t lock; /* innermost; never held across a call out of fetch_session.c */
        struct ls_map by_id;
        size_t count_max;
        atomic_size_t part_count; /* of all sessions */
};

/* What belongs to one event loop. */
struct kafka_loop {
        struct ls_kafka_server *server;
        struct ls_loop *loop;
        uint8_t *scratch; /* KAFKA_SCRATCH_BYTES */
        struct kafka_conn *conns;
        struct kafka_conn *waiting; /* for the budget, in order of arrival */
        struct kafka_request *spare;
        size_t spare_count;
        struct ls_timer tick, retry;
        bool draining;
        struct ls_loop_msg drain_msg;
};

/* What is asked of stream/ about other brokers; a test is several of them. */
struct kafka_cluster_ops {
        struct ls_brokers *(*brokers)(struct ls_streams *s); /* ls_brokers_get */
        ls_err (*streams_refresh)(struct ls_streams *s);     /* ls_streams_refresh */
        ls_err (*stream_refresh)(struct ls_stream *stream);  /* ls_stream_refresh */
};

/* A request that waits for a look: embedded in it. */
struct kafka_look_wait {
        struct kafka_look_wait *next;
        struct ls_loop *loop;
        void (*done)(struct kafka_look_wait *w); /* on `loop` */
        ls_err result;
        struct ls_loop_msg msg; /* inner */
};

/* Looks at the metadata store, of the whole server: look.c. */
struct kafka_look {
        pthread_mutex_t lock;
        struct ls_cond changed;
        bool running;
        uint64_t begun, ended; /* numbers of looks */
        ls_err result;         /* of the one that ended */
        int64_t next_ms;       /* none begins before */
        struct kafka_look_wait *waiting;
        bool job_runs;
        struct ls_job job;
};

struct ls_kafka_server {
        struct ls_streams *streams;
        const struct ls_options *options;
        struct kafka_loop *loops;
        size_t loop_count;
        struct ls_listener *listener;
        char *host;            /* advertised */
        _Atomic uint16_t port; /* advertised; a connection may come before a free one is known */
        char *rack;            /* NULL: none */
        char cluster_id[LS_UUID_BASE64_BYTES];
        int32_t broker_id;
        bool shared; /* other brokers may be at work beside this one */
        struct kafka_cluster_ops cluster;
        struct kafka_look look;
        struct ls_budget produce_frames, other_frames;
        struct ls_budget answers;    /* not taken by their peers; bounds what Fetch reads */
        atomic_size_t waiting_count; /* connections that wait for the memory of a frame */
        /* Has waited too long for that of a Produce: others begin none before it. Only compared. */
        struct kafka_conn *_Atomic hungry;
        struct kafka_sessions sessions;
        atomic_size_t conn_count;
        size_t conn_count_max;
        size_t frame_bytes_max;
        /* draining: the last connection that goes away wakes the one who stops us */
        pthread_mutex_t lock;
        struct ls_cond gone;
        /* series of request.c, by place in ls_kafka_apis */
        struct ls_metric_series *request_counts[LS_KAFKA_API_COUNT];
        struct ls_metric_series *request_seconds[LS_KAFKA_API_COUNT];
        size_t drained_loops;
        bool force; /* the grace time is over */
};

enum kafka_request_state {
        KAFKA_QUEUED,  /* arrived */
        KAFKA_RUNNING, /* a handler has it */
        KAFKA_DONE,    /* the answer waits for those before it */
};

struct kafka_request {
        struct kafka_request *next; /* of the connection, in order of arrival; or spare */
        struct kafka_conn *conn;
        enum kafka_request_state state;
        struct ls_slice *frame;
        struct ls_budget *budget; /* that the frame is charged to */
        int64_t charged;
        struct ls_arena arena;
        struct ls_kafka_request req;
        void *answer; /* struct of req.api->response, in the arena */
        struct ls_wire_out out;
        int16_t key;      /* as the frame says; also before it is decoded */
        bool no_answer;   /* Produce with acks 0 */
        bool close_after; /* what was sent can't be answered: close when its turn comes */
        int64_t started_ns;
        struct ls_job job;
        const struct kafka_api *handler;
        void *state_of_handler; /* in the arena; kept until the request is freed */
        /* Set by a handler that waits: asks it to finish soon. It may finish within the call. */
        void (*hurry)(struct kafka_request *r);
        /* Frees what the handler holds once the answer was written. */
        void (*release)(struct kafka_request *r);
        int64_t answer_charged; /* to answers, until the peer has taken it */
        /* brokers.c */
        struct ls_brokers *brokers; /* NULL: not asked for yet */
        ls_str zone;                /* of the client, once they were; null: unknown */
        /* look.c */
        bool on_job;      /* the handler runs on a job */
        bool looked;      /* what is not known here now is not there */
        bool look_failed; /* … but the look failed: who knows */
        bool doubted;     /* the handler on the loop missed something: look, then run again */
        struct kafka_look_wait look;
};

struct kafka_conn {
        struct kafka_loop *kl;
        struct kafka_conn *prev, *next;
        const struct kafka_transport *transport;
        void *peer; /* NULL once it is closed */
        /* the frame that is arriving */
        uint8_t head[KAFKA_HEAD_BYTES];
        size_t head_len;
        struct ls_slice *frame;
        size_t frame_len;       /* bytes of it that are there */
        int64_t frame_since_ms; /* since when its peer could send it without a pause … */
        size_t frame_since_len; /* … and how much was there then */
        struct ls_budget *frame_budget;
        /* bytes that were read and not looked at, while the connection is paused */
        uint8_t *stash;
        size_t stash_pos, stash_len;
        struct kafka_conn *waiting_next;
        bool waiting; /* for the budget */
        int64_t waiting_since_ms;
        bool paused, closing, pumping, pump_again;
        /* requests in order of arrival; `first_queued` is the first that has not started */
        struct kafka_request *first, *last, *first_queued;
        size_t request_count, running_count;
        bool running_produce;    /* what runs is Produce */
        int64_t answers_charged; /* to answers, by what the peer has not taken */
        int64_t active_ms;
        /* as of the last tick: what the peer has not taken, and since when it is just that */
        size_t untaken;
        int64_t untaken_ms;
};

/* --- server.c --- */
/* All but the listener: for ls_kafka_start, and for tests that feed connections by hand. */
struct ls_kafka_server *kafka_server_new(const struct ls_kafka_config *config);
/* No connection may be left. */
void kafka_server_free(struct ls_kafka_server *s);

/* --- conn.c --- */
/* Made when a peer connects; `peer` is handed to the transport. */
struct kafka_conn *kafka_conn_new(struct kafka_loop *kl, const struct kafka_transport *transport,
                                  void *peer);
/* Where the next bytes go. */
void kafka_conn_room(struct kafka_conn *c, uint8_t **ret_ptr, size_t *ret_len);
/* Bytes came; in the room that was given, or anywhere. */
void kafka_conn_bytes(struct kafka_conn *c, const uint8_t *bytes, size_t len);
void kafka_conn_drained(struct kafka_conn *c);
/* The peer is gone. Frees the connection, now or with its last running request. */
void kafka_conn_closed(struct kafka_conn *c);
/* Asks waiting handlers to finish, and closes once all that came was answered. */
void kafka_conn_drain(struct kafka_conn *c);
void kafka_loop_tick(struct ls_timer *timer);
/* Memory of frames came free: who waits for it on this loop tries again soon. */
void kafka_loop_room(struct kafka_loop *kl);

/* --- request.c --- */
/* Resolves the series of every API once, since a look-up takes a lock. */
void kafka_request_metrics(struct ls_kafka_server *s);
struct kafka_request *kafka_request_new(struct kafka_conn *c, struct ls_slice *frame,
                                        struct ls_budget *budget, int64_t charged);
void kafka_request_free(struct kafka_request *r);
/* Gives the frame's memory back before the request is done: nothing decoded from it may be used any
 * more. */
void kafka_request_drop_frame(struct kafka_request *r);
/* Decodes and hands it to its handler. It may be done when this returns. */
void kafka_request_start(struct kafka_request *r);
/* What a splice of an answer stands for: borrowed until the request is freed. */
struct kafka_payload {
        struct ls_slice **slices;
        size_t count;
};
/* The encoded answer as slices to write (references for the caller), payloads where they are. */
void kafka_request_slices(struct kafka_request *r, struct ls_slice ***ret_slices,
                          size_t *ret_count);
/* On the loop: the answer is complete (or there is none); conn.c sends it in its turn. */
void kafka_request_done(struct kafka_request *r);
/* In conn.c: called by kafka_request_done. */
void kafka_conn_request_done(struct kafka_conn *c);
/* For handlers that start something by themselves: true when the request has missed something and
 * will run again from its beginning. What it has made so far is released. */
LS_MUST_USE bool kafka_request_look(struct kafka_request *r);
/* In conn.c. A request that waits for a look lets none overtake it: Produce as well. */
void kafka_conn_hold(struct kafka_conn *c, const struct kafka_request *r, bool hold);

static inline struct ls_kafka_server *
kafka_server_of(const struct kafka_request *r)
{
        return r->conn->kl->server;
}
static inline struct ls_loop *
kafka_loop_of(const struct kafka_request *r)
{
        return r->conn->kl->loop;
}

/* --- handlers --- */

enum kafka_mode {
        KAFKA_ON_LOOP, /* run() fills the answer and does not block */
        KAFKA_ON_JOB,  /* run() fills the answer and may block */
        KAFKA_ASYNC,   /* run() starts it; the handler calls kafka_request_done itself */
};

/* One API: how it is run. `pick` (may be NULL) chooses the mode by the request. */
struct kafka_api {
        int16_t key;
        enum kafka_mode mode;
        void (*run)(struct kafka_request *r);
        enum kafka_mode (*pick)(struct kafka_request *r);
};
/* NULL: decoded but not handled, so not advertised either. */
const struct kafka_api *kafka_api_find(int16_t key);

void kafka_serve_api_versions(struct kafka_request *r);
/* The answer to an ApiVersions request of a version that we do not know: version 0, error 35. */
void kafka_serve_api_versions_too_new(struct kafka_request *r);
void kafka_serve_metadata(struct kafka_request *r);
enum kafka_mode kafka_serve_metadata_pick(struct kafka_request *r);
void kafka_serve_describe_cluster(struct kafka_request *r);
void kafka_serve_describe_topic_partitions(struct kafka_request *r);
void kafka_serve_find_coordinator(struct kafka_request *r);
void kafka_serve_produce(struct kafka_request *r);
void kafka_serve_init_producer_id(struct kafka_request *r);
void kafka_serve_describe_producers(struct kafka_request *r);
void kafka_serve_fetch(struct kafka_request *r);
void kafka_serve_list_offsets(struct kafka_request *r);
enum kafka_mode kafka_serve_list_offsets_pick(struct kafka_request *r);
enum kafka_mode kafka_serve_offset_for_leader_epoch_pick(struct kafka_request *r);
void kafka_serve_offset_for_leader_epoch(struct kafka_request *r);
void kafka_serve_delete_records(struct kafka_request *r);
void kafka_serve_create_topics(struct kafka_request *r);
void kafka_serve_delete_topics(struct kafka_request *r);
void kafka_serve_create_partitions(struct kafka_request *r);
void kafka_serve_describe_configs(struct kafka_request *r);
void kafka_serve_alter_configs(struct kafka_request *r);
void kafka_serve_incremental_alter_configs(struct kafka_request *r);
void kafka_serve_list_config_resources(struct kafka_request *r);
void kafka_serve_describe_log_dirs(struct kafka_request *r);
void kafka_serve_get_telemetry_subscriptions(struct kafka_request *r);
void kafka_serve_push_telemetry(struct kafka_request *r);

/* --- helpers.c --- */

/* The Kafka error of an outcome or failure of stream/, by one table. */
int16_t kafka_error_of(ls_err e);
/* Words for an answer: the detail when there is one, else the text of the error. In the arena. */
ls_str kafka_words(struct kafka_request *r, int16_t error, const struct ls_errinfo *info);
/* 1 to 249 of [a-zA-Z0-9._-], and not "." or "..". Words when it is not. */
bool kafka_topic_name_ok(ls_str name, struct ls_errinfo *reterr);
/* 0, FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH; `epoch` -1: the client doesn't say (KIP-320). */
int16_t kafka_check_leader_epoch(const struct ls_stream_info *info, int32_t epoch);
/* Where epoch `epoch` ended: (-1, -1) when it is newer than ours (KIP-279). */
void kafka_epoch_end(const struct ls_stream_info *info, const struct ls_offsets *offsets,
                     int32_t epoch, int32_t *ret_epoch, int64_t *ret_end);
/* Topic names seen in a request, to find one that comes twice. */
struct kafka_seen {
        struct ls_map map;
};
void kafka_seen_init(struct kafka_seen *s);
void kafka_seen_done(struct kafka_seen *s);
/* True when the key was not there before. */
bool kafka_seen_add(struct kafka_seen *s, ls_span key);

/* Operations that everyone may do while there is no access control, as bit fields (KIP-430). */
enum {
        KAFKA_CLUSTER_OPERATIONS = 8096, /* create, alter, describe, cluster action, configs,
                                            idempotent write */
        KAFKA_TOPIC_OPERATIONS = 3576,   /* read, write, create, delete, alter, describe, configs */
        KAFKA_GROUP_OPERATIONS = 3400,   /* read, delete, describe, configs */
};

/* --- brokers.c --- */

/* The zone that a client's id tells ("zone_id=…" and the like, docs/protocols/kafka.md); null. */
ls_str kafka_zone_of(ls_str client_id);
/* The list as the request has it: the same each time. */
const struct ls_brokers *kafka_brokers(struct kafka_request *r);
struct kafka_node {
        int32_t id;
        ls_str host;
        int32_t port;
        ls_str rack; /* null: none */
};
/* False: others can't be told where it is. */
bool kafka_broker_listed(const struct kafka_request *r, const struct ls_broker *b);
struct kafka_node kafka_node_of(const struct kafka_request *r, const struct ls_broker *b);
int32_t kafka_controller_of(struct kafka_request *r);
/* The id of the broker that this client is shown as leader; as an array it is the list of one
 * replica. Lives as long as the request. */
int32_t *kafka_leader_of(struct kafka_request *r, ls_uuid topic_id, int32_t partition);
/* False: its address is not known yet. */
bool kafka_coordinator_of(struct kafka_request *r, ls_str group_id, struct kafka_node *ret);

/* --- look.c --- */

void kafka_look_init(struct kafka_look *look);
void kafka_look_done(struct kafka_look *look);
/* Takes up what other brokers made, changed or deleted until now; on a job. */
ls_err kafka_look_now(struct ls_kafka_server *s);
/* The same from a loop: w->done(w) is called on w->loop, later. */
void kafka_look_start(struct ls_kafka_server *s, struct kafka_look_wait *w);
/* Something was not found. True: now it may be, find it again. False: it is not there; or the
 * handler runs on the loop, then it goes on, and is run again after a look. */
bool kafka_doubt(struct kafka_request *r);
/* The error of a topic or partition that was not found; one that has the client ask again, when the
 * metadata store could not be reached. */
int16_t kafka_unknown(const struct kafka_request *r, bool by_id);
/* By name, or by id when `by_id`; NULL when there is none. The caller unrefs. */
struct ls_stream *kafka_find_stream(struct kafka_request *r, bool by_id, ls_str name, ls_uuid id);
struct ls_stream *kafka_find_topic(struct kafka_request *r, ls_str name);
bool kafka_has_partition(struct kafka_request *r, const struct ls_stream *stream,
                         int32_t partition);
/* Many brokers: reads the stream's ends as they are now, once a request (`seen`). On a job.
 * `stream` may be NULL. 0, or a Kafka error. */
int16_t kafka_freshen(struct kafka_request *r, struct kafka_seen *seen, struct ls_stream *stream);

/* --- configs.c --- */

/* Where the value of a config comes from, as DescribeConfigs tells it. */
enum kafka_config_source {
        KAFKA_CONFIG_OF_TOPIC = 1,
        KAFKA_CONFIG_OF_BROKER = 4,
        KAFKA_CONFIG_DEFAULT = 5,
};
enum kafka_config_source kafka_setting_source(struct kafka_request *r,
                                              const struct ls_settings *settings,
                                              enum ls_setting_id id);
/* The effective value as text, in the arena; null when the arena is full. */
ls_str kafka_setting_value(struct kafka_request *r, const struct ls_settings *settings,
                           enum ls_setting_id id);

/* --- fetch_session.c --- */

struct kafka_fetch_part {
        /* as asked */
        ls_str topic; /* of the session or of the request's frame */
        ls_uuid topic_id;
        int32_t partition;
        int32_t leader_epoch, last_fetched_epoch;
        int64_t fetch_offset;
        int32_t bytes_max;
        /* as last answered in the session */
        int64_t high_watermark, log_start;
        /* links in a session: order of service, and by key */
        struct kafka_fetch_part *next, *prev;
        bool answered; /* once at least */
};

struct kafka_session {
        struct kafka_sessions *owner;
        int32_t id, epoch; /* epoch: that the next request must have */
        bool by_id, busy, dead;
        size_t part_count;
        struct kafka_fetch_part *first, *last;
        struct ls_map parts; /* topic and partition -> part */
        int64_t used_ms, created_ms;
};

void kafka_sessions_init(struct kafka_sessions *s, size_t count_max);
void kafka_sessions_done(struct kafka_sessions *s);
size_t kafka_sessions_count(struct kafka_sessions *s);
/* Makes a session with the id and epoch of a first answer, busy. NULL: there is no room. */
struct kafka_session *kafka_session_new(struct kafka_sessions *s, bool by_id, size_t part_count);
/* Finds and makes busy the session `id` at `epoch`. Else a Kafka error. */
int16_t kafka_session_take(struct kafka_sessions *s, int32_t id, int32_t epoch, bool by_id,
                           struct kafka_session **ret_session);
/* No longer busy; the next request must have the next epoch. */
void kafka_session_put(struct kafka_sessions *s, struct kafka_session *session);
/* Ends a session if there is one of that id. */
void kafka_session_close(struct kafka_sessions *s, int32_t id);
/* For a busy session. Adds or changes a partition (NULL: there is no room for one more); forgets
 * one; moves one to the end. */
struct kafka_fetch_part *kafka_session_set(struct kafka_session *session,
                                           const struct kafka_fetch_part *part);
void kafka_session_forget(struct kafka_session *session, ls_str topic, ls_uuid topic_id,
                          int32_t partition);
void kafka_session_move_last(struct kafka_session *session, struct kafka_fetch_part *part);

/* stream/group_int.h - what the files of the group coordinator share.
 *
 *   group.c            life, the timer thread, storing a group's state, describe, list, delete
 *   group_rebalance.c  the state machine: join, sync, heartbeat, leave, timers
 *   group_members.c    members and protocols of a group: plain data
 *   group_blob.c       a group's state as bytes: docs/formats/group_state.md
 *   group_offsets.c    commit, fetch, delete, expiry of offsets
 *   group_owner.c      many brokers: which groups are served here, how they come and go
 *   group_timers.c     a heap of deadlines
 *
 * All of it runs under ls_groups.lock. Under that lock nothing is waited for: requests are answered
 * by posting to their loop, durable changes are handed to the metadata store's queue. (Only the
 * list of brokers is looked up inside, whose lock is a leaf.) What is
 * behind the coordinator (store, streams, loops) comes through struct group_ops, so that a test can
 * be all three.
 */
#pragma once
#include <pthread.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "stream/group.h"
#include "sys/jobs.h"

/* --- limits --- */

/* Kafka's offset.metadata.max.bytes. */
#define GROUP_OFFSET_METADATA_BYTES_MAX 4096
/* A new member that waits in a rebalance longer than this is given up (Kafka's constant). */
#define GROUP_NEW_MEMBER_MS ((int64_t)5 * 60 * 1000)
/* Protocols of one member; clients offer one to five. */
#define GROUP_PROTOCOLS_MAX 100
/* Names and metadata of a member's protocols, and one assignment: a row of the store holds the
 * group. */
#define GROUP_MEMBER_BYTES_MAX ((size_t)4 << 20)
/* Groups a broker holds; above it a new one is refused. */
#define GROUP_COUNT_MAX ((size_t)1000000)
/* How often the list of brokers is looked at: a group may be another's by then. */
#define GROUP_OWNERS_CHECK_MS ((int64_t)500)
/* How long it is remembered that a group is not stored. */
#define GROUP_NOWHERE_MS ((int64_t)10 * 1000)
/* Kafka's offsets.retention.check.interval.ms. */
#define GROUP_EXPIRY_INTERVAL_MS ((int64_t)10 * 60 * 1000)

struct group_ops {
        void (*post)(void *ctx, struct ls_loop *loop, struct ls_loop_msg *msg);
        void (*group_submit)(void *ctx, struct ls_meta_group_op *op);
        void (*offsets_submit)(void *ctx, struct ls_meta_offsets_op *op);
        ls_err (*group_list)(void *ctx, ls_err (*fn)(void *fn_ctx, const struct ls_meta_group *g),
                             void *fn_ctx);
        /* `version`: that the group's row must have, 0: any. LS_CONFLICT. */
        ls_err (*group_delete)(void *ctx, const char *group_id, uint64_t version);
        ls_err (*offsets)(void *ctx, const char *group_id,
                          ls_err (*fn)(void *fn_ctx, const struct ls_meta_offset *o), void *fn_ctx);
        ls_err (*offsets_delete)(void *ctx, const char *group_id, uint64_t version,
                                 const struct ls_meta_offset *offsets, size_t count);
        /* False: no such stream or partition. */
        bool (*stream)(void *ctx, ls_str topic, int32_t partition, uint64_t *ret_stream_id);
        /* Asked only of one of many brokers (config.shared). By the newest list of brokers: does
         * this one coordinate the group? */
        bool (*owns)(void *ctx, ls_str group_id);
        /* Has the list changed since this was asked last? By one thread. */
        bool (*owners_changed)(void *ctx);
        ls_err (*group_get)(void *ctx, const char *group_id,
                            ls_err (*fn)(void *fn_ctx, const struct ls_meta_group *g),
                            void *fn_ctx); /* LS_ABSENT */
};

struct group_config {
        int64_t initial_delay_ms;
        int64_t session_ms_min, session_ms_max;
        int64_t size_max; /* members of a group */
        int64_t retention_ms;
        bool shared; /* one of many brokers: only groups that this one owns, loaded on demand */
};

/* --- timers --- */

struct group_timer {
        int64_t due_ms; /* monotonic */
        size_t place;   /* in the heap, from 1; 0: not set */
        void (*fire)(struct ls_groups *g, struct group_timer *timer);
};

/* Sets or moves. */
void group_timer_set(struct ls_groups *g, struct group_timer *t, int64_t due_ms);
/* Also for one that is not set. */
void group_timer_clear(struct ls_groups *g, struct group_timer *t);
/* Fires all that are due at `now_ms`. */
void group_timers_run(struct ls_groups *g, int64_t now_ms);
/* INT64_MAX: none. */
int64_t group_timers_next(const struct ls_groups *g);

/* --- data --- */

enum ls_group_state {
        GROUP_EMPTY,      /* no members; perhaps offsets */
        GROUP_PREPARING,  /* waiting for members to join */
        GROUP_COMPLETING, /* joined; waiting for the leader's assignment */
        GROUP_STABLE,
        GROUP_DEAD, /* being removed: nothing new may begin with it */
};
#define GROUP_STATE_COUNT 5

struct group_member {
        struct ls_group *group;
        struct group_member *prev, *next; /* in order of arrival */
        char *id;
        char *instance_id; /* NULL: dynamic */
        char *client_id, *client_host;
        int32_t session_ms, rebalance_ms;
        struct ls_group_protocol *protocols; /* they point into `bytes` */
        size_t protocol_count;
        uint8_t *bytes;
        ls_span assignment;         /* owned; ptr NULL: none */
        struct ls_group_join *join; /* waiting for an answer */
        struct ls_group_sync *sync; /* likewise */
        bool is_new;                /* has not been through a whole join yet */
        bool pending_sync;          /* joined, has not asked for its assignment */
        int64_t deadline_ms;        /* of its session; the timer may stand earlier */
        struct group_timer timer;
};

/* An id that was given out (MEMBER_ID_REQUIRED) and has not joined. */
struct group_pending {
        struct ls_group *group;
        struct group_pending *next;
        char *id;
        struct group_timer timer;
};

/* Of many brokers; else all groups are here. */
enum group_presence {
        GROUP_HERE,    /* as it is stored, or newer */
        GROUP_LOADING, /* nothing is known before it is read from the store */
        GROUP_NOWHERE, /* not stored; kept for a while, so that asking again reads nothing */
};

enum group_timer_kind { GROUP_TIMER_INITIAL, GROUP_TIMER_JOIN, GROUP_TIMER_SYNC };

struct ls_group {
        char *id;
        enum ls_group_state state;
        char *protocol_type; /* NULL: never had members */
        char *protocol_name; /* NULL: none chosen */
        int32_t generation;
        struct group_member *leader;
        struct group_member *first, *last;
        struct ls_map by_id, by_instance;
        size_t member_count, joining_count; /* joining: of them, with `join` set */
        struct group_pending *pending;
        bool initial;          /* in the delay of an empty group's first rebalance */
        bool new_member_added; /* during it */
        int64_t initial_left_ms;
        enum group_timer_kind timer_kind;
        struct group_timer timer;
        int64_t state_ms; /* wall clock, when the state was entered */
        /* the stored row */
        uint64_t version;      /* that the next write expects */
        uint64_t version_done; /* that the last answered write left */
        size_t writes;         /* in flight: state and offsets */
        bool failed_write;     /* one failed: version is set back once none is in flight */
        /* Its offsets are being deleted, or it is being read: no joins, no commits. Somebody holds
         * it without the coordinator's lock, so it is not freed before group_unlock. */
        bool locked;
        enum group_presence presence;
        bool queued; /* waiting to be read */
        struct ls_group *load_prev, *load_next;
};

struct ls_groups {
        struct group_ops ops;
        void *ops_ctx;
        struct group_config config;
        pthread_mutex_t lock;
        struct ls_cond wake; /* of the thread, and of close */
        bool stop;
        struct ls_thread *thread;
        struct ls_map groups;
        struct group_timer **heap;
        size_t heap_count, heap_cap;
        size_t writes; /* in flight, of all groups */
        struct ls_group *load_first, *load_last;
        int64_t expiry_ms; /* monotonic: of the next round */
};

static inline ls_span
group_key(ls_str s)
{
        return (ls_span){ (const uint8_t *)(s.ptr ? s.ptr : ""), s.len };
}
static inline bool
group_is_null_or_empty(ls_str s)
{
        return s.len == 0;
}

/* --- group_members.c --- */

const char *group_state_name(enum ls_group_state state);
struct ls_group *group_find(const struct ls_groups *g, ls_str group_id);
/* A new empty group in the map (one that is GROUP_NOWHERE becomes it); NULL: there are too many. */
struct ls_group *group_make(struct ls_groups *g, ls_str group_id);
/* Takes it out of the map and frees it; it has no members that wait. Kept while writes are in
 * flight or it is locked. */
void group_drop(struct ls_groups *g, struct ls_group *grp);
/* Frees what group_drop had to keep. */
void group_release(struct ls_group *grp);
/* Not locked any more. False: it was dropped meanwhile, and may be freed now. */
LS_MUST_USE bool group_unlock(struct ls_group *grp);
void group_enter(struct ls_group *grp, enum ls_group_state state);

struct group_member *group_member_find(const struct ls_group *grp, ls_str member_id);
struct group_member *group_member_find_static(const struct ls_group *grp, ls_str instance_id);
/* Adds a member with the id; the first one leads and gives the group its protocol type. */
struct group_member *group_member_add(struct ls_group *grp, ls_str member_id, ls_str instance_id,
                                      ls_str client_id, ls_str client_host, ls_str protocol_type);
/* Takes it out and frees it; it must not be waiting. Leadership goes to the first. */
void group_member_remove(struct ls_groups *g, struct group_member *m);
void group_member_rename(struct group_member *m, ls_str member_id);
/* Copies the protocols. */
void group_member_set_protocols(struct group_member *m, const struct ls_group_protocol *protocols,
                                size_t count);
void group_member_set_assignment(struct group_member *m, ls_span assignment);
/* The same names and metadata in the same order. */
bool group_member_matches(const struct group_member *m, const struct ls_group_protocol *protocols,
                          size_t count);
/* Of the chosen protocol; empty when it has none. */
ls_span group_member_metadata(const struct group_member *m, const char *protocol_name);
/* True when a member with these can be in the group: the type is the group's, and one of the
 * protocols is supported by all. */
bool group_supports(const struct ls_group *grp, ls_str protocol_type,
                    const struct ls_group_protocol *protocols, size_t count);
/* The protocol with most votes among those all members support (into a member's memory); null:
 * none. */
ls_str group_select_protocol(const struct ls_group *grp);
int64_t group_rebalance_ms(const struct ls_group *grp);
/* The topics of a consumer's subscription (metadata of protocol type "consumer"). */
bool group_subscribes(ls_span metadata, ls_str topic);
/* False when both can be read and name different topics. */
bool group_same_subscription(ls_span a, ls_span b);
/* True: a member of this active consumer group subscribes to the topic, or its subscription is
 * unreadable. */
bool group_consumes(const struct ls_group *grp, ls_str topic);

struct group_pending *group_pending_find(const struct ls_group *grp, ls_str member_id);
struct group_pending *group_pending_add(struct ls_group *grp, ls_str member_id);
void group_pending_remove(struct ls_groups *g, struct group_pending *p);

/* --- group_blob.c --- */

/* Appends the state of `grp`, to be stored. */
void group_blob_write(const struct ls_group *grp, struct ls_buf *out);
/* Fills a fresh, empty group. LS_NEWER_FORMAT; LS_EBROKEN: damaged. */
LS_MUST_USE ls_err group_blob_read(struct ls_group *grp, ls_span blob);

/* --- group_rebalance.c (under the lock) --- */

void group_join(struct ls_groups *g, struct ls_group_join *join);
void group_sync(struct ls_groups *g, struct ls_group_sync *sync);
enum ls_group_err group_heartbeat(struct ls_groups *g, ls_str group_id, ls_str member_id,
                                  ls_str instance_id, int32_t generation);
enum ls_group_err group_leave(struct ls_groups *g, ls_str group_id, struct ls_group_leaver *leavers,
                              size_t count);
/* Is this member (of this generation, when >= 0) in the group? LS_GROUP_FENCED_INSTANCE_ID, … */
enum ls_group_err group_check_member(const struct ls_group *grp, ls_str member_id,
                                     ls_str instance_id);
/* Begins its session anew. */
void group_member_touch(struct ls_groups *g, struct group_member *m);
/* The answers to group_store with the purposes of the same name. */
void group_assignment_stored(struct ls_groups *g, struct ls_group *grp, int32_t generation,
                             ls_err result);
void group_static_stored(struct ls_groups *g, struct ls_group *grp, struct ls_group_join *join,
                         ls_err result);
/* After a restart: sessions run again, an unfinished rebalance begins anew. */
void group_loaded(struct ls_groups *g, struct ls_group *grp);
/* Answers all that wait in it. */
void group_abandon(struct ls_groups *g, struct ls_group *grp, enum ls_group_err error);

/* --- group.c --- */

enum group_store_why {
        GROUP_STORE_PLAIN,      /* nobody waits */
        GROUP_STORE_ASSIGNMENT, /* group_assignment_stored */
        GROUP_STORE_STATIC,     /* group_static_stored, with `join` */
};
/* Queues the group's present state. */
void group_store(struct ls_groups *g, struct ls_group *grp, enum group_store_why why,
                 struct ls_group_join *join);
/* A write that was in flight has been answered: to be called under the lock. */
void group_write_done(struct ls_groups *g, struct ls_group *grp, ls_err result);
/* Drops a group that nothing is known of: no members, no pending ids, nothing stored or being so.
 * */
void group_forget_if_blank(struct ls_groups *g, struct ls_group *grp);
/* Fills a fresh group from its row; a damaged state leaves it empty. LS_NEWER_FORMAT. */
LS_MUST_USE ls_err group_fill(struct ls_groups *g, struct ls_group *grp,
                              const struct ls_meta_group *row);
/* Wakes the thread when `due_ms` is earlier than what it waits for. */
void groups_wake(struct ls_groups *g);
enum ls_group_err group_err_of(ls_err e);

/* Makes a coordinator and loads it (unless it is one of many brokers), without a thread: tests
 * drive it with groups_tick. */
LS_MUST_USE ls_err groups_new(const struct group_ops *ops, void *ops_ctx,
                              const struct group_config *config, struct ls_groups **ret_groups,
                              struct ls_errinfo *reterr);
/* Answers what waits, refuses what comes, returns once no write is in flight. */
void groups_stop(struct ls_groups *g);
/* After groups_stop. */
void groups_free(struct ls_groups *g);
/* Timers that are due, and the expiry of offsets when it is time (which blocks, without the lock).
 * */
void groups_tick(struct ls_groups *g);

/* --- group_owner.c (under the lock) --- */

/* May a request for this group be served, and by which group? LS_GROUP_OK with *ret NULL: there is
 * none. LS_GROUP_NOT_COORDINATOR; LS_GROUP_LOAD_IN_PROGRESS: it is being read, ask again. */
enum ls_group_err group_gate(struct ls_groups *g, ls_str group_id, struct ls_group **ret);
/* The same, but reads the group if that is needed: blocks, and gives up the lock meanwhile. */
enum ls_group_err group_gate_wait(struct ls_groups *g, ls_str group_id, struct ls_group **ret);
/* It is another broker's, or was written by another: out of memory, with nothing written. Who waits
 * in it is sent to look for the coordinator. Accepts one that was dropped. */
void group_lose(struct ls_groups *g, struct ls_group *grp);
/* There is nothing to know of it. */
void group_become_nowhere(struct ls_groups *g, struct ls_group *grp);
/* What the row must still have when something is written beside it; 0: no matter. */
uint64_t group_version_expected(const struct ls_groups *g, const struct ls_group *grp);
/* Takes it off the list of groups to read. */
void group_unqueue(struct ls_groups *g, struct ls_group *grp);
/* Of many brokers: gives up what is another's by now, reads what is waited for. Takes the lock. */
void groups_own(struct ls_groups *g);

/* --- group_offsets.c --- */

/* One group: deletes what has expired, and the group when it is empty and has no offsets left. */
void group_expire(struct ls_groups *g, ls_str group_id);

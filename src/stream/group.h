/* stream/group.h - consumer groups: membership, rebalance, committed offsets (Kafka's classic
 * protocol).
 *
 * One coordinator a process. Its state machine (group_rebalance.c) stands behind one mutex and does
 * no I/O under it: what must be durable is queued to the metadata store, and an answer that depends
 * on it is given when it is. A group's members, assignment and generation survive a restart, so
 * members go on heartbeating to a restarted broker as long as their session lasts; offsets are
 * stored with the group's generation checked in the same transaction.
 *
 * Of many brokers (ls_streams_shared) one serves the groups that the list of brokers gives to it,
 * and answers LS_GROUP_NOT_COORDINATOR for the others. *Loop* calls for a group that is not in
 * memory yet are answered LS_GROUP_LOAD_IN_PROGRESS until it is read; *blocks* calls read it.
 *
 * Outcomes are Kafka's error codes (enum ls_group_err): the state machine is Kafka's, so are its
 * names. Text and bytes given in are borrowed until the call returns, unless said otherwise.
 * Threads: any. *loop*: never blocks. *blocks*: reads or writes the metadata store, call it from a
 * job.
 */
#pragma once
#include "base/arena.h"
#include "base/options.h"
#include "base/span.h"
#include "meta/meta.h"
#include "sys/loop.h"

struct ls_streams;
struct ls_groups;
struct ls_group; /* inner */

/* The values are Kafka's error codes. */
enum ls_group_err {
        LS_GROUP_UNKNOWN_SERVER_ERROR = -1,
        LS_GROUP_OK = 0,
        LS_GROUP_UNKNOWN_TOPIC_OR_PARTITION = 3,
        LS_GROUP_OFFSET_METADATA_TOO_LARGE = 12,
        LS_GROUP_LOAD_IN_PROGRESS = 14,
        LS_GROUP_NOT_AVAILABLE = 15,
        LS_GROUP_NOT_COORDINATOR = 16,
        LS_GROUP_ILLEGAL_GENERATION = 22,
        LS_GROUP_INCONSISTENT_PROTOCOL = 23,
        LS_GROUP_INVALID_GROUP_ID = 24,
        LS_GROUP_UNKNOWN_MEMBER_ID = 25,
        LS_GROUP_INVALID_SESSION_TIMEOUT = 26,
        LS_GROUP_REBALANCE_IN_PROGRESS = 27,
        LS_GROUP_INVALID_REQUEST = 42,
        LS_GROUP_NON_EMPTY = 68,
        LS_GROUP_ID_NOT_FOUND = 69,
        LS_GROUP_MEMBER_ID_REQUIRED = 79,
        LS_GROUP_MAX_SIZE_REACHED = 81,
        LS_GROUP_FENCED_INSTANCE_ID = 82,
        LS_GROUP_SUBSCRIBED_TO_TOPIC = 86,
};

/* --- life --- */

/* Loads all groups (blocks; of many brokers each one when it is asked for) and starts the timer
 * thread. `s` finds streams by name and may be NULL
 * in tests of the folder; `m` and `options` are borrowed until close. */
LS_MUST_USE ls_err ls_groups_open(struct ls_streams *s, struct ls_meta *m,
                                  const struct ls_options *options, struct ls_groups **ret_groups,
                                  struct ls_errinfo *reterr);
/* Answers what waits with LS_GROUP_NOT_COORDINATOR, waits for what is queued. Accepts NULL. The
 * loops of the requests must still run. */
void ls_groups_close(struct ls_groups *g);

/* --- join, sync, heartbeat, leave --- */

struct ls_group_protocol {
        ls_str name;
        ls_span metadata;
};
struct ls_group_joined {
        ls_str member_id, instance_id; /* instance_id null: dynamic */
        ls_span metadata;              /* for the chosen protocol */
};
/* JoinGroup v0-v9. Embedded in the caller's struct; inputs are borrowed until the call returns, the
 * struct until `done`. */
struct ls_group_join {
        ls_str group_id;
        ls_str member_id;   /* empty: not known yet */
        ls_str instance_id; /* null: dynamic (KIP-345, v5+) */
        ls_str client_id, client_host;
        ls_str protocol_type;
        const struct ls_group_protocol *protocols; /* in the member's order of preference */
        size_t protocol_count;
        int32_t session_timeout_ms;
        int32_t rebalance_timeout_ms; /* v0 has none: -1 takes the session timeout */
        bool require_member_id;       /* v4+: a new dynamic member must come twice (KIP-394) */
        bool can_skip_assignment;     /* v9+ (KIP-814) */
        struct ls_loop *loop;
        void (*done)(struct ls_group_join *join); /* exactly once, on `loop`, never before return */
        /* results, valid until ls_group_join_done; text and bytes are the struct's own */
        enum ls_group_err error;
        int32_t generation;       /* -1 with an error */
        ls_str ret_protocol_type; /* null with an error */
        ls_str ret_protocol_name; /* null with an error */
        ls_str ret_leader;        /* "" with an error */
        ls_str ret_member_id;     /* with LS_GROUP_MEMBER_ID_REQUIRED too: join again with it */
        bool skip_assignment;
        const struct ls_group_joined *members; /* the leader's list; empty for the others */
        size_t member_count;
        /* inner */
        struct ls_loop_msg msg;
        struct ls_arena arena;
};
/* *loop*. Answers when the rebalance is complete. */
void ls_group_join(struct ls_groups *g, struct ls_group_join *join);
/* Releases the results: once, after `done`. */
void ls_group_join_done(struct ls_group_join *join);

struct ls_group_assignment {
        ls_str member_id;
        ls_span assignment;
};
/* SyncGroup v0-v5. */
struct ls_group_sync {
        ls_str group_id;
        int32_t generation;
        ls_str member_id;
        ls_str instance_id;                            /* null: none */
        ls_str protocol_type, protocol_name;           /* null: not given (before v5) */
        const struct ls_group_assignment *assignments; /* the leader's */
        size_t assignment_count;
        struct ls_loop *loop;
        void (*done)(struct ls_group_sync *sync); /* exactly once, on `loop`, never before return */
        /* results, valid until ls_group_sync_done */
        enum ls_group_err error;
        ls_str ret_protocol_type, ret_protocol_name; /* null with an error */
        ls_span assignment;                          /* empty with an error */
        /* inner */
        struct ls_loop_msg msg;
        struct ls_arena arena;
};
/* *loop*. Answers when the leader's assignment is stored. */
void ls_group_sync(struct ls_groups *g, struct ls_group_sync *sync);
void ls_group_sync_done(struct ls_group_sync *sync);

/* *loop*. instance_id null: none. */
enum ls_group_err ls_group_heartbeat(struct ls_groups *g, ls_str group_id, ls_str member_id,
                                     ls_str instance_id, int32_t generation);

struct ls_group_leaver {
        ls_str member_id;        /* may be empty with an instance id */
        ls_str instance_id;      /* null: none */
        enum ls_group_err error; /* result */
};
/* *loop*. LeaveGroup; the result is that of the request as a whole (v0-v2: answer
 * leavers[0].error). */
enum ls_group_err ls_group_leave(struct ls_groups *g, ls_str group_id,
                                 struct ls_group_leaver *leavers, size_t count);

/* --- offsets --- */

struct ls_group_offset {
        ls_str topic; /* Kafka name */
        int32_t partition;
        int32_t leader_epoch;    /* -1: unknown */
        int64_t offset;          /* -1: none committed */
        ls_str metadata;         /* null allowed; at most 4,096 bytes (offset.metadata.max.bytes) */
        int64_t commit_ms;       /* out: when it was committed */
        enum ls_group_err error; /* result, of this one */
};
/* OffsetCommit v2-v10. Embedded; all inputs are borrowed until `done`. */
struct ls_group_commit {
        ls_str group_id;
        ls_str member_id;     /* empty: a consumer outside of the group's membership */
        ls_str instance_id;   /* null: none */
        int32_t generation;   /* -1: likewise */
        int64_t retention_ms; /* v2-v4; -1: the broker's */
        struct ls_group_offset *offsets;
        size_t count;
        struct ls_loop *loop;
        void (*done)(
                struct ls_group_commit *commit); /* exactly once, on `loop`, never before return */
        enum ls_group_err
                error; /* result: when not OK it holds for all offsets, and stands in each */
        /* inner */
        struct ls_loop_msg msg;
        struct ls_groups *groups;
        struct ls_group *group;
        struct ls_meta_offsets_op op;
        struct ls_arena arena;
};
/* *loop*. Answers when the offsets are stored. */
void ls_group_commit(struct ls_groups *g, struct ls_group_commit *commit);

/* Offsets that a call gives back: an array, its text in `arena`. */
struct ls_group_offsets {
        struct ls_group_offset *offsets;
        size_t count;
        struct ls_arena arena;
};
void ls_group_offsets_done(struct ls_group_offsets *o);
/* *blocks*. Fills offset, leader_epoch, metadata, commit_ms and error of each of `offsets` (topic
 * and partition are given); their text is in `hold` (to be released by the caller also on error).
 * What is not there has offset -1, metadata "" and no error: a missing group, topic, partition, or
 * one without a commit (B023). */
enum ls_group_err ls_group_fetch(struct ls_groups *g, ls_str group_id,
                                 struct ls_group_offset *offsets, size_t count,
                                 struct ls_group_offsets *hold);
/* *blocks*. All committed offsets of the group, by topic and partition; empty for a missing group.
 * */
enum ls_group_err ls_group_fetch_all(struct ls_groups *g, ls_str group_id,
                                     struct ls_group_offsets *ret);
/* *blocks*. OffsetDelete: sets each one's error. LS_GROUP_ID_NOT_FOUND, LS_GROUP_NON_EMPTY for all;
 * LS_GROUP_SUBSCRIBED_TO_TOPIC for those of topics that members consume. */
enum ls_group_err ls_group_offsets_delete(struct ls_groups *g, ls_str group_id,
                                          struct ls_group_offset *offsets, size_t count);

/* --- look and delete --- */

struct ls_group_member {
        ls_str member_id, instance_id, client_id, client_host; /* instance_id null: dynamic */
        ls_span metadata, assignment;
};
struct ls_group_description {
        ls_str group_id;
        const char
                *state; /* "Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead" */
        ls_str protocol_type, protocol_name; /* "" when there is none */
        int32_t generation;
        struct ls_group_member *members;
        size_t member_count;
};
/* *loop*. All in `arena`. LS_GROUP_ID_NOT_FOUND: no such group; the description then says "Dead".
 * */
enum ls_group_err ls_group_describe(struct ls_groups *g, ls_str group_id, struct ls_arena *arena,
                                    struct ls_group_description *ret);
struct ls_group_listed {
        ls_str group_id, protocol_type;
        const char *state;
        const char *type; /* "classic" */
};
/* *blocks*. Reads the group, if it is served here and not in memory: a call for it that follows
 * finds it, or that there is none. LS_GROUP_NOT_COORDINATOR, LS_GROUP_LOAD_IN_PROGRESS: not now. */
enum ls_group_err ls_group_load(struct ls_groups *g, ls_str group_id);
/* *blocks*. The same for all groups that are served here: for ls_group_list. */
enum ls_group_err ls_groups_load(struct ls_groups *g);
/* *loop*. Groups in one of `states` (count 0: any) and of one of `types` (likewise), compared
 * without regard to case. All in `arena`; false: over the arena's maximum. */
bool ls_group_list(struct ls_groups *g, const ls_str *states, size_t state_count,
                   const ls_str *types, size_t type_count, struct ls_arena *arena,
                   struct ls_group_listed **ret, size_t *ret_count);
/* *blocks*. Deletes group and offsets. LS_GROUP_ID_NOT_FOUND, LS_GROUP_NON_EMPTY. */
enum ls_group_err ls_group_delete(struct ls_groups *g, ls_str group_id);

/* servers/kafka/group_offsets.c - committed offsets: OffsetCommit, OffsetFetch, OffsetDelete.
 *
 * From version 10 on topics are named by id (KIP-848); the coordinator knows names. An id without a
 * topic is answered by itself and stops nothing else.
 */
#include "servers/kafka/groups.h"

#include "stream/group.h"

enum { ID_VERSION_MIN = 10 };

static struct ls_groups *
groups_of(const struct kafka_request *r)
{
        return ls_streams_groups(kafka_server_of(r)->streams);
}

/* The Kafka name of a topic id, in the arena; null when there is no such topic. */
static ls_str
name_of_id(struct kafka_request *r, ls_uuid id)
{
        struct ls_stream *stream = kafka_find_stream(r, true, LS_STR(""), id);
        ls_str name = LS_STR_NULL;

        if (stream != NULL)
                name = ls_arena_str(&r->arena, ls_str_of(ls_stream_info(stream)->kafka_name));
        ls_stream_unref(stream);
        return name;
}

/* The id of a topic name; zero when there is no such topic. */
static ls_uuid
id_of_name(struct kafka_request *r, ls_str name)
{
        struct ls_stream *stream = kafka_find_topic(r, name);
        ls_uuid id = { { 0 } };

        if (stream != NULL)
                id = ls_stream_info(stream)->topic_id;
        ls_stream_unref(stream);
        return id;
}

/* The coordinator looks for topics itself, in what is known here: of many brokers that is made as
 * new as it must be before. */
static void
know_partition(struct kafka_request *r, ls_str name, int32_t partition)
{
        struct ls_stream *stream;

        if (!kafka_server_of(r)->shared || r->looked || name.ptr == NULL)
                return;
        stream = kafka_find_topic(r, name);
        if (stream != NULL)
                (void)kafka_has_partition(r, stream, partition);
        ls_stream_unref(stream);
}

/* ---- OffsetCommit ---- */

typedef struct ls_kafka_offset_commit_request_topic commit_topic_in;
typedef struct ls_kafka_offset_commit_response_topic commit_topic_out;
typedef struct ls_kafka_offset_commit_response_partition commit_out;

struct commit {
        struct kafka_request *r;
        struct ls_group_commit inner;
        commit_out **outs; /* of each offset that is committed */
};

static void
commit_answered(struct ls_group_commit *inner)
{
        struct commit *c = LS_CONTAINER(inner, struct commit, inner);

        for (size_t i = 0; i < inner->count; i++)
                c->outs[i]->error_code =
                        (int16_t)(inner->error != LS_GROUP_OK ? inner->error
                                                              : inner->offsets[i].error);
        kafka_request_done(c->r);
}

static bool
commit_topic(struct commit *c, const commit_topic_in *in, commit_topic_out *out)
{
        struct kafka_request *r = c->r;
        bool by_id = r->req.version >= ID_VERSION_MIN;
        ls_str name = by_id ? name_of_id(r, in->topic_id) : in->name;
        commit_out *parts =
                ls_kafka_offset_commit_response_partition_array(&r->arena, in->partitions.count);

        if (parts == NULL)
                return false;
        out->name = in->name;
        out->topic_id = in->topic_id;
        out->partitions.items = parts;
        out->partitions.count = in->partitions.count;
        for (uint32_t i = 0; i < in->partitions.count; i++) {
                const struct ls_kafka_offset_commit_request_partition *p = &in->partitions.items[i];

                know_partition(r, name, p->partition_index);
                parts[i].partition_index = p->partition_index;
                if (name.ptr == NULL) {
                        parts[i].error_code = kafka_unknown(r, true);
                        continue;
                }
                c->outs[c->inner.count] = &parts[i];
                c->inner.offsets[c->inner.count++] =
                        (struct ls_group_offset){ .topic = name,
                                                  .partition = p->partition_index,
                                                  .leader_epoch = p->committed_leader_epoch,
                                                  .offset = p->committed_offset,
                                                  .metadata = p->committed_metadata };
        }
        return true;
}

static bool
commit_prepare(struct kafka_request *r, struct commit **ret)
{
        const struct ls_kafka_offset_commit_request *q = r->req.body;
        struct ls_kafka_offset_commit_response *answer = r->answer;
        struct commit *c = ls_arena_array(&r->arena, 1, sizeof *c);
        size_t count = 0;

        for (uint32_t t = 0; t < q->topics.count; t++)
                count += q->topics.items[t].partitions.count;
        answer->topics.items =
                ls_kafka_offset_commit_response_topic_array(&r->arena, q->topics.count);
        if (c == NULL || answer->topics.items == NULL)
                return false;
        answer->topics.count = q->topics.count;
        c->r = r;
        c->inner.offsets = ls_arena_array(&r->arena, count + 1, sizeof *c->inner.offsets);
        c->outs = ls_arena_array(&r->arena, count + 1, sizeof(commit_out *));
        if (c->inner.offsets == NULL || c->outs == NULL)
                return false;
        for (uint32_t t = 0; t < q->topics.count; t++)
                if (!commit_topic(c, &q->topics.items[t], &answer->topics.items[t]))
                        return false;
        *ret = c;
        return true;
}

void
kafka_serve_offset_commit(struct kafka_request *r)
{
        const struct ls_kafka_offset_commit_request *q = r->req.body;
        struct commit *c = NULL;

        if (!commit_prepare(r, &c)) {
                r->close_after = true;
                kafka_request_done(r);
                return;
        }
        if (kafka_request_look(r))
                return;
        c->inner.group_id = q->group_id;
        c->inner.member_id = q->member_id;
        c->inner.instance_id = q->group_instance_id;
        c->inner.generation = q->generation_id_or_member_epoch;
        c->inner.retention_ms = q->retention_time_ms;
        c->inner.loop = kafka_loop_of(r);
        c->inner.done = commit_answered;
        ls_group_commit(groups_of(r), &c->inner);
}

/* ---- OffsetFetch ---- */

/* One group's part of a request, and of its answer, in one form for all versions. */
struct fetched {
        struct kafka_request *r;
        ls_str group_id;
        struct ls_group_offset *offsets;
        size_t count;
        enum ls_group_err error;
        struct ls_group_offsets hold;
};

static void
fetched_all(struct fetched *f)
{
        f->error = ls_group_fetch_all(groups_of(f->r), f->group_id, &f->hold);
        f->offsets = f->hold.offsets;
        f->count = f->error == LS_GROUP_OK ? f->hold.count : 0;
        /* The text outlives the answer in the request's arena. */
        for (size_t i = 0; i < f->count; i++) {
                f->offsets[i].topic = ls_arena_str(&f->r->arena, f->offsets[i].topic);
                f->offsets[i].metadata = ls_arena_str(&f->r->arena, f->offsets[i].metadata);
        }
}

static void
fetched_named(struct fetched *f)
{
        f->error = ls_group_fetch(groups_of(f->r), f->group_id, f->offsets, f->count, &f->hold);
        for (size_t i = 0; i < f->count; i++)
                f->offsets[i].metadata = ls_arena_str(&f->r->arena, f->offsets[i].metadata);
}

/* How many partitions of one topic stand side by side from `at` on. */
static uint32_t
fetched_run(const struct fetched *f, size_t at)
{
        uint32_t n = 1;

        while (at + n < f->count && ls_str_eq(f->offsets[at].topic, f->offsets[at + n].topic))
                n++;
        return n;
}

/* The two shapes of partitions have the same fields. */
static void
put_old(struct ls_kafka_offset_fetch_response_partition *out, const struct ls_group_offset *in,
        int16_t error)
{
        out->partition_index = in->partition;
        out->committed_offset = error ? -1 : in->offset;
        out->committed_leader_epoch = error ? -1 : in->leader_epoch;
        out->metadata = error ? LS_STR("") : in->metadata;
        out->error_code = error;
}

static void
put_new(struct ls_kafka_offset_fetch_response_group_topic_partition *out,
        const struct ls_group_offset *in, int16_t error)
{
        out->partition_index = in->partition;
        out->committed_offset = error ? -1 : in->offset;
        out->committed_leader_epoch = error ? -1 : in->leader_epoch;
        out->metadata = error ? LS_STR("") : in->metadata;
        out->error_code = error;
}

/* Versions 1 to 7: one group. Version 1 has no error of its own: each partition tells it. */
static bool
fetch_old_answer(struct fetched *f)
{
        struct ls_kafka_offset_fetch_response *answer = f->r->answer;
        struct ls_kafka_offset_fetch_response_topic *topics =
                ls_kafka_offset_fetch_response_topic_array(&f->r->arena, f->count);
        struct ls_kafka_offset_fetch_response_partition *parts =
                ls_kafka_offset_fetch_response_partition_array(&f->r->arena, f->count);
        uint32_t n = 0;

        if (topics == NULL || parts == NULL)
                return false;
        answer->error_code = (int16_t)f->error;
        for (size_t at = 0; at < f->count; at += n) {
                struct ls_kafka_offset_fetch_response_topic *topic =
                        &topics[answer->topics.count++];

                n = fetched_run(f, at);
                topic->name = f->offsets[at].topic;
                topic->partitions.items = &parts[at];
                topic->partitions.count = n;
                for (uint32_t i = 0; i < n; i++)
                        put_old(&parts[at + i], &f->offsets[at + i],
                                (int16_t)(f->error ? f->error : f->offsets[at + i].error));
        }
        answer->topics.items = topics;
        return true;
}

static void
fetch_old(struct kafka_request *r)
{
        const struct ls_kafka_offset_fetch_request *q = r->req.body;
        struct fetched f = { .r = r, .group_id = q->group_id };
        size_t count = 0;

        ls_arena_init(&f.hold.arena, LS_ARENA_MAX_DEFAULT);
        if (q->topics.items == NULL && r->req.version >= 2) {
                fetched_all(&f);
        } else {
                for (uint32_t t = 0; t < q->topics.count; t++)
                        count += q->topics.items[t].partition_indexes.count;
                f.offsets = ls_arena_array(&r->arena, count + 1, sizeof *f.offsets);
                for (uint32_t t = 0; f.offsets != NULL && t < q->topics.count; t++) {
                        const struct ls_kafka_offset_fetch_request_topic *topic =
                                &q->topics.items[t];

                        for (uint32_t i = 0; i < topic->partition_indexes.count; i++)
                                f.offsets[f.count++] = (struct ls_group_offset){
                                        .topic = topic->name,
                                        .partition = topic->partition_indexes.items[i],
                                        .offset = -1,
                                        .leader_epoch = -1
                                };
                }
                fetched_named(&f);
        }
        r->close_after |= !fetch_old_answer(&f);
        ls_group_offsets_done(&f.hold);
}

typedef struct ls_kafka_offset_fetch_request_group fetch_group_in;
typedef struct ls_kafka_offset_fetch_request_group_topic fetch_topic_in;
typedef struct ls_kafka_offset_fetch_response_group fetch_group_out;
typedef struct ls_kafka_offset_fetch_response_group_topic fetch_topic_out;
typedef struct ls_kafka_offset_fetch_response_group_topic_partition fetch_part_out;

/* A topic of the answer from `n` offsets that stand side by side. */
static bool
fetch_topic_answer(struct fetched *f, size_t at, uint32_t n, fetch_topic_out *out)
{
        fetch_part_out *parts =
                ls_kafka_offset_fetch_response_group_topic_partition_array(&f->r->arena, n);

        out->partitions.items = parts;
        out->partitions.count = parts != NULL ? n : 0;
        for (uint32_t i = 0; i < out->partitions.count; i++)
                put_new(&parts[i], &f->offsets[at + i], (int16_t)f->offsets[at + i].error);
        return parts != NULL;
}

/* Everything that the group has committed; topics that are gone have no id and are left out. */
static bool
fetch_group_all(struct fetched *f, fetch_group_out *out)
{
        bool by_id = f->r->req.version >= ID_VERSION_MIN;
        uint32_t n = 0;

        fetched_all(f);
        out->error_code = (int16_t)f->error;
        out->topics.items =
                ls_kafka_offset_fetch_response_group_topic_array(&f->r->arena, f->count);
        for (size_t at = 0; out->topics.items != NULL && at < f->count; at += n) {
                fetch_topic_out *topic = &out->topics.items[out->topics.count];

                n = fetched_run(f, at);
                topic->name = f->offsets[at].topic;
                if (by_id)
                        topic->topic_id = id_of_name(f->r, topic->name);
                if (by_id && ls_uuid_is_zero(topic->topic_id))
                        continue;
                out->topics.count++;
                if (!fetch_topic_answer(f, at, n, topic))
                        return false;
        }
        return out->topics.items != NULL;
}

/* The offsets asked for, topic by topic; those of unknown ids are not asked of the coordinator. */
static bool
fetch_group_named(struct fetched *f, const fetch_group_in *in, fetch_group_out *out)
{
        bool by_id = f->r->req.version >= ID_VERSION_MIN;
        size_t count = 0, at = 0;

        for (uint32_t t = 0; t < in->topics.count; t++)
                count += in->topics.items[t].partition_indexes.count;
        f->offsets = ls_arena_array(&f->r->arena, count + 1, sizeof *f->offsets);
        out->topics.items =
                ls_kafka_offset_fetch_response_group_topic_array(&f->r->arena, in->topics.count);
        if (f->offsets == NULL || out->topics.items == NULL)
                return false;
        for (uint32_t t = 0; t < in->topics.count; t++) {
                const fetch_topic_in *topic = &in->topics.items[t];
                ls_str name = by_id ? name_of_id(f->r, topic->topic_id) : topic->name;

                for (uint32_t i = 0; i < topic->partition_indexes.count; i++)
                        f->offsets[f->count++] = (struct ls_group_offset){
                                .topic = name.ptr != NULL ? name : LS_STR(""),
                                .partition = topic->partition_indexes.items[i],
                                .offset = -1,
                                .leader_epoch = -1
                        };
        }
        fetched_named(f);
        out->error_code = (int16_t)f->error;
        if (f->error != LS_GROUP_OK)
                return true;
        for (uint32_t t = 0; t < in->topics.count; t++) {
                const fetch_topic_in *topic = &in->topics.items[t];
                uint32_t n = topic->partition_indexes.count;

                out->topics.items[t].name = topic->name;
                out->topics.items[t].topic_id = topic->topic_id;
                for (uint32_t i = 0; by_id && i < n; i++)
                        if (f->offsets[at + i].topic.len == 0)
                                f->offsets[at + i].error =
                                        (enum ls_group_err)kafka_unknown(f->r, true);
                if (!fetch_topic_answer(f, at, n, &out->topics.items[t]))
                        return false;
                at += n;
        }
        out->topics.count = in->topics.count;
        return true;
}

void
kafka_serve_offset_fetch(struct kafka_request *r)
{
        enum { GROUPS_VERSION_MIN = 8 };
        const struct ls_kafka_offset_fetch_request *q = r->req.body;
        struct ls_kafka_offset_fetch_response *answer = r->answer;
        fetch_group_out *out;

        if (r->req.version < GROUPS_VERSION_MIN) {
                fetch_old(r);
                return;
        }
        out = ls_kafka_offset_fetch_response_group_array(&r->arena, q->groups.count);
        for (uint32_t i = 0; out != NULL && i < q->groups.count; i++) {
                const fetch_group_in *in = &q->groups.items[i];
                struct fetched f = { .r = r, .group_id = in->group_id };

                ls_arena_init(&f.hold.arena, LS_ARENA_MAX_DEFAULT);
                out[i].group_id = in->group_id;
                r->close_after |= !(in->topics.items == NULL ? fetch_group_all(&f, &out[i])
                                                             : fetch_group_named(&f, in, &out[i]));
                ls_group_offsets_done(&f.hold);
        }
        answer->groups.items = out;
        answer->groups.count = q->groups.count;
        r->close_after |= out == NULL;
}

/* ---- OffsetDelete ---- */

static bool
delete_answer(struct kafka_request *r, const struct ls_group_offset *offsets)
{
        const struct ls_kafka_offset_delete_request *q = r->req.body;
        struct ls_kafka_offset_delete_response *answer = r->answer;
        size_t at = 0;

        answer->topics.items =
                ls_kafka_offset_delete_response_topic_array(&r->arena, q->topics.count);
        if (answer->topics.items == NULL)
                return false;
        answer->topics.count = q->topics.count;
        for (uint32_t t = 0; t < q->topics.count; t++) {
                uint32_t n = q->topics.items[t].partitions.count;
                struct ls_kafka_offset_delete_response_partition *parts =
                        ls_kafka_offset_delete_response_partition_array(&r->arena, n);

                if (parts == NULL)
                        return false;
                for (uint32_t i = 0; i < n; i++, at++) {
                        parts[i].partition_index = offsets[at].partition;
                        parts[i].error_code = (int16_t)offsets[at].error;
                }
                answer->topics.items[t].name = q->topics.items[t].name;
                answer->topics.items[t].partitions.items = parts;
                answer->topics.items[t].partitions.count = n;
        }
        return true;
}

void
kafka_serve_offset_delete(struct kafka_request *r)
{
        const struct ls_kafka_offset_delete_request *q = r->req.body;
        struct ls_kafka_offset_delete_response *answer = r->answer;
        struct ls_group_offset *offsets;
        size_t count = 0, at = 0;

        for (uint32_t t = 0; t < q->topics.count; t++)
                count += q->topics.items[t].partitions.count;
        offsets = ls_arena_array(&r->arena, count + 1, sizeof *offsets);
        if (offsets == NULL) {
                r->close_after = true;
                return;
        }
        for (uint32_t t = 0; t < q->topics.count; t++)
                for (uint32_t i = 0; i < q->topics.items[t].partitions.count; i++) {
                        offsets[at] = (struct ls_group_offset){
                                .topic = q->topics.items[t].name,
                                .partition = q->topics.items[t].partitions.items[i].partition_index,
                        };
                        know_partition(r, offsets[at].topic, offsets[at].partition);
                        at++;
                }
        answer->error_code =
                (int16_t)ls_group_offsets_delete(groups_of(r), q->group_id, offsets, count);
        if (answer->error_code == LS_KAFKA_ERR_NONE)
                r->close_after |= !delete_answer(r, offsets);
}

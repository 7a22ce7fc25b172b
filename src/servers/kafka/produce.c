/* servers/kafka/produce.c - Produce, InitProducerId, DescribeProducers.
 *
 * A Produce request becomes one append of as many parts as it has partitions that can be stored;
 * what can't is answered beside them. The records stay where the frame has them: parts are views of
 * it. From version 3 on a partition carries exactly one batch of magic 2.
 */
#include "formats/batch/batch.h"
#include "servers/kafka/server_int.h"

typedef struct ls_kafka_produce_request_topic produce_topic;
typedef struct ls_kafka_produce_request_partition produce_partition;
typedef struct ls_kafka_produce_response_topic answer_topic;
typedef struct ls_kafka_produce_response_partition answer_partition;

enum { ZSTD_VERSION_MIN = 7 }; /* KIP-110 */

struct produce {
        struct kafka_request *r;
        struct ls_append append;
        answer_partition **answers; /* of each part of the append */
        struct ls_stream **streams; /* of each topic of the request; may be NULL */
        size_t stream_count;
        size_t view_count; /* parts whose records are ours to release */
};

static void
produce_refuse(answer_partition *out, int16_t error, ls_str words)
{
        out->error_code = error;
        out->base_offset = -1;
        out->error_message = words;
}

/* What the version of the request demands of the records. 0, or a Kafka error with words. */
static int16_t
produce_check_records(int16_t version, ls_span records, ls_str *ret_words)
{
        struct ls_batch_header h;
        ls_err e = ls_batch_peek(records, &h);

        if (e == LS_END) {
                *ret_words = LS_STR("a partition must carry one record batch, this one has none");
                return LS_KAFKA_ERR_INVALID_RECORD;
        }
        if (e == LS_UNSUPPORTED) {
                *ret_words = LS_STR("only record batches of magic 2 are accepted");
                return LS_KAFKA_ERR_INVALID_RECORD;
        }
        if (e != LS_OK) {
                *ret_words = LS_STR("the length of the record batch can't be true");
                return LS_KAFKA_ERR_CORRUPT_MESSAGE;
        }
        if (h.bytes != records.len) {
                *ret_words = LS_STR("a partition must carry one record batch, this one has more");
                return LS_KAFKA_ERR_INVALID_RECORD;
        }
        if (ls_batch_codec(&h) == LS_CODEC_ZSTD && version < ZSTD_VERSION_MIN) {
                *ret_words = LS_STR("zstd needs Produce version 7 or above");
                return LS_KAFKA_ERR_UNSUPPORTED_COMPRESSION_TYPE;
        }
        if (h.attributes & LS_BATCH_TRANSACTIONAL) {
                *ret_words = LS_STR("this server has no transactions yet");
                return LS_KAFKA_ERR_INVALID_TXN_STATE;
        }
        return LS_KAFKA_ERR_NONE;
}

static void
produce_add_part(struct produce *p, struct ls_stream *stream, const produce_partition *in,
                 answer_partition *out)
{
        struct ls_append_part *part = &p->append.parts[p->append.part_count];
        struct ls_slice *frame = p->r->frame;

        LS_ASSERT(in->records.ptr >= frame->ptr &&
                  in->records.ptr + in->records.len <= frame->ptr + frame->len);
        part->stream = stream;
        part->partition = in->index;
        part->records =
                ls_slice_view(frame, (size_t)(in->records.ptr - frame->ptr), in->records.len);
        p->answers[p->append.part_count++] = out;
        p->view_count = p->append.part_count;
}

static void
produce_partition_in(struct produce *p, struct ls_stream *stream, int16_t topic_error,
                     const produce_partition *in, answer_partition *out)
{
        int16_t error = topic_error;
        ls_str words = LS_STR_NULL;

        out->index = in->index;
        if (error == LS_KAFKA_ERR_NONE && !kafka_has_partition(p->r, stream, in->index))
                error = kafka_unknown(p->r, false);
        if (error == LS_KAFKA_ERR_NONE)
                error = produce_check_records(p->r->req.version,
                                              ls_span_of(in->records.ptr, in->records.len), &words);
        if (error == LS_KAFKA_ERR_NONE)
                produce_add_part(p, stream, in, out);
        else
                produce_refuse(out, error, words.ptr ? words : kafka_words(p->r, error, NULL));
}

static int16_t
produce_check_request(const struct ls_kafka_produce_request *q)
{
        if (q->acks < -1 || q->acks > 1)
                return LS_KAFKA_ERR_INVALID_REQUIRED_ACKS;
        if (q->transactional_id.ptr != NULL)
                return LS_KAFKA_ERR_INVALID_TXN_STATE;
        return LS_KAFKA_ERR_NONE;
}

static bool
produce_topic_in(struct produce *p, int16_t request_error, const produce_topic *in,
                 answer_topic *out, struct ls_stream **ret_stream)
{
        bool by_id = p->r->req.version >= 13;
        int16_t error = request_error;
        answer_partition *parts =
                ls_kafka_produce_response_partition_array(&p->r->arena, in->partition_data.count);

        if (parts == NULL)
                return false;
        out->name = in->name;
        out->topic_id = in->topic_id;
        out->partition_responses.items = parts;
        out->partition_responses.count = in->partition_data.count;
        *ret_stream = kafka_find_stream(p->r, by_id, in->name, in->topic_id);
        if (error == LS_KAFKA_ERR_NONE && *ret_stream == NULL)
                error = kafka_unknown(p->r, by_id);
        for (uint32_t i = 0; i < in->partition_data.count; i++)
                produce_partition_in(p, *ret_stream, error, &in->partition_data.items[i],
                                     &parts[i]);
        return true;
}

/* A failed Produce with acks 0 has no answer: the connection is closed so that the client looks
 * again where its partitions are. */
static bool
produce_any_error(const struct ls_kafka_produce_response *answer)
{
        for (uint32_t t = 0; t < answer->responses.count; t++) {
                const answer_topic *topic = &answer->responses.items[t];

                for (uint32_t i = 0; i < topic->partition_responses.count; i++)
                        if (topic->partition_responses.items[i].error_code != LS_KAFKA_ERR_NONE)
                                return true;
        }
        return false;
}

static void
produce_finish(struct produce *p)
{
        const struct ls_kafka_produce_request *q = p->r->req.body;

        if (q->acks == 0) {
                p->r->no_answer = true;
                p->r->close_after |= produce_any_error(p->r->answer);
        }
        kafka_request_done(p->r);
}

/* Produce has codes of its own for some outcomes; 47 for a fenced producer, never 90 (B013). */
static int16_t
produce_error_of(ls_err e)
{
        if (e == LS_DUPLICATE)
                return LS_KAFKA_ERR_NONE;
        if (e == LS_INVALID || e == LS_UNSUPPORTED)
                return LS_KAFKA_ERR_INVALID_RECORD;
        return kafka_error_of(e);
}

static void
produce_part_out(struct produce *p, const struct ls_append_part *part, answer_partition *out)
{
        out->error_code = produce_error_of(part->outcome);
        if (out->error_code != LS_KAFKA_ERR_NONE) {
                produce_refuse(out, out->error_code,
                               kafka_words(p->r, out->error_code, &part->error));
                /* Of many brokers another may lead it by now: the client asks for that. */
                if (out->error_code == LS_KAFKA_ERR_NOT_LEADER_OR_FOLLOWER &&
                    !kafka_server_of(p->r)->shared) {
                        out->current_leader.leader_id = kafka_server_of(p->r)->broker_id;
                        out->current_leader.leader_epoch =
                                ls_stream_info(part->stream)->leader_epoch;
                }
                return;
        }
        out->base_offset = part->base_offset;
        out->log_append_time_ms = part->append_ms;
        out->log_start_offset = part->log_start;
}

static void
produce_appended(struct ls_append *append)
{
        struct produce *p = LS_CONTAINER(append, struct produce, append);

        for (size_t i = 0; i < append->part_count; i++)
                produce_part_out(p, &append->parts[i], p->answers[i]);
        produce_finish(p);
}

static void
produce_release(struct kafka_request *r)
{
        struct produce *p = r->state_of_handler;

        for (size_t i = 0; i < p->view_count; i++)
                ls_slice_unref(p->append.parts[i].records);
        for (size_t i = 0; i < p->stream_count; i++)
                ls_stream_unref(p->streams[i]);
}

/* Memory for as many parts as the request has. False: above the memory of one request. */
static bool
produce_prepare(struct kafka_request *r, struct produce **ret)
{
        const struct ls_kafka_produce_request *q = r->req.body;
        struct ls_kafka_produce_response *answer = r->answer;
        struct produce *p = ls_arena_array(&r->arena, 1, sizeof *p);
        size_t count = 0;

        for (uint32_t t = 0; t < q->topic_data.count; t++)
                count += q->topic_data.items[t].partition_data.count;
        answer->responses.items =
                ls_kafka_produce_response_topic_array(&r->arena, q->topic_data.count);
        if (p == NULL || answer->responses.items == NULL)
                return false;
        p->r = r;
        p->append.parts = ls_arena_array(&r->arena, count + 1, sizeof *p->append.parts);
        p->answers = ls_arena_array(&r->arena, count + 1, sizeof *p->answers);
        p->streams = ls_arena_array(&r->arena, q->topic_data.count + 1, sizeof *p->streams);
        answer->responses.count = q->topic_data.count;
        *ret = p;
        return p->append.parts != NULL && p->answers != NULL && p->streams != NULL;
}

void
kafka_serve_produce(struct kafka_request *r)
{
        const struct ls_kafka_produce_request *q = r->req.body;
        struct ls_kafka_produce_response *answer = r->answer;
        int16_t error = produce_check_request(q);
        struct produce *p = NULL;

        if (!produce_prepare(r, &p)) {
                r->close_after = true;
                kafka_request_done(r);
                return;
        }
        r->state_of_handler = p;
        r->release = produce_release;
        for (uint32_t t = 0; t < q->topic_data.count; t++) {
                p->stream_count = t + 1;
                if (!produce_topic_in(p, error, &q->topic_data.items[t],
                                      &answer->responses.items[t], &p->streams[t])) {
                        r->close_after = true;
                        p->append.part_count = 0;
                        break;
                }
        }
        if (kafka_request_look(r))
                return; /* p is released */
        if (p->append.part_count == 0) {
                produce_finish(p);
                return;
        }
        p->append.loop = kafka_loop_of(r);
        p->append.done = produce_appended;
        ls_stream_append(kafka_server_of(r)->streams, &p->append);
}

/* ---- InitProducerId ---- */

void
kafka_serve_init_producer_id(struct kafka_request *r)
{
        const struct ls_kafka_init_producer_id_request *q = r->req.body;
        struct ls_kafka_init_producer_id_response *answer = r->answer;
        int64_t id = -1;
        int16_t epoch = 0;
        ls_err e;

        answer->producer_epoch = -1;
        if (q->transactional_id.ptr != NULL) {
                /* FindCoordinator has told why; a client that didn't ask it learns it here. */
                answer->error_code = LS_KAFKA_ERR_INVALID_REQUEST;
                return;
        }
        e = ls_producer_new(kafka_server_of(r)->streams, &id, &epoch);
        if (e != LS_OK) {
                answer->error_code = e == LS_ESHUTDOWN ? LS_KAFKA_ERR_COORDINATOR_NOT_AVAILABLE
                                                       : LS_KAFKA_ERR_COORDINATOR_LOAD_IN_PROGRESS;
                ls_log_warn("kafka", "no producer id error=%s", ls_err_name(e));
                return;
        }
        answer->producer_id = id;
        answer->producer_epoch = epoch;
}

/* ---- DescribeProducers ---- */

typedef struct ls_kafka_describe_producers_response_partition producers_partition;

static bool
producers_fill(struct kafka_request *r, struct ls_stream *stream, producers_partition *out)
{
        struct ls_kafka_describe_producers_response_active_producer *items;
        struct ls_producer_state *states = NULL;
        size_t count = 0;
        ls_err e = ls_stream_producers(stream, out->partition_index, &states, &count);

        if (e != LS_OK) {
                out->error_code = kafka_error_of(e);
                out->error_message = kafka_words(r, out->error_code, NULL);
                return true;
        }
        items = ls_kafka_describe_producers_response_active_producer_array(&r->arena, count);
        for (size_t i = 0; items != NULL && i < count; i++) {
                items[i].producer_id = states[i].id;
                items[i].producer_epoch = states[i].epoch;
                items[i].last_sequence = states[i].last_sequence;
                items[i].last_timestamp = states[i].last_timestamp;
                items[i].coordinator_epoch = -1;
                items[i].current_txn_start_offset = -1;
        }
        ls_free(states);
        out->active_producers.items = items;
        out->active_producers.count = items != NULL ? (uint32_t)count : 0;
        return items != NULL;
}

static bool
producers_topic(struct kafka_request *r, struct kafka_seen *fresh,
                const struct ls_kafka_describe_producers_request_topic *in,
                struct ls_kafka_describe_producers_response_topic *out)
{
        struct ls_stream *stream = kafka_find_topic(r, in->name);
        int16_t stale = kafka_freshen(r, fresh, stream);
        producers_partition *parts = ls_kafka_describe_producers_response_partition_array(
                &r->arena, in->partition_indexes.count);
        bool ok = parts != NULL;

        out->name = in->name;
        out->partitions.items = parts;
        out->partitions.count = ok ? in->partition_indexes.count : 0;
        for (uint32_t i = 0; ok && i < in->partition_indexes.count; i++) {
                int32_t index = in->partition_indexes.items[i];

                parts[i].partition_index = index;
                if (stream == NULL || !kafka_has_partition(r, stream, index)) {
                        parts[i].error_code = kafka_unknown(r, false);
                        parts[i].error_message = kafka_words(r, parts[i].error_code, NULL);
                } else if (stale != LS_KAFKA_ERR_NONE) {
                        parts[i].error_code = stale;
                        parts[i].error_message = kafka_words(r, stale, NULL);
                } else {
                        ok = producers_fill(r, stream, &parts[i]);
                }
        }
        ls_stream_unref(stream);
        return ok;
}

void
kafka_serve_describe_producers(struct kafka_request *r)
{
        const struct ls_kafka_describe_producers_request *q = r->req.body;
        struct ls_kafka_describe_producers_response *answer = r->answer;
        struct kafka_seen fresh;

        kafka_seen_init(&fresh);
        answer->topics.items =
                ls_kafka_describe_producers_response_topic_array(&r->arena, q->topics.count);
        answer->topics.count = q->topics.count;
        for (uint32_t i = 0; answer->topics.items != NULL && i < q->topics.count; i++)
                r->close_after |=
                        !producers_topic(r, &fresh, &q->topics.items[i], &answer->topics.items[i]);
        kafka_seen_done(&fresh);
        r->close_after |= answer->topics.items == NULL;
}

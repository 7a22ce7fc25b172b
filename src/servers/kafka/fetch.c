/* servers/kafka/fetch.c - Fetch: sessions, long polls, memory.
 *
 *     begin -> READ (in memory) -> enough? -> ANSWER
 *                |  \                |
 *                |   JOB (blocks) ---+--> WAIT (watch, timer) -> READ
 *                MEMORY (none left: timer) -> READ
 *
 * Of many brokers, what a round finds unknown or out of range may only be unknown here: once a
 * request, the metadata store is looked at (LOOK) and the round is done again.
 *
 * Each round looks at every partition anew: a topic may have gone meanwhile. What is answered was
 * read in one round. A round first takes only what is in memory; if a partition needs more, the
 * round is done by a job. Answers are charged to the server's budget by their size until the peer
 * has taken them; with little left a round reads less, which a Fetch may always do.
 */
#include "formats/batch/batch.h"
#include "servers/kafka/server_int.h"

enum {
        SESSION_VERSION_MIN = 7,   /* KIP-227 */
        ZSTD_VERSION_MIN = 10,     /* KIP-110 */
        TOPIC_ID_VERSION_MIN = 13, /* KIP-516 */
};
enum { EPOCH_INITIAL = 0, EPOCH_FINAL = -1 };

typedef struct ls_kafka_fetch_request fetch_request;
typedef struct ls_kafka_fetch_response_topic answer_topic;
typedef struct ls_kafka_fetch_response_partition answer_partition;

enum fetch_state {
        FETCH_READ,
        FETCH_JOB,
        FETCH_WAIT,
        FETCH_MEMORY,
        FETCH_LOOK,
        FETCH_ANSWERED,
};

/* What a round found out about a partition. */
struct fetch_result {
        int16_t error;
        bool diverged;
        int32_t diverged_epoch;
        int64_t diverged_end;
        struct ls_read_part *read; /* NULL: not read */
};

struct fetch {
        struct kafka_request *r;
        enum fetch_state state;
        bool by_id, incremental, hurried;
        bool looked;                     /* at the metadata store: errors stand */
        ls_err look_error;               /* … unless this is one */
        struct kafka_session *session;   /* NULL: none */
        struct kafka_fetch_part **parts; /* in order of service */
        struct fetch_result *results;
        size_t part_count;
        int64_t deadline_ms;
        /* one round */
        struct ls_read read;
        struct ls_stream **streams; /* references, as many as parts at most */
        size_t stream_count;
        int64_t charged;
        struct ls_job job;
        /* between rounds */
        struct ls_watch *watch;
        struct ls_watch_part *watch_parts;
        struct ls_timer timer;
};

static void fetch_round(struct fetch *f);

/* ---- which partitions ---- */

static struct kafka_fetch_part
part_of(const struct fetch *f, const struct ls_kafka_fetch_request_topic *t,
        const struct ls_kafka_fetch_request_partition *p)
{
        return (struct kafka_fetch_part){
                .topic = f->by_id ? LS_STR("") : t->topic,
                .topic_id = t->topic_id,
                .partition = p->partition,
                .leader_epoch = p->current_leader_epoch,
                .last_fetched_epoch = p->last_fetched_epoch,
                .fetch_offset = p->fetch_offset,
                .bytes_max = p->partition_max_bytes,
                .high_watermark = -1,
                .log_start = -1,
        };
}

static size_t
request_part_count(const fetch_request *q)
{
        size_t count = 0;

        for (uint32_t t = 0; t < q->topics.count; t++)
                count += q->topics.items[t].partitions.count;
        return count;
}

/* Puts what the request says into the session. False: there is no room. */
static bool
session_update(struct fetch *f)
{
        const fetch_request *q = f->r->req.body;

        for (uint32_t t = 0; t < q->topics.count; t++) {
                const struct ls_kafka_fetch_request_topic *topic = &q->topics.items[t];

                for (uint32_t i = 0; i < topic->partitions.count; i++) {
                        struct kafka_fetch_part part =
                                part_of(f, topic, &topic->partitions.items[i]);

                        if (kafka_session_set(f->session, &part) == NULL)
                                return false;
                }
        }
        for (uint32_t t = 0; t < q->forgotten_topics_data.count; t++) {
                const struct ls_kafka_fetch_request_forgotten_topic *topic =
                        &q->forgotten_topics_data.items[t];

                for (uint32_t i = 0; i < topic->partitions.count; i++)
                        kafka_session_forget(f->session, f->by_id ? LS_STR("") : topic->topic,
                                             topic->topic_id, topic->partitions.items[i]);
        }
        return true;
}

static void
session_leave(struct fetch *f, bool end)
{
        struct kafka_sessions *sessions = &kafka_server_of(f->r)->sessions;
        struct kafka_session *session = f->session;

        if (session == NULL)
                return;
        f->session = NULL;
        if (end)
                kafka_session_close(sessions, session->id);
        kafka_session_put(sessions, session);
}

/* Finds or makes the session that the request speaks of. 0, or the error of the whole answer. */
static int16_t
session_enter(struct fetch *f)
{
        const fetch_request *q = f->r->req.body;
        struct kafka_sessions *sessions = &kafka_server_of(f->r)->sessions;
        int16_t error;

        if (f->r->req.version < SESSION_VERSION_MIN)
                return LS_KAFKA_ERR_NONE;
        if (q->session_epoch == EPOCH_INITIAL || q->session_epoch == EPOCH_FINAL) {
                if (q->session_id != 0)
                        kafka_session_close(sessions, q->session_id);
                if (q->session_epoch == EPOCH_FINAL)
                        return LS_KAFKA_ERR_NONE;
                f->session = kafka_session_new(sessions, f->by_id, request_part_count(q));
                if (f->session != NULL && !session_update(f))
                        session_leave(f, true);
                return LS_KAFKA_ERR_NONE;
        }
        error = kafka_session_take(sessions, q->session_id, q->session_epoch, f->by_id,
                                   &f->session);
        if (error != LS_KAFKA_ERR_NONE)
                return error;
        f->incremental = true;
        if (!session_update(f)) {
                /* The client makes a new one, or goes on without. */
                session_leave(f, true);
                return LS_KAFKA_ERR_FETCH_SESSION_ID_NOT_FOUND;
        }
        if (f->session->part_count == 0)
                session_leave(f, true);
        return LS_KAFKA_ERR_NONE;
}

/* Lists the partitions to serve: the session's, or the request's. False: no memory. */
static bool
fetch_list_parts(struct fetch *f)
{
        const fetch_request *q = f->r->req.body;
        struct ls_arena *arena = &f->r->arena;
        struct kafka_fetch_part *copies;
        size_t count = f->session != NULL ? f->session->part_count
                       : f->incremental   ? 0
                                          : request_part_count(q);

        f->parts = ls_arena_array(arena, count + 1, sizeof *f->parts);
        f->results = ls_arena_array(arena, count + 1, sizeof *f->results);
        f->streams = ls_arena_array(arena, count + 1, sizeof *f->streams);
        f->read.parts = ls_arena_array(arena, count + 1, sizeof *f->read.parts);
        f->watch_parts = ls_arena_array(arena, count + 1, sizeof *f->watch_parts);
        if (f->parts == NULL || f->results == NULL || f->streams == NULL || f->read.parts == NULL ||
            f->watch_parts == NULL)
                return false;
        if (f->session != NULL) {
                for (struct kafka_fetch_part *p = f->session->first; p != NULL; p = p->next)
                        f->parts[f->part_count++] = p;
                return true;
        }
        copies = ls_arena_array(arena, count + 1, sizeof *copies);
        if (copies == NULL)
                return false;
        for (uint32_t t = 0; f->part_count < count && t < q->topics.count; t++) {
                const struct ls_kafka_fetch_request_topic *topic = &q->topics.items[t];

                for (uint32_t i = 0; i < topic->partitions.count; i++) {
                        copies[f->part_count] = part_of(f, topic, &topic->partitions.items[i]);
                        f->parts[f->part_count] = &copies[f->part_count];
                        f->part_count++;
                }
        }
        return true;
}

/* ---- a round ---- */

static void
round_clear(struct fetch *f)
{
        struct ls_kafka_server *s = kafka_server_of(f->r);

        ls_read_done(&f->read);
        f->read.part_count = 0;
        f->read.bytes = 0;
        for (size_t i = 0; i < f->stream_count; i++)
                ls_stream_unref(f->streams[i]);
        f->stream_count = 0;
        ls_budget_uncharge(&s->answers, f->charged);
        f->charged = 0;
}

/* KIP-279, KIP-595: does the reader's history end where ours does not? */
static void
round_check_history(struct fetch *f, struct ls_stream *stream, const struct kafka_fetch_part *part,
                    struct fetch_result *result)
{
        struct ls_offsets offsets;
        int32_t epoch;
        int64_t end;

        if (part->last_fetched_epoch < 0)
                return;
        if (ls_stream_offsets(stream, part->partition, &offsets) != LS_OK) {
                result->error = LS_KAFKA_ERR_UNKNOWN_TOPIC_OR_PARTITION;
                return;
        }
        kafka_epoch_end(ls_stream_info(stream), &offsets, part->last_fetched_epoch, &epoch, &end);
        if (epoch < 0 || part->fetch_offset < offsets.start) {
                result->error = LS_KAFKA_ERR_OFFSET_OUT_OF_RANGE;
        } else if (epoch < part->last_fetched_epoch || end < part->fetch_offset) {
                result->diverged = true;
                result->diverged_epoch = epoch;
                result->diverged_end = end;
        }
}

static int16_t
round_check_part(const struct fetch *f, struct ls_stream *stream,
                 const struct kafka_fetch_part *part)
{
        const struct ls_stream_info *info;

        if (stream == NULL)
                return f->by_id ? LS_KAFKA_ERR_UNKNOWN_TOPIC_ID
                                : LS_KAFKA_ERR_UNKNOWN_TOPIC_OR_PARTITION;
        info = ls_stream_info(stream);
        if (part->partition < 0 || part->partition >= info->partitions)
                return LS_KAFKA_ERR_UNKNOWN_TOPIC_OR_PARTITION;
        return kafka_check_leader_epoch(info, part->leader_epoch);
}

/* Resolves every partition and lists those to read. True: one of them has an error, or something
 * else that has to be told at once. */
static bool
round_resolve(struct fetch *f)
{
        const struct kafka_fetch_part *before = NULL;
        struct ls_stream *stream = NULL;
        bool urgent = false;

        for (size_t i = 0; i < f->part_count; i++) {
                const struct kafka_fetch_part *part = f->parts[i];
                struct fetch_result *result = &f->results[i];

                if (before == NULL || !ls_str_eq(before->topic, part->topic) ||
                    !ls_uuid_eq(before->topic_id, part->topic_id)) {
                        stream = kafka_find_stream(f->r, f->by_id, part->topic, part->topic_id);
                        if (stream != NULL)
                                f->streams[f->stream_count++] = stream;
                }
                before = part;
                *result = (struct fetch_result){ .error = round_check_part(f, stream, part) };
                if (result->error == LS_KAFKA_ERR_NONE)
                        round_check_history(f, stream, part, result);
                if (result->error != LS_KAFKA_ERR_NONE || result->diverged) {
                        urgent = true;
                        continue;
                }
                result->read = &f->read.parts[f->read.part_count++];
                *result->read = (struct ls_read_part){ .stream = stream,
                                                       .partition = part->partition,
                                                       .offset = part->fetch_offset,
                                                       .bytes_max = LS_MAX(part->bytes_max, 0) };
        }
        return urgent;
}

/* Charges memory for what the round may read. False: there is too little. */
static bool
round_charge(struct fetch *f)
{
        struct ls_kafka_server *s = kafka_server_of(f->r);
        const fetch_request *q = f->r->req.body;
        int64_t left = s->answers.max - ls_budget_used(&s->answers);
        int64_t want =
                LS_MIN(LS_MAX(q->max_bytes, 0), ls_option_int(s->options, LS_OPT_FETCH_MAX_BYTES));
        int64_t parts = 0;

        for (size_t i = 0; i < f->read.part_count; i++)
                parts += f->read.parts[i].bytes_max;
        want = LS_MIN(want, LS_MAX(left / 4, (int64_t)KAFKA_FETCH_BYTES_MIN));
        f->read.bytes_max = want;
        /* Only what it can read is held, so that small fetches stay many. */
        want = LS_MIN(want, LS_MAX(parts, (int64_t)KAFKA_FETCH_BYTES_MIN));
        if (!ls_budget_charge(&s->answers, want))
                return false;
        f->charged = want;
        return true;
}

/* Holds as much as was read, which may be more (a first batch is whole) or less. */
static void
round_settle_charge(struct fetch *f)
{
        struct ls_kafka_server *s = kafka_server_of(f->r);

        ls_budget_force(&s->answers, (int64_t)f->read.bytes - f->charged);
        f->charged = (int64_t)f->read.bytes;
}

static bool
slices_have_zstd(const struct ls_read_part *part)
{
        for (size_t i = 0; i < part->slice_count; i++) {
                ls_span left = ls_slice_span(part->slices[i]), batch;
                struct ls_batch_header h;

                while (ls_batch_next(&left, &batch, &h) == LS_OK)
                        if (ls_batch_codec(&h) == LS_CODEC_ZSTD)
                                return true;
        }
        return false;
}

/* Turns outcomes of the read into Kafka's. True: there is an error. */
static bool
round_judge(struct fetch *f)
{
        bool any = false;

        for (size_t i = 0; i < f->part_count; i++) {
                struct fetch_result *result = &f->results[i];

                if (result->read == NULL)
                        continue;
                if (result->read->outcome != LS_OK)
                        /* Damage on our side: clients take a storage error for a passing one and
                         * ask for ever; this one they show, with the offset. */
                        result->error = result->read->outcome == LS_EBROKEN
                                                ? LS_KAFKA_ERR_CORRUPT_MESSAGE
                                                : kafka_error_of(result->read->outcome);
                else if (f->r->req.version < ZSTD_VERSION_MIN && slices_have_zstd(result->read))
                        result->error = LS_KAFKA_ERR_UNSUPPORTED_COMPRESSION_TYPE;
                any |= result->error != LS_KAFKA_ERR_NONE;
        }
        return any;
}

/* ---- the answer ---- */

/* In an incremental answer only what is new is told. */
static bool
answer_wants(const struct fetch *f, const struct kafka_fetch_part *part,
             const struct fetch_result *result)
{
        if (!f->incremental || !part->answered || result->error != LS_KAFKA_ERR_NONE ||
            result->diverged)
                return true;
        return result->read->bytes > 0 || result->read->high_watermark != part->high_watermark ||
               result->read->log_start != part->log_start;
}

static bool
answer_records(struct fetch *f, const struct ls_read_part *read, answer_partition *out)
{
        struct kafka_payload *payload;

        if (read == NULL || read->bytes == 0)
                return true;
        payload = ls_arena_array(&f->r->arena, 1, sizeof *payload);
        if (payload == NULL)
                return false;
        payload->slices = read->slices;
        payload->count = read->slice_count;
        out->records = (struct ls_wire_records){ .len = read->bytes, .payload = payload };
        return true;
}

static bool
answer_partition_fill(struct fetch *f, struct kafka_fetch_part *part,
                      const struct fetch_result *result, answer_partition *out)
{
        const fetch_request *q = f->r->req.body;

        out->partition_index = part->partition;
        out->error_code = result->error;
        out->high_watermark = -1;
        out->records.ptr = (const uint8_t *)"";
        if (q->isolation_level == 1)
                out->aborted_transactions.items =
                        ls_kafka_fetch_response_aborted_transaction_array(&f->r->arena, 0);
        if (result->diverged) {
                out->diverging_epoch.epoch = result->diverged_epoch;
                out->diverging_epoch.end_offset = result->diverged_end;
        }
        if (result->error != LS_KAFKA_ERR_NONE || result->read == NULL) {
                part->high_watermark = part->log_start = -1;
                part->answered = true;
                return true;
        }
        out->high_watermark = result->read->high_watermark;
        out->last_stable_offset = result->read->stable;
        out->log_start_offset = result->read->log_start;
        part->high_watermark = result->read->high_watermark;
        part->log_start = result->read->log_start;
        part->answered = true;
        return answer_records(f, result->read, out);
}

static bool
same_topic(const struct kafka_fetch_part *a, const struct kafka_fetch_part *b)
{
        return ls_str_eq(a->topic, b->topic) && ls_uuid_eq(a->topic_id, b->topic_id);
}

/* Partitions of a topic that stand side by side are told together. */
static bool
answer_fill(struct fetch *f)
{
        struct ls_kafka_fetch_response *answer = f->r->answer;
        const struct kafka_fetch_part *before = NULL;
        answer_partition *parts =
                ls_kafka_fetch_response_partition_array(&f->r->arena, f->part_count);
        answer_topic *topics = ls_kafka_fetch_response_topic_array(&f->r->arena, f->part_count);
        answer_topic *topic = topics;
        size_t count = 0;

        if (parts == NULL || topics == NULL)
                return false;
        for (size_t i = 0; i < f->part_count; i++) {
                struct kafka_fetch_part *part = f->parts[i];

                if (!answer_wants(f, part, &f->results[i]))
                        continue;
                if (before == NULL || !same_topic(before, part)) {
                        topic = &topics[answer->responses.count++];
                        topic->topic = part->topic;
                        topic->topic_id = part->topic_id;
                        topic->partitions.items = &parts[count];
                }
                before = part;
                topic->partitions.count++;
                if (!answer_partition_fill(f, part, &f->results[i], &parts[count++]))
                        return false;
        }
        answer->responses.items = topics;
        return true;
}

/* Those that gave records go behind the others (KIP-227). */
static void
session_rotate(struct fetch *f)
{
        for (size_t i = 0; f->session != NULL && i < f->part_count; i++)
                if (f->results[i].read != NULL && f->results[i].error == LS_KAFKA_ERR_NONE &&
                    f->results[i].read->bytes > 0)
                        kafka_session_move_last(f->session, f->parts[i]);
}

static void
fetch_answer(struct fetch *f)
{
        struct ls_kafka_fetch_response *answer = f->r->answer;
        struct kafka_request *r = f->r;

        f->state = FETCH_ANSWERED;
        if (!answer_fill(f))
                r->close_after = true;
        session_rotate(f);
        answer->session_id = f->session != NULL ? f->session->id : 0;
        r->answer_charged = f->charged;
        f->charged = 0;
        kafka_request_done(r);
}

/* ---- between rounds ---- */

static void
wait_end(struct fetch *f)
{
        ls_timer_clear(&f->timer);
        ls_watch_cancel(f->watch);
        f->watch = NULL;
}

static void
on_woken(void *ctx)
{
        struct fetch *f = ctx;

        LS_ASSERT(f->state == FETCH_WAIT);
        wait_end(f);
        fetch_round(f);
}

static void
on_timer(struct ls_timer *timer)
{
        struct fetch *f = LS_CONTAINER(timer, struct fetch, timer);

        LS_ASSERT(f->state == FETCH_WAIT || f->state == FETCH_MEMORY);
        wait_end(f);
        fetch_round(f);
}

/* Nothing was read that is enough: waits for more, or for the end of the time. */
static void
fetch_wait(struct fetch *f, int64_t now_ms)
{
        struct ls_kafka_server *s = kafka_server_of(f->r);
        const fetch_request *q = f->r->req.body;
        int64_t wanted = LS_MAX((int64_t)q->min_bytes - (int64_t)f->read.bytes, 1);

        for (size_t i = 0; i < f->read.part_count; i++) {
                const struct ls_read_part *part = &f->read.parts[i];

                f->watch_parts[i] = (struct ls_watch_part){ part->stream, part->partition,
                                                            part->high_watermark };
        }
        f->state = FETCH_WAIT;
        f->watch = ls_watch_start(s->streams, f->watch_parts, f->read.part_count, wanted,
                                  kafka_loop_of(f->r), on_woken, f);
        ls_timer_set(kafka_loop_of(f->r), &f->timer, f->deadline_ms - now_ms, on_timer);
        round_clear(f);
}

/* ---- what other brokers did ---- */

static bool
result_unknown(const struct fetch_result *result)
{
        return result->error == LS_KAFKA_ERR_UNKNOWN_TOPIC_OR_PARTITION ||
               result->error == LS_KAFKA_ERR_UNKNOWN_TOPIC_ID ||
               result->error == LS_KAFKA_ERR_UNKNOWN_LEADER_EPOCH;
}

/* Is it an answer that a newer end or start would change? */
static bool
result_stale(const struct fetch_result *result)
{
        return result->error == LS_KAFKA_ERR_OFFSET_OUT_OF_RANGE || result->diverged;
}

static bool
results_any(const struct fetch *f, bool (*is)(const struct fetch_result *result))
{
        for (size_t i = 0; i < f->part_count; i++)
                if (is(&f->results[i]))
                        return true;
        return false;
}

static void
look_over(struct fetch *f)
{
        f->looked = true;
        fetch_round(f);
}

static void
freshen_done(struct ls_job *job)
{
        look_over(LS_CONTAINER(job, struct fetch, job));
}

/* Reads the ends of the streams that are asked for out of range, each once. */
static void
freshen_run(struct ls_job *job)
{
        struct fetch *f = LS_CONTAINER(job, struct fetch, job);
        const struct kafka_fetch_part *before = NULL;

        for (size_t i = 0; i < f->part_count; i++) {
                const struct kafka_fetch_part *part = f->parts[i];
                struct ls_stream *stream;
                ls_err e;

                if (!result_stale(&f->results[i]) || (before != NULL && same_topic(before, part)))
                        continue;
                before = part;
                stream = kafka_find_stream(f->r, f->by_id, part->topic, part->topic_id);
                if (stream == NULL)
                        continue;
                e = kafka_server_of(f->r)->cluster.stream_refresh(stream);
                ls_stream_unref(stream);
                if (e != LS_OK && e != LS_ABSENT)
                        f->look_error = e;
        }
}

static void
freshen_start(struct fetch *f)
{
        f->job = (struct ls_job){ .run = freshen_run,
                                  .done = freshen_done,
                                  .loop = kafka_loop_of(f->r) };
        ls_jobs_submit(ls_streams_jobs(kafka_server_of(f->r)->streams), &f->job);
}

static void
fetch_looked(struct kafka_look_wait *w)
{
        struct fetch *f = LS_CONTAINER(w, struct kafka_request, look)->state_of_handler;

        LS_ASSERT(f->state == FETCH_LOOK);
        if (w->result != LS_OK)
                f->look_error = w->result;
        if (results_any(f, result_stale))
                freshen_start(f);
        else
                look_over(f);
}

/* True: the round will be done again, when the metadata store has been looked at. */
static bool
fetch_look(struct fetch *f)
{
        bool unknown = results_any(f, result_unknown);

        if (!kafka_server_of(f->r)->shared || f->looked ||
            (!unknown && !results_any(f, result_stale)))
                return false;
        f->state = FETCH_LOOK;
        round_clear(f);
        if (unknown) {
                f->r->look = (struct kafka_look_wait){ .loop = kafka_loop_of(f->r),
                                                       .done = fetch_looked };
                kafka_look_start(kafka_server_of(f->r), &f->r->look);
        } else {
                freshen_start(f);
        }
        return true;
}

/* Nobody knows whether it is so: the client is to ask again. */
static void
results_doubtful(struct fetch *f)
{
        for (size_t i = 0; i < f->part_count; i++) {
                struct fetch_result *result = &f->results[i];

                if (!result_unknown(result) && !result_stale(result))
                        continue;
                result->diverged = false;
                result->error = LS_KAFKA_ERR_KAFKA_STORAGE_ERROR;
        }
}

/* ---- the end of a round ---- */

/* The read is done: answer, or wait for more. */
static void
fetch_judge(struct fetch *f, bool urgent)
{
        const fetch_request *q = f->r->req.body;
        int64_t now_ms = ls_clock_monotonic_ms();

        round_settle_charge(f);
        urgent |= round_judge(f);
        if (urgent && fetch_look(f))
                return;
        if (urgent && f->look_error != LS_OK)
                results_doubtful(f);
        if (urgent || f->hurried || f->part_count == 0 || now_ms >= f->deadline_ms ||
            (int64_t)f->read.bytes >= q->min_bytes)
                fetch_answer(f);
        else
                fetch_wait(f, now_ms);
}

/* ---- by a job ---- */

static void
job_run(struct ls_job *job)
{
        struct fetch *f = LS_CONTAINER(job, struct fetch, job);

        ls_stream_read(kafka_server_of(f->r)->streams, &f->read);
}

static bool
result_urgent(const struct fetch_result *result)
{
        return result->error != LS_KAFKA_ERR_NONE || result->diverged;
}

static void
job_done(struct ls_job *job)
{
        struct fetch *f = LS_CONTAINER(job, struct fetch, job);

        LS_ASSERT(f->state == FETCH_JOB);
        fetch_judge(f, results_any(f, result_urgent));
}

/* Some of it is not in memory: the whole round again, by a job. */
static void
fetch_by_job(struct fetch *f)
{
        struct ls_streams *streams = kafka_server_of(f->r)->streams;
        bool history = false;

        for (size_t i = 0; i < f->read.part_count; i++) {
                const struct ls_read_part *part = &f->read.parts[i];

                if (part->outcome == LS_BUSY)
                        history |=
                                ls_stream_is_history(part->stream, part->partition, part->offset);
        }
        ls_read_done(&f->read);
        f->read.bytes = 0;
        f->read.may_block = true;
        f->state = FETCH_JOB;
        f->job = (struct ls_job){ .run = job_run, .done = job_done, .loop = kafka_loop_of(f->r) };
        ls_jobs_submit(history ? ls_streams_history_jobs(streams) : ls_streams_jobs(streams),
                       &f->job);
}

static void
fetch_round(struct fetch *f)
{
        const fetch_request *q = f->r->req.body;
        bool urgent, busy = false;

        f->state = FETCH_READ;
        urgent = round_resolve(f);
        if (!round_charge(f) && ls_clock_monotonic_ms() >= f->deadline_ms) {
                /* It has waited long enough: one batch. */
                f->read.bytes_max = 1;
        } else if (f->charged == 0) {
                round_clear(f);
                f->state = FETCH_MEMORY;
                ls_timer_set(kafka_loop_of(f->r), &f->timer, KAFKA_FETCH_RETRY_MS, on_timer);
                return;
        }
        f->read.read_committed = q->isolation_level == 1;
        f->read.may_block = false;
        f->read.bytes = 0;
        ls_stream_read(kafka_server_of(f->r)->streams, &f->read);
        for (size_t i = 0; i < f->read.part_count; i++)
                busy |= f->read.parts[i].outcome == LS_BUSY;
        if (busy)
                fetch_by_job(f);
        else
                fetch_judge(f, urgent);
}

/* ---- begin and end ---- */

static void
fetch_hurry(struct kafka_request *r)
{
        struct fetch *f = r->state_of_handler;

        f->hurried = true;
        if (f->state != FETCH_WAIT && f->state != FETCH_MEMORY)
                return;
        wait_end(f);
        if (r->conn->peer != NULL && f->state == FETCH_WAIT) {
                fetch_round(f);
                return;
        }
        r->close_after = true;
        f->state = FETCH_ANSWERED;
        kafka_request_done(r);
}

static void
fetch_release(struct kafka_request *r)
{
        struct fetch *f = r->state_of_handler;

        LS_ASSERT(f->watch == NULL);
        round_clear(f);
        session_leave(f, false);
}

void
kafka_serve_fetch(struct kafka_request *r)
{
        const fetch_request *q = r->req.body;
        struct ls_kafka_fetch_response *answer = r->answer;
        struct fetch *f = ls_arena_array(&r->arena, 1, sizeof *f);

        if (f == NULL) {
                r->close_after = true;
                kafka_request_done(r);
                return;
        }
        f->r = r;
        f->by_id = r->req.version >= TOPIC_ID_VERSION_MIN;
        f->deadline_ms = ls_clock_monotonic_ms() + LS_MAX(q->max_wait_ms, 0);
        r->state_of_handler = f;
        r->release = fetch_release;
        r->hurry = fetch_hurry;
        answer->error_code = session_enter(f);
        if (answer->error_code != LS_KAFKA_ERR_NONE) {
                f->state = FETCH_ANSWERED;
                kafka_request_done(r);
        } else if (!fetch_list_parts(f)) {
                f->state = FETCH_ANSWERED;
                r->close_after = true;
                kafka_request_done(r);
        } else {
                fetch_round(f);
        }
}

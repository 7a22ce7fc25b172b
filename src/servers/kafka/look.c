/* servers/kafka/look.c - of many brokers: what another one did may not be known here yet, so before
 * a request is answered "there is no such topic" the metadata store is looked at.
 *
 *     request --- finds nothing ---> waits --+
 *     request --- finds nothing ---> waits --+--> one look ---> each runs again, and looks no more
 *
 * Looks are one at a time and some time apart, however many requests wait: one that begins serves
 * all who came before it. So a client that asks for what is nowhere loads nothing but itself.
 * Requests on a loop wait in a list, and only one job works for all of them; a request that has a
 * job already waits on it.
 *
 * Locks: kafka_look.lock is innermost, and not held across a look. */
#include "servers/kafka/server_int.h"

static LS_METRIC(metric_looks, COUNTER, "lakestream_kafka_looks_total",
                 "looks at the metadata store for topics that are not known here");

void
kafka_look_init(struct kafka_look *look)
{
        *look = (struct kafka_look){ 0 };
        pthread_mutex_init(&look->lock, NULL);
        ls_cond_init(&look->changed);
}

void
kafka_look_done(struct kafka_look *look)
{
        pthread_mutex_lock(&look->lock);
        LS_ASSERT(look->waiting == NULL);
        while (look->job_runs) /* it has answered all, and is about to leave */
                ls_cond_wait(&look->changed, &look->lock);
        pthread_mutex_unlock(&look->lock);
        ls_cond_done(&look->changed);
        pthread_mutex_destroy(&look->lock);
}

/* Under the lock, which is given up meanwhile. */
static void
look_once(struct ls_kafka_server *s)
{
        struct kafka_look *look = &s->look;
        uint64_t number;
        ls_err e;

        LS_ASSERT(!look->running);
        look->running = true;
        while (ls_cond_wait_until(&look->changed, &look->lock, look->next_ms))
                ; /* others who come meanwhile share it */
        number = ++look->begun;
        look->next_ms = ls_clock_monotonic_ms() + KAFKA_LOOK_INTERVAL_MS;
        pthread_mutex_unlock(&look->lock);
        ls_metric_add(&metric_looks, 1);
        e = s->cluster.streams_refresh(s->streams);
        if (e != LS_OK)
                ls_log_warn("kafka", "event=catalog_stale error=%s", ls_err_name(e));
        pthread_mutex_lock(&look->lock);
        look->running = false;
        look->ended = number;
        look->result = e;
        ls_cond_broadcast(&look->changed);
}

ls_err
kafka_look_now(struct ls_kafka_server *s)
{
        struct kafka_look *look = &s->look;
        uint64_t wanted;
        ls_err e;

        pthread_mutex_lock(&look->lock);
        wanted = look->begun + 1; /* one that is under way may have read before we were asked */
        while (look->ended < wanted) {
                if (look->running)
                        ls_cond_wait(&look->changed, &look->lock);
                else
                        look_once(s);
        }
        e = look->result;
        pthread_mutex_unlock(&look->lock);
        return e;
}

static void
look_posted(struct ls_loop_msg *msg)
{
        struct kafka_look_wait *w = LS_CONTAINER(msg, struct kafka_look_wait, msg);

        w->done(w);
}

static void
look_job(struct ls_job *job)
{
        struct ls_kafka_server *s = LS_CONTAINER(job, struct ls_kafka_server, look.job);
        struct kafka_look *look = &s->look;
        struct kafka_look_wait *w, *next;

        pthread_mutex_lock(&look->lock);
        while (look->waiting != NULL) {
                w = LS_STEAL(look->waiting);
                pthread_mutex_unlock(&look->lock);
                ls_err e = kafka_look_now(s);

                for (; w != NULL; w = next) {
                        next = w->next;
                        w->result = e;
                        w->msg = (struct ls_loop_msg){ NULL, look_posted };
                        ls_loop_post(w->loop, &w->msg);
                }
                pthread_mutex_lock(&look->lock);
        }
        look->job_runs = false;
        ls_cond_broadcast(&look->changed);
        pthread_mutex_unlock(&look->lock);
}

void
kafka_look_start(struct ls_kafka_server *s, struct kafka_look_wait *w)
{
        struct kafka_look *look = &s->look;
        bool start;

        pthread_mutex_lock(&look->lock);
        w->next = look->waiting;
        look->waiting = w;
        start = !look->job_runs;
        look->job_runs = true;
        pthread_mutex_unlock(&look->lock);
        if (!start)
                return;
        look->job = (struct ls_job){ .run = look_job };
        ls_jobs_submit(ls_streams_jobs(s->streams), &look->job);
}

/* ---- for handlers ---- */

bool
kafka_doubt(struct kafka_request *r)
{
        if (!kafka_server_of(r)->shared || r->looked)
                return false;
        if (!r->on_job) {
                r->doubted = true;
                return false;
        }
        r->looked = true;
        r->look_failed = kafka_look_now(kafka_server_of(r)) != LS_OK;
        return !r->look_failed;
}

int16_t
kafka_unknown(const struct kafka_request *r, bool by_id)
{
        if (r->look_failed)
                return LS_KAFKA_ERR_KAFKA_STORAGE_ERROR;
        return by_id ? LS_KAFKA_ERR_UNKNOWN_TOPIC_ID : LS_KAFKA_ERR_UNKNOWN_TOPIC_OR_PARTITION;
}

struct ls_stream *
kafka_find_stream(struct kafka_request *r, bool by_id, ls_str name, ls_uuid id)
{
        struct ls_streams *streams = kafka_server_of(r)->streams;
        struct ls_stream *stream;

        do
                stream = by_id ? ls_stream_find_id(streams, id) : ls_stream_find(streams, name);
        while (stream == NULL && kafka_doubt(r));
        return stream;
}

struct ls_stream *
kafka_find_topic(struct kafka_request *r, ls_str name)
{
        return kafka_find_stream(r, false, name, (ls_uuid){ { 0 } });
}

bool
kafka_has_partition(struct kafka_request *r, const struct ls_stream *stream, int32_t partition)
{
        if (partition < 0)
                return false;
        do
                if (partition < ls_stream_info(stream)->partitions)
                        return true;
        while (kafka_doubt(r));
        return false;
}

int16_t
kafka_freshen(struct kafka_request *r, struct kafka_seen *seen, struct ls_stream *stream)
{
        struct ls_kafka_server *s = kafka_server_of(r);
        uint64_t id;

        if (!s->shared || stream == NULL)
                return LS_KAFKA_ERR_NONE;
        LS_ASSERT(r->on_job);
        id = ls_stream_info(stream)->id;
        if (!kafka_seen_add(seen, ls_span_of(&id, sizeof id)))
                return LS_KAFKA_ERR_NONE;
        return kafka_error_of(s->cluster.stream_refresh(stream));
}

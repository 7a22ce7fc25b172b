/* servers/kafka/fetch_session.c - incremental fetch sessions (KIP-227).
 *
 * A session remembers which partitions a client fetches and what it was told last, so that the
 * client sends only changes and gets only changes. Partitions stand in a list in order of service:
 * one that gave records goes to the end, so that the others have their turn.
 *
 * Sessions belong to the server, since a client may come back on another connection. The lock
 * guards the table and each session's id, epoch, busy and dead; a busy session's partitions belong
 * to the request that took it. A session that is ended while it is busy is freed when it is put
 * back.
 */
#include "servers/kafka/server_int.h"

void
kafka_sessions_init(struct kafka_sessions *s, size_t count_max)
{
        pthread_mutex_init(&s->lock, NULL);
        ls_map_init(&s->by_id);
        s->count_max = count_max;
        atomic_init(&s->part_count, 0);
}

static void
session_free(struct kafka_session *session)
{
        struct kafka_fetch_part *part = session->first;

        while (part != NULL) {
                struct kafka_fetch_part *next = part->next;

                ls_free(part);
                part = next;
        }
        atomic_fetch_sub(&session->owner->part_count, session->part_count);
        ls_map_done(&session->parts);
        ls_free(session);
}

void
kafka_sessions_done(struct kafka_sessions *s)
{
        struct ls_map_entry *entry;
        size_t pos = 0;

        while ((entry = ls_map_next(&s->by_id, &pos)) != NULL)
                session_free(entry->value);
        ls_map_done(&s->by_id);
        pthread_mutex_destroy(&s->lock);
}

size_t
kafka_sessions_count(struct kafka_sessions *s)
{
        size_t count;

        pthread_mutex_lock(&s->lock);
        count = s->by_id.count;
        pthread_mutex_unlock(&s->lock);
        return count;
}

static ls_span
session_key(const int32_t *id)
{
        return ls_span_of(id, sizeof *id);
}

static struct kafka_session *
sessions_find(struct kafka_sessions *s, int32_t id)
{
        return ls_map_get(&s->by_id, session_key(&id));
}

/* Under the lock: out of the table; freed unless a request has it. */
static void
sessions_drop(struct kafka_sessions *s, struct kafka_session *session)
{
        ls_map_remove(&s->by_id, session_key(&session->id));
        session->dead = true;
        if (!session->busy)
                session_free(session);
}

/* Under the lock: the session that has to leave for one of `part_count` partitions. One that was
 * not used for a while; or a smaller one that has had its time. NULL: none has to. */
static struct kafka_session *
sessions_evictable(struct kafka_sessions *s, size_t part_count)
{
        int64_t now = ls_clock_monotonic_ms();
        struct kafka_session *oldest = NULL, *smallest = NULL;
        struct ls_map_entry *entry;
        size_t pos = 0;

        while ((entry = ls_map_next(&s->by_id, &pos)) != NULL) {
                struct kafka_session *x = entry->value;

                if (x->busy)
                        continue;
                if (oldest == NULL || x->used_ms < oldest->used_ms)
                        oldest = x;
                if (now - x->created_ms > KAFKA_SESSION_IDLE_MS && x->part_count < part_count &&
                    (smallest == NULL || x->part_count < smallest->part_count))
                        smallest = x;
        }
        if (oldest != NULL && now - oldest->used_ms > KAFKA_SESSION_IDLE_MS)
                return oldest;
        return smallest;
}

/* Under the lock: a random id above 0 that is not in use. */
static int32_t
sessions_new_id(struct kafka_sessions *s)
{
        int32_t id;

        do {
                ls_random(&id, sizeof id);
                id &= INT32_MAX;
        } while (id == 0 || sessions_find(s, id) != NULL);
        return id;
}

struct kafka_session *
kafka_session_new(struct kafka_sessions *s, bool by_id, size_t part_count)
{
        struct kafka_session *session = NULL, *evicted;
        int64_t now = ls_clock_monotonic_ms();

        if (part_count == 0 || s->count_max == 0 ||
            part_count + atomic_load(&s->part_count) > KAFKA_SESSION_PARTITIONS_MAX)
                return NULL;
        pthread_mutex_lock(&s->lock);
        if (s->by_id.count >= s->count_max) {
                evicted = sessions_evictable(s, part_count);
                if (evicted == NULL)
                        goto out;
                sessions_drop(s, evicted);
        }
        session = ls_calloc(1, sizeof *session);
        session->owner = s;
        session->id = sessions_new_id(s);
        session->by_id = by_id;
        session->busy = true;
        session->used_ms = session->created_ms = now;
        ls_map_init(&session->parts);
        ls_map_set(&s->by_id, session_key(&session->id), session);
out:
        pthread_mutex_unlock(&s->lock);
        return session;
}

int16_t
kafka_session_take(struct kafka_sessions *s, int32_t id, int32_t epoch, bool by_id,
                   struct kafka_session **ret_session)
{
        struct kafka_session *session;
        int16_t error = LS_KAFKA_ERR_NONE;

        pthread_mutex_lock(&s->lock);
        session = sessions_find(s, id);
        if (session == NULL) {
                error = LS_KAFKA_ERR_FETCH_SESSION_ID_NOT_FOUND;
        } else if (session->busy || session->epoch != epoch) {
                error = LS_KAFKA_ERR_INVALID_FETCH_SESSION_EPOCH;
        } else if (session->by_id != by_id) {
                error = LS_KAFKA_ERR_FETCH_SESSION_TOPIC_ID_ERROR;
        } else {
                session->busy = true;
                session->used_ms = ls_clock_monotonic_ms();
                *ret_session = session;
        }
        pthread_mutex_unlock(&s->lock);
        return error;
}

void
kafka_session_put(struct kafka_sessions *s, struct kafka_session *session)
{
        pthread_mutex_lock(&s->lock);
        LS_ASSERT(session->busy);
        session->busy = false;
        session->epoch = session->epoch == INT32_MAX ? 1 : session->epoch + 1;
        session->used_ms = ls_clock_monotonic_ms();
        if (session->dead)
                session_free(session);
        pthread_mutex_unlock(&s->lock);
}

void
kafka_session_close(struct kafka_sessions *s, int32_t id)
{
        struct kafka_session *session;

        pthread_mutex_lock(&s->lock);
        session = sessions_find(s, id);
        if (session != NULL)
                sessions_drop(s, session);
        pthread_mutex_unlock(&s->lock);
}

/* ---- partitions of a busy session ---- */

/* A key of id, partition and name: one of id and name is empty. */
struct part_key {
        uint8_t bytes[sizeof(ls_uuid) + sizeof(int32_t) + KAFKA_TOPIC_NAME_BYTES_MAX];
        size_t len;
};

static void
part_key_make(struct part_key *key, ls_str topic, ls_uuid topic_id, int32_t partition)
{
        /* No topic has a longer name, so what is cut off tells nothing apart. */
        topic.len = LS_MIN(topic.len, (size_t)KAFKA_TOPIC_NAME_BYTES_MAX);
        memcpy(key->bytes, &topic_id, sizeof topic_id);
        memcpy(key->bytes + sizeof topic_id, &partition, sizeof partition);
        if (topic.len > 0)
                memcpy(key->bytes + sizeof topic_id + sizeof partition, topic.ptr, topic.len);
        key->len = sizeof topic_id + sizeof partition + topic.len;
}

static void
part_unlink(struct kafka_session *session, struct kafka_fetch_part *part)
{
        if (part->prev != NULL)
                part->prev->next = part->next;
        else
                session->first = part->next;
        if (part->next != NULL)
                part->next->prev = part->prev;
        else
                session->last = part->prev;
        part->next = part->prev = NULL;
}

static void
part_link_last(struct kafka_session *session, struct kafka_fetch_part *part)
{
        part->prev = session->last;
        if (session->last != NULL)
                session->last->next = part;
        else
                session->first = part;
        session->last = part;
}

static struct kafka_fetch_part *
part_add(struct kafka_session *session, const struct kafka_fetch_part *in, ls_span key)
{
        struct kafka_fetch_part *part;

        if (in->topic.len > KAFKA_TOPIC_NAME_BYTES_MAX ||
            atomic_load(&session->owner->part_count) >= KAFKA_SESSION_PARTITIONS_MAX)
                return NULL;
        /* The name stands behind the struct. */
        part = ls_malloc(sizeof *part + in->topic.len);
        *part = *in;
        if (in->topic.len > 0)
                memcpy((char *)(part + 1), in->topic.ptr, in->topic.len);
        part->topic = ls_str_make((char *)(part + 1), in->topic.len);
        part->next = part->prev = NULL;
        part->high_watermark = part->log_start = -1;
        part->answered = false;
        part_link_last(session, part);
        ls_map_set(&session->parts, key, part);
        session->part_count++;
        atomic_fetch_add(&session->owner->part_count, 1);
        return part;
}

struct kafka_fetch_part *
kafka_session_set(struct kafka_session *session, const struct kafka_fetch_part *in)
{
        struct kafka_fetch_part *part;
        struct part_key key;
        ls_span name;

        LS_ASSERT(session->busy);
        part_key_make(&key, in->topic, in->topic_id, in->partition);
        name = ls_span_of(key.bytes, key.len);
        part = ls_map_get(&session->parts, name);
        if (part == NULL)
                return part_add(session, in, name);
        part->leader_epoch = in->leader_epoch;
        part->last_fetched_epoch = in->last_fetched_epoch;
        part->fetch_offset = in->fetch_offset;
        part->bytes_max = in->bytes_max;
        return part;
}

void
kafka_session_forget(struct kafka_session *session, ls_str topic, ls_uuid topic_id,
                     int32_t partition)
{
        struct kafka_fetch_part *part;
        struct part_key key;

        LS_ASSERT(session->busy);
        part_key_make(&key, topic, topic_id, partition);
        part = ls_map_remove(&session->parts, ls_span_of(key.bytes, key.len));
        if (part == NULL)
                return;
        part_unlink(session, part);
        ls_free(part);
        session->part_count--;
        atomic_fetch_sub(&session->owner->part_count, 1);
}

void
kafka_session_move_last(struct kafka_session *session, struct kafka_fetch_part *part)
{
        LS_ASSERT(session->busy);
        part_unlink(session, part);
        part_link_last(session, part);
}

/* stream/brokers.c - who is in the cluster, and which of them clients are sent to.
 *
 * The list comes from the metadata store (heartbeats) and only says where to go: every broker takes
 * every partition all the same. Leaders and coordinators are chosen by rendezvous: each broker gets
 * a number from its id and the thing to be placed, the highest wins. So all brokers that see the
 * same list choose alike, and one that comes or goes moves only what it gets or had. */
#include <stdlib.h>

#include <xxhash.h>

#include "base/assert.h"
#include "base/log.h"
#include "stream/stream_int.h"

/* --- the list --- */

void
ls_brokers_unref(struct ls_brokers *b)
{
        if (b == NULL || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1)
                return;
        for (size_t i = 0; i < b->count; i++) {
                ls_free(b->items[i].rack);
                ls_free(b->items[i].host);
                ls_free(b->items[i].http);
        }
        ls_free(b->items);
        ls_free(b);
}

struct ls_brokers *
ls_brokers_get(struct ls_streams *s)
{
        struct ls_brokers *b;

        pthread_mutex_lock(&s->brokers_lock);
        b = s->brokers;
        atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
        pthread_mutex_unlock(&s->brokers_lock);
        return b;
}

struct list {
        struct ls_streams *streams;
        struct ls_brokers *brokers;
        size_t cap;
};

/* "host:port" or "[host]:port" as it was announced; NULL: not yet. */
static void
address_split(const char *text, char **ret_host, uint16_t *ret_port)
{
        const char *colon = text != NULL ? strrchr(text, ':') : NULL;
        int64_t port = 0;
        ls_str host;

        *ret_host = NULL;
        *ret_port = 0;
        if (colon != NULL && ls_str_to_i64(ls_str_of(colon + 1), 0, UINT16_MAX, &port)) {
                host = ls_str_make(text, (size_t)(colon - text));
                if (host.len >= 2 && host.ptr[0] == '[' && host.ptr[host.len - 1] == ']')
                        host = ls_str_make(host.ptr + 1, host.len - 2);
                *ret_host = ls_str_dup(host);
                *ret_port = (uint16_t)port;
        }
        if (*ret_host == NULL)
                *ret_host = ls_strdup("");
}

static ls_err
list_add(void *ctx, const struct ls_meta_broker *b)
{
        struct list *list = ctx;
        struct ls_streams *s = list->streams;
        bool self = b->id == ls_streams_broker_id(s);
        struct ls_broker item = { .id = b->id, .epoch = b->epoch };

        if (!self && (!b->open || b->kafka == NULL ||
                      b->heartbeat_age_ms > ls_option_int(s->options, LS_OPT_BROKER_SESSION)))
                return LS_OK;
        address_split(b->kafka, &item.host, &item.port);
        item.rack = ls_strdup(b->rack != NULL ? b->rack : "");
        item.http = ls_strdup(b->http != NULL ? b->http : "");
        LS_PUSH(list->brokers->items, list->brokers->count, list->cap, item);
        return LS_OK;
}

static struct ls_brokers *
list_new(void)
{
        struct ls_brokers *b = ls_calloc(1, sizeof *b);

        atomic_init(&b->refs, 1);
        return b;
}

static bool
same_lists(const struct ls_brokers *a, const struct ls_brokers *b)
{
        if (a->count != b->count)
                return false;
        for (size_t i = 0; i < a->count; i++) {
                const struct ls_broker *x = &a->items[i], *y = &b->items[i];

                if (x->id != y->id || x->epoch != y->epoch || x->port != y->port ||
                    strcmp(x->host, y->host) != 0 || strcmp(x->rack, y->rack) != 0 ||
                    strcmp(x->http, y->http) != 0)
                        return false;
        }
        return true;
}

static void
list_set(struct ls_streams *s, struct ls_brokers *b)
{
        struct ls_brokers *old;

        pthread_mutex_lock(&s->brokers_lock);
        old = s->brokers;
        s->brokers = b;
        pthread_mutex_unlock(&s->brokers_lock);
        ls_brokers_unref(old);
}

ls_err
brokers_refresh(struct ls_streams *s)
{
        struct list list = { .streams = s, .brokers = list_new() };
        ls_err e = ls_meta_brokers(s->meta, list_add, &list);
        struct ls_brokers *old = ls_brokers_get(s);
        bool same = same_lists(old, list.brokers);

        ls_brokers_unref(old);
        if (e != LS_OK || same) {
                ls_brokers_unref(list.brokers);
                return e;
        }
        ls_log_info("stream", "event=brokers listed=%zu", list.brokers->count);
        list_set(s, list.brokers);
        return LS_OK;
}

void
brokers_alone(struct ls_streams *s, const char *kafka, const char *http)
{
        struct ls_brokers *b = list_new();

        b->count = 1;
        b->items = ls_calloc(1, sizeof *b->items);
        b->items[0].id = ls_streams_broker_id(s);
        b->items[0].epoch = s->meta != NULL ? ls_meta_broker_epoch(s->meta) : 0;
        b->items[0].rack = ls_strdup(ls_option_text(s->options, LS_OPT_BROKER_RACK));
        b->items[0].http = ls_strdup(http != NULL ? http : "");
        address_split(kafka, &b->items[0].host, &b->items[0].port);
        list_set(s, b);
}

ls_err
ls_streams_announce(struct ls_streams *s, const char *kafka, const char *http,
                    struct ls_errinfo *reterr)
{
        ls_err e = LS_OK;

        if (!s->shared) {
                brokers_alone(s, kafka, http);
                return LS_OK;
        }
        e = ls_meta_announce(s->meta, kafka, http);
        if (e == LS_OK)
                e = brokers_refresh(s);
        if (e != LS_OK)
                return ls_fail(reterr, e, "the broker could not be announced: %s", ls_err_text(e));
        return LS_OK;
}

/* --- who does what --- */

static uint64_t
weight(ls_span what, int32_t broker)
{
        uint8_t id[4];

        ls_set_be32(id, (uint32_t)broker);
        return XXH64(id, sizeof id, XXH64(what.ptr, what.len, 0));
}

/* `rack` null: of all; SIZE_MAX: none there. */
static size_t
choose(const struct ls_brokers *b, ls_span what, ls_str rack)
{
        size_t best = SIZE_MAX;
        uint64_t most = 0;

        for (size_t i = 0; i < b->count; i++) {
                uint64_t w = weight(what, b->items[i].id);

                if (rack.ptr != NULL && !ls_str_eq(ls_str_of(b->items[i].rack), rack))
                        continue;
                if (best == SIZE_MAX || w > most) {
                        best = i;
                        most = w;
                }
        }
        return best;
}

size_t
ls_brokers_leader(const struct ls_brokers *b, ls_uuid topic_id, int32_t partition, ls_str rack)
{
        uint8_t what[20];
        size_t found = SIZE_MAX;

        LS_ASSERT(b->count > 0);
        if (b->count == 1)
                return 0;
        memcpy(what, topic_id.bytes, 16);
        ls_set_be32(what + 16, (uint32_t)partition);
        if (rack.len > 0)
                found = choose(b, ls_span_of(what, sizeof what), rack);
        return found != SIZE_MAX ? found : choose(b, ls_span_of(what, sizeof what), LS_STR_NULL);
}

size_t
ls_brokers_coordinator(const struct ls_brokers *b, ls_str group_id)
{
        LS_ASSERT(b->count > 0);
        return b->count == 1 ? 0
                             : choose(b, ls_span_of((const uint8_t *)group_id.ptr, group_id.len),
                                      LS_STR_NULL);
}

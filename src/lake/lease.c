/* lake/lease.c - several brokers on one store: who does the background work, and what time it is.
 *
 * A lease spreads work, it protects nothing: every commit is checked for itself, by the version of
 * the table and by where its floors stand. So losing one in the middle of a run does no harm, and a
 * load needs none. A lease is taken when there is work, and not renewed without: a broker without
 * work writes nothing. Whoever finds it taken looks again a while later.
 *
 * Dates are the database's (when garbage may go, when records were committed). So they are judged
 * by its clock: the local one, corrected by what their difference was at the last look. A broker
 * whose clock is ahead would else delete what queries still read.
 */
#include <assert.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/clock.h"
#include "lake/lake_int.h"

#define LEASE_TTL_MS      ((int64_t)30000)
#define LEASE_BUSY_MS     5000 /* another has it: asked again so much later, or twice that */
#define LEASE_IDLE_MS     ((int64_t)10000) /* without work: it is given back */
#define LEASE_CLOSE_MAX   64 /* given back at the end; closing the epoch ends the rest */
#define LEASE_UPKEEP      "upkeep"
#define LEASE_BYTES       32
#define CLOCK_INTERVAL_MS ((int64_t)60000)

static_assert(LEASE_IDLE_MS < LEASE_TTL_MS / 2, "a lease is given back while it is held");

/* --- one lease; `lock` guards it --- */

static ls_err
lease_take(struct ls_meta *meta, pthread_mutex_t *lock, struct lake_lease *l, const char *resource)
{
        int64_t now = ls_clock_monotonic_ms();
        bool held, wait;
        uint32_t random;
        ls_err e;

        pthread_mutex_lock(lock);
        held = l->until_ms - now > LEASE_TTL_MS / 2;
        wait = now < l->again_ms;
        if (held)
                l->used_ms = now;
        pthread_mutex_unlock(lock);
        if (held || wait)
                return held ? LS_OK : LS_BUSY;
        e = ls_meta_lease(meta, resource, LEASE_TTL_MS);
        ls_random(&random, sizeof random);
        pthread_mutex_lock(lock);
        l->until_ms = e == LS_OK ? now + LEASE_TTL_MS : 0;
        l->again_ms = e == LS_BUSY ? now + LEASE_BUSY_MS + (int64_t)(random % LEASE_BUSY_MS) : 0;
        l->used_ms = now;
        pthread_mutex_unlock(lock);
        return e;
}

/* True when it is to be given back: it is held, and nothing was done under it for `idle_ms`. */
static bool
lease_drop(pthread_mutex_t *lock, struct lake_lease *l, int64_t idle_ms)
{
        int64_t now = ls_clock_monotonic_ms();
        bool drop;

        pthread_mutex_lock(lock);
        drop = l->until_ms > now && now - l->used_ms >= idle_ms;
        if (drop || l->until_ms <= now)
                l->until_ms = 0;
        pthread_mutex_unlock(lock);
        return drop;
}

static void
stream_resource(struct ls_lake_stream *s, char ret[LEASE_BYTES])
{
        snprintf(ret, LEASE_BYTES, "table/%llu", (unsigned long long)lake_spec(s).stream_id);
}

/* --- of a stream, of the rest --- */

ls_err
lake_lease(struct ls_lake_stream *s)
{
        char resource[LEASE_BYTES];

        if (!s->lake->o.shared)
                return LS_OK;
        stream_resource(s, resource);
        return lease_take(s->lake->o.meta, &s->lock, &s->lease, resource);
}

bool
lake_leased(struct ls_lake_stream *s)
{
        bool held;

        if (!s->lake->o.shared)
                return true;
        pthread_mutex_lock(&s->lock);
        held = s->lease.until_ms > ls_clock_monotonic_ms();
        pthread_mutex_unlock(&s->lock);
        return held;
}

void
lake_lease_keep(struct ls_lake_stream *s)
{
        ls_err e = lake_leased(s) ? lake_lease(s) : LS_OK;

        (void)e; /* lost: what is under way is checked when it is committed, as ever */
}

ls_err
lake_lease_upkeep(struct ls_lake *lake)
{
        if (!lake->o.shared)
                return LS_OK;
        return lease_take(lake->o.meta, &lake->lock, &lake->lease, LEASE_UPKEEP);
}

static void
release(struct ls_lake *lake, const char *resource)
{
        ls_err e = ls_meta_lease_release(lake->o.meta, resource);

        (void)e; /* it runs out by itself */
}

void
lake_lease_rest(struct ls_lake_stream *s)
{
        char resource[LEASE_BYTES];

        if (!s->lake->o.shared || !lease_drop(&s->lock, &s->lease, LEASE_IDLE_MS))
                return;
        stream_resource(s, resource);
        release(s->lake, resource);
}

void
lake_lease_upkeep_rest(struct ls_lake *lake)
{
        if (lake->o.shared && lease_drop(&lake->lock, &lake->lease, LEASE_IDLE_MS))
                release(lake, LEASE_UPKEEP);
}

void
lake_leases_close(struct ls_lake *lake)
{
        size_t left = LEASE_CLOSE_MAX;

        if (!lake->o.shared)
                return;
        if (lease_drop(&lake->lock, &lake->lease, 0))
                release(lake, LEASE_UPKEEP);
        for (struct ls_lake_stream *s = lake->streams; s != NULL && left > 0; s = s->next) {
                char resource[LEASE_BYTES];

                if (!lease_drop(&s->lock, &s->lease, 0))
                        continue;
                stream_resource(s, resource);
                release(lake, resource);
                left--;
        }
}

/* --- fresh views --- */

ls_err
lake_refresh(struct ls_lake_stream *s)
{
        ls_err e;

        if (!s->lake->o.shared)
                return LS_OK;
        e = ls_wal_stream_refresh(s->wal);
        return e == LS_ABSENT ? LS_CANCELED : e > 0 ? LS_EBROKEN : e;
}

/* --- the database's clock --- */

int64_t
lake_now_ms(struct ls_lake *lake)
{
        return ls_clock_wall_ms() + atomic_load(&lake->clock_ahead_ms);
}

static ls_err
clock_look(void *ctx, const struct ls_meta_broker *b)
{
        *(int64_t *)ctx = b->heartbeat_ms + b->heartbeat_age_ms;
        return LS_OK;
}

void
lake_clock_set(struct ls_lake *lake, bool force)
{
        int64_t now = ls_clock_monotonic_ms(), database = 0;

        if (!lake->o.shared || (!force && now < lake->next_clock_ms))
                return;
        lake->next_clock_ms = now + CLOCK_INTERVAL_MS;
        if (ls_meta_brokers(lake->o.meta, clock_look, &database) == LS_OK && database > 0)
                atomic_store(&lake->clock_ahead_ms, database - ls_clock_wall_ms());
}

/* --- whose objects may be garbage --- */

static ls_err
epochs_add(void *ctx, const struct ls_meta_broker *b)
{
        struct lake_epochs *epochs = ctx;

        epochs->last = LS_MAX(epochs->last, b->epoch);
        if (b->open)
                LS_PUSH(epochs->open, epochs->count, epochs->cap, b->epoch);
        return LS_OK;
}

ls_err
lake_epochs_read(struct ls_lake *lake, struct lake_epochs *ret)
{
        *ret = (struct lake_epochs){ .own = ls_meta_broker_epoch(lake->o.meta) };
        ret->last = ret->own;
        return lake->o.shared ? ls_meta_brokers(lake->o.meta, epochs_add, ret) : LS_OK;
}

void
lake_epochs_free(struct lake_epochs *epochs)
{
        ls_free(epochs->open);
        *epochs = (struct lake_epochs){ 0 };
}

bool
lake_epoch_closed(const struct lake_epochs *epochs, uint64_t epoch)
{
        if (epoch >= epochs->own && epochs->count == 0)
                return false; /* one broker */
        if (epoch == epochs->own || epoch > epochs->last)
                return false; /* above: given out since the look */
        for (size_t i = 0; i < epochs->count; i++)
                if (epochs->open[i] == epoch)
                        return false;
        return true;
}

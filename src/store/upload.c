/* store/upload.c - see upload.h. */
#include "store/upload.h"

#include "base/assert.h"
#include "base/mem.h"

struct part {
        struct ls_job job;
        struct store_upload *upload;
        struct ls_buf bytes;
        size_t number;
        char etag[STORE_ETAG_TEXT_MAX];
};
struct store_upload {
        struct ls_jobs *jobs;
        ls_err (*send)(void *ctx, size_t number, ls_span part, char ret_etag[STORE_ETAG_TEXT_MAX]);
        void *ctx;
        struct part **parts; /* the owner's: jobs hold their own */
        size_t count, cap;
        pthread_mutex_t lock;
        struct ls_cond ended;
        size_t running;
        ls_err failed;
};

static void
part_run(struct ls_job *job)
{
        struct part *p = LS_CONTAINER(job, struct part, job);
        struct store_upload *u = p->upload;
        ls_err e = u->send(u->ctx, p->number, ls_buf_span(&p->bytes), p->etag);

        ls_buf_done(&p->bytes);
        pthread_mutex_lock(&u->lock);
        u->running--;
        if (u->failed == LS_OK)
                u->failed = e;
        ls_cond_broadcast(&u->ended);
        pthread_mutex_unlock(&u->lock);
}

struct store_upload *
store_upload_new(struct ls_jobs *jobs,
                 ls_err (*send)(void *ctx, size_t number, ls_span part,
                                char ret_etag[STORE_ETAG_TEXT_MAX]),
                 void *ctx)
{
        struct store_upload *u = ls_calloc(1, sizeof *u);

        u->jobs = jobs;
        u->send = send;
        u->ctx = ctx;
        pthread_mutex_init(&u->lock, NULL);
        ls_cond_init(&u->ended);
        return u;
}

/* Waits until at most `most` are on their way. */
static ls_err
upload_settle(struct store_upload *u, size_t most)
{
        ls_err e;

        pthread_mutex_lock(&u->lock);
        while (u->running > most)
                ls_cond_wait(&u->ended, &u->lock);
        e = u->failed;
        pthread_mutex_unlock(&u->lock);
        return e;
}

ls_err
store_upload_add(struct store_upload *u, struct ls_buf *part)
{
        ls_err e = upload_settle(u, STORE_PARTS_AT_ONCE - 1);
        struct part *p;

        if (e != LS_OK)
                return e;
        p = ls_calloc(1, sizeof *p);
        p->upload = u;
        p->number = u->count + 1;
        p->bytes = *part;
        p->job.run = part_run;
        *part = (struct ls_buf){ .max = part->max };
        LS_PUSH(u->parts, u->count, u->cap, p);
        pthread_mutex_lock(&u->lock);
        u->running++;
        pthread_mutex_unlock(&u->lock);
        ls_jobs_submit(u->jobs, &p->job);
        return LS_OK;
}

ls_err
store_upload_wait(struct store_upload *u)
{
        return upload_settle(u, 0);
}

size_t
store_upload_count(const struct store_upload *u)
{
        return u->count;
}

const char *
store_upload_etag(const struct store_upload *u, size_t number)
{
        LS_ASSERT(number >= 1 && number <= u->count);
        return u->parts[number - 1]->etag;
}

void
store_upload_free(struct store_upload *u)
{
        ls_err failed;

        if (u == NULL)
                return;
        failed = upload_settle(u, 0);
        (void)failed;
        for (size_t i = 0; i < u->count; i++)
                ls_free(u->parts[i]);
        ls_free(u->parts);
        pthread_mutex_destroy(&u->lock);
        ls_cond_done(&u->ended);
        ls_free(u);
}

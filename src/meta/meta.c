/* meta/meta.c - opening and closing: format level, integrity, the broker's epoch. */
#include "meta/meta.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "meta/meta_int.h"
#include "meta/postgres/postgres.h"
#include "meta/sqlite/sqlite.h"

/* --- format level --- */

/* Steps an empty or older database up to our level; one that is newer is refused. */
static ls_err
meta_upgrade(struct ls_db *db, struct ls_errinfo *reterr)
{
        int level = 0;

        LS_TRY(db->ops->level(db, &level));
        if (level > LS_META_FORMAT_LEVEL || level < 0)
                return ls_fail(reterr, LS_NEWER_FORMAT,
                               "the metadata is of format level %d, this program knows up to %d: "
                               "use a newer lakestream",
                               level, LS_META_FORMAT_LEVEL);
        for (; level < LS_META_FORMAT_LEVEL; level++) {
                LS_TRY(db->ops->migrate(db, level));
                if (level > 0)
                        LS_TRY(ls_db_exec(db, INSTALL_LEVEL, NULL, ls_db_int(level + 1)));
        }
        return LS_OK;
}

/* The one row of the installation; made with a fresh cluster id. */
static ls_err
meta_install(struct ls_db *db, int64_t now_ms, ls_uuid *ret_cluster_id)
{
        struct ls_db_stmt *stmt;
        uint8_t random[16];
        ls_uuid fresh;
        ls_span id;
        ls_err e;

        ls_random(random, sizeof random);
        fresh = ls_uuid_v4(random);
        LS_TRY(ls_db_exec(db, INSTALL_PUT, NULL, ls_db_int(LS_META_FORMAT_LEVEL),
                          ls_db_blob(ls_span_of(fresh.bytes, sizeof fresh.bytes)),
                          ls_db_int(now_ms)));
        LS_TRY(ls_db_query0(db, INSTALL_GET, &stmt));
        e = ls_db_step(db, stmt);
        if (e == LS_OK) {
                id = ls_db_col_span(db, stmt, 0);
                if (id.len == sizeof ret_cluster_id->bytes)
                        memcpy(ret_cluster_id->bytes, id.ptr, id.len);
                else
                        e = LS_EBROKEN;
        }
        ls_db_end(db, stmt);
        return e == LS_END ? LS_EBROKEN : e;
}

/* 0 when it is not there. */
static ls_err
meta_counter(struct ls_meta *m, int64_t id, int64_t *ret_value)
{
        ls_err e = ls_db_get_i64(m->db, LS_SQL_COUNTER_GET, LS_DB_ARGS(ls_db_int(id)), ret_value);

        if (e == LS_ABSENT)
                *ret_value = 0;
        return e == LS_ABSENT ? LS_OK : e;
}

/* How far this broker had come: in the epoch before, or, when nothing was committed in that, in
 * the last one in which something was. */
static ls_err
meta_before(struct ls_meta *m)
{
        int32_t broker = m->options.broker_id;
        int64_t epoch = 0, sequence = 0;
        ls_err e;

        e = ls_db_get_i64(m->db, LS_SQL_BROKER_EPOCH, LS_DB_ARGS(ls_db_int(broker)), &epoch);
        if (e == LS_ABSENT)
                return LS_OK;
        LS_TRY(e);
        LS_TRY(meta_counter(m, META_COUNTER_BROKER + (int64_t)broker, &sequence));
        if (sequence > 0) {
                LS_TRY(ls_db_exec(m->db, COUNTER_PUT, NULL,
                                  ls_db_int(META_COUNTER_BEFORE_EPOCH(broker)), ls_db_int(epoch)));
                LS_TRY(ls_db_exec(m->db, COUNTER_PUT, NULL,
                                  ls_db_int(META_COUNTER_BEFORE_SEQUENCE(broker)),
                                  ls_db_int(sequence)));
        } else {
                LS_TRY(meta_counter(m, META_COUNTER_BEFORE_EPOCH(broker), &epoch));
                LS_TRY(meta_counter(m, META_COUNTER_BEFORE_SEQUENCE(broker), &sequence));
        }
        m->epoch_before = (uint64_t)epoch;
        m->sequence_before = (uint64_t)sequence;
        return LS_OK;
}

/* A new epoch of this broker: whoever ran under its id before is fenced. It is the next of the
 * counter, and above every one that stands at a broker: no two openings share one. */
static ls_err
meta_register(struct ls_meta *m)
{
        const struct ls_meta_options *o = &m->options;
        struct ls_meta_txn txn = { .m = m, .db = m->db };
        int64_t now_ms, epoch;

        LS_TRY(m->db->ops->now_ms(m->db, &now_ms));
        LS_TRY(meta_install(m->db, now_ms, &m->cluster_id));
        LS_TRY(meta_before(m));
        LS_TRY(ls_db_get_i64(m->db, LS_SQL_BROKER_EPOCH_MAX, NULL, 0, &epoch));
        LS_TRY(ls_db_exec(m->db, COUNTER_RAISE, NULL, ls_db_int(epoch),
                          ls_db_int(META_COUNTER_EPOCH)));
        LS_TRY(meta_txn_count(&txn, META_COUNTER_EPOCH, 1, &m->epoch));
        LS_TRY(ls_db_exec(m->db, BROKER_OPEN, NULL, ls_db_int(o->broker_id), ls_db_u64(m->epoch),
                          ls_db_text(m->rack), ls_db_int(now_ms)));
        return ls_db_exec(m->db, COUNTER_PUT, NULL,
                          ls_db_int(META_COUNTER_BROKER + (int64_t)o->broker_id), ls_db_int(0));
}

static void
meta_first_finding(void *ctx, const char *finding)
{
        struct ls_errinfo *info = ctx;

        if (info->text[0] == '\0')
                ls_fail(info, LS_EBROKEN, "%s", finding);
}

/* A small database is checked whole; a large one when `doctor` is asked. */
static ls_err
meta_verify(struct ls_db *db, struct ls_errinfo *reterr)
{
        struct ls_errinfo found = { "" };
        uint64_t bytes;

        LS_TRY(db->ops->size(db, &bytes));
        if (bytes > (uint64_t)LS_META_QUICK_CHECK_MB << 20)
                return LS_OK;
        LS_TRY(db->ops->verify(db, true, meta_first_finding, &found));
        if (found.text[0] != '\0')
                return ls_fail(reterr, LS_EBROKEN,
                               "the metadata database is damaged (%s): restore a backup or run "
                               "`lakestream doctor`",
                               found.text);
        return LS_OK;
}

static ls_err
meta_prepare(struct ls_meta *m, struct ls_errinfo *reterr)
{
        bool unknown;
        ls_err e;

        LS_TRY(meta_verify(m->db, reterr));
        LS_TRY(m->db->ops->begin(m->db, true));
        e = meta_upgrade(m->db, reterr);
        if (e == LS_OK)
                e = meta_register(m);
        if (e != LS_OK) {
                m->db->ops->rollback(m->db);
                return e;
        }
        return m->db->ops->commit(m->db, &unknown);
}

/* --- open and close --- */

static void
meta_free(struct ls_meta *m)
{
        meta_readers_close(m);
        meta_chunks_done(m);
        ls_buf_done(&m->scratch);
        ls_buf_done(&m->scratch2);
        if (m->db != NULL)
                m->db->ops->close(m->db);
        pthread_mutex_destroy(&m->id_lock);
        pthread_mutex_destroy(&m->read_lock);
        ls_cond_done(&m->work);
        pthread_mutex_destroy(&m->lock);
        ls_free(m->path);
        ls_free(m->rack);
        ls_free(m->driver_options);
        ls_free(m);
}

ls_err
meta_open_with(const struct ls_meta_options *options, struct ls_db_driver driver,
               void *driver_options, struct ls_meta **ret_meta, struct ls_errinfo *reterr)
{
        struct ls_meta *m = ls_calloc(1, sizeof *m);
        struct ls_errinfo info = { "" };
        ls_err e;

        LS_ASSERT(options->broker_id >= 0);
        m->options = *options;
        m->path = options->sqlite_path ? ls_strdup(options->sqlite_path) : NULL;
        m->rack = options->rack ? ls_strdup(options->rack) : NULL;
        m->options.sqlite_path = m->path;
        m->options.rack = m->rack;
        m->options.postgres_url = NULL; /* the driver has it */
        m->driver = driver;
        m->driver_options = driver_options;
        pthread_mutex_init(&m->lock, NULL);
        pthread_mutex_init(&m->read_lock, NULL);
        pthread_mutex_init(&m->id_lock, NULL);
        ls_cond_init(&m->work);
        ls_buf_init(&m->scratch, LS_META_BLOB_BYTES_MAX);
        ls_buf_init(&m->scratch2, LS_META_BLOB_BYTES_MAX);
        ls_map_init(&m->chunks.by_id);

        e = driver.open(driver.ctx, true, &m->db, &info);
        if (e == LS_OK)
                e = meta_prepare(m, &info);
        if (e == LS_OK)
                e = meta_writer_start(m);
        if (e != LS_OK) {
                if (info.text[0] == '\0')
                        ls_fail(&info, e, "metadata database: %s: %s", ls_err_text(e),
                                m->db ? m->db->ops->error(m->db) : "");
                if (reterr != NULL)
                        *reterr = info;
                meta_free(m);
                return e;
        }
        *ret_meta = m;
        return LS_OK;
}

static ls_err
meta_open_sqlite(const struct ls_meta_options *options, struct ls_meta **ret_meta,
                 struct ls_errinfo *reterr)
{
        struct ls_sqlite_options *so = ls_calloc(1, sizeof *so);
        char *path = ls_strdup(options->sqlite_path);
        struct ls_meta *m;
        ls_err e;

        so->path = path;
        so->sync_full = options->sync_full;
        e = meta_open_with(options, ls_sqlite_driver(so), so, &m, reterr);
        if (e == LS_OK) {
                so->path = m->path; /* the driver opens more connections later */
                *ret_meta = m;
        }
        ls_free(path);
        return e;
}

ls_err
ls_meta_open(const struct ls_meta_options *options, struct ls_meta **ret_meta,
             struct ls_errinfo *reterr)
{
        char *url;

        if (options->postgres_url == NULL)
                return meta_open_sqlite(options, ret_meta, reterr);
        url = ls_strdup(options->postgres_url);
        return meta_open_with(options, ls_postgres_driver(url), url, ret_meta, reterr);
}

void
ls_meta_close(struct ls_meta *m)
{
        bool unknown;
        ls_err e;

        if (m == NULL)
                return;
        meta_writer_stop(m);
        if (m->dead == LS_OK) {
                e = m->db->ops->begin(m->db, true);
                if (e == LS_OK) {
                        e = ls_db_exec(m->db, BROKER_CLOSE, NULL, ls_db_int(m->options.broker_id),
                                       ls_db_u64(m->epoch));
                        if (e == LS_OK)
                                e = m->db->ops->commit(m->db, &unknown);
                        else
                                m->db->ops->rollback(m->db);
                }
                if (e != LS_OK)
                        ls_log_warn("meta", "epoch left open err=%s", ls_err_name(e));
        }
        meta_free(m);
}

ls_uuid
ls_meta_cluster_id(const struct ls_meta *m)
{
        return m->cluster_id;
}

void
ls_meta_watermark(const struct ls_meta *m, uint64_t *ret_epoch, uint64_t *ret_sequence)
{
        *ret_epoch = m->epoch_before;
        *ret_sequence = m->sequence_before;
}

uint64_t
ls_meta_broker_epoch(const struct ls_meta *m)
{
        return m->epoch;
}

uint64_t
ls_meta_changes(struct ls_meta *m)
{
        return atomic_load(&m->changes);
}

ls_err
ls_meta_commit_number(struct ls_meta *m, uint64_t *ret_commit)
{
        struct ls_db *db;
        int64_t value;
        ls_err e;

        LS_TRY(meta_read_begin(m, &db));
        e = ls_db_get_i64(db, LS_SQL_COUNTER_GET, LS_DB_ARGS(ls_db_int(META_COUNTER_COMMIT)),
                          &value);
        meta_read_end(m, db);
        if (e == LS_ABSENT)
                return LS_EBROKEN;
        LS_TRY(e);
        *ret_commit = (uint64_t)value;
        return LS_OK;
}

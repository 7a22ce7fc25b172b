/* meta/reader.c - read connections: as many as are in use, a few kept open.
 *
 * A read runs in a transaction of its own on the caller's thread: one snapshot, everything
 * committed before it began. There is no bound to wait at, since a callback may read again. */
#include "base/log.h"
#include "meta/meta_int.h"

ls_err
meta_read_begin(struct ls_meta *m, struct ls_db **ret_db)
{
        struct ls_db *db = NULL;
        struct ls_errinfo info;
        ls_err e;

        pthread_mutex_lock(&m->read_lock);
        if (m->reader_count > 0)
                db = m->readers[--m->reader_count];
        pthread_mutex_unlock(&m->read_lock);
        if (db == NULL) {
                e = m->driver.open(m->driver.ctx, false, &db, &info);
                if (e != LS_OK) {
                        ls_log_error("meta", "no read connection err=%s detail=\"%s\"",
                                     ls_err_name(e), info.text);
                        return e;
                }
        }
        e = db->ops->begin(db, false);
        if (e != LS_OK) {
                db->ops->close(db);
                return e;
        }
        *ret_db = db;
        return LS_OK;
}

void
meta_read_end(struct ls_meta *m, struct ls_db *db)
{
        db->ops->rollback(db);
        pthread_mutex_lock(&m->read_lock);
        if (m->reader_count < LS_META_READERS_IDLE_MAX) {
                m->readers[m->reader_count++] = db;
                db = NULL;
        }
        pthread_mutex_unlock(&m->read_lock);
        if (db != NULL)
                db->ops->close(db);
}

void
meta_readers_close(struct ls_meta *m)
{
        while (m->reader_count > 0) {
                struct ls_db *db = m->readers[--m->reader_count];

                db->ops->close(db);
        }
}

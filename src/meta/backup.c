/* meta/backup.c - a copy of the database as one file. The copy is one snapshot; the writer goes on.
 */
#include "base/log.h"
#include "meta/meta_int.h"
#include "sys/file.h"

/* The copy must be on disk before anyone counts on it. */
static ls_err
backup_sync(const char *path)
{
        struct ls_file *f;
        ls_err e;

        LS_TRY(ls_file_open(path, LS_FILE_WRITE, &f));
        e = ls_file_sync(f);
        ls_file_close(f);
        return e;
}

ls_err
ls_meta_backup(struct ls_meta *m, const char *path, struct ls_errinfo *reterr)
{
        struct ls_db *db;
        struct ls_file *f;
        ls_err e;

        e = ls_file_open(path, LS_FILE_READ, &f);
        if (e == LS_OK) {
                ls_file_close(f);
                return ls_fail(reterr, LS_EXISTS, "%s exists already", path);
        }
        if (e != LS_ABSENT)
                return ls_fail(reterr, e, "%s: %s", path, ls_err_text(e));
        /* Outside of meta_read_begin: the copy needs a connection that is in no transaction. */
        LS_TRY(m->driver.open(m->driver.ctx, false, &db, reterr));
        e = db->ops->backup(db, path);
        if (e != LS_OK)
                ls_fail(reterr, e, "metadata backup to %s: %s", path, db->ops->error(db));
        db->ops->close(db);
        if (e == LS_OK) {
                e = backup_sync(path);
                if (e != LS_OK)
                        ls_fail(reterr, e, "metadata backup to %s: %s", path, ls_err_text(e));
        }
        if (e != LS_OK && ls_file_delete(path) < 0)
                ls_log_warn("meta", "a part of a failed backup stays path=%s", path);
        return e;
}

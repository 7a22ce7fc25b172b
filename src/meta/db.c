/* meta/db.c - the table of statements, and small helpers over meta/db.h. */
#include "meta/db.h"

const char *const ls_sql_texts[LS_SQL_COUNT] = {
#define LS_SQL(name, locked, text) [LS_SQL_##name] = text,
#include "meta/sql.def"
#undef LS_SQL
};
const bool ls_sql_locked[LS_SQL_COUNT] = {
#define LS_SQL(name, locked, text) [LS_SQL_##name] = locked,
#include "meta/sql.def"
#undef LS_SQL
};

ls_err
ls_db_get_i64(struct ls_db *db, enum ls_sql id, const struct ls_db_value *args, size_t count,
              int64_t *ret_value)
{
        struct ls_db_stmt *stmt;
        ls_err e;

        LS_TRY(db->ops->query(db, id, args, count, &stmt));
        e = db->ops->step(db, stmt);
        if (e == LS_OK) {
                *ret_value = db->ops->column_int(db, stmt, 0);
                /* To the end: what the statement changes (RETURNING) is done only then. */
                e = db->ops->step(db, stmt);
                if (e == LS_END)
                        e = LS_OK;
                else if (e == LS_OK)
                        e = LS_EDB; /* all of these have one row at most */
        } else if (e == LS_END) {
                e = LS_ABSENT;
        }
        db->ops->end(db, stmt);
        return e;
}

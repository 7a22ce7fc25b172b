/* meta/namespaces.c - namespaces and their properties (Iceberg REST).
 *
 * A namespace is there when it has a row, or when a stream is in it; the row is needed for its
 * properties and for one without streams. Nested ones are names with dots. */
#include "meta/meta_int.h"

struct namespace_call {
        struct meta_call call;
        const char *catalog, *ns, *properties;
};

static bool
namespace_ok(const char *catalog, const char *ns)
{
        return catalog != NULL && ns != NULL && catalog[0] != '\0' && ns[0] != '\0' &&
               strnlen(catalog, LS_META_NAME_BYTES_MAX + 1) <= LS_META_NAME_BYTES_MAX &&
               strnlen(ns, LS_META_NAME_BYTES_MAX + 1) <= LS_META_NAME_BYTES_MAX;
}

/* Whether streams are in it. */
static ls_err
namespace_has_streams(struct ls_db *db, const struct namespace_call *c, bool *ret_has)
{
        int64_t one;
        ls_err e = ls_db_get_i64(db, LS_SQL_NAMESPACE_STREAM,
                                 LS_DB_ARGS(ls_db_text(c->catalog), ls_db_text(c->ns)), &one);

        if (e != LS_OK && e != LS_ABSENT)
                return e;
        *ret_has = e == LS_OK;
        return LS_OK;
}

static ls_err
namespace_create_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        struct namespace_call *c = LS_CONTAINER(op, struct namespace_call, call.op);
        int64_t changes = 0;
        bool has = false;

        LS_TRY(namespace_has_streams(txn->db, c, &has));
        if (has)
                return LS_EXISTS;
        LS_TRY(ls_db_exec(txn->db, NAMESPACE_ADD, &changes, ls_db_text(c->catalog),
                          ls_db_text(c->ns), ls_db_text(c->properties)));
        return changes == 1 ? LS_OK : LS_EXISTS;
}

ls_err
ls_meta_namespace_create(struct ls_meta *m, const char *catalog, const char *ns,
                         const char *properties)
{
        struct namespace_call c = { .call.op.apply = namespace_create_apply,
                                    .catalog = catalog,
                                    .ns = ns,
                                    .properties = properties ? properties : "{}" };

        return namespace_ok(catalog, ns) ? meta_call_run(m, &c.call) : LS_INVALID;
}

static ls_err
namespace_drop_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        struct namespace_call *c = LS_CONTAINER(op, struct namespace_call, call.op);
        int64_t one, changes = 0;
        ls_err e;

        e = ls_db_get_i64(txn->db, LS_SQL_NAMESPACE_INSIDE,
                          LS_DB_ARGS(ls_db_text(c->catalog), ls_db_text(c->ns)), &one);
        if (e != LS_ABSENT)
                return e == LS_OK ? LS_NOT_EMPTY : e;
        LS_TRY(ls_db_exec(txn->db, NAMESPACE_DELETE, &changes, ls_db_text(c->catalog),
                          ls_db_text(c->ns)));
        return changes == 1 ? LS_OK : LS_ABSENT;
}

ls_err
ls_meta_namespace_drop(struct ls_meta *m, const char *catalog, const char *ns)
{
        struct namespace_call c = { .call.op.apply = namespace_drop_apply,
                                    .catalog = catalog,
                                    .ns = ns };

        return namespace_ok(catalog, ns) ? meta_call_run(m, &c.call) : LS_INVALID;
}

static ls_err
namespace_set_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        struct namespace_call *c = LS_CONTAINER(op, struct namespace_call, call.op);
        int64_t changes = 0;
        bool has = false;

        LS_TRY(ls_db_exec(txn->db, NAMESPACE_SET, &changes, ls_db_text(c->properties),
                          ls_db_text(c->catalog), ls_db_text(c->ns)));
        if (changes == 1)
                return LS_OK;
        LS_TRY(namespace_has_streams(txn->db, c, &has));
        if (!has)
                return LS_ABSENT;
        return ls_db_exec(txn->db, NAMESPACE_ADD, NULL, ls_db_text(c->catalog), ls_db_text(c->ns),
                          ls_db_text(c->properties));
}

ls_err
ls_meta_namespace_set(struct ls_meta *m, const char *catalog, const char *ns,
                      const char *properties)
{
        struct namespace_call c = { .call.op.apply = namespace_set_apply,
                                    .catalog = catalog,
                                    .ns = ns,
                                    .properties = properties ? properties : "{}" };

        return namespace_ok(catalog, ns) ? meta_call_run(m, &c.call) : LS_INVALID;
}

ls_err
ls_meta_namespaces(struct ls_meta *m, const char *catalog,
                   ls_err (*fn)(void *ctx, const char *ns, const char *properties), void *ctx)
{
        struct ls_db_stmt *stmt = NULL;
        struct ls_db *db;
        ls_err e;

        LS_TRY(meta_read_begin(m, &db));
        e = ls_db_query(db, NAMESPACE_LIST, &stmt, ls_db_text(catalog));
        while (e == LS_OK) {
                char *ns, *properties;

                e = ls_db_step(db, stmt);
                if (e != LS_OK)
                        break;
                ns = ls_db_col_dup(db, stmt, 0);
                properties = ls_db_col_dup(db, stmt, 1);
                e = ns != NULL ? fn(ctx, ns, properties ? properties : "{}") : LS_CORRUPT;
                ls_free(ns);
                ls_free(properties);
        }
        ls_db_end(db, stmt);
        meta_read_end(m, db);
        return e == LS_END ? LS_OK : e;
}

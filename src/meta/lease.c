/* meta/lease.c - leases: background work of a stream is done by one broker at a time.
 *
 * A lease keeps two from doing the same work; it does not protect data, since every commit is
 * checked for itself. So the lease of an epoch that is closed or was raised counts for nothing: its
 * holder cannot commit any more, and a restarted broker need not wait for the time to pass. Whoever
 * takes one forgets those that have run out: of streams that are gone nobody else would. */
#include "meta/meta_int.h"

struct lease_call {
        struct meta_call call;
        const char *resource;
        int64_t ttl_ms;
};

static ls_err
lease_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        struct lease_call *c = LS_CONTAINER(op, struct lease_call, call.op);
        int64_t changes = 0;

        LS_TRY(ls_db_exec(txn->db, LEASE_TAKE, &changes, ls_db_text(c->resource),
                          ls_db_int(txn->m->options.broker_id), ls_db_u64(txn->m->epoch),
                          ls_db_int(txn->now_ms + c->ttl_ms), ls_db_int(txn->now_ms)));
        if (changes != 1)
                return LS_BUSY;
        return ls_db_exec(txn->db, LEASE_EXPIRE, NULL, ls_db_int(txn->now_ms));
}

ls_err
ls_meta_lease(struct ls_meta *m, const char *resource, int64_t ttl_ms)
{
        struct lease_call c = { .call.op.apply = lease_apply,
                                .resource = resource,
                                .ttl_ms = ttl_ms };

        if (resource[0] == '\0' ||
            strnlen(resource, LS_META_TEXT_BYTES_MAX + 1) > LS_META_TEXT_BYTES_MAX || ttl_ms <= 0)
                return LS_INVALID;
        return meta_call_run(m, &c.call);
}

static ls_err
lease_release_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        struct lease_call *c = LS_CONTAINER(op, struct lease_call, call.op);

        return ls_db_exec(txn->db, LEASE_RELEASE, NULL, ls_db_text(c->resource),
                          ls_db_int(txn->m->options.broker_id), ls_db_u64(txn->m->epoch));
}

ls_err
ls_meta_lease_release(struct ls_meta *m, const char *resource)
{
        struct lease_call c = { .call.op.apply = lease_release_apply, .resource = resource };

        return meta_call_run(m, &c.call);
}

/* stream/ready.c - can appends be acknowledged?
 *
 * The last flush says so, as long as there are flushes. After one that failed there may be none
 * (producers were sent elsewhere because of it), so a small file is written and synced beside the
 * segments (many brokers: the store is probed), at most once in READY_PROBE_MS: when that works,
 * appends are worth a try again. */
#include "base/clock.h"
#include "stream/stream_int.h"

#define READY_PROBE_MS    ((int64_t)1000)
#define READY_PROBE_BYTES ((size_t)65536)

static ls_err
probe_write(const char *path)
{
        uint8_t *bytes = ls_calloc(1, READY_PROBE_BYTES);
        ls_span span = ls_span_of(bytes, READY_PROBE_BYTES);
        struct ls_file *file = NULL;
        ls_err e = ls_file_delete(path), deleted;

        if (e == LS_OK || e == LS_ABSENT)
                e = ls_file_open(path, LS_FILE_CREATE_NEW, &file);
        if (e == LS_OK)
                e = ls_file_write(file, 0, &span, 1);
        if (e == LS_OK)
                e = ls_file_sync(file);
        ls_file_close(file);
        ls_free(bytes);
        deleted = ls_file_delete(path);
        return e != LS_OK ? e : deleted;
}

/* One caller at a time writes; the others take what was found last. */
static bool
probe(struct ls_streams *s)
{
        int64_t now = ls_clock_monotonic_ms(), due = atomic_load(&s->probe_due_ms);
        LS_AUTO(ls_free) char *path = NULL;

        if (now < due ||
            !atomic_compare_exchange_strong(&s->probe_due_ms, &due, now + READY_PROBE_MS))
                return atomic_load(&s->probe_ok);
        if (s->shared) {
                atomic_store(&s->probe_ok, ls_store_probe(s->store, NULL) == LS_OK);
                return atomic_load(&s->probe_ok);
        }
        path = ls_format("%s/wal/ready.probe", ls_option_text(s->options, LS_OPT_DATA_DIR));
        atomic_store(&s->probe_ok, probe_write(path) == LS_OK);
        return atomic_load(&s->probe_ok);
}

ls_err
ls_streams_ready(struct ls_streams *s, struct ls_errinfo *reterr)
{
        struct ls_errinfo info = { { 0 } };
        ls_err e;

        if (atomic_load(&s->closing))
                return ls_fail(reterr, LS_ESHUTDOWN, "shutting down");
        e = ls_wal_ready(s->wal, &info);
        if (e == LS_OK || probe(s))
                return LS_OK;
        if (reterr != NULL)
                *reterr = info;
        return e;
}

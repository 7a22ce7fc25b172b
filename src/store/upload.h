/* store/upload.h - the parts of a large object, several on their way at once; for back ends.
 *
 * Threads: one owner; `send` runs on the threads of the pool.
 */
#pragma once
#include "base/buf.h"
#include "store/limits.h"
#include "sys/jobs.h"

struct store_upload;

/* `send` stores part `number` (from 1) and gives what the store calls it; LS_OK or a failure. */
struct store_upload *store_upload_new(struct ls_jobs *jobs,
                                      ls_err (*send)(void *ctx, size_t number, ls_span part,
                                                     char ret_etag[STORE_ETAG_TEXT_MAX]),
                                      void *ctx);
/* The next part; its memory is taken over. Waits while STORE_PARTS_AT_ONCE are on their way. What
 * an earlier one failed with, if any did; then this one is not sent. */
LS_MUST_USE ls_err store_upload_add(struct store_upload *u, struct ls_buf *part);
/* Waits for all; the first failure. */
LS_MUST_USE ls_err store_upload_wait(struct store_upload *u);
/* Of those added; names once the wait is over. */
size_t store_upload_count(const struct store_upload *u);
const char *store_upload_etag(const struct store_upload *u, size_t number);
/* Waits as well. Accepts NULL. */
void store_upload_free(struct store_upload *u);

/* meta/rebuild.h - making a database again: for `lakestream doctor rebuild`, on a store that serves
 * nobody.
 *
 * Begin from a backup (a copy of it: a run that was interrupted begins anew) or from nothing, then:
 *
 *   ls_meta_rebuild_witness   numbers that were given out must not be given out again
 *   ls_meta_rebuild_stream    streams that the backup does not have, by their old ids
 *   ls_meta_rebuild_wal       WAL objects that it does not have, in order of (epoch, sequence)
 *   ls_meta_rebuild_publish   data files: extents from the floor up; where the log is shorter than
 *                             its table, the log grows to what the table says
 *
 * and last ls_meta_check. Replay goes through the normal commit path: offsets come out as they
 * were, since they depend on the order only. Threads: one, with nothing else running. All block.
 */
#pragma once
#include "meta/meta.h"

struct ls_meta_witness {
        uint64_t commit; /* largest numbers seen anywhere; 0: none */
        uint64_t stream_id;
        uint64_t file_id;
        int64_t producer_id;
        int32_t broker; /* and, of this broker, the epoch */
        uint64_t epoch;
};
/* Raises what stands below; the epoch of the broker that opened the store, too, becomes a fresh one
 * above `epoch`, whoever's that is. When it is its own, all that this broker wrote counts as
 * committed from then on (ls_meta_watermark of the next opening). */
LS_MUST_USE ls_err ls_meta_rebuild_witness(struct ls_meta *m, const struct ls_meta_witness *w);

/* Gives a fresh database the cluster id of the installation that it is for. */
LS_MUST_USE ls_err ls_meta_rebuild_cluster(struct ls_meta *m, ls_uuid cluster_id);
/* Streams that were deleted and of which something is left. */
LS_MUST_USE ls_err ls_meta_gone_all(struct ls_meta *m,
                                    ls_err (*fn)(void *ctx, uint64_t stream_id, ls_uuid topic_id),
                                    void *ctx);

/* Inserts a stream with its id, topic id, leader epoch and settings as given. LS_EXISTS: id, topic
 * id or a name is taken. LS_INVALID. */
LS_MUST_USE ls_err ls_meta_rebuild_stream(struct ls_meta *m, const struct ls_meta_stream *stream);

/* Commits a WAL object of (broker, epoch) again; like ls_meta_wal_submit, but waits, and commit->op
 * is not used. The caller makes sure that the database does not have it. */
LS_MUST_USE ls_err ls_meta_rebuild_wal(struct ls_meta *m, int32_t broker, uint64_t epoch,
                                       struct ls_meta_wal_commit *commit);

/* Like ls_meta_table_publish, but a floor may be above the end of its partition: the records up to
 * it are taken as the log, with the sums and bytes of the extents; and the table's version becomes
 * `version` (above commit->version), as the metadata file has it. */
LS_MUST_USE ls_err ls_meta_rebuild_publish(struct ls_meta *m, struct ls_meta_table_commit *commit,
                                           uint64_t version, struct ls_errinfo *reterr);

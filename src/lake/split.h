/* lake/split.h - the data files of a partitioned table's commit: one open file a partition tuple.
 *
 * A range of offsets of a log partition lies in as many files as its rows have tuples. Its runs all
 * state the whole range and become one group of extents (meta/meta.h), so a range is closed in all
 * files at once: where the log partition ends, where the timestamp type changes, where a file is
 * large enough, and where the commit ends.
 *
 * Threads: one owner at a time.
 */
#pragma once
#include "formats/iceberg/types.h"
#include "lake/lake_int.h"

/* Tuples of one commit: each is an open file, and history merges as many to read a range. */
#define LAKE_TUPLES_MAX 256

struct lake_split;

/* Files are added to `change`, which outlives the split. `partitioning` is borrowed, with fields.
 */
LS_MUST_USE ls_err lake_split_new(struct ls_lake_stream *s, const struct ls_lake_spec *spec,
                                  const struct ls_iceberg_spec *partitioning,
                                  struct lake_change *change, struct lake_split **ret_split);
/* Accepts NULL. The files stay with the change. */
void lake_split_free(struct lake_split *sp);
/* Rows of `partition` follow, from offset `base` on. */
void lake_split_begin(struct lake_split *sp, int32_t partition, int64_t base);
/* Adds the records of a whole batch that lie in [from, to). LS_FULL: the record at *ret_next has a
 * tuple too many, those before it are in; end the range there and commit. LS_CORRUPT: the batch
 * does not decode, what was added is worth nothing. Borrowed until return. */
LS_MUST_USE ls_err lake_split_add(struct lake_split *sp, ls_span batch, int64_t from, int64_t to,
                                  bool log_append_time, int64_t *ret_next);
/* The rows of the partition end below `end`. */
void lake_split_end(struct lake_split *sp, int64_t end);
/* Makes all files durable. */
LS_MUST_USE ls_err lake_split_finish(struct lake_split *sp);
/* The change was committed, or given up: no file is open, no tuple known. */
void lake_split_reset(struct lake_split *sp);
